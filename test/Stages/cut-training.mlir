// RUN: heddle-opt %s --heddle-build-training-step=micro-batches=4 --canonicalize --cse \
// RUN:   --heddle-propagate-shardings --heddle-insert-reshards --heddle-cut-stages | FileCheck %s
// RUN: sed -e s/one_f_one_b/zb_h1/ %s | heddle-opt --heddle-build-training-step=micro-batches=4 --canonicalize --cse \
// RUN:   --heddle-propagate-shardings --heddle-insert-reshards --heddle-cut-stages | FileCheck %s --check-prefix=SPLIT

// Two layers that share no variable, one in each stage. The second layer's
// variable is on the second device alone.

module attributes {heddle.pipeline = #heddle.pipeline<"pp", one_f_one_b, stages 2>} {
heddle.mesh @mesh <["pp"=2]>
// CHECK-DAG: heddle.variable @w1 {{.*}}heddle.ranks = #heddle.ranks<@mesh, {"pp" = [0]}>
// CHECK-DAG: heddle.variable @w2 {{.*}}heddle.ranks = #heddle.ranks<@mesh, {"pp" = [1]}>
heddle.variable @w1 : tensor<6x10xf32> parameter init(normal<0.5>)
heddle.variable @w2 : tensor<10x7xf32> parameter init(normal<0.5>)

// The first stage sends its activation, and keeps what its backward pass reads.
// CHECK: func.func @step_forward_0(%{{.*}}: tensor<3x6xf32> {{.*}}) -> (tensor<3x10xf32> {{.*}}heddle.name = "cut0{{[^"]*}}"
// CHECK-SAME: heddle.stage_program = #heddle.stage_program<"step", forward, stage 0>
// CHECK: heddle.contract "first"
// CHECK-NOT: heddle.contract "second"

// The last stage runs both passes and sends the gradient of the activation.
// CHECK: func.func @step_forward_1(
// CHECK: heddle.contract "second"
// CHECK: heddle.store %{{.*}}, @{{.*}}w2
// CHECK: func.func @step_backward_0(
// CHECK: heddle.contract "first" pass(wgrad)
// CHECK: heddle.store %{{.*}}, @{{.*}}w1

// Each device updates its own variable. Loss, count and norm are one sum.
// CHECK: func.func @step_update_0(
// CHECK: heddle.reshard %{{.*}} from <@mesh, [{}], partial = sum {"pp"}> to <@mesh, [{}]> : tensor<3xf32>
// CHECK: heddle.store %{{.*}}, @w1
// CHECK-NOT: @w2
// CHECK: func.func @step_update_1(
// CHECK-NOT: @w1
// CHECK: heddle.store %{{.*}}, @w2

// SPLIT: func.func @step_forward_1(
// SPLIT-NOT: pass(wgrad)
// SPLIT: return
// SPLIT: func.func @step_backward_weights_1(
// SPLIT: heddle.contract "second" pass(wgrad)
func.func @forward(
    %x: tensor<3x6xf32> {heddle.name = "x", heddle.role = #heddle.port_role<features>},
    %labels: tensor<3xi32> {heddle.name = "labels", heddle.role = #heddle.port_role<labels>})
    -> (tensor<f32> {heddle.name = "loss_sum", heddle.role = #heddle.port_role<loss_sum>},
        tensor<f32> {heddle.name = "count", heddle.role = #heddle.port_role<label_count>}) {
  %w1 = heddle.load @w1 : tensor<6x10xf32>
  %w2 = heddle.load @w2 : tensor<10x7xf32>
  %p = heddle.contract "first" [bh, hf -> bf] %x, %w1 {heddle.stage = 0 : i64} : (tensor<3x6xf32>, tensor<6x10xf32>) -> tensor<3x10xf32>
  %a = heddle.gelu "act" %p approximate(tanh) : tensor<3x10xf32>
  %logits = heddle.contract "second" [bf, fv -> bv] %a, %w2 {heddle.stage = 1 : i64} : (tensor<3x10xf32>, tensor<10x7xf32>) -> tensor<3x7xf32>
  %losses, %lse = heddle.cross_entropy "loss" %logits, %labels : tensor<3x7xf32>, tensor<3xi32> -> tensor<3xf32>, tensor<3xf32>
  %sum = heddle.reduce sum %losses over [0] : tensor<3xf32> -> tensor<f32>
  %count = arith.constant dense<3.0> : tensor<f32>
  return %sum, %count : tensor<f32>, tensor<f32>
}
}
