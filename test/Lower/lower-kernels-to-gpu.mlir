// RUN: heddle-opt %s --heddle-lower-kernels-to-gpu | FileCheck %s
// RUN: heddle-opt %s --heddle-lower-kernels-to-gpu=rows=thread | FileCheck %s --check-prefix=THREAD
// RUN: not heddle-opt %s --heddle-lower-kernels-to-gpu=rows=grid 2>&1 | FileCheck %s --check-prefix=ROWS

// ROWS: rows: expected auto, thread, warp or block, got 'grid'

#id1 = affine_map<(d0) -> (d0)>
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

module attributes {heddle.target_gpu = "sm_80"} {

// Threads take four adjacent elements. 1056 elements are two chunks for blocks
// of their own, the last of which is not full.
// CHECK-LABEL: llvm.func @scale(
// CHECK-SAME: %{{.*}}: !llvm.ptr<1> {llvm.dereferenceable = 4224 : i64}, %{{.*}}: !llvm.ptr<1>
// CHECK-SAME: nvvm.kernel
// CHECK-SAME: rt.work = #rt.work<flops = 1056, bytes = 8448>
// CHECK: nvvm.read.ptx.sreg.ctaid.x
// CHECK: nvvm.read.ptx.sreg.tid.x
// CHECK: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK: llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
// CHECK-NOT: nvvm.barrier0
func.func private @scale(%x: tensor<1056xf32>) -> tensor<1056xf32> attributes {heddle.kernel, heddle.row_dims = 1 : i64} {
  %e = tensor.empty() : tensor<1056xf32>
  %y = linalg.generic {indexing_maps = [#id1, #id1], iterator_types = ["parallel"]}
      ins(%x : tensor<1056xf32>) outs(%e : tensor<1056xf32>) {
  ^bb0(%in: f32, %out: f32):
    %c = arith.constant 3.0 : f32
    %m = arith.mulf %in, %c : f32
    linalg.yield %m : f32
  } -> tensor<1056xf32>
  return %y : tensor<1056xf32>
}

// A warp sums a short row by shuffles. The exponentials stay in registers: no
// shared memory and no barrier.
// CHECK-LABEL: llvm.func @softmax
// CHECK-SAME: nvvm.reqntid = array<i32: 128>
// CHECK: nvvm.shfl.sync
// CHECK-NOT: nvvm.bar
// CHECK: llvm.return
// One thread for a row needs no shuffle.
// THREAD-LABEL: llvm.func @softmax
// THREAD-NOT: nvvm.shfl.sync
// THREAD: llvm.return
func.func private @softmax(%x: tensor<9x64xbf16>) -> tensor<9x64xbf16> attributes {heddle.kernel, heddle.row_dims = 1 : i64} {
  %e0 = tensor.empty() : tensor<9x64xf32>
  %exps = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<9x64xbf16>) outs(%e0 : tensor<9x64xf32>) {
  ^bb0(%in: bf16, %out: f32):
    %w = arith.extf %in : bf16 to f32
    %m = math.exp %w : f32
    linalg.yield %m : f32
  } -> tensor<9x64xf32>
  %zero = arith.constant 0.0 : f32
  %e1 = tensor.empty() : tensor<9xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<9xf32>) -> tensor<9xf32>
  %sum = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%exps : tensor<9x64xf32>) outs(%f1 : tensor<9xf32>) {
  ^bb0(%in: f32, %out: f32):
    %m = arith.addf %out, %in : f32
    linalg.yield %m : f32
  } -> tensor<9xf32>
  %e2 = tensor.empty() : tensor<9x64xbf16>
  %y = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%exps, %sum : tensor<9x64xf32>, tensor<9xf32>) outs(%e2 : tensor<9x64xbf16>) {
  ^bb0(%in: f32, %s: f32, %out: bf16):
    %m = arith.divf %in, %s : f32
    %t = arith.truncf %m : f32 to bf16
    linalg.yield %t : bf16
  } -> tensor<9x64xbf16>
  return %y : tensor<9x64xbf16>
}

// The result may lie in the operand's buffer, and the row is read backwards by
// other threads before it is overwritten: values pass through shared memory,
// with one barrier.
// CHECK-LABEL: llvm.func @reverse
// CHECK: nvvm.barrier0
// CHECK-NOT: nvvm.barrier0
// CHECK: llvm.return
// THREAD-LABEL: llvm.func @reverse
// THREAD-NOT: nvvm.bar
// THREAD: llvm.return
func.func private @reverse(%x: tensor<4x4096xf32>) -> tensor<4x4096xf32> attributes {heddle.kernel, heddle.row_dims = 1 : i64} {
  %e = tensor.empty() : tensor<4x4096xf32>
  %sq = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x4096xf32>) outs(%e : tensor<4x4096xf32>) {
  ^bb0(%in: f32, %out: f32):
    %m = math.exp %in : f32
    linalg.yield %m : f32
  } -> tensor<4x4096xf32>
  %e2 = tensor.empty() : tensor<4x4096xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, 4095 - d1)>, #id], iterator_types = ["parallel", "parallel"]}
      ins(%sq : tensor<4x4096xf32>) outs(%e2 : tensor<4x4096xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<4x4096xf32>
  return %y : tensor<4x4096xf32>
}

// A sine of f64 is an expansion: no intrinsic that NVPTX cannot select.
// CHECK-LABEL: llvm.func @sine
// CHECK-NOT: llvm.intr.sin
// CHECK: llvm.intr.roundeven
// CHECK: llvm.return
func.func private @sine(%x: tensor<64xf64>) -> tensor<64xf64> attributes {heddle.kernel, heddle.row_dims = 1 : i64} {
  %e = tensor.empty() : tensor<64xf64>
  %y = linalg.generic {indexing_maps = [#id1, #id1], iterator_types = ["parallel"]}
      ins(%x : tensor<64xf64>) outs(%e : tensor<64xf64>) {
  ^bb0(%in: f64, %out: f64):
    %m = math.sin %in : f64
    linalg.yield %m : f64
  } -> tensor<64xf64>
  return %y : tensor<64xf64>
}
}
