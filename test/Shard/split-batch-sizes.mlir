// RUN: heddle-opt %s --heddle-split-batch | FileCheck %s
// RUN: heddle-opt %s --heddle-split-batch=sub-batches=2 | FileCheck %s --check-prefix=EQUAL
// RUN: sed 's/i64: 1, 3/i64: 1, 2/' %s | not heddle-opt --heddle-split-batch 2>&1 | FileCheck %s --check-prefix=ERROR
// ERROR: error: 'func.func' op expected sub-batches of 4 samples in all, as argument 0 has, got 3
// RUN: sed 's/i64: 1, 3/i64: 3/' %s | not heddle-opt --heddle-split-batch 2>&1 | FileCheck %s --check-prefix=ERROR
// RUN: sed 's/i64: 1, 3/i64: 4/' %s | heddle-opt --heddle-split-batch | FileCheck %s --check-prefix=WHOLE

// The module states the sizes of the parts. The second part draws the random
// numbers of its own samples. An option counts more.
module attributes {heddle.sub_batches = array<i64: 1, 3>} {
  // CHECK: module {
  // CHECK-LABEL: func.func @parts
  // CHECK: tensor.extract_slice %{{.*}}[0, 0] [1, 6] [1, 1]
  // CHECK: heddle.dropout "drop" {{.*}} global_shape([4, 6]){{.*}} tensor<1x6xf32>
  // CHECK: tensor.extract_slice %{{.*}}[1, 0] [3, 6] [1, 1]
  // CHECK: %[[ONE:.*]] = arith.constant 1 : index
  // CHECK: heddle.dropout "drop" {{.*}} offsets(%[[ONE]], %{{.*}}) global_shape([4, 6]){{.*}} tensor<3x6xf32>
  // CHECK: tensor.concat dim(0)
  // WHOLE: module {
  // WHOLE-LABEL: func.func @parts
  // WHOLE-NOT: tensor.extract_slice
  // WHOLE: heddle.dropout "drop" {{.*}} tensor<4x6xf32>
  // EQUAL-LABEL: func.func @parts
  // EQUAL: tensor.extract_slice %{{.*}}[2, 0] [2, 6] [1, 1]
  func.func @parts(%x: tensor<4x6xf32> {heddle.role = #heddle.port_role<features>}, %step: tensor<i64>) -> tensor<4x6xf32> {
    %y = heddle.dropout "drop" %x, %step rate(0.1) seed(7) : tensor<4x6xf32>, tensor<i64> -> tensor<4x6xf32>
    return %y : tensor<4x6xf32>
  }
}
