// RUN: heddle-opt %s --heddle-recompute=mode=layer --split-input-file --verify-diagnostics
// RUN: echo 'module {}' > %t.mlir
// RUN: not heddle-opt %t.mlir --heddle-recompute="mode=layer cluster=%t.none.json" 2>&1 | FileCheck %s --check-prefix=CLUSTER
// A cluster that is stated must exist, also for a module without a mesh.
// CLUSTER: error: {{.*}}.none.json

// DEFINE: %{depth} = 0.5
// DEFINE: %{deep} = not heddle-opt %t.mlir --heddle-recompute="mode=optimal memory=1000 depth=%{depth}" 2>&1 | FileCheck %s
// RUN: %{deep} --check-prefix=SHALLOW
// SHALLOW: error: expected a depth from 1 to 1e6, got 5.000000e-01
// REDEFINE: %{depth} = 1000001
// RUN: %{deep} --check-prefix=DEEP
// DEEP: error: expected a depth from 1 to 1e6, got 1.000001e+06
// REDEFINE: %{depth} = inf
// RUN: %{deep} --check-prefix=ENDLESS
// ENDLESS: error: expected a depth from 1 to 1e6, got INF
// REDEFINE: %{depth} = nan
// RUN: %{deep} --check-prefix=NAN
// NAN: error: expected a depth from 1 to 1e6, got nan
// The bounds themselves are depths.
// RUN: heddle-opt %t.mlir --heddle-recompute="mode=optimal memory=1000 depth=1"
// RUN: heddle-opt %t.mlir --heddle-recompute="mode=optimal memory=1000 depth=1e6"

module attributes {heddle.micro_batches = 2 : i64, heddle.pipeline = #heddle.pipeline<"pp", one_f_one_b, stages 2>} {
heddle.mesh @mesh <["pp"=2]>
// expected-error @below {{argument 0: expected a name (heddle.name) on each port of a stage's program}}
func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> attributes {heddle.stage_program = #heddle.stage_program<"step", forward, stage 0>} {
  return %x : tensor<4xf32>
}
func.func @backward(%g: tensor<4xf32>) -> tensor<4xf32> attributes {heddle.stage_program = #heddle.stage_program<"step", backward, stage 0>} {
  return %g : tensor<4xf32>
}
}

// -----

module attributes {heddle.micro_batches = 2 : i64, heddle.pipeline = #heddle.pipeline<"pp", one_f_one_b, stages 2>} {
heddle.mesh @mesh <["pp"=2]>
// expected-error @below {{result 0: expected a name (heddle.name) on each port of a stage's program}}
func.func @forward(%x: tensor<4xf32> {heddle.name = "x"}) -> tensor<4xf32> attributes {heddle.stage_program = #heddle.stage_program<"step", forward, stage 0>} {
  return %x : tensor<4xf32>
}
func.func @backward() attributes {heddle.stage_program = #heddle.stage_program<"step", backward, stage 0>} {
  return
}
}
