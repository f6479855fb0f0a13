// A dimension is split over two axes, one of which moves to the other
// dimension. Upstream cuts the columns but does not gather the rows, so each
// device has a quarter of its row block. A gather of both axes crashes it.

// RUN: %{mlir-opt} %s --pass-pipeline='builtin.module(heddle-shard-pipeline,heddle-localize-pipeline,heddle-verify-localized)' | FileCheck %s
// RUN: mlir-opt %S/Inputs/two-axes-gather.mlir --pass-pipeline='builtin.module(func.func(sharding-propagation,mesh-spmdization))' 2>&1 | FileCheck %s --check-prefix=UPSTREAM
// [[0], [1]] of 8 x 6 over 2 x 2 is 4 x 3.
// UPSTREAM: @main(%{{.*}}: tensor<2x6xf32>) -> tensor<2x3xf32>

heddle.mesh @mesh <["x"=2, "y"=2]>

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<2x6xf32>
// CHECK-SAME: -> (tensor<4x3xf32> {{.*}}, tensor<8x6xf32>
func.func @main(%x: tensor<8x6xf32> {heddle.name = "x", heddle.sharding = #heddle.sharding<@mesh, [{"x", "y"}, {}]>})
    -> (tensor<8x6xf32> {heddle.name = "blocks", heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {"y"}]>},
        tensor<8x6xf32> {heddle.name = "whole", heddle.sharding = #heddle.sharding<@mesh, [{}, {}]>}) {
  // CHECK: %[[ROWS:.*]] = linalg.exp ins(%[[X]] : tensor<2x6xf32>)
  // CHECK-DAG: tensor.expand_shape %[[ROWS]] {{.*}} into tensor<2x2x3xf32>
  // CHECK-DAG: comm.all_to_all %{{.*}} split 0 concat 1 over @mesh <{"y"}>
  // CHECK-DAG: comm.all_gather %[[ROWS]] {{.*}} over @mesh <{"x", "y"}>
  %rows = linalg.exp ins(%x : tensor<8x6xf32>) outs(%x : tensor<8x6xf32>) -> tensor<8x6xf32>
  return %rows, %rows : tensor<8x6xf32>, tensor<8x6xf32>
}
