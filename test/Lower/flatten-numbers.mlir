// RUN: heddle-opt %s --heddle-flatten-control-flow --heddle-forward-slices | FileCheck %s

// Front ends compute the index of a slice as a tensor without dimensions. It is
// known, too; a computed number is not.
// CHECK-LABEL: @numbers
// CHECK-SAME: (%[[X:.*]]: tensor<3x4xf32>
// CHECK: linalg.generic
// CHECK: tensor.extract_slice %[[X]][2, 0]
// CHECK: linalg.generic
// CHECK: tensor.extract_slice %[[X]][1, 0]
// CHECK-NOT: linalg.generic
func.func @numbers(%x: tensor<3x4xf32>, %n: tensor<i32>) -> (tensor<1x4xf32>, tensor<i32>) {
  %c0 = arith.constant 0 : i32
  %c2 = arith.constant 2 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<1x4xf32>
  %empty = tensor.empty() : tensor<i32>
  %y:2 = scf.for %i = %c0 to %c2 step %c1 iter_args(%h = %zero, %m = %n) -> (tensor<1x4xf32>, tensor<i32>) : i32 {
    %number = tensor.from_elements %i : tensor<i32>
    %from_end = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []} ins(%number : tensor<i32>) outs(%empty : tensor<i32>) {
    ^bb0(%in: i32, %out: i32):
      %d = arith.subi %c2, %in : i32
      linalg.yield %d : i32
    } -> tensor<i32>
    %next = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []} ins(%m : tensor<i32>) outs(%empty : tensor<i32>) {
    ^bb0(%in: i32, %out: i32):
      %d = arith.addi %c2, %in : i32
      linalg.yield %d : i32
    } -> tensor<i32>
    %k = tensor.extract %from_end[] : tensor<i32>
    %j = arith.index_cast %k : i32 to index
    %row = tensor.extract_slice %x[%j, 0] [1, 4] [1, 1] : tensor<3x4xf32> to tensor<1x4xf32>
    %g = arith.addf %h, %row : tensor<1x4xf32>
    scf.yield %g, %next : tensor<1x4xf32>, tensor<i32>
  }
  return %y#0, %y#1 : tensor<1x4xf32>, tensor<i32>
}
