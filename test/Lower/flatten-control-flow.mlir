// RUN: heddle-opt %s --split-input-file --heddle-flatten-control-flow | FileCheck %s

// Iterations in a row; the index is a constant in each and folds away.
// CHECK-LABEL: @loop
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>)
// CHECK: %[[A:.*]] = math.exp %[[X]]
// CHECK: %[[B:.*]] = math.exp %[[A]]
// CHECK: return %[[B]]
func.func @loop(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c1 = arith.constant 1 : index
  %y = scf.for %i = %c0 to %c2 step %c1 iter_args(%h = %x) -> tensor<4xf32> {
    %end = arith.addi %i, %c1 : index
    %z = scf.for %j = %i to %end step %c1 iter_args(%g = %h) -> tensor<4xf32> {
      %e = math.exp %g : tensor<4xf32>
      scf.yield %e : tensor<4xf32>
    }
    scf.yield %z : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// -----

// An op that folds by changing its operands stays.
// CHECK-LABEL: @fold_in_place
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>)
// CHECK: %[[A:.*]] = arith.addf %[[X]], %{{.*}} : tensor<4xf32>
// CHECK: %[[B:.*]] = arith.addf %[[A]], %{{.*}} : tensor<4xf32>
// CHECK: return %[[B]]
func.func @fold_in_place(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %two = arith.constant dense<2.0> : tensor<4xf32>
  %y = scf.for %i = %c0 to %c2 step %c1 iter_args(%h = %x) -> tensor<4xf32> {
    %e = arith.addf %two, %h : tensor<4xf32>
    scf.yield %e : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// -----

// No iteration: what goes in comes out.
// CHECK-LABEL: @none
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>)
// CHECK: return %[[X]]
func.func @none(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %y = scf.for %i = %c0 to %c0 step %c1 iter_args(%h = %x) -> tensor<4xf32> {
    %e = math.exp %h : tensor<4xf32>
    scf.yield %e : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// -----

// Calls, also from callees.
// CHECK-LABEL: @calls
// CHECK-NEXT: %[[A:.*]] = math.exp
// CHECK-NEXT: %[[B:.*]] = math.tanh %[[A]]
// CHECK-NEXT: %[[C:.*]] = math.exp %[[B]]
// CHECK-NEXT: return %[[C]]
// CHECK-NOT: @inner
func.func @calls(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @outer(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @inner(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @outer(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @inner(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = math.tanh %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @inner(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = math.exp %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Both branches, then a choice by a condition that has become a tensor.
// CHECK-LABEL: @branch
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>, %[[N:.*]]: tensor<f32>)
// CHECK: %[[LIMIT:.*]] = arith.constant dense<1.000000e+00> : tensor<f32>
// CHECK: %[[C:.*]] = arith.cmpf ogt, %[[N]], %[[LIMIT]] : tensor<f32>
// CHECK: %[[E:.*]] = math.exp %[[X]]
// CHECK: %[[ALL:.*]] = heddle.broadcast %[[C]] along [] : tensor<i1> -> tensor<4xi1>
// CHECK: arith.select %[[ALL]], %[[E]], %[[X]] : tensor<4xi1>, tensor<4xf32>
// CHECK-NOT: tensor.extract
func.func @branch(%x: tensor<4xf32>, %n: tensor<f32>) -> tensor<4xf32> {
  %limit = arith.constant 1.0 : f32
  %number = tensor.extract %n[] : tensor<f32>
  %c = arith.cmpf ogt, %number, %limit : f32
  %y = scf.if %c -> tensor<4xf32> {
    %e = math.exp %x : tensor<4xf32>
    scf.yield %e : tensor<4xf32>
  } else {
    scf.yield %x : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// -----

// A known condition: one branch, here of each iteration.
// CHECK-LABEL: @known
// CHECK: %[[A:.*]] = math.exp
// CHECK: %[[B:.*]] = math.tanh %[[A]]
// CHECK: return %[[B]]
func.func @known(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c1 = arith.constant 1 : index
  %y = scf.for %i = %c0 to %c2 step %c1 iter_args(%h = %x) -> tensor<4xf32> {
    %first = arith.cmpi eq, %i, %c0 : index
    %z = scf.if %first -> tensor<4xf32> {
      %e = math.exp %h : tensor<4xf32>
      scf.yield %e : tensor<4xf32>
    } else {
      %t = math.tanh %h : tensor<4xf32>
      scf.yield %t : tensor<4xf32>
    }
    scf.yield %z : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// -----

// An element of a tensor, spread over another.
// CHECK-LABEL: @element
// CHECK: %[[S:.*]] = tensor.extract_slice %{{.*}}[2, 1] [1, 1] [1, 1] : tensor<4x4xf32> to tensor<f32>
// CHECK: heddle.broadcast %[[S]] along [] : tensor<f32> -> tensor<4x4xf32>
func.func @element(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = tensor.extract %x[%c2, %c1] : tensor<4x4xf32>
  %s = tensor.splat %n : tensor<4x4xf32>
  %y = arith.mulf %x, %s : tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}

// Numbers of the program's border, of operands and from around a body are
// tensors without dimensions.
// CHECK-LABEL: func @scalars(
// CHECK-SAME: %[[X:.+]]: tensor<4xf32>, %[[S:.+]]: tensor<f32>) -> (tensor<4xf32>, tensor<f32>)
// CHECK: %[[TWICE:.+]] = arith.addf %[[S]], %[[S]] : tensor<f32>
// CHECK: %[[Y:.+]] = linalg.generic
// CHECK-SAME: ins(%[[X]], %[[S]], %[[TWICE]] : tensor<4xf32>, tensor<f32>, tensor<f32>)
// CHECK-NEXT: ^bb0(%[[A:.+]]: f32, %[[B:.+]]: f32, %[[C:.+]]: f32, %{{.+}}: f32):
// CHECK-NEXT: %[[P:.+]] = arith.mulf %[[A]], %[[C]]
// CHECK-NEXT: arith.addf %[[P]], %[[B]]
// CHECK: return %[[Y]], %[[TWICE]]
func.func @scalars(%x: tensor<4xf32>, %s: f32) -> (tensor<4xf32>, f32) {
  %twice = arith.addf %s, %s : f32
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.generic {
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]}
      ins(%x, %s : tensor<4xf32>, f32) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %twice : f32
    %q = arith.addf %p, %b : f32
    linalg.yield %q : f32
  } -> tensor<4xf32>
  return %y, %twice : tensor<4xf32>, f32
}

// -----

// Numbers in a row, of which one is computed.
// CHECK-LABEL: @elements
// CHECK: %[[A:.*]] = tensor.extract_slice %arg0[2] [1] [1]
// CHECK: %[[ROW:.*]] = tensor.expand_shape %[[A]]
// CHECK: tensor.concat dim(0) %[[ROW]]
// CHECK: tensor.expand_shape %{{.*}} {{\[\[}}0, 1]]
func.func @elements(%x: tensor<4xf32>) -> tensor<2x1xf32> {
  %one = arith.constant 1.0 : f32
  %c2 = arith.constant 2 : index
  %a = tensor.extract %x[%c2] : tensor<4xf32>
  %0 = tensor.from_elements %a, %one : tensor<2x1xf32>
  return %0 : tensor<2x1xf32>
}

// -----

// Padding of a number that is computed.
// CHECK-LABEL: @pad
// CHECK: %[[AROUND:.*]] = heddle.broadcast
// CHECK: tensor.insert_slice %arg0 into %[[AROUND]][1] [4] [1]
func.func @pad(%x: tensor<4xf32>) -> tensor<7xf32> {
  %c2 = arith.constant 2 : index
  %a = tensor.extract %x[%c2] : tensor<4xf32>
  %0 = tensor.pad %x low[1] high[2] {
  ^bb0(%i: index):
    tensor.yield %a : f32
  } : tensor<4xf32> to tensor<7xf32>
  return %0 : tensor<7xf32>
}

// -----

// Both branches are computed: nothing is divided by where that branch is not
// taken, even in what it calls.
// CHECK-LABEL: @divide_if
// CHECK-SAME: (%[[C:.*]]: tensor<i1>, %[[X:.*]]: tensor<4xi32>, %[[Y:.*]]: tensor<4xi32>)
// CHECK-DAG: %[[ONES:.*]] = arith.constant dense<1> : tensor<4xi32>
// CHECK-DAG: %[[SPREAD:.*]] = heddle.broadcast %[[C]] along [] : tensor<i1> -> tensor<4xi1>
// CHECK: %[[DIVISOR:.*]] = arith.select %[[SPREAD]], %[[Y]], %[[ONES]]
// CHECK: arith.divsi %[[X]], %[[DIVISOR]]
// CHECK: arith.select %{{.*}}, %[[ONES_TOO:.*]], %[[Y]]
// CHECK: arith.remsi
func.func private @divide(%x: tensor<4xi32>, %y: tensor<4xi32>) -> tensor<4xi32> {
  %0 = arith.divsi %x, %y : tensor<4xi32>
  return %0 : tensor<4xi32>
}
func.func @divide_if(%c: tensor<i1>, %x: tensor<4xi32>, %y: tensor<4xi32>) -> tensor<4xi32> {
  %condition = tensor.extract %c[] : tensor<i1>
  %0 = scf.if %condition -> tensor<4xi32> {
    %1 = func.call @divide(%x, %y) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
    scf.yield %1 : tensor<4xi32>
  } else {
    %1 = arith.remsi %x, %y : tensor<4xi32>
    scf.yield %1 : tensor<4xi32>
  }
  return %0 : tensor<4xi32>
}

// -----

// A number at the end of a long chain of them.
// CHECK-LABEL: @long_chain
// CHECK-SAME: (%[[T:.*]]: tensor<f32>)
// CHECK-NEXT: arith.mulf %[[T]], %[[T]] : tensor<f32>
// CHECK: heddle.broadcast
func.func @long_chain(%t: tensor<f32>) -> tensor<4xf32> {
  %s = tensor.extract %t[] : tensor<f32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 45000 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %s) -> f32 {
    %b = arith.mulf %a, %s : f32
    scf.yield %b : f32
  }
  %y = tensor.splat %r : tensor<4xf32>
  return %y : tensor<4xf32>
}
