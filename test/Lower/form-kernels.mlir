// RUN: heddle-opt %s --heddle-decompose-ops --heddle-form-kernels --split-input-file | FileCheck %s
// RUN: heddle-opt %s --heddle-decompose-ops --heddle-form-kernels=fuse=false --split-input-file | FileCheck %s --check-prefix=ALONE

// Bias, residual addition and normalization form one kernel over rows.
// CHECK-LABEL: func.func @add_norm
// CHECK: call @kernel_0
// CHECK-NOT: call @
// ALONE-LABEL: func.func @add_norm
// ALONE-COUNT-6: call @
// CHECK: func.func private @kernel_0
// CHECK-SAME: heddle.blocks = 1024 : i64
// CHECK-SAME: heddle.inplace = [array<i64: 0, 2>, array<i64: 0, 2>]
// CHECK-SAME: heddle.kernel
// CHECK-SAME: heddle.row_dims = 2 : i64
func.func @add_norm(%x: tensor<4x256x768xf32>, %c: tensor<768xf32>, %r: tensor<4x256x768xf32>, %w: tensor<768xf32>, %b: tensor<768xf32>)
    -> (tensor<4x256x768xf32>, tensor<4x256x768xf32>) {
  %cc = heddle.broadcast %c along [2] : tensor<768xf32> -> tensor<4x256x768xf32>
  %s = arith.addf %x, %cc : tensor<4x256x768xf32>
  %t = arith.addf %s, %r : tensor<4x256x768xf32>
  %y, %mean, %rstd = heddle.layer_norm "n" %t, %w, %b epsilon(1.0e-5)
    : (tensor<4x256x768xf32>, tensor<768xf32>, tensor<768xf32>) -> (tensor<4x256x768xf32>, tensor<4x256xf32>, tensor<4x256xf32>)
  return %t, %y : tensor<4x256x768xf32>, tensor<4x256x768xf32>
}

// -----

// Equal kernels are one function.
// CHECK-LABEL: func.func @twice
// CHECK: call @kernel_0
// CHECK: heddle.contract
// CHECK: call @kernel_0
// CHECK: func.func private @kernel_0
// CHECK-NOT: func.func
func.func @twice(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %a = heddle.silu %x : tensor<64x64xf32>
  %b = heddle.contract "c" [ab, bc -> ac] %a, %a : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %c = heddle.silu %b : tensor<64x64xf32>
  return %c : tensor<64x64xf32>
}

// -----

// So are kernels of equal layers, whose ops have names of their own.
// CHECK-LABEL: func.func @layers
// CHECK: call @kernel_0
// CHECK: heddle.contract
// CHECK: call @kernel_0
// CHECK: func.func private @kernel_0
// CHECK-NOT: heddle.name
// CHECK-NOT: func.func
func.func @layers(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %e = tensor.empty() : tensor<64x64xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64x64xf32>) outs(%e : tensor<64x64xf32>) attrs = {heddle.name = "h_0/exp"} {
  ^bb0(%in: f32, %out: f32):
    %v = math.exp %in : f32
    linalg.yield %v : f32
  } -> tensor<64x64xf32>
  %b = heddle.contract "c" [ab, bc -> ac] %a, %a : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %c = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%b : tensor<64x64xf32>) outs(%e : tensor<64x64xf32>) attrs = {heddle.name = "h_1/exp"} {
  ^bb0(%in: f32, %out: f32):
    %v = math.exp %in : f32
    linalg.yield %v : f32
  } -> tensor<64x64xf32>
  return %c : tensor<64x64xf32>
}

// -----

// An op that reads across rows starts a kernel of its own.
// CHECK-LABEL: func.func @across_rows
// CHECK: call @kernel_0
// CHECK: call @kernel_1
func.func @across_rows(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %a = heddle.silu %x : tensor<64x64xf32>
  %e = tensor.empty() : tensor<64x64xf32>
  %t = linalg.transpose ins(%a : tensor<64x64xf32>) outs(%e : tensor<64x64xf32>) permutation = [1, 0]
  %c = math.exp %t : tensor<64x64xf32>
  return %c : tensor<64x64xf32>
}

// -----

// A path through a product keeps two ops in kernels of their own. Otherwise the
// kernel and the product would wait for each other.
// CHECK-LABEL: func.func @detour
// CHECK: [[A:%.*]] = call @kernel_0
// CHECK: [[P:%.*]] = heddle.contract {{.*}} [[A]], [[A]]
// CHECK: call @kernel_1([[A]], [[P]])
func.func @detour(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %a = heddle.silu %x : tensor<64x64xf32>
  %b = heddle.contract "c" [ab, bc -> ac] %a, %a : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %c = arith.addf %a, %b : tensor<64x64xf32>
  return %c : tensor<64x64xf32>
}

// -----

// A load is never moved behind a store of its variable.
// CHECK-LABEL: func.func @effects
// CHECK: [[V:%.*]] = heddle.load @v
// CHECK: [[N:%.*]] = call @kernel_0([[V]])
// CHECK: heddle.store [[N]], @v
// CHECK: heddle.load @v
heddle.variable @v : tensor<64x64xf32> parameter init(zeros)
func.func @effects() -> tensor<64x64xf32> {
  %a = heddle.load @v : tensor<64x64xf32>
  %b = heddle.silu %a : tensor<64x64xf32>
  heddle.store %b, @v : tensor<64x64xf32>
  %c = heddle.load @v : tensor<64x64xf32>
  return %c : tensor<64x64xf32>
}

// -----

// A diagonal reads a different element of each row, so it shares no rows with
// the op that makes them. A result this small is one row.
// CHECK-LABEL: func.func @diagonal
// CHECK: call @kernel_0
// CHECK: func.func private @kernel_0
// CHECK-SAME: heddle.row_dims = 0
// ALONE-LABEL: func.func @diagonal
// ALONE-COUNT-2: call @
func.func @diagonal(%x: tensor<16x16xf32>) -> (tensor<16xf32>, tensor<16x16xf32>) {
  %y = math.exp %x : tensor<16x16xf32>
  %e = tensor.empty() : tensor<16xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(i) -> (i, i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%y : tensor<16x16xf32>) outs(%e : tensor<16xf32>) {
  ^bb0(%a: f32, %b: f32):
    %n = arith.negf %a : f32
    linalg.yield %n : f32
  } -> tensor<16xf32>
  return %z, %y : tensor<16xf32>, tensor<16x16xf32>
}

// -----

// No kernel reaches over a barrier, and equal ops on both sides stay two.
// CHECK-LABEL: func.func @barrier
// CHECK: %[[A:[0-9]+]] = call @kernel_0(%[[X:[a-z0-9]+]])
// CHECK: %[[B:[0-9]+]] = heddle.barrier %[[X]] after %[[A]]
// CHECK: %[[C:[0-9]+]] = call @kernel_0(%[[B]])
// CHECK: return %[[A]], %[[C]]
func.func @barrier(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %a = heddle.silu %x : tensor<64x64xf32>
  %b = heddle.barrier %x after %a : tensor<64x64xf32> after tensor<64x64xf32>
  %c = heddle.silu %b : tensor<64x64xf32>
  return %a, %c : tensor<64x64xf32>, tensor<64x64xf32>
}

// -----

// Dropouts that differ in their random numbers alone are one kernel, which
// takes the numbers of their streams.
// CHECK-LABEL: func.func @dropouts
func.func @dropouts(%x: tensor<64x96xf32>, %y: tensor<64x96xf32>, %step: tensor<i64>) -> (tensor<64x96xf32>, tensor<64x96xf32>) {
  // CHECK: %[[A:.*]] = arith.constant [[FIRST:[0-9]+]] : index
  // CHECK: call @[[KERNEL:.*]](%{{.*}}, %{{.*}}, %[[A]])
  // CHECK-NOT: arith.constant [[FIRST]] : index
  // CHECK: %[[B:.*]] = arith.constant {{[0-9]+}} : index
  // CHECK: call @[[KERNEL]](%{{.*}}, %{{.*}}, %[[B]])
  %0 = heddle.dropout "h.0.drop" %x, %step rate(0.1) seed(5) : tensor<64x96xf32>, tensor<i64> -> tensor<64x96xf32>
  %1 = heddle.dropout "h.1.drop" %y, %step rate(0.1) seed(5) : tensor<64x96xf32>, tensor<i64> -> tensor<64x96xf32>
  return %0, %1 : tensor<64x96xf32>, tensor<64x96xf32>
}
// CHECK: func.func private @[[KERNEL]](%{{.*}}: tensor<64x96xf32>, %{{.*}}: tensor<i64>, %[[STREAM:.*]]: index)
// CHECK-NOT: random_stream
// CHECK: arith.index_cast %[[STREAM]] : index to i64
