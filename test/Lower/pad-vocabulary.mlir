// RUN: heddle-opt %s --heddle-pad-vocabulary | FileCheck %s

module attributes {heddle.target_gpu = "sm_80"} {

// 100 logits of 16 bits take 200 bytes, no multiple of 16: rows of 128 do. The
// padding of the table is zero, that of the logits counts as the lowest number.
// CHECK-LABEL: func.func @head
// CHECK-SAME: %[[N:.*]]: tensor<4x8xbf16>, %[[W:.*]]: tensor<100x8xf32>, %[[T:.*]]: tensor<4xi32>, %[[G:.*]]: tensor<4xf32>
// CHECK: %[[P:.*]] = tensor.pad %[[W]] low[0, 0] high[28, 0]
// CHECK: %[[TABLE:.*]] = arith.truncf %[[P]] : tensor<128x8xf32> to tensor<128x8xbf16>
// CHECK: %[[X:.*]] = heddle.contract [th, vh -> tv] %[[N]], %[[TABLE]] : {{.*}} -> tensor<4x128xbf16>
// CHECK: %[[M:.*]] = heddle.mask_padding %[[X]] dims [1] sizes [100] {{.*}} value(lowest)
// CHECK: %[[LSE:.*]] = heddle.logsumexp %[[M]]
// CHECK: heddle.pick %[[X]], %[[T]]
// CHECK: %[[D:.*]] = heddle.cross_entropy_grad %[[M]], %[[T]], %[[LSE]], %[[G]] : {{.*}} -> tensor<4x128xbf16>
// CHECK: %[[DN:.*]] = heddle.contract pass(dgrad) [tv, vh -> th] %[[D]], %[[TABLE]] : {{.*}} -> tensor<4x8xbf16>
// CHECK: %[[DP:.*]] = heddle.contract pass(wgrad) [th, tv -> vh] %[[N]], %[[D]] : {{.*}} -> tensor<128x8xf32>
// CHECK: %[[DW:.*]] = tensor.extract_slice %[[DP]][0, 0] [100, 8] [1, 1]
// CHECK: return %{{.*}}, %[[DN]], %[[DW]]
func.func @head(%n: tensor<4x8xbf16>, %w: tensor<100x8xf32>, %t: tensor<4xi32>, %g: tensor<4xf32>)
    -> (tensor<4xf32>, tensor<4x8xbf16>, tensor<100x8xf32>) {
  %table = arith.truncf %w : tensor<100x8xf32> to tensor<100x8xbf16>
  %x = heddle.contract [th, vh -> tv] %n, %table : (tensor<4x8xbf16>, tensor<100x8xbf16>) -> tensor<4x100xbf16>
  %loss, %lse = heddle.cross_entropy %x, %t : tensor<4x100xbf16>, tensor<4xi32> -> tensor<4xf32>, tensor<4xf32>
  %d = heddle.cross_entropy_grad %x, %t, %lse, %g : tensor<4x100xbf16>, tensor<4xi32>, tensor<4xf32>, tensor<4xf32> -> tensor<4x100xbf16>
  %dn = heddle.contract pass(dgrad) [tv, vh -> th] %d, %table : (tensor<4x100xbf16>, tensor<100x8xbf16>) -> tensor<4x8xbf16>
  %dw = heddle.contract pass(wgrad) [th, tv -> vh] %n, %d : (tensor<4x8xbf16>, tensor<4x100xbf16>) -> tensor<100x8xf32>
  return %loss, %dn, %dw : tensor<4xf32>, tensor<4x8xbf16>, tensor<100x8xf32>
}

// Logits that the program returns stay, and so do those with rows of 16 bytes.
// CHECK-LABEL: func.func @returned
// CHECK-NOT: tensor.pad
func.func @returned(%n: tensor<4x8xbf16>, %w: tensor<100x8xbf16>, %v: tensor<104x8xbf16>, %t: tensor<4xi32>) -> (tensor<4x100xbf16>, tensor<4xf32>, tensor<4xf32>) {
  %x = heddle.contract [th, vh -> tv] %n, %w : (tensor<4x8xbf16>, tensor<100x8xbf16>) -> tensor<4x100xbf16>
  %loss, %lse = heddle.cross_entropy %x, %t : tensor<4x100xbf16>, tensor<4xi32> -> tensor<4xf32>, tensor<4xf32>
  %y = heddle.contract [th, vh -> tv] %n, %v : (tensor<4x8xbf16>, tensor<104x8xbf16>) -> tensor<4x104xbf16>
  %other, %l = heddle.cross_entropy %y, %t : tensor<4x104xbf16>, tensor<4xi32> -> tensor<4xf32>, tensor<4xf32>
  return %x, %loss, %other : tensor<4x100xbf16>, tensor<4xf32>, tensor<4xf32>
}

// A scalar has no rows to pad.
// CHECK-LABEL: func.func @scalar
// CHECK: heddle.contract [i, i -> ]
func.func @scalar(%a: tensor<100xbf16>, %b: tensor<100xbf16>) -> tensor<bf16> {
  %x = heddle.contract [i, i -> ] %a, %b : (tensor<100xbf16>, tensor<100xbf16>) -> tensor<bf16>
  return %x : tensor<bf16>
}

}
