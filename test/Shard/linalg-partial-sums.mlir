// RUN: heddle-opt %s --heddle-shard-pipeline --heddle-localize-pipeline | FileCheck %s

// Bodies that add and scale pass partial sums on: three products need one sum.
// The third product accumulates onto the sum of the others.
heddle.mesh @mesh <["x"=2]>
// CHECK-LABEL: func.func @sums
// CHECK-NOT: comm.all_reduce
// CHECK: %[[SUM:.*]] = linalg.generic
// CHECK: %[[ALL:.*]] = linalg.matmul {{.*}} outs(%[[SUM]] : tensor<4x6xf32>)
// CHECK-NEXT: %[[WHOLE:.*]] = comm.all_reduce sum %[[ALL]]
// CHECK-NEXT: math.tanh %[[WHOLE]]
func.func @sums(%a: tensor<4x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"x"}]>}, %w: tensor<8x6xf32>, %v: tensor<8x6xf32>, %d: tensor<6xf32>) -> tensor<4x6xf32> {
  %zero = arith.constant 0.0 : f32
  %half = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<4x6xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<4x6xf32>) -> tensor<4x6xf32>
  %p = linalg.matmul ins(%a, %w : tensor<4x8xf32>, tensor<8x6xf32>) outs(%i : tensor<4x6xf32>) -> tensor<4x6xf32>
  %q = linalg.matmul ins(%a, %v : tensor<4x8xf32>, tensor<8x6xf32>) outs(%i : tensor<4x6xf32>) -> tensor<4x6xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%p, %q, %d : tensor<4x6xf32>, tensor<4x6xf32>, tensor<6xf32>) outs(%e : tensor<4x6xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32, %o: f32):
    %scaled = arith.mulf %x, %half : f32
    %difference = arith.subf %scaled, %y : f32
    %quotient = arith.divf %difference, %z : f32
    linalg.yield %quotient : f32
  } -> tensor<4x6xf32>
  %r = linalg.matmul ins(%a, %w : tensor<4x8xf32>, tensor<8x6xf32>) outs(%s : tensor<4x6xf32>) -> tensor<4x6xf32>
  %t = math.tanh %r : tensor<4x6xf32>
  return %t : tensor<4x6xf32>
}

// A constant must be added only once, and a square is not linear. So the sum is
// reduced before.
// CHECK-LABEL: func.func @shifted
// CHECK-COUNT-2: linalg.matmul
// CHECK: %[[WHOLE:.*]]:2 = heddle.unstack
// CHECK: linalg.generic {{.*}} ins(%[[WHOLE]]#0
// CHECK: linalg.generic {{.*}} ins(%[[WHOLE]]#1
// CHECK-NOT: comm.
func.func @shifted(%a: tensor<4x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"x"}]>}, %w: tensor<8x6xf32>, %v: tensor<8x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  %zero = arith.constant 0.0 : f32
  %half = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<4x6xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<4x6xf32>) -> tensor<4x6xf32>
  %p = linalg.matmul ins(%a, %w : tensor<4x8xf32>, tensor<8x6xf32>) outs(%i : tensor<4x6xf32>) -> tensor<4x6xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%p : tensor<4x6xf32>) outs(%e : tensor<4x6xf32>) {
  ^bb0(%x: f32, %o: f32):
    %shifted = arith.addf %x, %half : f32
    linalg.yield %shifted : f32
  } -> tensor<4x6xf32>
  %q = linalg.matmul ins(%a, %v : tensor<4x8xf32>, tensor<8x6xf32>) outs(%i : tensor<4x6xf32>) -> tensor<4x6xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<4x6xf32>) outs(%e : tensor<4x6xf32>) {
  ^bb0(%x: f32, %o: f32):
    %square = arith.mulf %x, %x : f32
    linalg.yield %square : f32
  } -> tensor<4x6xf32>
  return %s, %t : tensor<4x6xf32>, tensor<4x6xf32>
}
