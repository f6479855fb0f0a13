// RUN: heddle-opt %s --canonicalize | FileCheck %s

heddle.mesh @mesh <["dp"=2]>

// CHECK-LABEL: func.func @broadcast_to_the_same
// CHECK-SAME: %[[X:.*]]: tensor<2xf32>
// CHECK-NEXT: return %[[X]]
func.func @broadcast_to_the_same(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = heddle.broadcast %x along [0] : tensor<2xf32> -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// CHECK-LABEL: func.func @broadcast_of_a_broadcast
// CHECK-NEXT: heddle.broadcast %{{.*}} along [2] : tensor<4xf32> -> tensor<2x3x4xf32>
// CHECK-NEXT: return
func.func @broadcast_of_a_broadcast(%x: tensor<4xf32>) -> tensor<2x3x4xf32> {
  %0 = heddle.broadcast %x along [1] : tensor<4xf32> -> tensor<2x4xf32>
  %1 = heddle.broadcast %0 along [0, 2] : tensor<2x4xf32> -> tensor<2x3x4xf32>
  return %1 : tensor<2x3x4xf32>
}

// CHECK-LABEL: func.func @broadcast_of_a_constant
// CHECK-NEXT: %[[C:.*]] = arith.constant dense<2.000000e+00> : tensor<2x3xf32>
// CHECK-NEXT: return %[[C]]
func.func @broadcast_of_a_constant() -> tensor<2x3xf32> {
  %c = arith.constant dense<2.0> : tensor<f32>
  %0 = heddle.broadcast %c along [] : tensor<f32> -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @reduce_over_nothing
// CHECK-SAME: %[[X:.*]]: tensor<2xf32>
// CHECK-NEXT: return %[[X]]
func.func @reduce_over_nothing(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = heddle.reduce sum %x over [] : tensor<2xf32> -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// CHECK-LABEL: func.func @reduce_of_a_reduction
// CHECK-NEXT: heddle.reduce sum %{{.*}} over [0, 1, 3] : tensor<2x3x4x5xf32> -> tensor<4xf32>
// CHECK-NEXT: return
func.func @reduce_of_a_reduction(%x: tensor<2x3x4x5xf32>) -> tensor<4xf32> {
  %0 = heddle.reduce sum %x over [1] : tensor<2x3x4x5xf32> -> tensor<2x4x5xf32>
  %1 = heddle.reduce sum %0 over [0, 2] : tensor<2x4x5xf32> -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// A maximum of sums is not one reduction. A reduction that rounds stays.
// CHECK-LABEL: func.func @reductions_that_differ
// CHECK-COUNT-4: heddle.reduce
func.func @reductions_that_differ(%x: tensor<2x3xf32>, %y: tensor<2x3xbf16>)
    -> (tensor<f32>, tensor<f32>) {
  %0 = heddle.reduce sum %x over [1] : tensor<2x3xf32> -> tensor<2xf32>
  %1 = heddle.reduce max %0 over [0] : tensor<2xf32> -> tensor<f32>
  %2 = heddle.reduce sum %y over [1] : tensor<2x3xbf16> -> tensor<2xbf16>
  %3 = heddle.reduce sum %2 over [0] : tensor<2xbf16> -> tensor<f32>
  return %1, %3 : tensor<f32>, tensor<f32>
}

// CHECK-LABEL: func.func @reduce_of_a_cast
// CHECK-NEXT: heddle.reduce sum %{{.*}} over [0] : tensor<2x3xbf16> -> tensor<3xf32>
// CHECK-NEXT: return
func.func @reduce_of_a_cast(%x: tensor<2x3xbf16>) -> tensor<3xf32> {
  %0 = arith.extf %x : tensor<2x3xbf16> to tensor<2x3xf32>
  %1 = heddle.reduce sum %0 over [0] : tensor<2x3xf32> -> tensor<3xf32>
  return %1 : tensor<3xf32>
}

// CHECK-LABEL: func.func @unstack_of_a_stack
// CHECK-SAME: %[[X:.*]]: tensor<2xf32>, %[[Y:.*]]: tensor<2xf32>
// CHECK-NEXT: return %[[X]], %[[Y]]
func.func @unstack_of_a_stack(%x: tensor<2xf32>, %y: tensor<2xf32>)
    -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = heddle.stack %x, %y : tensor<2xf32>, tensor<2xf32> -> tensor<2x2xf32>
  %1:2 = heddle.unstack %0 : tensor<2x2xf32> -> tensor<2xf32>, tensor<2xf32>
  return %1#0, %1#1 : tensor<2xf32>, tensor<2xf32>
}

// CHECK-LABEL: func.func @stack_of_an_unstack
// CHECK-SAME: %[[X:.*]]: tensor<2x2xf32>
// CHECK: %[[U:.*]]:2 = heddle.unstack
// CHECK: %[[S:.*]] = heddle.stack %[[U]]#1, %[[U]]#0
// CHECK: return %[[X]], %[[S]]
func.func @stack_of_an_unstack(%x: tensor<2x2xf32>)
    -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  %0:2 = heddle.unstack %x : tensor<2x2xf32> -> tensor<2xf32>, tensor<2xf32>
  %1 = heddle.stack %0#0, %0#1 : tensor<2xf32>, tensor<2xf32> -> tensor<2x2xf32>
  %2 = heddle.stack %0#1, %0#0 : tensor<2xf32>, tensor<2xf32> -> tensor<2x2xf32>
  return %1, %2 : tensor<2x2xf32>, tensor<2x2xf32>
}

// CHECK-LABEL: func.func @dropout_of_nothing
// CHECK-SAME: %[[X:.*]]: tensor<2xf32>
// CHECK-NEXT: return %[[X]]
func.func @dropout_of_nothing(%x: tensor<2xf32>, %step: tensor<i64>)
    -> tensor<2xf32> {
  %0 = heddle.dropout "d" %x, %step rate(0.0)
    : tensor<2xf32>, tensor<i64> -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// CHECK-LABEL: func.func @attention_without_dropout
// CHECK-NOT: step
func.func @attention_without_dropout(%q: tensor<1x2x1x2xf32>,
    %step: tensor<i64>) -> tensor<1x2x1x2xf32> {
  %o, %lse = heddle.attention "a" %q, %q, %q scale(0.5) step(%step : tensor<i64>)
    : tensor<1x2x1x2xf32>, tensor<1x2x1x2xf32>, tensor<1x2x1x2xf32>
    -> tensor<1x2x1x2xf32>, tensor<1x2x1xf32>
  return %o : tensor<1x2x1x2xf32>
}

// CHECK-LABEL: func.func @embedding_gradient_from_zeros
// CHECK-NOT: accumulate
func.func @embedding_gradient_from_zeros(%ids: tensor<3xi32>,
    %y: tensor<3x2xf32>) -> tensor<5x2xf32> {
  %zeros = arith.constant dense<0.0> : tensor<5x2xf32>
  %0 = heddle.embedding_grad %ids, %y accumulate(%zeros : tensor<5x2xf32>)
    : tensor<3xi32>, tensor<3x2xf32> -> tensor<5x2xf32>
  return %0 : tensor<5x2xf32>
}

// CHECK-LABEL: func.func @reshard_to_the_same
// CHECK-SAME: %[[X:.*]]: tensor<2xf32>
// CHECK-NEXT: return %[[X]]
func.func @reshard_to_the_same(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = heddle.reshard %x from <@mesh, [{"dp"}]> to <@mesh, [{"dp"}]>
    : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// CHECK-LABEL: func.func @mask_twice
// CHECK-COUNT-1: heddle.mask_padding
// CHECK-NEXT: return
func.func @mask_twice(%x: tensor<2xf32>, %o: index) -> tensor<2xf32> {
  %0 = heddle.mask_padding %x dims [0] sizes [3] offsets(%o) value(zero)
    : tensor<2xf32> -> tensor<2xf32>
  %1 = heddle.mask_padding %0 dims [0] sizes [3] offsets(%o) value(zero)
    : tensor<2xf32> -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// Neither folds nor mergers look through a barrier; one that nothing reads
// vanishes.
// CHECK-LABEL: func.func @barrier
// CHECK-SAME: %[[X:.*]]: tensor<2xf32>, %[[G:.*]]: tensor<f32>
// CHECK: %[[C:.*]] = arith.constant dense<1.0
// CHECK: %[[A:.*]] = heddle.silu %[[X]]
// CHECK: %[[B:.*]] = heddle.barrier %[[X]] after %[[G]]
// CHECK-NEXT: %[[D:.*]] = heddle.silu %[[B]]
// CHECK-NEXT: %[[E:.*]] = heddle.barrier %[[C]]
// CHECK-NEXT: return %[[A]], %[[D]], %[[E]]
func.func @barrier(%x: tensor<2xf32>, %g: tensor<f32>)
    -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %ones = arith.constant dense<1.0> : tensor<2xf32>
  %0 = heddle.silu %x : tensor<2xf32>
  %1 = heddle.barrier %x after %g : tensor<2xf32> after tensor<f32>
  %2 = heddle.silu %1 : tensor<2xf32>
  %3 = heddle.barrier %ones : tensor<2xf32>
  %4 = heddle.barrier %0 : tensor<2xf32>
  return %0, %2, %3 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
