// Reductions other than sums: products, the index of the largest number, the
// diagonal, and a body without a neutral element. Their initial values are
// computed.
heddle.mesh @mesh <["x"=2, "y"=2]>
func.func @main(
    %x: tensor<7x7xf32> {heddle.name = "x", heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {"y"}]>},
    %start: tensor<7xf32> {heddle.name = "start", heddle.sharding = #heddle.sharding<@mesh, [{"y"}]>})
    -> (tensor<7xf32> {heddle.name = "products"}, f32 {heddle.name = "product"},
        tensor<7xf32> {heddle.name = "largest"}, tensor<7xi32> {heddle.name = "places"},
        tensor<7xf32> {heddle.name = "alternating"}, tensor<7xf32> {heddle.name = "diagonal"},
        tensor<7xf32> {heddle.name = "generated"}, tensor<7xf32> {heddle.name = "alone"}) {
  %one = arith.constant 1.0 : f32
  %zero = arith.constant 0.0 : f32
  %none = arith.constant -1 : i32
  %lowest = arith.constant 0xFF800000 : f32
  %c2 = arith.constant 2 : index
  %e = tensor.empty() : tensor<7xf32>
  %ei = tensor.empty() : tensor<7xi32>
  %e0 = tensor.empty() : tensor<f32>
  %ones = linalg.fill ins(%one : f32) outs(%e0 : tensor<f32>) -> tensor<f32>
  %lows = linalg.fill ins(%lowest : f32) outs(%e : tensor<7xf32>) -> tensor<7xf32>
  %nowhere = linalg.fill ins(%none : i32) outs(%ei : tensor<7xi32>) -> tensor<7xi32>
  %square = arith.mulf %x, %x : tensor<7x7xf32>
  %near = math.exp %x : tensor<7x7xf32>

  %products = linalg.reduce { arith.mulf } ins(%near : tensor<7x7xf32>) outs(%start : tensor<7xf32>) dimensions = [0]
  %all = linalg.reduce { arith.mulf } ins(%near : tensor<7x7xf32>) outs(%ones : tensor<f32>) dimensions = [0, 1]
  %product = tensor.extract %all[] : tensor<f32>

  %largest:2 = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<7x7xf32>) outs(%lows, %nowhere : tensor<7xf32>, tensor<7xi32>) {
  ^bb0(%a: f32, %most: f32, %place: i32):
    %j = linalg.index 1 : index
    %here = arith.index_cast %j : index to i32
    %isMore = arith.cmpf ogt, %a, %most : f32
    %0 = arith.select %isMore, %a, %most : f32
    %1 = arith.select %isMore, %here, %place : i32
    linalg.yield %0, %1 : f32, i32
  } -> (tensor<7xf32>, tensor<7xi32>)

  %alternating = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%square : tensor<7x7xf32>) outs(%start : tensor<7xf32>) {
  ^bb0(%a: f32, %before: f32):
    %0 = arith.subf %a, %before : f32
    linalg.yield %0 : f32
  } -> tensor<7xf32>

  %diagonal = linalg.generic {
      indexing_maps = [affine_map<(i) -> (i, i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]}
      ins(%x : tensor<7x7xf32>) outs(%e : tensor<7xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<7xf32>

  %number = tensor.extract %x[%c2, %c2] : tensor<7x7xf32>
  %generated = tensor.generate {
  ^bb0(%i: index):
    %element = tensor.extract %start[%i] : tensor<7xf32>
    %0 = arith.mulf %number, %element : f32
    tensor.yield %0 : f32
  } : tensor<7xf32>
  // The index is not used, only the other result.
  %column = tensor.expand_shape %start [[0, 1]] output_shape [7, 1] : tensor<7xf32> into tensor<7x1xf32>
  %one_of:2 = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%column : tensor<7x1xf32>) outs(%lows, %nowhere : tensor<7xf32>, tensor<7xi32>) {
  ^bb0(%a: f32, %most: f32, %place: i32):
    %j = linalg.index 1 : index
    %here = arith.index_cast %j : index to i32
    %isMore = arith.cmpf ogt, %a, %most : f32
    %0 = arith.select %isMore, %a, %most : f32
    %1 = arith.select %isMore, %here, %place : i32
    linalg.yield %0, %1 : f32, i32
  } -> (tensor<7xf32>, tensor<7xi32>)
  %alone = arith.addf %one_of#0, %one_of#0 : tensor<7xf32>
  return %products, %product, %largest#0, %largest#1, %alternating, %diagonal, %generated, %alone : tensor<7xf32>, f32, tensor<7xf32>, tensor<7xi32>, tensor<7xf32>, tensor<7xf32>, tensor<7xf32>, tensor<7xf32>
}
