// RUN: heddle-opt %s --split-input-file --heddle-pack-collectives --heddle-verify-localized | FileCheck %s
// RUN: heddle-opt %s --split-input-file --heddle-pack-collectives --heddle-pack-collectives | FileCheck %s

heddle.mesh @mesh <["a"=2, "b"=3]>

// Rows that divide are as they are; others are gathered with their padding.
// CHECK-LABEL: @gather_rows
func.func private @gather_rows(%x: tensor<2x4xf32>, %y: tensor<3x4xbf16>) -> (tensor<6x4xf32>, tensor<7x4xbf16>) {
  // CHECK-NEXT: %[[EVEN:.*]] = comm.all_gather %{{.*}} dim 0 over @mesh <{"b"}> : tensor<2x4xf32> -> tensor<6x4xf32>
  %0 = comm.all_gather %x dim 0 over @mesh <{"b"}> : tensor<2x4xf32> -> tensor<6x4xf32>
  // CHECK-NEXT: %[[PADDED:.*]] = comm.all_gather %{{.*}} dim 0 over @mesh <{"b"}> : tensor<3x4xbf16> -> tensor<9x4xbf16>
  // CHECK-NEXT: %[[ROWS:.*]] = tensor.extract_slice %[[PADDED]][0, 0] [7, 4] [1, 1]
  %1 = comm.all_gather %y dim 0 over @mesh <{"b"}> : tensor<3x4xbf16> -> tensor<7x4xbf16>
  // CHECK-NEXT: return %[[EVEN]], %[[ROWS]]
  return %0, %1 : tensor<6x4xf32>, tensor<7x4xbf16>
}

// The members' parts come one after the other, and are brought to their places.
// CHECK-LABEL: @gather_inner
func.func private @gather_inner(%x: tensor<5x2x4xf32>) -> tensor<5x5x4xf32> {
  // CHECK-NEXT: %[[ALL:.*]] = comm.all_gather %{{.*}} dim 0 over @mesh <{"b"}> : tensor<5x2x4xf32> -> tensor<15x2x4xf32>
  // CHECK-NEXT: %[[PARTS:.*]] = tensor.expand_shape %[[ALL]] {{\[\[}}0, 1], [2], [3]] {{.*}} into tensor<3x5x2x4xf32>
  // CHECK-NEXT: %[[INIT:.*]] = tensor.empty() : tensor<5x3x2x4xf32>
  // CHECK-NEXT: %[[MOVED:.*]] = linalg.transpose ins(%[[PARTS]] : {{.*}}) outs(%[[INIT]] : {{.*}}) permutation = [1, 0, 2, 3]
  // CHECK-NEXT: %[[WHOLE:.*]] = tensor.collapse_shape %[[MOVED]] {{\[\[}}0], [1, 2], [3]] {{.*}} into tensor<5x6x4xf32>
  // CHECK-NEXT: tensor.extract_slice %[[WHOLE]][0, 0, 0] [5, 5, 4] [1, 1, 1]
  %0 = comm.all_gather %x dim 1 over @mesh <{"b"}> : tensor<5x2x4xf32> -> tensor<5x5x4xf32>
  return %0 : tensor<5x5x4xf32>
}

// Where only dimensions of one element lie before it, it is outermost.
// CHECK-LABEL: @gather_behind_ones
func.func private @gather_behind_ones(%x: tensor<1x1x2x4xf32>) -> tensor<1x1x6x4xf32> {
  // CHECK-NEXT: %[[ALL:.*]] = comm.all_gather %{{.*}} dim 0 {{.*}} : tensor<1x1x2x4xf32> -> tensor<3x1x2x4xf32>
  // CHECK-NOT: linalg
  // CHECK: return %{{.*}} : tensor<1x1x6x4xf32>
  %0 = comm.all_gather %x dim 2 over @mesh <{"b"}> : tensor<1x1x2x4xf32> -> tensor<1x1x6x4xf32>
  return %0 : tensor<1x1x6x4xf32>
}

// Zeros behind the last row are joined to it.
// CHECK-LABEL: @scatter_rows
func.func private @scatter_rows(%x: tensor<6x4xf32>, %y: tensor<7x4xbf16>) -> (tensor<2x4xf32>, tensor<3x4xbf16>) {
  // CHECK: comm.reduce_scatter sum %{{.*}} dim 0 over @mesh <{"b"}> : tensor<6x4xf32> -> tensor<2x4xf32>
  %0 = comm.reduce_scatter sum %x dim 0 over @mesh <{"b"}> : tensor<6x4xf32> -> tensor<2x4xf32>
  // CHECK: %[[ZEROS:.*]] = arith.constant dense<0.000000e+00> : tensor<2x4xbf16>
  // CHECK-NEXT: %[[PADDED:.*]] = tensor.concat dim(0) %{{.*}}, %[[ZEROS]] : (tensor<7x4xbf16>, tensor<2x4xbf16>) -> tensor<9x4xbf16>
  // CHECK-NEXT: comm.reduce_scatter sum %[[PADDED]] dim 0 over @mesh <{"b"}> : tensor<9x4xbf16> -> tensor<3x4xbf16>
  %1 = comm.reduce_scatter sum %y dim 0 over @mesh <{"b"}> : tensor<7x4xbf16> -> tensor<3x4xbf16>
  return %0, %1 : tensor<2x4xf32>, tensor<3x4xbf16>
}

// CHECK-LABEL: @scatter_inner
func.func private @scatter_inner(%x: tensor<5x5xf32>) -> tensor<5x2xf32> {
  // CHECK: %[[PADDED:.*]] = tensor.insert_slice %{{.*}} into %{{.*}}[0, 0] [5, 5] [1, 1] : tensor<5x5xf32> into tensor<5x6xf32>
  // CHECK-NEXT: %[[PARTS:.*]] = tensor.expand_shape %[[PADDED]] {{.*}} into tensor<5x3x2xf32>
  // CHECK: %[[MOVED:.*]] = linalg.transpose ins(%[[PARTS]] : {{.*}}) {{.*}} permutation = [1, 0, 2]
  // CHECK-NEXT: %[[ROWS:.*]] = tensor.collapse_shape %[[MOVED]] {{.*}} into tensor<15x2xf32>
  // CHECK-NEXT: comm.reduce_scatter max %[[ROWS]] dim 0 over @mesh <{"b"}> : tensor<15x2xf32> -> tensor<5x2xf32>
  // CHECK-NEXT: return
  %0 = comm.reduce_scatter max %x dim 1 over @mesh <{"b"}> : tensor<5x5xf32> -> tensor<5x2xf32>
  return %0 : tensor<5x2xf32>
}

// Sent from an inner dimension, received along the outermost: packed only.
// CHECK-LABEL: @exchange_to_rows
func.func private @exchange_to_rows(%x: tensor<2x6x5xf32>) -> tensor<6x2x5xf32> {
  // CHECK-NEXT: tensor.expand_shape %{{.*}} into tensor<2x3x2x5xf32>
  // CHECK: %[[MOVED:.*]] = linalg.transpose {{.*}} permutation = [1, 0, 2, 3]
  // CHECK-NEXT: %[[SENT:.*]] = tensor.expand_shape %[[MOVED]] {{.*}} into tensor<3x1x2x2x5xf32>
  // CHECK-NEXT: %[[RECEIVED:.*]] = comm.all_to_all %[[SENT]] split 0 concat 1 over @mesh <{"b"}> : tensor<3x1x2x2x5xf32> -> tensor<1x3x2x2x5xf32>
  // CHECK-NEXT: tensor.collapse_shape %[[RECEIVED]] {{.*}} into tensor<3x2x2x5xf32>
  // CHECK-NEXT: %[[ROWS:.*]] = tensor.collapse_shape {{.*}} into tensor<6x2x5xf32>
  // CHECK-NEXT: return %[[ROWS]]
  %0 = comm.all_to_all %x split 1 concat 0 over @mesh <{"b"}> : tensor<2x6x5xf32> -> tensor<6x2x5xf32>
  return %0 : tensor<6x2x5xf32>
}

// The other way round, and with padding: unpacked only.
// CHECK-LABEL: @exchange_from_rows
func.func private @exchange_from_rows(%x: tensor<5x2x4xf32>) -> tensor<2x4x4xf32> {
  // CHECK: %[[PADDED:.*]] = tensor.concat dim(0) {{.*}} -> tensor<6x2x4xf32>
  // CHECK-NOT: linalg.transpose
  // CHECK: comm.all_to_all %{{.*}} split 0 concat 1 over @mesh <{"b"}> : tensor<3x1x2x2x4xf32> -> tensor<1x3x2x2x4xf32>
  // CHECK: linalg.transpose {{.*}} permutation = [1, 0, 2, 3]
  // CHECK-NEXT: tensor.collapse_shape {{.*}} into tensor<2x6x4xf32>
  // CHECK-NEXT: tensor.extract_slice {{.*}}[0, 0, 0] [2, 4, 4] [1, 1, 1]
  %0 = comm.all_to_all %x split 0 concat 1 over @mesh <{"b"}> : tensor<5x2x4xf32> -> tensor<2x4x4xf32>
  return %0 : tensor<2x4x4xf32>
}

// What is in flight is packed before it starts and unpacked where it is needed.
// CHECK-LABEL: @started
func.func private @started(%x: tensor<2x4xf32>, %y: tensor<2x6xf32>) -> (tensor<2x12xf32>, tensor<2x2xf32>) {
  // CHECK-NEXT: %[[GATHER:.*]] = comm.start : <tensor<6x4xf32>> {
  // CHECK-NEXT: %[[ALL:.*]] = comm.all_gather %{{.*}} dim 0 over @mesh <{"b"}> : tensor<2x4xf32> -> tensor<6x4xf32>
  // CHECK-NEXT: comm.yield %[[ALL]] : tensor<6x4xf32>
  %t = comm.start : !comm.token<tensor<2x12xf32>> {
    %0 = comm.all_gather %x dim 1 over @mesh <{"b"}> : tensor<2x4xf32> -> tensor<2x12xf32>
    comm.yield %0 : tensor<2x12xf32>
  }
  // CHECK: linalg.transpose
  // CHECK: %[[SCATTER:.*]] = comm.start : <tensor<2x2xf32>> {
  %u = comm.start : !comm.token<tensor<2x2xf32>> {
    %1 = comm.reduce_scatter sum %y dim 1 over @mesh <{"b"}> : tensor<2x6xf32> -> tensor<2x2xf32>
    comm.yield %1 : tensor<2x2xf32>
  }
  // CHECK: %[[RECEIVED:.*]] = comm.wait %[[GATHER]] : <tensor<6x4xf32>>
  // CHECK-NEXT: tensor.expand_shape %[[RECEIVED]]
  // CHECK: %[[WHOLE:.*]] = tensor.collapse_shape {{.*}} into tensor<2x12xf32>
  %2 = comm.wait %t : !comm.token<tensor<2x12xf32>>
  // CHECK-NEXT: %[[PART:.*]] = comm.wait %[[SCATTER]]
  %3 = comm.wait %u : !comm.token<tensor<2x2xf32>>
  // CHECK-NEXT: return %[[WHOLE]], %[[PART]]
  return %2, %3 : tensor<2x12xf32>, tensor<2x2xf32>
}

// Contiguous as they are.
// CHECK-LABEL: @others
func.func private @others(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // CHECK-NEXT: comm.all_reduce
  // CHECK-NEXT: comm.broadcast
  // CHECK-NEXT: comm.permute
  // CHECK-NEXT: return
  %0 = comm.all_reduce sum %x over @mesh <{"b"}> : tensor<4x4xf32>
  %1 = comm.broadcast %0 root 1 over @mesh <{"a"}> : tensor<4x4xf32>
  %2 = comm.permute %1 sources [1, 0] over @mesh <{"a"}> : tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}
