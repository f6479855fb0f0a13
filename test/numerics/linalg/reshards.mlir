// A tensor of 7 x 10, which the axes of 2 and 3 do not divide, goes from one
// sharding to the next: gathered, split, exchanged, permuted, split by two axes.
// Partial sums and maxima are reduced and scattered.
heddle.mesh @mesh <["x"=2, "y"=3]>

func.func @main(
    %input: tensor<7x10xf32> {heddle.name = "input", heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>},
    %left: tensor<7x12xf32> {heddle.name = "left", heddle.sharding = #heddle.sharding<@mesh, [{}, {"x", "y"}]>},
    %right: tensor<12x10xf32> {heddle.name = "right", heddle.sharding = #heddle.sharding<@mesh, [{"x", "y"}, {}]>})
    -> (tensor<7x10xf32> {heddle.name = "moved", heddle.sharding = #heddle.sharding<@mesh, [{}, {"y", "x"}]>},
        tensor<7x10xf32> {heddle.name = "whole", heddle.sharding = #heddle.sharding<@mesh, [{}, {}]>},
        tensor<7x10xf32> {heddle.name = "scattered", heddle.sharding = #heddle.sharding<@mesh, [{"y"}, {"x"}]>},
        tensor<7x10xf32> {heddle.name = "one_axis", heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>},
        tensor<7xf32> {heddle.name = "largest", heddle.sharding = #heddle.sharding<@mesh, [{"y", "x"}]>}) {
  %0 = arith.addf %input, %input {heddle.pin = #heddle.sharding<@mesh, [{"y"}, {}]>} : tensor<7x10xf32>
  %1 = arith.mulf %0, %0 {heddle.pin = #heddle.sharding<@mesh, [{"x", "y"}, {}]>} : tensor<7x10xf32>
  %2 = math.tanh %1 {heddle.pin = #heddle.sharding<@mesh, [{"y", "x"}, {}]>} : tensor<7x10xf32>
  %3 = arith.addf %2, %2 {heddle.pin = #heddle.sharding<@mesh, [{}, {"x", "y"}]>} : tensor<7x10xf32>
  %4 = arith.mulf %3, %3 {heddle.pin = #heddle.sharding<@mesh, [{"y"}, {"x"}]>} : tensor<7x10xf32>
  %5 = math.tanh %4 {heddle.pin = #heddle.sharding<@mesh, [{"x"}, {"y"}]>} : tensor<7x10xf32>
  %6 = arith.addf %5, %5 {heddle.pin = #heddle.sharding<@mesh, [{}, {"y"}]>} : tensor<7x10xf32>
  %7 = arith.mulf %6, %6 {heddle.pin = #heddle.sharding<@mesh, [{}, {"x"}]>} : tensor<7x10xf32>
  %8 = math.tanh %7 {heddle.pin = #heddle.sharding<@mesh, [{"y"}, {}]>} : tensor<7x10xf32>
  %9 = arith.addf %8, %8 {heddle.pin = #heddle.sharding<@mesh, [{"x"}, {}]>} : tensor<7x10xf32>

  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<7x10xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e : tensor<7x10xf32>) -> tensor<7x10xf32>
  %p = linalg.matmul ins(%left, %right : tensor<7x12xf32>, tensor<12x10xf32>) outs(%start : tensor<7x10xf32>) -> tensor<7x10xf32>
  %q = linalg.matmul ins(%left, %right : tensor<7x12xf32>, tensor<12x10xf32>) outs(%start : tensor<7x10xf32>) -> tensor<7x10xf32>
  %r = linalg.matmul ins(%left, %right : tensor<7x12xf32>, tensor<12x10xf32>) outs(%start : tensor<7x10xf32>) -> tensor<7x10xf32>
  %lowest = arith.constant 0xFF800000 : f32
  %e7 = tensor.empty() : tensor<7xf32>
  %low = linalg.fill ins(%lowest : f32) outs(%e7 : tensor<7xf32>) -> tensor<7xf32>
  %max = linalg.reduce { arith.maximumf } ins(%left : tensor<7x12xf32>) outs(%low : tensor<7xf32>) dimensions = [1]
  return %9, %p, %q, %r, %max : tensor<7x10xf32>, tensor<7x10xf32>, tensor<7x10xf32>, tensor<7x10xf32>, tensor<7xf32>
}
