// The threads of a block, and what is unrolled, follow from the registers that a
// thread needs.
//
// RUN: heddle-opt %s --split-input-file --heddle-lower-kernels-to-gpu | FileCheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

// Two sums of 12288 columns stay in registers over the rows of a block. Their
// loop must be unrolled, and 128 registers, those of 512 threads, are too few
// for that.
// CHECK-LABEL: llvm.func @keeps_sums(
// CHECK-SAME: nvvm.minctasm = 1
// CHECK-SAME: nvvm.reqntid = array<i32: 256>
module attributes {heddle.target_gpu = "sm_80"} {
  func.func private @keeps_sums(%x: tensor<2048x12288xbf16>, %y: tensor<2048x12288xf32>, %z: tensor<2048x12288xf32>)
      -> (tensor<256x12288xf32>, tensor<256x12288xf32>)
      attributes {heddle.blocks = 256 : i64, heddle.grain = 1 : i64, heddle.inplace = [array<i64>, array<i64>],
                  heddle.kernel, heddle.row_dims = 1 : i64} {
    %empty = tensor.empty() : tensor<2048x12288xf32>
    %wide = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
        ins(%x : tensor<2048x12288xbf16>) outs(%empty : tensor<2048x12288xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %0 = arith.extf %in : bf16 to f32
      linalg.yield %0 : f32
    } -> tensor<2048x12288xf32>
    %product = linalg.generic {indexing_maps = [#id, #id, #id, #id], iterator_types = ["parallel", "parallel"]}
        ins(%wide, %y, %z : tensor<2048x12288xf32>, tensor<2048x12288xf32>, tensor<2048x12288xf32>) outs(%empty : tensor<2048x12288xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32, %out: f32):
      %0 = arith.mulf %a, %b : f32
      %1 = arith.mulf %0, %c : f32
      linalg.yield %1 : f32
    } -> tensor<2048x12288xf32>
    %0 = heddle.reduce_blocks sum %product rows(1) block(8) : tensor<2048x12288xf32> -> tensor<256x12288xf32>
    %1 = heddle.reduce_blocks sum %wide rows(1) block(8) : tensor<2048x12288xf32> -> tensor<256x12288xf32>
    return %0, %1 : tensor<256x12288xf32>, tensor<256x12288xf32>
  }
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

// Three iterations that load four elements each are unrolled.
// CHECK: #[[UNROLL:.*]] = #llvm.loop_unroll<full = true>
// CHECK-LABEL: llvm.func @one_tensor(
// CHECK-SAME: nvvm.reqntid = array<i32: 512>
module attributes {heddle.target_gpu = "sm_80"} {
  func.func private @one_tensor(%a: tensor<2048x6144xf32>) -> tensor<2048xf32>
      attributes {heddle.blocks = 2048 : i64, heddle.grain = 1 : i64, heddle.inplace = [array<i64>],
                  heddle.kernel, heddle.row_dims = 1 : i64} {
    %zero = arith.constant 0.0 : f32
    %empty = tensor.empty() : tensor<2048xf32>
    %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<2048xf32>) -> tensor<2048xf32>
    %0 = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
        ins(%a : tensor<2048x6144xf32>) outs(%start : tensor<2048xf32>) {
    ^bb0(%in: f32, %out: f32):
      %1 = arith.addf %out, %in : f32
      linalg.yield %1 : f32
    } -> tensor<2048xf32>
    return %0 : tensor<2048xf32>
  }
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

// The same loop over eight tensors, of which 128 registers hold two iterations,
// is not.
// CHECK-NOT: llvm.loop_unroll
// CHECK-LABEL: llvm.func @eight_tensors(
// CHECK-SAME: nvvm.reqntid = array<i32: 512>
module attributes {heddle.target_gpu = "sm_80"} {
  func.func private @eight_tensors(%a: tensor<2048x6144xf32>, %b: tensor<2048x6144xf32>, %c: tensor<2048x6144xf32>,
                                   %d: tensor<2048x6144xf32>, %e: tensor<2048x6144xf32>, %f: tensor<2048x6144xf32>,
                                   %g: tensor<2048x6144xf32>, %h: tensor<2048x6144xf32>) -> tensor<2048xf32>
      attributes {heddle.blocks = 2048 : i64, heddle.grain = 1 : i64, heddle.inplace = [array<i64>],
                  heddle.kernel, heddle.row_dims = 1 : i64} {
    %zero = arith.constant 0.0 : f32
    %empty = tensor.empty() : tensor<2048xf32>
    %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<2048xf32>) -> tensor<2048xf32>
    %0 = linalg.generic {indexing_maps = [#id, #id, #id, #id, #id, #id, #id, #id, #row], iterator_types = ["parallel", "reduction"]}
        ins(%a, %b, %c, %d, %e, %f, %g, %h : tensor<2048x6144xf32>, tensor<2048x6144xf32>, tensor<2048x6144xf32>, tensor<2048x6144xf32>,
            tensor<2048x6144xf32>, tensor<2048x6144xf32>, tensor<2048x6144xf32>, tensor<2048x6144xf32>)
        outs(%start : tensor<2048xf32>) {
    ^bb0(%i: f32, %j: f32, %k: f32, %l: f32, %m: f32, %n: f32, %o: f32, %p: f32, %out: f32):
      %1 = arith.mulf %i, %j : f32
      %2 = arith.mulf %1, %k : f32
      %3 = arith.mulf %2, %l : f32
      %4 = arith.mulf %3, %m : f32
      %5 = arith.mulf %4, %n : f32
      %6 = arith.mulf %5, %o : f32
      %7 = arith.mulf %6, %p : f32
      %8 = arith.addf %out, %7 : f32
      linalg.yield %8 : f32
    } -> tensor<2048xf32>
    return %0 : tensor<2048xf32>
  }
}
