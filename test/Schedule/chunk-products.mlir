// RUN: heddle-opt %s --heddle-order-program=chunks=4 | FileCheck %s
// RUN: heddle-opt %s --heddle-order-program=chunks=1 | FileCheck %s --check-prefix=WHOLE
// RUN: heddle-opt %s --heddle-order-program=chunks=9223372036854775807 | FileCheck %s --check-prefix=MANY
// MANY: tensor.extract_slice
// WHOLE-COUNT-5: comm.all_reduce
// WHOLE-NOT: comm.all_reduce

heddle.mesh @mesh <["tp"=2]>
heddle.variable @x : tensor<8x512x1024xf32> parameter init(zeros)
heddle.variable @w : tensor<1024x1024xf32> parameter init(zeros)

// Nothing else can hide the sum: the product is cut into four. Each chunk is
// summed while the next one is computed.
// CHECK-LABEL: func.func @pair
func.func @pair(%x: tensor<8x512x1024xf32>, %w: tensor<1024x1024xf32>) -> tensor<8x512x1024xf32> {
  // CHECK-NEXT: %[[X0:.*]] = tensor.extract_slice %{{.*}}[0, 0, 0] [2, 512, 1024] [1, 1, 1]
  // CHECK-NEXT: %[[P0:.*]] = heddle.contract "f" [bsh, hf -> bsf] %[[X0]], %{{.*}} : (tensor<2x512x1024xf32>, tensor<1024x1024xf32>) -> tensor<2x512x1024xf32>
  // CHECK-NEXT: %[[T0:.*]] = comm.start
  // CHECK-NEXT: comm.all_reduce sum %[[P0]]
  // CHECK: tensor.extract_slice %{{.*}}[2, 0, 0] [2, 512, 1024] [1, 1, 1]
  // CHECK: tensor.extract_slice %{{.*}}[4, 0, 0] [2, 512, 1024] [1, 1, 1]
  // CHECK: tensor.extract_slice %{{.*}}[6, 0, 0] [2, 512, 1024] [1, 1, 1]
  // CHECK: %[[S0:.*]] = comm.wait %[[T0]]
  // CHECK: %[[ALL:.*]] = heddle.stack %[[S0]], {{.*}} -> tensor<4x2x512x1024xf32>
  // CHECK-NEXT: %[[Y:.*]] = tensor.collapse_shape %[[ALL]] {{\[}}[0, 1], [2], [3]]
  // CHECK-NEXT: return %[[Y]]
  %p = heddle.contract "f" [bsh, hf -> bsf] %x, %w : (tensor<8x512x1024xf32>, tensor<1024x1024xf32>) -> tensor<8x512x1024xf32>
  %s = comm.all_reduce sum %p over @mesh <{"tp"}> : tensor<8x512x1024xf32>
  return %s : tensor<8x512x1024xf32>
}

// So is a product of variables: a sum of its chunks is no gather of weights,
// of which few may run ahead.
// CHECK-LABEL: func.func @variables
// CHECK-COUNT-4: comm.all_reduce
func.func @variables() -> tensor<8x512x1024xf32> {
  %x = heddle.load @x : tensor<8x512x1024xf32>
  %w = heddle.load @w : tensor<1024x1024xf32>
  %p = heddle.contract "f" [bsh, hf -> bsf] %x, %w : (tensor<8x512x1024xf32>, tensor<1024x1024xf32>) -> tensor<8x512x1024xf32>
  %s = comm.all_reduce sum %p over @mesh <{"tp"}> : tensor<8x512x1024xf32>
  return %s : tensor<8x512x1024xf32>
}

// These stay whole: rows that are not outermost, rows that both operands have,
// and a product that something else reads.
// CHECK-LABEL: func.func @whole
func.func @whole(%x: tensor<512x8x1024xf32>, %w: tensor<1024x1024xf32>, %a: tensor<8x64x1024xf32>, %b: tensor<8x1024x64xf32>) -> (tensor<8x512x1024xf32>, tensor<8x64x64xf32>, tensor<8x64x64xf32>) {
  // CHECK-NOT: heddle.stack
  // CHECK: return
  %p = heddle.contract "f" [sbh, hf -> bsf] %x, %w : (tensor<512x8x1024xf32>, tensor<1024x1024xf32>) -> tensor<8x512x1024xf32>
  %s = comm.all_reduce sum %p over @mesh <{"tp"}> : tensor<8x512x1024xf32>
  %q = heddle.contract [bik, bkj -> bij] %a, %b : (tensor<8x64x1024xf32>, tensor<8x1024x64xf32>) -> tensor<8x64x64xf32>
  %t = comm.all_reduce sum %q over @mesh <{"tp"}> : tensor<8x64x64xf32>
  %u = comm.all_reduce max %q over @mesh <{"tp"}> : tensor<8x64x64xf32>
  return %s, %t, %u : tensor<8x512x1024xf32>, tensor<8x64x64xf32>, tensor<8x64x64xf32>
}
