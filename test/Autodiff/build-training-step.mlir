// RUN: heddle-opt %s --heddle-build-training-step="gradients=true" --cse | FileCheck %s
// RUN: heddle-opt %s --heddle-build-training-step="micro-batches=4 evaluate=false" --cse | FileCheck %s --check-prefix=MICRO
// RUN: heddle-opt %s --heddle-build-training-step="optimizer=sgd clip=0 weight-decay=0 evaluate=false" --cse | FileCheck %s --check-prefix=SGD
// RUN: heddle-opt %s --heddle-build-training-step="schedule=cosine warmup-steps=5 total-steps=20 evaluate=false" | FileCheck %s --check-prefix=COSINE
// RUN: heddle-opt %s --heddle-build-training-step="dropout=false evaluate=false" | FileCheck %s --check-prefix=NODROP
// RUN: heddle-opt %s --heddle-build-training-step="seed=7 evaluate=false" | FileCheck %s --check-prefix=SEED
// RUN: heddle-opt %s --heddle-build-training-step="train=false" | FileCheck %s --check-prefix=EVALUATE
// The printed program can be read back.
// RUN: heddle-opt %s --heddle-build-training-step="gradients=true" | heddle-opt | FileCheck %s --check-prefix=TWICE

heddle.variable @wte.weight : tensor<10x4xf32> parameter init(normal<0.02>)
heddle.variable @fc.weight : tensor<4x2x2xf32> parameter init(normal<0.02>)
// A bias by the shape in its file: it does not decay, though it has two
// dimensions.
heddle.variable @fc.bias : tensor<2x2xf32> parameter init(zeros)
  checkpoint(<"fc.bias", [4]>)
heddle.variable @steps : tensor<i64> counter init(zeros)

func.func @forward(
    %tokens: tensor<2x3xi32> {heddle.name = "tokens", heddle.role = #heddle.port_role<features>},
    %targets: tensor<2x3xi32> {heddle.name = "targets", heddle.role = #heddle.port_role<labels>})
    -> (tensor<f32> {heddle.name = "loss_sum", heddle.role = #heddle.port_role<loss_sum>},
        tensor<f32> {heddle.name = "count", heddle.role = #heddle.port_role<label_count>},
        tensor<2x3x10xf32> {heddle.name = "logits", heddle.role = #heddle.port_role<output>}) {
  %steps = heddle.load @steps : tensor<i64>
  %table = heddle.load @wte.weight : tensor<10x4xf32>
  %x = heddle.embedding "wte" %table, %tokens
    : tensor<10x4xf32>, tensor<2x3xi32> -> tensor<2x3x4xf32>
  %d = heddle.dropout "drop" %x, %steps rate(0.1)
    : tensor<2x3x4xf32>, tensor<i64> -> tensor<2x3x4xf32>
  %w = heddle.load @fc.weight : tensor<4x2x2xf32>
  %u = heddle.contract "fc" [bsh, hnd -> bsnd] %d, %w
    : (tensor<2x3x4xf32>, tensor<4x2x2xf32>) -> tensor<2x3x2x2xf32>
  %bias = heddle.load @fc.bias : tensor<2x2xf32>
  %b = heddle.broadcast "fc" %bias along [2, 3]
    : tensor<2x2xf32> -> tensor<2x3x2x2xf32>
  %v = arith.addf %u, %b {heddle.name = "fc"} : tensor<2x3x2x2xf32>
  %f = tensor.collapse_shape %v [[0], [1], [2, 3]]
    : tensor<2x3x2x2xf32> into tensor<2x3x4xf32>
  %head = heddle.load @wte.weight : tensor<10x4xf32>
  %logits = heddle.contract "lm_head" [bsh, vh -> bsv] %f, %head
    : (tensor<2x3x4xf32>, tensor<10x4xf32>) -> tensor<2x3x10xf32>
  %losses, %lse = heddle.cross_entropy "loss" %logits, %targets
    : tensor<2x3x10xf32>, tensor<2x3xi32> -> tensor<2x3xf32>, tensor<2x3xf32>
  %sum = heddle.reduce sum %losses over [0, 1] : tensor<2x3xf32> -> tensor<f32>
  %ignored = arith.constant dense<-100> : tensor<2x3xi32>
  %counts = arith.cmpi ne, %targets, %ignored : tensor<2x3xi32>
  %ones = arith.uitofp %counts : tensor<2x3xi1> to tensor<2x3xf32>
  %count = heddle.reduce sum %ones over [0, 1] : tensor<2x3xf32> -> tensor<f32>
  return %sum, %count, %logits
    : tensor<f32>, tensor<f32>, tensor<2x3x10xf32>
}

// CHECK: heddle.variable @adamw.m.wte.weight : tensor<10x4xf32> optimizer_state init(zeros) state(<adamw_mean of @wte.weight>)
// CHECK: heddle.variable @adamw.v.wte.weight : tensor<10x4xf32> optimizer_state init(zeros) state(<adamw_square of @wte.weight>)
// CHECK-NOT: @forward

// CHECK-LABEL: func.func @step(
// CHECK-SAME: %[[TOKENS:.*]]: tensor<2x3xi32> {heddle.name = "tokens", heddle.role = #heddle.port_role<features>}
// CHECK-SAME: %[[TARGETS:.*]]: tensor<2x3xi32> {heddle.name = "targets", heddle.role = #heddle.port_role<labels>}
// CHECK-SAME: -> (tensor<f32> {heddle.name = "loss", heddle.role = #heddle.port_role<loss>}, tensor<f32> {heddle.name = "grad_norm", heddle.role = #heddle.port_role<gradient_norm>}, tensor<f32> {heddle.name = "learning_rate", heddle.role = #heddle.port_role<learning_rate>}) attributes {heddle.role = #heddle.program_role<step>}
// CHECK: %[[TABLE:.*]] = heddle.load @wte.weight
// CHECK: %[[X:.*]] = heddle.embedding "wte"
// CHECK: %[[D:.*]] = heddle.dropout "drop" %[[X]], %[[STEPS:.*]] rate
// CHECK: %[[W:.*]] = heddle.load @fc.weight
// CHECK: heddle.contract "fc" [bsh, hnd -> bsnd]
// CHECK: %[[BIAS:.*]] = heddle.load @fc.bias
// CHECK: %[[F:.*]] = tensor.collapse_shape
// CHECK: heddle.contract "lm_head" [bsh, vh -> bsv]
// The backward pass starts from 1 / max(count, 1).
// CHECK: %[[COUNT:.*]] = arith.maximumf
// CHECK: %[[START:.*]] = arith.divf %{{.*}}, %[[COUNT]] : tensor<f32>
// CHECK: %[[DLOSS:.*]] = heddle.broadcast %[[START]] along []
// CHECK: %[[DLOGITS:.*]] = heddle.cross_entropy_grad "loss" %{{.*}}, %[[TARGETS]], %{{.*}}, %[[DLOSS]]
// CHECK: %[[DF:.*]] = heddle.contract "lm_head" pass(dgrad) [bsv, vh -> bsh] %[[DLOGITS]], %{{.*}} :
// CHECK: %[[DHEAD:.*]] = heddle.contract "lm_head" pass(wgrad) [bsh, bsv -> vh] %[[F]], %[[DLOGITS]] :
// CHECK: %[[DV:.*]] = tensor.expand_shape %[[DF]]
// CHECK: %[[DBIAS:.*]] = heddle.reduce "fc" sum %[[DV]] over [0, 1]
// CHECK: %[[DD:.*]] = heddle.contract "fc" pass(dgrad) [bsnd, hnd -> bsh] %[[DV]], %[[W]] :
// CHECK: heddle.contract "fc" pass(wgrad) [bsh, bsnd -> hnd] %[[D]], %[[DV]] :
// CHECK: %[[DX:.*]] = heddle.dropout "drop" %[[DD]], %[[STEPS]] rate
// The tied table has two gradients. One accumulates onto the other, without an
// add.
// CHECK-NOT: arith.addf {{.*}}tensor<10x4xf32>
// CHECK: %[[DTABLE:.*]] = heddle.embedding_grad "wte" %[[TOKENS]], %[[DX]] accumulate(%[[DHEAD]] :
// The update of a parameter: clipped gradient, mean, square, decay.
// CHECK: %[[CLIP:.*]] = arith.minimumf {{.*}} : tensor<f32>
// CHECK: %[[CLIPS:.*]] = heddle.broadcast %[[CLIP]] along [] : tensor<f32> -> tensor<10x4xf32>
// CHECK: %[[G:.*]] = arith.mulf %[[DTABLE]], %[[CLIPS]] : tensor<10x4xf32>
// CHECK: %[[M:.*]] = heddle.load @adamw.m.wte.weight
// CHECK: %[[V:.*]] = heddle.load @adamw.v.wte.weight
// CHECK: arith.subf %[[G]], %[[M]]
// CHECK: math.sqrt {{.*}} : tensor<10x4xf32>
// CHECK: %[[DECAYED:.*]] = arith.mulf %[[TABLE]], %{{.*}} : tensor<10x4xf32>
// CHECK: %[[NEW:.*]] = arith.subf %[[DECAYED]], %{{.*}} : tensor<10x4xf32>
// CHECK: heddle.store %{{.*}}, @adamw.m.wte.weight
// CHECK: heddle.store %{{.*}}, @adamw.v.wte.weight
// CHECK: heddle.store %[[NEW]], @wte.weight
// The bias does not decay.
// CHECK: arith.subf %[[BIAS]], %{{.*}} : tensor<2x2xf32>
// CHECK: heddle.store %{{.*}}, @fc.bias
// CHECK: heddle.store %{{.*}}, @steps

// CHECK-LABEL: func.func @evaluate(
// CHECK-SAME: -> (tensor<f32> {heddle.name = "loss_sum", heddle.role = #heddle.port_role<loss_sum>}, tensor<f32> {heddle.name = "count", heddle.role = #heddle.port_role<label_count>}, tensor<2x3x10xf32> {heddle.name = "logits", heddle.role = #heddle.port_role<output>})
// CHECK-NOT: heddle.dropout
// CHECK-NOT: heddle.load @steps
// CHECK-NOT: heddle.store

// CHECK-LABEL: func.func @gradients(
// CHECK-SAME: -> (tensor<f32> {heddle.name = "loss", heddle.role = #heddle.port_role<loss>}, tensor<2x3x10xf32> {heddle.name = "logits", heddle.role = #heddle.port_role<output>}, tensor<10x4xf32> {heddle.name = "grad.wte.weight", heddle.role = #heddle.port_role<gradient of "wte.weight">}, tensor<4x2x2xf32> {heddle.name = "grad.fc.weight", heddle.role = #heddle.port_role<gradient of "fc.weight">}, tensor<2x2xf32> {heddle.name = "grad.fc.bias", heddle.role = #heddle.port_role<gradient of "fc.bias">})
// CHECK-NOT: heddle.dropout
// CHECK-NOT: heddle.store

// MICRO: module attributes {heddle.micro_batches = 4 : i64}
// MICRO-NOT: heddle.variable @micro_batch
// MICRO: heddle.variable @grad.wte.weight : tensor<10x4xf32> gradient init(zeros) state(<gradient of @wte.weight>)
// MICRO: heddle.variable @loss_sum : tensor<f32> loss init(zeros)
// MICRO: heddle.variable @count : tensor<f32> loss init(zeros)
// MICRO-NOT: func.func @step(
// MICRO-LABEL: func.func @accumulate(
// MICRO-SAME: %[[INDEX:[a-z0-9]+]]: tensor<i64> {heddle.name = "micro_batch", heddle.role = #heddle.port_role<micro_batch>})
// The dropout of each micro-batch: steps * 4 + micro_batch.
// MICRO: %[[STEPS:.*]] = heddle.load @steps
// MICRO: %[[FIRST:.*]] = arith.muli %[[STEPS]], %{{.*}}
// MICRO: %[[NUMBER:.*]] = arith.addi %[[FIRST]], %[[INDEX]]
// MICRO: heddle.dropout "drop" %{{.*}}, %[[NUMBER]] rate
// MICRO: heddle.store %{{.*}}, @loss_sum
// MICRO: heddle.store %{{.*}}, @count
// MICRO: %[[DHEAD:.*]] = heddle.contract "lm_head" pass(wgrad)
// MICRO: %[[DW:.*]] = heddle.contract "fc" pass(wgrad)
// MICRO: %[[OLD:.*]] = heddle.load @grad.fc.weight
// MICRO: %[[SUM:.*]] = arith.addf %[[OLD]], %[[DW]]
// MICRO: heddle.store %[[SUM]], @grad.fc.weight
// The accumulated gradient is added last, because it is no partial sum of a
// device.
// MICRO: %[[DTABLE:.*]] = heddle.embedding_grad "wte" %{{.*}}, %{{.*}} accumulate(%[[DHEAD]] :
// MICRO: %[[OLDTABLE:.*]] = heddle.load @grad.wte.weight
// MICRO: %[[SUMTABLE:.*]] = arith.addf %[[OLDTABLE]], %[[DTABLE]]
// MICRO: heddle.store %[[SUMTABLE]], @grad.wte.weight
// MICRO-LABEL: func.func @update()
// MICRO-SAME: -> (tensor<f32> {heddle.name = "loss", heddle.role = #heddle.port_role<loss>}, tensor<f32> {heddle.name = "grad_norm", heddle.role = #heddle.port_role<gradient_norm>}, tensor<f32> {heddle.name = "learning_rate", heddle.role = #heddle.port_role<learning_rate>})
// MICRO: heddle.store %{{.*}}, @wte.weight
// MICRO: heddle.store %[[ZERO:.*]], @loss_sum
// MICRO: heddle.store %[[ZERO]], @count
// MICRO: heddle.store %{{.*}}, @grad.wte.weight

// SGD-NOT: optimizer_state
// SGD-LABEL: func.func @step(
// SGD-NOT: arith.minimumf
// SGD: heddle.store %{{.*}}, @wte.weight

// COSINE-LABEL: func.func @step(
// COSINE: math.cos {{.*}} : tensor<f64>
// COSINE: arith.select {{.*}} : tensor<i1>, tensor<f64>

// NODROP-LABEL: func.func @step(
// NODROP-NOT: heddle.dropout

// SEED-LABEL: func.func @step(
// SEED: heddle.dropout "drop" {{.*}} seed(7)
// SEED: heddle.dropout "drop" {{.*}} seed(7)

// EVALUATE-NOT: func.func @step(
// EVALUATE-NOT: optimizer_state
// EVALUATE: func.func @evaluate(

// TWICE-LABEL: func.func @step(
// TWICE-LABEL: func.func @evaluate(
// TWICE-LABEL: func.func @gradients(
