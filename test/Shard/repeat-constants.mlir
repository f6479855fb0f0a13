// RUN: heddle-opt %s --heddle-repeat-constants | FileCheck %s
// RUN: sed '/^heddle.mesh/d' %s | heddle-opt --heddle-repeat-constants | FileCheck %s --check-prefix=ONE-DEVICE

heddle.mesh @mesh <["x"=2]>

// Each use gets a constant of its own, so that one can be split along rows and
// the other along columns. The argument is not a constant.
// CHECK-LABEL: @uses
// CHECK-SAME: %[[X:.*]]: tensor<4x4xf32>
// CHECK: %[[B:.*]] = arith.constant dense<1.000000e+00>
// CHECK: %[[A:.*]] = arith.constant dense<1.000000e+00>
// CHECK: arith.addf %[[X]], %[[FIRST:.*]] :
// CHECK-NOT: arith.mulf %[[X]], %[[FIRST]] :
// CHECK: arith.mulf %[[X]], %{{.*}} :
// ONE-DEVICE: arith.constant dense
// ONE-DEVICE-NOT: arith.constant dense
func.func @uses(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %c = arith.constant dense<1.0> : tensor<4x4xf32>
  %0 = arith.addf %x, %c : tensor<4x4xf32>
  %1 = arith.mulf %x, %c : tensor<4x4xf32>
  return %0, %1 : tensor<4x4xf32>, tensor<4x4xf32>
}
