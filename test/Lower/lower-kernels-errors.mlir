// RUN: heddle-opt %s --heddle-lower-kernels --split-input-file --verify-diagnostics

// expected-error@+1 {{expected an attribute 'heddle.row_dims'}}
func.func private @no_rows(%x: tensor<4xf32>) -> tensor<4xf32> attributes {heddle.kernel} {
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func private @foreign_op(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {heddle.kernel, heddle.row_dims = 1 : i64} {
  // expected-error@+1 {{expected linalg.generic or heddle.reduce_blocks in a kernel}}
  %y = heddle.silu %x : tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}

// -----

func.func private @across_rows(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {heddle.kernel, heddle.row_dims = 1 : i64} {
  %e = tensor.empty() : tensor<4x4xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<4x4xf32>
  // expected-error@+1 {{expected operands that the kernel produces to be read in their own row}}
  %z = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%y : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<4x4xf32>
  return %z : tensor<4x4xf32>
}

// -----

func.func @program(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = call @still_called(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
// expected-error@+1 {{expected launches of the kernel instead of func.call before it is lowered}}
func.func private @still_called(%x: tensor<4xf32>) -> tensor<4xf32> attributes {heddle.kernel, heddle.row_dims = 1 : i64} {
  return %x : tensor<4xf32>
}

// -----

// The tensor that one loop hands to the next lies on a thread's stack.
func.func private @long_row(%x: tensor<2x600000xf32>) -> tensor<2x600000xbf16> attributes {heddle.kernel, heddle.row_dims = 1 : i64} {
  %e = tensor.empty() : tensor<2x600000xf32>
  // expected-error@+1 {{expected a row of at most 524288 elements between the loops of a kernel, got 600000}}
  %exps = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<2x600000xf32>) outs(%e : tensor<2x600000xf32>) {
  ^bb0(%in: f32, %out: f32):
    %m = math.exp %in : f32
    linalg.yield %m : f32
  } -> tensor<2x600000xf32>
  %zero = arith.constant 0.0 : f32
  %e1 = tensor.empty() : tensor<2xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<2xf32>) -> tensor<2xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
      ins(%exps : tensor<2x600000xf32>) outs(%f1 : tensor<2xf32>) {
  ^bb0(%in: f32, %out: f32):
    %m = arith.addf %out, %in : f32
    linalg.yield %m : f32
  } -> tensor<2xf32>
  %e2 = tensor.empty() : tensor<2x600000xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%exps, %sum : tensor<2x600000xf32>, tensor<2xf32>) outs(%e2 : tensor<2x600000xbf16>) {
  ^bb0(%in: f32, %s: f32, %out: bf16):
    %m = arith.divf %in, %s : f32
    %t = arith.truncf %m : f32 to bf16
    linalg.yield %t : bf16
  } -> tensor<2x600000xbf16>
  return %y : tensor<2x600000xbf16>
}

// -----

func.func private @eight_bits(%x: tensor<4xf32>) -> tensor<4xf32> attributes {heddle.kernel, heddle.row_dims = 1 : i64} {
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    // expected-error@+1 {{expected numbers of f64, f32, bf16 or f16 in a kernel}}
    %0 = arith.truncf %in : f32 to f8E4M3FN
    %1 = arith.extf %0 : f8E4M3FN to f32
    linalg.yield %1 : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}
