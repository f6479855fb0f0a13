// A perceptron with the batch over "x" and hidden features over "y", so that the
// second product sums over devices. The mesh does not divide 30 and 9.
heddle.mesh @mesh <["x"=2, "y"=2]>

func.func @main(
    %input: tensor<12x20xf32> {heddle.name = "input", heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>},
    %w1: tensor<20x30xf32> {heddle.name = "w1", heddle.sharding = #heddle.sharding<@mesh, [{}, {"y"}]>},
    %b1: tensor<30xf32> {heddle.name = "b1"},
    %w2: tensor<30x9xf32> {heddle.name = "w2"},
    %b2: tensor<9xf32> {heddle.name = "b2"})
    -> (tensor<12x9xf32> {heddle.name = "output"}, tensor<9xf32> {heddle.name = "largest"}) {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %e1 = tensor.empty() : tensor<12x30xf32>
  %bias1 = linalg.broadcast ins(%b1 : tensor<30xf32>) outs(%e1 : tensor<12x30xf32>) dimensions = [0]
  %h = linalg.matmul ins(%input, %w1 : tensor<12x20xf32>, tensor<20x30xf32>) outs(%bias1 : tensor<12x30xf32>) -> tensor<12x30xf32>
  %a = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%h : tensor<12x30xf32>) outs(%e1 : tensor<12x30xf32>) {
  ^bb0(%v: f32, %o: f32):
    // The body uses a value that is defined outside of it.
    %relu = arith.maximumf %v, %zero : f32
    linalg.yield %relu : f32
  } -> tensor<12x30xf32>
  %e2 = tensor.empty() : tensor<12x9xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e2 : tensor<12x9xf32>) -> tensor<12x9xf32>
  %y = linalg.matmul ins(%a, %w2 : tensor<12x30xf32>, tensor<30x9xf32>) outs(%start : tensor<12x9xf32>) -> tensor<12x9xf32>
  %bias2 = linalg.broadcast ins(%b2 : tensor<9xf32>) outs(%e2 : tensor<12x9xf32>) dimensions = [0]
  %z = linalg.add ins(%y, %bias2 : tensor<12x9xf32>, tensor<12x9xf32>) outs(%e2 : tensor<12x9xf32>) -> tensor<12x9xf32>
  %r = math.tanh %z : tensor<12x9xf32>
  %e3 = tensor.empty() : tensor<9xf32>
  %low = linalg.fill ins(%lowest : f32) outs(%e3 : tensor<9xf32>) -> tensor<9xf32>
  %max = linalg.reduce { arith.maximumf } ins(%z : tensor<12x9xf32>) outs(%low : tensor<9xf32>) dimensions = [0]
  return %r, %max : tensor<12x9xf32>, tensor<9xf32>
}
