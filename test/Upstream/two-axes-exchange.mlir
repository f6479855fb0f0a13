// Two axes that swap dimensions. Upstream moves one of them and returns rows
// where blocks are expected, without an error; if the sizes differ (8 x 6) it
// fails. With Heddle devices swap blocks.

// RUN: %{mlir-opt} %s --pass-pipeline='builtin.module(heddle-shard-pipeline,heddle-localize-pipeline,heddle-verify-localized)' | FileCheck %s
// RUN: mlir-opt %S/Inputs/two-axes-exchange.mlir --pass-pipeline='builtin.module(func.func(sharding-propagation,mesh-spmdization))' 2>&1 | FileCheck %s --check-prefix=UPSTREAM
// [[1], [0]] of 8 x 8 over 2 x 2 is 4 x 4.
// UPSTREAM: @main(%{{.*}}: tensor<4x4xf32>) -> tensor<8x2xf32>

heddle.mesh @mesh <["x"=2, "y"=2]>

// CHECK-LABEL: func.func @main
// CHECK-SAME: tensor<4x4xf32>
// CHECK-SAME: -> (tensor<4x4xf32>
func.func @main(%x: tensor<8x8xf32> {heddle.name = "x", heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {"y"}]>})
    -> (tensor<8x8xf32> {heddle.name = "y", heddle.sharding = #heddle.sharding<@mesh, [{"y"}, {"x"}]>}) {
  // CHECK: comm.permute {{.*}} tensor<4x4xf32>
  %y = linalg.exp ins(%x : tensor<8x8xf32>) outs(%x : tensor<8x8xf32>) -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}
