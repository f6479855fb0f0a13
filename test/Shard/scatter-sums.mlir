// RUN: heddle-opt %s --split-input-file --heddle-propagate-shardings --heddle-scatter-sums --heddle-insert-reshards --heddle-verify-sharded --heddle-localize --heddle-verify-localized | FileCheck %s

// The work between a sum and the next product runs on half of the rows.
heddle.mesh @mesh <["tp"=2]>
// CHECK-LABEL: func.func @between_products
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<8192x1024xf32>
// CHECK: %[[PART:.*]] = heddle.contract "out"
// CHECK: %[[OWN:.*]] = comm.slice %[[X]] dim 0 over @mesh <{"tp"}>
// CHECK: %[[SUM:.*]] = comm.reduce_scatter sum %[[PART]] dim 0 over @mesh <{"tp"}>
// CHECK: %[[ADDED:.*]] = arith.addf %[[OWN]], %[[SUM]] : tensor<4096x1024xf32>
// CHECK: %[[TANH:.*]] = math.tanh %[[ADDED]] : tensor<4096x1024xf32>
// CHECK: %[[WHOLE:.*]] = comm.all_gather %[[TANH]] dim 0 over @mesh <{"tp"}>
// CHECK: heddle.contract "in" {{.*}} %[[WHOLE]]
// CHECK-NOT: comm.
func.func @between_products(%x: tensor<8192x1024xf32>, %h: tensor<8192x4096xf32>, %w: tensor<4096x1024xf32>, %v: tensor<1024x4096xf32>) -> tensor<8192x4096xf32> {
  %y = heddle.contract "out" [bf, fh -> bh] %h, %w {heddle.factors = #heddle.factors<["f" = {"tp"}]>} : (tensor<8192x4096xf32>, tensor<4096x1024xf32>) -> tensor<8192x1024xf32>
  %a = arith.addf %x, %y : tensor<8192x1024xf32>
  %t = math.tanh %a : tensor<8192x1024xf32>
  %z = heddle.contract "in" [bh, hf -> bf] %t, %v {heddle.factors = #heddle.factors<["f" = {"tp"}]>} : (tensor<8192x1024xf32>, tensor<1024x4096xf32>) -> tensor<8192x4096xf32>
  return %z : tensor<8192x4096xf32>
}

// Both sums of a path are scattered, and the path stays split up to the product.
// Its result is gathered for that, so a sum over its rows needs no all-reduce.
// CHECK-LABEL: func.func @residual
// CHECK-COUNT-2: comm.reduce_scatter sum
// CHECK: arith.addf {{.*}} : tensor<4096x1024xf32>
// CHECK: comm.all_gather
// CHECK: heddle.contract "in"
// CHECK: heddle.reduce sum {{.*}} : tensor<8192x1024xf32> -> tensor<1024xf32>
// CHECK-NOT: comm.
func.func @residual(%h: tensor<8192x4096xf32>, %w: tensor<4096x1024xf32>, %v: tensor<1024x4096xf32>) -> (tensor<8192x4096xf32>, tensor<1024xf32>) {
  %y = heddle.contract "a" [bf, fh -> bh] %h, %w {heddle.factors = #heddle.factors<["f" = {"tp"}]>} : (tensor<8192x4096xf32>, tensor<4096x1024xf32>) -> tensor<8192x1024xf32>
  %g = math.tanh %h : tensor<8192x4096xf32>
  %z = heddle.contract "b" [bf, fh -> bh] %g, %w {heddle.factors = #heddle.factors<["f" = {"tp"}]>} : (tensor<8192x4096xf32>, tensor<4096x1024xf32>) -> tensor<8192x1024xf32>
  %t = math.tanh %y : tensor<8192x1024xf32>
  %a = arith.addf %t, %z : tensor<8192x1024xf32>
  %c = heddle.contract "in" [bh, hf -> bf] %a, %v {heddle.factors = #heddle.factors<["f" = {"tp"}]>} : (tensor<8192x1024xf32>, tensor<1024x4096xf32>) -> tensor<8192x4096xf32>
  %s = heddle.reduce sum %a over [0] : tensor<8192x1024xf32> -> tensor<1024xf32>
  return %c, %s : tensor<8192x4096xf32>, tensor<1024xf32>
}

// What is made of a gradient no product reads, though one reads the weight. The
// gradient is summed whole: it may go with others.
// CHECK-LABEL: func.func @gradient
// CHECK: comm.all_reduce sum
// CHECK: arith.mulf {{.*}} : tensor<4096x1024xf32>
// CHECK-NOT: comm.
func.func @gradient(%x: tensor<8192x4096xf32>, %y: tensor<8192x1024xf32>, %w: tensor<4096x1024xf32>) -> (tensor<4096x1024xf32>, tensor<8192x1024xf32>) {
  %g = heddle.contract "g" [bh, bf -> hf] %x, %y {heddle.factors = #heddle.factors<["b" = {"tp"}]>} : (tensor<8192x4096xf32>, tensor<8192x1024xf32>) -> tensor<4096x1024xf32>
  %q = arith.mulf %g, %g : tensor<4096x1024xf32>
  %s = arith.subf %w, %q : tensor<4096x1024xf32>
  %f = heddle.contract "f" [bh, hf -> bf] %x, %w {heddle.factors = #heddle.factors<["b" = {"tp"}]>} : (tensor<8192x4096xf32>, tensor<4096x1024xf32>) -> tensor<8192x1024xf32>
  return %s, %f : tensor<4096x1024xf32>, tensor<8192x1024xf32>
}

// Rows that the devices do not divide are not split.
// CHECK-LABEL: func.func @odd
// CHECK: comm.all_reduce sum
// CHECK: math.tanh {{.*}} : tensor<8191x1023xf32>
// CHECK-NOT: comm.
func.func @odd(%h: tensor<8191x4096xf32>, %w: tensor<4096x1023xf32>, %v: tensor<1023x4096xf32>) -> tensor<8191x4096xf32> {
  %y = heddle.contract "a" [bf, fh -> bh] %h, %w {heddle.factors = #heddle.factors<["f" = {"tp"}]>} : (tensor<8191x4096xf32>, tensor<4096x1023xf32>) -> tensor<8191x1023xf32>
  %t = math.tanh %y : tensor<8191x1023xf32>
  %z = heddle.contract "b" [bh, hf -> bf] %t, %v {heddle.factors = #heddle.factors<["f" = {"tp"}]>} : (tensor<8191x1023xf32>, tensor<1023x4096xf32>) -> tensor<8191x4096xf32>
  return %z : tensor<8191x4096xf32>
}

// -----

// A product that must be whole reads the sum itself. To scatter it would not
// spare anything, so it is summed whole.
heddle.mesh @mesh <["tp"=2]>
// CHECK-LABEL: func.func @product_reads_the_sum
// CHECK: comm.all_reduce sum
// CHECK-NEXT: heddle.contract "in"
func.func @product_reads_the_sum(%h: tensor<8192x4096xf32>, %w: tensor<4096x1024xf32>, %v: tensor<1024x4096xf32>) -> tensor<8192x4096xf32> {
  %y = heddle.contract "out" [bf, fh -> bh] %h, %w {heddle.factors = #heddle.factors<["f" = {"tp"}]>} : (tensor<8192x4096xf32>, tensor<4096x1024xf32>) -> tensor<8192x1024xf32>
  %z = heddle.contract "in" [bh, hf -> bf] %y, %v {heddle.factors = #heddle.factors<["f" = {"tp"}]>} : (tensor<8192x1024xf32>, tensor<1024x4096xf32>) -> tensor<8192x4096xf32>
  return %z : tensor<8192x4096xf32>
}
