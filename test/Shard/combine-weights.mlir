// RUN: heddle-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(heddle-combine-collectives{max-bytes=0 max-weight=64 bucket=100}))" | FileCheck %s
// RUN: heddle-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(heddle-combine-collectives{max-bytes=0 max-weight=2048}))" | FileCheck %s --check-prefix=PRODUCT

// Gradients of any shape are reduced in buckets of at most 100 bytes, where the
// last member of a bucket stands. The update of the first bucket does not wait
// for the second. A larger gradient is reduced alone.
heddle.mesh @mesh <["dp"=2]>
heddle.variable @a : tensor<4xf32> parameter init(zeros)
heddle.variable @b : tensor<3x4xf32> parameter init(zeros)
heddle.variable @c : tensor<16xf32> parameter init(zeros)
heddle.variable @d : tensor<f32> parameter init(zeros)
heddle.variable @large : tensor<17xf32> parameter init(zeros)
// CHECK-LABEL: @gradients
// CHECK-SAME: (%[[A:.*]]: tensor<4xf32>, %[[B:.*]]: tensor<3x4xf32>, %[[C:.*]]: tensor<16xf32>, %[[D:.*]]: tensor<f32>, %[[L:.*]]: tensor<17xf32>)
func.func @gradients(%a: tensor<4xf32>, %b: tensor<3x4xf32>, %c: tensor<16xf32>, %d: tensor<f32>, %large: tensor<17xf32>) {
  // CHECK-NEXT: %[[FLAT:.*]] = tensor.collapse_shape %[[B]] {{\[\[0, 1\]\]}} : tensor<3x4xf32> into tensor<12xf32>
  // CHECK-NEXT: %[[J:.*]] = tensor.concat dim(0) %[[A]], %[[FLAT]] : (tensor<4xf32>, tensor<12xf32>) -> tensor<16xf32>
  // CHECK-NEXT: %[[R:.*]] = comm.all_reduce sum %[[J]] over @mesh <{"dp"}> : tensor<16xf32>
  // CHECK-DAG: %[[RA:.*]] = tensor.extract_slice %[[R]][0] [4] [1]
  // CHECK-DAG: %[[PB:.*]] = tensor.extract_slice %[[R]][4] [12] [1]
  // CHECK-DAG: %[[RB:.*]] = tensor.expand_shape %[[PB]] {{\[\[0, 1\]\]}}
  // CHECK: heddle.store %[[RA]], @a
  // CHECK: heddle.store %[[RB]], @b
  // CHECK: comm.all_reduce sum %[[L]]
  // CHECK: heddle.store %{{.*}}, @large
  // CHECK: %[[S:.*]] = heddle.stack %[[D]]
  // CHECK: tensor.concat dim(0) %[[C]], %[[S]]
  // CHECK-NEXT: comm.all_reduce sum {{.*}} : tensor<17xf32>
  // CHECK: heddle.unstack
  %0 = comm.all_reduce sum %a over @mesh <{"dp"}> : tensor<4xf32>
  heddle.store %0, @a : tensor<4xf32>
  %1 = comm.all_reduce sum %b over @mesh <{"dp"}> : tensor<3x4xf32>
  heddle.store %1, @b : tensor<3x4xf32>
  %2 = comm.all_reduce sum %c over @mesh <{"dp"}> : tensor<16xf32>
  heddle.store %2, @c : tensor<16xf32>
  %3 = comm.all_reduce sum %large over @mesh <{"dp"}> : tensor<17xf32>
  heddle.store %3, @large : tensor<17xf32>
  %4 = comm.all_reduce sum %d over @mesh <{"dp"}> : tensor<f32>
  heddle.store %4, @d : tensor<f32>
  return
}

// -----

// What a product reads is no gradient.
heddle.mesh @mesh <["dp"=2]>
// PRODUCT-LABEL: @activations
// PRODUCT-NOT: concat
// PRODUCT: return
func.func @activations(%a: tensor<16x16xf32>, %b: tensor<8x16xf32>, %w: tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<8x16xf32>) {
  %0 = comm.all_reduce sum %a over @mesh <{"dp"}> : tensor<16x16xf32>
  %1 = comm.all_reduce sum %b over @mesh <{"dp"}> : tensor<8x16xf32>
  %2 = heddle.contract [ij, jk -> ik] %0, %w : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %3 = heddle.contract [ij, jk -> ik] %1, %w : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  return %2, %3 : tensor<16x16xf32>, tensor<8x16xf32>
}

// -----

// Each member's part of the scattered tensors is one row. The second tensor has
// three rows for two members, so it is padded.
heddle.mesh @mesh <["dp"=2]>
heddle.variable @a : tensor<2xf32> parameter init(zeros)
heddle.variable @b : tensor<2x3xf32> parameter init(zeros)
// CHECK-LABEL: @scatter
func.func @scatter(%a: tensor<4xf32>, %b: tensor<3x3xf32>) {
  // CHECK: %[[A:.*]] = tensor.expand_shape %{{.*}} output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
  // CHECK: tensor.concat {{.*}} -> tensor<4x3xf32>
  // CHECK: %[[J:.*]] = tensor.concat dim(1) %[[A]], %{{.*}} : (tensor<2x2xf32>, tensor<2x6xf32>) -> tensor<2x8xf32>
  // CHECK: %[[F:.*]] = tensor.collapse_shape %[[J]]
  // CHECK: %[[R:.*]] = comm.reduce_scatter sum %[[F]] dim 0 over @mesh <{"dp"}> : tensor<16xf32> -> tensor<8xf32>
  // CHECK-DAG: tensor.extract_slice %[[R]][0] [2] [1]
  // CHECK-DAG: tensor.extract_slice %[[R]][2] [6] [1]
  %0 = comm.reduce_scatter sum %a dim 0 over @mesh <{"dp"}> : tensor<4xf32> -> tensor<2xf32>
  heddle.store %0, @a : tensor<2xf32>
  %1 = comm.reduce_scatter sum %b dim 0 over @mesh <{"dp"}> : tensor<3x3xf32> -> tensor<2x3xf32>
  heddle.store %1, @b : tensor<2x3xf32>
  return
}

// -----

// Weights are gathered where the first of them is. What is stored in between is
// gathered later, as is what does not fit into the bucket.
heddle.mesh @mesh <["dp"=2]>
heddle.variable @a : tensor<2xf32> parameter init(zeros)
heddle.variable @b : tensor<3x2xf32> parameter init(zeros)
heddle.variable @c : tensor<8xf32> parameter init(zeros)
// CHECK-LABEL: @gather
func.func @gather(%x: tensor<4xf32>, %y: tensor<3x3xf32>) -> (tensor<4xf32>, tensor<3x3xf32>, tensor<16xf32>, tensor<4xf32>) {
  // CHECK: heddle.load @a
  // CHECK: heddle.load @b
  // CHECK: %[[J:.*]] = tensor.concat dim(0) %{{.*}} : (tensor<2xf32>, tensor<6xf32>) -> tensor<8xf32>
  // CHECK: %[[G:.*]] = comm.all_gather %[[J]] dim 0 over @mesh <{"dp"}> : tensor<8xf32> -> tensor<16xf32>
  // CHECK: %[[P:.*]] = tensor.expand_shape %[[G]] {{.*}} into tensor<2x8xf32>
  // CHECK: tensor.extract_slice %[[P]][0, 0] [2, 2] [1, 1]
  // CHECK: tensor.extract_slice %[[P]][0, 2] [2, 6] [1, 1]
  // CHECK: linalg.transpose
  // CHECK: tensor.extract_slice {{.*}} : tensor<3x4xf32> to tensor<3x3xf32>
  // CHECK: arith.addf
  // CHECK: heddle.store
  // CHECK: arith.addf
  // CHECK: heddle.load @c
  // CHECK: heddle.load @a
  // CHECK: tensor.concat {{.*}} -> tensor<10xf32>
  // CHECK: comm.all_gather
  %a = heddle.load @a : tensor<2xf32>
  %0 = comm.all_gather %a dim 0 over @mesh <{"dp"}> : tensor<2xf32> -> tensor<4xf32>
  %1 = arith.addf %0, %x : tensor<4xf32>
  heddle.store %a, @a : tensor<2xf32>
  %b = heddle.load @b : tensor<3x2xf32>
  %2 = comm.all_gather %b dim 1 over @mesh <{"dp"}> : tensor<3x2xf32> -> tensor<3x3xf32>
  %3 = arith.addf %2, %y : tensor<3x3xf32>
  %c = heddle.load @c : tensor<8xf32>
  %4 = comm.all_gather %c dim 0 over @mesh <{"dp"}> : tensor<8xf32> -> tensor<16xf32>
  %new = heddle.load @a : tensor<2xf32>
  %5 = comm.all_gather %new dim 0 over @mesh <{"dp"}> : tensor<2xf32> -> tensor<4xf32>
  return %1, %3, %4, %5 : tensor<4xf32>, tensor<3x3xf32>, tensor<16xf32>, tensor<4xf32>
}
