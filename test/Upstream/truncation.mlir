// A dimension that the axis does not divide. Upstream truncates: of 10 rows
// over 4 devices each gets 2, and the last 2 rows are lost without an error.
// With Heddle each device gets 3 rows, and the padding of the last device does
// not count in the sum.

// RUN: %{mlir-opt} %s --pass-pipeline='builtin.module(heddle-shard-pipeline,heddle-localize-pipeline,heddle-verify-localized)' | FileCheck %s
// RUN: mlir-opt %S/Inputs/truncation.mlir --pass-pipeline='builtin.module(func.func(sharding-propagation,mesh-spmdization))' 2>&1 | FileCheck %s --check-prefix=UPSTREAM
// Two rows of ten on each of four devices.
// UPSTREAM: @main(%{{.*}}: tensor<2x6xf32>) -> tensor<2x6xf32>

heddle.mesh @mesh <["x"=4]>

// CHECK-LABEL: func.func @main
// CHECK-SAME: tensor<3x6xf32>
func.func @main(%x: tensor<10x6xf32> {heddle.name = "x", heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<10x6xf32> {heddle.name = "rows"}, tensor<6xf32> {heddle.name = "sum"}) {
  // CHECK: %[[ROWS:.*]] = linalg.exp ins(%{{.*}} : tensor<3x6xf32>)
  %rows = linalg.exp ins(%x : tensor<10x6xf32>) outs(%x : tensor<10x6xf32>) -> tensor<10x6xf32>
  // exp(0) is 1, so padding must be masked before the sum.
  // CHECK: %[[MASKED:.*]] = heddle.mask_padding %[[ROWS]]
  // CHECK: linalg.reduce {{.*}} ins(%[[MASKED]] : tensor<3x6xf32>)
  // CHECK: comm.all_reduce sum
  %zero = arith.constant dense<0.0> : tensor<6xf32>
  %sum = linalg.reduce { arith.addf } ins(%rows : tensor<10x6xf32>) outs(%zero : tensor<6xf32>) dimensions = [0]
  return %rows, %sum : tensor<10x6xf32>, tensor<6xf32>
}
