// On a GPU, a sum over rows has four blocks for each of 132 multiprocessors, if
// three rows a block suffice for that.
// RUN: heddle-opt %s --heddle-decompose-ops | FileCheck %s

module attributes {heddle.target_gpu = "sm_80"} {

// CHECK-LABEL: func.func @rows_1200
// CHECK: heddle.reduce_blocks sum %{{.*}} rows(1) block(3) : tensor<1200x8xf32> -> tensor<400x8xf32>
func.func @rows_1200(%x: tensor<1200x8xf32>) -> tensor<8xf32> {
  %y = heddle.reduce sum %x over [0] : tensor<1200x8xf32> -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// CHECK-LABEL: func.func @rows_2048
// CHECK: heddle.reduce_blocks sum %{{.*}} rows(1) block(3) : tensor<2048x8xf32> -> tensor<683x8xf32>
func.func @rows_2048(%x: tensor<2048x8xf32>) -> tensor<8xf32> {
  %y = heddle.reduce sum %x over [0] : tensor<2048x8xf32> -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// CHECK-LABEL: func.func @rows_2113
// CHECK: heddle.reduce_blocks sum %{{.*}} rows(1) block(4) : tensor<2113x8xf32> -> tensor<529x8xf32>
func.func @rows_2113(%x: tensor<2113x8xf32>) -> tensor<8xf32> {
  %y = heddle.reduce sum %x over [0] : tensor<2113x8xf32> -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// CHECK-LABEL: func.func @rows_8192
// CHECK: heddle.reduce_blocks sum %{{.*}} rows(2) block(12) : tensor<8x1024x8xf32> -> tensor<683x8xf32>
func.func @rows_8192(%x: tensor<8x1024x8xf32>) -> tensor<8xf32> {
  %y = heddle.reduce sum %x over [0, 1] : tensor<8x1024x8xf32> -> tensor<8xf32>
  return %y : tensor<8xf32>
}

}
