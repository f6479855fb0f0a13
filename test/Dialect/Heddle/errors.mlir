// One case for every constraint that the ops and attributes state.
// RUN: heddle-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{expected mesh axes to have different names, got "tp" twice}}
heddle.mesh @mesh <["tp"=2, "tp"=4]>

// -----

// expected-error @below {{expected mesh axis "tp" to have a positive size, got 0}}
heddle.mesh @mesh <["tp"=0]>

// -----

// expected-error @below {{expected each mesh axis at most once in a sharding, got "tp" twice}}
func.func private @f(tensor<2x2xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"tp"}, {"tp"}]>})

// -----

// expected-error @below {{expected initializer 'normal' to have a value}}
heddle.variable @w : tensor<2xf32> parameter init(normal)

// -----

// expected-error @below {{expected a static tensor of numbers, got 'tensor<?xf32>'}}
heddle.variable @w : tensor<?xf32> parameter init(zeros)

// -----

// expected-error @below {{expected the checkpoint's tensor to have 6 elements as 'tensor<2x3xf32>' has, got 8 in 2x4}}
heddle.variable @w : tensor<2x3xf32> parameter init(zeros) checkpoint(<"w", [2, 4]>)

// -----

heddle.mesh @mesh <["tp"=2]>
// expected-error @below {{expected the storage to have 1 dimensions as 'tensor<2xf32>' has, got 2}}
heddle.variable @w : tensor<2xf32> parameter init(zeros) storage(<@mesh, [{}, {}]>)

// -----

heddle.mesh @mesh <["tp"=2]>
// expected-error @below {{expected the storage not to be partial}}
heddle.variable @w : tensor<2xf32> parameter init(zeros) storage(<@mesh, [{}], partial = sum {"tp"}>)

// -----

// Each device would add its own elements.
heddle.mesh @mesh <["tp"=2]>
// expected-error @below {{expected the storage not to be partial, but for sums of gradients that start from zeros}}
heddle.variable @w : tensor<2xf32> gradient init(ones) storage(<@mesh, [{}], partial = sum {"tp"}>)

// -----

heddle.mesh @mesh <["tp"=2]>
heddle.variable @w : tensor<2xf32> gradient init(zeros) storage(<@mesh, [{}], partial = sum {"dp"}>)
func.func @f() {
  // expected-error @below {{expected @w to be stored over axes of #heddle.mesh<["tp"=2]>, got "dp"}}
  %w = heddle.load @w : tensor<2xf32>
  return
}

// -----

func.func @f() {
  // expected-error @below {{expected @w to be a heddle.variable in this module}}
  %w = heddle.load @w : tensor<2xf32>
  return
}

// -----

heddle.mesh @mesh <["tp"=2]>
// expected-note @below {{declared here}}
heddle.variable @w : tensor<5xf32> parameter init(zeros) storage(<@mesh, [{"tp"}]>)
func.func @f(%x: tensor<4xf32>) {
  // expected-error @below {{expected the type of @w, 'tensor<5xf32>' (or 'tensor<3xf32>' on one device), got 'tensor<4xf32>'}}
  heddle.store %x, @w : tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{expected each factor once in 'aa', got 'a' twice}}
  %0 = heddle.contract [aa, ab -> b] %x, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{factor 'c' of the result is in no operand}}
  %0 = heddle.contract [ab, ab -> c] %x, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %y: tensor<2xf32>) {
  // expected-error @below {{factor 'b' is in one operand only and not in the result}}
  %0 = heddle.contract [ab, a -> a] %x, %y : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) {
  // expected-error @below {{expected as many factors as dimensions, got 'abc' for 2x3}}
  %0 = heddle.contract [abc, ab -> c] %x, %y : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x5xf32>) {
  // expected-error @below {{expected factor 'h' to have one size, got 3 and 4}}
  %0 = heddle.contract [sh, hf -> sf] %x, %y : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %y: tensor<3x5xbf16>) {
  // expected-error @below {{expected operands of one element type, got 'f32' and 'bf16'}}
  %0 = heddle.contract [sh, hf -> sf] %x, %y : (tensor<2x3xf32>, tensor<3x5xbf16>) -> tensor<2x5xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %y: tensor<3x5xf32>) {
  // expected-error @below {{expected a result of 'f32' or f32, got 'bf16'}}
  %0 = heddle.contract [sh, hf -> sf] %x, %y : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xbf16>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %y: tensor<3x5xf32>, %b: tensor<4xf32>) {
  // expected-error @below {{expected the bias to have size 5 along dimension 1 of the result, got 4}}
  %0 = heddle.contract [sh, hf -> sf] %x, %y bias(%b along [1]) : (tensor<2x3xf32>, tensor<3x5xf32>, tensor<4xf32>) -> tensor<2x5xf32>
  return
}

// -----

func.func @f(%q: tensor<1x2x2x4xf32>, %k: tensor<1x2x1x4xf32>) {
  // expected-error @below {{expected queries and keys to agree in batch, group and head size, got 1x2x2x4 and 1x2x1x4}}
  %o, %lse = heddle.attention %q, %k, %k scale(0.5) : tensor<1x2x2x4xf32>, tensor<1x2x1x4xf32>, tensor<1x2x1x4xf32> -> tensor<1x2x2x4xf32>, tensor<1x2x2xf32>
  return
}

// -----

func.func @f(%q: tensor<1x2x2x4xf32>, %m: tensor<1x2x1x3xi1>) {
  // expected-error @below {{expected a mask of shape 1x2x2x2, in which any size may be 1, got 1x2x1x3}}
  %o, %lse = heddle.attention %q, %q, %q scale(0.5) mask(%m : tensor<1x2x1x3xi1>) : tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32> -> tensor<1x2x2x4xf32>, tensor<1x2x2xf32>
  return
}

// -----

func.func @f(%q: tensor<1x2x2x4xf32>) {
  // expected-error @below {{expected a window of at least 1, got -1}}
  %o, %lse = heddle.attention %q, %q, %q window(-1) scale(0.5) : tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32> -> tensor<1x2x2x4xf32>, tensor<1x2x2xf32>
  return
}

// -----

func.func @f(%q: tensor<1x2x2x4xf32>) {
  // expected-error @below {{expected a step with dropout}}
  %o, %lse = heddle.attention %q, %q, %q scale(0.5) dropout(0.1) : tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32> -> tensor<1x2x2x4xf32>, tensor<1x2x2xf32>
  return
}

// -----

func.func @f(%q: tensor<1x2x2x4xf32>) {
  // expected-error @below {{expected the shape of lse to be 1x2x2, got 1x2}}
  %o, %lse = heddle.attention %q, %q, %q scale(0.5) : tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32> -> tensor<1x2x2x4xf32>, tensor<1x2xf32>
  return
}

// -----

func.func @f(%x: tensor<2x4xf32>, %w: tensor<3xf32>) {
  // expected-error @below {{expected the shape of weight to be 4, got 3}}
  %y, %r = heddle.rms_norm %x, %w epsilon(1.0e-5) : (tensor<2x4xf32>, tensor<3xf32>) -> (tensor<2x4xf32>, tensor<2xf32>)
  return
}

// -----

func.func @f(%x: tensor<2x4xf32>, %w: tensor<4xf32>) {
  // expected-error @below {{expected the shape of mean to be 2, got 4}}
  %y, %m, %r = heddle.layer_norm %x, %w, %w epsilon(1.0e-5) : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<4xf32>, tensor<2xf32>)
  return
}

// -----

func.func @f(%t: tensor<10x4xf32>, %ids: tensor<3xi32>) {
  // expected-error @below {{expected the shape of the result to be 3x4, got 3x5}}
  %x = heddle.embedding %t, %ids : tensor<10x4xf32>, tensor<3xi32> -> tensor<3x5xf32>
  return
}

// -----

func.func @f(%a: tensor<9x4xf32>, %ids: tensor<3xi32>, %y: tensor<3x4xf32>) {
  // expected-error @below {{expected accumulate to have the result's type 'tensor<10x4xf32>', got 'tensor<9x4xf32>'}}
  %x = heddle.embedding_grad %ids, %y accumulate(%a : tensor<9x4xf32>) : tensor<3xi32>, tensor<3x4xf32> -> tensor<10x4xf32>
  return
}

// -----

func.func @f(%x: tensor<2x5xf32>, %t: tensor<3xi32>) {
  // expected-error @below {{expected the shape of targets to be 2, got 3}}
  %l, %lse = heddle.cross_entropy %x, %t : tensor<2x5xf32>, tensor<3xi32> -> tensor<2xf32>, tensor<2xf32>
  return
}

// -----

func.func @f(%x: tensor<2x5xf32>) {
  // expected-error @below {{expected 'over' to be strictly increasing dimensions below 2, got [1, 1]}}
  %0 = heddle.reduce sum %x over [1, 1] : tensor<2x5xf32> -> tensor<2xf32>
  return
}

// -----

func.func @f(%x: tensor<2x5xf32>) {
  // expected-error @below {{expected a result of 'f32' or f32, got 'bf16'}}
  %0 = heddle.reduce sum %x over [1] : tensor<2x5xf32> -> tensor<2xbf16>
  return
}

// -----

func.func @f(%x: tensor<5xf32>) {
  // expected-error @below {{expected dimension 0 of the result to have size 5, got 2}}
  %0 = heddle.broadcast %x along [0] : tensor<5xf32> -> tensor<2x5xf32>
  return
}

// -----

func.func @f(%x: tensor<3x5xf32>) {
  // expected-error @below {{expected the first dimension of 'tensor<3x5xf32>' to be the number of slices, 2}}
  %0:2 = heddle.unstack %x : tensor<3x5xf32> -> tensor<5xf32>, tensor<5xf32>
  return
}

// -----

func.func @f(%x: tensor<2xf32>, %n: tensor<i64>) {
  // expected-error @below {{expected 0 <= rate < 1, got 1}}
  %0 = heddle.dropout "d" %x, %n rate(1.0) : tensor<2xf32>, tensor<i64> -> tensor<2xf32>
  return
}

// -----

func.func @f(%x: tensor<2xf32>, %n: tensor<i64>) {
  // expected-error @below {{expected a name: it selects the random stream}}
  %0 = heddle.dropout %x, %n rate(0.1) : tensor<2xf32>, tensor<i64> -> tensor<2xf32>
  return
}

// -----

func.func @f(%x: tensor<1x2x1x3xf32>, %c: tensor<2x1xf32>) {
  // expected-error @below {{expected an even head size, got 3}}
  %0 = heddle.rotary %x, %c, %c : tensor<1x2x1x3xf32>, tensor<2x1xf32>, tensor<2x1xf32> -> tensor<1x2x1x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error @below {{expected both shardings on one mesh, got @a and @b}}
  %0 = heddle.reshard %x from <@a, [{}]> to <@b, [{}]> : tensor<2xf32>
  return
}

// -----

func.func @f(%x: tensor<2xf32>, %o: index) {
  // expected-error @below {{expected as many dims as sizes and offsets, got 1, 2 and 1}}
  %0 = heddle.mask_padding %x dims [0] sizes [3, 4] offsets(%o) value(zero) : tensor<2xf32> -> tensor<2xf32>
  return
}

// -----

// expected-error @below {{expected a mesh of at most 65536 devices, got more}}
heddle.mesh @mesh <["dp"=9223372036854775807, "tp"=4]>

// -----

// expected-error @below {{expected a standard deviation of at least 0, got -1.0}}
heddle.variable @w : tensor<2xf32> parameter init(normal<-1.0>)

// -----

// expected-error @below {{expected 'parameter' or 'optimizer_state' or 'gradient' or 'counter' or 'loss' or 'buffer' or 'setting', got 'weight'}}
heddle.variable @w : tensor<2xf32> weight init(zeros)

// -----

heddle.variable @w : tensor<2xf32> parameter init(zeros)
// expected-error @below {{expected role gradient, which the state gradient has, got optimizer_state}}
heddle.variable @g : tensor<2xf32> optimizer_state init(zeros) state(<gradient of @w>)

// -----

heddle.variable @w : tensor<2xf32> counter init(zeros)
// expected-error @below {{expected @w, whose state it is, to be a heddle.variable of role parameter in this module}}
heddle.variable @m : tensor<2xf32> optimizer_state init(zeros) state(<sgd_momentum of @w>)

// -----

// expected-error @below {{expected the checkpoint's tensor to have sizes of at least 0, got -2}}
heddle.variable @w : tensor<8xf32> parameter init(zeros) checkpoint(<"w", [-2, -4]>)

// -----

// expected-error @below {{expected the checkpoint's tensor to have less than 2^63 elements, got 4294967296x4294967296}}
heddle.variable @w : tensor<8xf32> parameter init(zeros) checkpoint(<"w", [4294967296, 4294967296]>)

// -----

heddle.variable @w : tensor<8xf32> parameter init(zeros) storage(<@mesh, [{"tp"}]>)
func.func @f() {
  // expected-error @below {{expected @mesh, over which @w is stored, to be a heddle.mesh in this module}}
  %w = heddle.load @w : tensor<8xf32>
  return
}

// -----

heddle.mesh @mesh <["tp"=2]>
heddle.variable @w : tensor<8xf32> parameter init(zeros) storage(<@mesh, [{"dp"}]>)
func.func @f() {
  // expected-error @below {{expected @w to be stored over axes of #heddle.mesh<["tp"=2]>, got "dp"}}
  %w = heddle.load @w : tensor<8xf32>
  return
}

// -----

func.func @f(%q: tensor<1x2x1x4xf32>, %k: tensor<1x2x1x4xbf16>) {
  // expected-error @below {{expected queries, keys, values and output of one element type, got 'f32' and 'bf16'}}
  %o, %l = heddle.attention %q, %k, %k scale(0.5) : tensor<1x2x1x4xf32>, tensor<1x2x1x4xbf16>, tensor<1x2x1x4xbf16> -> tensor<1x2x1x4xf32>, tensor<1x2x1xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @below {{operand #0 must be statically shaped ranked tensor}}
  %0 = heddle.silu %x : tensor<?x4xf32>
  return
}

// -----

// A misspelt attribute would have no effect.
// expected-error @below {{expected no heddle.shardings of argument 0: the heddle dialect has no attribute of this name; is it heddle.sharding?}}
func.func @f(%x: tensor<8xf32> {heddle.shardings = 0}) {
  return
}

// -----

// expected-error @below {{expected no heddle.layout of result 0: the heddle dialect has no attribute of this name}}
func.func @f(%x: tensor<8xf32>) -> (tensor<8xf32> {heddle.layout = 0}) {
  return %x : tensor<8xf32>
}

// -----

func.func @f(%x: tensor<8xf32>) {
  // expected-error @below {{expected no heddle.global_type: the heddle dialect has no such attribute there}}
  %0 = math.exp %x {heddle.global_type = tensor<8xf32>} : tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<8xf32>) {
  // expected-error @below {{expected heddle.factors to be axes of factors, each once, such as #heddle.factors<["b" = {"x"}]>, got "b"}}
  %0 = math.exp %x {heddle.factors = "b"} : tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<8xf32>) {
  // expected-error @below {{expected heddle.factors to be axes of factors, each once}}
  %0 = math.exp %x {heddle.factors = #heddle.factors<["0" = {"a"}, "0" = {"b"}]>} : tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<8xf32>) {
  // expected-error @below {{expected heddle.pin to be a sharding, or a list of a sharding or unit for each result, got [unit, 1]}}
  %0 = math.exp %x {heddle.pin = [unit, 1]} : tensor<8xf32>
  return
}

// -----

// expected-error @below {{expected heddle.sharding of argument 0 to be a sharding, such as #heddle.sharding<@mesh, [{"x"}, {}]>, got "x"}}
func.func @f(%x: tensor<8xf32> {heddle.sharding = "x"}) {
  return
}

// -----

// expected-error @below {{expected heddle.priority of argument 0 to be an i64 from 0 to 65536, got 65537 : i64}}
func.func @f(%x: tensor<8xf32> {heddle.priority = 65537}) {
  return
}

// -----

// expected-error @below {{expected heddle.hierarchy to be #heddle.hierarchy<auto>, <always> or <never>, got "never"}}
module attributes {heddle.hierarchy = "never"} {}

// -----

// expected-error @below {{expected heddle.reduce_gradients to be #heddle.gradient_reduction<step> or <micro_batch>, got "micro_batch"}}
module attributes {heddle.reduce_gradients = "micro_batch"} {}

// -----

// expected-error @below {{expected heddle.sub_batches to be a positive i64, or an array<i64> of positive sizes with a sum below 2^63, got 0 : i64}}
module attributes {heddle.sub_batches = 0 : i64} {}

// -----

// expected-error @below {{expected heddle.sub_batches to be a positive i64, or an array<i64> of positive sizes with a sum below 2^63, got array<i64: 1, 0>}}
module attributes {heddle.sub_batches = array<i64: 1, 0>} {}

// -----

// expected-error @below {{expected heddle.sub_batches to be a positive i64, or an array<i64> of positive sizes with a sum below 2^63, got array<i64: 9223372036854775807, 1>}}
module attributes {heddle.sub_batches = array<i64: 9223372036854775807, 1>} {}

// -----

// expected-error @below {{expected ::heddle::GradientReduction to be one of: step, micro_batch}}
// expected-error @below {{failed to parse GradientReductionAttr}}
module attributes {heddle.reduce_gradients = #heddle.gradient_reduction<never>} {}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @below {{expected @before to be a private function with a body in this module}}
  %y, %h, %c, %w = heddle.while @before, @before init(%x : tensor<4xf32>) -> (tensor<4xf32>) carried(tensor<4xf32>) condition tensor<i1> workspace tensor<1xi8>
  return
}

// -----

func.func private @before(%x: tensor<4xf32>) -> (tensor<i1>, tensor<4xf32>) {
  %no = arith.constant dense<false> : tensor<i1>
  return %no, %x : tensor<i1>, tensor<4xf32>
}
func.func private @after(%x: tensor<2xf32>) -> tensor<4xf32> {
  %y = arith.constant dense<0.0> : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @f(%x: tensor<4xf32>) {
  // expected-error @below {{expected @after to be of type ('tensor<4xf32>') -> ('tensor<4xf32>'), got ('tensor<2xf32>') -> ('tensor<4xf32>')}}
  %y, %h, %c, %w = heddle.while @before, @after init(%x : tensor<4xf32>) -> (tensor<4xf32>) carried(tensor<4xf32>) condition tensor<i1> workspace tensor<1xi8>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @below {{expected to carry values of the initial types, ('tensor<4xf32>'), got ('tensor<2xf32>')}}
  %y, %h, %c, %w = heddle.while @before, @after init(%x : tensor<4xf32>) -> (tensor<4xf32>) carried(tensor<2xf32>) condition tensor<i1> workspace tensor<1xi8>
  return
}

// -----

func.func @serves_nobody(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected the name of an operator, got ""}}
  %y = arith.negf %x {heddle.serves = #heddle.serves<activation [""]>} : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @serves_twice(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected each name once, got "a" twice}}
  %y = arith.negf %x {heddle.serves = #heddle.serves<gradient ["a", "b", "a"]>} : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @serves_no_attribute(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected heddle.serves to be names of operators, such as #heddle.serves<activation ["h.0.mlp.c_fc"]>, got "fc"}}
  %y = arith.negf %x {heddle.serves = "fc"} : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// expected-error @below {{expected the role gradient to name its parameter}}
func.func private @f(tensor<8xf32> {heddle.role = #heddle.port_role<gradient>})

// -----

// expected-error @below {{expected the role loss to name no parameter}}
func.func private @f(tensor<8xf32> {heddle.role = #heddle.port_role<loss of "w">})

// -----

// expected-error @below {{expected heddle.role to be a role, such as #heddle.program_role<step>, got #heddle.port_role<features>}}
func.func private @f() attributes {heddle.role = #heddle.port_role<features>}

// -----

// expected-error @below {{expected heddle.role of argument 0 to be a role, such as #heddle.port_role<features>, got "features"}}
func.func private @f(tensor<8xf32> {heddle.role = "features"})

// -----

heddle.mesh @mesh <["pp"=2]>
// expected-error @below {{expected each axis once, got "pp" twice}}
func.func private @f() attributes {heddle.ranks = #heddle.ranks<@mesh, {"pp" = [0], "pp" = [1]}>}

// -----

heddle.mesh @mesh <["pp"=2]>
// expected-error @below {{expected ascending coordinates of at least 0 along axis "pp", got [1, 1]}}
func.func private @f() attributes {heddle.ranks = #heddle.ranks<@mesh, {"pp" = [1, 1]}>}

// -----

// expected-error @below {{expected heddle.ranks to be over a heddle.mesh of this module, got @mesh}}
func.func private @f() attributes {heddle.ranks = #heddle.ranks<@mesh, {"pp" = [1]}>}

// -----

heddle.mesh @mesh <["pp"=2]>
// expected-error @below {{expected heddle.ranks to be over axes of #heddle.mesh<["pp"=2]>, got "tp"}}
heddle.variable @w : tensor<2xf32> parameter init(zeros) {heddle.ranks = #heddle.ranks<@mesh, {"tp" = [0]}>}

// -----

heddle.mesh @mesh <["pp"=2]>
// expected-error @below {{expected heddle.ranks of argument 0 to have coordinates below 2 along axis "pp", got 2}}
func.func private @f(tensor<8xf32> {heddle.ranks = #heddle.ranks<@mesh, {"pp" = [2]}>})

// -----

func.func @f(%g: tensor<2xf32>) {
  // expected-error @below {{expected at least one value}}
  "heddle.barrier"(%g) <{operandSegmentSizes = array<i32: 0, 1>}> : (tensor<2xf32>) -> ()
  return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @below {{incompatible with return type(s) of operation}}
  %0 = "heddle.barrier"(%x) <{operandSegmentSizes = array<i32: 1, 0>}> : (tensor<2xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @fused_sizes(%x: tensor<4x8xbf16>, %w: tensor<7x16xbf16>) {
  // expected-error @below {{expected factor 'h' to have one size, got 8 and 7}}
  %y, %s = heddle.fused_contract rhs_sums [th, hf -> tf] %x, %w : (tensor<4x8xbf16>, tensor<7x16xbf16>) -> (tensor<4x16xbf16>, tensor<16xbf16>)
  return
}

// -----

func.func @fused_result_type(%x: tensor<4x8xbf16>, %w: tensor<8x16xbf16>) {
  // expected-error @below {{expected a result of 'bf16' or f32, got 'f16'}}
  %y, %s = heddle.fused_contract rhs_sums [th, hf -> tf] %x, %w : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> (tensor<4x16xf16>, tensor<16xf16>)
  return
}

// -----

func.func @fused_accumulate_type(%x: tensor<4x8xbf16>, %w: tensor<8x16xbf16>, %a: tensor<4x16xf32>) {
  // expected-error @below {{expected accumulate to have the result's type}}
  %y, %s = heddle.fused_contract rhs_sums [th, hf -> tf] %x, %w accumulate(%a) : (tensor<4x8xbf16>, tensor<8x16xbf16>, tensor<4x16xf32>) -> (tensor<4x16xbf16>, tensor<16xbf16>)
  return
}

// -----

func.func @fused_bias_along(%x: tensor<4x8xbf16>, %w: tensor<8x16xbf16>, %b: tensor<16xbf16>) {
  // expected-error @below {{expected 'along' to be strictly increasing dimensions below 2, got [2]}}
  %y, %u = heddle.fused_contract gelu [th, hf -> tf] %x, %w bias(%b along [2]) : (tensor<4x8xbf16>, tensor<8x16xbf16>, tensor<16xbf16>) -> (tensor<4x16xbf16>, tensor<4x16xbf16>)
  return
}

// -----

func.func @fused_bias_size(%x: tensor<4x8xbf16>, %w: tensor<8x16xbf16>, %b: tensor<8xbf16>) {
  // expected-error @below {{expected the bias to have size 16 along dimension 1 of the result, got 8}}
  %y, %u = heddle.fused_contract gelu [th, hf -> tf] %x, %w bias(%b along [1]) : (tensor<4x8xbf16>, tensor<8x16xbf16>, tensor<8xbf16>) -> (tensor<4x16xbf16>, tensor<4x16xbf16>)
  return
}

// -----

func.func @fused_bias_of_sums(%x: tensor<4x8xbf16>, %w: tensor<8x16xbf16>, %b: tensor<16xbf16>) {
  // expected-error @below {{expected no bias with rhs_sums}}
  %y, %s = heddle.fused_contract rhs_sums [th, hf -> tf] %x, %w bias(%b along [1]) : (tensor<4x8xbf16>, tensor<8x16xbf16>, tensor<16xbf16>) -> (tensor<4x16xbf16>, tensor<16xbf16>)
  return
}

// -----

func.func @fused_accumulate_of_gelu(%x: tensor<4x8xbf16>, %w: tensor<8x16xbf16>, %a: tensor<4x16xbf16>) {
  // expected-error @below {{expected no accumulate with gelu}}
  %y, %u = heddle.fused_contract gelu [th, hf -> tf] %x, %w accumulate(%a) : (tensor<4x8xbf16>, tensor<8x16xbf16>, tensor<4x16xbf16>) -> (tensor<4x16xbf16>, tensor<4x16xbf16>)
  return
}

// -----

func.func @fused_no_input(%x: tensor<4x8xbf16>, %w: tensor<8x16xbf16>) {
  // expected-error @below {{expected an input with gelu_grad}}
  %y = heddle.fused_contract gelu_grad [th, hf -> tf] %x, %w : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> tensor<4x16xbf16>
  return
}

// -----

func.func @fused_input_type(%x: tensor<4x8xbf16>, %w: tensor<8x16xbf16>, %u: tensor<4x16xf32>) {
  // expected-error @below {{expected an input of type 'tensor<4x16xbf16>', got 'tensor<4x16xf32>'}}
  %y = heddle.fused_contract gelu_grad [th, hf -> tf] %x, %w input(%u) : (tensor<4x8xbf16>, tensor<8x16xbf16>, tensor<4x16xf32>) -> tensor<4x16xbf16>
  return
}

// -----

func.func @fused_extra_type(%x: tensor<4x8xbf16>, %w: tensor<8x16xbf16>) {
  // expected-error @below {{expected an extra result of type 'tensor<4x16xbf16>' with gelu, got 'tensor<16xbf16>'}}
  %y, %u = heddle.fused_contract gelu [th, hf -> tf] %x, %w : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> (tensor<4x16xbf16>, tensor<16xbf16>)
  return
}

// -----

func.func @fused_no_extra(%x: tensor<4x8xbf16>, %w: tensor<8x16xbf16>) {
  // expected-error @below {{expected an extra result of type 'tensor<4xbf16>' with lhs_sums, got none}}
  %y = heddle.fused_contract lhs_sums [th, hf -> tf] %x, %w : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> tensor<4x16xbf16>
  return
}

// -----

func.func @fused_extra_of_grad(%x: tensor<4x8xbf16>, %w: tensor<8x16xbf16>, %u: tensor<4x16xbf16>) {
  // expected-error @below {{expected no extra result with gelu_grad, got 'tensor<4x16xbf16>'}}
  %y, %e = heddle.fused_contract gelu_grad [th, hf -> tf] %x, %w input(%u) : (tensor<4x8xbf16>, tensor<8x16xbf16>, tensor<4x16xbf16>) -> (tensor<4x16xbf16>, tensor<4x16xbf16>)
  return
}
