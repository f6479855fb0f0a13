// RUN: heddle-opt %s --heddle-shard-pipeline --heddle-localize | FileCheck %s
// RUN: %{mlir-opt} %s --pass-pipeline='builtin.module(heddle-propagate-shardings,heddle-insert-reshards,heddle-localize)' | FileCheck %s

// One loop over two dimensions of a tensor: neither is split.
heddle.mesh @mesh <["x"=2]>
// CHECK-LABEL: func.func @diagonal
// CHECK: %[[WHOLE:.*]] = comm.all_gather %arg0
// CHECK: linalg.generic {{.*}} ins(%[[WHOLE]] : tensor<4x4xf32>) outs(%arg1 : tensor<4xf32>)
func.func @diagonal(%x: tensor<4x4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>}, %o: tensor<4xf32>) -> tensor<4xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i, i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<4x4xf32>) outs(%o : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
