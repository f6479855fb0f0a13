// Every op and attribute is printed as it is read.
// RUN: heddle-opt %s | heddle-opt | FileCheck %s
// RUN: heddle-opt %s --mlir-print-op-generic | heddle-opt | FileCheck %s

// CHECK: heddle.mesh @mesh <["dp"=2, "tp"=4]>
heddle.mesh @mesh <["dp"=2, "tp"=4]>

// CHECK: heddle.variable @h.0.w : tensor<8x6xf32> parameter init(normal<2.000000e-02>) storage(<@mesh, [{"dp", "tp"}, {}]>) checkpoint(<"transformer.h.0.w", [48]>)
heddle.variable @h.0.w : tensor<8x6xf32> parameter init(normal<0.02>)
  storage(<@mesh, [{"dp", "tp"}, {}]>)
  checkpoint(<"transformer.h.0.w", [48]>)
// CHECK: heddle.variable @m : tensor<8xf32> optimizer_state init(zeros)
heddle.variable @m : tensor<8xf32> optimizer_state init(zeros)
// CHECK: heddle.variable @v : tensor<8x6xf32> optimizer_state init(zeros) state(<adamw_square of @h.0.w>)
heddle.variable @v : tensor<8x6xf32> optimizer_state init(zeros) state(<adamw_square of @h.0.w>)
// CHECK: heddle.variable @g : tensor<8xf32> gradient init(ones)
heddle.variable @g : tensor<8xf32> gradient init(ones)
// CHECK: heddle.variable @steps : tensor<i64> counter init(constant<3.000000e+00>)
heddle.variable @steps : tensor<i64> counter init(constant<3.0>)

// What belongs to some ranks only.
// CHECK: heddle.variable @stage : tensor<8xf32> parameter init(zeros) {heddle.ranks = #heddle.ranks<@mesh, {"dp" = [1], "tp" = [0, 3]}>}
heddle.variable @stage : tensor<8xf32> parameter init(zeros)
  {heddle.ranks = #heddle.ranks<@mesh, {"dp" = [1], "tp" = [0, 3]}>}

// CHECK: func.func @roles(%{{.*}}: tensor<8xi32> {heddle.role = #heddle.port_role<features>}) -> (tensor<8xi32> {heddle.role = #heddle.port_role<gradient of "w">})
// CHECK-SAME: attributes {heddle.ranks = #heddle.ranks<@mesh, {"dp" = [0]}>, heddle.role = #heddle.program_role<accumulate>}
func.func @roles(%x: tensor<8xi32> {heddle.role = #heddle.port_role<features>})
    -> (tensor<8xi32> {heddle.role = #heddle.port_role<gradient of "w">})
    attributes {heddle.ranks = #heddle.ranks<@mesh, {"dp" = [0]}>, heddle.role = #heddle.program_role<accumulate>} {
  return %x : tensor<8xi32>
}

// CHECK-LABEL: func.func @state
func.func @state() {
  // A load of the variable's global type, and one of its local type.
  // CHECK: %[[W:.*]] = heddle.load @h.0.w : tensor<8x6xf32>
  // CHECK: heddle.load @h.0.w : tensor<1x6xf32>
  // CHECK: heddle.store %[[W]], @h.0.w : tensor<8x6xf32>
  %w = heddle.load @h.0.w : tensor<8x6xf32>
  %l = heddle.load @h.0.w : tensor<1x6xf32>
  heddle.store %w, @h.0.w : tensor<8x6xf32>
  return
}

// CHECK-LABEL: func.func @products
func.func @products(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>,
    %b: tensor<5xf32>, %y: tensor<2x3x5xf32>) {
  // CHECK: heddle.contract "fc" [bsh, hf -> bsf] %{{.*}}, %{{.*}} : (tensor<2x3x4xf32>, tensor<4x5xf32>) -> tensor<2x3x5xf32>
  %0 = heddle.contract "fc" [bsh, hf -> bsf] %x, %w
    : (tensor<2x3x4xf32>, tensor<4x5xf32>) -> tensor<2x3x5xf32>
  // CHECK: heddle.contract pass(wgrad) [bsh, bsf -> hf]
  %1 = heddle.contract pass(wgrad) [bsh, bsf -> hf] %x, %y
    : (tensor<2x3x4xf32>, tensor<2x3x5xf32>) -> tensor<4x5xf32>
  // CHECK: heddle.contract [bsh, hf -> bsf] %{{.*}}, %{{.*}} bias(%{{.*}} along [2]) accumulate(%{{.*}}) :
  %2 = heddle.contract [bsh, hf -> bsf] %x, %w bias(%b along [2])
    accumulate(%y) : (tensor<2x3x4xf32>, tensor<4x5xf32>, tensor<5xf32>,
    tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  return
}

// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<2x3x2x2x4xbf16>, %k: tensor<2x3x2x4xbf16>,
    %step: tensor<i64>, %o: index, %seen: tensor<2x1x1x1x3xi1>) {
  // CHECK: heddle.attention "a" %{{.*}}, %{{.*}}, %{{.*}} causal scale(5.000000e-01) :
  %out, %lse = heddle.attention "a" %q, %k, %k causal scale(0.5)
    : tensor<2x3x2x2x4xbf16>, tensor<2x3x2x4xbf16>, tensor<2x3x2x4xbf16>
    -> tensor<2x3x2x2x4xbf16>, tensor<2x3x2x2xf32>
  // CHECK: heddle.attention %{{.*}} scale(5.000000e-01) dropout(1.000000e-01) seed(3) step(%{{.*}} : tensor<i64>) offsets(%[[O:.*]], %[[O]], %[[O]], %[[O]], %[[O]]) global_shape([6, 6, 4, 2]) :
  %out2, %lse2 = heddle.attention %q, %k, %k scale(0.5) dropout(0.1) seed(3)
    step(%step : tensor<i64>) offsets(%o, %o, %o, %o, %o)
    global_shape([6, 6, 4, 2])
    : tensor<2x3x2x2x4xbf16>, tensor<2x3x2x4xbf16>, tensor<2x3x2x4xbf16>
    -> tensor<2x3x2x2x4xbf16>, tensor<2x3x2x2xf32>
  // CHECK: heddle.attention %{{.*}} causal window(2) scale(5.000000e-01) mask(%{{.*}} : tensor<2x1x1x1x3xi1>) :
  %out3, %lse3 = heddle.attention %q, %k, %k causal window(2) scale(0.5)
    mask(%seen : tensor<2x1x1x1x3xi1>)
    : tensor<2x3x2x2x4xbf16>, tensor<2x3x2x4xbf16>, tensor<2x3x2x4xbf16>
    -> tensor<2x3x2x2x4xbf16>, tensor<2x3x2x2xf32>
  // CHECK: heddle.attention_grad "a" %{{.*}} causal scale(5.000000e-01) :
  %dq, %dk, %dv = heddle.attention_grad "a" %q, %k, %k, %out, %lse, %out
    causal scale(0.5)
    : tensor<2x3x2x2x4xbf16>, tensor<2x3x2x4xbf16>, tensor<2x3x2x4xbf16>,
      tensor<2x3x2x2x4xbf16>, tensor<2x3x2x2xf32>, tensor<2x3x2x2x4xbf16>
    -> tensor<2x3x2x2x4xbf16>, tensor<2x3x2x4xbf16>, tensor<2x3x2x4xbf16>
  return
}

// CHECK-LABEL: func.func @normalization
func.func @normalization(%x: tensor<2x4xf32>, %w: tensor<4xf32>) {
  // CHECK: heddle.layer_norm "ln" %{{.*}} epsilon(1.000000e-05) :
  %y, %m, %r = heddle.layer_norm "ln" %x, %w, %w epsilon(1.0e-5)
    : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>)
    -> (tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>)
  // CHECK: heddle.layer_norm_grad "ln"
  %dx, %dw, %db = heddle.layer_norm_grad "ln" %x, %w, %m, %r, %y
    : (tensor<2x4xf32>, tensor<4xf32>, tensor<2xf32>, tensor<2xf32>,
       tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>)
  // CHECK: heddle.rms_norm %{{.*}} epsilon(1.000000e-05) :
  %y2, %r2 = heddle.rms_norm %x, %w epsilon(1.0e-5)
    : (tensor<2x4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>)
  // CHECK: heddle.rms_norm_grad
  %dx2, %dw2 = heddle.rms_norm_grad %x, %w, %r2, %y2
    : (tensor<2x4xf32>, tensor<4xf32>, tensor<2xf32>, tensor<2x4xf32>)
    -> (tensor<2x4xf32>, tensor<4xf32>)
  return
}

// CHECK-LABEL: func.func @vocabulary
func.func @vocabulary(%table: tensor<10x4xf32>, %ids: tensor<2x3xi32>,
    %logits: tensor<2x3x10xf32>, %o: index) {
  // CHECK: heddle.embedding "wte" %{{.*}}, %{{.*}} offset(%{{.*}}) :
  %x = heddle.embedding "wte" %table, %ids offset(%o)
    : tensor<10x4xf32>, tensor<2x3xi32> -> tensor<2x3x4xf32>
  // CHECK: heddle.embedding_grad %{{.*}}, %{{.*}} accumulate(%{{.*}} : tensor<10x4xf32>) offset(%{{.*}}) :
  %d = heddle.embedding_grad %ids, %x accumulate(%table : tensor<10x4xf32>)
    offset(%o) : tensor<2x3xi32>, tensor<2x3x4xf32> -> tensor<10x4xf32>
  // CHECK: heddle.cross_entropy %{{.*}}, %{{.*}} :
  %loss, %lse = heddle.cross_entropy %logits, %ids
    : tensor<2x3x10xf32>, tensor<2x3xi32> -> tensor<2x3xf32>, tensor<2x3xf32>
  // CHECK: heddle.cross_entropy %{{.*}}, %{{.*}} ignore(0) :
  %loss2, %lse2 = heddle.cross_entropy %logits, %ids ignore(0)
    : tensor<2x3x10xf32>, tensor<2x3xi32> -> tensor<2x3xf32>, tensor<2x3xf32>
  // CHECK: heddle.cross_entropy_grad
  %dl = heddle.cross_entropy_grad %logits, %ids, %lse, %loss
    : tensor<2x3x10xf32>, tensor<2x3xi32>, tensor<2x3xf32>, tensor<2x3xf32>
    -> tensor<2x3x10xf32>
  // CHECK: heddle.logsumexp
  %l = heddle.logsumexp %logits : tensor<2x3x10xf32> -> tensor<2x3xf32>
  // CHECK: heddle.pick
  %p = heddle.pick %logits, %ids offset(%o)
    : tensor<2x3x10xf32>, tensor<2x3xi32> -> tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @shapes
func.func @shapes(%x: tensor<2x3xf32>) {
  // CHECK: heddle.reduce sum %{{.*}} over [0] : tensor<2x3xf32> -> tensor<3xf32>
  %r = heddle.reduce sum %x over [0] : tensor<2x3xf32> -> tensor<3xf32>
  // CHECK: heddle.reduce "m" max %{{.*}} over [0, 1]
  %m = heddle.reduce "m" max %x over [0, 1] : tensor<2x3xf32> -> tensor<f32>
  // CHECK: heddle.broadcast %{{.*}} along [1] : tensor<3xf32> -> tensor<2x3xf32>
  %b = heddle.broadcast %r along [1] : tensor<3xf32> -> tensor<2x3xf32>
  // CHECK: heddle.broadcast %{{.*}} along [] : tensor<f32> -> tensor<2x3xf32>
  %s = heddle.broadcast %m along [] : tensor<f32> -> tensor<2x3xf32>
  // CHECK: %[[U:.*]]:2 = heddle.unstack %{{.*}} : tensor<2x3xf32> -> tensor<3xf32>, tensor<3xf32>
  %u:2 = heddle.unstack %x : tensor<2x3xf32> -> tensor<3xf32>, tensor<3xf32>
  // CHECK: heddle.stack %[[U]]#1, %[[U]]#0 :
  %t = heddle.stack %u#1, %u#0 : tensor<3xf32>, tensor<3xf32> -> tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @elementwise
func.func @elementwise(%x: tensor<2x3x1x4xf32>, %step: tensor<i64>, %o: index) {
  // CHECK: heddle.gelu %{{.*}} approximate(none) :
  %0 = heddle.gelu %x approximate(none) : tensor<2x3x1x4xf32>
  // CHECK: heddle.gelu_grad %{{.*}}, %{{.*}} approximate(tanh) :
  %1 = heddle.gelu_grad %x, %0 approximate(tanh) : tensor<2x3x1x4xf32>
  // CHECK: heddle.silu "act"
  %2 = heddle.silu "act" %x : tensor<2x3x1x4xf32>
  // CHECK: heddle.silu_grad
  %3 = heddle.silu_grad %x, %2 : tensor<2x3x1x4xf32>
  // CHECK: heddle.dropout "drop" %{{.*}}, %{{.*}} rate(1.000000e-01) seed(5) offsets(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) global_shape([4, 3, 1, 4]) :
  %4 = heddle.dropout "drop" %x, %step rate(0.1) seed(5)
    offsets(%o, %o, %o, %o) global_shape([4, 3, 1, 4])
    : tensor<2x3x1x4xf32>, tensor<i64> -> tensor<2x3x1x4xf32>
  // CHECK: heddle.rotary_table offset(%{{.*}}) frequencies([1.000000e+00, 5.000000e-01]) :
  %cos, %sin = heddle.rotary_table offset(%o) frequencies([1.0, 0.5])
    : tensor<3x2xf32>, tensor<3x2xf32>
  // CHECK: heddle.rotary %{{.*}}, %{{.*}}, %{{.*}} inverse :
  %5 = heddle.rotary %x, %cos, %sin inverse : tensor<2x3x1x4xf32>,
    tensor<3x2xf32>, tensor<3x2xf32> -> tensor<2x3x1x4xf32>
  return
}

// CHECK-LABEL: func.func @sharding
// CHECK-SAME: heddle.sharding = #heddle.sharding<@mesh, [{"dp"}, {"tp"}]>
func.func @sharding(%x: tensor<4x8xf32>
    {heddle.sharding = #heddle.sharding<@mesh, [{"dp"}, {"tp"}]>}, %o: index) {
  // CHECK: heddle.reshard %{{.*}} from <@mesh, [{}, {}], partial = sum {"dp", "tp"}> to <@mesh, [{"dp"}, {}]> : tensor<4x8xf32>
  %0 = heddle.reshard %x from <@mesh, [{}, {}], partial = sum {"dp", "tp"}>
    to <@mesh, [{"dp"}, {}]> : tensor<4x8xf32>
  // CHECK: heddle.mask_padding %{{.*}} dims [1] sizes [7] offsets(%{{.*}}) value(lowest) :
  %1 = heddle.mask_padding %0 dims [1] sizes [7] offsets(%o) value(lowest)
    : tensor<4x8xf32> -> tensor<4x8xf32>
  // CHECK: arith.addf {{.*}} {heddle.factors = #heddle.factors<[ "b" = {"dp"}, "f" = {}]>}
  %2 = arith.addf %0, %1
    {heddle.factors = #heddle.factors<["b" = {"dp"}, "f" = {}]>}
    : tensor<4x8xf32>
  return
}

// CHECK-LABEL: func.func @barrier
func.func @barrier(%x: tensor<4xf32>, %i: tensor<2xi32>, %g: tensor<f32>) {
  // CHECK: %[[B:.*]]:2 = heddle.barrier %{{.*}}, %{{.*}} after %{{.*}} : tensor<4xf32>, tensor<2xi32> after tensor<f32>
  %0:2 = heddle.barrier %x, %i after %g : tensor<4xf32>, tensor<2xi32> after tensor<f32>
  // CHECK: heddle.barrier %[[B]]#0 : tensor<4xf32>
  %1 = heddle.barrier %0#0 : tensor<4xf32>
  return
}

// CHECK-LABEL: func.func @loop
func.func @loop(%x: tensor<4xf32>, %a: tensor<2xf32>) -> tensor<4xf32> {
  // CHECK: %[[Y:.*]], %{{.*}}, %{{.*}}, %{{.*}} = heddle.while @before, @after init(%{{.*}} : tensor<4xf32>) captured(%{{.*}} : tensor<2xf32>) -> (tensor<4xf32>) carried(tensor<4xf32>) condition tensor<i1> workspace tensor<1xi8>
  %y, %h, %c, %w = heddle.while @before, @after init(%x : tensor<4xf32>) captured(%a : tensor<2xf32>)
    -> (tensor<4xf32>) carried(tensor<4xf32>) condition tensor<i1> workspace tensor<1xi8>
  // CHECK: heddle.while @stop, @go init() condition tensor<i1> workspace tensor<1xi8>
  %d, %v = heddle.while @stop, @go init() condition tensor<i1> workspace tensor<1xi8>
  // CHECK: return %[[Y]]
  return %y : tensor<4xf32>
}
func.func private @before(%x: tensor<4xf32>, %a: tensor<2xf32>) -> (tensor<i1>, tensor<4xf32>) {
  %no = arith.constant dense<false> : tensor<i1>
  return %no, %x : tensor<i1>, tensor<4xf32>
}
func.func private @after(%x: tensor<4xf32>, %a: tensor<2xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func private @stop() -> tensor<i1> {
  %no = arith.constant dense<false> : tensor<i1>
  return %no : tensor<i1>
}
func.func private @go() {
  return
}
