// RUN: heddle-opt %s --split-input-file --heddle-plan-arenas | FileCheck %s
// RUN: heddle-opt %s --split-input-file --heddle-plan-arenas --heddle-lower-to-rt | FileCheck %s --check-prefix=RT

// Equal kernels of a program for a GPU become batches.
module attributes {heddle.target_gpu = "sm_80"} {
func.func private @half(tensor<8xf32>) -> tensor<8xbf16> attributes {heddle.kernel, heddle.inplace = [array<i64>]}
func.func private @half2(tensor<2x4xf32>) -> tensor<2x4xbf16> attributes {heddle.kernel, heddle.inplace = [array<i64>]}
func.func private @adamw(tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> attributes {heddle.kernel, heddle.inplace = [array<i64: 0, 1>]}
func.func private @sum(tensor<8xf32>) -> tensor<f32> attributes {heddle.kernel, heddle.inplace = [array<i64>]}
func.func private @scale(tensor<8xf32>, tensor<f32>) -> tensor<8xf32> attributes {heddle.kernel, heddle.inplace = [array<i64: 0>]}
heddle.variable @a : tensor<8xf32> parameter init(zeros)
heddle.variable @b : tensor<8xf32> parameter init(zeros)
heddle.variable @huge : tensor<1024xf32> parameter init(zeros)
heddle.variable @big : tensor<64xf32> parameter init(zeros)

// Both updates run together, in their variables. The second sum needs the
// first update, so the first one waits for it.
// CHECK-LABEL: func.func @update
// RT-LABEL: rt.program @update
func.func @update(%da: tensor<8xf32>, %db: tensor<8xf32>) -> (tensor<f32>, tensor<f32>) {
  // CHECK: heddle.load @a
  %a = heddle.load @a : tensor<8xf32>
  %first = func.call @sum(%da) : (tensor<8xf32>) -> tensor<f32>
  // CHECK: heddle.load @b
  // CHECK-NEXT: call @adamw{{.*}}rt.batch = 0 : i64, rt.places = [#rt.buffer<variable @a
  // CHECK-NEXT: call @adamw{{.*}}rt.batch = 0 : i64, rt.places = [#rt.buffer<variable @b
  // RT: rt.launch @adamw (variable @a[0 : 8xf32], argument 0[0 : 8xf32]) -> (variable @a[0 : 8xf32]) {{.*}}{rt.batch = 0 : i64}
  // RT-NEXT: rt.launch @adamw (variable @b[0 : 8xf32], argument 1[0 : 8xf32]) -> (variable @b[0 : 8xf32]) {{.*}}{rt.batch = 0 : i64}
  %a2 = func.call @adamw(%a, %da) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  heddle.store %a2, @a : tensor<8xf32>
  // CHECK: call @sum{{.*}}rt.batch = 1
  // CHECK-NEXT: call @sum{{.*}}rt.batch = 1
  %second = func.call @sum(%a2) : (tensor<8xf32>) -> tensor<f32>
  %b = heddle.load @b : tensor<8xf32>
  %b2 = func.call @adamw(%b, %db) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  heddle.store %b2, @b : tensor<8xf32>
  return %first, %second : tensor<f32>, tensor<f32>
}

// Different kernels run together, too. A sum that is read before the next one
// does not wait for it.
// CHECK-LABEL: func.func @mixed
func.func @mixed(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xbf16>, tensor<f32>) {
  // CHECK: call @half{{.*}}rt.batch = 0
  // CHECK-NEXT: call @sum{{.*}}rt.batch = 0
  // CHECK-NEXT: call @scale
  // CHECK-NOT: rt.batch
  %0 = func.call @half(%x) : (tensor<8xf32>) -> tensor<8xbf16>
  %1 = func.call @sum(%y) : (tensor<8xf32>) -> tensor<f32>
  %2 = func.call @scale(%y, %1) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  // CHECK: call @sum
  // CHECK-NOT: rt.batch
  %3 = func.call @sum(%2) : (tensor<8xf32>) -> tensor<f32>
  return %0, %3 : tensor<8xbf16>, tensor<f32>
}

// The first call reads its variable through a view. It does not wait behind the
// variable's next value, or the old one would need memory of its own.
// CHECK-LABEL: func.func @view
func.func @view(%x: tensor<8xf32>, %y: tensor<8xf32>, %s: tensor<f32>) -> (tensor<2x4xbf16>, tensor<2x4xbf16>) {
  %huge = heddle.load @huge : tensor<1024xf32>
  %a = heddle.load @a : tensor<8xf32>
  %v = tensor.expand_shape %a [[0, 1]] output_shape [2, 4] : tensor<8xf32> into tensor<2x4xf32>
  // CHECK: call @half2
  // CHECK: heddle.store
  %0 = func.call @half2(%v) : (tensor<2x4xf32>) -> tensor<2x4xbf16>
  heddle.store %x, @a : tensor<8xf32>
  %z = func.call @scale(%y, %s) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %w = tensor.expand_shape %z [[0, 1]] output_shape [2, 4] : tensor<8xf32> into tensor<2x4xf32>
  // CHECK: call @half2
  // CHECK-NOT: rt.batch
  %1 = func.call @half2(%w) : (tensor<2x4xf32>) -> tensor<2x4xbf16>
  return %0, %1 : tensor<2x4xbf16>, tensor<2x4xbf16>
}

// A view of the old value is read beside the first call, and so is a second
// load of it: the update in place does not run together with that.
// CHECK-LABEL: func.func @update_of_viewed
// CHECK: call @half({{.*}}rt.batch = 0
// CHECK-NEXT: call @half2({{.*}}rt.batch = 0
// CHECK: call @adamw
// CHECK-NOT: rt.batch
// CHECK: return
func.func @update_of_viewed(%x: tensor<8xf32>) -> (tensor<8xbf16>, tensor<2x4xbf16>) {
  %a = heddle.load @a : tensor<8xf32>
  %v = tensor.expand_shape %a [[0, 1]] output_shape [2, 4] : tensor<8xf32> into tensor<2x4xf32>
  %0 = func.call @half(%x) : (tensor<8xf32>) -> tensor<8xbf16>
  %1 = func.call @half2(%v) : (tensor<2x4xf32>) -> tensor<2x4xbf16>
  %a2 = func.call @adamw(%a, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  heddle.store %a2, @a : tensor<8xf32>
  return %0, %1 : tensor<8xbf16>, tensor<2x4xbf16>
}

// CHECK-LABEL: func.func @update_of_loaded_twice
// CHECK: call @half({{.*}}rt.batch = 0
// CHECK-NEXT: call @sum({{.*}}rt.batch = 0
// CHECK: call @adamw
// CHECK-NOT: rt.batch
// CHECK: return
func.func @update_of_loaded_twice(%x: tensor<8xf32>) -> (tensor<8xbf16>, tensor<f32>) {
  %a = heddle.load @a : tensor<8xf32>
  %old = heddle.load @a : tensor<8xf32>
  %0 = func.call @half(%x) : (tensor<8xf32>) -> tensor<8xbf16>
  %1 = func.call @sum(%old) : (tensor<8xf32>) -> tensor<f32>
  %a2 = func.call @adamw(%a, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  heddle.store %a2, @a : tensor<8xf32>
  return %0, %1 : tensor<8xbf16>, tensor<f32>
}

// A load does not pass a store to its variable.
// CHECK-LABEL: func.func @convert
func.func @convert(%x: tensor<8xf32>) -> (tensor<8xbf16>, tensor<8xbf16>) {
  %big = heddle.load @big : tensor<64xf32>
  %a = heddle.load @a : tensor<8xf32>
  %b = heddle.load @b : tensor<8xf32>
  // CHECK: call @half{{.*}}rt.batch = 0
  %ha = func.call @half(%a) : (tensor<8xf32>) -> tensor<8xbf16>
  // CHECK-NEXT: call @half{{.*}}rt.batch = 0
  heddle.store %x, @a : tensor<8xf32>
  %hb = func.call @half(%b) : (tensor<8xf32>) -> tensor<8xbf16>
  // CHECK: heddle.store
  // CHECK: call @half
  // CHECK-NOT: rt.batch
  %a2 = heddle.load @a : tensor<8xf32>
  %ha2 = func.call @half(%a2) : (tensor<8xf32>) -> tensor<8xbf16>
  return %hb, %ha2 : tensor<8xbf16>, tensor<8xbf16>
}
}

// -----

// A CPU runs them one by one.
func.func private @half(tensor<8xf32>) -> tensor<8xbf16> attributes {heddle.kernel, heddle.inplace = [array<i64>]}
// CHECK-LABEL: func.func @on_a_cpu
// CHECK-NOT: rt.batch
func.func @on_a_cpu(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xbf16>, tensor<8xbf16>) {
  %0 = func.call @half(%x) : (tensor<8xf32>) -> tensor<8xbf16>
  %1 = func.call @half(%y) : (tensor<8xf32>) -> tensor<8xbf16>
  return %0, %1 : tensor<8xbf16>, tensor<8xbf16>
}
