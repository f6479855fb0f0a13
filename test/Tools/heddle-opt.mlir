// A misspelled pass is an error, and does not print the help.
// RUN: not heddle-opt %s --heddle-shard-pipelin 2>&1 | FileCheck %s
// CHECK: heddle-opt: error: expected a pass or pipeline, got '--heddle-shard-pipelin'; docs/passes and heddle-opt --help list them
// CHECK-NOT: OVERVIEW
// RUN: heddle-opt %s --heddle-shard-pipeline --heddle-insert-reshards=remark-bytes=1
module {}
