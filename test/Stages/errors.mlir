// RUN: heddle-opt %s --heddle-propagate-shardings --heddle-insert-reshards --heddle-cut-stages --split-input-file --verify-diagnostics

module attributes {heddle.pipeline = #heddle.pipeline<"pp", one_f_one_b, stages 2>} {
heddle.mesh @mesh <["pp"=2]>
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-note @below {{made here}}
  %a = arith.addf %x, %x {heddle.stage = 1 : i64} : tensor<4xf32>
  // expected-error @below {{is of stage 0, but reads a value of stage 1, which comes later}}
  %b = arith.mulf %a, %a {heddle.stage = 0 : i64} : tensor<4xf32>
  return %b : tensor<4xf32>
}
}

// -----

// expected-error @below {{expected a mesh with the axis "pp" of heddle.pipeline, got none}}
module attributes {heddle.pipeline = #heddle.pipeline<"pp", one_f_one_b, stages 2>} {
heddle.mesh @mesh <["dp"=2]>
}

// -----

module attributes {heddle.pipeline = #heddle.pipeline<"pp", one_f_one_b, stages 2>} {
heddle.mesh @mesh <["pp"=2]>
func.func @f(%x: tensor<4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"pp"}]>}) -> tensor<4xf32> {
  // expected-error @below {{is split over "pp", the axis of the pipeline's stages: expected no other use of it}}
  %a = arith.addf %x, %x {heddle.stage = 1 : i64} : tensor<4xf32>
  return %a : tensor<4xf32>
}
}

// -----

// expected-error @below {{pipeline: expected one stage on each device for 1f1b, got 2; interleaved and zb-v take several}}
module attributes {heddle.pipeline = #heddle.pipeline<"pp", one_f_one_b, stages 4>} {
heddle.mesh @mesh <["pp"=2]>
}
