func.func @main() -> tensor<4xf32> {
  %x = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
