// The gradient of a mask that is added to the scores, such as a bias of positions.
// RUN: split-file %s %t
// RUN: heddle-opt %t/bias.mlir --heddle-build-training-step="clip=0 gradients=true evaluate=false" | FileCheck %t/bias.mlir
// RUN: not heddle-opt %t/dropout.mlir --heddle-build-training-step 2>&1 | FileCheck %t/dropout.mlir
// RUN: not heddle-opt %t/part.mlir --heddle-build-training-step 2>&1 | FileCheck %t/part.mlir

//--- bias.mlir
heddle.variable @bias : tensor<6x2x6xf32> parameter init(zeros)

func.func @forward(
    %q: tensor<4x6x2x8xf32> {heddle.name = "q", heddle.role = #heddle.port_role<features>})
    -> (tensor<f32> {heddle.name = "loss_sum", heddle.role = #heddle.port_role<loss_sum>},
        tensor<f32> {heddle.name = "count", heddle.role = #heddle.port_role<label_count>}) {
  %bias = heddle.load @bias : tensor<6x2x6xf32>
  %mask = tensor.expand_shape %bias [[0, 1], [2], [3]] output_shape [1, 6, 2, 6] : tensor<6x2x6xf32> into tensor<1x6x2x6xf32>
  %o, %lse = heddle.attention "attn" %q, %q, %q causal scale(0.5) mask(%mask : tensor<1x6x2x6xf32>)
    : tensor<4x6x2x8xf32>, tensor<4x6x2x8xf32>, tensor<4x6x2x8xf32> -> tensor<4x6x2x8xf32>, tensor<4x6x2xf32>
  %sum = heddle.reduce sum %o over [0, 1, 2, 3] : tensor<4x6x2x8xf32> -> tensor<f32>
  %one = arith.constant dense<1.0> : tensor<f32>
  return %sum, %one : tensor<f32>, tensor<f32>
}

// CHECK-LABEL: func.func @gradients
// CHECK: %[[O:.+]], %[[LSE:.+]] = heddle.attention "attn"
// The weights.
// CHECK: %[[QK:.+]] = heddle.contract "attn" pass(dgrad) [bsnd, bknd -> bsnk]
// CHECK: arith.mulf %[[QK]]
// CHECK: %[[S:.+]] = arith.addf
// CHECK: arith.cmpf ole, %[[LSE]]
// CHECK: %[[SHIFTED:.+]] = arith.subf %[[S]]
// CHECK: %[[E:.+]] = math.exp %[[SHIFTED]]
// The order is computed: no constant is as large as scores.
// CHECK: %[[BACK:.+]] = arith.subi {{.*}} : tensor<6x6xi32>
// CHECK: arith.cmpi sge, %[[BACK]]
// CHECK: %[[P:.+]] = arith.select %{{.+}}, %[[E]]
// The gradients of the weights, less those of their sum.
// CHECK: arith.mulf %{{.+}}, %[[O]]
// CHECK: heddle.contract "attn" pass(dgrad) [bsnd, bknd -> bsnk]
// CHECK: %[[DP:.+]] = arith.subf
// CHECK: %[[DS:.+]] = arith.mulf %[[P]], %[[DP]]
// CHECK: %[[SUM:.+]] = heddle.reduce "attn" sum %[[DS]] over [0] : tensor<4x6x2x6xf32> -> tensor<6x2x6xf32>
// CHECK: tensor.expand_shape %[[SUM]]

//--- dropout.mlir
heddle.variable @bias : tensor<1x6x2x6xf32> parameter init(zeros)
heddle.variable @steps : tensor<i64> counter init(zeros)

func.func @forward(
    %q: tensor<4x6x2x8xf32> {heddle.name = "q", heddle.role = #heddle.port_role<features>})
    -> (tensor<f32> {heddle.name = "loss_sum", heddle.role = #heddle.port_role<loss_sum>},
        tensor<f32> {heddle.name = "count", heddle.role = #heddle.port_role<label_count>}) {
  %mask = heddle.load @bias : tensor<1x6x2x6xf32>
  %step = heddle.load @steps : tensor<i64>
  %o, %lse = heddle.attention "attn" %q, %q, %q scale(0.5) dropout(0.1) step(%step : tensor<i64>) mask(%mask : tensor<1x6x2x6xf32>)
    : tensor<4x6x2x8xf32>, tensor<4x6x2x8xf32>, tensor<4x6x2x8xf32> -> tensor<4x6x2x8xf32>, tensor<4x6x2xf32>
  %sum = heddle.reduce sum %o over [0, 1, 2, 3] : tensor<4x6x2x8xf32> -> tensor<f32>
  %one = arith.constant dense<1.0> : tensor<f32>
  return %sum, %one : tensor<f32>, tensor<f32>
}
// CHECK: error: 'heddle.attention' op expected a mask that depends on no parameter, or no dropout

//--- part.mlir
heddle.variable @bias : tensor<1x6x2x6xf32> parameter init(zeros)

func.func @forward(
    %q: tensor<4x6x2x8xf32> {heddle.name = "q", heddle.role = #heddle.port_role<features>})
    -> (tensor<f32> {heddle.name = "loss_sum", heddle.role = #heddle.port_role<loss_sum>},
        tensor<f32> {heddle.name = "count", heddle.role = #heddle.port_role<label_count>}) {
  %mask = heddle.load @bias : tensor<1x6x2x6xf32>
  %zero = arith.constant 0 : index
  %first = arith.constant 6 : index
  %o, %lse = heddle.attention "attn" %q, %q, %q causal scale(0.5) mask(%mask : tensor<1x6x2x6xf32>)
    offsets(%zero, %first, %zero, %zero, %zero)
    : tensor<4x6x2x8xf32>, tensor<4x6x2x8xf32>, tensor<4x6x2x8xf32> -> tensor<4x6x2x8xf32>, tensor<4x6x2xf32>
  %sum = heddle.reduce sum %o over [0, 1, 2, 3] : tensor<4x6x2x8xf32> -> tensor<f32>
  %one = arith.constant dense<1.0> : tensor<f32>
  return %sum, %one : tensor<f32>, tensor<f32>
}
// CHECK: error: 'heddle.attention' op expected a mask that depends on no parameter, or attention of whole sequences
