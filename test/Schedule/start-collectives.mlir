// RUN: heddle-opt %s --heddle-start-collectives=streams=2 | FileCheck %s --check-prefixes=CHECK,EARLIEST
// RUN: heddle-opt %s --heddle-start-collectives="order=latest streams=1" | FileCheck %s --check-prefixes=CHECK,LATEST
// RUN: heddle-opt %s --heddle-start-collectives="order=random seed=1" -o %t.1
// RUN: heddle-opt %s --heddle-start-collectives="order=random seed=1" | diff - %t.1
// RUN: heddle-opt %s --heddle-start-collectives="order=random seed=2" | not diff - %t.1
// RUN: not heddle-opt %s --heddle-start-collectives=streams=8 2>&1 | FileCheck %s --check-prefix=STREAMS
// STREAMS: expected from 1 to 7 communication streams, got 8

heddle.mesh @mesh <["dp"=2, "tp"=2]>
heddle.variable @w : tensor<8x8xf32> parameter init(zeros)
func.func private @make(tensor<8x8xf32>) -> tensor<8x8xf32> attributes {heddle.kernel}
func.func private @merge(tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> attributes {heddle.kernel}

// The result of the first collective is read late. The operand of the second is
// computed between. The third reads the result of the second.
// CHECK-LABEL: func.func @step
func.func @step(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // EARLIEST-NEXT: %[[T:.*]] = comm.start {heddle.serves = #heddle.serves<activation ["f"]>} : <tensor<8x8xf32>> {
  // EARLIEST-NEXT: %[[R:.*]] = comm.all_reduce sum %{{.*}} over @mesh <{"tp"}>
  // EARLIEST-NEXT: comm.yield %[[R]]
  // EARLIEST-NEXT: }
  // EARLIEST-NEXT: %[[A:.*]] = call @make
  // EARLIEST-NEXT: %[[U:.*]] = comm.start stream(2)
  // EARLIEST-NEXT: comm.reduce_scatter sum %[[A]]
  // EARLIEST: %[[B:.*]] = call @make(%[[A]])
  // EARLIEST-NEXT: %[[P:.*]] = comm.wait %[[U]] : <tensor<4x8xf32>>
  // EARLIEST-NEXT: %[[V:.*]] = comm.start stream(2)
  // EARLIEST-NEXT: comm.all_gather %[[P]]
  // EARLIEST: %[[F:.*]] = comm.wait %[[T]] {heddle.serves = #heddle.serves<activation ["f"]>} : <tensor<8x8xf32>>
  // EARLIEST-NEXT: %[[D:.*]] = call @merge(%[[B]], %[[F]])
  // EARLIEST-NEXT: %[[Q:.*]] = comm.wait %[[V]]
  // EARLIEST-NEXT: call @merge(%[[D]], %[[Q]])

  // LATEST-NEXT: %[[A:.*]] = call @make
  // LATEST-NEXT: %[[B:.*]] = call @make(%[[A]])
  // LATEST-NEXT: %[[T:.*]] = comm.start {heddle.serves
  // LATEST: %[[F:.*]] = comm.wait %[[T]]
  // LATEST-NEXT: %[[D:.*]] = call @merge(%[[B]], %[[F]])
  // LATEST-NEXT: %[[U:.*]] = comm.start :
  // LATEST: %[[P:.*]] = comm.wait %[[U]]
  // LATEST-NEXT: %[[V:.*]] = comm.start :
  // LATEST: %[[Q:.*]] = comm.wait %[[V]]
  // LATEST-NEXT: call @merge(%[[D]], %[[Q]])
  %a = func.call @make(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %f = comm.all_reduce sum %x over @mesh <{"tp"}> {heddle.serves = #heddle.serves<activation ["f"]>} : tensor<8x8xf32>
  %p = comm.reduce_scatter sum %a dim 0 over @mesh <{"dp"}> : tensor<8x8xf32> -> tensor<4x8xf32>
  %b = func.call @make(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %q = comm.all_gather %p dim 0 over @mesh <{"dp"}> : tensor<4x8xf32> -> tensor<8x8xf32>
  %d = func.call @merge(%b, %f) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %e = func.call @merge(%d, %q) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %e : tensor<8x8xf32>
}

// A collective with a start stays as it is. A result without readers is waited
// for at the end.
// CHECK-LABEL: func.func @rest
func.func @rest(%x: tensor<8x8xf32>) {
  // CHECK: %[[T:.*]] = comm.start stream(3)
  // CHECK-NEXT: comm.all_reduce
  // EARLIEST: %[[U:.*]] = comm.start :
  // EARLIEST-NEXT: comm.broadcast
  // CHECK: comm.wait %[[T]]
  // LATEST: %[[U:.*]] = comm.start :
  // LATEST-NEXT: comm.broadcast
  // CHECK: comm.wait %[[U]]
  // CHECK-NEXT: return
  %t = comm.start stream(3) : !comm.token<tensor<8x8xf32>> {
    %s = comm.all_reduce sum %x over @mesh <{"tp"}> : tensor<8x8xf32>
    comm.yield %s : tensor<8x8xf32>
  }
  %y = comm.wait %t : !comm.token<tensor<8x8xf32>>
  %z = comm.broadcast %x root 0 over @mesh <{"tp"}> : tensor<8x8xf32>
  heddle.store %y, @w : tensor<8x8xf32>
  return
}
