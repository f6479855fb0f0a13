// RUN: heddle-opt %s --heddle-shorten-lives | FileCheck %s

heddle.mesh @mesh <["dp"=2]>
heddle.variable @w : tensor<8x4xf32> parameter init(zeros) storage(<@mesh, [{"dp"}, {} ]>)
heddle.variable @m : tensor<8x8xf32> parameter init(zeros)
func.func private @make(tensor<8x8xf32>) -> tensor<8x8xf32> attributes {heddle.kernel}
func.func private @use(tensor<4x8xf32>) -> tensor<4x8xf32> attributes {heddle.kernel}

// CHECK-LABEL: func.func @gradients
func.func @gradients(%x: tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  // CHECK: %[[A:.*]] = call @make
  // CHECK-NEXT: comm.reduce_scatter sum %[[A]]
  // CHECK-NEXT: %[[B:.*]] = call @make
  // CHECK-NEXT: comm.reduce_scatter sum %[[B]]
  %a = func.call @make(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = func.call @make(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %p = comm.reduce_scatter sum %a dim 0 over @mesh <{"dp"}> : tensor<8x8xf32> -> tensor<4x8xf32>
  %q = comm.reduce_scatter sum %b dim 0 over @mesh <{"dp"}> : tensor<8x8xf32> -> tensor<4x8xf32>
  return %p, %q : tensor<4x8xf32>, tensor<4x8xf32>
}

// A tensor that is read again stays alive, so moving the op gains nothing.
// CHECK-LABEL: func.func @read_again
func.func @read_again(%x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<4x8xf32>) {
  // CHECK: call @make
  // CHECK-NEXT: call @make
  // CHECK-NEXT: comm.reduce_scatter
  %a = func.call @make(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = func.call @make(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %p = comm.reduce_scatter sum %a dim 0 over @mesh <{"dp"}> : tensor<8x8xf32> -> tensor<4x8xf32>
  return %b, %p : tensor<8x8xf32>, tensor<4x8xf32>
}

// CHECK-LABEL: func.func @parameters
func.func @parameters(%x: tensor<8x8xf32>) -> (tensor<8x4xf32>, tensor<4x8xf32>) {
  // CHECK: %[[W:.*]] = heddle.load @w
  // CHECK: %[[M:.*]] = heddle.load @m
  // CHECK: %[[B:.*]] = call @make
  // CHECK: %[[G:.*]] = comm.all_gather %[[W]]
  // CHECK-NEXT: heddle.contract {{.*}} %[[B]], %[[G]]
  // CHECK: %[[S:.*]] = comm.slice %[[M]]
  // CHECK-NEXT: call @use(%[[S]])
  %w = heddle.load @w : tensor<4x4xf32>
  %m = heddle.load @m : tensor<8x8xf32>
  %g = comm.all_gather %w dim 0 over @mesh <{"dp"}> : tensor<4x4xf32> -> tensor<8x4xf32>
  %s = comm.slice %m dim 0 over @mesh <{"dp"}> : tensor<8x8xf32> -> tensor<4x8xf32>
  %b = func.call @make(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %y = heddle.contract [ij, jk -> ik] %b, %g : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %u = func.call @use(%s) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y, %u : tensor<8x4xf32>, tensor<4x8xf32>
}

// What packs a gradient and unpacks a parameter moves along.
func.func private @pack(tensor<64xf32>) -> tensor<8x8xf32> attributes {heddle.kernel}
// CHECK-LABEL: func.func @packed
func.func @packed(%x: tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<8x2x2xf32>) {
  // CHECK: %[[A:.*]] = call @make
  // CHECK-NEXT: %[[LINE:.*]] = tensor.collapse_shape %[[A]]
  // CHECK-NEXT: %[[PACKED:.*]] = call @pack(%[[LINE]])
  // CHECK-NEXT: comm.reduce_scatter sum %[[PACKED]]
  // CHECK-NEXT: %[[B:.*]] = call @make
  // CHECK-NEXT: %[[G:.*]] = comm.all_gather
  // CHECK-NEXT: %[[W:.*]] = tensor.expand_shape %[[G]]
  // CHECK-NEXT: heddle.contract {{.*}} %[[B]], %[[W]]
  %0 = heddle.load @w : tensor<4x4xf32>
  %g = comm.all_gather %0 dim 0 over @mesh <{"dp"}> : tensor<4x4xf32> -> tensor<8x4xf32>
  %w = tensor.expand_shape %g [[0], [1, 2]] output_shape [8, 2, 2] : tensor<8x4xf32> into tensor<8x2x2xf32>
  %a = func.call @make(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = func.call @make(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %y = heddle.contract [ij, jkl -> ikl] %b, %w : (tensor<8x8xf32>, tensor<8x2x2xf32>) -> tensor<8x2x2xf32>
  %line = tensor.collapse_shape %a [[0, 1]] : tensor<8x8xf32> into tensor<64xf32>
  %packed = func.call @pack(%line) : (tensor<64xf32>) -> tensor<8x8xf32>
  %p = comm.reduce_scatter sum %packed dim 0 over @mesh <{"dp"}> : tensor<8x8xf32> -> tensor<4x8xf32>
  return %p, %y : tensor<4x8xf32>, tensor<8x2x2xf32>
}

// So do zeros that are joined to a gradient.
// CHECK-LABEL: func.func @padded
func.func @padded(%x: tensor<8x8xf32>, %u: tensor<4x7xf32>) -> (tensor<4x7xf32>, tensor<8x8xf32>) {
  // CHECK-NEXT: %[[A:.*]] = heddle.contract
  // CHECK-NEXT: %[[ZEROS:.*]] = arith.constant
  // CHECK-NEXT: %[[P:.*]] = tensor.concat dim(0) %[[A]], %[[ZEROS]]
  // CHECK-NEXT: comm.reduce_scatter sum %[[P]]
  // CHECK-NEXT: call @make
  %a = heddle.contract [ij, ik -> jk] %u, %u : (tensor<4x7xf32>, tensor<4x7xf32>) -> tensor<7x7xf32>
  %b = func.call @make(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %zeros = arith.constant dense<0.0> : tensor<1x7xf32>
  %padded = tensor.concat dim(0) %a, %zeros : (tensor<7x7xf32>, tensor<1x7xf32>) -> tensor<8x7xf32>
  %p = comm.reduce_scatter sum %padded dim 0 over @mesh <{"dp"}> : tensor<8x7xf32> -> tensor<4x7xf32>
  return %p, %b : tensor<4x7xf32>, tensor<8x8xf32>
}
