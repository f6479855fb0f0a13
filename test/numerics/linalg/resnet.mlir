// A residual block of a convolutional network with a stride and a pooling. The
// batch is split over "x" and image rows over "y", so devices need rows of their
// neighbours (halo exchange). "y" does not divide the output's 5 rows.
heddle.mesh @mesh <["x"=2, "y"=2]>

func.func @main(
    %image: tensor<2x10x8x3xf32> {heddle.name = "image", heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {"y"}, {}, {}]>},
    %k1: tensor<3x3x3x4xf32> {heddle.name = "k1"},
    %k2: tensor<3x3x4x4xf32> {heddle.name = "k2"},
    %k3: tensor<1x1x3x4xf32> {heddle.name = "k3"})
    -> (tensor<2x5x4x4xf32> {heddle.name = "block", heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {"y"}, {}, {}]>},
        tensor<2x4x3x4xf32> {heddle.name = "pooled", heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {"y"}, {}, {}]>}) {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %padded = tensor.pad %image low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%n: index, %h: index, %w: index, %c: index):
    tensor.yield %zero : f32
  } : tensor<2x10x8x3xf32> to tensor<2x12x10x3xf32>
  %e = tensor.empty() : tensor<2x5x4x4xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e : tensor<2x5x4x4xf32>) -> tensor<2x5x4x4xf32>
  %c1 = linalg.conv_2d_nhwc_hwcf {strides = dense<2> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}
      ins(%padded, %k1 : tensor<2x12x10x3xf32>, tensor<3x3x3x4xf32>) outs(%start : tensor<2x5x4x4xf32>) -> tensor<2x5x4x4xf32>
  %zeros = arith.constant dense<0.0> : tensor<2x5x4x4xf32>
  %r1 = arith.maximumf %c1, %zeros : tensor<2x5x4x4xf32>
  %padded2 = tensor.pad %r1 low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%n: index, %h: index, %w: index, %c: index):
    tensor.yield %zero : f32
  } : tensor<2x5x4x4xf32> to tensor<2x7x6x4xf32>
  // The second convolution accumulates onto the shortcut.
  %shortcut = linalg.conv_2d_nhwc_hwcf {strides = dense<2> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}
      ins(%image, %k3 : tensor<2x10x8x3xf32>, tensor<1x1x3x4xf32>) outs(%start : tensor<2x5x4x4xf32>) -> tensor<2x5x4x4xf32>
  %c2 = linalg.conv_2d_nhwc_hwcf {strides = dense<1> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}
      ins(%padded2, %k2 : tensor<2x7x6x4xf32>, tensor<3x3x4x4xf32>) outs(%shortcut : tensor<2x5x4x4xf32>) -> tensor<2x5x4x4xf32>
  %block = arith.maximumf %c2, %zeros : tensor<2x5x4x4xf32>
  %window = tensor.empty() : tensor<2x2xf32>
  %ep = tensor.empty() : tensor<2x4x3x4xf32>
  %low = linalg.fill ins(%lowest : f32) outs(%ep : tensor<2x4x3x4xf32>) -> tensor<2x4x3x4xf32>
  %pooled = linalg.pooling_nhwc_max {strides = dense<1> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}
      ins(%block, %window : tensor<2x5x4x4xf32>, tensor<2x2xf32>) outs(%low : tensor<2x4x3x4xf32>) -> tensor<2x4x3x4xf32>
  return %block, %pooled : tensor<2x5x4x4xf32>, tensor<2x4x3x4xf32>
}
