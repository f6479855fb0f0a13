// RUN: heddle-opt %s --heddle-decompose-ops --split-input-file | FileCheck %s

// The loops run over the result's dimensions; bf16 is computed in f32.
// CHECK-DAG: [[ID:#.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-LABEL: func.func @activation_of_bf16
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel"]
// CHECK: arith.extf %{{.*}} : bf16 to f32
// CHECK-NOT: math.tanh
// CHECK: math.exp
// CHECK: arith.truncf %{{.*}} : f32 to bf16
// CHECK-NOT: heddle.gelu
func.func @activation_of_bf16(%x: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  %y = heddle.gelu %x approximate(tanh) : tensor<4x8xbf16>
  return %y : tensor<4x8xbf16>
}

// -----

// A sum over rows first sums blocks of rows.
// CHECK-LABEL: func.func @sum_over_rows
// CHECK: [[P:%.*]] = heddle.reduce_blocks sum %{{.*}} rows(2) block(32) : tensor<4x256x8xf32> -> tensor<32x8xf32>
// CHECK: linalg.generic {{.*}}["parallel", "reduction"]} ins([[P]] : tensor<32x8xf32>)
func.func @sum_over_rows(%x: tensor<4x256x8xf32>) -> tensor<8xf32> {
  %y = heddle.reduce sum %x over [0, 1] : tensor<4x256x8xf32> -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// A sum over few rows of many columns is computed at once.
// CHECK-LABEL: func.func @sum_over_few_rows
// CHECK-NOT: reduce_blocks
// CHECK: linalg.generic {{.*}}["parallel", "parallel", "reduction"]
func.func @sum_over_few_rows(%x: tensor<4x256x768xf32>) -> tensor<256x768xf32> {
  %y = heddle.reduce sum %x over [0] : tensor<4x256x768xf32> -> tensor<256x768xf32>
  return %y : tensor<256x768xf32>
}

// -----

// The loss's exponentials serve its gradient, too.
// CHECK-LABEL: func.func @exponentials_once
// CHECK-COUNT-1: math.exp
// CHECK-NOT: math.exp
func.func @exponentials_once(%x: tensor<6x50xf32>, %t: tensor<6xi32>, %g: tensor<6xf32>) -> (tensor<6xf32>, tensor<6x50xf32>) {
  %loss, %lse = heddle.cross_entropy %x, %t : tensor<6x50xf32>, tensor<6xi32> -> tensor<6xf32>, tensor<6xf32>
  %d = heddle.cross_entropy_grad %x, %t, %lse, %g : tensor<6x50xf32>, tensor<6xi32>, tensor<6xf32>, tensor<6xf32> -> tensor<6x50xf32>
  return %loss, %d : tensor<6xf32>, tensor<6x50xf32>
}

// -----

// Not if the gradient waits for the loss: the exponentials would be stored.
// CHECK-LABEL: func.func @gradient_after_loss
// CHECK-COUNT-2: math.exp
func.func @gradient_after_loss(%x: tensor<6x50xf32>, %t: tensor<6xi32>) -> tensor<6x50xf32> {
  %loss, %lse = heddle.cross_entropy %x, %t : tensor<6x50xf32>, tensor<6xi32> -> tensor<6xf32>, tensor<6xf32>
  %s = heddle.reduce sum %loss over [0] : tensor<6xf32> -> tensor<f32>
  %g = heddle.broadcast %s along [] : tensor<f32> -> tensor<6xf32>
  %d = heddle.cross_entropy_grad %x, %t, %lse, %g : tensor<6x50xf32>, tensor<6xi32>, tensor<6xf32>, tensor<6xf32> -> tensor<6x50xf32>
  return %d : tensor<6x50xf32>
}

// -----

// Library ops and views stay; a slice that is not contiguous is copied.
// CHECK-LABEL: func.func @what_stays
// CHECK: heddle.contract
// CHECK: tensor.collapse_shape
// CHECK: tensor.extract_slice %{{.*}}[1, 0] [2, 8] [1, 1]
// CHECK-NOT: tensor.extract_slice
// CHECK: linalg.generic
func.func @what_stays(%x: tensor<2x2x8xf32>, %w: tensor<8x8xf32>) -> (tensor<2x8xf32>, tensor<4x3xf32>) {
  %y = heddle.contract "c" [bsh, hf -> bsf] %x, %w : (tensor<2x2x8xf32>, tensor<8x8xf32>) -> tensor<2x2x8xf32>
  %c = tensor.collapse_shape %y [[0, 1], [2]] : tensor<2x2x8xf32> into tensor<4x8xf32>
  %a = tensor.extract_slice %c[1, 0] [2, 8] [1, 1] : tensor<4x8xf32> to tensor<2x8xf32>
  %b = tensor.extract_slice %c[0, 2] [4, 3] [1, 1] : tensor<4x8xf32> to tensor<4x3xf32>
  return %a, %b : tensor<2x8xf32>, tensor<4x3xf32>
}

// -----

// A constant that a product reads is written by an op. A constant that an
// elementwise op reads stays a constant.
// CHECK-LABEL: func.func @constants
// CHECK: [[C:%.*]] = arith.constant dense<2.000000e+00> : tensor<4x8xf32>
// CHECK: [[F:%.*]] = linalg.generic {{.*}} outs({{.*}} : tensor<4x8xf32>)
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, [[C]]
// CHECK: return %{{.*}}, [[F]]
func.func @constants(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %c = arith.constant dense<2.0> : tensor<4x8xf32>
  %y = arith.mulf %x, %c : tensor<4x8xf32>
  return %y, %c : tensor<4x8xf32>, tensor<4x8xf32>
}

// A sum that keeps its dimension with size 1 has loops over the result, too.
// CHECK-LABEL: func @keeps_dimension
// CHECK: %[[SUM:.+]] = linalg.generic
// CHECK-SAME: iterator_types = ["parallel", "reduction"]
// CHECK: } -> tensor<4xf32>
// CHECK: %[[RESULT:.+]] = tensor.expand_shape %[[SUM]] {{\[}}[0, 1, 2]] output_shape [1, 4, 1]
// CHECK: return %[[RESULT]]
func.func @keeps_dimension(%x: tensor<4x8xf32>) -> tensor<1x4x1xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x4x1xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x4x1xf32>) -> tensor<1x4x1xf32>
  %y = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (0, i, 0)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x8xf32>) outs(%f : tensor<1x4x1xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<1x4x1xf32>
  return %y : tensor<1x4x1xf32>
}

// Upstream cannot generalize this op.
// CHECK-LABEL: func @map
// CHECK: linalg.generic
// CHECK-SAME: iterator_types = ["parallel"]
// CHECK: arith.mulf
func.func @map(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %z = linalg.map { arith.mulf } ins(%x, %y : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>)
  return %z : tensor<4xf32>
}

// -----

// The body reads coordinates and then the element at them.
// CHECK-LABEL: func.func @gather
// CHECK: %[[AT:.*]] = tensor.extract %arg1[%{{.*}}, %{{.*}}, %{{.*}}] : tensor<3x2x1xi32>
// CHECK: %[[ROW:.*]] = arith.index_cast %[[AT]] : i32 to index
// CHECK: %[[COLUMN:.*]] = linalg.index 2
// CHECK: tensor.extract %arg0[%[[ROW]], %[[COLUMN]]]
func.func @gather(%x: tensor<7x4xf32>, %at: tensor<3x2x1xi32>) -> tensor<3x2x4xf32> {
  %0 = tensor.gather %x[%at] gather_dims([0]) : (tensor<7x4xf32>, tensor<3x2x1xi32>) -> tensor<3x2x4xf32>
  return %0 : tensor<3x2x4xf32>
}

// -----

// Positions become indices of loops.
// CHECK-LABEL: func.func @generate
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]} outs
// CHECK: %[[I:.*]] = linalg.index 0
// CHECK: %[[J:.*]] = linalg.index 1
// CHECK: tensor.extract %arg0[%[[I]]]
// CHECK: arith.index_cast %[[J]]
func.func @generate(%x: tensor<4xi64>) -> tensor<4x5xi64> {
  %0 = tensor.generate {
  ^bb0(%i: index, %j: index):
    %a = tensor.extract %x[%i] : tensor<4xi64>
    %b = arith.index_cast %j : index to i64
    %c = arith.addi %a, %b : i64
    tensor.yield %c : i64
  } : tensor<4x5xi64>
  return %0 : tensor<4x5xi64>
}

// -----

// A softmax becomes a maximum, exponentials, a sum and a quotient.
// CHECK-LABEL: func.func @softmax
// CHECK-NOT: linalg.softmax
// CHECK: arith.maxnumf
// CHECK: math.exp
// CHECK: arith.addf
// CHECK: arith.divf
func.func @softmax(%x: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %empty = tensor.empty() : tensor<4x5xf32>
  %0 = linalg.softmax dimension(1) ins(%x : tensor<4x5xf32>) outs(%empty : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}

// -----

// The body takes an element of the slice where the distance from the slice's
// first element is a multiple of the stride.
// CHECK-LABEL: func.func @every_second
// CHECK: %[[REST:.*]] = arith.remui
// CHECK: arith.cmpi eq, %[[REST]]
// CHECK: %[[AT:.*]] = arith.divui
// CHECK: tensor.extract %arg0[%[[AT]]]
func.func @every_second(%x: tensor<3xf32>, %y: tensor<7xf32>) -> tensor<7xf32> {
  %0 = tensor.insert_slice %x into %y[1] [3] [2] : tensor<3xf32> into tensor<7xf32>
  return %0 : tensor<7xf32>
}

// -----

// One row is contiguous, however large the stride to the next row.
// CHECK-LABEL: func.func @one_of_steps
// CHECK: tensor.extract_slice %arg0[2, 0] [1, 3] [1, 1]
func.func @one_of_steps(%x: tensor<6x3xf32>) -> tensor<1x3xf32> {
  %0 = tensor.extract_slice %x[2, 0] [1, 3] [2, 1] : tensor<6x3xf32> to tensor<1x3xf32>
  return %0 : tensor<1x3xf32>
}

// -----

// The tensor that a product accumulates onto lies in memory.
// CHECK-LABEL: func.func @start_of_a_product
// CHECK: %[[START:.*]] = linalg.generic
// CHECK: heddle.contract {{.*}} accumulate(%[[START]])
func.func @start_of_a_product(%x: tensor<2x3xf32>, %y: tensor<3x2xf32>) -> tensor<2x2xf32> {
  %two = arith.constant 2.0 : f32
  %empty = tensor.empty() : tensor<2x2xf32>
  %fill = linalg.fill ins(%two : f32) outs(%empty : tensor<2x2xf32>) -> tensor<2x2xf32>
  %0 = heddle.contract [ab, bc -> ac] %x, %y accumulate(%fill) : (tensor<2x3xf32>, tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

// -----

// A linalg.index of loops that are reordered.
// CHECK-LABEL: func.func @reordered
// CHECK: linalg.generic
// CHECK-NOT: affine.apply
// CHECK: %[[I:.*]] = linalg.index 1
// CHECK: arith.index_cast %[[I]]
func.func @reordered(%x: tensor<4x5xi64>) -> tensor<5x4xi64> {
  %empty = tensor.empty() : tensor<5x4xi64>
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j, i)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x5xi64>) outs(%empty : tensor<5x4xi64>) {
  ^bb0(%a: i64, %b: i64):
    %i = linalg.index 0 : index
    %c = arith.index_cast %i : index to i64
    %d = arith.addi %a, %c : i64
    linalg.yield %d : i64
  } -> tensor<5x4xi64>
  return %0 : tensor<5x4xi64>
}

// -----

// A body that changes the accumulator's sign has no neutral element: the first
// iteration reads the initial value.
// CHECK-LABEL: func.func @alternating
// CHECK-SAME: (%[[X:.*]]: tensor<4x3xf32>, %[[O:.*]]: tensor<f32>)
// CHECK: linalg.generic
// CHECK-SAME: ins(%[[X]], %[[O]] : tensor<4x3xf32>, tensor<f32>)
// CHECK-NEXT: ^bb0(%[[A:.*]]: f32, %[[START:.*]]: f32, %[[B:.*]]: f32):
// CHECK-DAG: %[[I:.*]] = linalg.index 0
// CHECK-DAG: %[[J:.*]] = linalg.index 1
// CHECK-DAG: %[[I0:.*]] = arith.cmpi eq, %[[I]]
// CHECK-DAG: %[[J0:.*]] = arith.cmpi eq, %[[J]]
// CHECK: %[[FIRST:.*]] = arith.andi %[[I0]], %[[J0]]
// CHECK: %[[BEFORE:.*]] = arith.select %[[FIRST]], %[[START]], %[[B]]
// CHECK: arith.subf %[[A]], %[[BEFORE]]
func.func @alternating(%x: tensor<4x3xf32>, %o: tensor<f32>) -> tensor<f32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> ()>], iterator_types = ["reduction", "reduction"]} ins(%x : tensor<4x3xf32>) outs(%o : tensor<f32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.subf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// The destination that a loop fills is undefined at first. Devices may exchange
// it before it is written, so it must have some bits to send.
// CHECK-LABEL: func.func @exchanged_empty
// CHECK: %[[ZEROS:.*]] = linalg.generic
// CHECK: arith.constant 0.000000e+00
// CHECK: comm.all_gather %[[ZEROS]]
heddle.mesh @mesh <["x"=2]>
func.func @exchanged_empty() -> tensor<4x3xf32> {
  %e = tensor.empty() : tensor<2x3xf32>
  %0 = comm.all_gather %e dim 0 over @mesh <{"x"}> : tensor<2x3xf32> -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// An extremum keeps its constant initial value, which upstream would fold away
// (the maxnumf of NaN and -infinity is -infinity). A sum starts from the
// constant zero.
// CHECK-LABEL: func.func @constant_starts
// CHECK: %[[LOW:.*]] = arith.constant 0xFF800000 : f32
// CHECK: %[[START:.*]] = linalg.fill ins(%[[LOW]]
// CHECK: %[[MOST:.*]] = linalg.generic {{.*}} outs(%[[START]]
// CHECK: arith.maxnumf
// CHECK: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: %[[NOTHING:.*]] = linalg.fill ins(%[[ZERO]]
// CHECK: %[[PARTS:.*]] = linalg.generic {{.*}} outs(%[[NOTHING]]
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[PARTS]]
// CHECK: return %[[MOST]], %[[SUM]]
func.func @constant_starts(%x: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %low = arith.constant dense<0xFF800000> : tensor<4xf32>
  %most = linalg.reduce { arith.maxnumf } ins(%x : tensor<4x8xf32>) outs(%low : tensor<4xf32>) dimensions = [1]
  %five = arith.constant dense<5.0> : tensor<4xf32>
  %sum = linalg.reduce { arith.addf } ins(%x : tensor<4x8xf32>) outs(%five : tensor<4xf32>) dimensions = [1]
  return %most, %sum : tensor<4xf32>, tensor<4xf32>
}

// -----

// Packing into tiles and unpacking: pads, reshapes and transposes.
// CHECK-LABEL: func.func @pack
// CHECK-NOT: tensor.{{pack|unpack}}
// CHECK: tensor.expand_shape %{{.*}} output_shape [2, 5, 4, 4] : tensor<10x16xf32> into tensor<2x5x4x4xf32>
// CHECK: tensor.collapse_shape %{{.*}} : tensor<2x5x4x4xf32> into tensor<10x16xf32>
// CHECK: return %{{.*}}, %{{.*}} : tensor<2x4x5x4xf32>, tensor<10x14xf32>
func.func @pack(%x: tensor<10x14xf32>) -> (tensor<2x4x5x4xf32>, tensor<10x14xf32>) {
  %zero = arith.constant 0.0 : f32
  %tiles = tensor.empty() : tensor<2x4x5x4xf32>
  %0 = tensor.pack %x padding_value(%zero : f32) inner_dims_pos = [0, 1] inner_tiles = [5, 4] into %tiles : tensor<10x14xf32> -> tensor<2x4x5x4xf32>
  %back = tensor.empty() : tensor<10x14xf32>
  %1 = tensor.unpack %0 inner_dims_pos = [0, 1] inner_tiles = [5, 4] into %back : tensor<2x4x5x4xf32> -> tensor<10x14xf32>
  return %0, %1 : tensor<2x4x5x4xf32>, tensor<10x14xf32>
}

// -----

// Parts that follow each other in memory are joined in place, with zeros that
// the join writes; others are selected from.
// CHECK-LABEL: func.func @join
// CHECK: %[[ZEROS:.*]] = arith.constant dense<0.000000e+00> : tensor<1x2xf32>
// CHECK: tensor.concat dim(0) %{{.*}}, %[[ZEROS]] : (tensor<3x2xf32>, tensor<1x2xf32>) -> tensor<4x2xf32>
// CHECK-NOT: tensor.concat
// CHECK: return
func.func @join(%x: tensor<3x2xf32>, %y: tensor<2x3xf32>, %z: tensor<2x1xf32>) -> (tensor<4x2xf32>, tensor<2x4xf32>) {
  %zeros = arith.constant dense<0.0> : tensor<1x2xf32>
  %0 = tensor.concat dim(0) %x, %zeros : (tensor<3x2xf32>, tensor<1x2xf32>) -> tensor<4x2xf32>
  %1 = tensor.concat dim(1) %y, %z : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  return %0, %1 : tensor<4x2xf32>, tensor<2x4xf32>
}
