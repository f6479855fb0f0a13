// RUN: heddle-opt %s --split-input-file --heddle-repeat-constants --heddle-propagate-shardings --heddle-insert-reshards --heddle-verify-sharded | FileCheck %s

// Two partial sums are added before they are reduced. A norm needs the reduced
// sum, so the reduction stands in front of it.
heddle.mesh @mesh <["tp"=2]>
// CHECK-LABEL: @late
func.func @late(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %s: tensor<f32>) -> tensor<4x6xf32> {
  // CHECK: %[[A:.*]] = heddle.contract "a"
  %a = heddle.contract "a" [bf, fh -> bh] %x, %w {heddle.factors = #heddle.factors<["f" = {"tp"}]>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  // CHECK: %[[B:.*]] = heddle.contract "b"
  %b = heddle.contract "b" [bf, fh -> bh] %x, %w {heddle.factors = #heddle.factors<["f" = {"tp"}]>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  // CHECK: %[[SUM:.*]] = arith.addf %[[A]], %[[B]] {{.*}}partial = sum {"tp"}
  %sum = arith.addf %a, %b : tensor<4x6xf32>
  %r = heddle.broadcast %s along [] : tensor<f32> -> tensor<4x6xf32>
  // CHECK: %[[SCALED:.*]] = arith.mulf %[[SUM]], {{.*}}partial = sum {"tp"}
  %scaled = arith.mulf %sum, %r : tensor<4x6xf32>
  // CHECK: %[[WHOLE:.*]] = heddle.reshard %[[SCALED]] from <@mesh, [{}, {}], partial = sum {"tp"}> to <@mesh, [{}, {}]>
  // CHECK: math.exp %[[WHOLE]]
  // CHECK-NOT: reshard
  %e = math.exp %scaled : tensor<4x6xf32>
  return %e : tensor<4x6xf32>
}

// -----

// Also if the next op splits a factor over the same axes: whole rows are added,
// and one sum is scattered instead of three. (A norm's gradient from queries,
// keys and values under sequence parallelism.)
heddle.mesh @mesh <["tp"=2]>
// CHECK-LABEL: @late_scatter
func.func @late_scatter(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> tensor<4x6xf32> {
  %a = heddle.contract "a" [bf, fh -> bh] %x, %w {heddle.factors = #heddle.factors<["f" = {"tp"}]>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %b = heddle.contract "b" [bf, fh -> bh] %x, %w {heddle.factors = #heddle.factors<["f" = {"tp"}]>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %c = heddle.contract "c" [bf, fh -> bh] %x, %w {heddle.factors = #heddle.factors<["f" = {"tp"}]>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  // CHECK-NOT: heddle.reshard
  // CHECK: arith.addf {{.*}}partial = sum {"tp"}
  // CHECK: %[[SUM:.*]] = arith.addf {{.*}}partial = sum {"tp"}
  %ab = arith.addf %a, %b : tensor<4x6xf32>
  %abc = arith.addf %ab, %c : tensor<4x6xf32>
  // CHECK: %[[ROWS:.*]] = heddle.reshard %[[SUM]] from <@mesh, [{}, {}], partial = sum {"tp"}> to <@mesh, [{"tp"}, {}]>
  // CHECK: math.exp %[[ROWS]]
  %e = math.exp %abc {heddle.factors = #heddle.factors<["0" = {"tp"}]>} : tensor<4x6xf32>
  return %e : tensor<4x6xf32>
}

// -----

// But not if the user has stated that the addition is split.
heddle.mesh @mesh <["tp"=2]>
// CHECK-LABEL: @early_scatter
func.func @early_scatter(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> tensor<4x6xf32> {
  %a = heddle.contract "a" [bf, fh -> bh] %x, %w {heddle.factors = #heddle.factors<["f" = {"tp"}]>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %b = heddle.contract "b" [bf, fh -> bh] %x, %w {heddle.factors = #heddle.factors<["f" = {"tp"}]>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  // CHECK-COUNT-2: heddle.reshard {{.*}} to <@mesh, [{"tp"}, {}]>
  // CHECK: arith.addf
  // CHECK-NOT: heddle.reshard
  %ab = arith.addf %a, %b {heddle.factors = #heddle.factors<["0" = {"tp"}]>} : tensor<4x6xf32>
  %e = math.exp %ab : tensor<4x6xf32>
  return %e : tensor<4x6xf32>
}

// -----

// A value with a use that needs the sum is reduced at once, for both.
heddle.mesh @mesh <["tp"=2]>
// CHECK-LABEL: @once
func.func @once(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  %a = heddle.contract "a" [bf, fh -> bh] %x, %w {heddle.factors = #heddle.factors<["f" = {"tp"}]>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  // CHECK: %[[WHOLE:.*]] = heddle.reshard
  // CHECK-NOT: reshard
  // CHECK: arith.negf %[[WHOLE]]
  %n = arith.negf %a : tensor<4x6xf32>
  // CHECK: math.exp %[[WHOLE]]
  %e = math.exp %a : tensor<4x6xf32>
  return %n, %e : tensor<4x6xf32>, tensor<4x6xf32>
}

// -----

// A bias is not added to a partial sum. The product of two partial sums is
// none.
heddle.mesh @mesh <["tp"=2]>
// CHECK-LABEL: @no_later
func.func @no_later(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %b: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %a = heddle.contract "a" [bf, fh -> bh] %x, %w {heddle.factors = #heddle.factors<["f" = {"tp"}]>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %c = heddle.contract "a" [bf, fh -> bh] %x, %w {heddle.factors = #heddle.factors<["f" = {"tp"}]>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  // CHECK-COUNT-2: heddle.reshard
  // CHECK-NOT: heddle.reshard
  %m = arith.mulf %a, %c : tensor<4x6xf32>
  // CHECK: arith.addf
  // CHECK-NOT: partial
  %s = arith.addf %m, %b : tensor<4x6xf32>
  return %s : tensor<4x6xf32>
}

// -----

// A tensor that a product accumulates onto is added on one device.
heddle.mesh @mesh <["tp"=2]>
// CHECK-LABEL: @accumulator
// CHECK-SAME: %[[ACC:[a-z0-9]*]]: tensor<4x6xf32>
func.func @accumulator(%acc: tensor<4x6xf32>, %x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> tensor<4x6xf32> {
  // CHECK: %[[PART:.*]] = heddle.reshard %[[ACC]] from <@mesh, [{}, {}]> to <@mesh, [{}, {}], partial = sum {"tp"}>
  // CHECK: heddle.contract {{.*}}accumulate(%[[PART]])
  %a = heddle.contract "a" [bf, fh -> bh] %x, %w accumulate(%acc) {heddle.factors = #heddle.factors<["f" = {"tp"}]>} : (tensor<4x8xf32>, tensor<8x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %a : tensor<4x6xf32>
}

// -----

// A parameter that is stored over more axes is gathered at its use, and again
// after another parameter of its size. Little that is gathered in between (%s)
// does not count.
heddle.mesh @mesh <["dp"=2]>
heddle.variable @w : tensor<8x8xf32> parameter init(zeros) {heddle.storage_axes = #heddle.sharding<@mesh, [{"dp"}, {}]>}
heddle.variable @v : tensor<8x8xf32> parameter init(zeros) {heddle.storage_axes = #heddle.sharding<@mesh, [{"dp"}, {}]>}
heddle.variable @s : tensor<8xf32> parameter init(zeros) {heddle.storage_axes = #heddle.sharding<@mesh, [{"dp"}]>}
// CHECK-LABEL: @gathered
func.func @gathered(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK-DAG: %[[W:.*]] = heddle.load @w
  // CHECK-DAG: %[[V:.*]] = heddle.load @v
  // CHECK-DAG: %[[S:.*]] = heddle.load @s
  %w = heddle.load @w : tensor<8x8xf32>
  %v = heddle.load @v : tensor<8x8xf32>
  %s = heddle.load @s : tensor<8xf32>
  // CHECK: %[[W1:.*]] = heddle.reshard %[[W]]
  // CHECK-NEXT: heddle.contract "a" {{.*}} %[[W1]]
  %a = heddle.contract "a" [bh, hf -> bf] %x, %w {heddle.factors = #heddle.factors<["b" = {"dp"}]>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: %[[S1:.*]] = heddle.reshard %[[S]]
  // CHECK-NEXT: heddle.contract "s" {{.*}} %[[S1]]
  %b = heddle.contract "s" [bf, f -> bf] %a, %s {heddle.factors = #heddle.factors<["b" = {"dp"}]>} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: heddle.contract "b" {{.*}} %[[W1]]
  %c = heddle.contract "b" [bh, hf -> bf] %b, %w {heddle.factors = #heddle.factors<["b" = {"dp"}]>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: %[[V1:.*]] = heddle.reshard %[[V]]
  // CHECK-NEXT: heddle.contract "c" {{.*}} %[[V1]]
  %d = heddle.contract "c" [bh, hf -> bf] %c, %v {heddle.factors = #heddle.factors<["b" = {"dp"}]>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: %[[W2:.*]] = heddle.reshard %[[W]]
  // CHECK-NEXT: heddle.contract "d" {{.*}} %[[W2]]
  %e = heddle.contract "d" [bh, hf -> bf] %d, %w {heddle.factors = #heddle.factors<["b" = {"dp"}]>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %e : tensor<4x8xf32>
}

// -----

// Uses that need the same sharding share a reshard.
heddle.mesh @mesh <["a"=2]>
// CHECK-LABEL: @shared
func.func @shared(%x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = math.exp %x {heddle.factors = #heddle.factors<["0" = {"a"}]>} : tensor<8x8xf32>
  // CHECK: %[[R:.*]] = heddle.reshard {{.*}} from <@mesh, [{"a"}, {}]> to <@mesh, [{}, {"a"}]>
  // CHECK-NOT: heddle.reshard
  // CHECK: math.exp %[[R]]
  // CHECK: math.exp %[[R]]
  %1 = math.exp %0 {heddle.factors = #heddle.factors<["1" = {"a"}]>} : tensor<8x8xf32>
  %2 = math.exp %0 {heddle.factors = #heddle.factors<["1" = {"a"}]>} : tensor<8x8xf32>
  return %1, %2 : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// A reshard for uses in several blocks stands before all of them.
heddle.mesh @mesh <["tp"=2]>
// CHECK-LABEL: @blocks
func.func @blocks(%c: i1, %x: tensor<4x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"tp"}]>}) -> (tensor<4x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {}]>}, tensor<4x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {}]>}) {
  // CHECK-NEXT: %[[WHOLE:.*]] = heddle.reshard %{{.*}} from <@mesh, [{}, {"tp"}]> to <@mesh, [{}, {}]>
  // CHECK-NEXT: scf.if
  // CHECK-NOT: heddle.reshard
  %y = scf.if %c -> tensor<4x8xf32> {
    %e = math.exp %x {heddle.factors = #heddle.factors<["0" = {}, "1" = {}]>} : tensor<4x8xf32>
    scf.yield %e : tensor<4x8xf32>
  } else {
    %n = math.absf %x {heddle.factors = #heddle.factors<["0" = {}, "1" = {}]>} : tensor<4x8xf32>
    scf.yield %n : tensor<4x8xf32>
  }
  return %y, %x : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// A variable that an op's body reads is gathered in front of the op.
heddle.mesh @mesh <["x"=2]>
heddle.variable @v : tensor<4xf32> parameter init(zeros) storage(<@mesh, [{"x"}]>)
// CHECK-LABEL: @captured_load
// CHECK: %[[WHOLE:.*]] = heddle.reshard %{{.*}} from <@mesh, [{"x"}]> to <@mesh, [{}]>
// CHECK: linalg.generic
// CHECK: tensor.extract %[[WHOLE]]
func.func @captured_load(%x: tensor<4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}]>})
    -> (tensor<4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}]>}) {
  %v = heddle.load @v : tensor<4xf32>
  %c3 = arith.constant 3 : index
  %e = tensor.empty() {heddle.factors = #heddle.factors<["0" = {"x"}]>} : tensor<4xf32>
  %y = linalg.generic {
      indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
      iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>)
      attrs = {heddle.factors = #heddle.factors<["0" = {"x"}]>} {
  ^bb0(%a: f32, %out: f32):
    %k = tensor.extract %v[%c3] : tensor<4xf32>
    %sum = arith.addf %a, %k : f32
    linalg.yield %sum : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}
