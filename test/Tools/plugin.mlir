// RUN: %{mlir-opt} %s --pass-pipeline='builtin.module(heddle-propagate-shardings,heddle-insert-reshards,heddle-localize,heddle-verify-localized)' | FileCheck %s

// The output has the same bytes as that of heddle-opt.
// RUN: %{mlir-opt} %s --pass-pipeline='builtin.module(heddle-shard-pipeline,heddle-localize-pipeline)' > %t.stock
// RUN: heddle-opt %s --heddle-shard-pipeline --heddle-localize-pipeline > %t.own
// RUN: diff %t.stock %t.own

// The plugin has each phase's pipeline, down to LLVM.
// RUN: %{mlir-opt} %s --pass-pipeline='builtin.module(heddle-shard-pipeline,heddle-localize-pipeline,heddle-kernels-pipeline,heddle-schedule-pipeline,heddle-executable-pipeline,heddle-llvm-pipeline)' | FileCheck %s --check-prefix=LLVM

// The plugin's errors are those of heddle-opt.
// RUN: not %{mlir-opt} %s --pass-pipeline='builtin.module(heddle-apply-plan)' 2>&1 | FileCheck %s --check-prefix=ERROR

// MLIR is in the process only once: the plugin does not contain another copy.
// RUN: llvm-readelf --needed-libs %{plugin} | FileCheck %s --check-prefix=LIBRARIES

// LIBRARIES-NOT: libMLIR

heddle.mesh @mesh <["x"=2]>

// CHECK-LABEL: @rows
// CHECK-SAME: tensor<3x8xf32>
func.func @rows(%x: tensor<6x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>}, %w: tensor<8x5xf32>) -> tensor<6x5xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<6x5xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<6x5xf32>) -> tensor<6x5xf32>
  // CHECK: linalg.matmul ins(%{{.*}}, %{{.*}} : tensor<3x8xf32>, tensor<8x5xf32>)
  %y = linalg.matmul ins(%x, %w : tensor<6x8xf32>, tensor<8x5xf32>) outs(%init : tensor<6x5xf32>) -> tensor<6x5xf32>
  return %y : tensor<6x5xf32>
}

// LLVM: llvm.func @heddle_program_rows
// ERROR: error: heddle-apply-plan: expected the file of a plan (plan=FILE)
