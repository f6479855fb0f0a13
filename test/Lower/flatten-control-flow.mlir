// DEFINE: %{flat} = --heddle-inline-calls --heddle-flatten-control-flow --heddle-outline-loops --heddle-spread-scalars
// RUN: heddle-opt %s --split-input-file %{flat} | FileCheck %s
// A function without control flow does not change.
// RUN: heddle-opt %s --split-input-file %{flat} %{flat} | FileCheck %s

// Iterations are written out; the index is a constant in each and folds away.
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

// Without iterations, the results are the initial values.
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

// Calls are inlined, also those in callees.
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

// Both branches are computed, and a select on a tensor condition takes one.
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

// A known condition takes one branch, here in each iteration.
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

// An element of a tensor is broadcast over another tensor.
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

// Scalars of the program's boundary, of operands and from outside of a body
// become tensors without dimensions.
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

// A tensor made from scalars, one of which is computed.
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

// Padding with a scalar that is computed.
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

// Both branches are computed. In a branch that is not taken, also in what it
// calls, divisors are replaced so that nothing divides by zero.
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

// Branches in a body are computed for every element. A branch that is not taken
// reads the first element instead of the one at its constant index, and divides
// by one.
// CHECK-LABEL: @bodies
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>
// CHECK: linalg.generic
// CHECK: ^bb0(%[[N:.*]]: i32,
// CHECK-DAG: %[[I:.*]] = linalg.index 0
// CHECK: %[[IN:.*]] = arith.cmpi ult, %[[I]]
// CHECK: %[[ZERO:.*]] = arith.constant 0 : index
// CHECK: %[[PLACE:.*]] = arith.select %[[IN]], %[[I]], %[[ZERO]] : index
// CHECK: %[[A:.*]] = tensor.extract %[[X]][%[[PLACE]]]
// CHECK: %[[POSITIVE:.*]] = arith.cmpi sgt, %[[N]]
// CHECK: %[[FAR:.*]] = arith.select %[[POSITIVE]], %{{.*}}, %{{.*}} : index
// CHECK: %[[FARTHER:.*]] = arith.select %[[IN]], %{{.*}}, %[[FAR]] : index
// CHECK: %[[B:.*]] = tensor.extract %[[X]][%[[FARTHER]]]
// CHECK: %[[M:.*]] = arith.select %[[POSITIVE]], %{{.*}}, %[[N]] : i32
// CHECK: %[[DIVISOR:.*]] = arith.select %[[IN]], %{{.*}}, %[[M]] : i32
// CHECK: arith.divsi %[[N]], %[[DIVISOR]]
// CHECK: %[[C:.*]] = arith.select %[[POSITIVE]], %[[B]]
// CHECK: %[[Y:.*]] = arith.select %[[IN]], %[[A]], %[[C]]
// CHECK: linalg.yield %[[Y]]
func.func @bodies(%x: tensor<4xf32>, %n: tensor<6xi32>) -> tensor<6xf32> {
  %c4 = arith.constant 4 : index
  %c9 = arith.constant 9 : index
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<6xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%n : tensor<6xi32>) outs(%e : tensor<6xf32>) {
  ^bb0(%m: i32, %o: f32):
    %i = linalg.index 0 : index
    %in = arith.cmpi ult, %i, %c4 : index
    %0 = scf.if %in -> (f32) {
      %a = tensor.extract %x[%i] : tensor<4xf32>
      scf.yield %a : f32
    } else {
      %positive = arith.cmpi sgt, %m, %zero : i32
      %1 = scf.if %positive -> (f32) {
        %a = tensor.extract %x[%c9] : tensor<4xf32>
        scf.yield %a : f32
      } else {
        %q = arith.divsi %m, %m : i32
        %a = arith.sitofp %q : i32 to f32
        scf.yield %a : f32
      }
      scf.yield %1 : f32
    }
    linalg.yield %0 : f32
  } -> tensor<6xf32>
  return %y : tensor<6xf32>
}

// -----

// A scalar at the end of a long chain of scalars.
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

// -----

// A loop with an unknown number of iterations stays a loop. Its regions become
// functions of tensors, and scalars become tensors. Undefined initial tensors
// are made inside, and loads move in front of the loop.
heddle.variable @v : tensor<4xf32> parameter init(zeros)
// CHECK-LABEL: func @while(
// CHECK-SAME: %[[X:.+]]: tensor<4xf32>, %[[N:.+]]: tensor<i32>, %[[L:.+]]: tensor<f32>)
// CHECK-DAG: %[[V:.+]] = heddle.load @v
// CHECK-DAG: %[[ZERO:.+]] = arith.constant dense<0> : tensor<i64>
// CHECK: %[[R:.+]]:2, %{{.+}}:2, %{{.+}}, %{{.+}} = heddle.while @while.before, @while.after init(%[[ZERO]], %[[X]] : tensor<i64>, tensor<4xf32>) captured(%[[N]], %[[V]], %[[L]] : tensor<i32>, tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<i64>) carried(tensor<i64>, tensor<4xf32>) condition tensor<i1> workspace tensor<1xi8>
// CHECK: return %[[R]]#0, %[[R]]#1
func.func @while(%x: tensor<4xf32>, %n: i32, %limit: f32) -> (tensor<4xf32>, index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<4xf32>) -> tensor<4xf32>
  %r:2 = scf.while (%i = %c0, %h = %x) : (index, tensor<4xf32>) -> (tensor<4xf32>, index) {
    %end = arith.index_cast %n : i32 to index
    %c = arith.cmpi slt, %i, %end : index
    scf.condition(%c) %h, %i : tensor<4xf32>, index
  } do {
  ^bb0(%h: tensor<4xf32>, %i: index):
    %v = heddle.load @v : tensor<4xf32>
    %0 = arith.addf %h, %v : tensor<4xf32>
    %1 = linalg.max ins(%0, %start : tensor<4xf32>, tensor<4xf32>) outs(%start : tensor<4xf32>) -> tensor<4xf32>
    %2 = tensor.splat %limit : tensor<4xf32>
    %3 = arith.minimumf %1, %2 : tensor<4xf32>
    %next = arith.addi %i, %c1 : index
    scf.yield %next, %3 : index, tensor<4xf32>
  }
  return %r#0, %r#1 : tensor<4xf32>, index
}
// CHECK: func.func private @while.before(%[[I:.+]]: tensor<i64>, %[[H:.+]]: tensor<4xf32>, %[[N:.+]]: tensor<i32>, %{{.+}}: tensor<4xf32>, %{{.+}}: tensor<f32>) -> (tensor<i1>, tensor<4xf32>, tensor<i64>)
// CHECK-NEXT: %[[END:.+]] = arith.extsi %[[N]] : tensor<i32> to tensor<i64>
// CHECK-NEXT: %[[C:.+]] = arith.cmpi slt, %[[I]], %[[END]] : tensor<i64>
// CHECK-NEXT: return %[[C]], %[[H]], %[[I]]
// CHECK: func.func private @while.after(%[[H:.+]]: tensor<4xf32>, %[[I:.+]]: tensor<i64>, %{{.+}}: tensor<i32>, %[[V:.+]]: tensor<4xf32>, %[[L:.+]]: tensor<f32>) -> (tensor<i64>, tensor<4xf32>)
// CHECK: linalg.fill
// CHECK: arith.addf %[[H]], %[[V]]
// CHECK: %[[B:.+]] = heddle.broadcast %[[L]]
// CHECK: %[[M:.+]] = arith.minimumf %{{.+}}, %[[B]]
// CHECK: %[[NEXT:.+]] = arith.addi %[[I]], %{{.+}} : tensor<i64>
// CHECK: return %[[NEXT]], %[[M]]

// -----

// Computed bounds. A slice at a computed offset reads each element.
// CHECK-LABEL: func @bounds(
// CHECK-SAME: %[[X:.+]]: tensor<8x4xf32>, %[[N:.+]]: tensor<i64>)
// CHECK: heddle.while @bounds.before, @bounds.after init(%{{.+}}, %{{.+}} : tensor<i64>, tensor<4xf32>)
// CHECK-LABEL: func.func private @bounds.before
// CHECK: arith.cmpi slt
// CHECK-LABEL: func.func private @bounds.after
// CHECK-SAME: (%[[I:[a-z0-9]+]]: tensor<i64>
// CHECK: linalg.generic
// CHECK-SAME: ins(%[[I]] : tensor<i64>)
// CHECK: ^bb0(%[[AT:.+]]: i64, %{{.+}}: f32):
// CHECK: %[[ROW:.+]] = arith.index_cast %[[AT]] : i64 to index
// CHECK: tensor.extract %{{.+}}[%[[ROW]], %{{.+}}] : tensor<8x4xf32>
func.func @bounds(%x: tensor<8x4xf32>, %n: index) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %start = arith.constant dense<0.0> : tensor<4xf32>
  %y = scf.for %i = %c0 to %n step %c1 iter_args(%h = %start) -> tensor<4xf32> {
    %row = tensor.extract_slice %x[%i, 0] [1, 4] [1, 1] : tensor<8x4xf32> to tensor<4xf32>
    %0 = arith.addf %h, %row : tensor<4xf32>
    scf.yield %0 : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// -----

// In a branch that is not taken, a loop that stays makes no iteration. A loop
// that is written out is computed.
// CHECK-LABEL: func @loop_in_branch(
// CHECK-SAME: %[[C:.+]]: tensor<i1>, %[[X:.+]]: tensor<4xf32>, %[[N:.+]]: tensor<i64>)
// CHECK: %[[END:.+]] = arith.select %[[C]], %[[N]], %{{.+}} : tensor<i1>, tensor<i64>
// CHECK: heddle.while {{.*}} captured({{.*}}%[[END]]
// CHECK: heddle.while {{.*}} captured({{.*}}%[[C]]
// CHECK-NOT: heddle.while
// CHECK-COUNT-2: math.tanh %{{.+}} : tensor<4xf32>
// CHECK: func.func private @loop_in_branch.before
// CHECK: func.func private @loop_in_branch.before
// CHECK: %[[NO:.+]] = arith.constant dense<false> : tensor<i1>
// CHECK: arith.select %{{.+}}, %{{.+}}, %[[NO]] : tensor<i1>
func.func @loop_in_branch(%c: i1, %x: tensor<4xf32>, %n: index) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %y = scf.if %c -> tensor<4xf32> {
    %a = scf.for %i = %c0 to %n step %c1 iter_args(%h = %x) -> tensor<4xf32> {
      %0 = math.exp %h : tensor<4xf32>
      scf.yield %0 : tensor<4xf32>
    }
    %b = scf.while (%h = %a) : (tensor<4xf32>) -> tensor<4xf32> {
      %first = tensor.extract %h[%c0] : tensor<4xf32>
      %more = arith.cmpf oeq, %first, %first : f32
      scf.condition(%more) %h : tensor<4xf32>
    } do {
    ^bb0(%h: tensor<4xf32>):
      scf.yield %h : tensor<4xf32>
    }
    %d = scf.for %i = %c0 to %c2 step %c1 iter_args(%h = %b) -> tensor<4xf32> {
      %end = arith.addi %i, %c1 : index
      %t = scf.for %j = %i to %end step %c1 iter_args(%g = %h) -> tensor<4xf32> {
        %0 = math.tanh %g : tensor<4xf32>
        scf.yield %0 : tensor<4xf32>
      }
      scf.yield %t : tensor<4xf32>
    }
    scf.yield %d : tensor<4xf32>
  } else {
    scf.yield %x : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// -----

// A loop with known bounds but too many iterations to write out stays a loop,
// also if its body is empty.
// CHECK-LABEL: func @long(
// CHECK: heddle.while @long.before, @long.after init(
// CHECK: heddle.while @long.before_{{.*}}, @long.after_{{.*}} init(
// CHECK-NOT: heddle.while
// CHECK: return
func.func @long(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %n = arith.constant 1000000000000 : index
  %y = scf.for %i = %c0 to %n step %c1 iter_args(%h = %x) -> tensor<4xf32> {
    scf.yield %h : tensor<4xf32>
  }
  %m = arith.constant 40000 : index
  %z = scf.for %i = %c0 to %m step %c1 iter_args(%h = %x) -> tensor<4xf32> {
    %0 = scf.for %j = %c0 to %c3 step %c1 iter_args(%g = %h) -> tensor<4xf32> {
      %e = math.exp %g : tensor<4xf32>
      scf.yield %e : tensor<4xf32>
    }
    scf.yield %0 : tensor<4xf32>
  }
  return %y, %z : tensor<4xf32>, tensor<4xf32>
}
