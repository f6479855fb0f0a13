// RUN: heddle-opt %s --heddle-fuse-packing | FileCheck %s

// Rows of the result: s becomes two letters, everywhere.
// CHECK-LABEL: @gathered_rows
func.func @gathered_rows(%x: tensor<2x4x64x8xf32>, %w: tensor<8x96xf32>, %bias: tensor<96xf32>) -> tensor<4x128x96xf32> {
  // CHECK-NEXT: %[[Y:.*]] = heddle.contract [abch, hf -> bacf] %arg0, %arg1 bias(%arg2 along [3]) : (tensor<2x4x64x8xf32>, tensor<8x96xf32>, tensor<96xf32>) -> tensor<4x2x64x96xf32>
  // CHECK-NEXT: %[[Z:.*]] = tensor.collapse_shape %[[Y]] {{\[\[}}0], [1, 2], [3]] : tensor<4x2x64x96xf32> into tensor<4x128x96xf32>
  // CHECK-NEXT: return %[[Z]]
  %init = tensor.empty() : tensor<4x2x64x8xf32>
  %moved = linalg.transpose ins(%x : tensor<2x4x64x8xf32>) outs(%init : tensor<4x2x64x8xf32>) permutation = [1, 0, 2, 3]
  %whole = tensor.collapse_shape %moved [[0], [1, 2], [3]] : tensor<4x2x64x8xf32> into tensor<4x128x8xf32>
  %y = heddle.contract [bsh, hf -> bsf] %whole, %w bias(%bias along [2]) : (tensor<4x128x8xf32>, tensor<8x96xf32>, tensor<96xf32>) -> tensor<4x128x96xf32>
  return %y : tensor<4x128x96xf32>
}

// Columns of the result, and no other dimension merged.
// CHECK-LABEL: @transposed
func.func @transposed(%x: tensor<64x8xf32>, %w: tensor<96x8xf32>) -> tensor<64x96xf32> {
  // CHECK-NEXT: heddle.contract [ij, kj -> ik] %arg0, %arg1
  %init = tensor.empty() : tensor<8x96xf32>
  %t = linalg.transpose ins(%w : tensor<96x8xf32>) outs(%init : tensor<8x96xf32>) permutation = [1, 0]
  %y = heddle.contract [ij, jk -> ik] %x, %t : (tensor<64x8xf32>, tensor<8x96xf32>) -> tensor<64x96xf32>
  return %y : tensor<64x96xf32>
}

// What two products read is read by both; the sum that one of them makes of it
// is of few passes over a small result.
// CHECK-LABEL: @gathered_columns
func.func @gathered_columns(%w: tensor<2x5000x64xf32>, %y: tensor<32x5000xf32>, %x: tensor<32x128xf32>) -> (tensor<32x128xf32>, tensor<32x5000xf32>) {
  // CHECK-NOT: linalg.transpose
  // CHECK: heddle.contract
  // CHECK: heddle.contract
  // CHECK-NOT: linalg.transpose
  %init = tensor.empty() : tensor<5000x2x64xf32>
  %moved = linalg.transpose ins(%w : tensor<2x5000x64xf32>) outs(%init : tensor<5000x2x64xf32>) permutation = [1, 0, 2]
  %whole = tensor.collapse_shape %moved [[0], [1, 2]] : tensor<5000x2x64xf32> into tensor<5000x128xf32>
  %0 = heddle.contract [bv, vh -> bh] %y, %whole : (tensor<32x5000xf32>, tensor<5000x128xf32>) -> tensor<32x128xf32>
  %1 = heddle.contract [bh, vh -> bv] %x, %whole : (tensor<32x128xf32>, tensor<5000x128xf32>) -> tensor<32x5000xf32>
  return %0, %1 : tensor<32x128xf32>, tensor<32x5000xf32>
}

// The copy stays where the result, added up in memory, is larger than it; where
// the products would be small; and where something else reads it.
// CHECK-LABEL: @stays
func.func @stays(%w: tensor<2x64x64xf32>, %x: tensor<500x128xf32>, %s: tensor<8x4x16x8xf32>, %v: tensor<8x96xf32>) -> (tensor<500x64xf32>, tensor<4x128x96xf32>, tensor<64x500xf32>, tensor<64x128xf32>) {
  // CHECK: linalg.transpose
  %init = tensor.empty() : tensor<64x2x64xf32>
  %moved = linalg.transpose ins(%w : tensor<2x64x64xf32>) outs(%init : tensor<64x2x64xf32>) permutation = [1, 0, 2]
  %whole = tensor.collapse_shape %moved [[0], [1, 2]] : tensor<64x2x64xf32> into tensor<64x128xf32>
  // CHECK: heddle.contract [bh, vh -> bv]
  %0 = heddle.contract [bh, vh -> bv] %x, %whole : (tensor<500x128xf32>, tensor<64x128xf32>) -> tensor<500x64xf32>
  // CHECK: linalg.transpose
  %init1 = tensor.empty() : tensor<4x8x16x8xf32>
  %moved1 = linalg.transpose ins(%s : tensor<8x4x16x8xf32>) outs(%init1 : tensor<4x8x16x8xf32>) permutation = [1, 0, 2, 3]
  %whole1 = tensor.collapse_shape %moved1 [[0], [1, 2], [3]] : tensor<4x8x16x8xf32> into tensor<4x128x8xf32>
  // CHECK: heddle.contract [bsh, hf -> bsf]
  %1 = heddle.contract [bsh, hf -> bsf] %whole1, %v : (tensor<4x128x8xf32>, tensor<8x96xf32>) -> tensor<4x128x96xf32>
  // CHECK: linalg.transpose
  %init2 = tensor.empty() : tensor<64x2x64xf32>
  %moved2 = linalg.transpose ins(%w : tensor<2x64x64xf32>) outs(%init2 : tensor<64x2x64xf32>) permutation = [1, 0, 2]
  %whole2 = tensor.collapse_shape %moved2 [[0], [1, 2]] : tensor<64x2x64xf32> into tensor<64x128xf32>
  // CHECK: heddle.contract [vh, bh -> vb]
  %2 = heddle.contract [vh, bh -> vb] %whole2, %x : (tensor<64x128xf32>, tensor<500x128xf32>) -> tensor<64x500xf32>
  %3 = math.tanh %whole2 : tensor<64x128xf32>
  return %0, %1, %2, %3 : tensor<500x64xf32>, tensor<4x128x96xf32>, tensor<64x500xf32>, tensor<64x128xf32>
}

// A sum of two products is packed as both of them write it.
// CHECK-LABEL: @scattered_rows
func.func @scattered_rows(%x: tensor<4x128x8xbf16>, %w: tensor<8x96xbf16>, %z: tensor<4x128x16xbf16>, %v: tensor<16x96xbf16>) -> tensor<2x4x64x96xbf16> {
  // CHECK-NOT: linalg.transpose
  // CHECK: %[[A:.*]] = heddle.contract {{.*}} -> tensor<2x4x64x96xbf16>
  // CHECK: %[[B:.*]] = heddle.contract {{.*}} accumulate(%[[A]]) {{.*}} -> tensor<2x4x64x96xbf16>
  // CHECK-NEXT: return %[[B]]
  %0 = heddle.contract [bsh, hf -> bsf] %x, %w : (tensor<4x128x8xbf16>, tensor<8x96xbf16>) -> tensor<4x128x96xbf16>
  %1 = heddle.contract [bsh, hf -> bsf] %z, %v accumulate(%0) : (tensor<4x128x16xbf16>, tensor<16x96xbf16>, tensor<4x128x96xbf16>) -> tensor<4x128x96xbf16>
  %parts = tensor.expand_shape %1 [[0], [1, 2], [3]] output_shape [4, 2, 64, 96] : tensor<4x128x96xbf16> into tensor<4x2x64x96xbf16>
  %init = tensor.empty() : tensor<2x4x64x96xbf16>
  %moved = linalg.transpose ins(%parts : tensor<4x2x64x96xbf16>) outs(%init : tensor<2x4x64x96xbf16>) permutation = [1, 0, 2, 3]
  return %moved : tensor<2x4x64x96xbf16>
}
