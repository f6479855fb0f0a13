// RUN: heddle-opt %s --heddle-recompute=mode=layer | FileCheck %s

// Three equal layers whose weights of 4 MiB are stored in quarters: gathers over
// "tp" of gathers over "dp". The backward pass gathers two of the weights, too. The
// copies take the place of these gathers, of the inner ones, too. So the backward
// pass gathers each weight once.

heddle.mesh @mesh <["dp"=2, "tp"=2]>
heddle.variable @u : tensor<256x1024xf32> parameter init(zeros)
heddle.variable @v : tensor<256x1024xf32> parameter init(zeros)
heddle.variable @w : tensor<256x1024xf32> parameter init(zeros)

// CHECK-LABEL: func.func @step
func.func @step(%x: tensor<256x1024xf32>, %l: tensor<256x1024xf32>)
    -> (tensor<f32> {heddle.role = #heddle.port_role<loss>}, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>) {
  // CHECK: %[[U:.*]] = heddle.load @u
  %u = heddle.load @u : tensor<256x1024xf32>
  // CHECK: %[[V:.*]] = heddle.load @v
  %v = heddle.load @v : tensor<256x1024xf32>
  // CHECK: %[[W:.*]] = heddle.load @w
  %w = heddle.load @w : tensor<256x1024xf32>
  %hu = comm.all_gather %u dim 0 over @mesh <{"dp"}> : tensor<256x1024xf32> -> tensor<512x1024xf32>
  %gu = comm.all_gather %hu dim 0 over @mesh <{"tp"}> : tensor<512x1024xf32> -> tensor<1024x1024xf32>
  %au = heddle.contract "u" [bh, hf -> bf] %x, %gu : (tensor<256x1024xf32>, tensor<1024x1024xf32>) -> tensor<256x1024xf32>
  %yu = heddle.gelu %au approximate(tanh) : tensor<256x1024xf32>
  %hv = comm.all_gather %v dim 0 over @mesh <{"dp"}> : tensor<256x1024xf32> -> tensor<512x1024xf32>
  %gv = comm.all_gather %hv dim 0 over @mesh <{"tp"}> : tensor<512x1024xf32> -> tensor<1024x1024xf32>
  %av = heddle.contract "v" [bh, hf -> bf] %yu, %gv : (tensor<256x1024xf32>, tensor<1024x1024xf32>) -> tensor<256x1024xf32>
  %yv = heddle.gelu %av approximate(tanh) : tensor<256x1024xf32>
  %hw = comm.all_gather %w dim 0 over @mesh <{"dp"}> : tensor<256x1024xf32> -> tensor<512x1024xf32>
  %gw = comm.all_gather %hw dim 0 over @mesh <{"tp"}> : tensor<512x1024xf32> -> tensor<1024x1024xf32>
  %aw = heddle.contract "w" [bh, hf -> bf] %yv, %gw : (tensor<256x1024xf32>, tensor<1024x1024xf32>) -> tensor<256x1024xf32>
  %yw = heddle.gelu %aw approximate(tanh) : tensor<256x1024xf32>
  %e = arith.subf %yw, %l : tensor<256x1024xf32>
  %q = arith.mulf %e, %e : tensor<256x1024xf32>
  %loss = heddle.reduce sum %q over [0, 1] : tensor<256x1024xf32> -> tensor<f32>
  // CHECK: arith.addf
  %d = arith.addf %e, %e : tensor<256x1024xf32>
  // CHECK: %[[BW:.*]] = heddle.barrier %[[W]] : tensor<256x1024xf32>
  // CHECK-NEXT: %[[IW:.*]] = comm.all_gather %[[BW]] dim 0 over @mesh <{"dp"}>
  // CHECK-NEXT: %[[GW:.*]] = comm.all_gather %[[IW]] dim 0 over @mesh <{"tp"}>
  // CHECK-NEXT: heddle.contract "w" [bh, hf -> bf] {{.*}}, %[[GW]]
  // CHECK-NOT: comm.all_gather
  // CHECK: heddle.contract "w" [bf, hf -> bh] {{.*}}, %[[GW]]
  // CHECK: %[[BV:.*]] = heddle.barrier %[[V]] : tensor<256x1024xf32>
  // CHECK-NEXT: %[[IV:.*]] = comm.all_gather %[[BV]] dim 0 over @mesh <{"dp"}>
  // CHECK-NEXT: %[[GV:.*]] = comm.all_gather %[[IV]] dim 0 over @mesh <{"tp"}>
  // CHECK-NEXT: heddle.contract "v" [bh, hf -> bf] {{.*}}, %[[GV]]
  // CHECK-NOT: comm.all_gather
  // CHECK: heddle.contract "v" [bf, hf -> bh] {{.*}}, %[[GV]]
  // CHECK: %[[BU:.*]] = heddle.barrier %[[U]] : tensor<256x1024xf32>
  // CHECK-NEXT: %[[IU:.*]] = comm.all_gather %[[BU]] dim 0 over @mesh <{"dp"}>
  // CHECK-NEXT: %[[GU:.*]] = comm.all_gather %[[IU]] dim 0 over @mesh <{"tp"}>
  // CHECK-NEXT: heddle.contract "u" [bh, hf -> bf] {{.*}}, %[[GU]]
  // CHECK-NOT: comm.all_gather
  %daw = heddle.gelu_grad %aw, %d approximate(tanh) : tensor<256x1024xf32>
  %dww = heddle.contract "w" pass(wgrad) [bh, bf -> hf] %yv, %daw : (tensor<256x1024xf32>, tensor<256x1024xf32>) -> tensor<1024x1024xf32>
  %iw = comm.all_gather %w dim 0 over @mesh <{"dp"}> : tensor<256x1024xf32> -> tensor<512x1024xf32>
  %bw = comm.all_gather %iw dim 0 over @mesh <{"tp"}> : tensor<512x1024xf32> -> tensor<1024x1024xf32>
  %dw = heddle.contract "w" [bf, hf -> bh] %daw, %bw : (tensor<256x1024xf32>, tensor<1024x1024xf32>) -> tensor<256x1024xf32>
  %dav = heddle.gelu_grad %av, %dw approximate(tanh) : tensor<256x1024xf32>
  %dwv = heddle.contract "v" pass(wgrad) [bh, bf -> hf] %yu, %dav : (tensor<256x1024xf32>, tensor<256x1024xf32>) -> tensor<1024x1024xf32>
  %iv = comm.all_gather %v dim 0 over @mesh <{"dp"}> : tensor<256x1024xf32> -> tensor<512x1024xf32>
  %bv = comm.all_gather %iv dim 0 over @mesh <{"tp"}> : tensor<512x1024xf32> -> tensor<1024x1024xf32>
  %dv = heddle.contract "v" [bf, hf -> bh] %dav, %bv : (tensor<256x1024xf32>, tensor<1024x1024xf32>) -> tensor<256x1024xf32>
  %dau = heddle.gelu_grad %au, %dv approximate(tanh) : tensor<256x1024xf32>
  %dwu = heddle.contract "u" pass(wgrad) [bh, bf -> hf] %x, %dau : (tensor<256x1024xf32>, tensor<256x1024xf32>) -> tensor<1024x1024xf32>
  // CHECK: return
  return %loss, %dwu, %dwv, %dww : tensor<f32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>
}
