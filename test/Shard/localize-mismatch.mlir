// Localizing a program whose reshards are missing: the local types agree, and
// only the axes tell that the values are not those that the use expects.
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
