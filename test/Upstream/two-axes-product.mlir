// A product over a mesh of two axes: rows over one, the sum over the other.
// Upstream gives the accumulator the global shape on all devices but one. In
// Heddle it is a partial sum, which is reduced over the second axis alone.

// RUN: %{mlir-opt} %s --pass-pipeline='builtin.module(heddle-shard-pipeline,heddle-localize-pipeline,heddle-verify-localized)' | FileCheck %s
// RUN: not mlir-opt %S/Inputs/two-axes-product.mlir --pass-pipeline='builtin.module(func.func(sharding-propagation,mesh-spmdization))' 2>&1 | FileCheck %s --check-prefix=UPSTREAM
// UPSTREAM: error: 'scf.if' op {{.*}}source type #0 'tensor<8x4xf32>' should match input type #0 'tensor<4x4xf32>'

heddle.mesh @mesh <["x"=2, "y"=2]>

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<8x6xf32> {heddle.name = "x", heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {"y"}]>},
                %w: tensor<6x4xf32> {heddle.name = "w", heddle.sharding = #heddle.sharding<@mesh, [{"y"}, {}]>},
                %y: tensor<8x4xf32> {heddle.name = "y", heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<8x4xf32> {heddle.name = "result", heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>}) {
  // CHECK: %[[PART:.*]] = linalg.matmul ins(%{{.*}}, %{{.*}} : tensor<4x3xf32>, tensor<3x4xf32>) outs(%{{.*}} : tensor<4x4xf32>)
  // CHECK: comm.all_reduce sum %[[PART]] over @mesh <{"y"}>
  %result = linalg.matmul ins(%x, %w : tensor<8x6xf32>, tensor<6x4xf32>) outs(%y : tensor<8x4xf32>) -> tensor<8x4xf32>
  return %result : tensor<8x4xf32>
}
