mesh.mesh @mesh(shape = 2x2)
func.func @main(%x: tensor<8x6xf32>, %w: tensor<6x4xf32>, %y: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = mesh.shard %x to <@mesh, [[0], [1]]> : tensor<8x6xf32>
  %1 = mesh.shard %0 to <@mesh, [[0], [1]]> annotate_for_users : tensor<8x6xf32>
  %2 = mesh.shard %w to <@mesh, [[1]]> : tensor<6x4xf32>
  %3 = mesh.shard %2 to <@mesh, [[1]]> annotate_for_users : tensor<6x4xf32>
  %4 = mesh.shard %y to <@mesh, [[0]]> : tensor<8x4xf32>
  %5 = mesh.shard %4 to <@mesh, [[0]]> annotate_for_users : tensor<8x4xf32>
  %6 = linalg.matmul ins(%1, %3 : tensor<8x6xf32>, tensor<6x4xf32>) outs(%5 : tensor<8x4xf32>) -> tensor<8x4xf32>
  %7 = mesh.shard %6 to <@mesh, [[0]]> : tensor<8x4xf32>
  %8 = mesh.shard %7 to <@mesh, [[0]]> annotate_for_users : tensor<8x4xf32>
  return %8 : tensor<8x4xf32>
}
