// RUN: heddle-opt %s --split-input-file --heddle-propagate-shardings | FileCheck %s

// One product's axes propagate both ways: to the other product, bias, storage
// and batch.
heddle.mesh @mesh <["dp"=2, "tp"=2]>
// CHECK: heddle.variable @w1 {{.*}} storage(<@mesh, [{}, {"tp"}]>)
heddle.variable @w1 : tensor<8x32xf32> parameter init(zeros)
// CHECK: heddle.variable @b1 {{.*}} storage(<@mesh, [{"tp"}]>)
heddle.variable @b1 : tensor<32xf32> parameter init(zeros)
// CHECK: heddle.variable @w2 {{.*}} storage(<@mesh, [{"tp"}, {}]>)
heddle.variable @w2 : tensor<32x8xf32> parameter init(zeros)
// CHECK-LABEL: @both_ways
// CHECK-SAME: heddle.sharding = #heddle.sharding<@mesh, [{"dp"}, {}, {}]>
func.func @both_ways(%x: tensor<4x6x8xf32>) -> tensor<4x6x8xf32> {
  %w1 = heddle.load @w1 : tensor<8x32xf32>
  %u = heddle.contract "c_fc" [bsh, hf -> bsf] %x, %w1 {heddle.factors = #heddle.factors<["b" = {"dp"}, "f" = {"tp"}]>} : (tensor<4x6x8xf32>, tensor<8x32xf32>) -> tensor<4x6x32xf32>
  %b = heddle.load @b1 : tensor<32xf32>
  // CHECK: heddle.broadcast {{.*}}heddle.factors<[ "0" = {"dp"}, "2" = {"tp"}]>
  %bb = heddle.broadcast %b along [2] : tensor<32xf32> -> tensor<4x6x32xf32>
  %v = arith.addf %u, %bb : tensor<4x6x32xf32>
  // CHECK: heddle.gelu {{.*}}heddle.sharding = #heddle.sharding<@mesh, [{"dp"}, {}, {"tp"}]>
  %a = heddle.gelu %v approximate(tanh) : tensor<4x6x32xf32>
  %w2 = heddle.load @w2 : tensor<32x8xf32>
  // CHECK: heddle.contract "c_proj" {{.*}}"b" = {"dp"}, "f" = {"tp"}{{.*}}partial = sum {"tp"}
  %p = heddle.contract "c_proj" [bsf, fh -> bsh] %a, %w2 : (tensor<4x6x32xf32>, tensor<32x8xf32>) -> tensor<4x6x8xf32>
  return %p : tensor<4x6x8xf32>
}

// -----

// A factor that a plan keeps whole stays whole.
heddle.mesh @mesh <["tp"=2]>
// CHECK-LABEL: @pinned
func.func @pinned(%x: tensor<4x32xf32>, %w: tensor<32x8xf32>) -> tensor<4x8xf32> {
  %a = heddle.gelu %x approximate(tanh) {heddle.factors = #heddle.factors<["1" = {"tp"}]>} : tensor<4x32xf32>
  // CHECK: heddle.contract
  // CHECK-NOT: heddle.factors
  // CHECK: return
  %p = heddle.contract "c" [bf, fh -> bh] %a, %w {heddle.factors = #heddle.factors<["f" = {}]>} : (tensor<4x32xf32>, tensor<32x8xf32>) -> tensor<4x8xf32>
  return %p : tensor<4x8xf32>
}

// -----

// The optimizer's state is stored over dp: the update is computed on shards,
// the model's ops do not change, and the parameter is stored whole.
heddle.mesh @mesh <["dp"=2]>
// CHECK: heddle.variable @w {{.*}} storage(<@mesh, [{}, {}]>)
heddle.variable @w : tensor<8x4xf32> parameter init(zeros)
// CHECK: heddle.variable @m {{.*}} storage(<@mesh, [{"dp"}, {}]>)
// CHECK-NOT: storage_axes
heddle.variable @m : tensor<8x4xf32> optimizer_state init(zeros) {heddle.storage_axes = #heddle.sharding<@mesh, [{"dp"}, {}]>}
// CHECK-LABEL: @zero1
func.func @zero1(%x: tensor<6x8xf32>, %dy: tensor<6x4xf32>) -> tensor<6x4xf32> {
  %w = heddle.load @w : tensor<8x4xf32>
  // CHECK: heddle.contract "c" [bh, hf -> bf]
  // CHECK-NOT: factors
  // CHECK: heddle.contract "c" pass(wgrad)
  // CHECK-NOT: factors
  // CHECK: heddle.load @m
  %y = heddle.contract "c" [bh, hf -> bf] %x, %w : (tensor<6x8xf32>, tensor<8x4xf32>) -> tensor<6x4xf32>
  %g = heddle.contract "c" pass(wgrad) [bh, bf -> hf] %x, %dy : (tensor<6x8xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
  %m = heddle.load @m : tensor<8x4xf32>
  // CHECK: arith.addf {{.*}}heddle.factors<[ "0" = {"dp"}]>
  %m2 = arith.addf %m, %g : tensor<8x4xf32>
  // CHECK: arith.subf {{.*}}heddle.factors<[ "0" = {"dp"}]>
  %w2 = arith.subf %w, %m2 : tensor<8x4xf32>
  heddle.store %m2, @m : tensor<8x4xf32>
  heddle.store %w2, @w : tensor<8x4xf32>
  return %y : tensor<6x4xf32>
}

// -----

// Merged dimensions: the major factor takes the axis if the axis divides it.
heddle.mesh @mesh <["a"=2, "b"=3]>
// CHECK-LABEL: @reshape
// CHECK-SAME: (%{{.*}}: tensor<24xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"a"}]>}, %{{.*}}: tensor<15xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}]>})
func.func @reshape(%x: tensor<24xf32>, %z: tensor<15xf32>) -> (tensor<6x4xf32>, tensor<5x3xf32>) {
  %0 = tensor.expand_shape %x [[0, 1]] output_shape [6, 4] : tensor<24xf32> into tensor<6x4xf32>
  %1 = math.exp %0 {heddle.factors = #heddle.factors<["0" = {"a"}]>} : tensor<6x4xf32>
  %2 = tensor.expand_shape %z [[0, 1]] output_shape [5, 3] : tensor<15xf32> into tensor<5x3xf32>
  %3 = math.exp %2 {heddle.factors = #heddle.factors<["0" = {"b"}]>} : tensor<5x3xf32>
  return %1, %3 : tensor<6x4xf32>, tensor<5x3xf32>
}

// -----

// A conflict: the dimension of the value's definition wins in any order of
// uses.
heddle.mesh @mesh <["a"=2]>
// CHECK-LABEL: @conflict
func.func @conflict(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = math.exp %x {heddle.factors = #heddle.factors<["0" = {"a"}]>} : tensor<8x8xf32>
  // CHECK: math.absf {{.*}}heddle.factors<[ "0" = {"a"}]>
  %1 = math.absf %0 : tensor<8x8xf32>
  %2 = math.exp %1 {heddle.factors = #heddle.factors<["1" = {"a"}]>} : tensor<8x8xf32>
  %3 = math.exp %0 {heddle.factors = #heddle.factors<["1" = {"a"}]>} : tensor<8x8xf32>
  %4 = arith.addf %2, %3 : tensor<8x8xf32>
  return %4 : tensor<8x8xf32>
}

// -----

// Both sides want both axes, crossed. When one factor has the first axis, the
// other factor takes the second from whichever side wants it there.
heddle.mesh @mesh <["a"=2, "b"=2]>
// CHECK-LABEL: @crossed
func.func @crossed(%x: tensor<8x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"a"}, {"b"}]>})
    -> (tensor<8x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"a"}, {"b"}]>}) {
  %empty = tensor.empty() : tensor<8x8xf32>
  // CHECK: linalg.transpose {{.*}}heddle.factors<[ "0" = {"a"}, "1" = {"b"}]>
  %y = linalg.transpose ins(%x : tensor<8x8xf32>) outs(%empty : tensor<8x8xf32>) permutation = [1, 0]
  return %y : tensor<8x8xf32>
}
