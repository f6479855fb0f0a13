// RUN: heddle-opt %s --heddle-recompute=mode=layer | FileCheck %s
// RUN: heddle-opt %s --heddle-recompute="mode=layer report" -o %t 2>&1 | FileCheck %s --check-prefix=BYTES
// RUN: heddle-opt %s --heddle-recompute="mode=optimal memory=13000000" | FileCheck %s --check-prefix=NONE
// RUN: heddle-opt %s --heddle-recompute="mode=optimal memory=20000000 depth=3" | FileCheck %s --check-prefix=FITS
// RUN: heddle-opt %s --heddle-recompute="mode=optimal memory=20000000 depth=3 exceeds" | FileCheck %s --check-prefixes=EXCEEDS,NONE

// Three layers whose weights of 4 MiB are stored in halves by two devices. The
// gradients are scattered behind the backward pass. A schedule scatters each as
// soon as it is known, so they are not live together: that would take 12 MiB
// beside the other values.
// BYTES: bytes are live at most, and 11534340 without
// NONE-NOT: heddle.barrier

// The program stands for one with three times as many layers. Its segments keep
// 5 MiB, or 2 MiB if each layer is computed again: this counts twice beside the
// 11 and 14 MiB that this program takes. One choice fits, the other one exceeds
// the memory and copies nothing.
// FITS: schedule.live_bytes = 18874372 : i64
// FITS-COUNT-6: heddle.barrier
// FITS-NOT: heddle.barrier
// EXCEEDS: schedule.live_bytes = 22020100 : i64

heddle.mesh @mesh <["dp"=2]>
heddle.variable @u : tensor<512x1024xf32> parameter init(zeros)
heddle.variable @v : tensor<512x1024xf32> parameter init(zeros)
heddle.variable @w : tensor<512x1024xf32> parameter init(zeros)

// The copy of a gather waits for no gradient, so schedules may let it run ahead.
// CHECK-LABEL: func.func @step
func.func @step(%x: tensor<256x1024xf32>, %l: tensor<256x1024xf32>)
    -> (tensor<f32> {heddle.role = #heddle.port_role<loss>}, tensor<512x1024xf32>, tensor<512x1024xf32>, tensor<512x1024xf32>) {
  // CHECK: %[[U:.*]] = heddle.load @u
  %u = heddle.load @u : tensor<512x1024xf32>
  %v = heddle.load @v : tensor<512x1024xf32>
  %w = heddle.load @w : tensor<512x1024xf32>
  %gu = comm.all_gather %u dim 0 over @mesh <{"dp"}> : tensor<512x1024xf32> -> tensor<1024x1024xf32>
  %au = heddle.contract "u" [bh, hf -> bf] %x, %gu : (tensor<256x1024xf32>, tensor<1024x1024xf32>) -> tensor<256x1024xf32>
  %yu = heddle.gelu %au approximate(tanh) : tensor<256x1024xf32>
  %gv = comm.all_gather %v dim 0 over @mesh <{"dp"}> : tensor<512x1024xf32> -> tensor<1024x1024xf32>
  %av = heddle.contract "v" [bh, hf -> bf] %yu, %gv : (tensor<256x1024xf32>, tensor<1024x1024xf32>) -> tensor<256x1024xf32>
  %yv = heddle.gelu %av approximate(tanh) : tensor<256x1024xf32>
  %gw = comm.all_gather %w dim 0 over @mesh <{"dp"}> : tensor<512x1024xf32> -> tensor<1024x1024xf32>
  %aw = heddle.contract "w" [bh, hf -> bf] %yv, %gw : (tensor<256x1024xf32>, tensor<1024x1024xf32>) -> tensor<256x1024xf32>
  %yw = heddle.gelu %aw approximate(tanh) : tensor<256x1024xf32>
  %e = arith.subf %yw, %l : tensor<256x1024xf32>
  %q = arith.mulf %e, %e : tensor<256x1024xf32>
  %loss = heddle.reduce sum %q over [0, 1] : tensor<256x1024xf32> -> tensor<f32>
  %d = arith.addf %e, %e : tensor<256x1024xf32>
  %daw = heddle.gelu_grad %aw, %d approximate(tanh) : tensor<256x1024xf32>
  %dww = heddle.contract "w" pass(wgrad) [bh, bf -> hf] %yv, %daw : (tensor<256x1024xf32>, tensor<256x1024xf32>) -> tensor<1024x1024xf32>
  %bw = comm.all_gather %w dim 0 over @mesh <{"dp"}> : tensor<512x1024xf32> -> tensor<1024x1024xf32>
  %dw = heddle.contract "w" [bf, hf -> bh] %daw, %bw : (tensor<256x1024xf32>, tensor<1024x1024xf32>) -> tensor<256x1024xf32>
  %dav = heddle.gelu_grad %av, %dw approximate(tanh) : tensor<256x1024xf32>
  %dwv = heddle.contract "v" pass(wgrad) [bh, bf -> hf] %yu, %dav : (tensor<256x1024xf32>, tensor<256x1024xf32>) -> tensor<1024x1024xf32>
  %bv = comm.all_gather %v dim 0 over @mesh <{"dp"}> : tensor<512x1024xf32> -> tensor<1024x1024xf32>
  %dv = heddle.contract "v" [bf, hf -> bh] %dav, %bv : (tensor<256x1024xf32>, tensor<1024x1024xf32>) -> tensor<256x1024xf32>
  %dau = heddle.gelu_grad %au, %dv approximate(tanh) : tensor<256x1024xf32>
  %dwu = heddle.contract "u" pass(wgrad) [bh, bf -> hf] %x, %dau : (tensor<256x1024xf32>, tensor<256x1024xf32>) -> tensor<1024x1024xf32>
  // CHECK: heddle.barrier {{.*}} after
  // CHECK: %[[B:.*]] = heddle.barrier %[[U]] : tensor<512x1024xf32>
  // CHECK-NEXT: comm.all_gather %[[B]]
  // CHECK: comm.reduce_scatter
  %su = comm.reduce_scatter sum %dwu dim 0 over @mesh <{"dp"}> : tensor<1024x1024xf32> -> tensor<512x1024xf32>
  %sv = comm.reduce_scatter sum %dwv dim 0 over @mesh <{"dp"}> : tensor<1024x1024xf32> -> tensor<512x1024xf32>
  %sw = comm.reduce_scatter sum %dww dim 0 over @mesh <{"dp"}> : tensor<1024x1024xf32> -> tensor<512x1024xf32>
  return %loss, %su, %sv, %sw : tensor<f32>, tensor<512x1024xf32>, tensor<512x1024xf32>, tensor<512x1024xf32>
}
