// RUN: heddle-opt %s --heddle-chunk-exchanges=chunks=2 | FileCheck %s
// RUN: not heddle-opt %s --heddle-chunk-exchanges=chunks=1 2>&1 | FileCheck %s --check-prefix=ONE
// ONE: expected at least 2 chunks, got 1

heddle.mesh @mesh <["tp"=2]>

// A product and the reduce-scatter of its result along the sequence.
// CHECK-LABEL: func.func @scatter
func.func @scatter(%x: tensor<8x512x64xf32>, %w: tensor<64x32xf32>) -> tensor<8x256x32xf32> {
  // CHECK-NEXT: %[[X0:.*]] = tensor.extract_slice %{{.*}}[0, 0, 0] [4, 512, 64] [1, 1, 1]
  // CHECK-NEXT: %[[P0:.*]] = heddle.contract "f" [bsh, hf -> bsf] %[[X0]], %{{.*}} -> tensor<4x512x32xf32>
  // CHECK-NEXT: %[[Y0:.*]] = comm.reduce_scatter sum %[[P0]] dim 1 over @mesh <{"tp"}> : tensor<4x512x32xf32> -> tensor<4x256x32xf32>
  // CHECK-NEXT: %[[X1:.*]] = tensor.extract_slice %{{.*}}[4, 0, 0] [4, 512, 64] [1, 1, 1]
  // CHECK-NEXT: %[[P1:.*]] = heddle.contract "f" [bsh, hf -> bsf] %[[X1]]
  // CHECK-NEXT: %[[Y1:.*]] = comm.reduce_scatter sum %[[P1]] dim 1
  // CHECK-NEXT: %[[ALL:.*]] = heddle.stack %[[Y0]], %[[Y1]]
  // CHECK-NEXT: %[[Y:.*]] = tensor.collapse_shape %[[ALL]] {{\[}}[0, 1], [2], [3]]
  // CHECK-NEXT: return %[[Y]]
  %p = heddle.contract "f" [bsh, hf -> bsf] %x, %w : (tensor<8x512x64xf32>, tensor<64x32xf32>) -> tensor<8x512x32xf32>
  %y = comm.reduce_scatter sum %p dim 1 over @mesh <{"tp"}> : tensor<8x512x32xf32> -> tensor<8x256x32xf32>
  return %y : tensor<8x256x32xf32>
}

// A gather along the sequence, the product of its rows, and the product for the
// gradient of the weight, which sums over the rows and so reads all chunks.
// CHECK-LABEL: func.func @gather
func.func @gather(%x: tensor<8x256x64xf32>, %w: tensor<64x32xf32>, %g: tensor<8x512x32xf32>) -> (tensor<8x512x32xf32>, tensor<64x32xf32>) {
  // CHECK-NEXT: %[[X0:.*]] = tensor.extract_slice %{{.*}}[0, 0, 0] [4, 256, 64] [1, 1, 1]
  // CHECK-NEXT: %[[G0:.*]] = comm.all_gather %[[X0]] dim 1 over @mesh <{"tp"}> : tensor<4x256x64xf32> -> tensor<4x512x64xf32>
  // CHECK-NEXT: %[[X1:.*]] = tensor.extract_slice %{{.*}}[4, 0, 0] [4, 256, 64] [1, 1, 1]
  // CHECK-NEXT: %[[G1:.*]] = comm.all_gather %[[X1]] dim 1
  // CHECK-NEXT: %[[STACK:.*]] = heddle.stack %[[G0]], %[[G1]]
  // CHECK-NEXT: %[[G:.*]] = tensor.collapse_shape %[[STACK]]
  // CHECK-NEXT: %[[P0:.*]] = heddle.contract "f" [bsh, hf -> bsf] %[[G0]]
  // CHECK-NEXT: %[[P1:.*]] = heddle.contract "f" [bsh, hf -> bsf] %[[G1]]
  // CHECK-NEXT: %[[PS:.*]] = heddle.stack %[[P0]], %[[P1]]
  // CHECK-NEXT: %[[P:.*]] = tensor.collapse_shape %[[PS]]
  // CHECK-NEXT: %[[W:.*]] = heddle.contract "f" pass(wgrad) [bsh, bsf -> hf] %[[G]]
  // CHECK-NEXT: return %[[P]], %[[W]]
  %a = comm.all_gather %x dim 1 over @mesh <{"tp"}> : tensor<8x256x64xf32> -> tensor<8x512x64xf32>
  %p = heddle.contract "f" [bsh, hf -> bsf] %a, %w : (tensor<8x512x64xf32>, tensor<64x32xf32>) -> tensor<8x512x32xf32>
  %v = heddle.contract "f" pass(wgrad) [bsh, bsf -> hf] %a, %g : (tensor<8x512x64xf32>, tensor<8x512x32xf32>) -> tensor<64x32xf32>
  return %p, %v : tensor<8x512x32xf32>, tensor<64x32xf32>
}

// Exchanges along the rows themselves stay whole, and so do rows that do not
// divide.
// CHECK-LABEL: func.func @whole
// CHECK-NOT: heddle.stack
func.func @whole(%x: tensor<4x64xf32>, %w: tensor<64x32xf32>, %y: tensor<3x4x64xf32>) -> (tensor<8x32xf32>, tensor<3x2x32xf32>) {
  %a = comm.all_gather %x dim 0 over @mesh <{"tp"}> : tensor<4x64xf32> -> tensor<8x64xf32>
  %p = heddle.contract "f" [bh, hf -> bf] %a, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %q = heddle.contract "f" [bsh, hf -> bsf] %y, %w : (tensor<3x4x64xf32>, tensor<64x32xf32>) -> tensor<3x4x32xf32>
  %r = comm.reduce_scatter sum %q dim 1 over @mesh <{"tp"}> : tensor<3x4x32xf32> -> tensor<3x2x32xf32>
  return %p, %r : tensor<8x32xf32>, tensor<3x2x32xf32>
}
