// RUN: heddle-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(heddle-combine-collectives{max-bytes=64 max-weight=0}))" | FileCheck %s

// Independent small all-reduces become one. Users of the first come after it.
heddle.mesh @mesh <["dp"=2, "tp"=2]>
// CHECK-LABEL: @independent
// CHECK-SAME: (%[[A:.*]]: tensor<f32>, %[[B:.*]]: tensor<f32>, %[[C:.*]]: tensor<f32>, %{{.*}}: tensor<100xf32>)
func.func @independent(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %large: tensor<100xf32>) -> (tensor<f32>, tensor<f32>, tensor<100xf32>, tensor<100xf32>, tensor<f32>) {
  // CHECK: comm.all_reduce sum {{.*}} : tensor<100xf32>
  // CHECK: comm.all_reduce sum {{.*}} : tensor<100xf32>
  // CHECK: comm.all_reduce max %[[C]]
  // CHECK: %[[S:.*]] = heddle.stack %[[A]], %[[B]] : tensor<f32>, tensor<f32> -> tensor<2xf32>
  // CHECK: %[[R:.*]] = comm.all_reduce sum %[[S]] over @mesh <{"tp"}> : tensor<2xf32>
  // CHECK: %[[U:.*]]:2 = heddle.unstack %[[R]]
  // CHECK: %[[E:.*]] = math.exp %[[U]]#0
  // CHECK: arith.addf %[[E]], %[[U]]#1
  %0 = comm.all_reduce sum %a over @mesh <{"tp"}> : tensor<f32>
  %1 = math.exp %0 : tensor<f32>
  %2 = comm.all_reduce sum %large over @mesh <{"tp"}> : tensor<100xf32>
  %3 = comm.all_reduce sum %large over @mesh <{"tp"}> : tensor<100xf32>
  %4 = comm.all_reduce max %c over @mesh <{"tp"}> : tensor<f32>
  %5 = comm.all_reduce sum %b over @mesh <{"tp"}> : tensor<f32>
  %6 = arith.addf %1, %5 : tensor<f32>
  return %1, %6, %2, %3, %4 : tensor<f32>, tensor<f32>, tensor<100xf32>, tensor<100xf32>, tensor<f32>
}

// -----

// All-reduces that depend on each other or use other axes are not combined.
heddle.mesh @mesh <["dp"=2, "tp"=2]>
// CHECK-LABEL: @dependent
// CHECK-NOT: stack
func.func @dependent(%a: tensor<f32>, %b: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = comm.all_reduce sum %a over @mesh <{"tp"}> : tensor<f32>
  %1 = math.exp %0 : tensor<f32>
  %2 = comm.all_reduce sum %1 over @mesh <{"tp"}> : tensor<f32>
  %3 = comm.all_reduce sum %b over @mesh <{"dp"}> : tensor<f32>
  return %2, %3 : tensor<f32>, tensor<f32>
}

// -----

// A store must not pass a load of its variable.
heddle.mesh @mesh <["tp"=2]>
heddle.variable @v : tensor<f32> counter init(zeros)
// CHECK-LABEL: @state
// CHECK-NOT: stack
// CHECK: heddle.store
// CHECK: heddle.load
func.func @state(%a: tensor<f32>) -> tensor<f32> {
  %0 = comm.all_reduce sum %a over @mesh <{"tp"}> : tensor<f32>
  heddle.store %0, @v : tensor<f32>
  %1 = heddle.load @v : tensor<f32>
  %2 = comm.all_reduce sum %1 over @mesh <{"tp"}> : tensor<f32>
  return %2 : tensor<f32>
}

// -----

// An op on a variable's value that only a moved op reads moves with that op.
// An op that others read, too, stays.
heddle.mesh @mesh <["tp"=2]>
heddle.variable @w : tensor<8xf32> parameter init(zeros)
heddle.variable @u : tensor<8xf32> parameter init(zeros)
// CHECK-LABEL: @servants
func.func @servants(%a: tensor<f32>, %b: tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<f32>) {
  // CHECK: %[[U:.*]] = heddle.load @u
  // CHECK: math.sqrt %[[U]]
  // CHECK: heddle.store %{{.*}}, @u
  // CHECK: comm.all_reduce
  // CHECK: heddle.unstack
  // CHECK: %[[W:.*]] = heddle.load @w
  // CHECK: %[[E:.*]] = math.exp %[[W]]
  // CHECK: arith.addf %[[E]]
  %0 = comm.all_reduce sum %a over @mesh <{"tp"}> : tensor<f32>
  %w = heddle.load @w : tensor<8xf32>
  %1 = math.exp %w : tensor<8xf32>
  %u = heddle.load @u : tensor<8xf32>
  %2 = math.sqrt %u : tensor<8xf32>
  heddle.store %2, @u : tensor<8xf32>
  %3 = heddle.broadcast %0 along [] : tensor<f32> -> tensor<8xf32>
  %4 = arith.addf %1, %3 : tensor<8xf32>
  %5 = arith.addf %2, %3 : tensor<8xf32>
  %6 = comm.all_reduce sum %b over @mesh <{"tp"}> : tensor<f32>
  return %4, %5, %6 : tensor<8xf32>, tensor<8xf32>, tensor<f32>
}

// -----

// Of all-reduces with equal inputs one remains. If no other all-reduce remains
// to combine it with, nothing is stacked.
heddle.mesh @mesh <["tp"=2]>
// CHECK-LABEL: @equal
// CHECK-SAME: (%[[A:.*]]: tensor<f32>, %[[B:.*]]: tensor<f32>, %[[C:.*]]: tensor<3xf32>)
func.func @equal(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<3xf32>) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<3xf32>, tensor<3xf32>) {
  // CHECK: %[[S:.*]] = heddle.stack %[[A]], %[[B]] : tensor<f32>, tensor<f32> -> tensor<2xf32>
  // CHECK: %[[R:.*]] = comm.all_reduce sum %[[S]]
  // CHECK: %[[U:.*]]:2 = heddle.unstack %[[R]]
  // CHECK-NOT: stack
  // CHECK: %[[D:.*]] = comm.all_reduce sum %[[C]]
  // CHECK-NOT: comm.all_reduce
  // CHECK: return %[[U]]#0, %[[U]]#1, %[[U]]#0, %[[D]], %[[D]]
  %0 = comm.all_reduce sum %a over @mesh <{"tp"}> : tensor<f32>
  %1 = comm.all_reduce sum %b over @mesh <{"tp"}> : tensor<f32>
  %2 = comm.all_reduce sum %a over @mesh <{"tp"}> : tensor<f32>
  %3 = comm.all_reduce sum %c over @mesh <{"tp"}> : tensor<3xf32>
  %4 = comm.all_reduce sum %c over @mesh <{"tp"}> : tensor<3xf32>
  return %0, %1, %2, %3, %4 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<3xf32>, tensor<3xf32>
}

// -----

// Either of two groups can be combined, but not both: otherwise the first op of
// each group would wait for the second op of the other.
heddle.mesh @mesh <["dp"=2, "tp"=2]>
// CHECK-LABEL: @crossed
// CHECK-COUNT-1: heddle.stack
// CHECK-NOT: heddle.stack
func.func @crossed(%x: tensor<f32>, %y: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = comm.all_reduce sum %x over @mesh <{"dp"}> : tensor<f32>
  %1 = comm.all_reduce sum %0 over @mesh <{"tp"}> : tensor<f32>
  %2 = comm.all_reduce sum %y over @mesh <{"tp"}> : tensor<f32>
  %3 = comm.all_reduce sum %2 over @mesh <{"dp"}> : tensor<f32>
  return %1, %3 : tensor<f32>, tensor<f32>
}

// -----

// In a chain of pairs, each pair is combined.
heddle.mesh @mesh <["tp"=2]>
// CHECK-LABEL: @chain
// CHECK-COUNT-3: heddle.stack
// CHECK-NOT: heddle.stack
func.func @chain(%x: tensor<f32>, %y: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = comm.all_reduce sum %x over @mesh <{"tp"}> : tensor<f32>
  %1 = comm.all_reduce sum %y over @mesh <{"tp"}> : tensor<f32>
  %2 = arith.addf %0, %1 : tensor<f32>
  %3 = comm.all_reduce sum %2 over @mesh <{"tp"}> : tensor<f32>
  %4 = comm.all_reduce sum %1 over @mesh <{"tp"}> : tensor<f32>
  %5 = arith.mulf %3, %4 : tensor<f32>
  %6 = comm.all_reduce sum %5 over @mesh <{"tp"}> : tensor<f32>
  %7 = comm.all_reduce sum %4 over @mesh <{"tp"}> : tensor<f32>
  return %6, %7 : tensor<f32>, tensor<f32>
}
