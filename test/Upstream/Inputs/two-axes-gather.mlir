mesh.mesh @mesh(shape = 2x2)
func.func @main(%x: tensor<8x6xf32>) -> tensor<8x6xf32> {
  %0 = mesh.shard %x to <@mesh, [[0, 1]]> : tensor<8x6xf32>
  %1 = mesh.shard %0 to <@mesh, [[0, 1]]> annotate_for_users : tensor<8x6xf32>
  %2 = linalg.exp ins(%1 : tensor<8x6xf32>) outs(%1 : tensor<8x6xf32>) -> tensor<8x6xf32>
  %3 = mesh.shard %2 to <@mesh, [[0, 1]]> : tensor<8x6xf32>
  %4 = mesh.shard %3 to <@mesh, [[0], [1]]> annotate_for_users : tensor<8x6xf32>
  return %4 : tensor<8x6xf32>
}
