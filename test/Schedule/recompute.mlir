// RUN: heddle-opt %s --heddle-recompute=mode=layer | FileCheck %s --check-prefixes=CHECK,LAYER
// RUN: heddle-opt %s --heddle-recompute="mode=layer whole" | FileCheck %s --check-prefixes=CHECK,WHOLE
// RUN: heddle-opt %s --heddle-recompute=mode=communication | FileCheck %s --check-prefixes=CHECK,COMM
// RUN: heddle-opt %s --heddle-recompute=mode=none | FileCheck %s --check-prefix=NONE
// RUN: heddle-opt %s --heddle-recompute="mode=optimal memory=2000000" | FileCheck %s --check-prefix=NONE
// RUN: heddle-opt %s --heddle-recompute="mode=optimal memory=1600000" | FileCheck %s --check-prefix=SOME
// RUN: heddle-opt %s --heddle-recompute="mode=optimal memory=1000 report" -o %t 2>&1 | FileCheck %s --check-prefix=LEAST
// RUN: heddle-opt %s --heddle-recompute="mode=optimal memory=1000" -o %t 2>&1 | FileCheck %s --check-prefix=SILENT --allow-empty
// RUN: echo '{"version": 1, "name": "small", "levels": [{"name": "l", "count": 2, "latency": 1e-6, "bandwidth": 1e9}],' > %t.json
// RUN: echo '"device": {"kind": "d", "memory": 100000, "launch": 1e-6, "memory_bandwidth": 1e9, "peak": {"f32": 1e9}}}' >> %t.json
// RUN: heddle-opt %s --heddle-recompute="mode=optimal cluster=%t.json" -o %t 2>&1 | FileCheck %s --check-prefix=DEVICE
// RUN: not heddle-opt %s --heddle-recompute=mode=optimal 2>&1 | FileCheck %s --check-prefix=LIMIT
// RUN: heddle-opt %s --heddle-recompute="mode=layer report" -o %t 2>&1 | FileCheck %s --check-prefix=REPORT
// NONE-NOT: heddle.barrier
// SOME: heddle.barrier
// SOME-NOT: heddle.barrier
// LEAST: remark: @step needs {{[0-9]+}} bytes beside its variables, though all that can be is computed again; 1000 are stated
// DEVICE: warning: @step needs {{[0-9]+}} bytes beside its variables, though all that can be is computed again; 0 are left
// SILENT-NOT: needs
// LIMIT: error: expected the memory of a device, which limits what is kept: a cluster (--cluster), or a positive number of bytes
// REPORT: remark: @step computes {{[0-9]+}} of {{[0-9]+}} ops again, in 2 segments; that takes {{[0-9.]+}} ms by the cost model; before ops are fused, {{[0-9]+}} bytes are live at most, and {{[0-9]+}} without

heddle.mesh @mesh <["tp"=2]>
heddle.variable @u : tensor<64x64xf32> parameter init(zeros)
heddle.variable @v : tensor<64x64xf32> parameter init(zeros)

// Two layers y = x + sum(gelu(sum(x u)) v). The copies of the second layer stand
// before its backward pass, those of the first layer before its own. Of each
// layer x is kept, and gelu's operand is either computed again, with the sum, or
// kept. The last product and sum run again only if the whole layer does. No copy
// waits for the sum that brings its gradient.
// CHECK-LABEL: func.func @step
func.func @step(%x: tensor<1024x64xf32>, %l: tensor<1024x64xf32>)
    -> (tensor<f32> {heddle.role = #heddle.port_role<loss>}, tensor<64x64xf32>, tensor<64x64xf32>) {
  // CHECK: %[[U:.*]] = heddle.load @u
  %u = heddle.load @u : tensor<64x64xf32>
  %v = heddle.load @v : tensor<64x64xf32>
  %a = heddle.contract "a1" [bh, hf -> bf] %x, %u : (tensor<1024x64xf32>, tensor<64x64xf32>) -> tensor<1024x64xf32>
  // CHECK: %[[S:.*]] = comm.all_reduce
  %s = comm.all_reduce sum %a over @mesh <{"tp"}> : tensor<1024x64xf32>
  %g = heddle.gelu %s approximate(tanh) : tensor<1024x64xf32>
  %b = heddle.contract "b1" [bf, fh -> bh] %g, %v : (tensor<1024x64xf32>, tensor<64x64xf32>) -> tensor<1024x64xf32>
  // CHECK: comm.all_reduce
  %p = comm.all_reduce sum %b over @mesh <{"tp"}> : tensor<1024x64xf32>
  // CHECK: %[[Y:.*]] = arith.addf
  %y = arith.addf %x, %p : tensor<1024x64xf32>
  %a2 = heddle.contract "a2" [bh, hf -> bf] %y, %u : (tensor<1024x64xf32>, tensor<64x64xf32>) -> tensor<1024x64xf32>
  // CHECK: %[[S2:.*]] = comm.all_reduce
  %s2 = comm.all_reduce sum %a2 over @mesh <{"tp"}> : tensor<1024x64xf32>
  %g2 = heddle.gelu %s2 approximate(tanh) : tensor<1024x64xf32>
  %b2 = heddle.contract "b2" [bf, fh -> bh] %g2, %v : (tensor<1024x64xf32>, tensor<64x64xf32>) -> tensor<1024x64xf32>
  // CHECK: comm.all_reduce
  %p2 = comm.all_reduce sum %b2 over @mesh <{"tp"}> : tensor<1024x64xf32>
  %z = arith.addf %y, %p2 : tensor<1024x64xf32>
  %e = arith.subf %z, %l : tensor<1024x64xf32>
  %q = arith.mulf %e, %e : tensor<1024x64xf32>
  // CHECK: heddle.reduce
  %loss = heddle.reduce sum %q over [0, 1] : tensor<1024x64xf32> -> tensor<f32>
  // CHECK: %[[D:.*]] = arith.addf
  %d = arith.addf %e, %e : tensor<1024x64xf32>
  // CHECK: %[[DG2:.*]] = heddle.contract "b2" [bh, fh -> bf] %[[D]]
  %dg2 = heddle.contract "b2" [bh, fh -> bf] %d, %v : (tensor<1024x64xf32>, tensor<64x64xf32>) -> tensor<1024x64xf32>
  // LAYER: %[[B:.*]] = heddle.barrier %[[Y]] after %[[D]]
  // LAYER-NEXT: %[[A2:.*]] = heddle.contract "a2" [bh, hf -> bf] %[[B]], %[[U]]
  // LAYER-NEXT: %[[C2:.*]] = comm.all_reduce sum %[[A2]]
  // LAYER-NEXT: %[[G2:.*]] = heddle.gelu %[[C2]]
  // WHOLE: heddle.contract "a2"
  // WHOLE-NEXT: %[[C2:.*]] = comm.all_reduce
  // WHOLE-NEXT: %[[G2:.*]] = heddle.gelu %[[C2]]
  // WHOLE-NEXT: %[[B2:.*]] = heddle.contract "b2" [bf, fh -> bh] %[[G2]]
  // WHOLE-NEXT: comm.all_reduce sum %[[B2]]
  // COMM: %[[C2:.*]] = heddle.barrier %[[S2]] after %[[D]]
  // COMM-NEXT: %[[G2:.*]] = heddle.gelu %[[C2]]
  // CHECK-NEXT: heddle.contract "b2" [bf, bh -> fh] %[[G2]], %[[D]]
  %dv2 = heddle.contract "b2" [bf, bh -> fh] %g2, %d : (tensor<1024x64xf32>, tensor<1024x64xf32>) -> tensor<64x64xf32>
  // LAYER-NEXT: heddle.gelu_grad %[[C2]], %[[DG2]]
  // WHOLE-NEXT: heddle.gelu_grad %[[C2]], %[[DG2]]
  // COMM-NEXT: heddle.gelu_grad %[[S2]], %[[DG2]]
  %ds2 = heddle.gelu_grad %s2, %dg2 approximate(tanh) : tensor<1024x64xf32>
  // CHECK: %[[DX2:.*]] = heddle.contract "a2" [bf, hf -> bh]
  // CHECK: %[[DS2:.*]] = comm.all_reduce sum %[[DX2]]
  %dx2 = heddle.contract "a2" [bf, hf -> bh] %ds2, %u : (tensor<1024x64xf32>, tensor<64x64xf32>) -> tensor<1024x64xf32>
  %t2 = comm.all_reduce sum %dx2 over @mesh <{"tp"}> : tensor<1024x64xf32>
  // LAYER: heddle.barrier %{{.*}} after %[[DX2]]
  // LAYER-NEXT: heddle.contract "a1"
  // LAYER-NEXT: %[[C:.*]] = comm.all_reduce
  // LAYER-NEXT: %[[G:.*]] = heddle.gelu %[[C]]
  // LAYER-NEXT: heddle.contract "b1" [bf, bh -> fh] %[[G]], %[[DS2]]
  // COMM: %[[C:.*]] = heddle.barrier %[[S]] after %[[DX2]]
  // COMM-NEXT: %[[G:.*]] = heddle.gelu %[[C]]
  // COMM-NEXT: heddle.contract "b1" [bf, bh -> fh] %[[G]], %[[DS2]]
  %dv1 = heddle.contract "b1" [bf, bh -> fh] %g, %t2 : (tensor<1024x64xf32>, tensor<1024x64xf32>) -> tensor<64x64xf32>
  %dg1 = heddle.contract "b1" [bh, fh -> bf] %t2, %v : (tensor<1024x64xf32>, tensor<64x64xf32>) -> tensor<1024x64xf32>
  %ds1 = heddle.gelu_grad %s, %dg1 approximate(tanh) : tensor<1024x64xf32>
  %du = heddle.contract "a1" [bh, bf -> hf] %x, %ds1 : (tensor<1024x64xf32>, tensor<1024x64xf32>) -> tensor<64x64xf32>
  %dv = arith.addf %dv1, %dv2 : tensor<64x64xf32>
  // CHECK: return
  return %loss, %dv, %du : tensor<f32>, tensor<64x64xf32>, tensor<64x64xf32>
}
