// A lone pair: a product and its all-reduce, with nothing else to hide it. Each
// device multiplies 2048 x 512 by 512 x 1024, and 8 MiB are summed.

heddle.mesh @mesh <["tp"=2]>
heddle.variable @x : tensor<2048x1024xf32> parameter init(normal<1.0>)
heddle.variable @w : tensor<1024x1024xf32> parameter init(normal<1.0>)
heddle.variable @y : tensor<2048x1024xf32> parameter init(zeros)

func.func @pair() {
  %x = heddle.load @x : tensor<2048x1024xf32>
  %w = heddle.load @w : tensor<1024x1024xf32>
  %y = heddle.contract "y" [bh, hf -> bf] %x, %w {heddle.factors = #heddle.factors<["h" = {"tp"}]>} : (tensor<2048x1024xf32>, tensor<1024x1024xf32>) -> tensor<2048x1024xf32>
  heddle.store %y, @y : tensor<2048x1024xf32>
  return
}
