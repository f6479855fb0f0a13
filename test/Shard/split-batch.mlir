// RUN: heddle-opt %s --split-input-file --heddle-split-batch=sub-batches=2 | FileCheck %s
// RUN: heddle-opt %s --split-input-file --heddle-split-batch=sub-batches=1 | FileCheck %s --check-prefix=WHOLE

// One part of the batch runs after the other. The weight's cast, which does not
// see the batch, stays single. The gradient of the weight is the sum of the
// parts' gradients, each added as soon as it is made. Attributes of the plan
// stay with each part.
// WHOLE-LABEL: func.func @products
// WHOLE-NOT: tensor.extract_slice
// WHOLE: return
#features = #heddle.port_role<features>
#labels = #heddle.port_role<labels>
heddle.mesh @mesh <["dp"=2]>
heddle.variable @w : tensor<8x6xf32> parameter init(zeros)
// CHECK-LABEL: func.func @products
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xbf16> {{.*}}, %[[DY:.*]]: tensor<4x6xbf16>
func.func @products(%x: tensor<4x8xbf16> {heddle.role = #features}, %dy: tensor<4x6xbf16> {heddle.role = #labels}) {
  // CHECK: %[[W:.*]] = heddle.load @w
  // CHECK-NEXT: %[[N:.*]] = arith.truncf %[[W]]
  // CHECK-NEXT: %[[X0:.*]] = tensor.extract_slice %[[X]][0, 0] [2, 8] [1, 1]
  // CHECK-NEXT: %[[Y0:.*]] = heddle.contract "fc" [bh, hf -> bf] %[[X0]], %[[N]] {heddle.factors = #heddle.factors<[ "b" = {"dp"}]>}
  // CHECK-NEXT: %[[G0:.*]] = tensor.extract_slice %[[DY]][0, 0] [2, 6] [1, 1]
  // CHECK-NEXT: %[[Z0:.*]] = arith.mulf %[[Y0]], %[[G0]]
  // CHECK-NEXT: %[[D0:.*]] = heddle.contract "fc" pass(wgrad) [bh, bf -> hf] %[[X0]], %[[Z0]] : {{.*}} -> tensor<8x6xf32>
  // CHECK-NEXT: %[[X1:.*]] = tensor.extract_slice %[[X]][2, 0] [2, 8] [1, 1]
  // CHECK-NEXT: %[[Y1:.*]] = heddle.contract "fc" [bh, hf -> bf] %[[X1]], %[[N]]
  // CHECK-NEXT: %[[G1:.*]] = tensor.extract_slice %[[DY]][2, 0] [2, 6] [1, 1]
  // CHECK-NEXT: %[[Z1:.*]] = arith.mulf %[[Y1]], %[[G1]]
  // CHECK-NEXT: %[[D1:.*]] = heddle.contract "fc" pass(wgrad) [bh, bf -> hf] %[[X1]], %[[Z1]] : {{.*}} -> tensor<8x6xf32>
  // CHECK-NEXT: %[[S:.*]] = arith.addf %[[D0]], %[[D1]] : tensor<8x6xf32>
  // CHECK-NEXT: %[[D:.*]] = arith.truncf %[[S]] : tensor<8x6xf32> to tensor<8x6xbf16>
  // CHECK-NEXT: %[[E:.*]] = arith.extf %[[D]]
  // CHECK-NEXT: %[[NEXT:.*]] = arith.subf %[[W]], %[[E]]
  // CHECK-NEXT: heddle.store %[[NEXT]], @w
  // CHECK-NEXT: return
  %w = heddle.load @w : tensor<8x6xf32>
  %n = arith.truncf %w : tensor<8x6xf32> to tensor<8x6xbf16>
  %y = heddle.contract "fc" [bh, hf -> bf] %x, %n {heddle.factors = #heddle.factors<["b" = {"dp"}]>} : (tensor<4x8xbf16>, tensor<8x6xbf16>) -> tensor<4x6xbf16>
  %z = arith.mulf %y, %dy : tensor<4x6xbf16>
  %d = heddle.contract "fc" pass(wgrad) [bh, bf -> hf] %x, %z : (tensor<4x8xbf16>, tensor<4x6xbf16>) -> tensor<8x6xbf16>
  %e = arith.extf %d : tensor<8x6xbf16> to tensor<8x6xf32>
  %next = arith.subf %w, %e : tensor<8x6xf32>
  heddle.store %next, @w : tensor<8x6xf32>
  return
}

// -----

// Sizes that do not divide: the first part has one sample more. The mean over
// all samples is known after the last part, so the ops that read it begin again
// with the first part.
// CHECK-LABEL: func.func @mean
func.func @mean(%x: tensor<5x4xf32> {heddle.role = #heddle.port_role<features>}) -> tensor<5x4xf32> {
  // CHECK: %[[E0:.*]] = math.exp %{{.*}} : tensor<3x4xf32>
  // CHECK-NEXT: %[[R0:.*]] = heddle.reduce sum %[[E0]] over [0, 1] : tensor<3x4xf32> -> tensor<f32>
  // CHECK: %[[E1:.*]] = math.exp %{{.*}} : tensor<2x4xf32>
  // CHECK-NEXT: %[[R1:.*]] = heddle.reduce sum %[[E1]] over [0, 1] : tensor<2x4xf32> -> tensor<f32>
  // CHECK-NEXT: %[[SUM:.*]] = arith.addf %[[R0]], %[[R1]] : tensor<f32>
  // CHECK: %[[MEAN:.*]] = arith.divf %[[SUM]], %{{.*}} : tensor<f32>
  // CHECK: %[[B0:.*]] = heddle.broadcast %[[MEAN]] along [] : tensor<f32> -> tensor<3x4xf32>
  // CHECK: %[[Z0:.*]] = arith.divf %[[E0]], %[[B0]] : tensor<3x4xf32>
  // CHECK: %[[B1:.*]] = heddle.broadcast %[[MEAN]] along [] : tensor<f32> -> tensor<2x4xf32>
  // CHECK: %[[Z1:.*]] = arith.divf %[[E1]], %[[B1]] : tensor<2x4xf32>
  // CHECK: %[[Z:.*]] = tensor.concat dim(0) %[[Z0]], %[[Z1]]
  // CHECK: return %[[Z]]
  %e = math.exp %x : tensor<5x4xf32>
  %r = heddle.reduce sum %e over [0, 1] : tensor<5x4xf32> -> tensor<f32>
  %c = arith.constant dense<20.0> : tensor<f32>
  %m = arith.divf %r, %c : tensor<f32>
  %b = heddle.broadcast %m along [] : tensor<f32> -> tensor<5x4xf32>
  %z = arith.divf %e, %b : tensor<5x4xf32>
  return %z : tensor<5x4xf32>
}

// -----

// The tied table: each part of the embedding's gradient starts from the head's
// gradient of the same part, so that no part waits for another one.
// CHECK-LABEL: func.func @tied
func.func @tied(%ids: tensor<4x3xi32> {heddle.role = #heddle.port_role<features>}, %x: tensor<4x3x8xf32>, %dl: tensor<4x3x6xf32>) -> tensor<6x8xf32> {
  // CHECK: %[[H0:.*]] = heddle.contract "head" pass(wgrad) [bsv, bsh -> vh]
  // CHECK: %[[I0:.*]] = tensor.extract_slice %arg0[0, 0] [2, 3]
  // CHECK: %[[T0:.*]] = heddle.embedding_grad "wte" %[[I0]], %{{.*}} accumulate(%[[H0]] :
  // CHECK-NOT: arith.addf
  // CHECK: %[[H1:.*]] = heddle.contract "head" pass(wgrad) [bsv, bsh -> vh]
  // CHECK: %[[T1:.*]] = heddle.embedding_grad "wte" %{{.*}}, %{{.*}} accumulate(%[[H1]] :
  // CHECK-NEXT: %[[T:.*]] = arith.addf %[[T0]], %[[T1]]
  // CHECK-NEXT: return %[[T]]
  %h = heddle.contract "head" pass(wgrad) [bsv, bsh -> vh] %dl, %x : (tensor<4x3x6xf32>, tensor<4x3x8xf32>) -> tensor<6x8xf32>
  %t = heddle.embedding_grad "wte" %ids, %x accumulate(%h : tensor<6x8xf32>) : tensor<4x3xi32>, tensor<4x3x8xf32> -> tensor<6x8xf32>
  return %t : tensor<6x8xf32>
}

// -----

// An accumulator that is no sum over the batch counts once: the first part
// starts from it.
// CHECK-LABEL: func.func @once
func.func @once(%ids: tensor<4x3xi32> {heddle.role = #heddle.port_role<features>}, %x: tensor<4x3x8xf32>, %a: tensor<6x8xf32>) -> tensor<6x8xf32> {
  // CHECK: %[[T0:.*]] = heddle.embedding_grad "wte" %{{.*}} accumulate(%arg2 :
  // CHECK: %[[ZERO:.*]] = arith.constant dense<0.0{{.*}}> : tensor<6x8xf32>
  // CHECK: %[[T1:.*]] = heddle.embedding_grad "wte" %{{.*}} accumulate(%[[ZERO]] :
  // CHECK: arith.addf %[[T0]], %[[T1]]
  %t = heddle.embedding_grad "wte" %ids, %x accumulate(%a : tensor<6x8xf32>) : tensor<4x3xi32>, tensor<4x3x8xf32> -> tensor<6x8xf32>
  return %t : tensor<6x8xf32>
}

// -----

// Random numbers are those of the whole batch, on a device's part of a part,
// too. Positions (the rotary table) do not see the batch.
// CHECK-LABEL: func.func @random
func.func @random(%x: tensor<4x6xf32> {heddle.role = #heddle.port_role<features>}, %step: tensor<i64>) -> tensor<4x6xf32> {
  // CHECK: %[[ZERO:.*]] = arith.constant 0 : index
  // CHECK: heddle.dropout "drop" {{.*}} global_shape([4, 6]){{.*}} tensor<2x6xf32>
  // CHECK: %[[TWO:.*]] = arith.constant 2 : index
  // CHECK: heddle.dropout "drop" {{.*}} offsets(%[[TWO]], %{{.*}}) global_shape([4, 6]){{.*}} tensor<2x6xf32>
  %y = heddle.dropout "drop" %x, %step rate(0.1) seed(7) : tensor<4x6xf32>, tensor<i64> -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}

// -----

// 6 rows of a merged dimension belong to each part: 2 samples of 3 tokens.
// CHECK-LABEL: func.func @merged
func.func @merged(%x: tensor<4x3x8xf32> {heddle.role = #heddle.port_role<features>}) -> tensor<12x8xf32> {
  // CHECK: tensor.collapse_shape %{{.*}} {{.*}} : tensor<2x3x8xf32> into tensor<6x8xf32>
  // CHECK: math.exp %{{.*}} : tensor<6x8xf32>
  // CHECK: tensor.collapse_shape %{{.*}} {{.*}} : tensor<2x3x8xf32> into tensor<6x8xf32>
  // CHECK: math.exp %{{.*}} : tensor<6x8xf32>
  %0 = tensor.collapse_shape %x [[0, 1], [2]] : tensor<4x3x8xf32> into tensor<12x8xf32>
  %1 = math.exp %0 : tensor<12x8xf32>
  return %1 : tensor<12x8xf32>
}

// -----

// A program of another compiler: a product whose sum over the batch starts from
// zeros, and a maximum over the batch.
// CHECK-LABEL: func.func @structured
func.func @structured(%x: tensor<4x8xf32> {heddle.role = #heddle.port_role<features>}, %w: tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>) {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: %[[P0:.*]] = linalg.matmul_transpose_a ins(%{{.*}}, %{{.*}} : tensor<2x8xf32>, tensor<2x8xf32>) outs(%[[Z:.*]] : tensor<8x8xf32>)
  // CHECK: %[[M0:.*]] = linalg.reduce ins(%{{.*}} : tensor<2x8xf32>)
  // CHECK: %[[P1:.*]] = linalg.matmul_transpose_a ins(%{{.*}}, %{{.*}} : tensor<2x8xf32>, tensor<2x8xf32>) outs(%[[Z]] : tensor<8x8xf32>)
  // CHECK: %[[P:.*]] = arith.addf %[[P0]], %[[P1]]
  // CHECK: %[[M1:.*]] = linalg.reduce
  // CHECK: %[[M:.*]] = arith.maximumf %[[M0]], %[[M1]]
  // CHECK: return %[[P]], %[[M]]
  %p = linalg.matmul_transpose_a ins(%x, %x : tensor<4x8xf32>, tensor<4x8xf32>) outs(%z : tensor<8x8xf32>) -> tensor<8x8xf32>
  %e1 = tensor.empty() : tensor<8xf32>
  %l = linalg.fill ins(%lowest : f32) outs(%e1 : tensor<8xf32>) -> tensor<8xf32>
  %m = linalg.reduce ins(%x : tensor<4x8xf32>) outs(%l : tensor<8xf32>) dimensions = [0]
    (%a: f32, %b: f32) {
      %0 = arith.maximumf %a, %b : f32
      linalg.yield %0 : f32
    }
  return %p, %m : tensor<8x8xf32>, tensor<8xf32>
}

// -----

// A constant of different numbers is cut out of the whole.
// CHECK-LABEL: func.func @constant
func.func @constant(%x: tensor<4xf32> {heddle.role = #heddle.port_role<features>}) -> tensor<4xf32> {
  // CHECK: %[[C:.*]] = arith.constant dense<[1.0{{.*}}]> : tensor<4xf32>
  // CHECK: %[[C0:.*]] = tensor.extract_slice %[[C]][0] [2] [1]
  // CHECK: arith.mulf %{{.*}}, %[[C0]] : tensor<2xf32>
  // CHECK: %[[C1:.*]] = tensor.extract_slice %[[C]][2] [2] [1]
  // CHECK: arith.mulf %{{.*}}, %[[C1]] : tensor<2xf32>
  %c = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %y = arith.mulf %x, %c : tensor<4xf32>
  return %y : tensor<4xf32>
}
