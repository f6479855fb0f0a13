// RUN: heddle-opt %s --split-input-file --heddle-repeat-constants --heddle-propagate-shardings --heddle-materialize-pins --heddle-insert-reshards --heddle-verify-sharded --heddle-localize --heddle-verify-localized | FileCheck %s

// Each micro-batch adds the device's own part. The update sums over devices
// once, for all readers of the gradient.
heddle.mesh @mesh <["dp"=2, "tp"=2]>
// CHECK: heddle.variable @grad.w : tensor<4x8xf32> gradient init(zeros) storage(<@mesh, [{}, {"tp"}], partial = sum {"dp"}>)
heddle.variable @grad.w : tensor<4x8xf32> gradient init(zeros)
heddle.variable @w : tensor<4x8xf32> parameter init(zeros)
// CHECK-LABEL: func.func @accumulate
// CHECK-NOT: comm.
// CHECK: heddle.store %{{.*}}, @grad.w
func.func @accumulate(%x: tensor<6x4xf32>, %dy: tensor<6x8xf32>) {
  %dw = heddle.contract "c" pass(wgrad) [bh, bf -> hf] %x, %dy {heddle.factors = #heddle.factors<["b" = {"dp"}, "f" = {"tp"}]>} : (tensor<6x4xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
  %g = heddle.load @grad.w : tensor<4x8xf32>
  %s = arith.addf %g, %dw : tensor<4x8xf32>
  heddle.store %s, @grad.w : tensor<4x8xf32>
  return
}
// CHECK-LABEL: func.func @update
// CHECK: %[[G:.*]] = heddle.load @grad.w
// CHECK: %[[R:.*]] = comm.all_reduce sum %[[G]] over @mesh <{"dp"}>
// CHECK: arith.mulf %[[R]], %[[R]]
// CHECK: arith.subf %{{.*}}, %[[R]]
// CHECK-NOT: comm.all_reduce {{.*}}4x4
// CHECK: %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : tensor<4x4xf32>
// CHECK: heddle.store %[[ZERO]], @grad.w
func.func @update() -> tensor<f32> {
  %g = heddle.load @grad.w : tensor<4x8xf32>
  %q = arith.mulf %g, %g : tensor<4x8xf32>
  %n = heddle.reduce sum %q over [0, 1] : tensor<4x8xf32> -> tensor<f32>
  %w = heddle.load @w : tensor<4x8xf32>
  %v = arith.subf %w, %g : tensor<4x8xf32>
  heddle.store %v, @w : tensor<4x8xf32>
  %zero = arith.constant dense<0.0> : tensor<4x8xf32>
  heddle.store %zero, @grad.w : tensor<4x8xf32>
  return %n : tensor<f32>
}

// -----

// A plan may ask for the sum after each micro-batch.
module attributes {heddle.reduce_gradients = #heddle.gradient_reduction<micro_batch>} {
heddle.mesh @mesh <["dp"=2]>
// CHECK: heddle.variable @grad.w : tensor<4x8xf32> gradient init(zeros) storage(<@mesh, [{}, {}]>)
heddle.variable @grad.w : tensor<4x8xf32> gradient init(zeros)
// CHECK-LABEL: func.func @each
// CHECK: comm.all_reduce
func.func @each(%x: tensor<6x4xf32>, %dy: tensor<6x8xf32>) {
  %dw = heddle.contract "c" pass(wgrad) [bh, bf -> hf] %x, %dy {heddle.factors = #heddle.factors<["b" = {"dp"}]>} : (tensor<6x4xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
  %g = heddle.load @grad.w : tensor<4x8xf32>
  %s = arith.addf %g, %dw : tensor<4x8xf32>
  heddle.store %s, @grad.w : tensor<4x8xf32>
  return
}
}

// -----

// The gradient is stored in parts over the same axis, so each micro-batch
// reduce-scatters its own gradient.
heddle.mesh @mesh <["dp"=2]>
// CHECK: storage(<@mesh, [{"dp"}, {}]>)
heddle.variable @grad.w : tensor<4x8xf32> gradient init(zeros) {heddle.storage_axes = #heddle.sharding<@mesh, [{"dp"}, {}]>}
// CHECK-LABEL: func.func @scattered
// CHECK: comm.reduce_scatter
func.func @scattered(%x: tensor<6x4xf32>, %dy: tensor<6x8xf32>) {
  %dw = heddle.contract "c" pass(wgrad) [bh, bf -> hf] %x, %dy {heddle.factors = #heddle.factors<["b" = {"dp"}]>} : (tensor<6x4xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
  %g = heddle.load @grad.w : tensor<4x8xf32>
  %s = arith.addf %g, %dw : tensor<4x8xf32>
  heddle.store %s, @grad.w : tensor<4x8xf32>
  return
}

// -----

// Summed in each micro-batch, because the added value or the sum is also needed
// whole, or another function stores something other than zeros.
heddle.mesh @mesh <["dp"=2]>
// CHECK: heddle.variable @grad.a : {{.*}} storage(<@mesh, [{}, {}]>)
heddle.variable @grad.a : tensor<4x8xf32> gradient init(zeros)
// CHECK: heddle.variable @grad.b : {{.*}} storage(<@mesh, [{}, {}]>)
heddle.variable @grad.b : tensor<4x8xf32> gradient init(zeros)
// CHECK: heddle.variable @grad.c : {{.*}} storage(<@mesh, [{}, {}]>)
heddle.variable @grad.c : tensor<4x8xf32> gradient init(zeros)
// CHECK-LABEL: func.func @used
func.func @used(%x: tensor<6x4xf32>, %dy: tensor<6x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %da = heddle.contract "a" pass(wgrad) [bh, bf -> hf] %x, %dy {heddle.factors = #heddle.factors<["b" = {"dp"}]>} : (tensor<6x4xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
  %a = heddle.load @grad.a : tensor<4x8xf32>
  %sa = arith.addf %a, %da : tensor<4x8xf32>
  heddle.store %sa, @grad.a : tensor<4x8xf32>
  %db = heddle.contract "b" pass(wgrad) [bh, bf -> hf] %x, %dy {heddle.factors = #heddle.factors<["b" = {"dp"}]>} : (tensor<6x4xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
  %b = heddle.load @grad.b : tensor<4x8xf32>
  %sb = arith.addf %db, %b : tensor<4x8xf32>
  heddle.store %sb, @grad.b : tensor<4x8xf32>
  %dc = heddle.contract "c" pass(wgrad) [bh, bf -> hf] %x, %dy {heddle.factors = #heddle.factors<["b" = {"dp"}]>} : (tensor<6x4xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
  %c = heddle.load @grad.c : tensor<4x8xf32>
  %sc = arith.addf %c, %dc : tensor<4x8xf32>
  heddle.store %sc, @grad.c : tensor<4x8xf32>
  return %da, %sb : tensor<4x8xf32>, tensor<4x8xf32>
}
func.func @sets(%one: tensor<4x8xf32>) {
  heddle.store %one, @grad.c : tensor<4x8xf32>
  return
}

// -----

// The initial values of all devices would be added to the sum.
heddle.mesh @mesh <["dp"=2]>
// CHECK: heddle.variable @grad.w : tensor<4x8xf32> gradient init(ones) storage(<@mesh, [{}, {}]>)
heddle.variable @grad.w : tensor<4x8xf32> gradient init(ones)
// CHECK-LABEL: func.func @starts_from_ones
// CHECK: comm.all_reduce
func.func @starts_from_ones(%x: tensor<6x4xf32>, %dy: tensor<6x8xf32>) {
  %dw = heddle.contract "c" pass(wgrad) [bh, bf -> hf] %x, %dy {heddle.factors = #heddle.factors<["b" = {"dp"}]>} : (tensor<6x4xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
  %g = heddle.load @grad.w : tensor<4x8xf32>
  %s = arith.addf %g, %dw : tensor<4x8xf32>
  heddle.store %s, @grad.w : tensor<4x8xf32>
  return
}

// -----

// The sum of the loss also waits for the update; a counter is no partial sum.
heddle.mesh @mesh <["dp"=2]>
// CHECK: heddle.variable @loss_sum : tensor<f32> loss init(zeros) storage(<@mesh, [], partial = sum {"dp"}>)
heddle.variable @loss_sum : tensor<f32> loss init(zeros)
// CHECK: heddle.variable @seen : tensor<f32> counter init(zeros) storage(<@mesh, []>)
heddle.variable @seen : tensor<f32> counter init(zeros)
// CHECK-LABEL: func.func @loss
// CHECK-NOT: comm.
// CHECK: return
func.func @loss(%x: tensor<6xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"dp"}]>}) {
  %n = heddle.reduce sum %x over [0] : tensor<6xf32> -> tensor<f32>
  %l = heddle.load @loss_sum : tensor<f32>
  %s = arith.addf %l, %n : tensor<f32>
  heddle.store %s, @loss_sum : tensor<f32>
  return
}
// CHECK-LABEL: func.func @count
// CHECK: comm.all_reduce
func.func @count(%x: tensor<6xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"dp"}]>}) {
  %n = heddle.reduce sum %x over [0] : tensor<6xf32> -> tensor<f32>
  %c = heddle.load @seen : tensor<f32>
  %t = arith.addf %c, %n : tensor<f32>
  heddle.store %t, @seen : tensor<f32>
  return
}
