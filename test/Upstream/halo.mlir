// A convolution whose rows are split. Upstream supports only index maps that
// are projected permutations. With Heddle the devices exchange the rows at the
// edges of their parts.

// RUN: %{mlir-opt} %s --pass-pipeline='builtin.module(heddle-shard-pipeline,heddle-localize-pipeline,heddle-verify-localized)' | FileCheck %s
// RUN: not mlir-opt %S/Inputs/halo.mlir --pass-pipeline='builtin.module(func.func(sharding-propagation,mesh-spmdization))' 2>&1 | FileCheck %s --check-prefix=UPSTREAM
// UPSTREAM: error: 'linalg.conv_1d' op supports indexing maps that are only projected permutation

heddle.mesh @mesh <["x"=2]>

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<10xf32> {heddle.name = "x", heddle.sharding = #heddle.sharding<@mesh, [{"x"}]>},
                %w: tensor<3xf32> {heddle.name = "w"},
                %y: tensor<8xf32> {heddle.name = "y", heddle.sharding = #heddle.sharding<@mesh, [{"x"}]>})
    -> (tensor<8xf32> {heddle.name = "result"}) {
  // CHECK: comm.permute
  // CHECK: linalg.conv_1d ins(%{{.*}}, %{{.*}} : tensor<6xf32>, tensor<3xf32>) outs(%{{.*}} : tensor<4xf32>)
  %result = linalg.conv_1d ins(%x, %w : tensor<10xf32>, tensor<3xf32>) outs(%y : tensor<8xf32>) -> tensor<8xf32>
  return %result : tensor<8xf32>
}
