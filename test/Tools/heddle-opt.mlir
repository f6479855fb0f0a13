// A misspelled pass is an error, and does not print the help.
// RUN: not heddle-opt %s --heddle-shard-pipelin 2>&1 | FileCheck %s
// CHECK: heddle-opt: error: expected a pass or pipeline, got '--heddle-shard-pipelin'; docs/passes and heddle-opt --help list them
// CHECK-NOT: OVERVIEW
// RUN: heddle-opt %s --heddle-shard-pipeline --heddle-insert-reshards=remark-bytes=1
// An error does not print the function that it is about.
// RUN: not heddle-opt %s --heddle-verify-executable 2>&1 | FileCheck %s --check-prefix=ERROR
// ERROR: error:
// ERROR-NOT: see current operation
// RUN: not heddle-opt %s --heddle-verify-executable --mlir-print-op-on-diagnostic 2>&1 | FileCheck %s --check-prefix=WHOLE
// WHOLE: see current operation
func.func @left(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
