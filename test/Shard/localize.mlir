// RUN: heddle-opt %s --split-input-file --heddle-repeat-constants --heddle-propagate-shardings --heddle-materialize-pins --heddle-insert-reshards --heddle-verify-sharded --heddle-localize --cse | FileCheck %s
// RUN: heddle-opt %s --split-input-file --heddle-repeat-constants --heddle-propagate-shardings --heddle-materialize-pins --heddle-insert-reshards --heddle-verify-sharded --heddle-localize --heddle-pack-collectives --heddle-verify-localized -o /dev/null

// A partial sum becomes an all-reduce. Types become local. Arguments and
// results keep their global types as attributes.
heddle.mesh @mesh <["dp"=2, "tp"=2]>
heddle.variable @w1 : tensor<8x32xf32> parameter init(zeros)
heddle.variable @w2 : tensor<32x8xf32> parameter init(zeros)
// CHECK-LABEL: @mlp
// CHECK-SAME: (%[[X:.*]]: tensor<2x8xf32> {heddle.global_type = tensor<4x8xf32>, heddle.sharding = #heddle.sharding<@mesh, [{"dp"}, {}]>})
// CHECK-SAME: -> (tensor<2x8xf32> {heddle.global_type = tensor<4x8xf32>
func.func @mlp(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK: heddle.load @w1 : tensor<8x16xf32>
  %w1 = heddle.load @w1 : tensor<8x32xf32>
  // CHECK: heddle.contract "c_fc" {{.*}} -> tensor<2x16xf32>
  %u = heddle.contract "c_fc" [bh, hf -> bf] %x, %w1 {heddle.factors = #heddle.factors<["b" = {"dp"}, "f" = {"tp"}]>} : (tensor<4x8xf32>, tensor<8x32xf32>) -> tensor<4x32xf32>
  %a = heddle.gelu %u approximate(tanh) : tensor<4x32xf32>
  %w2 = heddle.load @w2 : tensor<32x8xf32>
  // CHECK: %[[P:.*]] = heddle.contract "c_proj"
  // CHECK: %[[Y:.*]] = comm.all_reduce sum %[[P]] over @mesh <{"tp"}> : tensor<2x8xf32>
  // CHECK: return %[[Y]]
  %p = heddle.contract "c_proj" [bf, fh -> bh] %a, %w2 : (tensor<4x32xf32>, tensor<32x8xf32>) -> tensor<4x8xf32>
  return %p : tensor<4x8xf32>
}

// -----

// A vocabulary-parallel loss: rows are looked up by offset, logits are not
// gathered, and padding is masked once.
heddle.mesh @mesh <["tp"=2]>
heddle.variable @wte : tensor<7x4xf32> parameter init(zeros)
// CHECK-LABEL: @vocabulary
func.func @vocabulary(%ids: tensor<3x5xi32>, %targets: tensor<3x5xi32>, %g: tensor<3x5xf32>) -> (tensor<3x5xf32>, tensor<7x4xf32>) {
  // CHECK: %[[I:.*]] = comm.axis_index @mesh <{"tp"}>
  // CHECK: %[[OFFSET:.*]] = arith.muli %[[I]], %c4
  // CHECK: %[[TABLE:.*]] = heddle.load @wte : tensor<4x4xf32>
  %w = heddle.load @wte : tensor<7x4xf32>
  // CHECK: %[[E:.*]] = heddle.embedding "wte" %[[TABLE]], %{{.*}} offset(%[[OFFSET]])
  // CHECK: %[[X:.*]] = comm.all_reduce sum %[[E]]
  %x = heddle.embedding "wte" %w, %ids {heddle.factors = #heddle.factors<["v" = {"tp"}]>} : tensor<7x4xf32>, tensor<3x5xi32> -> tensor<3x5x4xf32>
  // CHECK: %[[L:.*]] = heddle.contract "lm_head" {{.*}} -> tensor<3x5x4xf32>
  %l = heddle.contract "lm_head" [bsh, vh -> bsv] %x, %w : (tensor<3x5x4xf32>, tensor<7x4xf32>) -> tensor<3x5x7xf32>
  // CHECK: %[[MASKED:.*]] = heddle.mask_padding %[[L]] dims [2] sizes [7] offsets(%[[OFFSET]]) value(lowest)
  // CHECK: %[[LSE:.*]] = heddle.logsumexp "loss" %[[MASKED]]
  // CHECK: comm.all_reduce max %[[LSE]]
  // CHECK: comm.all_reduce sum
  // CHECK: %[[PICKED:.*]] = heddle.pick "loss" %[[MASKED]], %{{.*}} offset(%[[OFFSET]])
  // CHECK: comm.all_reduce sum %[[PICKED]]
  %loss, %lse = heddle.cross_entropy "loss" %l, %targets : tensor<3x5x7xf32>, tensor<3x5xi32> -> tensor<3x5xf32>, tensor<3x5xf32>
  // CHECK: %[[DL:.*]] = heddle.cross_entropy_grad "loss" %[[MASKED]], {{.*}} offset(%[[OFFSET]])
  %dl = heddle.cross_entropy_grad "loss" %l, %targets, %lse, %g : tensor<3x5x7xf32>, tensor<3x5xi32>, tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5x7xf32>
  // CHECK-NOT: mask_padding
  // CHECK: heddle.contract "lm_head" pass(wgrad) {{.*}} %[[DL]], %[[X]]
  // CHECK-NOT: all_gather
  %dw = heddle.contract "lm_head" pass(wgrad) [bsv, bsh -> vh] %dl, %x : (tensor<3x5x7xf32>, tensor<3x5x4xf32>) -> tensor<7x4xf32>
  return %loss, %dw : tensor<3x5xf32>, tensor<7x4xf32>
}

// -----

// Padding of zeros stays zero through gelu, but not through exp.
heddle.mesh @mesh <["tp"=2]>
heddle.variable @w : tensor<4x7xf32> parameter init(zeros)
// CHECK-LABEL: @padding
func.func @padding(%x: tensor<3x4xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %w = heddle.load @w : tensor<4x7xf32>
  %u = heddle.contract "c" [bh, hf -> bf] %x, %w {heddle.factors = #heddle.factors<["f" = {"tp"}]>} : (tensor<3x4xf32>, tensor<4x7xf32>) -> tensor<3x7xf32>
  // CHECK: %[[A:.*]] = heddle.gelu
  %a = heddle.gelu %u approximate(tanh) : tensor<3x7xf32>
  // CHECK: heddle.reduce sum %[[A]]
  %s = heddle.reduce sum %a over [1] : tensor<3x7xf32> -> tensor<3xf32>
  // CHECK: %[[E:.*]] = math.exp
  %e = math.exp %u : tensor<3x7xf32>
  // CHECK: %[[M:.*]] = heddle.mask_padding %[[E]] dims [1] sizes [7] {{.*}} value(zero)
  // CHECK: heddle.reduce sum %[[M]]
  %t = heddle.reduce sum %e over [1] : tensor<3x7xf32> -> tensor<3xf32>
  return %s, %t : tensor<3xf32>, tensor<3xf32>
}

// -----

// A variable's padding stays zero.
heddle.mesh @mesh <["tp"=2]>
heddle.variable @w : tensor<7xf32> parameter init(zeros) storage(<@mesh, [{"tp"}]>)
// CHECK-LABEL: @stores
func.func @stores() {
  %w = heddle.load @w : tensor<7xf32>
  // CHECK: %[[E:.*]] = math.exp
  // CHECK: %[[M:.*]] = heddle.mask_padding %[[E]] dims [0] sizes [7]
  // CHECK: heddle.store %[[M]], @w : tensor<4xf32>
  %e = math.exp %w {heddle.factors = #heddle.factors<["0" = {"tp"}]>} : tensor<7xf32>
  heddle.store %e, @w : tensor<7xf32>
  return
}

// -----

// Random numbers depend on global coordinates. A maximum over a padded
// dimension.
heddle.mesh @mesh <["a"=2, "b"=2]>
// CHECK-LABEL: @positions
func.func @positions(%x: tensor<6x7xf32>, %step: tensor<i64>) -> tensor<6xf32> {
  // CHECK: heddle.dropout "d" {{.*}} offsets(%{{.*}}, %{{.*}}) global_shape([6, 7])
  %d = heddle.dropout "d" %x, %step rate(0.5) {heddle.factors = #heddle.factors<["0" = {"a"}, "1" = {"b"}]>} : tensor<6x7xf32>, tensor<i64> -> tensor<6x7xf32>
  // CHECK: heddle.mask_padding {{.*}} value(lowest)
  // CHECK: %[[MAX:.*]] = heddle.reduce max
  // CHECK: comm.all_reduce max %[[MAX]] over @mesh <{"b"}>
  %m = heddle.reduce max %d over [1] : tensor<6x7xf32> -> tensor<6xf32>
  return %m : tensor<6xf32>
}

// -----

// The stored variable is gathered for its use, and its gradient is scattered.
heddle.mesh @mesh <["dp"=2]>
heddle.variable @w : tensor<8x4xf32> parameter init(zeros) {heddle.storage_axes = #heddle.sharding<@mesh, [{"dp"}, {}]>}
// CHECK-LABEL: @zero3
func.func @zero3(%x: tensor<6x8xf32>) -> tensor<6x4xf32> {
  // CHECK: %[[W:.*]] = heddle.load @w : tensor<4x4xf32>
  %w = heddle.load @w : tensor<8x4xf32>
  // CHECK: comm.all_gather %[[W]] dim 0 over @mesh <{"dp"}> : tensor<4x4xf32> -> tensor<8x4xf32>
  %y = heddle.contract "c" [bh, hf -> bf] %x, %w {heddle.factors = #heddle.factors<["b" = {"dp"}]>} : (tensor<6x8xf32>, tensor<8x4xf32>) -> tensor<6x4xf32>
  // CHECK: %[[G:.*]] = heddle.contract "c" pass(wgrad)
  // CHECK: comm.reduce_scatter sum %[[G]] dim 0 over @mesh <{"dp"}> : tensor<8x4xf32> -> tensor<4x4xf32>
  // CHECK-NOT: comm.
  %g = heddle.contract "c" pass(wgrad) [bh, bf -> hf] %x, %y {heddle.factors = #heddle.factors<["b" = {"dp"}]>} : (tensor<6x8xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
  %n = arith.subf %w, %g : tensor<8x4xf32>
  heddle.store %n, @w : tensor<8x4xf32>
  return %y : tensor<6x4xf32>
}

// -----

// On one device nothing is communicated.
heddle.mesh @mesh <["dp"=1]>
// CHECK-LABEL: @one_device
// CHECK-NOT: comm.
func.func @one_device(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  // CHECK: heddle.contract
  %0 = heddle.contract "c" [bh, hf -> bf] %x, %w {heddle.factors = #heddle.factors<["b" = {"dp"}]>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

// Device (2, 0) is sent nothing and keeps the padding of another dimension, so
// the sum over that dimension must mask it.
heddle.mesh @mesh <["a"=3, "b"=2]>
// CHECK-LABEL: func.func @moved_padding
// CHECK: %[[MOVED:.*]] = comm.permute
// CHECK: %[[MASKED:.*]] = heddle.mask_padding %[[MOVED]] dims [1] sizes [4]
// CHECK: heddle.reduce sum %[[MASKED]] over [1]
func.func @moved_padding(%x: tensor<4x4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"a"}, {"b"}]>}) -> tensor<4xf32> {
  %0 = heddle.reduce sum %x over [1] {heddle.factors = #heddle.factors<["0" = {"b"}, "1" = {"a"}]>} : tensor<4x4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Priorities of propagation have no meaning on one device; they are removed.
heddle.mesh @mesh <["tp"=2]>
// CHECK-LABEL: @priorities
// CHECK-NOT: heddle.priority
func.func @priorities(%x: tensor<8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"tp"}]>, heddle.priority = 1}) -> (tensor<8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"tp"}]>, heddle.priority = 2}) {
  // CHECK: return
  %0 = math.exp %x {heddle.factors = #heddle.factors<["0" = {"tp"}]>, heddle.priority = 3} : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// If an amount of padding is known only at run time, the tensor stays whole.
heddle.mesh @mesh <["tp"=2]>
// CHECK-LABEL: @pad_by
// CHECK-SAME: (%[[X:.*]]: tensor<8x4xf32> {{.*}}, %[[N:.*]]: index, %[[V:.*]]: f32)
func.func @pad_by(%x: tensor<8x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"tp"}]>}, %n: index, %v: f32) -> tensor<?x8xf32> {
  // CHECK: %[[WHOLE:.*]] = comm.all_gather %[[X]] dim 1
  // CHECK: tensor.pad %[[WHOLE]] low[%[[N]], 0] high[%[[N]], 0]
  // CHECK: tensor.yield %[[V]]
  %0 = tensor.pad %x low[%n, 0] high[%n, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %v : f32
  } : tensor<8x8xf32> to tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// -----

// If sizes are known only at run time, the op's own localization is not called.
heddle.mesh @mesh <["tp"=2]>
// CHECK-LABEL: @unknown_sizes
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32> {{[^%]*}}%[[Y:arg1]]: tensor<8x?xf32>
func.func @unknown_sizes(%x: tensor<8x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"tp"}, {}]>}, %y: tensor<8x?xf32>, %o: tensor<8x?xf32>, %n: index) -> (tensor<8x?xf32>, tensor<8x?xf32>, tensor<?xf32>) {
  // CHECK: %[[WHOLE:.*]] = comm.all_gather %[[X]] dim 0
  // CHECK: linalg.matmul ins(%[[WHOLE]], %[[Y]] : tensor<8x8xf32>, tensor<8x?xf32>)
  // CHECK: linalg.softmax dimension(1) ins(%{{.*}} : tensor<8x?xf32>)
  // CHECK: tensor.generate
  // CHECK: tensor.extract %[[WHOLE]]
  %0 = linalg.matmul ins(%x, %y : tensor<8x8xf32>, tensor<8x?xf32>) outs(%o : tensor<8x?xf32>) -> tensor<8x?xf32>
  %1 = linalg.softmax dimension(1) ins(%0 : tensor<8x?xf32>) outs(%o : tensor<8x?xf32>) -> tensor<8x?xf32>
  %2 = tensor.generate %n {
  ^bb0(%i: index):
    %v = tensor.extract %x[%i, %i] : tensor<8x8xf32>
    tensor.yield %v : f32
  } : tensor<?xf32>
  return %0, %1, %2 : tensor<8x?xf32>, tensor<8x?xf32>, tensor<?xf32>
}

// -----

// Each value of a barrier has shardings of its own, which its result shares.
heddle.mesh @mesh <["dp"=2, "tp"=2]>
// CHECK-LABEL: @barrier
func.func @barrier(%x: tensor<4x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"dp"}, {}]>},
                   %y: tensor<6xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"tp"}]>},
                   %g: tensor<2x2xf32>) -> (tensor<4x8xf32>, tensor<6xf32>) {
  // CHECK: heddle.barrier %{{.*}}, %{{.*}} after %{{.*}} : tensor<2x8xf32>, tensor<3xf32> after tensor<2x2xf32>
  // CHECK-NOT: comm.
  %0:2 = heddle.barrier %x, %y after %g : tensor<4x8xf32>, tensor<6xf32> after tensor<2x2xf32>
  return %0#0, %0#1 : tensor<4x8xf32>, tensor<6xf32>
}
