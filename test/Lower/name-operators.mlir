// RUN: heddle-opt %s --split-input-file --heddle-name-operators --heddle-fuse-epilogues --heddle-decompose-ops --heddle-form-kernels | FileCheck %s

// A layer forward and backward over tp; its weight is gathered from ZeRO-3's
// storage. A collective has the name of the op that made its operand, and the
// kind of the tensor that it moves.
heddle.mesh @mesh <["dp"=2, "tp"=2]>
heddle.variable @fc.weight : tensor<64x64xf32> parameter init(zeros) storage(<@mesh, [{"dp"}, {"tp"} ]>)
heddle.variable @m.fc.weight : tensor<64x64xf32> optimizer_state init(zeros) storage(<@mesh, [{"dp"}, {"tp"} ]>)
heddle.variable @steps : tensor<i64> counter init(zeros)
// CHECK-LABEL: func.func @layer
func.func @layer(%x: tensor<256x64xf32>, %dy: tensor<256x32xf32>) -> (tensor<256x32xf32>, tensor<256x64xf32>, tensor<f32>) {
  %p = heddle.load @fc.weight : tensor<32x32xf32>
  // The cast and the gather have the parameter's name.
  // CHECK: call @kernel_{{.*}} {heddle.serves = #heddle.serves<parameter ["fc.weight"]>}
  %q = arith.truncf %p : tensor<32x32xf32> to tensor<32x32xbf16>
  // CHECK: comm.all_gather {{.*}} {heddle.serves = #heddle.serves<parameter ["fc.weight"]>}
  %g = comm.all_gather %q dim 0 over @mesh <{"dp"}> : tensor<32x32xbf16> -> tensor<64x32xbf16>
  // CHECK: call @kernel_{{.*}} {heddle.serves = #heddle.serves<parameter ["fc.weight"]>}
  %w = arith.extf %g : tensor<64x32xbf16> to tensor<64x32xf32>
  // CHECK: heddle.contract "fc" {{.*}} {heddle.serves = #heddle.serves<activation ["fc"]>}
  %h = heddle.contract "fc" [bi, io -> bo] %x, %w : (tensor<256x64xf32>, tensor<64x32xf32>) -> tensor<256x32xf32>
  // CHECK: comm.all_reduce {{.*}} {heddle.serves = #heddle.serves<activation ["fc"]>}
  %r = comm.all_reduce sum %h over @mesh <{"tp"}> : tensor<256x32xf32>
  // A kernel has the names of all ops that are merged into it, in their order.
  // CHECK: call @kernel_{{.*}} {heddle.serves = #heddle.serves<activation ["gelu", "residual"]>}
  %a = heddle.gelu "gelu" %r approximate(tanh) : tensor<256x32xf32>
  %y = arith.addf %a, %h {heddle.name = "residual"} : tensor<256x32xf32>

  // Backward: the gradient of an activation has the kind of an activation, and
  // the gradient of a weight the kind of a gradient until it is applied.
  // CHECK: heddle.contract "fc" pass(dgrad) {{.*}} {heddle.serves = #heddle.serves<activation ["fc"]>}
  %dx = heddle.contract "fc" pass(dgrad) [bo, io -> bi] %dy, %w : (tensor<256x32xf32>, tensor<64x32xf32>) -> tensor<256x64xf32>
  // CHECK: comm.all_reduce {{.*}} {heddle.serves = #heddle.serves<activation ["fc"]>}
  %dxr = comm.all_reduce sum %dx over @mesh <{"tp"}> : tensor<256x64xf32>
  // CHECK: heddle.contract "fc" pass(wgrad) {{.*}} {heddle.serves = #heddle.serves<gradient ["fc"]>}
  %dw = heddle.contract "fc" pass(wgrad) [bi, bo -> io] %x, %dy : (tensor<256x64xf32>, tensor<256x32xf32>) -> tensor<64x32xf32>
  // CHECK: comm.reduce_scatter {{.*}} {heddle.serves = #heddle.serves<gradient ["fc"]>}
  %ds = comm.reduce_scatter sum %dw dim 0 over @mesh <{"dp"}> : tensor<64x32xf32> -> tensor<32x32xf32>

  // The norm of the gradients is a gradient, the step count is state, and the
  // update writes the parameter and its state. Scalars give it no name.
  %s2 = arith.mulf %ds, %ds : tensor<32x32xf32>
  // CHECK: call @kernel_{{.*}} {heddle.serves = #heddle.serves<gradient ["fc"]>}
  %n = heddle.reduce sum %s2 over [0, 1] : tensor<32x32xf32> -> tensor<f32>
  // CHECK: comm.all_reduce {{.*}} {heddle.serves = #heddle.serves<gradient ["fc"]>}
  %norm = comm.all_reduce sum %n over @mesh <{"dp", "tp"}> : tensor<f32>
  %t = heddle.load @steps : tensor<i64>
  %one = arith.constant dense<1> : tensor<i64>
  // CHECK: call @kernel_{{.*}} {heddle.serves = #heddle.serves<state ["steps"]>}
  %t1 = arith.addi %t, %one : tensor<i64>
  heddle.store %t1, @steps : tensor<i64>
  %clip = heddle.broadcast %norm along [] : tensor<f32> -> tensor<32x32xf32>
  %m = heddle.load @m.fc.weight : tensor<32x32xf32>
  %dc = arith.mulf %ds, %clip : tensor<32x32xf32>
  %m1 = arith.addf %m, %dc : tensor<32x32xf32>
  // CHECK: call @kernel_{{.*}} {heddle.serves = #heddle.serves<parameter ["fc", "m.fc.weight", "fc.weight"]>}
  %p1 = arith.subf %p, %m1 : tensor<32x32xf32>
  heddle.store %m1, @m.fc.weight : tensor<32x32xf32>
  heddle.store %p1, @fc.weight : tensor<32x32xf32>
  return %y, %dxr, %norm : tensor<256x32xf32>, tensor<256x64xf32>, tensor<f32>
}

// -----

// A combined all-reduce has the names of all its parts. So have the steps of an
// all-reduce that was decomposed.
heddle.mesh @mesh <["dp"=2, "tp"=2]>
// CHECK-LABEL: func.func @combined
func.func @combined(%x: tensor<64x8xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  // CHECK: heddle.contract "a"
  %a = heddle.contract "a" [bi, bi -> b] %x, %x : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<64xf32>
  %b = heddle.contract "b" [bi, bi -> b] %x, %x : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<64xf32>
  %s = heddle.stack %a, %b : tensor<64xf32>, tensor<64xf32> -> tensor<2x64xf32>
  %f = tensor.collapse_shape %s [[0, 1]] : tensor<2x64xf32> into tensor<128xf32>
  // CHECK: comm.reduce_scatter {{.*}} {heddle.serves = #heddle.serves<activation ["a", "b"]>}
  // CHECK: comm.all_reduce {{.*}} {heddle.serves = #heddle.serves<activation ["a", "b"]>}
  // CHECK: comm.all_gather {{.*}} {heddle.serves = #heddle.serves<activation ["a", "b"]>}
  %p = comm.reduce_scatter sum %f dim 0 over @mesh <{"tp"}> : tensor<128xf32> -> tensor<64xf32>
  %q = comm.all_reduce sum %p over @mesh <{"dp"}> : tensor<64xf32>
  %r = comm.all_gather %q dim 0 over @mesh <{"tp"}> : tensor<64xf32> -> tensor<128xf32>
  %e = tensor.expand_shape %r [[0, 1]] output_shape [2, 64] : tensor<128xf32> into tensor<2x64xf32>
  %u:2 = heddle.unstack %e : tensor<2x64xf32> -> tensor<64xf32>, tensor<64xf32>
  return %u#0, %u#1 : tensor<64xf32>, tensor<64xf32>
}

// -----

// The gradient of a table that is used twice: the product's gradient
// accumulates the gradients of rows. The accumulating op has the name of the
// rows' op.
heddle.mesh @mesh <["dp"=2]>
heddle.variable @wte : tensor<16x8xf32> parameter init(zeros)
// CHECK-LABEL: func.func @tied
func.func @tied(%ids: tensor<4xi32>, %x: tensor<4x8xf32>, %dy: tensor<4x16xf32>) {
  %p = heddle.load @wte : tensor<16x8xf32>
  // CHECK: heddle.contract "head" {{.*}} {heddle.serves = #heddle.serves<gradient ["head"]>}
  %dw = heddle.contract "head" pass(wgrad) [sv, sh -> vh] %dy, %x : (tensor<4x16xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
  // CHECK: heddle.contract "head" {{.*}} {heddle.serves = #heddle.serves<activation ["head"]>}
  %dx = heddle.contract "head" pass(dgrad) [sv, vh -> sh] %dy, %p : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  // CHECK: comm.all_reduce {{.*}} {heddle.serves = #heddle.serves<activation ["head"]>}
  %r = comm.all_reduce sum %dx over @mesh <{"dp"}> : tensor<4x8xf32>
  // CHECK: heddle.embedding_grad {{.*}} {heddle.serves = #heddle.serves<gradient ["wte"]>}
  %g = heddle.embedding_grad "wte" %ids, %r accumulate(%dw : tensor<16x8xf32>) : tensor<4xi32>, tensor<4x8xf32> -> tensor<16x8xf32>
  %n = arith.subf %p, %g : tensor<16x8xf32>
  heddle.store %n, @wte : tensor<16x8xf32>
  return
}

// -----

// Bias and product become one op with both names.
// CHECK-LABEL: func.func @bias
func.func @bias(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %b: tensor<6xf32>) -> tensor<4x6xf32> {
  // CHECK: heddle.contract "fc" {{.*}} {heddle.serves = #heddle.serves<activation ["fc", "fc.bias"]>}
  %y = heddle.contract "fc" [sh, ho -> so] %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %c = heddle.broadcast %b along [1] : tensor<6xf32> -> tensor<4x6xf32>
  %z = arith.addf %y, %c {heddle.name = "fc.bias"} : tensor<4x6xf32>
  return %z : tensor<4x6xf32>
}

// -----

// The slices of a stack have the names of the ops that they are computed for.
heddle.mesh @mesh <["tp"=2]>
heddle.variable @a.bias : tensor<64xf32> parameter init(zeros)
heddle.variable @b.bias : tensor<64xf32> parameter init(zeros)
// CHECK-LABEL: func.func @slices
func.func @slices(%x: tensor<4x64xf32>) {
  %a = heddle.reduce "a" sum %x over [0] : tensor<4x64xf32> -> tensor<64xf32>
  %b = heddle.reduce "b" max %x over [0] : tensor<4x64xf32> -> tensor<64xf32>
  %s = heddle.stack %a, %b : tensor<64xf32>, tensor<64xf32> -> tensor<2x64xf32>
  // CHECK: comm.all_reduce {{.*}} {heddle.serves = #heddle.serves<gradient ["a", "b"]>}
  %r = comm.all_reduce sum %s over @mesh <{"tp"}> : tensor<2x64xf32>
  %u:2 = heddle.unstack %r : tensor<2x64xf32> -> tensor<64xf32>, tensor<64xf32>
  // CHECK: call @kernel_{{.*}} {heddle.serves = #heddle.serves<gradient ["a"]>}
  %c = arith.negf %u#0 : tensor<64xf32>
  heddle.store %c, @a.bias : tensor<64xf32>
  // CHECK: call @kernel_{{.*}} {heddle.serves = #heddle.serves<gradient ["b"]>}
  %d = math.exp %u#1 : tensor<64xf32>
  heddle.store %d, @b.bias : tensor<64xf32>
  return
}

// -----

// So have the parts of a bucket that was scattered, as rows of both members.
heddle.mesh @mesh <["tp"=2]>
heddle.variable @a.bias : tensor<32xf32> parameter init(zeros)
heddle.variable @b.bias : tensor<64xf32> parameter init(zeros)
// CHECK-LABEL: func.func @parts
func.func @parts(%x: tensor<4x64xf32>, %y: tensor<4x128xf32>) {
  %a = heddle.reduce "a" sum %x over [0] : tensor<4x64xf32> -> tensor<64xf32>
  %b = heddle.reduce "b" max %y over [0] : tensor<4x128xf32> -> tensor<128xf32>
  %ra = tensor.expand_shape %a [[0, 1]] output_shape [2, 32] : tensor<64xf32> into tensor<2x32xf32>
  %rb = tensor.expand_shape %b [[0, 1]] output_shape [2, 64] : tensor<128xf32> into tensor<2x64xf32>
  %j = tensor.concat dim(1) %ra, %rb : (tensor<2x32xf32>, tensor<2x64xf32>) -> tensor<2x96xf32>
  %f = tensor.collapse_shape %j [[0, 1]] : tensor<2x96xf32> into tensor<192xf32>
  // CHECK: comm.reduce_scatter {{.*}} {heddle.serves = #heddle.serves<gradient ["a", "b"]>}
  %r = comm.reduce_scatter sum %f dim 0 over @mesh <{"tp"}> : tensor<192xf32> -> tensor<96xf32>
  %pa = tensor.extract_slice %r[0] [32] [1] : tensor<96xf32> to tensor<32xf32>
  %pb = tensor.extract_slice %r[32] [64] [1] : tensor<96xf32> to tensor<64xf32>
  // CHECK: call @kernel_{{.*}} {heddle.serves = #heddle.serves<gradient ["a"]>}
  %c = arith.negf %pa : tensor<32xf32>
  heddle.store %c, @a.bias : tensor<32xf32>
  // CHECK: call @kernel_{{.*}} {heddle.serves = #heddle.serves<gradient ["b"]>}
  %d = math.exp %pb : tensor<64xf32>
  heddle.store %d, @b.bias : tensor<64xf32>
  return
}

// -----

// A program without names. A collective or view has its operand's name. An op
// that combines values has its result's name, its location's or its own.
heddle.mesh @mesh <["x"=2]>
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<32x64xf32> {heddle.name = "tokens"}, %b: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>) {
  // CHECK: comm.all_gather {{.*}} {heddle.serves = #heddle.serves<activation ["tokens"]>}
  %g = comm.all_gather %a dim 0 over @mesh <{"x"}> : tensor<32x64xf32> -> tensor<64x64xf32>
  // CHECK: comm.all_reduce {{.*}} {heddle.serves = #heddle.serves<activation ["main.argument1"]>}
  %r = comm.all_reduce sum %b over @mesh <{"x"}> : tensor<64x64xf32>
  // CHECK: call @kernel_{{.*}} {heddle.serves = #heddle.serves<activation ["main.arith.divf.0"]>}
  %c = arith.divf %r, %b : tensor<64x64xf32>
  // CHECK: comm.all_reduce {{.*}} {heddle.serves = #heddle.serves<activation ["main.arith.divf.0"]>}
  %s = comm.all_reduce sum %c over @mesh <{"x"}> : tensor<64x64xf32>
  // CHECK: call @kernel_{{.*}} {heddle.serves = #heddle.serves<activation ["jit/power"]>}
  %d = math.powf %r, %s : tensor<64x64xf32> loc("jit/power")
  // CHECK: comm.start {heddle.serves = #heddle.serves<activation ["jit/power"]>}
  // CHECK-NEXT: comm.all_reduce {{.*}} {heddle.serves = #heddle.serves<activation ["jit/power"]>}
  %t = comm.start : !comm.token<tensor<64x64xf32>> {
    %i = comm.all_reduce sum %d over @mesh <{"x"}> : tensor<64x64xf32>
    comm.yield %i : tensor<64x64xf32>
  }
  %w = comm.wait %t : !comm.token<tensor<64x64xf32>>
  return %g, %s, %w : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>
}
