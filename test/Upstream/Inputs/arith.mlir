mesh.mesh @mesh(shape = 2)
func.func @main(%x: tensor<8x6xf32>) -> tensor<8x6xf32> {
  %0 = mesh.shard %x to <@mesh, [[0]]> : tensor<8x6xf32>
  %1 = mesh.shard %0 to <@mesh, [[0]]> annotate_for_users : tensor<8x6xf32>
  %2 = arith.mulf %1, %1 : tensor<8x6xf32>
  %3 = mesh.shard %2 to <@mesh, [[0]]> : tensor<8x6xf32>
  %4 = mesh.shard %3 to <@mesh, [[0]]> annotate_for_users : tensor<8x6xf32>
  return %4 : tensor<8x6xf32>
}

// -----

mesh.mesh @mesh(shape = 2)
func.func @constant(%x: tensor<8x6xf32>) -> tensor<8x6xf32> {
  %0 = mesh.shard %x to <@mesh, [[0]]> : tensor<8x6xf32>
  %1 = mesh.shard %0 to <@mesh, [[0]]> annotate_for_users : tensor<8x6xf32>
  %2 = arith.constant dense<1.0> : tensor<8x6xf32>
  %3 = mesh.shard %2 to <@mesh, [[0]]> : tensor<8x6xf32>
  %4 = mesh.shard %3 to <@mesh, [[0]]> annotate_for_users : tensor<8x6xf32>
  %5 = linalg.add ins(%1, %4 : tensor<8x6xf32>, tensor<8x6xf32>) outs(%1 : tensor<8x6xf32>) -> tensor<8x6xf32>
  %6 = mesh.shard %5 to <@mesh, [[0]]> : tensor<8x6xf32>
  %7 = mesh.shard %6 to <@mesh, [[0]]> annotate_for_users : tensor<8x6xf32>
  return %7 : tensor<8x6xf32>
}
