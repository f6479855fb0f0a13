// RUN: heddle-opt %s --heddle-order-program | FileCheck %s
// RUN: heddle-opt %s --heddle-order-program=report -o %t 2>&1 | FileCheck %s --check-prefix=REPORT
// RUN: not heddle-opt %s --heddle-order-program=streams=0 2>&1 | FileCheck %s --check-prefix=STREAMS
// RUN: not heddle-opt %s --heddle-order-program=memory=-1 2>&1 | FileCheck %s --check-prefix=MEMORY
// MEMORY: expected a memory of at least 0 bytes, got -1
// STREAMS: expected from 1 to 7 communication streams, got 0

heddle.mesh @mesh <["dp"=2, "tp"=2]>
heddle.variable @w : tensor<1024x1024xf32> parameter init(zeros)
heddle.variable @v : tensor<1024x1024xf32> parameter init(zeros)

// The second half's product runs beside the first half's collective, and so
// does the gradient's product, which stands last.
// REPORT: remark: @halves takes {{.*}} ms by the cost model, {{.*}} ms if nothing overlaps; at least {{.*}} ms (computation {{.*}} ms, links {{.*}} ms, longest chain {{.*}} ms); {{.*}} bytes are live at most, {{.*}} in the order of the text
// CHECK-LABEL: func.func @halves
func.func @halves(%x: tensor<1024x1024xf32>, %y: tensor<1024x1024xf32>) -> (tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>) {
  // CHECK: %[[W:.*]] = heddle.load @w
  // CHECK-NEXT: %[[A:.*]] = heddle.contract [ij, jk -> ik] %{{.*}}, %[[W]]
  // CHECK-NEXT: %[[S:.*]] = comm.start
  // CHECK-NEXT: comm.all_reduce sum %[[A]]
  // CHECK: %[[B:.*]] = heddle.contract [ij, jk -> ik] %{{.*}}, %[[W]]
  // CHECK-NEXT: %[[T:.*]] = comm.start
  // CHECK-NEXT: comm.all_reduce sum %[[B]]
  // CHECK: %[[G:.*]] = heddle.contract [ij, ik -> jk]
  // CHECK: %[[P:.*]] = comm.wait %[[S]]
  // CHECK: %[[Q:.*]] = comm.wait %[[T]]
  // CHECK: return
  %w = heddle.load @w : tensor<1024x1024xf32>
  %a = heddle.contract [ij, jk -> ik] %x, %w : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %p = comm.all_reduce sum %a over @mesh <{"tp"}> : tensor<1024x1024xf32>
  %b = heddle.contract [ij, jk -> ik] %y, %w : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %q = comm.all_reduce sum %b over @mesh <{"tp"}> : tensor<1024x1024xf32>
  %g = heddle.contract [ij, ik -> jk] %x, %y : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  return %p, %q, %g : tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>
}

// The operand of the scatter has 2 MB more than its result, so the wait does not
// stand only before the result is read. The scatter takes some 0.1 ms. The first
// product beside it ends earlier than twice that, the second one later.
// CHECK-LABEL: func.func @scatter
func.func @scatter(%x: tensor<1024x1024xf32>, %y: tensor<1024x1024xf32>) -> (tensor<512x1024xf32>, tensor<1024x1024xf32>) {
  // CHECK: %[[G:.*]] = heddle.contract [ij, ik -> jk]
  // CHECK-NEXT: %[[S:.*]] = comm.start
  // CHECK-NEXT: comm.reduce_scatter sum %[[G]]
  // CHECK: %[[A:.*]] = heddle.contract [ij, jk -> ik]
  // CHECK-NEXT: %[[B:.*]] = heddle.contract [ij, jk -> ik] %[[A]]
  // CHECK-NEXT: comm.wait %[[S]]
  // CHECK-NEXT: heddle.contract [ij, jk -> ik] %[[B]]
  %w = heddle.load @w : tensor<1024x1024xf32>
  %g = heddle.contract [ij, ik -> jk] %x, %y {schedule.seconds = 0.001 : f64} : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %p = comm.reduce_scatter sum %g dim 0 over @mesh <{"dp"}> : tensor<1024x1024xf32> -> tensor<512x1024xf32>
  %a = heddle.contract [ij, jk -> ik] %x, %w {schedule.seconds = 0.00013 : f64} : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %b = heddle.contract [ij, jk -> ik] %a, %w {schedule.seconds = 0.0005 : f64} : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %c = heddle.contract [ij, jk -> ik] %b, %w {schedule.seconds = 0.002 : f64} : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  return %p, %c : tensor<512x1024xf32>, tensor<1024x1024xf32>
}

// An operand that is read later, and a small one, are not waited for early.
// CHECK-LABEL: func.func @unfreed
func.func @unfreed(%x: tensor<1024x1024xf32>, %u: tensor<64x64xf32>) -> (tensor<512x1024xf32>, tensor<32x64xf32>, tensor<1024x1024xf32>) {
  // CHECK-COUNT-5: heddle.contract
  // CHECK-NOT: heddle.contract
  // CHECK: comm.wait
  // CHECK: comm.wait
  // CHECK: return
  %w = heddle.load @w : tensor<1024x1024xf32>
  %g = heddle.contract [ij, ik -> jk] %x, %x {schedule.seconds = 0.001 : f64} : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %p = comm.reduce_scatter sum %g dim 0 over @mesh <{"dp"}> : tensor<1024x1024xf32> -> tensor<512x1024xf32>
  %h = heddle.contract [ij, ik -> jk] %u, %u {schedule.seconds = 0.001 : f64} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %q = comm.reduce_scatter sum %h dim 0 over @mesh <{"dp"}> : tensor<64x64xf32> -> tensor<32x64xf32>
  %a = heddle.contract [ij, jk -> ik] %x, %w {schedule.seconds = 0.005 : f64} : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %b = heddle.contract [ij, jk -> ik] %a, %w {schedule.seconds = 0.002 : f64} : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %c = heddle.contract [ij, jk -> ik] %b, %g {schedule.seconds = 0.002 : f64} : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  return %p, %q, %c : tensor<512x1024xf32>, tensor<32x64xf32>, tensor<1024x1024xf32>
}

// Products that are known to take 5 and 2 ms.
// REPORT: remark: @measured takes {{.*}} (computation 7.000 ms,
// CHECK-LABEL: func.func @measured
// CHECK-NOT: schedule.seconds
func.func @measured(%x: tensor<1024x1024xf32>, %y: tensor<1024x1024xf32>) -> (tensor<1024x1024xf32>, tensor<1024x1024xf32>) {
  %a = heddle.contract [ij, jk -> ik] %x, %y {schedule.seconds = 5.0e-3 : f64} : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %p = comm.all_reduce sum %a over @mesh <{"tp"}> : tensor<1024x1024xf32>
  %b = heddle.contract [ij, jk -> ik] %y, %x {schedule.seconds = 2.0e-3 : f64} : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  return %p, %b : tensor<1024x1024xf32>, tensor<1024x1024xf32>
}

// An all-reduce that is known to take 10 times as long as its links, and a
// product of 2 ms that takes three times as long as alone while it runs. So
// 1.878 ms of the product's time do 0.626 ms of its work.
// REPORT: remark: @slowed takes 3.252 ms by the cost model, 3.878 ms if nothing overlaps; at least 2.000 ms (computation 2.000 ms, links 1.878 ms,
// CHECK-LABEL: func.func @slowed
// CHECK-NOT: {schedule
func.func @slowed(%x: tensor<1024x1024xf32>, %y: tensor<1024x1024xf32>) -> (tensor<1024x1024xf32>, tensor<1024x1024xf32>) {
  %p = comm.all_reduce sum %x over @mesh <{"tp"}> {schedule.link_factor = 1.0e+1 : f64, schedule.load = 1.0 : f64} : tensor<1024x1024xf32>
  %a = heddle.contract [ij, jk -> ik] %x, %y {schedule.seconds = 2.0e-3 : f64, schedule.slowdown = 3.0 : f64} : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  return %p, %a : tensor<1024x1024xf32>, tensor<1024x1024xf32>
}

// A variable is stored behind all readers of its old value, and loaded anew
// behind the store.
// CHECK-LABEL: func.func @variable
func.func @variable(%x: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
  // CHECK: %[[OLD:.*]] = heddle.load @v
  // CHECK: heddle.contract {{.*}}, %[[OLD]]
  // CHECK: heddle.store %{{.*}}, @v
  // CHECK: %[[NEW:.*]] = heddle.load @v
  // CHECK: heddle.contract {{.*}}, %[[NEW]]
  %old = heddle.load @v : tensor<1024x1024xf32>
  %s = comm.all_reduce sum %x over @mesh <{"tp"}> : tensor<1024x1024xf32>
  %a = heddle.contract [ij, jk -> ik] %s, %old : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  heddle.store %x, @v : tensor<1024x1024xf32>
  %new = heddle.load @v : tensor<1024x1024xf32>
  %b = heddle.contract [ij, jk -> ik] %a, %new : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  return %b : tensor<1024x1024xf32>
}

// What is computed from a barrier's result follows what the barrier waits for:
// the first sum hides the second product alone.
// CHECK-LABEL: func.func @barrier
func.func @barrier(%x: tensor<1024x1024xf32>, %y: tensor<1024x1024xf32>) -> (tensor<1024x1024xf32>, tensor<1024x1024xf32>) {
  // CHECK: heddle.contract [ij, jk -> ik]
  // CHECK: comm.start
  // CHECK: heddle.contract [ij, kj -> ik]
  // CHECK-NOT: heddle.contract
  // CHECK: comm.wait
  // CHECK: %[[C:[0-9]+]] = heddle.contract [ji, jk -> ik]
  // CHECK: %[[Z:[0-9]+]] = heddle.barrier %{{.*}} after %[[C]]
  // CHECK: heddle.contract [ji, kj -> ik] %[[Z]]
  %w = heddle.load @w : tensor<1024x1024xf32>
  %a = heddle.contract [ij, jk -> ik] %x, %w : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %p = comm.all_reduce sum %a over @mesh <{"tp"}> : tensor<1024x1024xf32>
  %b = heddle.contract [ij, kj -> ik] %y, %w : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %c = heddle.contract [ji, jk -> ik] %p, %b : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %z = heddle.barrier %y after %c : tensor<1024x1024xf32> after tensor<1024x1024xf32>
  %d = heddle.contract [ji, kj -> ik] %z, %w : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  return %c, %d : tensor<1024x1024xf32>, tensor<1024x1024xf32>
}

// A program without collectives stays as it is.
// CHECK-LABEL: func.func @alone
func.func @alone(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // CHECK-NEXT: heddle.contract [ij, jk -> ik]
  // CHECK-NEXT: heddle.contract [ji, jk -> ik]
  // CHECK-NEXT: return
  %a = heddle.contract [ij, jk -> ik] %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = heddle.contract [ji, jk -> ik] %a, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %b : tensor<8x8xf32>
}
