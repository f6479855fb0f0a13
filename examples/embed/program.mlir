// A program that has only ops of the toy dialect. "rows" splits the batch,
// "cols" the columns of the first matrix. The split by "cols" propagates
// through relu and normalize to the second product, so normalize has its rows
// cut. The axes do not divide 13 and 30: Heddle pads and masks.
heddle.mesh @mesh <["rows"=2, "cols"=2]>

func.func @main(
    %x: tensor<13x24xf32> {heddle.name = "x", heddle.sharding = #heddle.sharding<@mesh, [{"rows"}, {}]>},
    %w1: tensor<24x30xf32> {heddle.name = "w1", heddle.sharding = #heddle.sharding<@mesh, [{}, {"cols"}]>},
    %w2: tensor<30x9xf32> {heddle.name = "w2"})
    -> (tensor<13x9xf32> {heddle.name = "y"}) {
  %0 = toy.dense %x, %w1 : (tensor<13x24xf32>, tensor<24x30xf32>) -> tensor<13x30xf32>
  %1 = toy.relu %0 : tensor<13x30xf32>
  %2 = toy.normalize %1 : tensor<13x30xf32>
  %3 = toy.dense %2, %w2 : (tensor<13x30xf32>, tensor<30x9xf32>) -> tensor<13x9xf32>
  return %3 : tensor<13x9xf32>
}
