// RUN: heddle-opt %s --split-input-file --heddle-split-operators | FileCheck %s

// Slices of a summed factor: the input is sliced, each product accumulates onto
// the one before, and loads its own weight. Two of three weights keep their
// storage.
heddle.mesh @mesh <["dp"=2]>
// CHECK: heddle.variable @w.slice0 : tensor<3x6xf32> parameter init(normal<2.000000e-02>) checkpoint(<"m.w", [48]>) slice(<"w", dim 0, 0 of 8>)
// CHECK-SAME: heddle.storage_axes
// CHECK: heddle.variable @w.slice1 : tensor<3x6xf32> {{.*}} slice(<"w", dim 0, 3 of 8>)
// CHECK-SAME: heddle.storage_axes
// CHECK: heddle.variable @w.slice2 : tensor<2x6xf32> {{.*}} slice(<"w", dim 0, 6 of 8>)
// CHECK-NOT: heddle.storage_axes
// CHECK-NOT: heddle.variable @w :
heddle.variable @w : tensor<8x6xf32> parameter init(normal<2.0e-02>) checkpoint(<"m.w", [48]>) {heddle.storage_axes = #heddle.sharding<@mesh, [{}, {"dp"}]>}
// CHECK-LABEL: func.func @sum_factor
// CHECK-SAME: (%[[X:.*]]: tensor<4x5x8xf32>)
func.func @sum_factor(%x: tensor<4x5x8xf32>) -> tensor<4x5x6xf32> {
  %w = heddle.load @w : tensor<8x6xf32>
  // CHECK-NEXT: %[[X0:.*]] = tensor.extract_slice %[[X]][0, 0, 0] [4, 5, 3] [1, 1, 1]
  // CHECK-NEXT: %[[W0:.*]] = heddle.load @w.slice0
  // CHECK-NEXT: %[[Y0:.*]] = heddle.contract "fc" [bsh, hf -> bsf] %[[X0]], %[[W0]]
  // CHECK-SAME: heddle.factors = #heddle.factors<[ "b" = {"dp"}]>
  // CHECK-NOT: heddle.split
  // CHECK-NEXT: %[[X1:.*]] = tensor.extract_slice %[[X]][0, 0, 3] [4, 5, 3] [1, 1, 1]
  // CHECK-NEXT: %[[W1:.*]] = heddle.load @w.slice1
  // CHECK-NEXT: %[[Y1:.*]] = heddle.contract "fc" [bsh, hf -> bsf] %[[X1]], %[[W1]]
  // CHECK-NEXT: %[[S1:.*]] = arith.addf %[[Y0]], %[[Y1]]
  // CHECK-NEXT: %[[X2:.*]] = tensor.extract_slice %[[X]][0, 0, 6] [4, 5, 2] [1, 1, 1]
  // CHECK-NEXT: %[[W2:.*]] = heddle.load @w.slice2
  // CHECK-NEXT: %[[Y2:.*]] = heddle.contract "fc" [bsh, hf -> bsf] %[[X2]], %[[W2]]
  // CHECK-NEXT: %[[S2:.*]] = arith.addf %[[S1]], %[[Y2]]
  // CHECK-NEXT: return %[[S2]]
  %y = heddle.contract "fc" [bsh, hf -> bsf] %x, %w {heddle.split = #heddle.split<"h", 3, sharded 2>, heddle.factors = #heddle.factors<["b" = {"dp"}]>} : (tensor<4x5x8xf32>, tensor<8x6xf32>) -> tensor<4x5x6xf32>
  return %y : tensor<4x5x6xf32>
}

// -----

// Slices of a factor that is not summed: the results are joined. A narrow
// weight is cast slice by slice.
heddle.variable @w : tensor<8x6xf32> parameter init(zeros)
// CHECK-LABEL: func.func @parallel_factor
func.func @parallel_factor(%x: tensor<4x5x8xbf16>) -> tensor<4x5x6xbf16> {
  %w = heddle.load @w : tensor<8x6xf32>
  %n = arith.truncf %w : tensor<8x6xf32> to tensor<8x6xbf16>
  // CHECK-NEXT: %[[W0:.*]] = heddle.load @w.slice0 : tensor<8x3xf32>
  // CHECK-NEXT: %[[N0:.*]] = arith.truncf %[[W0]]
  // CHECK-NEXT: %[[Y0:.*]] = heddle.contract "fc" [bsh, hf -> bsf] %arg0, %[[N0]]
  // CHECK-NEXT: %[[W1:.*]] = heddle.load @w.slice1 : tensor<8x3xf32>
  // CHECK-NEXT: %[[N1:.*]] = arith.truncf %[[W1]]
  // CHECK-NEXT: %[[Y1:.*]] = heddle.contract "fc" [bsh, hf -> bsf] %arg0, %[[N1]]
  // CHECK-NEXT: tensor.concat dim(2) %[[Y0]], %[[Y1]]
  %y = heddle.contract "fc" [bsh, hf -> bsf] %x, %n {heddle.split = #heddle.split<"f", 2, sharded 2>} : (tensor<4x5x8xbf16>, tensor<8x6xbf16>) -> tensor<4x5x6xbf16>
  return %y : tensor<4x5x6xbf16>
}

// -----

// A sum in a narrow type stays in the wide type until all slices are added.
heddle.variable @w : tensor<8x6xbf16> parameter init(zeros)
// CHECK-LABEL: func.func @narrow_sum
func.func @narrow_sum(%x: tensor<4x5x8xbf16>) -> tensor<4x5x6xbf16> {
  %w = heddle.load @w : tensor<8x6xbf16>
  // CHECK: heddle.contract {{.*}} -> tensor<4x5x6xf32>
  // CHECK: heddle.contract {{.*}} -> tensor<4x5x6xf32>
  // CHECK: %[[S:.*]] = arith.addf {{.*}} : tensor<4x5x6xf32>
  // CHECK: arith.truncf %[[S]] : tensor<4x5x6xf32> to tensor<4x5x6xbf16>
  %y = heddle.contract "fc" [bsh, hf -> bsf] %x, %w {heddle.split = #heddle.split<"h", 2, sharded 2>} : (tensor<4x5x8xbf16>, tensor<8x6xbf16>) -> tensor<4x5x6xbf16>
  return %y : tensor<4x5x6xbf16>
}

// -----

// The gradient, its norm, the state and the update are cut into slices. A
// scalar between the ops does not prevent it.
// CHECK: heddle.variable @w.slice1 : tensor<4x6xf32>
// CHECK: heddle.variable @m.slice0 : tensor<4x6xf32> optimizer_state {{.*}} slice(<"m", dim 0, 0 of 8>) state(<sgd_momentum of @w.slice0>)
// CHECK: heddle.variable @m.slice1 {{.*}} state(<sgd_momentum of @w.slice1>)
// This program computes no mean from the gradient, so the mean stays whole.
// CHECK: heddle.variable @mean : tensor<8x6xf32> optimizer_state init(zeros){{$}}
heddle.variable @w : tensor<8x6xf32> parameter init(zeros)
heddle.variable @m : tensor<8x6xf32> optimizer_state init(zeros) state(<sgd_momentum of @w>)
heddle.variable @mean : tensor<8x6xf32> optimizer_state init(zeros) state(<adamw_mean of @w>)
// CHECK-LABEL: func.func @update
func.func @update(%x: tensor<4x8xf32>, %dy: tensor<4x6xf32>, %rate: tensor<f32>) -> tensor<f32> {
  %w = heddle.load @w : tensor<8x6xf32>
  %y = heddle.contract "fc" [bh, hf -> bf] %x, %w {heddle.split = #heddle.split<"h", 2, sharded 2>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %dz = arith.mulf %y, %dy : tensor<4x6xf32>
  // CHECK: %[[D0:.*]] = heddle.contract "fc" pass(wgrad) [bh, bf -> hf] {{.*}} -> tensor<4x6xf32>
  // CHECK: %[[D1:.*]] = heddle.contract "fc" pass(wgrad) [bh, bf -> hf] {{.*}} -> tensor<4x6xf32>
  %dw = heddle.contract "fc" pass(wgrad) [bh, bf -> hf] %x, %dz {heddle.split = #heddle.split<"h", 2, sharded 2>} : (tensor<4x8xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  // CHECK: %[[Q0:.*]] = arith.mulf %[[D0]], %[[D0]]
  // CHECK: %[[Q1:.*]] = arith.mulf %[[D1]], %[[D1]]
  // CHECK: %[[R0:.*]] = heddle.reduce sum %[[Q0]]
  // CHECK: %[[R1:.*]] = heddle.reduce sum %[[Q1]]
  // CHECK: %[[N:.*]] = arith.addf %[[R0]], %[[R1]] : tensor<f32>
  %sq = arith.mulf %dw, %dw : tensor<8x6xf32>
  %norm = heddle.reduce sum %sq over [0, 1] : tensor<8x6xf32> -> tensor<f32>
  %scale = arith.mulf %rate, %norm : tensor<f32>
  %rates = heddle.broadcast %scale along [] : tensor<f32> -> tensor<8x6xf32>
  %m = heddle.load @m : tensor<8x6xf32>
  %m1 = arith.addf %m, %dw : tensor<8x6xf32>
  %step = arith.mulf %m1, %rates : tensor<8x6xf32>
  %w1 = arith.subf %w, %step : tensor<8x6xf32>
  heddle.store %m1, @m : tensor<8x6xf32>
  heddle.store %w1, @w : tensor<8x6xf32>
  // CHECK: %[[M0:.*]] = heddle.load @m.slice0
  // CHECK: %[[M01:.*]] = arith.addf %[[M0]], %[[D0]]
  // CHECK: heddle.broadcast {{.*}} -> tensor<4x6xf32>
  // CHECK: heddle.store %[[M01]], @m.slice0
  // CHECK: heddle.store {{.*}}, @w.slice0
  // CHECK: %[[M1:.*]] = heddle.load @m.slice1
  // CHECK: arith.addf %[[M1]], %[[D1]]
  // CHECK: heddle.store {{.*}}, @m.slice1
  // CHECK: heddle.store {{.*}}, @w.slice1
  return %norm : tensor<f32>
}

// -----

// The tied embedding looks its rows up in every slice of the split head's
// weight.
heddle.variable @wte : tensor<10x4xf32> parameter init(zeros)
// CHECK-LABEL: func.func @tied
func.func @tied(%ids: tensor<2x3xi32>) -> tensor<2x3x10xf32> {
  %w = heddle.load @wte : tensor<10x4xf32>
  // CHECK: %[[T0:.*]] = heddle.load @wte.slice0 : tensor<5x4xf32>
  // CHECK: heddle.embedding "wte" %[[T0]], %arg0 offset(%c0
  // CHECK: %[[T1:.*]] = heddle.load @wte.slice1 : tensor<5x4xf32>
  // CHECK: heddle.embedding "wte" %[[T1]], %arg0 offset(%c5
  // CHECK: arith.addf
  %x = heddle.embedding "wte" %w, %ids : tensor<10x4xf32>, tensor<2x3xi32> -> tensor<2x3x4xf32>
  // CHECK: tensor.concat dim(2)
  %y = heddle.contract "head" [bsh, vh -> bsv] %x, %w {heddle.split = #heddle.split<"v", 2, sharded 2>} : (tensor<2x3x4xf32>, tensor<10x4xf32>) -> tensor<2x3x10xf32>
  return %y : tensor<2x3x10xf32>
}

// -----

// Tensors that leave the program are whole. A variable that is stored before it
// is read again is loaded before.
heddle.variable @w : tensor<8x6xf32> parameter init(zeros)
// CHECK-LABEL: func.func @whole
func.func @whole(%x: tensor<4x8xf32>) -> (tensor<4x6xf32>, tensor<8x6xf32>) {
  // CHECK: %[[W0:.*]] = heddle.load @w.slice0
  // CHECK: %[[W1:.*]] = heddle.load @w.slice1
  %w = heddle.load @w : tensor<8x6xf32>
  %y = heddle.contract "fc" [bh, hf -> bf] %x, %w {heddle.split = #heddle.split<"h", 2, sharded 2>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %n = arith.negf %w : tensor<8x6xf32>
  // CHECK: heddle.store {{.*}}, @w.slice1
  heddle.store %n, @w : tensor<8x6xf32>
  // CHECK: %[[W:.*]] = tensor.concat dim(0) %[[W0]], %[[W1]]
  // CHECK: return %{{.*}}, %[[W]]
  return %y, %w : tensor<4x6xf32>, tensor<8x6xf32>
}

// -----

// Control flow that reads a split weight reads the whole weight.
heddle.variable @w : tensor<8x6xf32> parameter init(zeros)
// CHECK-LABEL: func.func @control_flow
func.func @control_flow(%x: tensor<4x8xf32>, %p: i1) -> (tensor<4x6xf32>, tensor<8x6xf32>) {
  %w = heddle.load @w : tensor<8x6xf32>
  %y = heddle.contract "fc" [bh, hf -> bf] %x, %w {heddle.split = #heddle.split<"h", 2, sharded 2>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  // CHECK: %[[W:.*]] = tensor.concat dim(0)
  // CHECK: scf.if
  // CHECK: arith.negf %[[W]]
  // CHECK: scf.yield %[[W]]
  %z = scf.if %p -> tensor<8x6xf32> {
    %n = arith.negf %w : tensor<8x6xf32>
    scf.yield %n : tensor<8x6xf32>
  } else {
    scf.yield %w : tensor<8x6xf32>
  }
  return %y, %z : tensor<4x6xf32>, tensor<8x6xf32>
}

// -----

// A sum onto another tensor is not cut, because each slice would start from it.
heddle.variable @w : tensor<8x6xf32> parameter init(zeros)
// CHECK-LABEL: func.func @accumulator
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>, %[[START:.*]]: tensor<4x6xf32>)
func.func @accumulator(%x: tensor<4x8xf32>, %start: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  // CHECK-COUNT-2: heddle.contract
  // CHECK: %[[W:.*]] = tensor.concat dim(0)
  // CHECK: %[[Z:.*]] = linalg.matmul ins(%[[X]], %[[W]] : tensor<4x8xf32>, tensor<8x6xf32>) outs(%[[START]] : tensor<4x6xf32>)
  // CHECK: return %{{.*}}, %[[Z]]
  %w = heddle.load @w : tensor<8x6xf32>
  %y = heddle.contract "fc" [bh, hf -> bf] %x, %w {heddle.split = #heddle.split<"h", 2, sharded 2>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %z = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x6xf32>) outs(%start : tensor<4x6xf32>) -> tensor<4x6xf32>
  return %y, %z : tensor<4x6xf32>, tensor<4x6xf32>
}
