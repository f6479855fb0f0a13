// RUN: heddle-opt %s --split-input-file --heddle-forward-slices | FileCheck %s

// A slice is the value that was inserted there; the tensor is not needed.
// CHECK-LABEL: @forward
// CHECK-SAME: (%[[A:.*]]: tensor<1x4xf32>, %[[B:.*]]: tensor<1x4xf32>, %{{.*}}: tensor<2x4xf32>)
// CHECK-NEXT: return %[[A]], %[[B]]
func.func @forward(%a: tensor<1x4xf32>, %b: tensor<1x4xf32>, %c: tensor<2x4xf32>)
    -> (tensor<1x4xf32>, tensor<1x4xf32>) {
  %c1 = arith.constant 1 : index
  %0 = tensor.insert_slice %a into %c[0, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<2x4xf32>
  %1 = tensor.insert_slice %b into %0[%c1, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<2x4xf32>
  %2 = tensor.extract_slice %1[0, 0] [1, 4] [1, 1] : tensor<2x4xf32> to tensor<1x4xf32>
  %3 = tensor.extract_slice %1[%c1, 0] [1, 4] [1, 1] : tensor<2x4xf32> to tensor<1x4xf32>
  return %2, %3 : tensor<1x4xf32>, tensor<1x4xf32>
}

// -----

// A slice that meets no insertion is read from the tensor before it. One that
// meets a part of it is read from its result.
// CHECK-LABEL: @other_rows
// CHECK-SAME: (%[[A:.*]]: tensor<1x4xf32>, %[[C:.*]]: tensor<3x4xf32>)
// CHECK: %[[ALL:.*]] = tensor.insert_slice %[[A]] into %[[C]][1, 0]
// CHECK: tensor.extract_slice %[[C]][2, 0]
// CHECK: tensor.extract_slice %[[ALL]][0, 0] [2, 4]
// CHECK: tensor.extract_slice %[[ALL]][0, 0] [2, 4] [2, 1]
func.func @other_rows(%a: tensor<1x4xf32>, %c: tensor<3x4xf32>)
    -> (tensor<1x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) {
  %0 = tensor.insert_slice %a into %c[1, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<3x4xf32>
  %1 = tensor.extract_slice %0[2, 0] [1, 4] [1, 1] : tensor<3x4xf32> to tensor<1x4xf32>
  %2 = tensor.extract_slice %0[0, 0] [2, 4] [1, 1] : tensor<3x4xf32> to tensor<2x4xf32>
  // Rows 0 and 2 lie around the insertion: only first and last rows are compared.
  %3 = tensor.extract_slice %0[0, 0] [2, 4] [2, 1] : tensor<3x4xf32> to tensor<2x4xf32>
  return %1, %2, %3 : tensor<1x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
}

// -----

// The same place in another type, or at an offset that is computed: read as is.
// CHECK-LABEL: @unknown
// CHECK: %[[ALL:.*]] = tensor.insert_slice
// CHECK: tensor.extract_slice %[[ALL]][0, 0] [1, 4] [1, 1] : tensor<2x4xf32> to tensor<4xf32>
// CHECK: tensor.extract_slice %[[ALL]][%{{.*}}, 0]
// CHECK: %[[MORE:.*]] = tensor.insert_slice %{{.*}} into %[[ALL]][%{{.*}}, 0]
// CHECK: tensor.extract_slice %[[MORE]][1, 0]
func.func @unknown(%a: tensor<1x4xf32>, %c: tensor<2x4xf32>, %i: index)
    -> (tensor<4xf32>, tensor<1x4xf32>, tensor<1x4xf32>) {
  %0 = tensor.insert_slice %a into %c[0, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<2x4xf32>
  %1 = tensor.extract_slice %0[0, 0] [1, 4] [1, 1] : tensor<2x4xf32> to tensor<4xf32>
  %2 = tensor.extract_slice %0[%i, 0] [1, 4] [1, 1] : tensor<2x4xf32> to tensor<1x4xf32>
  %3 = tensor.insert_slice %a into %0[%i, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<2x4xf32>
  %4 = tensor.extract_slice %3[1, 0] [1, 4] [1, 1] : tensor<2x4xf32> to tensor<1x4xf32>
  return %1, %2, %4 : tensor<4xf32>, tensor<1x4xf32>, tensor<1x4xf32>
}

// -----

// Insertions that fill a tensor are a concatenation, whatever their order. Of
// two at one place the later one counts.
// CHECK-LABEL: @fill
// CHECK-SAME: (%[[A:.*]]: tensor<2x1xf32>, %[[B:.*]]: tensor<2x2xf32>, %[[D:.*]]: tensor<2x1xf32>, %{{.*}}: tensor<2x3xf32>)
// CHECK-NEXT: %[[ALL:.*]] = tensor.concat dim(1) %[[D]], %[[B]]
// CHECK-NEXT: return %[[ALL]]
func.func @fill(%a: tensor<2x1xf32>, %b: tensor<2x2xf32>, %d: tensor<2x1xf32>, %c: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = tensor.insert_slice %a into %c[0, 0] [2, 1] [1, 1] : tensor<2x1xf32> into tensor<2x3xf32>
  %1 = tensor.insert_slice %b into %0[0, 1] [2, 2] [1, 1] : tensor<2x2xf32> into tensor<2x3xf32>
  %2 = tensor.insert_slice %d into %1[0, 0] [2, 1] [1, 1] : tensor<2x1xf32> into tensor<2x3xf32>
  return %2 : tensor<2x3xf32>
}

// -----

// Insertions that overlap, leave a gap, or end beyond the tensor's step stay.
// CHECK-LABEL: @no_fill
// CHECK-COUNT-6: tensor.insert_slice
// CHECK-NOT: tensor.concat
func.func @no_fill(%a: tensor<2x4xf32>, %c: tensor<3x4xf32>, %d: tensor<4x4xf32>)
    -> (tensor<3x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = tensor.insert_slice %a into %c[0, 0] [2, 4] [1, 1] : tensor<2x4xf32> into tensor<3x4xf32>
  %1 = tensor.insert_slice %a into %0[1, 0] [2, 4] [1, 1] : tensor<2x4xf32> into tensor<3x4xf32>
  %2 = tensor.insert_slice %a into %d[2, 0] [2, 4] [1, 1] : tensor<2x4xf32> into tensor<4x4xf32>
  %3 = tensor.insert_slice %a into %d[0, 0] [2, 4] [2, 1] : tensor<2x4xf32> into tensor<4x4xf32>
  %4 = tensor.insert_slice %a into %3[1, 0] [2, 4] [2, 1] : tensor<2x4xf32> into tensor<4x4xf32>
  %5 = tensor.insert_slice %1 into %4[1, 0] [3, 4] [1, 1] : tensor<3x4xf32> into tensor<4x4xf32>
  return %1, %2, %5 : tensor<3x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// A slice that is read backwards, and insertions beyond the end or out of order
// within a part, stay.
// CHECK-LABEL: @backwards
// CHECK: %[[ALL:.*]] = tensor.insert_slice
// CHECK: tensor.extract_slice %[[ALL]][1]
// CHECK-COUNT-2: tensor.insert_slice
// CHECK-NOT: tensor.concat
func.func @backwards(%a: tensor<4xf32>, %c: tensor<4xf32>, %b: tensor<2x1xf32>, %d: tensor<2x2xf32>)
    -> (tensor<1xf32>, tensor<2x2xf32>) {
  %0 = tensor.insert_slice %a into %c[3] [4] [-1] : tensor<4xf32> into tensor<4xf32>
  %1 = tensor.extract_slice %0[1] [1] [1] : tensor<4xf32> to tensor<1xf32>
  %2 = tensor.insert_slice %b into %d[1, 0] [2, 1] [-1, 1] : tensor<2x1xf32> into tensor<2x2xf32>
  %3 = tensor.insert_slice %b into %2[1, 1] [2, 1] [-1, 1] : tensor<2x1xf32> into tensor<2x2xf32>
  return %1, %3 : tensor<1xf32>, tensor<2x2xf32>
}

// -----

// A buffer that is read whole between insertions is not joined anew each time.
// CHECK-LABEL: @read_between
// CHECK-COUNT-2: tensor.insert_slice
// CHECK-NOT: tensor.concat
func.func @read_between(%a: tensor<1x4xf32>, %b: tensor<1x4xf32>, %c: tensor<2x4xf32>)
    -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %0 = tensor.insert_slice %a into %c[0, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<2x4xf32>
  %1 = math.exp %0 : tensor<2x4xf32>
  %2 = tensor.insert_slice %b into %0[1, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<2x4xf32>
  return %1, %2 : tensor<2x4xf32>, tensor<2x4xf32>
}
