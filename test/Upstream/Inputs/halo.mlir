mesh.mesh @mesh(shape = 2)
func.func @main(%x: tensor<10xf32>, %w: tensor<3xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %0 = mesh.shard %x to <@mesh, [[0]]> : tensor<10xf32>
  %1 = mesh.shard %0 to <@mesh, [[0]]> annotate_for_users : tensor<10xf32>
  %2 = mesh.shard %y to <@mesh, [[0]]> : tensor<8xf32>
  %3 = mesh.shard %2 to <@mesh, [[0]]> annotate_for_users : tensor<8xf32>
  %w0 = mesh.shard %w to <@mesh, [[]]> : tensor<3xf32>
  %w1 = mesh.shard %w0 to <@mesh, [[]]> annotate_for_users : tensor<3xf32>
  %4 = linalg.conv_1d ins(%1, %w1 : tensor<10xf32>, tensor<3xf32>) outs(%3 : tensor<8xf32>) -> tensor<8xf32>
  %5 = mesh.shard %4 to <@mesh, [[0]]> : tensor<8xf32>
  %6 = mesh.shard %5 to <@mesh, [[0]]> annotate_for_users : tensor<8xf32>
  return %6 : tensor<8xf32>
}
