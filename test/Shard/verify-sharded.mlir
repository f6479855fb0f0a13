// RUN: heddle-opt %s --split-input-file --verify-diagnostics --heddle-verify-sharded

heddle.mesh @mesh <["tp"=2]>
// expected-error@+1 {{expected no heddle.storage_axes after sharding}}
heddle.variable @w : tensor<4xf32> parameter init(zeros) {heddle.storage_axes = #heddle.sharding<@mesh, [{"tp"}]>}

// -----

heddle.mesh @mesh <["tp"=2]>
// expected-error@+1 {{expected a storage over the mesh, got none}}
heddle.variable @w : tensor<4xf32> parameter init(zeros)

// -----

heddle.mesh @mesh <["tp"=2]>
// expected-error@+1 {{expected argument 0 to have heddle.sharding}}
func.func @argument(%x: tensor<4xf32>) {
  return
}

// -----

heddle.mesh @mesh <["tp"=2]>
// expected-error@+1 {{expected result 0 to have heddle.sharding}}
func.func @result(%x: tensor<4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}]>}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

heddle.mesh @mesh <["tp"=2]>
// expected-error@+1 {{expected a sharding of 1 dimensions, got #heddle.sharding<@mesh, [{}, {}]>}}
func.func @rank(%x: tensor<4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {}]>}) {
  return
}

// -----

heddle.mesh @mesh <["tp"=2]>
func.func @pin(%x: tensor<4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}]>}) {
  // expected-error@+1 {{expected no heddle.pin after sharding}}
  %0 = math.exp %x {heddle.pin = #heddle.sharding<@mesh, [{"tp"}]>, heddle.sharding = #heddle.sharding<@mesh, [{}]>} : tensor<4xf32>
  return
}

// -----

heddle.mesh @mesh <["tp"=2]>
func.func @split(%x: tensor<4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}]>}) {
  // expected-error@+1 {{expected no heddle.split after sharding}}
  %0 = math.exp %x {heddle.split = #heddle.split<"0", 2, sharded 2>, heddle.sharding = #heddle.sharding<@mesh, [{}]>} : tensor<4xf32>
  return
}

// -----

heddle.mesh @mesh <["tp"=2]>
func.func @factor(%x: tensor<4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}]>}) {
  // expected-error@+1 {{expected a factor of the op (0), got "1"}}
  %0 = math.exp %x {heddle.factors = #heddle.factors<["1" = {"tp"}]>} : tensor<4xf32>
  return
}

// -----

heddle.mesh @mesh <["tp"=2]>
func.func @merged(%x: tensor<6x4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {}]>}) {
  // expected-error@+1 {{expected factors of merged dimensions to divide, and minor ones to be whole, got #heddle.factors<[ "1" = {"tp"}]>}}
  %0 = tensor.collapse_shape %x [[0, 1]] {heddle.factors = #heddle.factors<["1" = {"tp"}]>} : tensor<6x4xf32> into tensor<24xf32>
  return
}

// -----

heddle.mesh @mesh <["tp"=2]>
func.func @made_otherwise(%x: tensor<4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"tp"}]>}) {
  // expected-error@+1 {{expected heddle.sharding to be #heddle.sharding<@mesh, [{"tp"}]>, which it makes of result 0, got #heddle.sharding<@mesh, [{}]>}}
  %0 = math.exp %x {heddle.factors = #heddle.factors<["0" = {"tp"}]>, heddle.sharding = #heddle.sharding<@mesh, [{}]>} : tensor<4xf32>
  return
}

// -----

heddle.mesh @mesh <["tp"=2]>
heddle.variable @w : tensor<4xf32> parameter init(zeros) storage(<@mesh, [{"tp"}]>)
func.func @load() {
  // expected-error@+1 {{expected heddle.sharding to be #heddle.sharding<@mesh, [{"tp"}]>, which it makes of result 0, got none}}
  %0 = heddle.load @w : tensor<4xf32>
  return
}

// -----

heddle.mesh @mesh <["tp"=2]>
heddle.variable @w : tensor<4xf32> parameter init(zeros) storage(<@mesh, [{"tp"}]>)
func.func @store(%x: tensor<4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}]>}) {
  // expected-error@+1 {{expected operand 0 to lie #heddle.sharding<@mesh, [{"tp"}]>, got #heddle.sharding<@mesh, [{}]>; run heddle-insert-reshards before}}
  heddle.store %x, @w : tensor<4xf32>
  return
}

// -----

heddle.mesh @mesh <["tp"=2]>
func.func @operand(%x: tensor<4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}]>}) {
  // expected-note@+1 {{made here}}
  %0 = math.exp %x {heddle.sharding = #heddle.sharding<@mesh, [{}]>} : tensor<4xf32>
  // expected-error@+1 {{expected operand 0 to lie #heddle.sharding<@mesh, [{"tp"}]>, got #heddle.sharding<@mesh, [{}]>}}
  %1 = math.exp %0 {heddle.factors = #heddle.factors<["0" = {"tp"}]>, heddle.sharding = #heddle.sharding<@mesh, [{"tp"}]>} : tensor<4xf32>
  return
}

// -----

// An addition passes partial sums on, a product of two partial sums does not.
heddle.mesh @mesh <["tp"=2]>
func.func @partial_sum(%x: tensor<4x4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"tp"}]>}, %w: tensor<4x4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"tp"}, {}]>}) {
  // expected-note@+1 {{made here}}
  %0 = heddle.contract [bh, hf -> bf] %x, %w {heddle.factors = #heddle.factors<["h" = {"tp"}]>, heddle.sharding = #heddle.sharding<@mesh, [{}, {}], partial = sum {"tp"}>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = arith.addf %0, %0 {heddle.sharding = #heddle.sharding<@mesh, [{}, {}], partial = sum {"tp"}>} : tensor<4x4xf32>
  // expected-error@+1 {{expected operand 0 to lie #heddle.sharding<@mesh, [{}, {}]>, got #heddle.sharding<@mesh, [{}, {}], partial = sum {"tp"}>}}
  %2 = arith.mulf %0, %0 {heddle.sharding = #heddle.sharding<@mesh, [{}, {}]>} : tensor<4x4xf32>
  return
}

// -----

heddle.mesh @mesh <["tp"=2]>
func.func @return(%x: tensor<4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}]>}) -> (tensor<4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"tp"}]>}) {
  // expected-error@+1 {{expected operand 0 to lie #heddle.sharding<@mesh, [{"tp"}]>, got #heddle.sharding<@mesh, [{}]>}}
  return %x : tensor<4xf32>
}

// -----

heddle.mesh @mesh <["tp"=2]>
func.func @reshard(%x: tensor<4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}]>}) {
  // expected-error@+1 {{expected operand 0 to lie #heddle.sharding<@mesh, [{"tp"}]>, got #heddle.sharding<@mesh, [{}]>}}
  %0 = heddle.reshard %x from <@mesh, [{"tp"}]> to <@mesh, [{}]> : tensor<4xf32>
  return
}

// -----

heddle.mesh @mesh <["tp"=2]>
func.func private @callee(%x: tensor<4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"tp"}]>}) {
  return
}
func.func @call(%x: tensor<4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}]>}) {
  // expected-error@+1 {{expected operand 0 to lie #heddle.sharding<@mesh, [{"tp"}]>, got #heddle.sharding<@mesh, [{}]>}}
  call @callee(%x) : (tensor<4xf32>) -> ()
  return
}

// -----

heddle.mesh @mesh <["tp"=2]>
func.func @carried(%x: tensor<4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}]>}, %c: i1) {
  %c0 = arith.constant 0 : index
  // expected-error@+1 {{expected heddle.carried with 1 shardings, got 0}}
  %0 = scf.for %i = %c0 to %c0 step %c0 iter_args(%h = %x) -> tensor<4xf32> {
    scf.yield %h : tensor<4xf32>
  }
  return
}

// -----

heddle.mesh @mesh <["tp"=2]>
func.func @carried_rank(%x: tensor<4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}]>}, %c: i1) {
  %c0 = arith.constant 0 : index
  // expected-error@+1 {{expected a sharding of 1 dimensions, got #heddle.sharding<@mesh, []>}}
  %0 = scf.for %i = %c0 to %c0 step %c0 iter_args(%h = %x) -> tensor<4xf32> {
    scf.yield %h : tensor<4xf32>
  } {heddle.carried = [#heddle.sharding<@mesh, []>]}
  return
}

// -----

// A loop's initial and yielded values must be sharded as its carried value.
heddle.mesh @mesh <["tp"=2]>
func.func @yield(%x: tensor<4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"tp"}]>}, %c: i1) {
  %c0 = arith.constant 0 : index
  %0 = scf.for %i = %c0 to %c0 step %c0 iter_args(%h = %x) -> tensor<4xf32> {
    // expected-note@+1 {{made here}}
    %1 = heddle.reshard %h from <@mesh, [{"tp"}]> to <@mesh, [{}]> : tensor<4xf32>
    // expected-error@+1 {{expected operand 0 to lie #heddle.sharding<@mesh, [{"tp"}]>, got #heddle.sharding<@mesh, [{}]>}}
    scf.yield %1 : tensor<4xf32>
  } {heddle.carried = [#heddle.sharding<@mesh, [{"tp"}]>], heddle.sharding = #heddle.sharding<@mesh, [{"tp"}]>}
  return
}

// -----

#id = affine_map<(d0) -> (d0)>
heddle.mesh @mesh <["tp"=2]>
func.func @captured(%table: tensor<4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"tp"}]>}, %rows: tensor<3xindex> {heddle.sharding = #heddle.sharding<@mesh, [{}]>}) {
  %empty = tensor.empty() {heddle.sharding = #heddle.sharding<@mesh, [{}]>} : tensor<3xf32>
  // expected-error@+1 {{expected every device to have all of the tensor that its region reads, got #heddle.sharding<@mesh, [{"tp"}]>}}
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%rows : tensor<3xindex>) outs(%empty : tensor<3xf32>) attrs = {heddle.sharding = #heddle.sharding<@mesh, [{}]>} {
  ^bb0(%row: index, %out: f32):
    %element = tensor.extract %table[%row] : tensor<4xf32>
    linalg.yield %element : f32
  } -> tensor<3xf32>
  return
}

// -----

// Without a mesh there is nothing to check.
heddle.variable @w : tensor<4xf32> parameter init(zeros)
func.func @one_device(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
