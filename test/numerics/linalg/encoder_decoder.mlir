// An encoder and a decoder of two layers each. Each layer of the decoder attends
// to the encoder's output, and the decoder's end adds %g1, from its beginning,
// once more. As a pipeline, the encoder's output travels to several stages, and
// this skip connection crosses all cuts behind %g1.
heddle.mesh @mesh <["x"=2]>

func.func @main(
    %source: tensor<8x6xf32> {heddle.name = "source"},
    %target: tensor<8x6xf32> {heddle.name = "target", heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>},
    %e1: tensor<6x6xf32> {heddle.name = "e1"}, %e2: tensor<6x6xf32> {heddle.name = "e2"},
    %d1: tensor<6x6xf32> {heddle.name = "d1"}, %d2: tensor<6x6xf32> {heddle.name = "d2"})
    -> (tensor<8x6xf32> {heddle.name = "output"}, tensor<8x6xf32> {heddle.name = "memory"}) {
  // %h1: layer(%source, %e1)
  %h1_p = linalg.matmul ins(%source, %e1 : tensor<8x6xf32>, tensor<6x6xf32>) outs(%source : tensor<8x6xf32>) -> tensor<8x6xf32>
  %h1 = math.tanh %h1_p : tensor<8x6xf32>
  // %memory: layer(%h1, %e2)
  %memory_p = linalg.matmul ins(%h1, %e2 : tensor<8x6xf32>, tensor<6x6xf32>) outs(%h1 : tensor<8x6xf32>) -> tensor<8x6xf32>
  %memory = math.tanh %memory_p : tensor<8x6xf32>
  // %g1: layer(%target, %d1)
  %g1_p = linalg.matmul ins(%target, %d1 : tensor<8x6xf32>, tensor<6x6xf32>) outs(%target : tensor<8x6xf32>) -> tensor<8x6xf32>
  %g1 = math.tanh %g1_p : tensor<8x6xf32>
  // %a1: attend(%g1, %memory)
  %a1_zero = arith.constant 0.0 : f32
  %a1_e = tensor.empty() : tensor<8x8xf32>
  %a1_z = linalg.fill ins(%a1_zero : f32) outs(%a1_e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %a1_s = linalg.matmul_transpose_b ins(%g1, %memory : tensor<8x6xf32>, tensor<8x6xf32>) outs(%a1_z : tensor<8x8xf32>) -> tensor<8x8xf32>
  %a1_c = arith.constant dense<0.125> : tensor<8x8xf32>
  %a1_p = arith.mulf %a1_s, %a1_c : tensor<8x8xf32>
  %a1 = linalg.matmul ins(%a1_p, %memory : tensor<8x8xf32>, tensor<8x6xf32>) outs(%g1 : tensor<8x6xf32>) -> tensor<8x6xf32>
  // %g2: layer(%a1, %d2)
  %g2_p = linalg.matmul ins(%a1, %d2 : tensor<8x6xf32>, tensor<6x6xf32>) outs(%a1 : tensor<8x6xf32>) -> tensor<8x6xf32>
  %g2 = math.tanh %g2_p : tensor<8x6xf32>
  // %a2: attend(%g2, %memory)
  %a2_zero = arith.constant 0.0 : f32
  %a2_e = tensor.empty() : tensor<8x8xf32>
  %a2_z = linalg.fill ins(%a2_zero : f32) outs(%a2_e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %a2_s = linalg.matmul_transpose_b ins(%g2, %memory : tensor<8x6xf32>, tensor<8x6xf32>) outs(%a2_z : tensor<8x8xf32>) -> tensor<8x8xf32>
  %a2_c = arith.constant dense<0.125> : tensor<8x8xf32>
  %a2_p = arith.mulf %a2_s, %a2_c : tensor<8x8xf32>
  %a2 = linalg.matmul ins(%a2_p, %memory : tensor<8x8xf32>, tensor<8x6xf32>) outs(%g2 : tensor<8x6xf32>) -> tensor<8x6xf32>
  %y = arith.addf %a2, %g1 : tensor<8x6xf32>
  return %y, %memory : tensor<8x6xf32>, tensor<8x6xf32>
}
