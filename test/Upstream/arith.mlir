// Ops and constants of arith on tensors. Upstream refuses both.

// RUN: %{mlir-opt} %s --pass-pipeline='builtin.module(heddle-shard-pipeline,heddle-localize-pipeline,heddle-verify-localized)' | FileCheck %s
// RUN: not mlir-opt %S/Inputs/arith.mlir --split-input-file --pass-pipeline='builtin.module(func.func(sharding-propagation,mesh-spmdization))' 2>&1 | FileCheck %s --check-prefix=UPSTREAM
// UPSTREAM: error: 'arith.mulf' op sharding interface is not implemented
// UPSTREAM: error: 'arith.constant' op sharding interface is not implemented

heddle.mesh @mesh <["x"=2]>

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<8x6xf32> {heddle.name = "x", heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<8x6xf32> {heddle.name = "y"}, tensor<8x2xf32> {heddle.name = "z"}) {
  // CHECK-DAG: %[[ONE:.*]] = arith.constant dense<1.000000e+00> : tensor<4x6xf32>
  // CHECK-DAG: %[[SQUARE:.*]] = arith.mulf %{{.*}}, %{{.*}} : tensor<4x6xf32>
  // CHECK: arith.addf %[[SQUARE]], %[[ONE]] : tensor<4x6xf32>
  %one = arith.constant dense<1.0> : tensor<8x6xf32>
  %square = arith.mulf %x, %x : tensor<8x6xf32>
  %y = arith.addf %square, %one : tensor<8x6xf32>
  // Each device takes its own rows of a constant whose rows differ.
  %rows = arith.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0], [9.0, 10.0], [11.0, 12.0], [13.0, 14.0], [15.0, 16.0]]> : tensor<8x2xf32>
  %columns = tensor.extract_slice %y[0, 1] [8, 2] [1, 2] : tensor<8x6xf32> to tensor<8x2xf32>
  // CHECK: arith.divf %{{.*}}, %{{.*}} : tensor<4x2xf32>
  %z = arith.divf %columns, %rows : tensor<8x2xf32>
  return %y, %z : tensor<8x6xf32>, tensor<8x2xf32>
}
