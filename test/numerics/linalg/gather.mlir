// Gathers from tables that are split along their rows, along two indexed
// dimensions, and with an indexed dimension that stays in the result.
heddle.mesh @mesh <["x"=2, "y"=2]>
func.func @main(
    %table: tensor<11x5xf32> {heddle.name = "table", heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {"y"}]>},
    %plane: tensor<5x7xf32> {heddle.name = "plane", heddle.sharding = #heddle.sharding<@mesh, [{"y"}, {"x"}]>},
    %numbers: tensor<3x2xf32> {heddle.name = "numbers", heddle.sharding = #heddle.sharding<@mesh, [{}, {}]>})
    -> (tensor<3x2x5xf32> {heddle.name = "rows"}, tensor<3x1x5xf32> {heddle.name = "kept"},
        tensor<3xf32> {heddle.name = "points"}) {
  %four = arith.constant dense<4.0> : tensor<3x2xf32>
  %scaled = arith.mulf %numbers, %four : tensor<3x2xf32>
  %positive = math.absf %scaled : tensor<3x2xf32>
  %places = arith.fptosi %positive : tensor<3x2xf32> to tensor<3x2xi32>
  %each = tensor.expand_shape %places [[0], [1, 2]] output_shape [3, 2, 1] : tensor<3x2xi32> into tensor<3x2x1xi32>
  %rows = tensor.gather %table[%each] gather_dims([0]) : (tensor<11x5xf32>, tensor<3x2x1xi32>) -> tensor<3x2x5xf32>
  %first = tensor.extract_slice %places[0, 1] [3, 1] [1, 1] : tensor<3x2xi32> to tensor<3x1xi32>
  %kept = tensor.gather %table[%first] gather_dims([0]) : (tensor<11x5xf32>, tensor<3x1xi32>) -> tensor<3x1x5xf32>
  %points = tensor.gather %plane[%places] gather_dims([0, 1]) : (tensor<5x7xf32>, tensor<3x2xi32>) -> tensor<3xf32>
  return %rows, %kept, %points : tensor<3x2x5xf32>, tensor<3x1x5xf32>, tensor<3xf32>
}
