// Maxima and minima that ignore NaN and start from NaN or from infinity. A device
// whose part of a row is all NaN must not change the result. A row that is all
// NaN leaves infinity.
heddle.mesh @mesh <["x"=2, "y"=2]>
func.func @main(
    %x: tensor<3x8xf32> {heddle.name = "x", heddle.sharding = #heddle.sharding<@mesh, [{}, {"y"}]>})
    -> (tensor<3xf32> {heddle.name = "most"}, tensor<3xf32> {heddle.name = "least"},
        tensor<3xf32> {heddle.name = "most from infinity"}, tensor<3xf32> {heddle.name = "is infinity"}) {
  %none = arith.constant 0x7FC00000 : f32
  %c4 = arith.constant 4 : index
  %e = tensor.empty() : tensor<3xf32>
  %e2 = tensor.empty() : tensor<3x8xf32>
  %start = linalg.fill ins(%none : f32) outs(%e : tensor<3xf32>) -> tensor<3xf32>
  %half = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<3x8xf32>) outs(%e2 : tensor<3x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %j = linalg.index 1 : index
    %isLate = arith.cmpi uge, %j, %c4 : index
    %0 = arith.select %isLate, %a, %none : f32
    linalg.yield %0 : f32
  } -> tensor<3x8xf32>
  %most = linalg.reduce { arith.maxnumf } ins(%half : tensor<3x8xf32>) outs(%start : tensor<3xf32>) dimensions = [1]
  %least = linalg.reduce { arith.minnumf } ins(%half : tensor<3x8xf32>) outs(%start : tensor<3xf32>) dimensions = [1]
  %low = arith.constant dense<0xFF800000> : tensor<3xf32>
  %most_of_half = linalg.reduce { arith.maxnumf } ins(%half : tensor<3x8xf32>) outs(%low : tensor<3xf32>) dimensions = [1]
  %two = arith.constant 2.0 : f32
  %nothing = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<3x8xf32>) outs(%e2 : tensor<3x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %isLarge = arith.cmpf ogt, %a, %two : f32
    %0 = arith.select %isLarge, %a, %none : f32
    linalg.yield %0 : f32
  } -> tensor<3x8xf32>
  %most_of_none = linalg.reduce { arith.maxnumf } ins(%nothing : tensor<3x8xf32>) outs(%low : tensor<3xf32>) dimensions = [1]
  %is_low = arith.cmpf oeq, %most_of_none, %low : tensor<3xf32>
  %infinite = arith.uitofp %is_low : tensor<3xi1> to tensor<3xf32>
  return %most, %least, %most_of_half, %infinite : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}
