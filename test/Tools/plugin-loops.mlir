// Loops of unknown length in the stock mlir-opt: what `before` and `after` of
// an scf.while carry, and an scf.for with computed bounds, are partitioned, and
// all devices agree when they end.
// RUN: %{mlir-opt} %s --pass-pipeline='builtin.module(heddle-shard-pipeline,heddle-localize-pipeline,heddle-verify-localized)' | FileCheck %s
// RUN: %{mlir-opt} %s --pass-pipeline='builtin.module(heddle-shard-pipeline,heddle-localize-pipeline)' > %t.stock
// RUN: heddle-opt %s --heddle-shard-pipeline --heddle-localize-pipeline > %t.own
// RUN: diff %t.stock %t.own

heddle.mesh @mesh <["x"=2, "y"=2]>

// Power iteration until the vector's length changes little. Rows of the matrix
// are split over "x", columns over "y". The values of `before` and of `after`
// have different types.
// CHECK-LABEL: func.func @power
// CHECK-SAME: %[[M:[a-z0-9]+]]: tensor<3x3xf32>
func.func @power(%m: tensor<6x6xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {"y"}]>},
                 %start: tensor<6xf32>) -> (tensor<6xf32>, tensor<f32>) {
  %zero = arith.constant 0.0 : f32
  %bound = arith.constant 1.0e-3 : f32
  %empty = tensor.empty() : tensor<6xf32>
  %scalar = tensor.empty() : tensor<f32>
  %none = linalg.fill ins(%zero : f32) outs(%scalar : tensor<f32>) -> tensor<f32>
  // CHECK: scf.while (%[[V:.*]] = %{{.*}}, %{{.*}} = %{{.*}}) : (tensor<3xf32>, tensor<f32>) -> (tensor<f32>, tensor<3xf32>)
  %length, %vector = scf.while (%v = %start, %old = %none) : (tensor<6xf32>, tensor<f32>) -> (tensor<f32>, tensor<6xf32>) {
    %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<6xf32>) -> tensor<6xf32>
    // CHECK: linalg.matvec ins(%[[M]], %[[V]] : tensor<3x3xf32>, tensor<3xf32>)
    // CHECK: comm.all_reduce sum {{.*}} over @mesh <{"y"}> : tensor<3xf32>
    %w = linalg.matvec ins(%m, %v : tensor<6x6xf32>, tensor<6xf32>) outs(%init : tensor<6xf32>) -> tensor<6xf32>
    %nil = linalg.fill ins(%zero : f32) outs(%scalar : tensor<f32>) -> tensor<f32>
    %sum = linalg.dot ins(%w, %w : tensor<6xf32>, tensor<6xf32>) outs(%nil : tensor<f32>) -> tensor<f32>
    // CHECK: %[[SUM:.*]] = comm.all_reduce sum {{.*}} : tensor<f32>
    // CHECK: %[[LENGTH:.*]] = math.sqrt %[[SUM]] : tensor<f32>
    %new = math.sqrt %sum : tensor<f32>
    %change = arith.subf %new, %old : tensor<f32>
    %number = tensor.extract %change[] : tensor<f32>
    %absolute = math.absf %number : f32
    // CHECK: %[[MORE:.*]] = arith.cmpf ogt
    // CHECK: scf.condition(%[[MORE]]) %[[LENGTH]], %{{.*}} : tensor<f32>, tensor<3xf32>
    %more = arith.cmpf ogt, %absolute, %bound : f32
    scf.condition(%more) %new, %w : tensor<f32>, tensor<6xf32>
  } do {
  ^bb0(%now: tensor<f32>, %w: tensor<6xf32>):
    %number = tensor.extract %now[] : tensor<f32>
    %all = linalg.fill ins(%number : f32) outs(%empty : tensor<6xf32>) -> tensor<6xf32>
    // CHECK: arith.divf {{.*}} : tensor<3xf32>
    // The next iteration needs the vector split along columns.
    // CHECK: %[[NEXT:.*]] = comm.
    // CHECK: scf.yield %{{.*}}, %{{.*}} : tensor<3xf32>, tensor<f32>
    %next = arith.divf %w, %all : tensor<6xf32>
    scf.yield %next, %now : tensor<6xf32>, tensor<f32>
  }
  return %vector, %length : tensor<6xf32>, tensor<f32>
}

// The largest number decides the number of iterations; "x" does not divide 5
// rows.
// CHECK-LABEL: func.func @computed
func.func @computed(%x: tensor<5x4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>}, %counts: tensor<4xi32> {heddle.sharding = #heddle.sharding<@mesh, [{"y"}]>}) -> tensor<5x4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %least = arith.constant dense<0> : tensor<i32>
  %most = linalg.reduce { arith.maxsi } ins(%counts : tensor<4xi32>) outs(%least : tensor<i32>) dimensions = [0]
  // CHECK: comm.all_reduce max
  %number = tensor.extract %most[] : tensor<i32>
  // CHECK: %[[COUNT:.*]] = arith.index_cast
  %count = arith.index_cast %number : i32 to index
  // CHECK: scf.for %{{.*}} = %{{.*}} to %[[COUNT]] step %{{.*}} iter_args(%{{.*}} = %{{.*}}) -> (tensor<3x4xf32>)
  %y = scf.for %i = %c0 to %count step %c1 iter_args(%h = %x) -> tensor<5x4xf32> {
    %t = math.tanh %h : tensor<5x4xf32>
    scf.yield %t : tensor<5x4xf32>
  }
  return %y : tensor<5x4xf32>
}
