// RUN: heddle-opt %s --heddle-build-training-step=micro-batches=4 --canonicalize --cse \
// RUN:   --heddle-split-operators --heddle-propagate-shardings --heddle-insert-reshards --heddle-cut-stages | FileCheck %s

// A product runs in two slices of its sum, and stages of equal work are cut
// between them. Each slice of the weight is on the device of its product. The
// product of a gradient reads columns of the activation, which the first stage
// makes, and runs nevertheless where its slice is.

module attributes {heddle.pipeline = #heddle.pipeline<"pp", one_f_one_b, stages 2>} {
heddle.mesh @mesh <["pp"=2]>
// CHECK-DAG: heddle.variable @w2.slice0 {{.*}}heddle.ranks = #heddle.ranks<@mesh, {"pp" = [0]}>
// CHECK-DAG: heddle.variable @w2.slice1 {{.*}}heddle.ranks = #heddle.ranks<@mesh, {"pp" = [1]}>
heddle.variable @w1 : tensor<8x64xf32> parameter init(normal<0.5>)
heddle.variable @w2 : tensor<64x512xf32> parameter init(normal<0.5>)

// CHECK: func.func @step_forward_0(
// CHECK: heddle.contract "first"
// CHECK: heddle.contract "second"
// CHECK: func.func @step_forward_1(
// CHECK: heddle.contract "second"
// CHECK: heddle.contract "second" pass(wgrad)
// CHECK: heddle.store %{{.*}}, @grad.w2.slice1
// CHECK: func.func @step_backward_0(
// CHECK: heddle.store %{{.*}}, @grad.w2.slice0
func.func @forward(
    %x: tensor<16x8xf32> {heddle.name = "x", heddle.role = #heddle.port_role<features>},
    %labels: tensor<16xi32> {heddle.name = "labels", heddle.role = #heddle.port_role<labels>})
    -> (tensor<f32> {heddle.name = "loss_sum", heddle.role = #heddle.port_role<loss_sum>},
        tensor<f32> {heddle.name = "count", heddle.role = #heddle.port_role<label_count>}) {
  %w1 = heddle.load @w1 : tensor<8x64xf32>
  %w2 = heddle.load @w2 : tensor<64x512xf32>
  %p = heddle.contract "first" [bh, hf -> bf] %x, %w1 : (tensor<16x8xf32>, tensor<8x64xf32>) -> tensor<16x64xf32>
  %a = heddle.gelu "act" %p approximate(tanh) : tensor<16x64xf32>
  %logits = heddle.contract "second" [bf, fv -> bv] %a, %w2 {heddle.split = #heddle.split<"f", 2, sharded 2>} : (tensor<16x64xf32>, tensor<64x512xf32>) -> tensor<16x512xf32>
  %losses, %lse = heddle.cross_entropy "loss" %logits, %labels : tensor<16x512xf32>, tensor<16xi32> -> tensor<16xf32>, tensor<16xf32>
  %sum = heddle.reduce sum %losses over [0] : tensor<16xf32> -> tensor<f32>
  %count = arith.constant dense<16.0> : tensor<f32>
  return %sum, %count : tensor<f32>, tensor<f32>
}
}
