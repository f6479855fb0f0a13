// Every op is printed as it is read.
// RUN: heddle-opt %s | heddle-opt | FileCheck %s
// RUN: heddle-opt %s --mlir-print-op-generic | heddle-opt | FileCheck %s
// Collectives are neither merged nor dropped; local ops are.
// RUN: heddle-opt %s --cse --canonicalize | FileCheck %s --check-prefix=KEPT

heddle.mesh @mesh <["dp"=2, "tp"=4]>

// CHECK-LABEL: func.func @collectives
func.func @collectives(%x: tensor<8x6xf32>, %part: tensor<2x6xf32>) {
  // CHECK: comm.all_reduce sum %{{.*}} over @mesh <{"dp", "tp"}> : tensor<8x6xf32>
  %0 = comm.all_reduce sum %x over @mesh <{"dp", "tp"}> : tensor<8x6xf32>
  // CHECK: comm.all_reduce max %{{.*}} over @mesh <{"tp"}>
  %1 = comm.all_reduce max %x over @mesh <{"tp"}> : tensor<8x6xf32>
  // The last part's padding is dropped: 7 rows of 4 x 2.
  // CHECK: comm.all_gather %{{.*}} dim 0 over @mesh <{"tp"}> : tensor<2x6xf32> -> tensor<7x6xf32>
  %2 = comm.all_gather %part dim 0 over @mesh <{"tp"}> : tensor<2x6xf32> -> tensor<7x6xf32>
  // CHECK: comm.reduce_scatter sum %{{.*}} dim 1 over @mesh <{"tp"}> : tensor<8x6xf32> -> tensor<8x2xf32>
  %3 = comm.reduce_scatter sum %x dim 1 over @mesh <{"tp"}> : tensor<8x6xf32> -> tensor<8x2xf32>
  // CHECK: comm.all_to_all %{{.*}} split 1 concat 0 over @mesh <{"dp"}> : tensor<8x6xf32> -> tensor<16x3xf32>
  %4 = comm.all_to_all %x split 1 concat 0 over @mesh <{"dp"}> : tensor<8x6xf32> -> tensor<16x3xf32>
  // CHECK: comm.broadcast %{{.*}} root 3 over @mesh <{"tp"}> : tensor<8x6xf32>
  %5 = comm.broadcast %x root 3 over @mesh <{"tp"}> : tensor<8x6xf32>
  // CHECK: comm.permute %{{.*}} sources [3, 0, 1, -1] over @mesh <{"tp"}> : tensor<8x6xf32>
  %6 = comm.permute %x sources [3, 0, 1, -1] over @mesh <{"tp"}> : tensor<8x6xf32>
  // CHECK: comm.send %{{.*}} shift 1 over @mesh <{"tp"}> : tensor<8x6xf32>
  comm.send %x shift 1 over @mesh <{"tp"}> : tensor<8x6xf32>
  // CHECK: comm.recv shift -1 over @mesh <{"tp"}> : tensor<8x6xf32>
  %7 = comm.recv shift -1 over @mesh <{"tp"}> : tensor<8x6xf32>
  return
}

// CHECK-LABEL: func.func @local
func.func @local(%x: tensor<8x6xf32>) -> (index, tensor<2x6xf32>) {
  // CHECK: comm.axis_index @mesh <{"dp", "tp"}>
  %0 = comm.axis_index @mesh <{"dp", "tp"}>
  // CHECK: comm.slice %{{.*}} dim 0 over @mesh <{"tp"}> : tensor<8x6xf32> -> tensor<2x6xf32>
  %1 = comm.slice %x dim 0 over @mesh <{"tp"}> : tensor<8x6xf32> -> tensor<2x6xf32>
  return %0, %1 : index, tensor<2x6xf32>
}

// CHECK-LABEL: func.func @asynchronous
func.func @asynchronous(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: %[[T:.*]] = comm.start : <tensor<8xf32>> {
  // CHECK:   %[[S:.*]] = comm.all_reduce sum %{{.*}} over @mesh <{"tp"}> : tensor<8xf32>
  // CHECK:   comm.yield %[[S]] : tensor<8xf32>
  // CHECK: }
  // CHECK: comm.wait %[[T]] : <tensor<8xf32>>
  %t = comm.start : !comm.token<tensor<8xf32>> {
    %s = comm.all_reduce sum %x over @mesh <{"tp"}> : tensor<8xf32>
    comm.yield %s : tensor<8xf32>
  }
  %y = comm.wait %t : !comm.token<tensor<8xf32>>
  // CHECK: comm.start stream(2) : <tensor<8xf32>> {
  %u = comm.start stream(2) : !comm.token<tensor<8xf32>> {
    %s = comm.broadcast %y root 1 over @mesh <{"tp"}> : tensor<8xf32>
    comm.yield %s : tensor<8xf32>
  }
  %z = comm.wait %u : !comm.token<tensor<8xf32>>
  return %z : tensor<8xf32>
}

// KEPT-LABEL: func.func @collectives
// KEPT: comm.all_reduce
// KEPT: comm.all_reduce
// KEPT: comm.all_gather
// KEPT: comm.reduce_scatter
// KEPT: comm.all_to_all
// KEPT: comm.broadcast
// KEPT: comm.permute
// KEPT: comm.send
// KEPT: comm.recv

// KEPT-LABEL: func.func @equal_collectives
// KEPT-COUNT-2: comm.all_reduce
// KEPT-COUNT-1: comm.axis_index
// KEPT-NOT: comm.axis_index
// KEPT: return
func.func @equal_collectives(%x: tensor<8xf32>)
    -> (tensor<8xf32>, tensor<8xf32>, index, index) {
  %0 = comm.all_reduce sum %x over @mesh <{"tp"}> : tensor<8xf32>
  %1 = comm.all_reduce sum %x over @mesh <{"tp"}> : tensor<8xf32>
  %2 = comm.axis_index @mesh <{"tp"}>
  %3 = comm.axis_index @mesh <{"tp"}>
  return %0, %1, %2, %3 : tensor<8xf32>, tensor<8xf32>, index, index
}
