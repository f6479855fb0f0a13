// RUN: heddle-opt %s --split-input-file --heddle-cast-stored | FileCheck %s
// RUN: heddle-opt %s --split-input-file --heddle-cast-stored --heddle-insert-reshards | FileCheck %s --check-prefix=GATHER

// A parameter is cast where it is stored, and the cast is gathered: for each
// use, because another parameter is gathered in between.
heddle.mesh @mesh <["dp"=2]>
heddle.variable @w : tensor<8x8xf32> parameter init(zeros) storage(<@mesh, [{}, {"dp"}]>)
heddle.variable @v : tensor<8x8xf32> parameter init(zeros) storage(<@mesh, [{"dp"}, {}]>)
// CHECK-LABEL: @parts
// GATHER-LABEL: @parts
func.func @parts(%x: tensor<4x8xbf16> {heddle.sharding = #heddle.sharding<@mesh, [{"dp"}, {}]>}) -> (tensor<4x8xbf16> {heddle.sharding = #heddle.sharding<@mesh, [{"dp"}, {}]>}) {
  %w = heddle.load @w : tensor<8x8xf32>
  // CHECK: arith.truncf {{.*}} {heddle.factors = #heddle.factors<[ "1" = {"dp"}]>}
  %wb = arith.truncf %w : tensor<8x8xf32> to tensor<8x8xbf16>
  %v = heddle.load @v : tensor<8x8xf32>
  // CHECK: arith.truncf {{.*}} {heddle.factors = #heddle.factors<[ "0" = {"dp"}]>}
  %vb = arith.truncf %v : tensor<8x8xf32> to tensor<8x8xbf16>
  // GATHER: %[[W:.*]] = arith.truncf
  // GATHER: %[[V:.*]] = arith.truncf
  // GATHER-NEXT: %[[W1:.*]] = heddle.reshard %[[W]]
  // GATHER-SAME: tensor<8x8xbf16>
  // GATHER-NEXT: heddle.contract "a" {{.*}} %[[W1]]
  %a = heddle.contract "a" [bh, hf -> bf] %x, %wb {heddle.factors = #heddle.factors<["b" = {"dp"}]>} : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
  // GATHER-NEXT: %[[V1:.*]] = heddle.reshard %[[V]]
  // GATHER-NEXT: heddle.contract "b" {{.*}} %[[V1]]
  %b = heddle.contract "b" [bh, hf -> bf] %a, %vb {heddle.factors = #heddle.factors<["b" = {"dp"}]>} : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
  // GATHER-NEXT: %[[W2:.*]] = heddle.reshard %[[W]]
  // GATHER-NEXT: heddle.contract "c" {{.*}} %[[W2]]
  %c = heddle.contract "c" [bh, hf -> bf] %b, %wb {heddle.factors = #heddle.factors<["b" = {"dp"}]>} : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
  return %c : tensor<4x8xbf16>
}

// -----

// A cast to a wider type, and a cast of anything else, stay as they are.
heddle.mesh @mesh <["dp"=2]>
heddle.variable @w : tensor<8x8xbf16> parameter init(zeros) storage(<@mesh, [{"dp"}, {}]>)
// CHECK-LABEL: @others
func.func @others(%x: tensor<4x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {}]>}) -> (tensor<8x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {}]>}, tensor<4x8xbf16> {heddle.sharding = #heddle.sharding<@mesh, [{}, {}]>}) {
  // CHECK-NOT: heddle.factors
  %w = heddle.load @w : tensor<8x8xbf16>
  %wide = arith.extf %w : tensor<8x8xbf16> to tensor<8x8xf32>
  %narrow = arith.truncf %x : tensor<4x8xf32> to tensor<4x8xbf16>
  return %wide, %narrow : tensor<8x8xf32>, tensor<4x8xbf16>
}

// -----

// What a use splits as the parameter is stored needs no change.
heddle.mesh @mesh <["tp"=2]>
heddle.variable @w : tensor<8x8xf32> parameter init(zeros) storage(<@mesh, [{"tp"}, {}]>)
// CHECK-LABEL: @same
func.func @same() -> (tensor<8x8xbf16> {heddle.sharding = #heddle.sharding<@mesh, [{}, {}]>}) {
  %w = heddle.load @w : tensor<8x8xf32>
  // CHECK: arith.truncf {{.*}} {heddle.factors = #heddle.factors<[ "0" = {"tp"}]>}
  %wb = arith.truncf %w {heddle.factors = #heddle.factors<["0" = {"tp"}]>} : tensor<8x8xf32> to tensor<8x8xbf16>
  return %wb : tensor<8x8xbf16>
}

// -----

// A parameter that is stored whole is split before its cast. A pin stays.
heddle.mesh @mesh <["tp"=2]>
heddle.variable @w : tensor<8x8xf32> parameter init(zeros) storage(<@mesh, [{}, {}]>)
heddle.variable @v : tensor<8x8xf32> parameter init(zeros) storage(<@mesh, [{"tp"}, {}]>)
// CHECK-LABEL: @whole
func.func @whole() -> (tensor<8x8xbf16> {heddle.sharding = #heddle.sharding<@mesh, [{}, {}]>}, tensor<8x8xbf16> {heddle.sharding = #heddle.sharding<@mesh, [{}, {}]>}) {
  %w = heddle.load @w : tensor<8x8xf32>
  // CHECK: arith.truncf {{.*}} {heddle.factors = #heddle.factors<[ "0" = {"tp"}]>}
  %wb = arith.truncf %w {heddle.factors = #heddle.factors<["0" = {"tp"}]>} : tensor<8x8xf32> to tensor<8x8xbf16>
  %v = heddle.load @v : tensor<8x8xf32>
  // CHECK: arith.truncf
  // CHECK-NOT: heddle.factors
  // CHECK: return
  %vb = arith.truncf %v {heddle.pin = #heddle.sharding<@mesh, [{}, {}]>} : tensor<8x8xf32> to tensor<8x8xbf16>
  return %wb, %vb : tensor<8x8xbf16>, tensor<8x8xbf16>
}
