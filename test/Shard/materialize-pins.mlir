// RUN: heddle-opt %s --split-input-file --verify-diagnostics --heddle-materialize-pins | FileCheck %s

// A pin becomes a reshard even if the op already makes the value as pinned:
// here for a load of a variable and for a call's result.
heddle.mesh @mesh <["x"=2]>
heddle.variable @w : tensor<4xf32> parameter init(zeros) storage(<@mesh, [{"x"}]>)
func.func private @callee() -> tensor<4xf32> {
  %w = heddle.load @w : tensor<4xf32>
  return %w : tensor<4xf32>
}
// CHECK-LABEL: @load
// CHECK: %[[W:.*]] = heddle.load @w : tensor<4xf32>
// CHECK-NEXT: %[[PINNED:.*]] = heddle.reshard %[[W]] from <@mesh, [{"x"}]> to <@mesh, [{}]>
// CHECK-NEXT: math.exp %[[PINNED]]
// CHECK-NEXT: %[[CALL:.*]] = call @callee() :
// CHECK-NEXT: %[[R:.*]] = heddle.reshard %[[CALL]] from <@mesh, [{"x"}]> to <@mesh, [{"x"}]>
// CHECK-NEXT: return %[[R]]
func.func @load() -> tensor<4xf32> {
  %w = heddle.load @w : tensor<4xf32> {heddle.pin = #heddle.sharding<@mesh, [{}]>}
  %0 = math.exp %w : tensor<4xf32>
  %1 = call @callee() {heddle.pin = #heddle.sharding<@mesh, [{"x"}]>} : () -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

heddle.mesh @mesh <["x"=2]>
heddle.variable @w : tensor<4xf32> parameter init(zeros)
func.func @no_storage() {
  // expected-error@+1 {{expected the storage of @w: run heddle-propagate-shardings before}}
  %w = heddle.load @w : tensor<4xf32> {heddle.pin = #heddle.sharding<@mesh, [{}]>}
  return
}

// -----

heddle.mesh @mesh <["x"=2]>
func.func @pin_axis(%x: tensor<4xf32>) {
  // expected-error@+1 {{expected an axis of #heddle.mesh<["x"=2]>, got "y"}}
  %0 = math.exp %x {heddle.pin = #heddle.sharding<@mesh, [{"y"}]>} : tensor<4xf32>
  return
}
