// RUN: heddle-opt %s --split-input-file --heddle-propagate-shardings | FileCheck %s --check-prefix=P
// RUN: heddle-opt %s --split-input-file --heddle-repeat-constants --heddle-propagate-shardings --heddle-materialize-pins --heddle-insert-reshards --heddle-verify-sharded --heddle-localize --canonicalize --cse | FileCheck %s
// RUN: heddle-opt %s --split-input-file --heddle-repeat-constants --heddle-propagate-shardings --heddle-materialize-pins --heddle-insert-reshards --heddle-verify-sharded --heddle-localize --heddle-pack-collectives --heddle-verify-localized -o /dev/null

// The loop's carried value takes its initial value's sharding. The product's
// partial sum is reduced before it is yielded.
heddle.mesh @mesh <["dp"=2, "tp"=2]>
// P-LABEL: @loop
// CHECK-LABEL: @loop
// CHECK-SAME: (%{{.*}}: tensor<4x8xf32> {{.*}}, %[[W1:[a-z0-9]+]]: tensor<8x8xf32> {heddle.global_type = tensor<8x16xf32>
func.func @loop(%x: tensor<8x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"dp"}, {}]>},
                %w1: tensor<8x16xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"tp"}]>},
                %w2: tensor<16x8xf32>) -> tensor<8x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  // CHECK: scf.for {{.*}} iter_args(%[[H:.*]] = %{{.*}}) -> (tensor<4x8xf32>)
  %y = scf.for %i = %c0 to %c3 step %c1 iter_args(%h = %x) -> tensor<8x8xf32> {
    // CHECK: heddle.contract [bh, hf -> bf] %[[H]], %[[W1]] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %u = heddle.contract [bh, hf -> bf] %h, %w1 : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %a = math.tanh %u : tensor<8x16xf32>
    // CHECK: %[[PART:.*]] = heddle.contract [bf, fh -> bh]
    // CHECK: %[[SUM:.*]] = comm.all_reduce sum %[[PART]] over @mesh <{"tp"}>
    // CHECK: scf.yield %[[SUM]]
    %p = heddle.contract [bf, fh -> bh] %a, %w2 : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    scf.yield %p : tensor<8x8xf32>
  }
  // P: heddle.carried = [#heddle.sharding<@mesh, [{"dp"}, {}]>]
  return %y : tensor<8x8xf32>
}

// -----

// Backward: the result's sharding reaches the carried value and, through it,
// the argument.
heddle.mesh @mesh <["dp"=2]>
// CHECK-LABEL: @backwards
// CHECK-SAME: (%{{.*}}: tensor<4x8xf32>
func.func @backwards(%x: tensor<8x8xf32>, %n: index)
    -> (tensor<8x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"dp"}, {}]>}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // CHECK: scf.for {{.*}} -> (tensor<4x8xf32>)
  %y = scf.for %i = %c0 to %n step %c1 iter_args(%h = %x) -> tensor<8x8xf32> {
    %a = math.tanh %h : tensor<8x8xf32>
    scf.yield %a : tensor<8x8xf32>
  }
  return %y : tensor<8x8xf32>
}

// -----

// A value from outside of the loop that every iteration needs whole is gathered
// once.
heddle.mesh @mesh <["tp"=2]>
// CHECK-LABEL: @hoisted
func.func @hoisted(%x: tensor<8x8xf32>, %w: tensor<8x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"tp"}, {}]>}) -> tensor<8x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  // CHECK: %[[W:.*]] = comm.all_gather
  // CHECK-NEXT: scf.for
  // CHECK-NEXT: heddle.contract [bh, hf -> bf] %{{.*}}, %[[W]]
  // CHECK-NEXT: scf.yield
  %y = scf.for %i = %c0 to %c3 step %c1 iter_args(%h = %x) -> tensor<8x8xf32> {
    %u = heddle.contract [bh, hf -> bf] %h, %w {heddle.factors = #heddle.factors<["b" = {}, "h" = {}, "f" = {}]>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    scf.yield %u : tensor<8x8xf32>
  }
  return %y : tensor<8x8xf32>
}

// -----

// Branches whose results are sharded differently agree at their yields.
heddle.mesh @mesh <["x"=2]>
// P-LABEL: @branches
// CHECK-LABEL: @branches
func.func @branches(%c: i1, %a: tensor<8x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>},
                    %b: tensor<8x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"x"}]>}) -> tensor<8x8xf32> {
  // CHECK: scf.if %{{.*}} -> (tensor<4x8xf32>)
  // CHECK: } else {
  // CHECK: %[[N:.*]] = arith.negf
  // CHECK: %[[MOVED:.*]] = comm.all_to_all %[[N]]
  // CHECK: scf.yield %[[MOVED]]
  %y = scf.if %c -> tensor<8x8xf32> {
    %e = math.exp %a : tensor<8x8xf32>
    scf.yield %e : tensor<8x8xf32>
  } else {
    %n = arith.negf %b : tensor<8x8xf32>
    scf.yield %n : tensor<8x8xf32>
  }
  // P: heddle.carried = [#heddle.sharding<@mesh, [{"x"}, {}]>]
  return %y : tensor<8x8xf32>
}

// -----

// The condition is computed from a sum over all devices. So it is equal on all
// of them, and the loop ends on all after the same iteration.
heddle.mesh @mesh <["x"=2]>
// CHECK-LABEL: @while
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>
func.func @while(%x: tensor<6xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}]>}, %limit: f32) -> tensor<6xf32> {
  // CHECK: scf.while (%[[H:.*]] = %[[X]]) : (tensor<3xf32>) -> tensor<3xf32>
  %y = scf.while (%h = %x) : (tensor<6xf32>) -> tensor<6xf32> {
    // CHECK: %[[PART:.*]] = heddle.reduce
    // CHECK: %[[SUM:.*]] = comm.all_reduce sum %[[PART]]
    // CHECK: %[[NUMBER:.*]] = tensor.extract %[[SUM]][]
    // CHECK: arith.cmpf olt, %[[NUMBER]]
    %sum = heddle.reduce sum %h over [0] : tensor<6xf32> -> tensor<f32>
    %number = tensor.extract %sum[] : tensor<f32>
    %more = arith.cmpf olt, %number, %limit : f32
    scf.condition(%more) %h : tensor<6xf32>
  } do {
  ^bb0(%g: tensor<6xf32>):
    %twice = arith.addf %g, %g : tensor<6xf32>
    scf.yield %twice : tensor<6xf32>
  }
  return %y : tensor<6xf32>
}

// -----

// Several callers: argument and result have one sharding for all of them, and a
// caller with another sharding reshards.
heddle.mesh @mesh <["x"=2]>
// CHECK-LABEL: func.func @callers
// CHECK-SAME: (%[[A:.*]]: tensor<4x8xf32> {{.*}}, %[[B:.*]]: tensor<4x8xf32> {{.*}}, %[[C:.*]]: tensor<8x4xf32>
func.func @callers(%a: tensor<8x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>},
                   %b: tensor<8x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>},
                   %c: tensor<8x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"x"}]>})
    -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  // CHECK: call @layer(%[[A]]) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = call @layer(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: call @layer(%[[B]])
  %1 = call @layer(%b) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: %[[MOVED:.*]] = comm.all_to_all %[[C]]
  // CHECK: call @layer(%[[MOVED]])
  %2 = call @layer(%c) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0, %1, %2 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}
// CHECK: func.func private @layer(%{{.*}}: tensor<4x8xf32>
func.func private @layer(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %y = math.exp %x : tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// -----

// A value that an op's body captures may be defined in a branch.
heddle.mesh @mesh <["x"=2]>
// CHECK-LABEL: func.func @captured_in_branch
// CHECK: %[[ONE:.*]] = arith.constant 1 : index
// CHECK: scf.if
// CHECK: linalg.generic
// CHECK: arith.addi %{{.*}}, %[[ONE]]
func.func @captured_in_branch(%c: i1, %x: tensor<4xf64> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}]>}) -> tensor<4xf64> {
  %0 = scf.if %c -> tensor<4xf64> {
    %one = arith.constant 1 : index
    %generated = tensor.generate {
    ^bb0(%i: index):
      %1 = arith.addi %one, %i : index
      %2 = arith.index_cast %1 : index to i64
      %3 = arith.sitofp %2 : i64 to f64
      tensor.yield %3 : f64
    } : tensor<4xf64>
    scf.yield %generated : tensor<4xf64>
  } else {
    scf.yield %x : tensor<4xf64>
  }
  return %0 : tensor<4xf64>
}

// -----

// A dimension that a slice takes whole stays split, at any offset of the slice.
heddle.mesh @mesh <["x"=2]>
// CHECK-LABEL: func.func @moving_slices
// CHECK: scf.for %[[I:[a-z0-9]*]] =
// CHECK: tensor.extract_slice %{{.*}}[%[[I]], 0] [2, 2] [1, 1] : tensor<8x2xf32> to tensor<2x2xf32>
// CHECK: tensor.insert_slice %{{.*}}[%[[I]], 0] [2, 2] [1, 1] : tensor<2x2xf32> into tensor<8x2xf32>
func.func @moving_slices(%x: tensor<8x4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"x"}]>}) -> tensor<8x4xf32> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : index
  %e = tensor.empty() : tensor<8x4xf32>
  %r = scf.for %i = %c0 to %c8 step %c2 iter_args(%acc = %e) -> tensor<8x4xf32> {
    %s = tensor.extract_slice %x[%i, 0] [2, 4] [1, 1] : tensor<8x4xf32> to tensor<2x4xf32>
    %y = math.exp %s : tensor<2x4xf32>
    %n = tensor.insert_slice %y into %acc[%i, 0] [2, 4] [1, 1] : tensor<2x4xf32> into tensor<8x4xf32>
    scf.yield %n : tensor<8x4xf32>
  }
  return %r : tensor<8x4xf32>
}
