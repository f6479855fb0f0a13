// Groups of parameters, and buffers.
// RUN: split-file %s %t
// RUN: heddle-opt %t/model.mlir --heddle-build-training-step="clip=0 gradients=true" --cse | FileCheck %t/model.mlir
// RUN: heddle-opt %t/model.mlir --heddle-build-training-step="clip=0 optimizer=adam evaluate=false" --cse | FileCheck %t/model.mlir --check-prefix=ADAM
// RUN: heddle-opt %t/model.mlir --heddle-build-training-step="clip=0 micro-batches=2 evaluate=false" --cse | FileCheck %t/model.mlir --check-prefix=MICRO
// RUN: not heddle-opt %t/rate.mlir --heddle-build-training-step 2>&1 | FileCheck %t/rate.mlir
// RUN: not heddle-opt %t/role.mlir --heddle-build-training-step 2>&1 | FileCheck %t/role.mlir
// RUN: not heddle-opt %t/store.mlir --heddle-build-training-step 2>&1 | FileCheck %t/store.mlir
// RUN: not heddle-opt %t/decay.mlir 2>&1 | FileCheck %t/decay.mlir

//--- model.mlir
heddle.variable @slow : tensor<4xf32> parameter init(ones)
  {heddle.group = #heddle.group<@rate.0, decay 0.0>}
heddle.variable @fast : tensor<4xf32> parameter init(ones)
  {heddle.group = #heddle.group<@rate.1, decay 1.0e-1>}
heddle.variable @plain : tensor<4xf32> parameter init(ones)
heddle.variable @frozen : tensor<4xf32> buffer init(ones)
heddle.variable @mean : tensor<4xf32> buffer init(zeros)
heddle.variable @rate.0 : tensor<f64> setting init(constant<1.0e-3>)
heddle.variable @rate.1 : tensor<f64> setting init(constant<1.0e-2>)

func.func @forward(
    %x: tensor<4xf32> {heddle.name = "x", heddle.role = #heddle.port_role<features>})
    -> (tensor<f32> {heddle.name = "loss_sum", heddle.role = #heddle.port_role<loss_sum>},
        tensor<f32> {heddle.name = "count", heddle.role = #heddle.port_role<label_count>}) {
  %slow = heddle.load @slow : tensor<4xf32>
  %fast = heddle.load @fast : tensor<4xf32>
  %plain = heddle.load @plain : tensor<4xf32>
  %frozen = heddle.load @frozen : tensor<4xf32>
  %0 = arith.mulf %x, %slow : tensor<4xf32>
  %1 = arith.mulf %0, %fast : tensor<4xf32>
  %2 = arith.mulf %1, %plain : tensor<4xf32>
  %3 = arith.mulf %2, %frozen : tensor<4xf32>
  heddle.store %0, @mean : tensor<4xf32>
  %sum = heddle.reduce sum %3 over [0] : tensor<4xf32> -> tensor<f32>
  %one = arith.constant dense<1.0> : tensor<f32>
  return %sum, %one : tensor<f32>, tensor<f32>
}

// CHECK-NOT: heddle.group
// CHECK-LABEL: func.func @step
// The step stores buffers, and updates no frozen parameter.
// CHECK: heddle.store %{{.*}}, @mean
// A group without decay multiplies the parameter by no factor.
// CHECK: %[[RATE0:.*]] = heddle.load @rate.0 : tensor<f64>
// CHECK: %[[SLOW:.*]] = arith.truncf %[[RATE0]] : tensor<f64> to tensor<f32>
// CHECK: %[[RATE1:.*]] = heddle.load @rate.1 : tensor<f64>
// CHECK: %[[D:.*]] = arith.mulf %[[RATE1]], %cst{{.*}} : tensor<f64>
// CHECK: arith.subf %{{.*}}, %[[D]] : tensor<f64>
// A parameter of one dimension decays in a group.
// CHECK: %[[DECAY:.*]] = heddle.broadcast %{{.*}} along []
// CHECK: arith.mulf %{{.*}}, %[[DECAY]] : tensor<4xf32>
// CHECK-NOT: @frozen
// CHECK: return %{{.*}}, %{{.*}}, %[[SLOW]] : tensor<f32>, tensor<f32>, tensor<f32>
// CHECK-LABEL: func.func @evaluate
// CHECK-NOT: heddle.store
// CHECK-LABEL: func.func @gradients
// CHECK-SAME: #heddle.port_role<gradient of "slow">
// CHECK-NOT: gradient of "frozen"
// CHECK-NOT: heddle.store

// Adam adds the decay to the gradient.
// ADAM-LABEL: func.func @step
// ADAM: %[[FAST:.*]] = heddle.load @fast
// ADAM: %[[L2:.*]] = arith.mulf %[[FAST]], %cst{{.*}} : tensor<4xf32>
// ADAM: arith.addf %{{.*}}, %[[L2]] : tensor<4xf32>

// MICRO-LABEL: func.func @accumulate
// MICRO: heddle.store %{{.*}}, @mean
// MICRO-LABEL: func.func @update
// MICRO-NOT: @mean

//--- rate.mlir
// CHECK: error: 'heddle.variable' op expected the learning rate of its group, @w, to be a variable of role setting and type 'tensor<f64>'
heddle.variable @w : tensor<4xf32> parameter init(ones)
  {heddle.group = #heddle.group<@w, decay 0.0>}
func.func @forward() -> (tensor<f32> {heddle.role = #heddle.port_role<loss_sum>},
                         tensor<f32> {heddle.role = #heddle.port_role<label_count>}) {
  %one = arith.constant dense<1.0> : tensor<f32>
  return %one, %one : tensor<f32>, tensor<f32>
}

//--- role.mlir
// CHECK: error: 'heddle.variable' op expected heddle.group on parameters alone, got it on role buffer
heddle.variable @w : tensor<4xf32> buffer init(ones)
  {heddle.group = #heddle.group<@w, decay 0.0>}
func.func @forward() -> (tensor<f32> {heddle.role = #heddle.port_role<loss_sum>},
                         tensor<f32> {heddle.role = #heddle.port_role<label_count>}) {
  %one = arith.constant dense<1.0> : tensor<f32>
  return %one, %one : tensor<f32>, tensor<f32>
}

//--- store.mlir
// CHECK: error: 'heddle.store' op expected @forward to store variables of role buffer alone, got @w
heddle.variable @w : tensor<f32> parameter init(ones)
func.func @forward() -> (tensor<f32> {heddle.role = #heddle.port_role<loss_sum>},
                         tensor<f32> {heddle.role = #heddle.port_role<label_count>}) {
  %one = arith.constant dense<1.0> : tensor<f32>
  heddle.store %one, @w : tensor<f32>
  return %one, %one : tensor<f32>, tensor<f32>
}

//--- decay.mlir
// CHECK: error: expected a finite decay of at least 0, got -1.000000e+00
heddle.variable @w : tensor<4xf32> parameter init(ones)
  {heddle.group = #heddle.group<@w, decay -1.0>}
