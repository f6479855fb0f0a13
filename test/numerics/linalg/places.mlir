// Indices of extrema. The first result is the index of the first of several equal
// maxima (all elements from the seventh on), over two split loops. The second is
// the last index whose element is above the least element before it, which
// depends on the order of all elements.
heddle.mesh @mesh <["x"=2, "y"=2]>
func.func @main(
    %x: tensor<6x8xf32> {heddle.name = "x", heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {"y"}]>})
    -> (tensor<f32> {heddle.name = "most"}, tensor<i32> {heddle.name = "first"},
        tensor<6xf32> {heddle.name = "least"}, tensor<6xi32> {heddle.name = "above"}) {
  %one = arith.constant 1.0 : f32
  %none = arith.constant -1 : i32
  %lowest = arith.constant 0xFF800000 : f32
  %highest = arith.constant 0x7F800000 : f32
  %e0 = tensor.empty() : tensor<f32>
  %ei0 = tensor.empty() : tensor<i32>
  %e = tensor.empty() : tensor<6xf32>
  %ei = tensor.empty() : tensor<6xi32>
  %low = linalg.fill ins(%lowest : f32) outs(%e0 : tensor<f32>) -> tensor<f32>
  %nowhere = linalg.fill ins(%none : i32) outs(%ei0 : tensor<i32>) -> tensor<i32>
  %highs = linalg.fill ins(%highest : f32) outs(%e : tensor<6xf32>) -> tensor<6xf32>
  %nowheres = linalg.fill ins(%none : i32) outs(%ei : tensor<6xi32>) -> tensor<6xi32>

  %first:2 = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> ()>, affine_map<(i, j) -> ()>],
      iterator_types = ["reduction", "reduction"]}
      ins(%x : tensor<6x8xf32>) outs(%low, %nowhere : tensor<f32>, tensor<i32>) {
  ^bb0(%a: f32, %most: f32, %place: i32):
    %c6 = arith.constant 6 : index
    %c8 = arith.constant 8 : index
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %row = arith.muli %i, %c8 : index
    %at = arith.addi %row, %j : index
    %here = arith.index_cast %at : index to i32
    %isLate = arith.cmpi uge, %at, %c6 : index
    %number = arith.select %isLate, %one, %a : f32
    %isMore = arith.cmpf ogt, %number, %most : f32
    %0 = arith.select %isMore, %number, %most : f32
    %1 = arith.select %isMore, %here, %place : i32
    linalg.yield %0, %1 : f32, i32
  } -> (tensor<f32>, tensor<i32>)

  %above:2 = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<6x8xf32>) outs(%highs, %nowheres : tensor<6xf32>, tensor<6xi32>) {
  ^bb0(%a: f32, %least: f32, %place: i32):
    %j = linalg.index 1 : index
    %here = arith.index_cast %j : index to i32
    %isMore = arith.cmpf ogt, %a, %least : f32
    %0 = arith.minimumf %a, %least : f32
    %1 = arith.select %isMore, %here, %place : i32
    linalg.yield %0, %1 : f32, i32
  } -> (tensor<6xf32>, tensor<6xi32>)
  return %first#0, %first#1, %above#0, %above#1 : tensor<f32>, tensor<i32>, tensor<6xf32>, tensor<6xi32>
}
