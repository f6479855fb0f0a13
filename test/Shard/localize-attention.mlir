// RUN: heddle-opt %s --split-input-file --heddle-repeat-constants --heddle-propagate-shardings --heddle-materialize-pins --heddle-insert-reshards --heddle-verify-sharded --heddle-localize --canonicalize --cse | FileCheck %s
// RUN: heddle-opt %s --split-input-file --heddle-repeat-constants --heddle-propagate-shardings --heddle-materialize-pins --heddle-insert-reshards --heddle-verify-sharded --heddle-localize --heddle-pack-collectives --heddle-verify-localized -o /dev/null

// Only queries are split: keys and values are gathered, and the local attention
// gets the offset of its queries.
heddle.mesh @mesh <["cp"=4]>
// CHECK-LABEL: @gather
func.func @gather(%q: tensor<2x8x4x8xf32>, %k: tensor<2x8x4x8xf32>, %v: tensor<2x8x4x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"cp"}, {}, {}]>}) -> tensor<2x8x4x8xf32> {
  // CHECK-DAG: %[[I:.*]] = comm.axis_index
  // CHECK-DAG: %[[ZERO:.*]] = arith.constant 0 : index
  // CHECK: %[[AT:.*]] = arith.muli %[[I]], %{{.*}}
  // CHECK: %[[V:.*]] = comm.all_gather %{{.*}} dim 1 over @mesh <{"cp"}> : tensor<2x2x4x8xf32> -> tensor<2x8x4x8xf32>
  // CHECK: heddle.attention "attn" %{{.*}}, %{{.*}}, %[[V]] causal {{.*}} offsets(%[[ZERO]], %[[AT]], %[[ZERO]], %[[ZERO]], %[[ZERO]]) global_shape([8, 8, 4, 1]) : tensor<2x2x4x8xf32>, tensor<2x8x4x8xf32>
  // CHECK-NOT: comm.
  %o, %l = heddle.attention "attn" %q, %k, %v causal scale(0.35) {heddle.factors = #heddle.factors<["s" = {"cp"}]>} : tensor<2x8x4x8xf32>, tensor<2x8x4x8xf32>, tensor<2x8x4x8xf32> -> tensor<2x8x4x8xf32>, tensor<2x8x4xf32>
  return %o : tensor<2x8x4x8xf32>
}

// -----

// Queries and keys are split: a ring. A step needs the keys of the step before;
// four devices take three steps. Without a causal mask chunks stay where they
// are. Keys beyond the end (9 of 12) are known by their positions.
heddle.mesh @mesh <["cp"=4]>
// CHECK-LABEL: @ring
// CHECK-SAME: (%[[Q:.*]]: tensor<2x3x4x8xf32> {{.*}}, %[[K:[^:]*]]: tensor<2x3x4x8xf32> {{.*}}, %[[V:[^:]*]]: tensor<2x3x4x8xf32>
func.func @ring(%q: tensor<2x9x4x8xf32>, %k: tensor<2x9x4x8xf32>, %v: tensor<2x9x4x8xf32>) -> tensor<2x9x4x8xf32> {
  // CHECK: %[[O:.*]], %{{.*}} = heddle.attention "attn" %[[Q]], %[[K]], %[[V]] scale{{.*}} global_shape([9, 9, 4, 1])
  // CHECK: %[[K1:.*]] = comm.permute %[[K]] sources [1, 2, 3, 0] over @mesh <{"cp"}> : tensor<2x3x4x8xf32>
  // CHECK: %[[V1:.*]] = comm.permute %[[V]] sources [1, 2, 3, 0]
  // CHECK: heddle.attention "attn" %[[Q]], %[[K1]], %[[V1]]
  // CHECK: comm.permute %[[K1]]
  // CHECK: comm.permute %[[V1]]
  // CHECK: heddle.attention
  // CHECK-COUNT-2: comm.permute
  // CHECK: heddle.attention
  // CHECK-NOT: comm.
  %o, %l = heddle.attention "attn" %q, %k, %v scale(0.35) {heddle.factors = #heddle.factors<["s" = {"cp"}, "t" = {"cp"}]>} : tensor<2x9x4x8xf32>, tensor<2x9x4x8xf32>, tensor<2x9x4x8xf32> -> tensor<2x9x4x8xf32>, tensor<2x9x4xf32>
  return %o : tensor<2x9x4x8xf32>
}

// -----

// With a causal mask, chunks 0 to 7 of 3 and 2 rows are dealt to devices as 0
// 7, 6 1, 2 5 and 4 3. At the end the results go back to their own devices.
heddle.mesh @mesh <["cp"=4]>
// CHECK-LABEL: @dealt
func.func @dealt(%q: tensor<2x20x4x8xf32>, %k: tensor<2x20x4x8xf32>, %v: tensor<2x20x4x8xf32>) -> tensor<2x20x4x8xf32> {
  // CHECK: %[[EVEN:.*]] = tensor.extract_slice %[[Q:.*]][0, 0, 0, 0] [2, 3, 4, 8]
  // CHECK: comm.permute %[[EVEN]] sources [0, 3, 1, 2] over @mesh <{"cp"}> : tensor<2x3x4x8xf32>
  // CHECK: %[[ODD:.*]] = tensor.extract_slice %[[Q]][0, 3, 0, 0] [2, 2, 4, 8]
  // CHECK: comm.permute %[[ODD]] sources [3, 0, 2, 1] over @mesh <{"cp"}> : tensor<2x2x4x8xf32>
  // CHECK-COUNT-16: heddle.attention
  // CHECK-NOT: heddle.attention
  // CHECK: comm.permute %{{.*}} sources [0, 2, 3, 1] over @mesh <{"cp"}> : tensor<2x3x4x8xf32>
  // CHECK: comm.permute %{{.*}} sources [1, 3, 2, 0] over @mesh <{"cp"}> : tensor<2x2x4x8xf32>
  %o, %l = heddle.attention "attn" %q, %k, %v causal scale(0.35) {heddle.factors = #heddle.factors<["s" = {"cp"}, "t" = {"cp"}]>} : tensor<2x20x4x8xf32>, tensor<2x20x4x8xf32>, tensor<2x20x4x8xf32> -> tensor<2x20x4x8xf32>, tensor<2x20x4xf32>
  return %o : tensor<2x20x4x8xf32>
}

// -----

// The gradients of keys and values move around the ring with them, and one step
// further to their own device.
heddle.mesh @mesh <["cp"=2]>
// CHECK-LABEL: @ring_grad
func.func @ring_grad(%q: tensor<2x8x4x8xf32>, %k: tensor<2x8x4x8xf32>, %v: tensor<2x8x4x8xf32>, %o: tensor<2x8x4x8xf32>, %l: tensor<2x8x4xf32>, %g: tensor<2x8x4x8xf32>) -> (tensor<2x8x4x8xf32>, tensor<2x8x4x8xf32>, tensor<2x8x4x8xf32>) {
  // CHECK: %{{.*}}, %[[DK:.*]], %[[DV:.*]] = heddle.attention_grad
  // CHECK-COUNT-2: comm.permute
  // CHECK-DAG: %[[DK1:.*]] = comm.permute %[[DK]]
  // CHECK-DAG: %[[DV1:.*]] = comm.permute %[[DV]]
  // CHECK: %[[DQ2:.*]], %[[DK2:.*]], %[[DV2:.*]] = heddle.attention_grad
  // CHECK-DAG: %[[SK:.*]] = arith.addf %[[DK1]], %[[DK2]]
  // CHECK-DAG: %[[SV:.*]] = arith.addf %[[DV1]], %[[DV2]]
  // CHECK-DAG: %[[HK:.*]] = comm.permute %[[SK]]
  // CHECK-DAG: %[[HV:.*]] = comm.permute %[[SV]]
  // CHECK: return %{{.*}}, %[[HK]], %[[HV]]
  %dq, %dk, %dv = heddle.attention_grad "attn" %q, %k, %v, %o, %l, %g scale(0.35) {heddle.factors = #heddle.factors<["s" = {"cp"}, "t" = {"cp"}]>} : tensor<2x8x4x8xf32>, tensor<2x8x4x8xf32>, tensor<2x8x4x8xf32>, tensor<2x8x4x8xf32>, tensor<2x8x4xf32>, tensor<2x8x4x8xf32> -> tensor<2x8x4x8xf32>, tensor<2x8x4x8xf32>, tensor<2x8x4x8xf32>
  return %dq, %dk, %dv : tensor<2x8x4x8xf32>, tensor<2x8x4x8xf32>, tensor<2x8x4x8xf32>
}

// -----

// Only keys are split: outputs are combined by the logarithms of their sums.
heddle.mesh @mesh <["cp"=2]>
// CHECK-LABEL: @keys
func.func @keys(%q: tensor<2x8x4x8xf32>, %k: tensor<2x6x4x8xf32>, %v: tensor<2x6x4x8xf32>) -> (tensor<2x8x4x8xf32>, tensor<2x8x4xf32>) {
  // CHECK: %[[O:.*]], %[[L:.*]] = heddle.attention "attn" {{.*}} : tensor<2x8x4x8xf32>, tensor<2x3x4x8xf32>
  // CHECK: comm.all_reduce max %[[L]] over @mesh <{"cp"}> : tensor<2x8x4xf32>
  // CHECK: comm.all_reduce sum %{{.*}} over @mesh <{"cp"}> : tensor<2x8x4xf32>
  // CHECK: comm.all_reduce sum %{{.*}} over @mesh <{"cp"}> : tensor<2x8x4x8xf32>
  %o, %l = heddle.attention "attn" %q, %k, %v scale(0.35) {heddle.factors = #heddle.factors<["t" = {"cp"}]>} : tensor<2x8x4x8xf32>, tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32> -> tensor<2x8x4x8xf32>, tensor<2x8x4xf32>
  return %o, %l : tensor<2x8x4x8xf32>, tensor<2x8x4xf32>
}

// -----

// Heads are split instead of the sequence: two kinds of exchanges, no
// positions.
heddle.mesh @mesh <["cp"=2]>
// CHECK-LABEL: @heads
func.func @heads(%q: tensor<2x8x4x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"cp"}, {}, {}]>}, %k: tensor<2x8x4x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"cp"}, {}, {}]>}, %v: tensor<2x8x4x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"cp"}, {}, {}]>})
    -> (tensor<2x8x4x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"cp"}, {}, {}]>}) {
  // CHECK-COUNT-3: comm.all_to_all {{.*}} : tensor<2x4x4x8xf32> -> tensor<2x8x2x8xf32>
  // CHECK: heddle.attention "attn" {{.*}} causal scale({{[^)]*}}) : tensor<2x8x2x8xf32>
  // CHECK: comm.all_to_all {{.*}} : tensor<2x8x2x8xf32> -> tensor<2x4x4x8xf32>
  // CHECK-NOT: comm.
  %o, %l = heddle.attention "attn" %q, %k, %v causal scale(0.35) {heddle.factors = #heddle.factors<["n" = {"cp"}, "s" = {}]>} : tensor<2x8x4x8xf32>, tensor<2x8x4x8xf32>, tensor<2x8x4x8xf32> -> tensor<2x8x4x8xf32>, tensor<2x8x4xf32>
  return %o : tensor<2x8x4x8xf32>
}
