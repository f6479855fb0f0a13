// Operands that are split differently. Upstream makes an op whose operands have
// different shapes; if only the users are annotated, it crashes. Heddle
// reshards one of the operands.

// RUN: %{mlir-opt} %s --pass-pipeline='builtin.module(heddle-shard-pipeline,heddle-localize-pipeline,heddle-verify-localized)' | FileCheck %s
// RUN: not mlir-opt %S/Inputs/conflict.mlir --pass-pipeline='builtin.module(func.func(sharding-propagation,mesh-spmdization))' 2>&1 | FileCheck %s --check-prefix=UPSTREAM
// UPSTREAM: error: 'linalg.add' op inferred input/output operand #1 has shape's dimension #0 to be 4, but found 8

heddle.mesh @mesh <["x"=2]>

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<4x6xf32> {{.*}}, %[[Y:.*]]: tensor<8x3xf32>
func.func @main(%x: tensor<8x6xf32> {heddle.name = "x", heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>},
                %y: tensor<8x6xf32> {heddle.name = "y", heddle.sharding = #heddle.sharding<@mesh, [{}, {"x"}]>})
    -> (tensor<8x6xf32> {heddle.name = "sum", heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>}) {
  // CHECK: tensor.expand_shape %[[Y]] {{.*}} into tensor<2x4x3xf32>
  // CHECK: comm.all_to_all %{{.*}} split 0 concat 1 over @mesh <{"x"}>
  // CHECK: %[[MOVED:.*]] = tensor.collapse_shape %{{.*}} into tensor<4x6xf32>
  // CHECK: linalg.add ins(%[[X]], %[[MOVED]] : tensor<4x6xf32>, tensor<4x6xf32>)
  %sum = linalg.add ins(%x, %y : tensor<8x6xf32>, tensor<8x6xf32>) outs(%x : tensor<8x6xf32>) -> tensor<8x6xf32>
  return %sum : tensor<8x6xf32>
}
