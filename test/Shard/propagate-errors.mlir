// RUN: heddle-opt %s --split-input-file --verify-diagnostics --heddle-propagate-shardings

heddle.mesh @mesh <["a"=2]>
func.func @unknown_factor(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // expected-error@+1 {{expected a factor of the op (0, 1), got "f"}}
  %0 = math.exp %x {heddle.factors = #heddle.factors<["f" = {"a"}]>} : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

heddle.mesh @mesh <["a"=2]>
func.func @unknown_axis(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // expected-error@+1 {{expected an axis of #heddle.mesh<["a"=2]>, got "b"}}
  %0 = math.exp %x {heddle.factors = #heddle.factors<["0" = {"b"}]>} : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

heddle.mesh @mesh <["a"=2]>
func.func @axis_twice(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // expected-error@+1 {{expected each mesh axis for one factor, got "a" twice}}
  %0 = math.exp %x {heddle.factors = #heddle.factors<["0" = {"a"}, "1" = {"a"}]>} : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

// Two factors may share all of their axes, but not only some of them.
heddle.mesh @mesh <["a"=2, "b"=2]>
func.func @half_a_ring(%q: tensor<2x8x4x8xf32>) -> tensor<2x8x4x8xf32> {
  // expected-error@+1 {{expected each mesh axis for one factor, got "a" twice}}
  %o, %l = heddle.attention "attn" %q, %q, %q scale(0.5) {heddle.factors = #heddle.factors<["s" = {"a", "b"}, "t" = {"a"}]>} : tensor<2x8x4x8xf32>, tensor<2x8x4x8xf32>, tensor<2x8x4x8xf32> -> tensor<2x8x4x8xf32>, tensor<2x8x4xf32>
  return %o : tensor<2x8x4x8xf32>
}

// -----

heddle.mesh @mesh <["a"=2]>
func.func @merged_uneven(%x: tensor<15xf32>) -> tensor<5x3xf32> {
  // expected-error@+1 {{expected factors of merged dimensions to divide}}
  %0 = tensor.expand_shape %x [[0, 1]] output_shape [5, 3] {heddle.factors = #heddle.factors<["0" = {"a"}]>} : tensor<15xf32> into tensor<5x3xf32>
  return %0 : tensor<5x3xf32>
}

// -----

heddle.mesh @mesh <["a"=2]>
func.func @regions(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{cannot be partitioned: it has regions and no sharding rule}}
  %0 = scf.forall (%i) in (8) shared_outs(%o = %x) -> tensor<8xf32> {
  }
  return %0 : tensor<8xf32>
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

// -----

heddle.mesh @mesh <["a"=2]>
func.func @blocks_in_region(%c: i1, %x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{cannot be partitioned: expected regions of one block, got 2; turn its branches into scf ops first}}
  %0 = scf.execute_region -> tensor<8xf32> {
    cf.br ^end(%x : tensor<8xf32>)
  ^end(%y: tensor<8xf32>):
    scf.yield %y : tensor<8xf32>
  }
  return %0 : tensor<8xf32>
}

// -----

heddle.mesh @mesh <["a"=2]>
func.func @recursion(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{cannot be partitioned: @other calls itself, directly or through others; write the recursion as a loop}}
  %0 = call @other(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func @other(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = call @recursion(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

heddle.mesh @mesh <["a"=2]>
func.func private @external(tensor<8xf32>) -> tensor<8xf32>
func.func @external_call(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{cannot be partitioned: expected a function with a body in this module, got @external}}
  %0 = call @external(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

heddle.mesh @mesh <["a"=2]>
// expected-error@+1 {{expected a sharding of 1 dimensions}}
func.func @rank(%x: tensor<8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"a"}, {}]>}) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}

// -----

heddle.mesh @mesh <["a"=2]>
func.func @pin_rank(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{expected a sharding of 1 dimensions}}
  %0 = math.exp %x {heddle.pin = #heddle.sharding<@mesh, [{"a"}, {}]>} : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

heddle.mesh @mesh <["a"=2]>
func.func @pin_axis(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{expected an axis of #heddle.mesh<["a"=2]>, got "b"}}
  %0 = math.exp %x {heddle.pin = #heddle.sharding<@mesh, [{"b"}]>} : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

heddle.mesh @mesh <["a"=2]>
func.func @pin_partial(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{expected heddle.pin to be a sharding of a tensor, without partial sums}}
  %0 = math.exp %x {heddle.pin = #heddle.sharding<@mesh, [{}], partial = sum {"a"}>} : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

heddle.mesh @mesh <["a"=2]>
func.func @pin_count(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{expected heddle.pin for 1 results, got 2}}
  %0 = math.exp %x {heddle.pin = [unit, unit]} : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

heddle.mesh @mesh <["a"=2]>
func.func @pins_of_two_calls(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  // expected-note@+1 {{the other is here}}
  %0 = call @callee(%x) {heddle.pin = #heddle.sharding<@mesh, [{"a"}]>} : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error@+1 {{as of the value that lies as this one does, got #heddle.sharding<@mesh, [{}]>}}
  %1 = call @callee(%x) {heddle.pin = #heddle.sharding<@mesh, [{}]>} : (tensor<8xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}
func.func private @callee(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}

// -----

heddle.mesh @mesh <["a"=2]>
func.func @priority(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{expected heddle.priority to be an i64 from 0 to 65536, got -1 : i64}}
  %0 = math.exp %x {heddle.priority = -1 : i64} : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

heddle.mesh @mesh <["a"=2]>
// expected-error@+1 {{expected a static shape to be split over "a", got 'tensor<?x8xf32>'; partition the program for the sizes that it runs with}}
func.func @dynamic(%x: tensor<?x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"a"}]>}) -> tensor<?x8xf32> {
  return %x : tensor<?x8xf32>
}

// -----

heddle.mesh @mesh <["a"=2]>
// expected-error@+1 {{expected a ranked tensor to have a sharding, got 'f32'}}
func.func @scalar(%x: f32 {heddle.sharding = #heddle.sharding<@mesh, []>}) -> f32 {
  return %x : f32
}

// -----

heddle.mesh @mesh <["a"=2]>
func.func @pin_of_another_mesh(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{expected a sharding over @mesh, the mesh of the module, got one over @other}}
  %0 = math.exp %x {heddle.pin = #heddle.sharding<@other, [{"a"}]>} : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// expected-error@+1 {{has a sharding of argument 0 over @mesh, but the module has no heddle.mesh}}
func.func @no_mesh(%x: tensor<8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"a"}]>}) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}

// -----

heddle.mesh @mesh <["a"=2]>
// expected-error@+1 {{expected a sharding of result 0 over @mesh, the mesh of the module, got one over @other}}
func.func @other_mesh(%x: tensor<8xf32>) -> (tensor<8xf32> {heddle.sharding = #heddle.sharding<@other, [{"a"}]>}) {
  return %x : tensor<8xf32>
}

// -----

heddle.mesh @mesh <["a"=2]>
// expected-error@+1 {{expected one mesh in a module, got another after @mesh}}
heddle.mesh @other <["b"=2]>

// -----

heddle.mesh @mesh <["a"=2]>
module {
  // expected-error@+1 {{is within another module than the one to be partitioned}}
  func.func @nested(%x: tensor<8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"a"}]>}) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}

// -----

heddle.mesh @mesh <["a"=2]>
// expected-error@+1 {{expected a global program, got one device's: argument 0 has heddle.global_type}}
func.func @twice(%x: tensor<4xf32> {heddle.global_type = tensor<8xf32>, heddle.sharding = #heddle.sharding<@mesh, [{"a"}]>}) {
  return
}

// -----

heddle.mesh @mesh <["a"=2]>
func.func @collective(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{is one device's: expected a global program}}
  %0 = comm.all_reduce sum %x over @mesh <{"a"}> : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

heddle.mesh @mesh <["a"=2]>
// expected-error@+1 {{expected an axis of #heddle.mesh<["a"=2]>, got "b"}}
heddle.variable @unused : tensor<8xf32> parameter init(zeros) storage(<@mesh, [{"b"}]>)
