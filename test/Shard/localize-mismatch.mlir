// Localizing a program that lacks reshards. The local types agree, and only the
// axes show that a value is not sharded as its use expects.
// RUN: heddle-opt %s --split-input-file --verify-diagnostics --heddle-localize

heddle.mesh @mesh <["dp"=2, "tp"=2]>
func.func @other_axis(%x: tensor<8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"dp"}]>})
    -> (tensor<8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"tp"}]>}) {
  // expected-error@+1 {{expected an operand split as #heddle.sharding<@mesh, [{"tp"}]>, got #heddle.sharding<@mesh, [{"dp"}]>; run heddle-insert-reshards first}}
  %0 = heddle.silu %x {heddle.factors = #heddle.factors<["0" = {"tp"}]>} : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

heddle.mesh @mesh <["dp"=2, "tp"=2]>
heddle.variable @w : tensor<8xf32> parameter init(zeros) storage(<@mesh, [{"dp"}]>)
func.func @store(%x: tensor<8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"tp"}]>}) {
  // expected-error@+1 {{expected an operand split as #heddle.sharding<@mesh, [{"dp"}]>, got #heddle.sharding<@mesh, [{"tp"}]>}}
  heddle.store %x, @w : tensor<8xf32>
  return
}

// -----

heddle.mesh @mesh <["dp"=2, "tp"=2]>
func.func @result(%x: tensor<8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"tp"}]>})
    -> (tensor<8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"dp"}]>}) {
  // expected-error@+1 {{expected an operand split as #heddle.sharding<@mesh, [{"dp"}]>}}
  return %x : tensor<8xf32>
}

// -----

heddle.mesh @mesh <["dp"=2, "tp"=2]>
func.func @unknown_axis(%x: tensor<8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"tp"}]>}) {
  // expected-error@+1 {{expected an axis of #heddle.mesh<["dp"=2, "tp"=2]>, got "pp"}}
  %0 = heddle.reshard %x from <@mesh, [{"tp"}]> to <@mesh, [{"pp"}]> : tensor<8xf32>
  return
}

// -----

// The partial sum of one device is not the result.
heddle.mesh @mesh <["a"=2]>
func.func @partial(%x: tensor<4x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"a"}]>}) -> (tensor<4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}]>}) {
  // expected-note@+1 {{made here}}
  %0 = heddle.reduce sum %x over [1] {heddle.factors = #heddle.factors<["1" = {"a"}]>} : tensor<4x8xf32> -> tensor<4xf32>
  // expected-error@+1 {{expected an operand split as #heddle.sharding<@mesh, [{}]>, got #heddle.sharding<@mesh, [{}], partial = sum {"a"}>; run heddle-insert-reshards first}}
  return %0 : tensor<4xf32>
}

// -----

heddle.mesh @mesh <["a"=2]>
// expected-error@+1 {{cannot be partitioned: expected one block, got 3; turn its branches into scf ops first}}
func.func @blocks(%c: i1, %x: tensor<8xf32>) -> tensor<8xf32> {
  cf.cond_br %c, ^a, ^b
^a:
  return %x : tensor<8xf32>
^b:
  %y = math.exp %x : tensor<8xf32>
  return %y : tensor<8xf32>
}
