// Destinations made by tensor.empty, as linalg programs have them. Upstream
// refuses them, annotated or not.

// RUN: %{mlir-opt} %s --pass-pipeline='builtin.module(heddle-shard-pipeline,heddle-localize-pipeline,heddle-verify-localized)' | FileCheck %s
// RUN: not mlir-opt %S/Inputs/tensor-empty.mlir --pass-pipeline='builtin.module(func.func(sharding-propagation,mesh-spmdization))' 2>&1 | FileCheck %s --check-prefix=UPSTREAM
// UPSTREAM: error: 'tensor.empty' op sharding interface is not implemented

heddle.mesh @mesh <["x"=2]>

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<8x6xf32> {heddle.name = "x", heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<8x6xf32> {heddle.name = "y"}) {
  // CHECK: %[[EMPTY:.*]] = tensor.empty() : tensor<4x6xf32>
  // CHECK: linalg.exp ins(%{{.*}} : tensor<4x6xf32>) outs(%[[EMPTY]] : tensor<4x6xf32>)
  %empty = tensor.empty() : tensor<8x6xf32>
  %y = linalg.exp ins(%x : tensor<8x6xf32>) outs(%empty : tensor<8x6xf32>) -> tensor<8x6xf32>
  return %y : tensor<8x6xf32>
}
