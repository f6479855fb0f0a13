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

heddle.mesh @mesh <["a"=2]>
func.func @merged_uneven(%x: tensor<15xf32>) -> tensor<5x3xf32> {
  // expected-error@+1 {{expected factors of merged dimensions to divide}}
  %0 = tensor.expand_shape %x [[0, 1]] output_shape [5, 3] {heddle.factors = #heddle.factors<["0" = {"a"}]>} : tensor<15xf32> into tensor<5x3xf32>
  return %0 : tensor<5x3xf32>
}

// -----

heddle.mesh @mesh <["a"=2]>
func.func @regions(%c: i1, %x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{cannot be partitioned: it has regions and no sharding rule}}
  %0 = scf.if %c -> tensor<8xf32> {
    scf.yield %x : tensor<8xf32>
  } else {
    scf.yield %x : tensor<8xf32>
  }
  return %0 : tensor<8xf32>
}

// -----

heddle.mesh @mesh <["a"=2]>
// expected-error@+1 {{expected a sharding of 1 dimensions}}
func.func @rank(%x: tensor<8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"a"}, {}]>}) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
