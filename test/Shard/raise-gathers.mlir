// RUN: heddle-opt %s --heddle-raise-gathers --split-input-file | FileCheck %s
// RUN: heddle-opt %s --heddle-shard-pipeline --heddle-localize-pipeline --split-input-file | FileCheck %s --check-prefix=LOCAL

#rows = affine_map<(i, j) -> (i)>
#all = affine_map<(i, j) -> (i, j)>

// An embedding as other compilers write it. The vocabulary is split, so the
// looked-up rows are summed over devices and the table is not gathered.
// CHECK-LABEL: func.func @embedding
// CHECK: %[[AT:.*]] = tensor.expand_shape %arg1 {{\[\[}}0, 1]] output_shape [32, 1]
// CHECK: %[[ROWS:.*]] = tensor.gather %arg0[%[[AT]]] gather_dims([0]) : (tensor<1000x64xf32>, tensor<32x1xi32>) -> tensor<32x64xf32>
// CHECK: return %[[ROWS]]
// LOCAL-LABEL: func.func @embedding
// LOCAL-NOT: comm.all_gather
// LOCAL: comm.all_reduce sum %{{.*}} over @mesh <{"tp"}> : tensor<16x64xf32>
heddle.mesh @mesh <["dp"=2, "tp"=2]>
func.func @embedding(
    %table: tensor<1000x64xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"tp"}, {}]>},
    %tokens: tensor<32xi32> {heddle.sharding = #heddle.sharding<@mesh, [{"dp"}]>}) -> tensor<32x64xf32> {
  %e = tensor.empty() : tensor<32x64xf32>
  %0 = linalg.generic {indexing_maps = [#rows, #all], iterator_types = ["parallel", "parallel"]} ins(%tokens : tensor<32xi32>) outs(%e : tensor<32x64xf32>) {
  ^bb0(%token: i32, %o: f32):
    %row = arith.index_cast %token : i32 to index
    %column = linalg.index 1 : index
    %v = tensor.extract %table[%row, %column] : tensor<1000x64xf32>
    linalg.yield %v : f32
  } -> tensor<32x64xf32>
  return %0 : tensor<32x64xf32>
}

// -----

// Computed indices (here clamped to the table), from two inputs, for the second
// dimension.
// CHECK-LABEL: func.func @computed
// CHECK: %[[PLACES:.*]] = linalg.generic
// CHECK-SAME: ins(%arg1, %arg2 : tensor<2x3xi64>, tensor<2x3xi64>)
// CHECK: arith.addi
// CHECK: arith.minsi
// CHECK: arith.maxsi
// CHECK: } -> tensor<2x3xi64>
// CHECK: %[[AT:.*]] = tensor.expand_shape %[[PLACES]] {{\[\[}}0], [1, 2]]
// CHECK: tensor.gather %arg0[%[[AT]]] gather_dims([1]) : (tensor<5x7xf32>, tensor<2x3x1xi64>) -> tensor<2x3x5xf32>
// LOCAL-LABEL: func.func @computed
#places = affine_map<(i, j, k) -> (i, j)>
#result = affine_map<(i, j, k) -> (i, j, k)>
func.func @computed(%table: tensor<5x7xf32>, %a: tensor<2x3xi64>, %b: tensor<2x3xi64>) -> tensor<2x3x5xf32> {
  %zero = arith.constant 0 : i64
  %e = tensor.empty() : tensor<2x3x5xf32>
  %0 = linalg.generic {indexing_maps = [#places, #places, #result], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a, %b : tensor<2x3xi64>, tensor<2x3xi64>) outs(%e : tensor<2x3x5xf32>) {
  ^bb0(%p: i64, %q: i64, %o: f32):
    %last = arith.constant 6 : i64
    %sum = arith.addi %p, %q : i64
    %below = arith.minsi %sum, %last : i64
    %place = arith.maxsi %below, %zero : i64
    %column = arith.index_cast %place : i64 to index
    %row = linalg.index 2 : index
    %v = tensor.extract %table[%row, %column] : tensor<5x7xf32>
    linalg.yield %v : f32
  } -> tensor<2x3x5xf32>
  return %0 : tensor<2x3x5xf32>
}

// -----

// No gathers: part of a row, rows in another order, two lookups, a sum.
// CHECK-LABEL: func.func @others
// CHECK-NOT: tensor.gather
// LOCAL-LABEL: func.func @others
#rows = affine_map<(i, j) -> (i)>
#all = affine_map<(i, j) -> (i, j)>
func.func @others(%table: tensor<10x6xf32>, %at: tensor<4xi32>) -> (tensor<4x5xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>) {
  %e5 = tensor.empty() : tensor<4x5xf32>
  %e6 = tensor.empty() : tensor<4x6xf32>
  %0 = linalg.generic {indexing_maps = [#rows, #all], iterator_types = ["parallel", "parallel"]} ins(%at : tensor<4xi32>) outs(%e5 : tensor<4x5xf32>) {
  ^bb0(%p: i32, %o: f32):
    %row = arith.index_cast %p : i32 to index
    %column = linalg.index 1 : index
    %v = tensor.extract %table[%row, %column] : tensor<10x6xf32>
    linalg.yield %v : f32
  } -> tensor<4x5xf32>
  %1 = linalg.generic {indexing_maps = [#rows, #all], iterator_types = ["parallel", "parallel"]} ins(%at : tensor<4xi32>) outs(%e6 : tensor<4x6xf32>) {
  ^bb0(%p: i32, %o: f32):
    %i = linalg.index 0 : index
    %number = arith.index_cast %p : i32 to index
    %row = arith.addi %number, %i : index
    %column = linalg.index 1 : index
    %v = tensor.extract %table[%row, %column] : tensor<10x6xf32>
    linalg.yield %v : f32
  } -> tensor<4x6xf32>
  %2 = linalg.generic {indexing_maps = [#rows, #all], iterator_types = ["parallel", "parallel"]} ins(%at : tensor<4xi32>) outs(%e6 : tensor<4x6xf32>) {
  ^bb0(%p: i32, %o: f32):
    %row = arith.index_cast %p : i32 to index
    %v = tensor.extract %table[%row, %row] : tensor<10x6xf32>
    linalg.yield %v : f32
  } -> tensor<4x6xf32>
  %3 = linalg.generic {indexing_maps = [#rows, #all], iterator_types = ["parallel", "parallel"]} ins(%at : tensor<4xi32>) outs(%e6 : tensor<4x6xf32>) {
  ^bb0(%p: i32, %o: f32):
    %row = arith.index_cast %p : i32 to index
    %column = linalg.index 1 : index
    %v = tensor.extract %table[%row, %column] : tensor<10x6xf32>
    %w = arith.addf %v, %v : f32
    linalg.yield %w : f32
  } -> tensor<4x6xf32>
  return %0, %1, %2, %3 : tensor<4x5xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>
}
