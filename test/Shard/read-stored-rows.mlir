// RUN: heddle-opt %s --split-input-file --heddle-read-stored-rows | FileCheck %s

// Each device looks up the rows that it stores: the ids are gathered and the
// rows are summed, instead of gathering the table.
heddle.mesh @mesh <["dp"=2]>
heddle.variable @table : tensor<5000x64xf32> parameter init(zeros) storage(<@mesh, [{"dp"}, {}]>)
// CHECK-LABEL: @rows
func.func @rows(%ids: tensor<4x8xi32>) -> tensor<4x8x64xf32> {
  %t = heddle.load @table : tensor<5000x64xf32>
  // CHECK: heddle.embedding "wte" {{.*}} {heddle.factors = #heddle.factors<[ "v" = {"dp"}]>}
  %r = heddle.embedding "wte" %t, %ids {heddle.factors = #heddle.factors<["b" = {"dp"}]>} : tensor<5000x64xf32>, tensor<4x8xi32> -> tensor<4x8x64xf32>
  return %r : tensor<4x8x64xf32>
}

// -----

// The other axis of the mesh keeps what it splits.
heddle.mesh @mesh <["dp"=2, "cp"=2]>
heddle.variable @table : tensor<5000x64xf32> parameter init(zeros) storage(<@mesh, [{"dp"}, {}]>)
// CHECK-LABEL: @other_axis
func.func @other_axis(%ids: tensor<4x8xi32>) -> tensor<4x8x64xf32> {
  %t = heddle.load @table : tensor<5000x64xf32>
  // CHECK: #heddle.factors<[ "v" = {"dp"},  "s" = {"cp"}]>
  %r = heddle.embedding "wte" %t, %ids {heddle.factors = #heddle.factors<["b" = {"dp"}, "s" = {"cp"}]>} : tensor<5000x64xf32>, tensor<4x8xi32> -> tensor<4x8x64xf32>
  return %r : tensor<4x8x64xf32>
}

// -----

// A table of few rows costs less than the rows that are read.
heddle.mesh @mesh <["dp"=2]>
heddle.variable @table : tensor<6x64xf32> parameter init(zeros) storage(<@mesh, [{"dp"}, {}]>)
// CHECK-LABEL: @small
func.func @small(%ids: tensor<4x8xi32>) -> tensor<4x8x64xf32> {
  %t = heddle.load @table : tensor<6x64xf32>
  // CHECK: #heddle.factors<[ "b" = {"dp"}]>
  %r = heddle.embedding "wte" %t, %ids {heddle.factors = #heddle.factors<["b" = {"dp"}]>} : tensor<6x64xf32>, tensor<4x8xi32> -> tensor<4x8x64xf32>
  return %r : tensor<4x8x64xf32>
}

// -----

// A product reads all of its weight, which is gathered.
heddle.mesh @mesh <["dp"=2]>
heddle.variable @w : tensor<512x512xf32> parameter init(zeros) storage(<@mesh, [{"dp"}, {}]>)
// CHECK-LABEL: @product
func.func @product(%x: tensor<2x512xf32>) -> tensor<2x512xf32> {
  %w = heddle.load @w : tensor<512x512xf32>
  // CHECK: #heddle.factors<[ "b" = {"dp"}]>
  %y = heddle.contract [bh, hf -> bf] %x, %w {heddle.factors = #heddle.factors<["b" = {"dp"}]>} : (tensor<2x512xf32>, tensor<512x512xf32>) -> tensor<2x512xf32>
  return %y : tensor<2x512xf32>
}
