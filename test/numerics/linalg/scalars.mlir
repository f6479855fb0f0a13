// Scalars: as argument and result of the program, as operands of structured ops,
// and as values that their bodies take from outside.
heddle.mesh @mesh <["x"=2, "y"=2]>

func.func @main(
    %input: tensor<5x6xf32> {heddle.name = "input", heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {"y"}]>},
    %scale: f32 {heddle.name = "scale"})
    -> (tensor<5x6xf32> {heddle.name = "output"}, f32 {heddle.name = "first"}) {
  %one = arith.constant 1 : index
  %three = arith.constant 3.0 : f32
  %twentieth = math.exp %three : f32
  %corner = tensor.extract %input[%one, %one] : tensor<5x6xf32>
  %first = arith.mulf %corner, %scale : f32
  %e = tensor.empty() : tensor<5x6xf32>
  %sum = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> ()>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%input, %twentieth : tensor<5x6xf32>, f32) outs(%e : tensor<5x6xf32>) {
  ^bb0(%x: f32, %t: f32, %o: f32):
    %0 = arith.mulf %x, %first : f32
    %1 = arith.addf %0, %t : f32
    linalg.yield %1 : f32
  } -> tensor<5x6xf32>
  %output = linalg.map ins(%sum : tensor<5x6xf32>) outs(%e : tensor<5x6xf32>) (%x: f32) {
    %0 = arith.divf %x, %scale : f32
    linalg.yield %0 : f32
  }
  return %output, %first : tensor<5x6xf32>, f32
}
