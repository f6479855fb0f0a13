// RUN: heddle-opt %s --heddle-repeat-constants --heddle-propagate-shardings --heddle-materialize-pins --heddle-insert-reshards --heddle-verify-sharded --heddle-localize | FileCheck %s

// Zero times infinity or NaN is not zero, so padding that may be infinite or
// NaN is masked: after a cast to a narrower type or from too large integers.
heddle.mesh @mesh <["x"=4]>
heddle.variable @w : tensor<6xf16> parameter init(zeros) storage(<@mesh, [{"x"}]>)
heddle.variable @v : tensor<6xf32> parameter init(zeros) storage(<@mesh, [{"x"}]>)

// CHECK-LABEL: func.func @narrow
// CHECK: %[[F:.*]] = arith.truncf %{{.*}} : tensor<2xf32> to tensor<2xf16>
// CHECK: heddle.mask_padding %[[F]]
func.func @narrow(%out: tensor<f16>) -> tensor<f16> {
  %w = heddle.load @w : tensor<6xf16>
  %large = arith.constant dense<1.0e+30> : tensor<6xf32>
  %0 = arith.truncf %large : tensor<6xf32> to tensor<6xf16>
  %1 = linalg.dot {heddle.factors = #heddle.factors<["0" = {"x"}]>} ins(%0, %w : tensor<6xf16>, tensor<6xf16>) outs(%out : tensor<f16>) -> tensor<f16>
  return %1 : tensor<f16>
}

// CHECK-LABEL: func.func @integers
// CHECK: %[[F:.*]] = arith.sitofp %{{.*}} : tensor<2xi32> to tensor<2xf16>
// CHECK: heddle.mask_padding %[[F]]
func.func @integers(%out: tensor<f16>) -> tensor<f16> {
  %w = heddle.load @w : tensor<6xf16>
  %large = arith.constant dense<100000> : tensor<6xi32>
  %0 = arith.sitofp %large : tensor<6xi32> to tensor<6xf16>
  %1 = linalg.dot {heddle.factors = #heddle.factors<["0" = {"x"}]>} ins(%0, %w : tensor<6xf16>, tensor<6xf16>) outs(%out : tensor<f16>) -> tensor<f16>
  return %1 : tensor<f16>
}

// Every such integer is a finite number of f32, so nothing is masked.
// CHECK-LABEL: func.func @all_finite
// CHECK-NOT: heddle.mask_padding {{.*}}tensor<2xf32>
// CHECK: linalg.dot
func.func @all_finite(%out: tensor<f32>) -> tensor<f32> {
  %v = heddle.load @v : tensor<6xf32>
  %large = arith.constant dense<100000> : tensor<6xi32>
  %0 = arith.sitofp %large : tensor<6xi32> to tensor<6xf32>
  %1 = linalg.dot {heddle.factors = #heddle.factors<["0" = {"x"}]>} ins(%0, %v : tensor<6xf32>, tensor<6xf32>) outs(%out : tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// An operand that is computed in a body cannot be masked; the body skips
// padding.
// CHECK-LABEL: func.func @in_the_body
// CHECK: linalg.generic
// CHECK: arith.cmpi slt
// CHECK: arith.select
func.func @in_the_body(%out: tensor<f16>) -> tensor<f16> {
  %w = heddle.load @w : tensor<6xf16>
  %large = arith.constant dense<100000> : tensor<6xi32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> ()>], iterator_types = ["reduction"]} ins(%large, %w : tensor<6xi32>, tensor<6xf16>) outs(%out : tensor<f16>)
      attrs = {heddle.factors = #heddle.factors<["0" = {"x"}]>} {
  ^bb0(%a: i32, %b: f16, %o: f16):
    %1 = arith.sitofp %a : i32 to f16
    %2 = arith.mulf %1, %b : f16
    %3 = arith.addf %o, %2 : f16
    linalg.yield %3 : f16
  } -> tensor<f16>
  return %0 : tensor<f16>
}
