// Two products whose dimensions have no roles.
heddle.variable @w : tensor<64x128xf32> parameter init(zeros)
heddle.variable @u : tensor<128x64xf32> parameter init(zeros)
func.func @main(%x: tensor<32x64xf32>) -> tensor<32x64xf32> {
  %w = heddle.load @w : tensor<64x128xf32>
  %y = heddle.contract "up" [xk, ky -> xy] %x, %w : (tensor<32x64xf32>, tensor<64x128xf32>) -> tensor<32x128xf32>
  %u = heddle.load @u : tensor<128x64xf32>
  %z = heddle.contract "down" [xk, ky -> xy] %y, %u : (tensor<32x128xf32>, tensor<128x64xf32>) -> tensor<32x64xf32>
  return %z : tensor<32x64xf32>
}
