// RUN: heddle-opt %s --split-input-file --verify-diagnostics --heddle-verify-executable

// The programs of two stages.
#first = #heddle.ranks<@mesh, {"pp" = [0]}>
#second = #heddle.ranks<@mesh, {"pp" = [1]}>
module attributes {heddle.micro_batches = 4 : i64, heddle.pipeline = #heddle.pipeline<"pp", one_f_one_b, stages 2>} {
  heddle.mesh @mesh <["pp"=2]>
  rt.program @forward0 arena(0) results [#rt.port<"a", tensor<4xf32>>] attributes {heddle.ranks = #first, heddle.stage_program = #heddle.stage_program<"step", forward, stage 0>} {}
  rt.program @forward1 arena(0) arguments [#rt.port<"a", tensor<4xf32>>] results [#rt.port<"g", tensor<4xf32>>] attributes {heddle.ranks = #second, heddle.stage_program = #heddle.stage_program<"step", forward, stage 1>} {}
  rt.program @backward0 arena(0) arguments [#rt.port<"g", tensor<4xf32>>] attributes {heddle.ranks = #first, heddle.stage_program = #heddle.stage_program<"step", backward, stage 0>} {}
}

// -----

// expected-error @below {{expected a mesh with the axis "pp" of heddle.pipeline, got none}}
module attributes {heddle.pipeline = #heddle.pipeline<"pp", one_f_one_b, stages 2>} {
  heddle.mesh @mesh <["tp"=2]>
}

// -----

// expected-error @below {{stages}}
module attributes {heddle.micro_batches = 4 : i64, heddle.pipeline = #heddle.pipeline<"pp", one_f_one_b, stages 3>} {
  heddle.mesh @mesh <["pp"=2]>
}

// -----

#first = #heddle.ranks<@mesh, {"pp" = [0]}>
module attributes {heddle.micro_batches = 4 : i64, heddle.pipeline = #heddle.pipeline<"pp", one_f_one_b, stages 2>} {
  heddle.mesh @mesh <["pp"=2]>
  // expected-error @below {{expected a stage of the pipeline, below 2, got 2}}
  rt.program @forward2 arena(0) attributes {heddle.ranks = #first, heddle.stage_program = #heddle.stage_program<"step", forward, stage 2>} {}
}

// -----

#first = #heddle.ranks<@mesh, {"pp" = [0]}>
module attributes {heddle.micro_batches = 4 : i64, heddle.pipeline = #heddle.pipeline<"pp", one_f_one_b, stages 2>} {
  heddle.mesh @mesh <["pp"=2]>
  // expected-error @below {{expected the ranks with "pp" = 1, which have this stage}}
  rt.program @forward1 arena(0) attributes {heddle.ranks = #first, heddle.stage_program = #heddle.stage_program<"step", forward, stage 1>} {}
}

// -----

#first = #heddle.ranks<@mesh, {"pp" = [0]}>
module attributes {heddle.micro_batches = 4 : i64, heddle.pipeline = #heddle.pipeline<"pp", one_f_one_b, stages 2>} {
  heddle.mesh @mesh <["pp"=2]>
  // expected-note @below {{the other is here}}
  rt.program @a arena(0) attributes {heddle.ranks = #first, heddle.stage_program = #heddle.stage_program<"step", forward, stage 0>} {}
  // expected-error @below {{expected one program of this stage and kind}}
  rt.program @b arena(0) attributes {heddle.ranks = #first, heddle.stage_program = #heddle.stage_program<"step", forward, stage 0>} {}
}

// -----

#first = #heddle.ranks<@mesh, {"pp" = [0]}>
#second = #heddle.ranks<@mesh, {"pp" = [1]}>
module attributes {heddle.micro_batches = 4 : i64, heddle.pipeline = #heddle.pipeline<"pp", one_f_one_b, stages 2>} {
  heddle.mesh @mesh <["pp"=2]>
  // expected-error @below {{reads "a", which the pipeline makes later}}
  rt.program @forward0 arena(0) arguments [#rt.port<"a", tensor<4xf32>>] attributes {heddle.ranks = #first, heddle.stage_program = #heddle.stage_program<"step", forward, stage 0>} {}
  rt.program @forward1 arena(0) results [#rt.port<"a", tensor<4xf32>>] attributes {heddle.ranks = #second, heddle.stage_program = #heddle.stage_program<"step", forward, stage 1>} {}
}
