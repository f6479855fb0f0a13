// RUN: heddle-opt %s --heddle-fuse-library-epilogues --split-input-file | FileCheck %s
// RUN: heddle-opt %s --heddle-fuse-library-epilogues --heddle-decompose-ops --heddle-form-kernels --heddle-plan-arenas --heddle-lower-to-rt --split-input-file | FileCheck %s --check-prefix=RT

module attributes {heddle.target_gpu = "sm_80"} {

// A layer's forward and backward pass. gelu's input is kept, the gradient of
// gelu is part of the product before it, and the bias has its gradient from the
// weight's product.
// CHECK-LABEL: func.func @mlp
// CHECK-SAME: %[[X:.*]]: tensor<4x8xbf16>, %[[W:.*]]: tensor<8x16xbf16>, %[[B:.*]]: tensor<16xbf16>, %[[V:.*]]: tensor<16x8xbf16>, %[[D:.*]]: tensor<4x8xbf16>
// CHECK-NEXT: %[[Y:.*]], %[[U:.*]] = heddle.fused_contract gelu [th, hf -> tf] %[[X]], %[[W]] bias(%[[B]] along [1])
// CHECK-NEXT: %[[DU:.*]] = heddle.fused_contract gelu_grad [th, fh -> tf] %[[D]], %[[V]] input(%[[U]])
// CHECK-NEXT: %[[DW:.*]], %[[DB:.*]] = heddle.fused_contract rhs_sums [th, tf -> hf] %[[X]], %[[DU]]
// CHECK-NEXT: return %[[Y]], %[[DW]], %[[DB]]
// RT-LABEL: rt.program @mlp
// RT: rt.matmul {{.*}} bias({{.*}}) epilogue gelu arena
// RT: rt.matmul {{.*}} epilogue gelu_grad arena
// RT: rt.matmul {{.*}} epilogue rhs_sums result 2[0 : 16xf32]
func.func @mlp(%x: tensor<4x8xbf16>, %w: tensor<8x16xbf16>, %b: tensor<16xbf16>, %v: tensor<16x8xbf16>, %d: tensor<4x8xbf16>)
    -> (tensor<4x16xbf16>, tensor<8x16xf32>, tensor<16xf32>) {
  %u = heddle.contract [th, hf -> tf] %x, %w bias(%b along [1]) : (tensor<4x8xbf16>, tensor<8x16xbf16>, tensor<16xbf16>) -> tensor<4x16xbf16>
  %y = heddle.gelu %u approximate(tanh) : tensor<4x16xbf16>
  %dy = heddle.contract [th, fh -> tf] %d, %v : (tensor<4x8xbf16>, tensor<16x8xbf16>) -> tensor<4x16xbf16>
  %du = heddle.gelu_grad %u, %dy approximate(tanh) : tensor<4x16xbf16>
  %db = heddle.reduce sum %du over [0] : tensor<4x16xbf16> -> tensor<16xf32>
  %dw = heddle.contract [th, tf -> hf] %x, %du : (tensor<4x8xbf16>, tensor<4x16xbf16>) -> tensor<8x16xf32>
  return %y, %dw, %db : tensor<4x16xbf16>, tensor<8x16xf32>, tensor<16xf32>
}

// A weight [out, in]: the sums are those of the product's rows.
// CHECK-LABEL: func.func @transposed
// CHECK: heddle.fused_contract lhs_sums [to, ti -> oi]
// RT-LABEL: rt.program @transposed
// RT: rt.matmul {{.*}} epilogue lhs_sums result 1[0 : 16xf32]
func.func @transposed(%x: tensor<4x8xbf16>, %d: tensor<4x16xbf16>) -> (tensor<16x8xf32>, tensor<16xf32>) {
  %db = heddle.reduce sum %d over [0] : tensor<4x16xbf16> -> tensor<16xf32>
  %dw = heddle.contract [to, ti -> oi] %d, %x : (tensor<4x16xbf16>, tensor<4x8xbf16>) -> tensor<16x8xf32>
  return %dw, %db : tensor<16x8xf32>, tensor<16xf32>
}

// The parts of a fused projection have their sums one after the other.
// CHECK-LABEL: func.func @parts
// CHECK: heddle.fused_contract rhs_sums
// RT-LABEL: rt.program @parts
// RT: rt.matmul {{.*}} loops [{{.*}}bias = 6>] epilogue rhs_sums result 1[0 : 3x2x3xf32]
func.func @parts(%x: tensor<4x8xbf16>, %d: tensor<3x4x2x3xbf16>) -> (tensor<8x3x2x3xf32>, tensor<3x2x3xf32>) {
  %db = heddle.reduce sum %d over [1] : tensor<3x4x2x3xbf16> -> tensor<3x2x3xf32>
  %dw = heddle.contract [sh, csnd -> hcnd] %x, %d : (tensor<4x8xbf16>, tensor<3x4x2x3xbf16>) -> tensor<8x3x2x3xf32>
  return %dw, %db : tensor<8x3x2x3xf32>, tensor<3x2x3xf32>
}

// What cuBLASLt does not have stays: gelu without tanh, rows that do not begin
// at multiples of 8 elements, sums over other dimensions, and sums of another
// type. Without training, gelu's input need not be kept.
// CHECK-LABEL: func.func @others
// CHECK-NOT: fused_contract
func.func @others(%x: tensor<4x8xbf16>, %w: tensor<8x16xbf16>, %odd: tensor<8x12xbf16>, %d: tensor<4x16xbf16>)
    -> (tensor<4x16xbf16>, tensor<4x16xbf16>, tensor<4x12xbf16>, tensor<4x12xbf16>, tensor<4xf32>, tensor<16xbf16>, tensor<8x16xf32>, tensor<4x16xbf16>) {
  %u = heddle.contract [th, hf -> tf] %x, %w : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> tensor<4x16xbf16>
  %y = heddle.gelu %u approximate(none) : tensor<4x16xbf16>
  %o = heddle.contract [th, hf -> tf] %x, %odd : (tensor<4x8xbf16>, tensor<8x12xbf16>) -> tensor<4x12xbf16>
  %yo = heddle.gelu %o approximate(tanh) : tensor<4x12xbf16>
  %rows = heddle.reduce sum %d over [1] : tensor<4x16xbf16> -> tensor<4xf32>
  %narrow = heddle.reduce sum %d over [0] : tensor<4x16xbf16> -> tensor<16xbf16>
  %dw = heddle.contract [th, tf -> hf] %x, %d : (tensor<4x8xbf16>, tensor<4x16xbf16>) -> tensor<8x16xf32>
  %p = heddle.contract [th, hf -> tf] %x, %w : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> tensor<4x16xbf16>
  %once = heddle.gelu %p approximate(tanh) : tensor<4x16xbf16>
  return %u, %y, %o, %yo, %rows, %narrow, %dw, %once : tensor<4x16xbf16>, tensor<4x16xbf16>, tensor<4x12xbf16>, tensor<4x12xbf16>, tensor<4xf32>, tensor<16xbf16>, tensor<8x16xf32>, tensor<4x16xbf16>
}
}

// -----

// Nor has a GPU's library those of products of f32, for certain.
module attributes {heddle.target_gpu = "sm_80"} {
// CHECK-LABEL: func.func @wide
// CHECK-NOT: fused_contract
func.func @wide(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %d: tensor<4x16xf32>)
    -> (tensor<4x16xf32>, tensor<4x16xf32>, tensor<8x16xf32>, tensor<16xf32>) {
  %u = heddle.contract [th, hf -> tf] %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %y = heddle.gelu %u approximate(tanh) : tensor<4x16xf32>
  %db = heddle.reduce sum %d over [0] : tensor<4x16xf32> -> tensor<16xf32>
  %dw = heddle.contract [th, tf -> hf] %x, %d : (tensor<4x8xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>
  return %u, %y, %dw, %db : tensor<4x16xf32>, tensor<4x16xf32>, tensor<8x16xf32>, tensor<16xf32>
}
}

// -----

// A CPU's library has no such epilogues.
// CHECK-LABEL: func.func @on_a_cpu
// CHECK-NOT: fused_contract
func.func @on_a_cpu(%x: tensor<4x8xbf16>, %d: tensor<4x16xbf16>) -> (tensor<8x16xf32>, tensor<16xf32>) {
  %db = heddle.reduce sum %d over [0] : tensor<4x16xbf16> -> tensor<16xf32>
  %dw = heddle.contract [th, tf -> hf] %x, %d : (tensor<4x8xbf16>, tensor<4x16xbf16>) -> tensor<8x16xf32>
  return %dw, %db : tensor<8x16xf32>, tensor<16xf32>
}
