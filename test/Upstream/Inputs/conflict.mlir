mesh.mesh @mesh(shape = 2)
func.func @main(%x: tensor<8x6xf32>, %y: tensor<8x6xf32>) -> tensor<8x6xf32> {
  %0 = mesh.shard %x to <@mesh, [[0]]> : tensor<8x6xf32>
  %1 = mesh.shard %0 to <@mesh, [[0]]> annotate_for_users : tensor<8x6xf32>
  %2 = mesh.shard %y to <@mesh, [[], [0]]> : tensor<8x6xf32>
  %3 = mesh.shard %2 to <@mesh, [[], [0]]> annotate_for_users : tensor<8x6xf32>
  %4 = linalg.add ins(%1, %3 : tensor<8x6xf32>, tensor<8x6xf32>) outs(%1 : tensor<8x6xf32>) -> tensor<8x6xf32>
  %5 = mesh.shard %4 to <@mesh, [[0]]> : tensor<8x6xf32>
  %6 = mesh.shard %5 to <@mesh, [[0]]> annotate_for_users : tensor<8x6xf32>
  return %6 : tensor<8x6xf32>
}
