// RUN: heddle-opt %s --split-input-file --verify-diagnostics --heddle-split-operators

heddle.variable @w : tensor<8x6xf32> parameter init(zeros)
func.func @no_variable(%x: tensor<4x8xf32>) {
  %w = heddle.load @w : tensor<8x6xf32>
  // expected-error @below {{"fc": cannot run in slices of b: it runs over no parameter that the operator reads}}
  %y = heddle.contract "fc" [bh, hf -> bf] %x, %w {heddle.split = #heddle.split<"b", 2, sharded 2>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  return
}

// -----

heddle.variable @w : tensor<8x6xf32> parameter init(zeros)
func.func @unknown_factor(%x: tensor<4x8xf32>) {
  %w = heddle.load @w : tensor<8x6xf32>
  // expected-error @below {{"fc": expected a factor to run in slices of, got "k"}}
  %y = heddle.contract "fc" [bh, hf -> bf] %x, %w {heddle.split = #heddle.split<"k", 2, sharded 2>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  return
}

// -----

heddle.variable @w : tensor<8x6xf32> parameter init(zeros)
func.func @too_many(%x: tensor<4x8xf32>) {
  %w = heddle.load @w : tensor<8x6xf32>
  // expected-error @below {{"fc": expected at most 8 slices of factor h, its size, got 9}}
  %y = heddle.contract "fc" [bh, hf -> bf] %x, %w {heddle.split = #heddle.split<"h", 9, sharded 2>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  return
}

// -----

heddle.variable @w : tensor<8x6xf32> parameter init(zeros)
func.func @two_ways(%x: tensor<4x8xf32>) {
  %w = heddle.load @w : tensor<8x6xf32>
  // expected-note @below {{"fc" wants 2 slices of dimension 0 (2 sharded)}}
  %y = heddle.contract "fc" [bh, hf -> bf] %x, %w {heddle.split = #heddle.split<"h", 2, sharded 2>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  // expected-error @below {{"tied": expected @w to be cut in one way, got 3 slices of dimension 1 (3 sharded)}}
  %z = heddle.contract "tied" [bh, hf -> bf] %x, %w {heddle.split = #heddle.split<"f", 3, sharded 3>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  return
}

// -----

heddle.variable @w : tensor<8xf32> parameter init(zeros)
func.func @needed_whole(%x: tensor<4x8xf32>) {
  %w = heddle.load @w : tensor<8xf32>
  // expected-error @below {{"ln": cannot run in slices of h: the op needs the factor whole}}
  %y, %r = heddle.rms_norm "ln" %x, %w epsilon(1.0e-5) {heddle.split = #heddle.split<"h", 2, sharded 2>} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
  return
}

// -----

// expected-error @below {{expected the symbol @w.slice1 to be free for a slice of @w}}
heddle.variable @w.slice1 : tensor<6xf32> parameter init(zeros)
heddle.variable @w : tensor<8x6xf32> parameter init(zeros)
func.func @taken(%x: tensor<4x8xf32>) {
  %w = heddle.load @w : tensor<8x6xf32>
  %y = heddle.contract "fc" [bh, hf -> bf] %x, %w {heddle.split = #heddle.split<"h", 2, sharded 2>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  return
}

// -----

heddle.variable @w : tensor<8x6xf32> parameter init(zeros)
func.func @slices(%x: tensor<4x8xf32>) {
  %w = heddle.load @w : tensor<8x6xf32>
  // expected-error @below {{expected at least 2 slices, got 1}}
  %y = heddle.contract "fc" [bh, hf -> bf] %x, %w {heddle.split = #heddle.split<"h", 1, sharded 1>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  return
}

// -----

heddle.variable @w : tensor<8x6xf32> parameter init(zeros)
func.func @control_flow(%x: tensor<4x8xf32>, %p: i1) {
  %w = heddle.load @w : tensor<8x6xf32>
  %y = heddle.contract "fc" [bh, hf -> bf] %x, %w {heddle.split = #heddle.split<"h", 2, sharded 2>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  scf.if %p {
    // expected-error @below {{expected @w, which runs in slices, to be loaded and stored by functions of one block, outside of control flow}}
    heddle.store %w, @w : tensor<8x6xf32>
  }
  return
}

// -----

// The error names an op without a name by its kind and place.
func.func @unnamed(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %o: tensor<4x6xf32>) {
  // expected-error-re @below {{{{'linalg.matmul' op 'linalg.matmul' \(line [0-9]+\): expected a factor to run in slices of, got "k"}}}}
  %y = linalg.matmul {heddle.split = #heddle.split<"k", 2, sharded 2>} ins(%x, %w : tensor<4x8xf32>, tensor<8x6xf32>) outs(%o : tensor<4x6xf32>) -> tensor<4x6xf32>
  return
}
