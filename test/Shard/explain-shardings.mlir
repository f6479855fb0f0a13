// RUN: heddle-opt %s --split-input-file --heddle-explain-shardings -o /dev/null --verify-diagnostics

// For each axis: the op that had it first, and the op that passed it on last.
heddle.mesh @mesh <["dp"=2, "tp"=2]>
heddle.variable @w2 : tensor<16x8xf32> parameter init(zeros)
// expected-remark@+2 {{argument 0 lies [{"dp"}, {}]: "dp" from what it is given}}
// expected-remark@+1 {{argument 1 lies [{}, {"tp"}]: "tp" from factor f of "c_fc"}}
func.func @mlp(%x: tensor<8x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"dp"}, {}]>}, %w1: tensor<8x16xf32>) -> tensor<8x8xf32> {
  // expected-remark@+1 {{lies [{"dp"}, {"tp"}]: "dp" from argument 0 of @mlp; "tp" from factor f of "c_fc"}}
  %u = heddle.contract "c_fc" [bh, hf -> bf] %x, %w1 {heddle.factors = #heddle.factors<["f" = {"tp"}]>} : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  // expected-remark@+1 {{"dp" from argument 0 of @mlp through "c_fc"; "tp" from factor f of "c_fc"}}
  %a = math.tanh %u : tensor<8x16xf32>
  // expected-remark@+1 {{lies [{"tp"}, {}]: "tp" from factor f of "c_fc" through "c_proj"}}
  %w2 = heddle.load @w2 : tensor<16x8xf32>
  // expected-remark@+1 {{lies [{"dp"}, {}]: "dp" from argument 0 of @mlp through 'math.tanh' (line 12); partial over "tp" from factor f of "c_fc" through 'math.tanh' (line 12)}}
  %p = heddle.contract "c_proj" [bf, fh -> bh] %a, %w2 : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  return %p : tensor<8x8xf32>
}

// -----

// Two ops claim an axis for different dimensions, or one op for its own factor:
// the message names both and the bytes.
heddle.mesh @mesh <["tp"=2]>
// expected-remark@+2 {{argument 0 lies [{"tp"}, {}]}}
// expected-remark@+1 {{argument 1 lies [{"tp"}, {}]: "tp" from factor h of "sum"}}
func.func @conflict(%a: tensor<8x4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"tp"}, {}]>}, %b: tensor<4x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  // expected-remark@+2 {{conflict over "tp": operand 0 lies [{"tp"}, {}] because of argument 0 of @conflict, and factor h of "sum" wants [{}, {"tp"}]; each device sends 32 bytes}}
  // expected-remark@+1 {{lies [{}, {"tp"}]: "tp" from factor h of "sum"}}
  %0 = math.exp %a : tensor<8x4xf32>
  // expected-remark@+3 {{conflict over "tp": operand 0 lies [{}, {"tp"}] because of factor h of "sum", and factor f of "head" wants [{}, {}]; each device sends 64 bytes}}
  // expected-remark@+2 {{conflict over "tp": operand 1 lies [{"tp"}, {}] because of factor h of "sum", and factor f of "head" wants [{}, {"tp"}]; each device sends 32 bytes}}
  // expected-remark@+1 {{lies [{}, {"tp"}]: "tp" from factor f of "head"}}
  %1 = heddle.contract "head" [bh, hf -> bf] %0, %b {heddle.factors = #heddle.factors<["f" = {"tp"}]>} : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  // expected-remark@+1 {{lies [{}, {}]: partial over "tp" from factor h of "sum"}}
  %2 = heddle.contract "sum" [bh, hf -> bf] %0, %b {heddle.factors = #heddle.factors<["h" = {"tp"}]>} : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  return %1, %2 : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// Axes that come through a loop and a call, and from a variable's storage.
heddle.mesh @mesh <["dp"=2]>
heddle.variable @state : tensor<8xf32> optimizer_state init(zeros) {heddle.storage_axes = #heddle.sharding<@mesh, [{"dp"}]>}
func.func @update() {
  // expected-remark@+1 {{lies [{"dp"}]: "dp" from the storage of @state}}
  %0 = heddle.load @state : tensor<8xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  // expected-remark@+1 {{lies [{"dp"}]: "dp" from the storage of @state}}
  %1 = scf.for %i = %c0 to %c3 step %c1 iter_args(%h = %0) -> tensor<8xf32> {
    // expected-remark@+1 {{lies [{"dp"}]: "dp" from the storage of @state}}
    %2 = func.call @half(%h) : (tensor<8xf32>) -> tensor<8xf32>
    scf.yield %2 : tensor<8xf32>
  }
  heddle.store %1, @state : tensor<8xf32>
  return
}
// expected-remark@+1 {{argument 0 lies [{"dp"}]: "dp" from the storage of @state}}
func.func private @half(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-remark@+1 {{lies [{"dp"}]: "dp" from the storage of @state}}
  %y = math.exp %x : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// A tensor without dimensions.
heddle.mesh @mesh <["dp"=2]>
// expected-remark@+1 {{argument 0 lies [{"dp"}]: "dp" from what it is given}}
func.func @scalar(%x: tensor<6xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"dp"}]>}) -> tensor<f32> {
  %zero = arith.constant 0.0 : f32
  // expected-remark@+1 {{lies []}}
  %e = tensor.empty() : tensor<f32>
  // expected-remark@+1 {{lies []}}
  %o = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>
  // expected-remark@+1 {{lies []: partial over "dp" from argument 0 of @scalar}}
  %r = linalg.reduce { arith.addf } ins(%x : tensor<6xf32>) outs(%o : tensor<f32>) dimensions = [0]
  return %r : tensor<f32>
}
