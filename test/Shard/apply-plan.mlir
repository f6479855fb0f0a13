// A plan sets the mesh, factors of named ops and storage axes of variables.
// RUN: split-file %s %t
// RUN: heddle-opt %t/model.mlir --heddle-apply-plan="plan=%t/plan.json devices=8" | FileCheck %s
// RUN: heddle-opt %t/groups.mlir --heddle-apply-plan="plan=%t/groups.json" | FileCheck %s --check-prefix=GROUPS
// RUN: heddle compile %t/model.mlir --mesh dp=2,tp=2 --zero 3 --stop-after sharded | FileCheck %s --check-prefix=STANDARD

// CHECK: heddle.mesh @mesh <["dp"=2, "tp"=4, "one"=1]>
// CHECK: heddle.variable @w
// CHECK-SAME: heddle.storage_axes = #heddle.sharding<@mesh, [{}, {"dp"}]>
// For each factor the most specific glob decides. An axis of one device splits
// nothing. An empty list keeps a factor whole.
// CHECK: heddle.contract "h.0.c_fc"
// CHECK-SAME: heddle.factors = #heddle.factors<[ "b" = {"dp"}, "s" = {}, "f" = {"tp"}]>
// CHECK: heddle.contract "h.0.c_fc" pass(dgrad)
// CHECK-SAME: heddle.factors = #heddle.factors<[ "b" = {"dp"}, "s" = {}, "f" = {"tp"}]>
// CHECK: heddle.contract "h.1.c_fc"
// CHECK-SAME: heddle.factors = #heddle.factors<[ "b" = {"dp"}, "s" = {}, "f" = {}]>

// Two groups over four devices: the axis is cut in two parts. The members of
// the groups take the second part; an op without members is split over the
// first.
// GROUPS: heddle.mesh @mesh <["tp.0"=2, "tp.1"=2]>
// GROUPS: heddle.contract "q"
// GROUPS-SAME: "n" = {"tp.0"}
// GROUPS-SAME: "r" = {"tp.1"}
// GROUPS: heddle.contract "k"
// GROUPS-SAME: heddle.factors<[ "n" = {"tp.0"}]>
// GROUPS: heddle.contract "up"
// GROUPS-SAME: heddle.factors<[ "f" = {"tp.0", "tp.1"}]>

// STANDARD: heddle.mesh @mesh <["dp"=2, "tp"=2]>
// STANDARD: heddle.variable @w {{.*}} storage(<@mesh, [{"dp"}, {"tp"}]>)
// STANDARD: heddle.contract "h.0.c_fc" {{.*}}heddle.factors<[ "b" = {"dp"}, "f" = {"tp"}]>

//--- plan.json
{"version": 1, "mesh": {"dp": 2, "tp": 4, "one": 1},
 "operators": {"*": {"b": ["dp"], "f": ["dp"], "s": ["one"]},
               "h.*.c_fc": {"f": ["tp"]}, "h.1.c_fc": {"f": []}},
 "storage": {"*": {"0": ["tp"]}, "w": {"1": ["dp"]}}}
//--- model.mlir
heddle.variable @w : tensor<8x32xf32> parameter init(zeros)
func.func @f(%x: tensor<4x6x8xf32>, %dy: tensor<4x6x32xf32>) {
  %w = heddle.load @w : tensor<8x32xf32>
  %0 = heddle.contract "h.0.c_fc" [bsh, hf -> bsf] %x, %w : (tensor<4x6x8xf32>, tensor<8x32xf32>) -> tensor<4x6x32xf32>
  %1 = heddle.contract "h.0.c_fc" pass(dgrad) [bsf, hf -> bsh] %dy, %w : (tensor<4x6x32xf32>, tensor<8x32xf32>) -> tensor<4x6x8xf32>
  %2 = heddle.contract "h.1.c_fc" [bsh, hf -> bsf] %x, %w : (tensor<4x6x8xf32>, tensor<8x32xf32>) -> tensor<4x6x32xf32>
  return
}
//--- groups.json
{"version": 1, "mesh": {"tp": 4}, "operators": {"*": {"n": ["tp"], "f": ["tp"]}}}
//--- groups.mlir
func.func @f(%x: tensor<4x6x8xf32>, %q: tensor<2x4x4x8xf32>, %k: tensor<2x4x8xf32>, %u: tensor<16x8xf32>) {
  %0 = heddle.contract "q" [bsh, nrdh -> bsnrd] %x, %q : (tensor<4x6x8xf32>, tensor<2x4x4x8xf32>) -> tensor<4x6x2x4x4xf32>
  %1 = heddle.contract "k" [bsh, ndh -> bsnd] %x, %k : (tensor<4x6x8xf32>, tensor<2x4x8xf32>) -> tensor<4x6x2x4xf32>
  %2 = heddle.contract "up" [bsh, fh -> bsf] %x, %u : (tensor<4x6x8xf32>, tensor<16x8xf32>) -> tensor<4x6x16xf32>
  return
}
