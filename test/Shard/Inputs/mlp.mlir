// One MLP block: loads, products, a bias, an activation.
heddle.variable @c_fc.weight : tensor<8x32xf32> parameter init(normal<0.02>)
heddle.variable @c_fc.bias : tensor<32xf32> parameter init(zeros)
heddle.variable @c_proj.weight : tensor<32x8xf32> parameter init(normal<0.02>)
func.func @mlp(%x: tensor<4x6x8xf32>) -> tensor<4x6x8xf32> {
  %w1 = heddle.load @c_fc.weight : tensor<8x32xf32>
  %u = heddle.contract "h.0.mlp.c_fc" [bsh, hf -> bsf] %x, %w1 : (tensor<4x6x8xf32>, tensor<8x32xf32>) -> tensor<4x6x32xf32>
  %b = heddle.load @c_fc.bias : tensor<32xf32>
  %bb = heddle.broadcast %b along [2] : tensor<32xf32> -> tensor<4x6x32xf32>
  %v = arith.addf %u, %bb : tensor<4x6x32xf32>
  %a = heddle.gelu %v approximate(tanh) : tensor<4x6x32xf32>
  %w2 = heddle.load @c_proj.weight : tensor<32x8xf32>
  %p = heddle.contract "h.0.mlp.c_proj" [bsf, fh -> bsh] %a, %w2 : (tensor<4x6x32xf32>, tensor<32x8xf32>) -> tensor<4x6x8xf32>
  %y = arith.addf %x, %p : tensor<4x6x8xf32>
  return %y : tensor<4x6x8xf32>
}
