// RUN: heddle-opt %s --split-input-file --verify-diagnostics --heddle-repeat-constants --heddle-propagate-shardings --heddle-materialize-pins --heddle-insert-reshards="remark-bytes=1024 cluster=%S/Inputs/two-servers.json" -o /dev/null
// RUN: heddle-opt %s --split-input-file --heddle-repeat-constants --heddle-propagate-shardings --heddle-materialize-pins --heddle-insert-reshards="remark-bytes=1048576" -o /dev/null 2>&1 | count 0

// A tensor's users disagree with its definition. Either side could change.
heddle.mesh @mesh <["dp"=2, "tp"=2]>
func.func @disagree(%x: tensor<64x32xf32>, %v: tensor<32x32xf32>, %w: tensor<32x32xf32>) -> tensor<64x32xf32> {
  // expected-note @below {{it would not move if 'first' (heddle.contract) had "operators": {"first": {"b": ["dp"], "f": []}}; for all that this op reads and makes a device would send 2048 bytes in 0.0124 ms, not 2048 bytes in 0.0114 ms: that gains nothing}}
  %a = heddle.contract "first" [bh, hf -> bf] %x, %v {heddle.factors = #heddle.factors<["b" = {}, "f" = {"dp"}]>} : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  // expected-remark @below {{in @disagree, 'second' (heddle.contract) needs 'tensor<64x32xf32>' of 'first' (heddle.contract) as [{"dp"}, {}], but it lies as [{}, {"dp"}]: all_to_all over {"dp"}; a device sends 2048 bytes in 0.0114 ms on 'two servers'}}
  // expected-note @below {{it would not move if 'second' (heddle.contract) had "operators": {"second": {"b": [], "f": ["dp"]}}; for all that this op reads and makes a device would send 4096 bytes in 0.0128 ms, not 2048 bytes in 0.0114 ms: that gains nothing}}
  %b = heddle.contract "second" [bf, fo -> bo] %a, %w {heddle.factors = #heddle.factors<["b" = {"dp"}, "f" = {}, "o" = {}]>} : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  return %b : tensor<64x32xf32>
}

// -----

// A partial sum is reduced: only its own op could avoid the reduction.
heddle.mesh @mesh <["dp"=2, "tp"=2]>
func.func @partial(%x: tensor<64x32xf32>, %v: tensor<32x32xf32>) -> (tensor<64x32xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {}]>}) {
  // expected-note @below {{it would not move if 'sum' (heddle.contract) had "operators": {"sum": {"h": []}}; for all that this op reads and makes a device would send 6144 bytes in 0.00406 ms, not 8192 bytes in 0.00308 ms: that gains nothing}}
  %a = heddle.contract "sum" [bh, hf -> bf] %x, %v {heddle.factors = #heddle.factors<["h" = {"tp"}, "b" = {}, "f" = {}]>} : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  // expected-remark @below {{in @partial, 'math.exp' needs 'tensor<64x32xf32>' of 'sum' (heddle.contract) as [{}, {}], but it lies as [{}, {}], partial sum {"tp"}: all_reduce over {"tp"}; a device sends 8192 bytes}}
  %b = math.exp %a : tensor<64x32xf32>
  return %b : tensor<64x32xf32>
}

// -----

// The value is stored over more axes than its use wants; the plan can omit
// them.
heddle.mesh @mesh <["dp"=2, "tp"=2]>
heddle.variable @w : tensor<32x32xf32> parameter init(zeros) {heddle.storage_axes = #heddle.sharding<@mesh, [{"dp"}, {}]>}
func.func @stored(%x: tensor<64x32xf32>) -> tensor<64x32xf32> {
  // expected-note @below {{it would not move if variable 'w' were stored as [{}, {}]: "storage": {"w": {}}; a device would hold 4096 bytes of it, not 2048}}
  %w = heddle.load @w : tensor<32x32xf32>
  // expected-remark @below {{in @stored, 'use' (heddle.contract) needs 'tensor<32x32xf32>' of variable 'w' as [{}, {}], but it lies as [{"dp"}, {}]: all_gather over {"dp"}; a device sends 2048 bytes}}
  // expected-note @below {{it would not move if 'use' (heddle.contract) had "operators": {"use": {"b": [], "h": ["dp"]}}}}
  %b = heddle.contract "use" [bh, hf -> bf] %x, %w {heddle.factors = #heddle.factors<["b" = {"dp"}, "f" = {}, "h" = {}]>} : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  return %b : tensor<64x32xf32>
}

// -----

// No plan assigns arguments and results, so the remark states their shardings.
heddle.mesh @mesh <["dp"=2, "tp"=2]>
// expected-note @below {{it would not move if argument 0 came as [{}, {"dp"}]}}
func.func @through(%x: tensor<64x32xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"dp"}, {}]>}) -> (tensor<64x32xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"dp"}]>}) {
  // expected-remark @below {{in @through, result 0 needs 'tensor<64x32xf32>' of argument 0 as [{}, {"dp"}], but it lies as [{"dp"}, {}]: all_to_all over {"dp"}}}
  // expected-note @below {{it would not move if result 0 were given as [{"dp"}, {}]}}
  return %x : tensor<64x32xf32>
}

// -----

// If no plan can name the op, the advice is written as its attribute.
heddle.mesh @mesh <["dp"=2, "tp"=2]>
func.func @unnamed(%x: tensor<4096x32xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"dp"}, {"tp"}]>}) -> (tensor<4096xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"dp"}]>}) {
  %zero = arith.constant dense<0.0> : tensor<4096xf32>
  // expected-note @below {{it would not move if 'linalg.reduce' had heddle.factors = #heddle.factors<["1" = {}]>; for all that this op reads and makes a device would send 131072 bytes in 0.00331 ms, not 8192 bytes in 0.0041 ms}}
  %a = linalg.reduce { arith.addf } ins(%x : tensor<4096x32xf32>) outs(%zero : tensor<4096xf32>) dimensions = [1]
  // expected-remark @below {{in @unnamed, result 0 needs 'tensor<4096xf32>' of 'linalg.reduce'}}
  return %a : tensor<4096xf32>
}

// -----

// A pin is the user's decision, and the user can change it.
heddle.mesh @mesh <["dp"=2, "tp"=2]>
func.func @pinned(%x: tensor<64x32xf32>) -> (tensor<64x32xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"dp"}, {}]>}) {
  // expected-note @below {{it would not move if the pin of 'math.exp' were [{"dp"}, {}]}}
  %a = math.exp %x {heddle.pin = #heddle.sharding<@mesh, [{}, {"dp"}]>} : tensor<64x32xf32>
  // expected-remark @below {{in @pinned, result 0 needs 'tensor<64x32xf32>'}}
  // expected-note @below {{it would not move if result 0 were given as [{}, {"dp"}]}}
  return %a : tensor<64x32xf32>
}

// -----

// A loop passes its initial value on, and a reduction with alternating signs
// cannot be split. The remark still says which ops would have to agree.
heddle.mesh @mesh <["dp"=2, "tp"=2]>
func.func @no_factors(%x: tensor<4096x32xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"dp"}, {}]>}, %one: tensor<32xf32>) -> tensor<32xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  // expected-note @below {{it would not move if 'scf.for' made it as [{}, {}] or 'linalg.reduce' took it as [{"dp"}, {}], which no factors of one of the two alone do}}
  %a = scf.for %i = %c0 to %c4 step %c1 iter_args(%b = %x) -> tensor<4096x32xf32> {
    %c = math.exp %b : tensor<4096x32xf32>
    scf.yield %c : tensor<4096x32xf32>
  }
  // expected-remark @below {{in @no_factors, 'linalg.reduce' needs 'tensor<4096x32xf32>' of 'scf.for'}}
  %d = linalg.reduce ins(%a : tensor<4096x32xf32>) outs(%one : tensor<32xf32>) dimensions = [0] (%in: f32, %out: f32) {
    %e = arith.subf %in, %out : f32
    linalg.yield %e : f32
  }
  return %d : tensor<32xf32>
}

// -----

// Alike layers get one remark, with one entry of a plan for all of them.
heddle.mesh @mesh <["dp"=2, "tp"=2]>
func.func @layers(%x: tensor<64x32xf32>, %v: tensor<32x32xf32>, %w: tensor<32x32xf32>) -> tensor<64x32xf32> {
  // expected-note @below {{it would not move if 'h.*.up' (heddle.contract) had "operators": {"h.*.up": {"b": ["dp"], "f": []}}}}
  %a = heddle.contract "h.0.up" [bh, hf -> bf] %x, %v {heddle.factors = #heddle.factors<["b" = {}, "f" = {"dp"}, "h" = {}]>} : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  // expected-remark @below {{in @layers, 'h.0.down' (heddle.contract) needs 'tensor<64x32xf32>' of 'h.0.up' (heddle.contract) as [{"dp"}, {}], but it lies as [{}, {"dp"}]: all_to_all over {"dp"}; a device sends 2048 bytes in 0.0114 ms on 'two servers'; the same for 'h.1.down' (heddle.contract), 'h.2.down' (heddle.contract): 3 times, 6144 bytes in 0.0342 ms in all}}
  // expected-note @below {{it would not move if 'h.*.down' (heddle.contract) had "operators": {"h.*.down": {"b": [], "f": ["dp"]}}}}
  %b = heddle.contract "h.0.down" [bf, fo -> bo] %a, %w {heddle.factors = #heddle.factors<["b" = {"dp"}, "f" = {}, "o" = {}]>} : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  %c = heddle.contract "h.1.up" [bh, hf -> bf] %x, %v {heddle.factors = #heddle.factors<["b" = {}, "f" = {"dp"}, "h" = {}]>} : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  %d = heddle.contract "h.1.down" [bf, fo -> bo] %c, %w {heddle.factors = #heddle.factors<["b" = {"dp"}, "f" = {}, "o" = {}]>} : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  %e = heddle.contract "h.2.up" [bh, hf -> bf] %x, %v {heddle.factors = #heddle.factors<["b" = {}, "f" = {"dp"}, "h" = {}]>} : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  %f = heddle.contract "h.2.down" [bf, fo -> bo] %e, %w {heddle.factors = #heddle.factors<["b" = {"dp"}, "f" = {}, "o" = {}]>} : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  %g = arith.addf %b, %d : tensor<64x32xf32>
  %h = arith.addf %g, %f : tensor<64x32xf32>
  return %h : tensor<64x32xf32>
}

// -----

// A glob that also matches other operators would advise more than was checked.
heddle.mesh @mesh <["dp"=2, "tp"=2]>
func.func @some_layers(%x: tensor<64x32xf32>, %y: tensor<64x32xf32>, %v: tensor<32x32xf32>, %w: tensor<32x32xf32>) -> tensor<64x32xf32> {
  // expected-note @below {{it would not move if 'h.0.up' (heddle.contract) had "operators": {"h.0.up": {"b": ["dp"], "f": []}}}}
  %a = heddle.contract "h.0.up" [bh, hf -> bf] %x, %v {heddle.factors = #heddle.factors<["b" = {}, "f" = {"dp"}, "h" = {}]>} : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  // expected-remark @below {{the same for 'h.1.down' (heddle.contract): 2 times}}
  // expected-note @below {{had "operators": {"h.*.down": {"b": [], "f": ["dp"]}}}}
  %b = heddle.contract "h.0.down" [bf, fo -> bo] %a, %w {heddle.factors = #heddle.factors<["b" = {"dp"}, "f" = {}, "o" = {}]>} : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  %c = heddle.contract "h.1.up" [bh, hf -> bf] %x, %v {heddle.factors = #heddle.factors<["b" = {}, "f" = {"dp"}, "h" = {}]>} : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  %d = heddle.contract "h.1.down" [bf, fo -> bo] %c, %w {heddle.factors = #heddle.factors<["b" = {"dp"}, "f" = {}, "o" = {}]>} : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  %e = heddle.contract "h.2.up" [bh, hf -> bf] %y, %w {heddle.factors = #heddle.factors<["b" = {"dp"}, "f" = {}, "h" = {}]>} : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  %g = arith.addf %b, %d : tensor<64x32xf32>
  %h = arith.addf %g, %e : tensor<64x32xf32>
  return %h : tensor<64x32xf32>
}

// -----

// No plan assigns an optimizer's ops; the storage of the state decides their
// factors (ZeRO-1).
heddle.mesh @mesh <["dp"=2, "tp"=2]>
heddle.variable @w : tensor<32x32xf32> parameter init(zeros)
heddle.variable @m : tensor<32x32xf32> optimizer_state init(zeros) {heddle.storage_axes = #heddle.sharding<@mesh, [{"dp"}, {}]>}
func.func @update(%g: tensor<32x32xf32>) {
  %w = heddle.load @w : tensor<32x32xf32>
  %m = heddle.load @m : tensor<32x32xf32>
  %n = arith.addf %m, %g : tensor<32x32xf32>
  // expected-note @below {{it would not move if variable 'm' were stored as [{}, {}]: "storage": {"m": {}}; a device would hold 4096 bytes of it, not 2048}}
  %v = arith.subf %w, %n : tensor<32x32xf32>
  heddle.store %n, @m : tensor<32x32xf32>
  // expected-remark @below {{in @update, variable 'w' needs 'tensor<32x32xf32>' of 'arith.subf' of the update of variable 'w' as [{}, {}], but it lies as [{"dp"}, {}]: all_gather over {"dp"}}}
  // expected-note @below {{it would not move if variable 'w' were stored as [{"dp"}, {}]; a device would hold 2048 bytes of it, not 4096}}
  heddle.store %v, @w : tensor<32x32xf32>
  return
}
