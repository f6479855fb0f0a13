// If half of the devices or more would hold only padding, a warning says so,
// once for each size and list of axes.
// RUN: heddle-opt %s --split-input-file --verify-diagnostics --heddle-repeat-constants --heddle-propagate-shardings --heddle-warn-of-padding -o /dev/null

heddle.mesh @mesh <["dp"=2, "tp"=8]>
// expected-warning @below {{dimension 0 of variable 'w', of size 3, is split over the 8 devices of {"tp"}: 5 of them hold nothing but padding; split it over fewer}}
heddle.variable @w : tensor<3x32xf32> parameter init(zeros) {heddle.storage_axes = #heddle.sharding<@mesh, [{"tp"}, {}]>}
func.func @operators(%x: tensor<1x16xf32>, %v: tensor<16x32xf32>) -> tensor<1x32xf32> {
  // expected-warning @below {{factor "b" of 'h.0' (heddle.contract), of size 1, is split over the 2 devices of {"dp"}: 1 of them hold nothing but padding; split it over fewer, here and in 1 more}}
  %a = heddle.contract "h.0" [bh, hf -> bf] %x, %v {heddle.factors = #heddle.factors<["b" = {"dp"}]>} : (tensor<1x16xf32>, tensor<16x32xf32>) -> tensor<1x32xf32>
  %b = heddle.gelu "h.1" %a approximate(tanh) {heddle.factors = #heddle.factors<["0" = {"dp"}]>} : tensor<1x32xf32>
  %c = math.exp %b : tensor<1x32xf32>
  return %c : tensor<1x32xf32>
}

// -----

// 5 of 8 devices have a row, 3 have none.
heddle.mesh @mesh <["tp"=8]>
func.func @most_have_rows(%x: tensor<5x4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"tp"}, {}]>}) -> tensor<5x4xf32> {
  %a = math.exp %x : tensor<5x4xf32>
  return %a : tensor<5x4xf32>
}

// -----

// Twelve rows in parts of 2 over 2 x 4 devices, six of which have rows. Four
// rows in parts of 1.
heddle.mesh @mesh <["a"=2, "b"=4]>
func.func @two_axes(%x: tensor<12x4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"a", "b"}, {}]>},
    %y: tensor<4x4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"a", "b"}, {}]>}) -> (tensor<12x4xf32>, tensor<4x4xf32>) {
  %a = math.exp %x : tensor<12x4xf32>
  // expected-warning @below {{factor "0" of 'math.exp', of size 4, is split over the 8 devices of {"a", "b"}: 4 of them hold nothing but padding}}
  %b = math.exp %y : tensor<4x4xf32>
  return %a, %b : tensor<12x4xf32>, tensor<4x4xf32>
}

// -----

// An argument with a sharding that no op has.
heddle.mesh @mesh <["a"=4]>
// expected-warning @below {{dimension 1 of argument 0 of @argument, of size 2, is split over the 4 devices of {"a"}: 2 of them hold nothing but padding}}
func.func @argument(%x: tensor<4x2xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"a"}]>}) -> (tensor<4x2xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"a"}, {}]>}) {
  return %x : tensor<4x2xf32>
}
