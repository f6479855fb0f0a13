// RUN: heddle-opt %s --split-input-file --heddle-propagate-shardings --heddle-materialize-pins | FileCheck %s --check-prefix=PROP
// RUN: heddle-opt %s --split-input-file --heddle-repeat-constants --heddle-propagate-shardings --heddle-materialize-pins --heddle-insert-reshards --heddle-verify-sharded --heddle-localize | FileCheck %s
// RUN: heddle-opt %s --split-input-file --heddle-repeat-constants --heddle-propagate-shardings --heddle-materialize-pins --heddle-insert-reshards --heddle-verify-sharded --heddle-localize --heddle-pack-collectives --heddle-verify-localized -o /dev/null

// The value is sharded as pinned, the ops around it follow, and the argument,
// which has another sharding, is resharded.
heddle.mesh @mesh <["x"=2]>
// PROP-LABEL: @pin
// PROP: math.tanh {{.*}} {heddle.factors = #heddle.factors<[ "1" = {"x"}]>
// PROP: %[[PINNED:.*]] = heddle.reshard %{{.*}} from <@mesh, [{}, {"x"}]> to <@mesh, [{}, {"x"}]>
// PROP: math.sqrt %[[PINNED]]
// PROP-NOT: heddle.pin
// CHECK-LABEL: @pin
// CHECK: comm.all_to_all
// CHECK-NEXT: math.exp {{.*}} tensor<8x2xf32>
// CHECK-NEXT: math.tanh
// CHECK-NEXT: math.sqrt
// CHECK-NEXT: return
func.func @pin(%a: tensor<8x4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>}) -> tensor<8x4xf32> {
  %0 = math.exp %a : tensor<8x4xf32>
  %1 = math.tanh %0 {heddle.pin = #heddle.sharding<@mesh, [{}, {"x"}]>} : tensor<8x4xf32>
  %2 = math.sqrt %1 : tensor<8x4xf32>
  return %2 : tensor<8x4xf32>
}

// -----

// A pin overrides the plan's factors of its own op, and ends a partial sum that
// would otherwise be passed on.
heddle.mesh @mesh <["x"=2]>
// CHECK-LABEL: @partial
// CHECK: %[[P:.*]] = heddle.contract
// CHECK: %[[S:.*]] = comm.all_reduce sum %[[P]]
// CHECK: arith.addf %[[S]], %[[S]] : tensor<8x8xf32>
func.func @partial(%a: tensor<8x4xf32>, %b: tensor<4x8xf32>) -> tensor<8x8xf32> {
  %0 = heddle.contract [bh, hf -> bf] %a, %b {heddle.factors = #heddle.factors<["h" = {"x"}]>, heddle.pin = #heddle.sharding<@mesh, [{}, {}]>} : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %1 = arith.addf %0, %0 : tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}

// -----

// A pin on a loop's carried value; the other result is free.
heddle.mesh @mesh <["x"=2]>
// PROP-LABEL: @loop
// PROP: heddle.carried = [#heddle.sharding<@mesh, [{}]>, #heddle.sharding<@mesh, [{"x"}]>]
func.func @loop(%a: tensor<8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}]>}) -> (tensor<8xf32>, tensor<8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %0:2 = scf.for %i = %c0 to %c3 step %c1 iter_args(%g = %a, %h = %a) -> (tensor<8xf32>, tensor<8xf32>) {
    %e = math.exp %g : tensor<8xf32>
    %t = math.tanh %h : tensor<8xf32>
    scf.yield %e, %t : tensor<8xf32>, tensor<8xf32>
  } {heddle.pin = [#heddle.sharding<@mesh, [{}]>, unit]}
  return %0#0, %0#1 : tensor<8xf32>, tensor<8xf32>
}

// -----

// Without priorities, the nearer seed wins: "a" reaches the middle from the
// left.
heddle.mesh @mesh <["x"=2]>
// PROP-LABEL: @near
// PROP: math.tanh {{.*}} heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>
func.func @near(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = math.exp %a {heddle.factors = #heddle.factors<["0" = {"x"}]>} : tensor<8x8xf32>
  %1 = math.tanh %0 : tensor<8x8xf32>
  %2 = math.sqrt %1 : tensor<8x8xf32>
  %3 = math.absf %2 : tensor<8x8xf32>
  %4 = math.log %3 {heddle.factors = #heddle.factors<["1" = {"x"}]>} : tensor<8x8xf32>
  return %4 : tensor<8x8xf32>
}

// -----

// With a priority, the farther seed is propagated first. The near seed keeps
// only its own op.
heddle.mesh @mesh <["x"=2]>
// PROP-LABEL: @far
// PROP: math.exp {{.*}} heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>
// PROP: math.tanh {{.*}} heddle.sharding = #heddle.sharding<@mesh, [{}, {"x"}]>
func.func @far(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = math.exp %a {heddle.factors = #heddle.factors<["0" = {"x"}]>, heddle.priority = 1 : i64} : tensor<8x8xf32>
  %1 = math.tanh %0 : tensor<8x8xf32>
  %2 = math.sqrt %1 : tensor<8x8xf32>
  %3 = math.absf %2 : tensor<8x8xf32>
  %4 = math.log %3 {heddle.factors = #heddle.factors<["1" = {"x"}]>} : tensor<8x8xf32>
  return %4 : tensor<8x8xf32>
}

// -----

// Seeds of arguments come after factors of the same priority, but before seeds
// of a later priority.
heddle.mesh @mesh <["x"=2]>
// PROP-LABEL: @arguments
// PROP: math.exp {{.*}} heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>
// PROP: math.tanh {{.*}} heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>
func.func @arguments(%a: tensor<8x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>}) -> tensor<8x8xf32> {
  %0 = math.exp %a : tensor<8x8xf32>
  %1 = math.tanh %0 : tensor<8x8xf32>
  %2 = math.sqrt %1 {heddle.factors = #heddle.factors<["1" = {"x"}]>, heddle.priority = 1 : i64} : tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}
