// RUN: heddle-opt %s --heddle-apply-mixed-precision --split-input-file | FileCheck %s
// RUN: heddle-opt %s --heddle-apply-mixed-precision=compute=f32 --split-input-file | FileCheck %s --check-prefix=F32
// RUN: heddle-opt %s --heddle-apply-mixed-precision --heddle-build-training-step --split-input-file | FileCheck %s --check-prefix=STEP

// F32-NOT: bf16

heddle.variable @fc.weight : tensor<4x6xf32> parameter init(normal<0.02>)
heddle.variable @fc.bias : tensor<6xf32> parameter init(zeros)
heddle.variable @proj.weight : tensor<6x4xf32> parameter init(normal<0.02>)
heddle.variable @norm.weight : tensor<4xf32> parameter init(ones)
heddle.variable @wte.weight : tensor<10x4xf32> parameter init(normal<0.02>)

// CHECK-LABEL: func.func @forward
// CHECK-SAME: -> (tensor<f32> {{.*}}, tensor<f32> {{.*}}, tensor<2x3x10xf32> {{.*}})
func.func @forward(
    %tokens: tensor<2x3xi32> {heddle.role = #heddle.port_role<features>},
    %targets: tensor<2x3xi32> {heddle.role = #heddle.port_role<labels>})
    -> (tensor<f32> {heddle.role = #heddle.port_role<loss_sum>},
        tensor<f32> {heddle.role = #heddle.port_role<label_count>},
        tensor<2x3x10xf32> {heddle.role = #heddle.port_role<output>}) {
  // The residual stream and the norms are f32.
  // CHECK: %[[X:.*]] = heddle.embedding {{.*}} -> tensor<2x3x4xf32>
  // CHECK: %[[N:.*]], %{{.*}} = heddle.rms_norm {{.*}} -> (tensor<2x3x4xf32>, tensor<2x3xf32>)
  %table = heddle.load @wte.weight : tensor<10x4xf32>
  %x = heddle.embedding "wte" %table, %tokens
    : tensor<10x4xf32>, tensor<2x3xi32> -> tensor<2x3x4xf32>
  %g = heddle.load @norm.weight : tensor<4xf32>
  %n, %r = heddle.rms_norm "norm" %x, %g epsilon(1.0e-5)
    : (tensor<2x3x4xf32>, tensor<4xf32>) -> (tensor<2x3x4xf32>, tensor<2x3xf32>)
  // Products take and return bf16; weights are cast after they are loaded.
  // CHECK: %[[W:.*]] = heddle.load @fc.weight : tensor<4x6xf32>
  // CHECK: %[[NB:.*]] = arith.truncf %[[N]] : tensor<2x3x4xf32> to tensor<2x3x4xbf16>
  // CHECK: %[[WB:.*]] = arith.truncf %[[W]] : tensor<4x6xf32> to tensor<4x6xbf16>
  // CHECK: %[[U:.*]] = heddle.contract "fc" [bsh, hf -> bsf] %[[NB]], %[[WB]] : {{.*}} -> tensor<2x3x6xbf16>
  %w = heddle.load @fc.weight : tensor<4x6xf32>
  %u = heddle.contract "fc" [bsh, hf -> bsf] %n, %w
    : (tensor<2x3x4xf32>, tensor<4x6xf32>) -> tensor<2x3x6xf32>
  // A bias is cast too, and the ops after it are bf16.
  // CHECK: %[[BIAS:.*]] = heddle.load @fc.bias
  // CHECK: %[[BIASB:.*]] = arith.truncf %[[BIAS]]
  // CHECK: %[[B:.*]] = heddle.broadcast %[[BIASB]] along [2] : tensor<6xbf16> -> tensor<2x3x6xbf16>
  // CHECK: %[[V:.*]] = arith.addf %[[U]], %[[B]] : tensor<2x3x6xbf16>
  // CHECK: %[[A:.*]] = heddle.gelu "act" %[[V]] approximate(tanh) : tensor<2x3x6xbf16>
  // CHECK: %[[HALF:.*]] = arith.constant dense<5.000000e-01> : tensor<2x3x6xbf16>
  // CHECK: %[[S:.*]] = arith.mulf %[[A]], %[[HALF]] : tensor<2x3x6xbf16>
  %bias = heddle.load @fc.bias : tensor<6xf32>
  %b = heddle.broadcast %bias along [2] : tensor<6xf32> -> tensor<2x3x6xf32>
  %v = arith.addf %u, %b : tensor<2x3x6xf32>
  %a = heddle.gelu "act" %v approximate(tanh) : tensor<2x3x6xf32>
  %half = arith.constant dense<0.5> : tensor<2x3x6xf32>
  %s = arith.mulf %a, %half : tensor<2x3x6xf32>
  // The sum with the residual stream is f32.
  // CHECK: %[[P:.*]] = heddle.contract "proj" {{.*}} -> tensor<2x3x4xbf16>
  // CHECK: %[[PW:.*]] = arith.extf %[[P]]
  // CHECK: %[[Y:.*]] = arith.addf %[[X]], %[[PW]] : tensor<2x3x4xf32>
  %w2 = heddle.load @proj.weight : tensor<6x4xf32>
  %p = heddle.contract "proj" [bsf, fh -> bsh] %s, %w2
    : (tensor<2x3x6xf32>, tensor<6x4xf32>) -> tensor<2x3x4xf32>
  %y = arith.addf %x, %p : tensor<2x3x4xf32>
  // Cross-entropy reads bf16; the returned logits are f32.
  // CHECK: %[[L:.*]] = heddle.contract "lm_head" {{.*}} -> tensor<2x3x10xbf16>
  // CHECK: heddle.cross_entropy "loss" %[[L]], {{.*}} : tensor<2x3x10xbf16>, tensor<2x3xi32> -> tensor<2x3xf32>, tensor<2x3xf32>
  // CHECK: %[[LW:.*]] = arith.extf %[[L]]
  // CHECK: return %{{.*}}, %{{.*}}, %[[LW]]
  %logits = heddle.contract "lm_head" [bsh, vh -> bsv] %y, %table
    : (tensor<2x3x4xf32>, tensor<10x4xf32>) -> tensor<2x3x10xf32>
  %losses, %lse = heddle.cross_entropy "loss" %logits, %targets
    : tensor<2x3x10xf32>, tensor<2x3xi32> -> tensor<2x3xf32>, tensor<2x3xf32>
  %sum = heddle.reduce sum %losses over [0, 1] : tensor<2x3xf32> -> tensor<f32>
  %count = arith.constant dense<6.0> : tensor<f32>
  return %sum, %count, %logits : tensor<f32>, tensor<f32>, tensor<2x3x10xf32>
}

// Gradients of weights and biases are f32 without a cast.
// STEP-LABEL: func.func @step
// STEP: heddle.contract "lm_head" pass(wgrad) {{.*}} : (tensor<2x3x4xbf16>, tensor<2x3x10xbf16>) -> tensor<10x4xf32>
// STEP: heddle.contract "proj" pass(dgrad) {{.*}} -> tensor<2x3x6xbf16>
// STEP: heddle.reduce sum %{{.*}} over [0, 1] : tensor<2x3x6xbf16> -> tensor<6xf32>
// STEP: heddle.contract "fc" pass(wgrad) {{.*}} -> tensor<4x6xf32>

// -----

// Attention and rotary embedding are bf16; their tables and lse are f32.
heddle.variable @q.weight : tensor<4x2x2xf32> parameter init(normal<0.02>)

// CHECK-LABEL: func.func @forward
func.func @forward(
    %x: tensor<1x3x4xf32> {heddle.role = #heddle.port_role<features>},
    %targets: tensor<1x3xi32> {heddle.role = #heddle.port_role<labels>})
    -> (tensor<f32> {heddle.role = #heddle.port_role<loss_sum>},
        tensor<f32> {heddle.role = #heddle.port_role<label_count>},
        tensor<1x3x2x2xf32> {heddle.role = #heddle.port_role<output>}) {
  %w = heddle.load @q.weight : tensor<4x2x2xf32>
  %q = heddle.contract "q" [bsh, hnd -> bsnd] %x, %w
    : (tensor<1x3x4xf32>, tensor<4x2x2xf32>) -> tensor<1x3x2x2xf32>
  %cos, %sin = heddle.rotary_table frequencies([1.0])
    : tensor<3x1xf32>, tensor<3x1xf32>
  // CHECK: heddle.rotary %{{.*}}, %{{.*}}, %{{.*}} : tensor<1x3x2x2xbf16>, tensor<3x1xf32>, tensor<3x1xf32> -> tensor<1x3x2x2xbf16>
  %r = heddle.rotary %q, %cos, %sin : tensor<1x3x2x2xf32>, tensor<3x1xf32>,
    tensor<3x1xf32> -> tensor<1x3x2x2xf32>
  // CHECK: heddle.attention "a" {{.*}} -> tensor<1x3x2x2xbf16>, tensor<1x3x2xf32>
  %o, %lse = heddle.attention "a" %r, %q, %q causal scale(0.5)
    : tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>
    -> tensor<1x3x2x2xf32>, tensor<1x3x2xf32>
  // Upstream math computes in f32.
  // CHECK: math.exp %{{.*}} : tensor<1x3x2x2xf32>
  %e = math.exp %o : tensor<1x3x2x2xf32>
  %sum = heddle.reduce sum %e over [0, 1, 2, 3]
    : tensor<1x3x2x2xf32> -> tensor<f32>
  %count = arith.constant dense<3.0> : tensor<f32>
  return %sum, %count, %e : tensor<f32>, tensor<f32>, tensor<1x3x2x2xf32>
}

// -----

// A mask that is added stays f32, and is f32 again if it comes from a product.
heddle.variable @q.weight : tensor<4x2x2xf32> parameter init(normal<0.02>)

// CHECK-LABEL: func.func @forward
// CHECK-SAME: %{{.*}}: tensor<1x3x4xf32> {{{.*}}}, %[[MASK:.*]]: tensor<1x3x2x3xf32>
func.func @forward(
    %x: tensor<1x3x4xf32> {heddle.role = #heddle.port_role<features>},
    %mask: tensor<1x3x2x3xf32> {heddle.role = #heddle.port_role<features>},
    %mix: tensor<3x3xf32> {heddle.role = #heddle.port_role<features>},
    %targets: tensor<1x3xi32> {heddle.role = #heddle.port_role<labels>})
    -> (tensor<f32> {heddle.role = #heddle.port_role<loss_sum>},
        tensor<f32> {heddle.role = #heddle.port_role<label_count>}) {
  %w = heddle.load @q.weight : tensor<4x2x2xf32>
  %q = heddle.contract "q" [bsh, hnd -> bsnd] %x, %w
    : (tensor<1x3x4xf32>, tensor<4x2x2xf32>) -> tensor<1x3x2x2xf32>
  // CHECK: heddle.attention "a" {{.*}} mask(%[[MASK]] : tensor<1x3x2x3xf32>) : tensor<1x3x2x2xbf16>
  %o, %lse = heddle.attention "a" %q, %q, %q scale(0.5)
    mask(%mask : tensor<1x3x2x3xf32>)
    : tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>
    -> tensor<1x3x2x2xf32>, tensor<1x3x2xf32>
  // CHECK: %[[SCORES:.*]] = heddle.contract "scores" {{.*}} -> tensor<1x3x2x3xbf16>
  // CHECK: %[[WIDE:.*]] = arith.extf %[[SCORES]]
  // CHECK: heddle.attention "b" {{.*}} mask(%[[WIDE]] : tensor<1x3x2x3xf32>)
  %scores = heddle.contract "scores" [bsnt, tu -> bsnu] %mask, %mix
    : (tensor<1x3x2x3xf32>, tensor<3x3xf32>) -> tensor<1x3x2x3xf32>
  %p, %lse2 = heddle.attention "b" %q, %q, %o scale(0.5)
    mask(%scores : tensor<1x3x2x3xf32>)
    : tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>
    -> tensor<1x3x2x2xf32>, tensor<1x3x2xf32>
  %sum = heddle.reduce sum %p over [0, 1, 2, 3]
    : tensor<1x3x2x2xf32> -> tensor<f32>
  %count = arith.constant dense<3.0> : tensor<f32>
  return %sum, %count : tensor<f32>, tensor<f32>
}
