// RUN: heddle-opt %s --heddle-shard-pipeline --heddle-localize | FileCheck %s
// RUN: %{mlir-opt} %s --pass-pipeline='builtin.module(heddle-repeat-constants,heddle-propagate-shardings,heddle-insert-reshards,heddle-verify-sharded,heddle-localize)' | FileCheck %s

// One loop runs over two dimensions of a tensor. It is split along the first
// and takes the same part of the second.
heddle.mesh @mesh <["x"=2]>
// CHECK-LABEL: func.func @diagonal
// CHECK: %[[PART:.*]] = tensor.extract_slice %arg0[0, %{{.*}}] [2, 2] [1, 1]
// CHECK: linalg.generic {{.*}} ins(%[[PART]] : tensor<2x2xf32>) outs(%arg1 : tensor<2xf32>)
func.func @diagonal(%x: tensor<4x4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>}, %o: tensor<4xf32>) -> tensor<4xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i, i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<4x4xf32>) outs(%o : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// If the body is no product, it keeps padding out itself, and the initial value
// of a sum counts only on the first device.
#rows = affine_map<(b, f) -> (b, f)>
#kept = affine_map<(b, f) -> (b)>
// CHECK-LABEL: func.func @sum_of_exponentials
// CHECK-SAME: %[[X:.*]]: tensor<2x3xf32>
// CHECK: %[[DEVICE:.*]] = comm.axis_index
// CHECK: %[[START:.*]] = arith.constant 5.000000e-01
// CHECK: linalg.fill ins(%[[START]]
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %[[DEVICE]]
// CHECK: arith.select %[[FIRST]]
// CHECK: linalg.generic {{.*}} ins(%[[X]]
// CHECK: %[[INDEX:.*]] = linalg.index 1
// CHECK: %[[AT:.*]] = arith.addi %[[INDEX]]
// CHECK: %[[IN:.*]] = arith.cmpi slt, %[[AT]], %{{.*}}
// CHECK: %[[E:.*]] = math.exp
// CHECK: %[[NEW:.*]] = arith.select %[[IN]], %[[E]]
// CHECK: arith.addf %{{.*}}, %[[NEW]]
// CHECK: comm.all_reduce sum
func.func @sum_of_exponentials(%x: tensor<2x5xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"x"}]>}) -> tensor<2xf32> {
  %half = arith.constant 0.5 : f32
  %empty = tensor.empty() : tensor<2xf32>
  %o = linalg.fill ins(%half : f32) outs(%empty : tensor<2xf32>) -> tensor<2xf32>
  %0 = linalg.generic {indexing_maps = [#rows, #kept], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<2x5xf32>) outs(%o : tensor<2xf32>) {
  ^bb0(%in: f32, %out: f32):
    %e = math.exp %in : f32
    %s = arith.addf %out, %e : f32
    linalg.yield %s : f32
  } -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// A minimum is the maximum of the negated elements, negated.
// CHECK-LABEL: func.func @minimum
// CHECK: %[[MINE:.*]] = linalg.generic
// CHECK: arith.constant 0x7F800000
// CHECK: arith.minimumf
// CHECK: %[[NEGATED:.*]] = arith.negf %[[MINE]]
// CHECK: %[[MAX:.*]] = comm.all_reduce max %[[NEGATED]]
// CHECK: arith.negf %[[MAX]]
func.func @minimum(%x: tensor<2x5xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"x"}]>}, %o: tensor<2xf32>) -> tensor<2xf32> {
  %0 = linalg.generic {indexing_maps = [#rows, #kept], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<2x5xf32>) outs(%o : tensor<2xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = arith.minimumf %out, %in : f32
    linalg.yield %s : f32
  } -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// A division by a number of the padding would trap.
// CHECK-LABEL: func.func @divide
// CHECK: linalg.index 0
// CHECK: %[[DIVISOR:.*]] = arith.select
// CHECK: arith.divsi
// CHECK: %[[OTHER:.*]] = arith.select
// CHECK: arith.remsi %{{.*}}, %[[OTHER]]
func.func @divide(%x: tensor<5xi32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}]>}, %y: tensor<5xi32>) -> tensor<5xi32> {
  %0 = arith.divsi %x, %y : tensor<5xi32>
  %1 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%0 : tensor<5xi32>) outs(%y : tensor<5xi32>) {
  ^bb0(%in: i32, %out: i32):
    %r = arith.remsi %in, %out : i32
    linalg.yield %r : i32
  } -> tensor<5xi32>
  return %1 : tensor<5xi32>
}

// A maximum and a sum over all elements.
// CHECK-LABEL: func.func @softmax
// CHECK: heddle.mask_padding {{.*}} value(lowest)
// CHECK: comm.all_reduce max
// CHECK: math.exp
// CHECK: heddle.mask_padding {{.*}} value(zero)
// CHECK: comm.all_reduce sum
// CHECK: arith.divf
func.func @softmax(%x: tensor<2x5xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"x"}]>}) -> tensor<2x5xf32> {
  %empty = tensor.empty() : tensor<2x5xf32>
  %0 = linalg.softmax dimension(1) ins(%x : tensor<2x5xf32>) outs(%empty : tensor<2x5xf32>) -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}

// The result's rows lie as the indices do, its columns as those of the source.
// CHECK-LABEL: func.func @gather
// CHECK: %[[AT:.*]] = heddle.mask_padding %{{.*}} dims [0] sizes [3]
// CHECK: tensor.gather %{{.*}}[%[[AT]]] gather_dims([0]) : (tensor<7x4xf32>, tensor<2x1xi32>) -> tensor<2x4xf32>
func.func @gather(%x: tensor<7x4xf32>, %i: tensor<3x1xi32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>}) -> tensor<3x4xf32> {
  %0 = tensor.gather %x[%i] gather_dims([0]) : (tensor<7x4xf32>, tensor<3x1xi32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// If a table is split by rows, each device looks up the rows that it has.
// CHECK-LABEL: func.func @table
// CHECK-SAME: (%[[T:.*]]: tensor<4x4xf32>
// CHECK: %[[PART:.*]] = linalg.generic
// CHECK: %[[GLOBAL:.*]] = arith.index_cast
// CHECK: %[[ROW:.*]] = arith.subi %[[GLOBAL]], %{{.*}}
// CHECK: %[[MINE:.*]] = arith.cmpi ult, %[[ROW]]
// CHECK: %[[PLACE:.*]] = arith.select %[[MINE]], %[[ROW]]
// CHECK: tensor.extract %[[T]][%[[PLACE]],
// CHECK: comm.all_reduce sum %[[PART]]
func.func @table(%x: tensor<7x4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>}, %i: tensor<3x1xi32>) -> tensor<3x4xf32> {
  %0 = tensor.gather %x[%i] gather_dims([0]) : (tensor<7x4xf32>, tensor<3x1xi32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// The rows read from a small table are larger than the table.
// CHECK-LABEL: func.func @small_table
// CHECK: comm.all_gather
// CHECK: tensor.gather
func.func @small_table(%x: tensor<7xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}]>}, %i: tensor<30x1xi32>) -> tensor<30xf32> {
  %0 = tensor.gather %x[%i] gather_dims([0]) : (tensor<7xf32>, tensor<30x1xi32>) -> tensor<30xf32>
  return %0 : tensor<30xf32>
}

// A sum over devices that starts from zeros starts from them on each device. A
// sum with another initial value starts from it on the first device alone.
// CHECK-LABEL: func.func @start
// CHECK: %[[ZEROS:.*]] = linalg.fill
// CHECK-NOT: mask_padding
// CHECK: linalg.matmul {{.*}} outs(%[[ZEROS]] : tensor<4x4xf32>)
// CHECK: %[[FIRST:.*]] = heddle.mask_padding %arg2
// CHECK: linalg.matmul {{.*}} outs(%[[FIRST]] : tensor<4x4xf32>)
func.func @start(%x: tensor<4x6xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"x"}]>}, %w: tensor<6x4xf32>, %c: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<4x6xf32>, tensor<6x4xf32>) outs(%f : tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = linalg.matmul ins(%x, %w : tensor<4x6xf32>, tensor<6x4xf32>) outs(%c : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0, %1 : tensor<4x4xf32>, tensor<4x4xf32>
}

// No input of the split loop is a factor of the body's result. So the initial
// value of the sum counts on the first device alone.
// CHECK-LABEL: func.func @count
// CHECK-SAME: (%[[X:.*]]: tensor<4x4xf32> {{.*}}, %[[START:.*]]: tensor<4xf32>
// CHECK: %[[FIRST:.*]] = linalg.generic {{.*}} ins(%[[START]] : tensor<4xf32>)
// CHECK: arith.select
// CHECK: %[[PART:.*]] = linalg.generic {{.*}} ins(%[[X]] : tensor<4x4xf32>) outs(%[[FIRST]] : tensor<4xf32>)
// CHECK: comm.all_reduce sum %[[PART]] over @mesh <{"x"}>
func.func @count(%x: tensor<4x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"x"}]>},
                 %start: tensor<4xf32>) -> tensor<4xf32> {
  %one = arith.constant 1.0 : f32
  %y = linalg.generic {
      indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x8xf32>) outs(%start : tensor<4xf32>) {
  ^bb0(%a: f32, %sum: f32):
    %next = arith.addf %one, %sum : f32
    linalg.yield %next : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// CHECK-LABEL: func.func @added_again
// CHECK-SAME: %[[START:[a-z0-9]+]]: tensor<4xf32> {heddle.global_type = tensor<4xf32>, heddle.name = "start"
// CHECK: %[[FIRST:.*]] = linalg.generic {{.*}} ins(%[[START]] : tensor<4xf32>)
// CHECK: linalg.generic {{.*}} outs(%[[FIRST]] : tensor<4xf32>)
func.func @added_again(%x: tensor<4x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"x"}]>},
                       %z: tensor<4xf32>,
                       %start: tensor<4xf32> {heddle.name = "start"}) -> tensor<4xf32> {
  %y = linalg.generic {
      indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>,
                       affine_map<(d0, d1) -> (d0)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%x, %z : tensor<4x8xf32>, tensor<4xf32>) outs(%start : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32, %sum: f32):
    %next = arith.addf %b, %sum : f32
    linalg.yield %next : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// The body captures the local scale, although a negation makes the result.
// CHECK-LABEL: func.func @captured_by_minimum
// CHECK: %[[SCALE:.*]] = tensor.extract
// CHECK: %[[PART:.*]] = linalg.generic
// CHECK: arith.mulf %{{.*}}, %[[SCALE]] : f32
// CHECK: arith.negf %[[PART]]
func.func @captured_by_minimum(
    %x: tensor<4x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"x"}]>},
    %start: tensor<4xf32>, %scale: tensor<f32>) -> tensor<4xf32> {
  %s = tensor.extract %scale[] : tensor<f32>
  %y = linalg.generic {
      indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x8xf32>) outs(%start : tensor<4xf32>) {
  ^bb0(%a: f32, %least: f32):
    %scaled = arith.mulf %a, %s : f32
    %next = arith.minimumf %scaled, %least : f32
    linalg.yield %next : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// Integers in the padding are numbers, but as floats their bits may be NaN.
// CHECK-LABEL: func.func @bits
// CHECK: %[[F:.*]] = arith.bitcast
// CHECK: %[[MASKED:.*]] = heddle.mask_padding %[[F]] dims [1] sizes [5]
// CHECK: linalg.matmul ins(%[[MASKED]],
func.func @bits(%w: tensor<5x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>},
                %start: tensor<4x8xf32>, %bits: tensor<4x5xi32>) -> tensor<4x8xf32> {
  %f = arith.bitcast %bits : tensor<4x5xi32> to tensor<4x5xf32>
  %y = linalg.matmul ins(%f, %w : tensor<4x5xf32>, tensor<5x8xf32>) outs(%start : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// A dropped dimension has no loop; its only row is on the first device. Factor
// 0 is the dimension behind it.
// CHECK-LABEL: func.func @dropped
// CHECK-SAME: (%[[X:.*]]: tensor<1x4xf32>
// CHECK: %[[LIES:.*]] = comm.all_to_all %[[X]] split 1 concat 0
// CHECK: tensor.extract_slice %[[LIES]][0, 0] [1, 2] [1, 1]
func.func @dropped(%x: tensor<1x4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>}) -> tensor<4xf32> {
  %y = tensor.extract_slice %x[0, 0] [1, 4] [1, 1] {heddle.factors = #heddle.factors<["0" = {"x"}]>}
      : tensor<1x4xf32> to tensor<4xf32>
  return %y : tensor<4xf32>
}

// Devices combine their products one after the other, from one initial value.
// CHECK-LABEL: func.func @product
// CHECK-SAME: (%[[X:.*]]: tensor<4x4xf32>
// CHECK: %[[ONE:.*]] = arith.constant 1.0
// CHECK: %[[FIRST:.*]] = arith.cmpi eq
// CHECK: arith.select %[[FIRST]], %{{.*}}, %[[ONE]]
// CHECK: %[[PART:.*]] = linalg.reduce ins(%[[X]] : tensor<4x4xf32>)
// CHECK: %[[A:.*]] = comm.permute %[[PART]] sources [0, 0]
// CHECK: %[[B:.*]] = comm.permute %[[PART]] sources [1, 1]
// CHECK: arith.mulf %[[A]], %[[B]] : tensor<4xf32>
func.func @product(%x: tensor<4x7xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"x"}]>},
                   %start: tensor<4xf32>) -> tensor<4xf32> {
  %y = linalg.reduce { arith.mulf } ins(%x : tensor<4x7xf32>) outs(%start : tensor<4xf32>) dimensions = [1]
  return %y : tensor<4xf32>
}

// The index of the smallest number. Padding leaves the accumulators unchanged,
// and of equal numbers on several devices the first device's index remains.
// CHECK-LABEL: func.func @place
// CHECK: %[[PARTS:.*]]:2 = linalg.generic
// CHECK: %[[IN:.*]] = arith.cmpi slt
// CHECK: arith.select %[[IN]], %{{.*}}, %{{.*}} : f32
// CHECK: arith.select %[[IN]], %{{.*}}, %{{.*}} : i64
// CHECK: %[[A0:.*]] = comm.permute %[[PARTS]]#0 sources [0, 0]
// CHECK: %[[A1:.*]] = comm.permute %[[PARTS]]#1 sources [0, 0]
// CHECK: %[[B0:.*]] = comm.permute %[[PARTS]]#0 sources [1, 1]
// CHECK: %[[B1:.*]] = comm.permute %[[PARTS]]#1 sources [1, 1]
// CHECK: %[[LESS:.*]] = arith.cmpf ogt, %[[A0]], %[[B0]] : tensor<4xf32>
// CHECK: arith.minimumf %[[A0]], %[[B0]] : tensor<4xf32>
// CHECK: arith.select %[[LESS]], %[[B1]], %[[A1]] : tensor<4xi1>, tensor<4xi64>
func.func @place(%x: tensor<4x7xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"x"}]>},
                 %least: tensor<4xf32>, %where: tensor<4xi64>) -> (tensor<4xf32>, tensor<4xi64>) {
  %y:2 = linalg.generic {
      indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>,
                       affine_map<(d0, d1) -> (d0)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x7xf32>) outs(%least, %where : tensor<4xf32>, tensor<4xi64>) {
  ^bb0(%a: f32, %b: f32, %at: i64):
    %i = linalg.index 1 : index
    %here = arith.index_cast %i : index to i64
    %isLess = arith.cmpf ogt, %b, %a : f32
    %0 = arith.minimumf %b, %a : f32
    %1 = arith.select %isLess, %here, %at : i64
    linalg.yield %0, %1 : f32, i64
  } -> (tensor<4xf32>, tensor<4xi64>)
  return %y#0, %y#1 : tensor<4xf32>, tensor<4xi64>
}

// Of equal numbers the last index: it cannot be told from the devices' results.
// CHECK-LABEL: func.func @last_place
// CHECK: comm.all_gather
// CHECK: linalg.generic
func.func @last_place(%x: tensor<4x7xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"x"}]>},
                      %least: tensor<4xf32>, %where: tensor<4xi64>) -> (tensor<4xf32>, tensor<4xi64>) {
  %y:2 = linalg.generic {
      indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>,
                       affine_map<(d0, d1) -> (d0)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x7xf32>) outs(%least, %where : tensor<4xf32>, tensor<4xi64>) {
  ^bb0(%a: f32, %b: f32, %at: i64):
    %i = linalg.index 1 : index
    %here = arith.index_cast %i : index to i64
    %isLess = arith.cmpf oge, %b, %a : f32
    %0 = arith.minimumf %b, %a : f32
    %1 = arith.select %isLess, %here, %at : i64
    linalg.yield %0, %1 : f32, i64
  } -> (tensor<4xf32>, tensor<4xi64>)
  return %y#0, %y#1 : tensor<4xf32>, tensor<4xi64>
}

// A part that reaches beyond the tensor's end is padded.
// CHECK-LABEL: func.func @uneven_diagonal
// CHECK-SAME: (%[[X:.*]]: tensor<4x7xf32>
// CHECK: %[[ALL:.*]] = tensor.insert_slice %[[X]] into %{{.*}}[0, 0] [4, 7] [1, 1] : tensor<4x7xf32> into tensor<4x8xf32>
// CHECK: %[[PART:.*]] = tensor.extract_slice %[[ALL]][0, %{{.*}}] [4, 4] [1, 1]
// CHECK: linalg.generic
// CHECK-SAME: ins(%[[PART]] : tensor<4x4xf32>)
func.func @uneven_diagonal(%x: tensor<7x7xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>}) -> tensor<7xf32> {
  %e = tensor.empty() : tensor<7xf32>
  %y = linalg.generic {
      indexing_maps = [affine_map<(d0) -> (d0, d0)>, affine_map<(d0) -> (d0)>],
      iterator_types = ["parallel"]}
      ins(%x : tensor<7x7xf32>) outs(%e : tensor<7xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<7xf32>
  return %y : tensor<7xf32>
}

// CHECK-LABEL: func.func @complex_diagonal
// CHECK: arith.constant dense<(0.000000e+00,0.000000e+00)> : tensor<4x8xcomplex<f32>>
func.func @complex_diagonal(%x: tensor<7x7xcomplex<f32>> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>}) -> tensor<7xcomplex<f32>> {
  %e = tensor.empty() : tensor<7xcomplex<f32>>
  %y = linalg.generic {
      indexing_maps = [affine_map<(d0) -> (d0, d0)>, affine_map<(d0) -> (d0)>],
      iterator_types = ["parallel"]}
      ins(%x : tensor<7x7xcomplex<f32>>) outs(%e : tensor<7xcomplex<f32>>) {
  ^bb0(%a: complex<f32>, %o: complex<f32>):
    linalg.yield %a : complex<f32>
  } -> tensor<7xcomplex<f32>>
  return %y : tensor<7xcomplex<f32>>
}

// Over two loops, the first of equal numbers is one of the outer loop's first
// iteration. If the inner loop were split, numbers would be compared in another
// order.
// CHECK-LABEL: func.func @place_in_rows
// CHECK: comm.all_gather
// CHECK: linalg.generic
// CHECK-NOT: comm.permute
// CHECK: return
func.func @place_in_rows(%x: tensor<4x7xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"x"}]>},
                         %most: tensor<f32>, %where: tensor<index>) -> (tensor<f32>, tensor<index>) {
  %y:2 = linalg.generic {
      indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> ()>,
                       affine_map<(d0, d1) -> ()>],
      iterator_types = ["reduction", "reduction"]}
      ins(%x : tensor<4x7xf32>) outs(%most, %where : tensor<f32>, tensor<index>) {
  ^bb0(%a: f32, %b: f32, %at: index):
    %i = linalg.index 1 : index
    %isMore = arith.cmpf ogt, %a, %b : f32
    %0 = arith.select %isMore, %a, %b : f32
    %1 = arith.select %isMore, %i, %at : index
    linalg.yield %0, %1 : f32, index
  } -> (tensor<f32>, tensor<index>)
  return %y#0, %y#1 : tensor<f32>, tensor<index>
}

// The last index whose element is above the least so far depends on all
// elements before it.
// CHECK-LABEL: func.func @above_the_least
// CHECK: comm.all_gather
// CHECK: linalg.generic
// CHECK-NOT: comm.permute
// CHECK: return
func.func @above_the_least(%x: tensor<4x7xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"x"}]>},
                           %least: tensor<4xf32>, %where: tensor<4xi64>) -> (tensor<4xf32>, tensor<4xi64>) {
  %y:2 = linalg.generic {
      indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>,
                       affine_map<(d0, d1) -> (d0)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x7xf32>) outs(%least, %where : tensor<4xf32>, tensor<4xi64>) {
  ^bb0(%a: f32, %b: f32, %at: i64):
    %i = linalg.index 1 : index
    %here = arith.index_cast %i : index to i64
    %isMore = arith.cmpf ogt, %a, %b : f32
    %0 = arith.minimumf %b, %a : f32
    %1 = arith.select %isMore, %here, %at : i64
    linalg.yield %0, %1 : f32, i64
  } -> (tensor<4xf32>, tensor<4xi64>)
  return %y#0, %y#1 : tensor<4xf32>, tensor<4xi64>
}
