// RUN: heddle-opt %s --split-input-file --heddle-plan-arenas | FileCheck %s

func.func private @add(tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> attributes {heddle.kernel, heddle.inplace = [array<i64: 0, 1>]}
func.func private @adamw(tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) attributes {heddle.kernel, heddle.inplace = [array<i64: 0>, array<i64: 1>]}
func.func private @sum(tensor<4x8xf32>) -> tensor<f32> attributes {heddle.kernel}
heddle.variable @w : tensor<8x8xf32> parameter init(zeros)
heddle.variable @m : tensor<8x8xf32> optimizer_state init(zeros)

// The parameter and its state are updated in place. The loss is computed
// straight into the result. A kernel adds in place.
// CHECK-LABEL: func.func @update_in_place
// CHECK-SAME: rt.arena = 384 : i64, rt.arena_bound = 384 : i64
func.func @update_in_place(%x: tensor<4x8xf32>) -> tensor<f32> {
  // CHECK: heddle.load @w {{.*}}rt.places = [#rt.buffer<variable @w[0 : 8x8xf32]>]
  %w = heddle.load @w : tensor<8x8xf32>
  %m = heddle.load @m : tensor<8x8xf32>
  // CHECK: heddle.contract {{.*}}rt.places = [#rt.buffer<arena[[P:\[[0-9]+ : 4x8xf32\]]]>]
  %h = heddle.contract [bh, hf -> bf] %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  // CHECK: call @add{{.*}}rt.places = [#rt.buffer<arena[[P]]>]
  %y = func.call @add(%x, %h) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: call @sum{{.*}}rt.places = [#rt.buffer<result 0[0 : f32]>]
  %loss = func.call @sum(%y) : (tensor<4x8xf32>) -> tensor<f32>
  %dw = heddle.contract pass(wgrad) [bh, bf -> hf] %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  // CHECK: call @adamw{{.*}}rt.places = [#rt.buffer<variable @w[0 : 8x8xf32]>, #rt.buffer<variable @m[0 : 8x8xf32]>]
  %w2, %m2 = func.call @adamw(%w, %m, %dw) : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
  heddle.store %w2, @w : tensor<8x8xf32>
  heddle.store %m2, @m : tensor<8x8xf32>
  return %loss : tensor<f32>
}

// -----

func.func private @scale(tensor<8x8xf32>) -> tensor<8x8xf32> attributes {heddle.kernel, heddle.inplace = [array<i64: 0>]}
heddle.variable @w : tensor<8x8xf32> parameter init(zeros)

// The old value is read after the new one is computed, so it is not
// overwritten.
// CHECK-LABEL: func.func @read_after_update
func.func @read_after_update(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK: heddle.load @w {{.*}}variable @w
  %w = heddle.load @w : tensor<8x8xf32>
  // CHECK: call @scale{{.*}}rt.places = [#rt.buffer<arena[
  %w2 = func.call @scale(%w) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %h = heddle.contract [bh, hf -> bf] %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  heddle.store %w2, @w : tensor<8x8xf32>
  return %h : tensor<4x8xf32>
}

// The old value is read after the store, so it is copied.
// CHECK-LABEL: func.func @read_after_store
func.func @read_after_store(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK: heddle.load @w {{.*}}rt.places = [#rt.buffer<arena[
  %w = heddle.load @w : tensor<8x8xf32>
  // CHECK: call @scale{{.*}}rt.places = [#rt.buffer<variable @w
  %w2 = func.call @scale(%w) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  heddle.store %w2, @w : tensor<8x8xf32>
  // CHECK: heddle.contract
  %h = heddle.contract [bh, hf -> bf] %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %h : tensor<4x8xf32>
}

// A variable that is not stored keeps its value.
// CHECK-LABEL: func.func @never_stored
func.func @never_stored() -> tensor<8x8xf32> {
  %w = heddle.load @w : tensor<8x8xf32>
  // CHECK: call @scale{{.*}}rt.places = [#rt.buffer<result 0
  %w2 = func.call @scale(%w) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %w2 : tensor<8x8xf32>
}

// The buffers of arguments belong to the caller.
// CHECK-LABEL: func.func @arguments
func.func @arguments(%w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // CHECK: call @scale{{.*}}rt.places = [#rt.buffer<arena[0
  %w2 = func.call @scale(%w) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: call @scale{{.*}}rt.places = [#rt.buffer<arena[0
  %w3 = func.call @scale(%w2) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %w4 = heddle.contract [ij, jk -> ik] %w3, %w3 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %w4 : tensor<8x8xf32>
}

// -----

func.func private @split(tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) attributes {heddle.kernel}
func.func private @two(tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> attributes {heddle.kernel, heddle.inplace = [array<i64: 0>]}

// The slices of a stack are computed in it, and read where they lie.
// CHECK-LABEL: func.func @stack
func.func @stack(%x: tensor<8xf32>) -> tensor<3x8xf32> {
  // CHECK: call @split{{.*}}rt.places = [#rt.buffer<result 0[0 : 8xf32]>, #rt.buffer<result 0[32 : 8xf32]>, #rt.buffer<result 0[64 : 8xf32]>]
  %a, %b, %c = func.call @split(%x) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  // CHECK: heddle.stack {{.*}}rt.places = [#rt.buffer<result 0[0 : 3x8xf32]>]
  %s = heddle.stack %a, %b, %c : tensor<8xf32>, tensor<8xf32>, tensor<8xf32> -> tensor<3x8xf32>
  return %s : tensor<3x8xf32>
}

// A slice that is in the stack twice is copied once.
// CHECK-LABEL: func.func @stack_twice
func.func @stack_twice(%x: tensor<8xf32>) -> tensor<2x8xf32> {
  // CHECK: call @split{{.*}}rt.places = [#rt.buffer<result 0[0 : 8xf32]>
  %a, %b, %c = func.call @split(%x) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  %s = heddle.stack %a, %a : tensor<8xf32>, tensor<8xf32> -> tensor<2x8xf32>
  return %s : tensor<2x8xf32>
}

// Views lie in their operand's buffer. An op whose other operand is a view of
// the same buffer does not work in place.
// CHECK-LABEL: func.func @views
func.func @views(%x: tensor<8xf32>) -> tensor<f32> {
  %a, %b, %c = func.call @split(%x) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  %s = heddle.stack %a, %b : tensor<8xf32>, tensor<8xf32> -> tensor<2x8xf32>
  // CHECK: heddle.unstack {{.*}}rt.places = [#rt.buffer<arena[[P:\[[0-9]+ : 8xf32\]]]>, #rt.buffer<arena
  %p, %q = heddle.unstack %s : tensor<2x8xf32> -> tensor<8xf32>, tensor<8xf32>
  %r = tensor.extract_slice %s[0, 0] [1, 8] [1, 1] : tensor<2x8xf32> to tensor<8xf32>
  // CHECK: call @two
  // CHECK-NOT: rt.buffer<arena[[P]]>
  %t = func.call @two(%p, %r) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %u = heddle.contract [i, i -> ] %t, %q : (tensor<8xf32>, tensor<8xf32>) -> tensor<f32>
  return %u : tensor<f32>
}

// -----

heddle.mesh @mesh <["tp"=2]>

// The buffer of a collective in flight, which works in place, stays untouched
// until the wait.
// CHECK-LABEL: func.func @in_flight
// CHECK-SAME: rt.arena = 320
func.func @in_flight(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = arith.constant dense<1.0> : tensor<8x8xf32>
  // CHECK: arith.constant {rt.places = [#rt.buffer<constant @constant_0[0 : 8x8xf32]>]}
  %h = heddle.contract [bh, hf -> bf] %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %t = comm.start : !comm.token<tensor<4x8xf32>> {
    %s = comm.all_reduce sum %h over @mesh <{"tp"}> : tensor<4x8xf32>
    comm.yield %s : tensor<4x8xf32>
  }
  %g = heddle.contract [bh, hf -> bf] %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %y = comm.wait %t : !comm.token<tensor<4x8xf32>>
  %z = heddle.contract [ih, jh -> ij] %y, %g : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
  %k = heddle.contract [ij, jh -> ih] %z, %y : (tensor<4x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %k : tensor<4x8xf32>
}

// -----

// A collective in flight works in place if no other op reads its operand between
// start and wait.
// CHECK-LABEL: func.func @in_place
heddle.mesh @mesh <["dp"=2, "tp"=2]>
func.func private @make(tensor<8xf32>) -> tensor<8xf32> attributes {heddle.kernel}
func.func private @merge(tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> attributes {heddle.kernel}
func.func @in_place(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: call @make(%{{.*}}) {rt.places = [#rt.buffer<arena[[A:\[[0-9]+ : 8xf32\]]]>]}
  %a = func.call @make(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // Read again, but before the start.
  // CHECK: call @make(%{{.*}}) {rt.places = [#rt.buffer<arena[[B:\[[0-9]+ : 8xf32\]]]>]}
  %b = func.call @make(%a) : (tensor<8xf32>) -> tensor<8xf32>
  %t = comm.start : !comm.token<tensor<8xf32>> {
    %s = comm.all_reduce sum %a over @mesh <{"tp"}> : tensor<8xf32>
    comm.yield %s : tensor<8xf32>
  }
  %u = comm.start stream(2) : !comm.token<tensor<8xf32>> {
    %s = comm.all_reduce sum %b over @mesh <{"dp"}> : tensor<8xf32>
    comm.yield %s : tensor<8xf32>
  }
  // CHECK: call @make(%{{.*}}) {rt.places = [#rt.buffer<arena[[C:\[[0-9]+ : 8xf32\]]]>]}
  %c = func.call @make(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // Read between start and wait.
  // CHECK: call @make(%{{.*}}) {rt.places = [#rt.buffer<arena[[D:\[[0-9]+ : 8xf32\]]]>]}
  %d = func.call @make(%b) : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK: comm.wait {{.*}} {rt.places = [#rt.buffer<arena[[A]]>]}
  %y = comm.wait %t : !comm.token<tensor<8xf32>>
  // CHECK: comm.wait
  // CHECK-NOT: arena[[B]]
  // CHECK: call @merge
  %z = comm.wait %u : !comm.token<tensor<8xf32>>
  %e = func.call @merge(%y, %z) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %f = func.call @merge(%c, %d) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %g = func.call @merge(%e, %f) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %g : tensor<8xf32>
}

// -----

// A collective in flight writes straight to the variable that its result is
// stored to only if no op reads the variable between start and wait. A result
// without readers keeps its memory until the wait.
heddle.mesh @mesh <["tp"=2]>
heddle.variable @w : tensor<8xf32> parameter init(zeros)
func.func private @make(tensor<8xf32>) -> tensor<8xf32> attributes {heddle.kernel}
// CHECK-LABEL: func.func @straight_into_the_variable
func.func @straight_into_the_variable() {
  // CHECK: heddle.load {{.*}}rt.places = [#rt.buffer<variable @w[0 : 8xf32]>]
  %w = heddle.load @w : tensor<8xf32>
  %a = func.call @make(%w) : (tensor<8xf32>) -> tensor<8xf32>
  %t = comm.start : !comm.token<tensor<8xf32>> {
    %s = comm.all_reduce sum %a over @mesh <{"tp"}> : tensor<8xf32>
    comm.yield %s : tensor<8xf32>
  }
  // CHECK: comm.wait {{.*}}rt.places = [#rt.buffer<variable @w[0 : 8xf32]>]
  %y = comm.wait %t : !comm.token<tensor<8xf32>>
  heddle.store %y, @w : tensor<8xf32>
  return
}
// CHECK-LABEL: func.func @copied_to_the_variable
func.func @copied_to_the_variable() -> tensor<8xf32> {
  // CHECK: heddle.load {{.*}}rt.places = [#rt.buffer<variable @w[0 : 8xf32]>]
  %w = heddle.load @w : tensor<8xf32>
  %a = func.call @make(%w) : (tensor<8xf32>) -> tensor<8xf32>
  %t = comm.start : !comm.token<tensor<8xf32>> {
    %s = comm.all_reduce sum %a over @mesh <{"tp"}> : tensor<8xf32>
    comm.yield %s : tensor<8xf32>
  }
  %b = func.call @make(%w) : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK: comm.wait {{.*}}rt.places = [#rt.buffer<arena
  %y = comm.wait %t : !comm.token<tensor<8xf32>>
  heddle.store %y, @w : tensor<8xf32>
  return %b : tensor<8xf32>
}
// CHECK-LABEL: func.func @unread
// CHECK-SAME: rt.arena = 128
func.func @unread(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: comm.start
  %t = comm.start : !comm.token<tensor<8xf32>> {
    %s = comm.all_reduce sum %x over @mesh <{"tp"}> : tensor<8xf32>
    comm.yield %s : tensor<8xf32>
  }
  %a = func.call @make(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %b = func.call @make(%a) : (tensor<8xf32>) -> tensor<8xf32>
  %y = comm.wait %t : !comm.token<tensor<8xf32>>
  return %b : tensor<8xf32>
}

// -----

// Functions that a loop calls are planned before it, wherever they stand: their
// tensors lie in its workspace. The loop reuses the memory of values that die
// there.
// CHECK-LABEL: func.func @loop
// CHECK-SAME: rt.arena = [[ARENA:[0-9]+]]
func.func private @step(tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32> attributes {heddle.kernel}
func.func private @decide(tensor<32xf32>) -> (tensor<i1>, tensor<32xf32>) attributes {heddle.kernel}
func.func @loop(%x: tensor<32xf32>) -> tensor<32xf32> {
  // CHECK: call @step{{.*}}rt.places = [#rt.buffer<arena[[A:\[[0-9]+ : 32xf32\]]]>]
  %a = func.call @step(%x, %x) : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  // CHECK: call @step{{.*}}rt.places = [#rt.buffer<arena[[B:\[[0-9]+ : 32xf32\]]]>]
  %b = func.call @step(%a, %x) : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  // CHECK: heddle.while {{.*}} workspace tensor<256xi8> {rt.places = [#rt.buffer<result 0[0 : 32xf32]>, #rt.buffer<arena[[A]]>, #rt.buffer<arena[{{[0-9]+}} : i1]>, #rt.buffer<arena[{{[0-9]+}} : 256xi8]>]
  %y, %h, %c, %w = heddle.while @before, @after init(%a : tensor<32xf32>) captured(%b : tensor<32xf32>)
    -> (tensor<32xf32>) carried(tensor<32xf32>) condition tensor<i1> workspace tensor<1xi8>
  return %y : tensor<32xf32>
}
// CHECK: func.func private @before
// CHECK-SAME: rt.arena = 0
func.func private @before(%x: tensor<32xf32>, %b: tensor<32xf32>) -> (tensor<i1>, tensor<32xf32>) {
  %c, %y = func.call @decide(%x) : (tensor<32xf32>) -> (tensor<i1>, tensor<32xf32>)
  return %c, %y : tensor<i1>, tensor<32xf32>
}
// CHECK: func.func private @after
// CHECK-SAME: rt.arena = 256
func.func private @after(%x: tensor<32xf32>, %b: tensor<32xf32>) -> tensor<32xf32> {
  %y = func.call @step(%x, %b) : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  %z = func.call @step(%y, %b) : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  %u = func.call @step(%y, %z) : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  return %u : tensor<32xf32>
}

// -----

// What is joined is computed in its part of the whole, and zeros have no place.
func.func private @make() -> tensor<5x2xf32> attributes {heddle.kernel}
heddle.mesh @mesh <["a"=2]>
// CHECK-LABEL: func.func @join
// CHECK-SAME: rt.arena = 64 : i64
func.func @join() -> tensor<3x2xf32> {
  // CHECK: call @make{{.*}}rt.places = [#rt.buffer<arena[0 : 5x2xf32]>]
  %x = func.call @make() : () -> tensor<5x2xf32>
  // CHECK-NEXT: arith.constant dense<0.000000e+00> : tensor<1x2xf32>
  %zeros = arith.constant dense<0.0> : tensor<1x2xf32>
  // CHECK-NEXT: tensor.concat {{.*}}rt.places = [#rt.buffer<arena[0 : 6x2xf32]>]
  %whole = tensor.concat dim(0) %x, %zeros : (tensor<5x2xf32>, tensor<1x2xf32>) -> tensor<6x2xf32>
  // CHECK-NEXT: comm.reduce_scatter
  %y = comm.reduce_scatter sum %whole dim 0 over @mesh <{"a"}> : tensor<6x2xf32> -> tensor<3x2xf32>
  return %y : tensor<3x2xf32>
}

// -----

func.func private @half(tensor<4x8xf32>) -> tensor<4x8xf32> attributes {heddle.kernel, heddle.inplace = [array<i64: 0>]}

// A barrier takes neither memory nor time.
// CHECK-LABEL: func.func @barrier
// CHECK-SAME: rt.arena = 0 : i64
// CHECK-NOT: heddle.barrier
// CHECK: call @half(%{{.*}}){{.*}}rt.places = [#rt.buffer<result 0[
// CHECK: call @half(%{{.*}}){{.*}}rt.places = [#rt.buffer<result 0[
func.func @barrier(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = func.call @half(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = heddle.barrier %0 after %x : tensor<4x8xf32> after tensor<4x8xf32>
  %2 = func.call @half(%1) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
