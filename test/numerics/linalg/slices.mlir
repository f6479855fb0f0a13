// A loop that reads and fills tensors slice by slice, at computed offsets.
heddle.mesh @mesh <["x"=2, "y"=2]>

func.func @main(
    %input: tensor<8x6xf32> {heddle.name = "input", heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {"y"}]>})
    -> (tensor<8x6xf32> {heddle.name = "output"}) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c6 = arith.constant 6 : index
  %c8 = arith.constant 8 : index
  %empty = tensor.empty() : tensor<8x6xf32>
  %output = scf.for %i = %c0 to %c8 step %c2 iter_args(%filled = %empty) -> tensor<8x6xf32> {
    %slice = tensor.extract_slice %input[%i, 0] [2, 6] [1, 1] : tensor<8x6xf32> to tensor<2x6xf32>
    %exp = math.exp %slice : tensor<2x6xf32>
    %to = arith.subi %c6, %i : index
    %next = tensor.insert_slice %exp into %filled[%to, 0] [2, 6] [1, 1] : tensor<2x6xf32> into tensor<8x6xf32>
    scf.yield %next : tensor<8x6xf32>
  }
  return %output : tensor<8x6xf32>
}
