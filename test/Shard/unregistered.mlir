// RUN: heddle-opt %s --allow-unregistered-dialect --heddle-repeat-constants --heddle-propagate-shardings --heddle-materialize-pins --heddle-insert-reshards --heddle-verify-sharded --heddle-localize --heddle-verify-localized | FileCheck %s

// An op that nothing is known about is computed whole on every device.
heddle.mesh @mesh <["a"=2]>
// CHECK-LABEL: @unregistered
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>
func.func @unregistered(%x: tensor<6xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"a"}]>}) -> tensor<6xf32> {
  // CHECK: %[[WHOLE:.*]] = comm.all_gather %[[X]]
  // CHECK: "toy.op"(%[[WHOLE]]) : (tensor<6xf32>) -> tensor<6xf32>
  %0 = "toy.op"(%x) : (tensor<6xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}
