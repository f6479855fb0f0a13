// Three programs of two devices, written at the level of calls: a product of
// 2048 x 1024 x 1024, an all-reduce of 4 MiB, and both at once on two streams.

heddle.mesh @mesh <["dp"=2]>
heddle.variable @x : tensor<2048x1024xf32> parameter init(normal<1.0>)
heddle.variable @w : tensor<1024x1024xf32> parameter init(normal<1.0>)
heddle.variable @g : tensor<1024x1024xf32> parameter init(zeros)

rt.program @product arena(8388608) {
  rt.matmul m(2048) n(1024) k(1024) a(variable @x[0 : 2048x1024xf32] strides [1024, 1])
    b(variable @w[0 : 1024x1024xf32] strides [1024, 1]) c(arena[0 : 2048x1024xf32] stride 1024) serves <activation ["y"]>
}

rt.program @collective arena(0) streams(2) {
  rt.record 0
  rt.wait 0 stream(1)
  rt.all_reduce stream(1) sum variable @g[0 : 1024x1024xf32] -> variable @g[0 : 1024x1024xf32] over @mesh <{"dp"}> serves <gradient ["w"]>
  rt.record 1 stream(1)
  rt.wait 1
}

rt.program @both arena(8388608) streams(2) {
  rt.record 0
  rt.wait 0 stream(1)
  rt.all_reduce stream(1) sum variable @g[0 : 1024x1024xf32] -> variable @g[0 : 1024x1024xf32] over @mesh <{"dp"}> serves <gradient ["w"]>
  rt.record 1 stream(1)
  rt.matmul m(2048) n(1024) k(1024) a(variable @x[0 : 2048x1024xf32] strides [1024, 1])
    b(variable @w[0 : 1024x1024xf32] strides [1024, 1]) c(arena[0 : 2048x1024xf32] stride 1024) serves <activation ["y"]>
  rt.wait 1
}
