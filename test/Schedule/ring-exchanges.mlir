// RUN: heddle-opt %s --heddle-ring-exchanges | FileCheck %s

heddle.mesh @mesh <["tp"=4]>

// Each member multiplies its own rows, then those that it receives. Member i has
// the products of the blocks i, i + 1, ..., and block 0 is number 4 - i of them.
// CHECK-LABEL: func.func @gather
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<1x2x64xf32>, %[[W:[a-z0-9]+]]:
func.func @gather(%x: tensor<1x2x64xf32>, %w: tensor<64x32xf32>, %g: tensor<1x8x32xf32>) -> (tensor<1x8x32xf32>, tensor<64x32xf32>) {
  // CHECK: %[[I:.*]] = comm.axis_index @mesh <{"tp"}>
  // CHECK: %[[X1:.*]] = comm.permute %[[X]] sources [1, 2, 3, 0] over @mesh <{"tp"}> : tensor<1x2x64xf32>
  // CHECK: %[[X2:.*]] = comm.permute %[[X1]] sources [1, 2, 3, 0]
  // CHECK: %[[X3:.*]] = comm.permute %[[X2]] sources [1, 2, 3, 0]
  // CHECK-NOT: comm.
  // The weight's gradient sums over the rows, so it reads them in order.
  // CHECK: %[[ALL:.*]] = tensor.extract_slice {{.*}} : tensor<1x16x64xf32> to tensor<1x8x64xf32>
  // CHECK: heddle.contract "f" [bsh, hf -> bsf] %[[X]], %[[W]] {{.*}} -> tensor<1x2x32xf32>
  // CHECK: heddle.contract "f" [bsh, hf -> bsf] %[[X1]], %[[W]]
  // CHECK: heddle.contract "f" [bsh, hf -> bsf] %[[X2]], %[[W]]
  // CHECK: heddle.contract "f" [bsh, hf -> bsf] %[[X3]], %[[W]]
  // CHECK: %[[TWICE:.*]] = heddle.stack
  // CHECK: %[[BACK:.*]] = arith.subi %{{.*}}, %[[I]]
  // CHECK: %[[FIRST:.*]] = arith.remui %[[BACK]]
  // CHECK: %[[ROW:.*]] = arith.muli %[[FIRST]]
  // CHECK: tensor.extract_slice %{{.*}}[0, %[[ROW]], 0] [1, 8, 32] [1, 1, 1] : tensor<1x16x32xf32> to tensor<1x8x32xf32>
  // CHECK: heddle.contract "f" pass(wgrad) [bsh, bsf -> hf] %[[ALL]]
  %a = comm.all_gather %x dim 1 over @mesh <{"tp"}> : tensor<1x2x64xf32> -> tensor<1x8x64xf32>
  %p = heddle.contract "f" [bsh, hf -> bsf] %a, %w : (tensor<1x8x64xf32>, tensor<64x32xf32>) -> tensor<1x8x32xf32>
  %v = heddle.contract "f" pass(wgrad) [bsh, bsf -> hf] %a, %g : (tensor<1x8x64xf32>, tensor<1x8x32xf32>) -> tensor<64x32xf32>
  return %p, %v : tensor<1x8x32xf32>, tensor<64x32xf32>
}

// Member i begins with block i + 1 and ends with its own.
// CHECK-LABEL: func.func @scatter
func.func @scatter(%x: tensor<8x64xf32>, %w: tensor<64x32xf32>) -> tensor<2x32xf32> {
  // CHECK: %[[R0:.*]] = tensor.extract_slice %{{.*}}[%{{.*}}, 0] [2, 64] [1, 1]
  // CHECK: %[[P0:.*]] = heddle.contract "f" [sh, hf -> sf] %[[R0]], {{.*}} -> tensor<2x32xf32>
  // CHECK: %[[P1:.*]] = heddle.contract
  // CHECK: %[[T0:.*]] = comm.permute %[[P0]] sources [1, 2, 3, 0]
  // CHECK: %[[S1:.*]] = arith.addf %[[T0]], %[[P1]]
  // CHECK: %[[P2:.*]] = heddle.contract
  // CHECK: %[[T1:.*]] = comm.permute %[[S1]]
  // CHECK: %[[S2:.*]] = arith.addf %[[T1]], %[[P2]]
  // CHECK: %[[P3:.*]] = heddle.contract
  // CHECK: %[[T2:.*]] = comm.permute %[[S2]]
  // CHECK: %[[S3:.*]] = arith.addf %[[T2]], %[[P3]]
  // CHECK: return %[[S3]]
  %p = heddle.contract "f" [sh, hf -> sf] %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %y = comm.reduce_scatter sum %p dim 0 over @mesh <{"tp"}> : tensor<8x32xf32> -> tensor<2x32xf32>
  return %y : tensor<2x32xf32>
}

// An all-reduce is both. What follows is no product, so the gather stays.
// CHECK-LABEL: func.func @all_reduce
// CHECK-COUNT-3: comm.permute
// CHECK: %[[ALL:.*]] = comm.all_gather {{.*}} dim 0 {{.*}} : tensor<2x32xf32> -> tensor<8x32xf32>
// CHECK: math.tanh %[[ALL]]
func.func @all_reduce(%x: tensor<8x64xf32>, %w: tensor<64x32xf32>) -> tensor<8x32xf32> {
  %p = heddle.contract "f" [sh, hf -> sf] %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %y = comm.all_reduce sum %p over @mesh <{"tp"}> : tensor<8x32xf32>
  %t = math.tanh %y : tensor<8x32xf32>
  return %t : tensor<8x32xf32>
}

// Rows that are no runs of memory, or that the members do not divide.
// CHECK-LABEL: func.func @whole
// CHECK-NOT: comm.permute
// CHECK: comm.all_gather
// CHECK: comm.all_reduce
func.func @whole(%x: tensor<3x2x64xf32>, %w: tensor<64x32xf32>, %y: tensor<7x64xf32>) -> (tensor<3x8x32xf32>, tensor<7x32xf32>) {
  %a = comm.all_gather %x dim 1 over @mesh <{"tp"}> : tensor<3x2x64xf32> -> tensor<3x8x64xf32>
  %p = heddle.contract "f" [bsh, hf -> bsf] %a, %w : (tensor<3x8x64xf32>, tensor<64x32xf32>) -> tensor<3x8x32xf32>
  %q = heddle.contract "f" [sh, hf -> sf] %y, %w : (tensor<7x64xf32>, tensor<64x32xf32>) -> tensor<7x32xf32>
  %r = comm.all_reduce sum %q over @mesh <{"tp"}> : tensor<7x32xf32>
  return %p, %r : tensor<3x8x32xf32>, tensor<7x32xf32>
}
