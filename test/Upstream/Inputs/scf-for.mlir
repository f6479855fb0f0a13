mesh.mesh @mesh(shape = 2)
func.func @main(%x: tensor<8x6xf32>) -> tensor<8x6xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %0 = mesh.shard %x to <@mesh, [[0]]> : tensor<8x6xf32>
  %1 = mesh.shard %0 to <@mesh, [[0]]> annotate_for_users : tensor<8x6xf32>
  %2 = scf.for %i = %c0 to %c3 step %c1 iter_args(%s = %1) -> tensor<8x6xf32> {
    %4 = linalg.exp ins(%s : tensor<8x6xf32>) outs(%s : tensor<8x6xf32>) -> tensor<8x6xf32>
    scf.yield %4 : tensor<8x6xf32>
  }
  %5 = mesh.shard %2 to <@mesh, [[0]]> : tensor<8x6xf32>
  %6 = mesh.shard %5 to <@mesh, [[0]]> annotate_for_users : tensor<8x6xf32>
  return %6 : tensor<8x6xf32>
}
