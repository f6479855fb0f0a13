// RUN: heddle-opt %s --heddle-raise-contractions | FileCheck %s

// An accumulation onto zeros becomes a product without accumulator.
// CHECK-LABEL: func @matmul
// CHECK-NEXT: %[[Y:.+]] = heddle.contract [ac, cb -> ab] %arg0, %arg1 :
// CHECK-NEXT: return %[[Y]]
func.func @matmul(%a: tensor<4x8xf32>, %b: tensor<8x6xf32>) -> tensor<4x6xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x6xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x6xf32>) -> tensor<4x6xf32>
  %y = linalg.matmul ins(%a, %b : tensor<4x8xf32>, tensor<8x6xf32>) outs(%fill : tensor<4x6xf32>) -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}

// CHECK-LABEL: func @accumulates
// CHECK: heddle.contract [abd, adc -> abc] %arg0, %arg1 accumulate(%arg2)
func.func @accumulates(%a: tensor<2x4x8xbf16>, %b: tensor<2x8x6xbf16>, %c: tensor<2x4x6xbf16>) -> tensor<2x4x6xbf16> {
  %y = linalg.batch_matmul ins(%a, %b : tensor<2x4x8xbf16>, tensor<2x8x6xbf16>) outs(%c : tensor<2x4x6xbf16>) -> tensor<2x4x6xbf16>
  return %y : tensor<2x4x6xbf16>
}

// Products with any maps that select loops, in any order, of operands that are
// cast.
// CHECK-LABEL: func @generic
// CHECK: heddle.contract "scores" [acd, bcd -> cab] %arg0, %arg1 accumulate(%arg2)
// CHECK-SAME: -> tensor<3x4x5xf32>
func.func @generic(%q: tensor<4x3x8xbf16>, %k: tensor<5x3x8xbf16>, %c: tensor<3x4x5xf32>) -> tensor<3x4x5xf32> {
  %y = linalg.generic {
      indexing_maps = [affine_map<(i, j, h, k) -> (i, h, k)>, affine_map<(i, j, h, k) -> (j, h, k)>,
                       affine_map<(i, j, h, k) -> (h, i, j)>],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<4x3x8xbf16>, tensor<5x3x8xbf16>) outs(%c : tensor<3x4x5xf32>) attrs = {heddle.name = "scores"} {
  ^bb0(%x: bf16, %w: bf16, %s: f32):
    %a = arith.extf %x : bf16 to f32
    %b = arith.extf %w : bf16 to f32
    %p = arith.mulf %b, %a : f32
    %t = arith.addf %p, %s : f32
    linalg.yield %t : f32
  } -> tensor<3x4x5xf32>
  return %y : tensor<3x4x5xf32>
}

// No products: other types, a square, a window, a sum over one operand alone, a
// scalar product, an undefined initial value.
// CHECK-LABEL: func @stay
// CHECK-NOT: heddle.contract
func.func @stay(%d: tensor<4x4xf64>, %f: tensor<4x4xf32>, %image: tensor<1x6x6x2xf32>, %kernel: tensor<3x3x2x4xf32>,
                %v: tensor<4xf32>, %s: tensor<f32>, %out: tensor<1x4x4x4xf32>)
    -> (tensor<4x4xf64>, tensor<4xf32>, tensor<1x4x4x4xf32>, tensor<4xf32>, tensor<f32>, tensor<4x4xf32>) {
  %0 = linalg.matmul ins(%d, %d : tensor<4x4xf64>, tensor<4x4xf64>) outs(%d : tensor<4x4xf64>) -> tensor<4x4xf64>
  %1 = linalg.generic {
      indexing_maps = [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (i)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%f, %f : tensor<4x4xf32>, tensor<4x4xf32>) outs(%v : tensor<4xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %p = arith.mulf %x, %x : f32
    %t = arith.addf %o, %p : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  %2 = linalg.conv_2d_nhwc_hwcf ins(%image, %kernel : tensor<1x6x6x2xf32>, tensor<3x3x2x4xf32>)
      outs(%out : tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xf32>
  %3 = linalg.generic {
      indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (j, k)>, affine_map<(i, j, k) -> (j)>],
      iterator_types = ["reduction", "parallel", "reduction"]}
      ins(%f, %f : tensor<4x4xf32>, tensor<4x4xf32>) outs(%v : tensor<4xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %p = arith.mulf %x, %y : f32
    %t = arith.addf %o, %p : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  %4 = linalg.dot ins(%v, %v : tensor<4xf32>, tensor<4xf32>) outs(%s : tensor<f32>) -> tensor<f32>
  %undefined = tensor.empty() : tensor<4x4xf32>
  %5 = linalg.matmul ins(%f, %f : tensor<4x4xf32>, tensor<4x4xf32>) outs(%undefined : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0, %1, %2, %3, %4, %5 : tensor<4x4xf64>, tensor<4xf32>, tensor<1x4x4x4xf32>, tensor<4xf32>, tensor<f32>, tensor<4x4xf32>
}

// A product reads transposed and repeated operands without a copy.
// CHECK-LABEL: func @through_copies
// CHECK-NEXT: %[[Y:.+]] = heddle.contract [abd, cd -> abc] %arg0, %arg1 :
// CHECK-NEXT: return %[[Y]]
func.func @through_copies(%x: tensor<5x6x16xf32>, %w: tensor<12x16xf32>) -> tensor<5x6x12xf32> {
  %zeros = arith.constant dense<0.0> : tensor<5x6x12xf32>
  %t = tensor.empty() : tensor<16x12xf32>
  %transposed = linalg.transpose ins(%w : tensor<12x16xf32>) outs(%t : tensor<16x12xf32>) permutation = [1, 0]
  %r = tensor.empty() : tensor<5x16x12xf32>
  %repeated = linalg.broadcast ins(%transposed : tensor<16x12xf32>) outs(%r : tensor<5x16x12xf32>) dimensions = [0]
  %y = linalg.batch_matmul ins(%x, %repeated : tensor<5x6x16xf32>, tensor<5x16x12xf32>) outs(%zeros : tensor<5x6x12xf32>) -> tensor<5x6x12xf32>
  return %y : tensor<5x6x12xf32>
}

// An operand repeated along a summed loop: without the copy it is no product.
// CHECK-LABEL: func @repeated_sum
// CHECK: %[[R:.+]] = linalg.broadcast
// CHECK: heddle.contract [ac, cb -> ab] %arg0, %[[R]] :
func.func @repeated_sum(%x: tensor<6x16xf32>, %w: tensor<12xf32>) -> tensor<6x12xf32> {
  %zeros = arith.constant dense<0.0> : tensor<6x12xf32>
  %r = tensor.empty() : tensor<16x12xf32>
  %repeated = linalg.broadcast ins(%w : tensor<12xf32>) outs(%r : tensor<16x12xf32>) dimensions = [0]
  %y = linalg.matmul ins(%x, %repeated : tensor<6x16xf32>, tensor<16x12xf32>) outs(%zeros : tensor<6x12xf32>) -> tensor<6x12xf32>
  return %y : tensor<6x12xf32>
}
