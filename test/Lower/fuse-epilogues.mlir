// RUN: heddle-opt %s --heddle-fuse-epilogues | FileCheck %s

heddle.variable @grad : tensor<8x6xf32> gradient init(zeros)
heddle.variable @other : tensor<8x6xf32> gradient init(zeros)

// CHECK-LABEL: func.func @bias
// CHECK-SAME: %[[X:.*]]: tensor<2x4x8xf32>, %[[W:.*]]: tensor<8x6xf32>, %[[B:.*]]: tensor<6xf32>
func.func @bias(%x: tensor<2x4x8xf32>, %w: tensor<8x6xf32>, %b: tensor<6xf32>) -> tensor<2x4x6xf32> {
  // CHECK: %[[Y:.*]] = heddle.contract "fc" [bsh, ho -> bso] %[[X]], %[[W]] bias(%[[B]] along [2])
  // CHECK-NEXT: return %[[Y]]
  %y = heddle.contract "fc" [bsh, ho -> bso] %x, %w : (tensor<2x4x8xf32>, tensor<8x6xf32>) -> tensor<2x4x6xf32>
  %c = heddle.broadcast %b along [2] : tensor<6xf32> -> tensor<2x4x6xf32>
  %z = arith.addf %y, %c : tensor<2x4x6xf32>
  return %z : tensor<2x4x6xf32>
}

// The bias of a fused projection advances with the loop over its parts.
// CHECK-LABEL: func.func @bias_of_parts
func.func @bias_of_parts(%x: tensor<2x4x8xf32>, %w: tensor<8x3x2x3xf32>, %b: tensor<3x2x3xf32>) -> tensor<3x2x4x2x3xf32> {
  // CHECK: heddle.contract {{.*}} bias(%{{.*}} along [0, 3, 4])
  // CHECK-NOT: arith.addf
  %y = heddle.contract [bsh, hcnd -> cbsnd] %x, %w : (tensor<2x4x8xf32>, tensor<8x3x2x3xf32>) -> tensor<3x2x4x2x3xf32>
  %c = heddle.broadcast %b along [0, 3, 4] : tensor<3x2x3xf32> -> tensor<3x2x4x2x3xf32>
  %z = arith.addf %c, %y : tensor<3x2x4x2x3xf32>
  return %z : tensor<3x2x4x2x3xf32>
}

// The library has no bias along the rows.
// CHECK-LABEL: func.func @bias_of_rows
func.func @bias_of_rows(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %b: tensor<4xf32>) -> tensor<4x6xf32> {
  // CHECK: arith.addf
  %y = heddle.contract [sh, ho -> so] %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %c = heddle.broadcast %b along [0] : tensor<4xf32> -> tensor<4x6xf32>
  %z = arith.addf %y, %c : tensor<4x6xf32>
  return %z : tensor<4x6xf32>
}

// The product has two readers.
// CHECK-LABEL: func.func @two_uses
func.func @two_uses(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %b: tensor<6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  // CHECK: arith.addf
  %y = heddle.contract [sh, ho -> so] %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %c = heddle.broadcast %b along [1] : tensor<6xf32> -> tensor<4x6xf32>
  %z = arith.addf %y, %c : tensor<4x6xf32>
  return %y, %z : tensor<4x6xf32>, tensor<4x6xf32>
}

// Three products accumulate into one buffer.
// CHECK-LABEL: func.func @sum_of_products
func.func @sum_of_products(%a: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> tensor<4x6xf32> {
  // CHECK: %[[P:.*]] = heddle.contract [sh, ho -> so] %{{.*}}, %{{.*}} : (
  // CHECK: %[[Q:.*]] = heddle.contract {{.*}} accumulate(%[[P]])
  // CHECK: %[[R:.*]] = heddle.contract {{.*}} accumulate(%[[Q]])
  // CHECK-NEXT: return %[[R]]
  %p = heddle.contract [sh, ho -> so] %a, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %q = heddle.contract [sh, ho -> so] %a, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %r = heddle.contract [sh, ho -> so] %a, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %pq = arith.addf %p, %q : tensor<4x6xf32>
  %pqr = arith.addf %pq, %r : tensor<4x6xf32>
  return %pqr : tensor<4x6xf32>
}

// A gradient that accumulates over micro-batches is added in place.
// CHECK-LABEL: func.func @gradient
func.func @gradient(%a: tensor<4x8xf32>, %g: tensor<4x6xf32>) {
  // CHECK: %[[OLD:.*]] = heddle.load @grad
  // CHECK: %[[NEW:.*]] = heddle.contract pass({{ *}}wgrad) {{.*}} accumulate(%[[OLD]])
  // CHECK: heddle.store %[[NEW]], @grad
  %old = heddle.load @grad : tensor<8x6xf32>
  %dw = heddle.contract pass(wgrad) [sh, so -> ho] %a, %g : (tensor<4x8xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  %new = arith.addf %old, %dw : tensor<8x6xf32>
  heddle.store %new, @grad : tensor<8x6xf32>
  return
}

// So is that of a table, if it does not start from another tensor.
// CHECK-LABEL: func.func @table
func.func @table(%ids: tensor<4xi32>, %g: tensor<4x6xf32>) {
  // CHECK: %[[OLD:.*]] = heddle.load @grad
  // CHECK: %[[NEW:.*]] = heddle.embedding_grad "wte" {{.*}} accumulate(%[[OLD]] :
  // CHECK: heddle.store %[[NEW]], @grad
  // CHECK-NOT: arith.addf
  %dw = heddle.embedding_grad "wte" %ids, %g : tensor<4xi32>, tensor<4x6xf32> -> tensor<8x6xf32>
  %old = heddle.load @grad : tensor<8x6xf32>
  %new = arith.addf %old, %dw : tensor<8x6xf32>
  heddle.store %new, @grad : tensor<8x6xf32>
  return
}

// CHECK-LABEL: func.func @tied_table
func.func @tied_table(%ids: tensor<4xi32>, %g: tensor<4x6xf32>, %head: tensor<8x6xf32>) {
  // CHECK: heddle.embedding_grad "wte" {{.*}} accumulate(%arg2 :
  // CHECK: arith.addf
  %dw = heddle.embedding_grad "wte" %ids, %g accumulate(%head : tensor<8x6xf32>) : tensor<4xi32>, tensor<4x6xf32> -> tensor<8x6xf32>
  %old = heddle.load @grad : tensor<8x6xf32>
  %new = arith.addf %old, %dw : tensor<8x6xf32>
  heddle.store %new, @grad : tensor<8x6xf32>
  return
}

// If the sum is stored elsewhere, accumulating would need a copy. So a kernel
// adds.
// CHECK-LABEL: func.func @stored_elsewhere
func.func @stored_elsewhere(%a: tensor<4x8xf32>, %g: tensor<4x6xf32>) {
  // CHECK: arith.addf
  %old = heddle.load @grad : tensor<8x6xf32>
  %dw = heddle.contract pass(wgrad) [sh, so -> ho] %a, %g : (tensor<4x8xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  %new = arith.addf %old, %dw : tensor<8x6xf32>
  heddle.store %new, @other : tensor<8x6xf32>
  return
}

// The residual is read again later.
// CHECK-LABEL: func.func @residual
func.func @residual(%x: tensor<4x8xf32>, %a: tensor<4x6xf32>, %w: tensor<6x8xf32>) -> tensor<4x8xf32> {
  // CHECK: arith.addf
  %p = heddle.contract [so, oh -> sh] %a, %w : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
  %y = arith.addf %x, %p : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
