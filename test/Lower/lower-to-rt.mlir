// RUN: heddle-opt %s --split-input-file --heddle-plan-arenas --heddle-lower-to-rt | FileCheck %s

heddle.mesh @mesh <["dp"=2, "tp"=2]>
heddle.variable @w : tensor<8x16xf32> parameter init(zeros) storage(<@mesh, [{}, {"tp"} ]>)
func.func private @kernel_0(tensor<4x8xf32>, index) -> tensor<4x8xf32> attributes {heddle.kernel, heddle.inplace = [array<i64: 0>]}

// CHECK-LABEL: rt.program @step
// CHECK-SAME: arguments [#rt.port<"x", tensor<8x8xf32>, <@mesh, [{"dp"}, {}]> as <features> in <@mesh, {"tp" = [0]}>>]
// CHECK-SAME: results [#rt.port<"result0", tensor<4x8xf32> as <output> in <@mesh, {"tp" = [0]}>>]
// CHECK-SAME: attributes {heddle.ranks = #heddle.ranks<@mesh, {"tp" = [0]}>, heddle.role = #heddle.program_role<step>}
func.func @step(%x: tensor<4x8xf32> {heddle.name = "x", heddle.role = #heddle.port_role<features>, heddle.ranks = #heddle.ranks<@mesh, {"tp" = [0]}>, heddle.sharding = #heddle.sharding<@mesh, [{"dp"}, {} ]>, heddle.global_type = tensor<8x8xf32>})
    -> (tensor<4x8xf32> {heddle.role = #heddle.port_role<output>}) attributes {heddle.ranks = #heddle.ranks<@mesh, {"tp" = [0]}>, heddle.role = #heddle.program_role<step>} {
  %w = heddle.load @w : tensor<8x8xf32>
  // CHECK: rt.matmul m(4) n(8) k(8) a(argument 0[0 : 4x8xf32] strides [8, 1]) b(variable @w[0 : 8x8xf32] strides [8, 1]) {{.*}} serves <activation ["fc"]>
  %h = heddle.contract "fc" [bh, hf -> bf] %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  // CHECK: rt.all_reduce sum [[B:.*]] -> [[B]] over @mesh <{"tp"}>
  %q = comm.all_reduce sum %h over @mesh <{"tp"}> : tensor<4x8xf32>
  // CHECK: %[[DP:.*]] = rt.coordinate @mesh "dp"
  // CHECK: %[[TP:.*]] = rt.coordinate @mesh "tp"
  // CHECK: %[[M:.*]] = arith.muli %[[DP]]
  // CHECK: %[[I:.*]] = arith.addi %[[M]], %[[TP]]
  %i = comm.axis_index @mesh <{"dp", "tp"}>
  // CHECK: %[[C:.*]] = arith.constant 4
  %c = arith.constant 4 : index
  // CHECK: %[[O:.*]] = arith.muli %[[I]], %[[C]]
  %o = arith.muli %i, %c : index
  // CHECK: rt.launch @kernel_0 ([[B]], %[[O]]) -> ([[B]])
  %y = func.call @kernel_0(%q, %o) : (tensor<4x8xf32>, index) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// A fused projection of queries, keys and values: a loop over the three parts.
// Its gradients: a loop, and a sum over the three parts.
// CHECK-LABEL: rt.program @attention_projection
func.func @attention_projection(%x: tensor<2x4x8xf32>, %w: tensor<8x3x2x4xf32>) -> (tensor<2x4x8xf32>, tensor<8x3x2x4xf32>) {
  // CHECK: rt.matmul m(8) n(8) k(8) a(argument 0[0 : 2x4x8xf32] strides [8, 1]) b(argument 1[0 : 8x3x2x4xf32] strides [24, 1]) c({{.*}} : 3x2x4x2x4xf32] stride 8) loops [#rt.loop<3, a = 0, b = 8, c = 64>]
  %qkv = heddle.contract [bsh, hcnd -> cbsnd] %x, %w : (tensor<2x4x8xf32>, tensor<8x3x2x4xf32>) -> tensor<3x2x4x2x4xf32>
  // CHECK: rt.matmul m(8) n(8) k(8) a({{.*}} strides [8, 1]) b(argument 1[0 : 8x3x2x4xf32] strides [1, 24]) c({{.*}} stride 8) loops [#rt.loop<3, a = 64, b = 8, c = 0>]
  %dx = heddle.contract [cbsnd, hcnd -> bsh] %qkv, %w : (tensor<3x2x4x2x4xf32>, tensor<8x3x2x4xf32>) -> tensor<2x4x8xf32>
  // CHECK: rt.matmul m(8) n(8) k(8) a(argument 0[0 : 2x4x8xf32] strides [1, 8]) b({{.*}} strides [8, 1]) c({{.*}} stride 24) loops [#rt.loop<3, a = 0, b = 64, c = 8>]
  %dw = heddle.contract [bsh, cbsnd -> hcnd] %x, %qkv : (tensor<2x4x8xf32>, tensor<3x2x4x2x4xf32>) -> tensor<8x3x2x4xf32>
  return %dx, %dw : tensor<2x4x8xf32>, tensor<8x3x2x4xf32>
}

// The result's inner dimension belongs to the first operand, so the operands
// are swapped.
// CHECK-LABEL: rt.program @exchanged
func.func @exchanged(%x: tensor<4x8xf32>, %w: tensor<16x8xf32>) -> tensor<16x4xf32> {
  // CHECK: rt.matmul m(16) n(4) k(8) a(argument 1[0 : 16x8xf32] strides [8, 1]) b(argument 0[0 : 4x8xf32] strides [1, 8]) c(result 0[0 : 16x4xf32] stride 4)
  %y = heddle.contract [sh, oh -> os] %x, %w : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<16x4xf32>
  return %y : tensor<16x4xf32>
}

// A bias and an accumulator. The accumulator is returned too, so it is copied.
// CHECK-LABEL: rt.program @epilogue
func.func @epilogue(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %b: tensor<6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  // CHECK: rt.matmul m(4) n(6) k(8) {{.*}}c(result 0[0 : 4x6xf32] stride 6) bias(argument 2[0 : 6xf32])
  %y = heddle.contract [sh, ho -> so] %x, %w bias(%b along [1]) : (tensor<4x8xf32>, tensor<8x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  // CHECK: rt.copy result 0[0 : 4x6xf32] -> result 1[0 : 4x6xf32]
  // CHECK: rt.matmul m(4) n(6) k(8) {{.*}}c(result 1[0 : 4x6xf32] stride 6) accumulate
  %z = heddle.contract [sh, ho -> so] %x, %w accumulate(%y) : (tensor<4x8xf32>, tensor<8x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %y, %z : tensor<4x6xf32>, tensor<4x6xf32>
}

// -----

heddle.mesh @mesh <["tp"=2]>

// CHECK-LABEL: rt.program @slice
func.func @slice(%x: tensor<4x6xf32>, %y: tensor<4x5xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>) {
  // CHECK: rt.copy argument 0[0 : 4x6xf32] offset(%{{.*}}) -> result 0[0 : 4x3xf32] blocks(4) strides(24, 12)
  %a = comm.slice %x dim 1 over @mesh <{"tp"}> : tensor<4x6xf32> -> tensor<4x3xf32>
  // CHECK: rt.fill_zero result 1[0 : 4x3xf32]
  // CHECK: rt.copy argument 1[0 : 4x5xf32] offset(%{{.*}}) -> result 1[0 : 4x3xf32] blocks(4) strides(20, 12) bytes(%{{.*}})
  %b = comm.slice %y dim 1 over @mesh <{"tp"}> : tensor<4x5xf32> -> tensor<4x3xf32>
  return %a, %b : tensor<4x3xf32>, tensor<4x3xf32>
}

// A collective in flight runs on its own stream between two events.
// CHECK-LABEL: rt.program @in_flight
// CHECK-SAME: streams(2)
func.func @in_flight(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK: rt.record 0
  // CHECK-NEXT: rt.wait 0 stream(1)
  // CHECK-NEXT: rt.all_reduce stream(1) sum argument 0[0 : 4x8xf32] -> result 0[0 : 4x8xf32]
  // CHECK-NEXT: rt.record 1 stream(1)
  %t = comm.start : !comm.token<tensor<4x8xf32>> {
    %s = comm.all_reduce sum %x over @mesh <{"tp"}> : tensor<4x8xf32>
    comm.yield %s : tensor<4x8xf32>
  }
  // CHECK-NEXT: rt.wait 1
  // CHECK-NEXT: }
  %y = comm.wait %t : !comm.token<tensor<4x8xf32>>
  return %y : tensor<4x8xf32>
}

// Each start names its stream.
// CHECK-LABEL: rt.program @streams
// CHECK-SAME: streams(4)
func.func @streams(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  // CHECK: rt.record 0
  // CHECK-NEXT: rt.wait 0 stream(3)
  // CHECK-NEXT: rt.all_reduce stream(3)
  // CHECK-NEXT: rt.record 1 stream(3)
  %t = comm.start stream(3) : !comm.token<tensor<4x8xf32>> {
    %s = comm.all_reduce sum %x over @mesh <{"tp"}> : tensor<4x8xf32>
    comm.yield %s : tensor<4x8xf32>
  }
  // CHECK-NEXT: rt.record 2
  // CHECK-NEXT: rt.wait 2 stream(1)
  // CHECK-NEXT: rt.all_reduce stream(1)
  // CHECK-NEXT: rt.record 3 stream(1)
  %u = comm.start : !comm.token<tensor<4x8xf32>> {
    %s = comm.all_reduce max %x over @mesh <{"tp"}> : tensor<4x8xf32>
    comm.yield %s : tensor<4x8xf32>
  }
  // CHECK-NEXT: rt.wait 3
  // CHECK-NEXT: rt.wait 1
  // CHECK-NEXT: }
  %z = comm.wait %u : !comm.token<tensor<4x8xf32>>
  %y = comm.wait %t : !comm.token<tensor<4x8xf32>>
  return %y, %z : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// The functions that a loop calls become its regions. Their arguments and
// results are the loop's memory, their arena its workspace. Swapped values are
// copied.
// CHECK-LABEL: rt.program @loop
func.func private @kernel_0(tensor<32xf32>) -> tensor<32xf32> attributes {heddle.kernel}
func.func private @kernel_1(tensor<32xf32>, tensor<32xf32>) -> (tensor<i1>, tensor<32xf32>) attributes {heddle.kernel}
func.func @loop(%x: tensor<32xf32>, %y: tensor<32xf32>) -> (tensor<32xf32>, tensor<32xf32>) {
  // CHECK: rt.copy argument 0[0 : 32xf32] -> [[C0:arena\[[0-9a-z :]*\]]]
  // CHECK-NEXT: rt.copy argument 1[0 : 32xf32] -> [[C1:arena\[[0-9a-z :]*\]]]
  // CHECK-NEXT: rt.while [[GO:arena\[[0-9a-z :]*\]]] before {
  // CHECK-NEXT: rt.launch @kernel_0 ([[C0]]) -> ([[T:arena\[[0-9a-z :]*\]]])
  // CHECK-NEXT: rt.launch @kernel_1 ([[T]], [[C1]]) -> ([[GO]], result 0[0 : 32xf32])
  // CHECK-NEXT: rt.copy [[C0]] -> result 1[0 : 32xf32]
  // CHECK-NEXT: } after {
  // CHECK-NEXT: rt.copy result 1[0 : 32xf32] -> [[C0]]
  // CHECK-NEXT: rt.copy result 0[0 : 32xf32] -> [[C1]]
  // CHECK-NEXT: }
  // CHECK-NEXT: }
  %r:2, %h:2, %c, %w = heddle.while @before, @after init(%x, %y : tensor<32xf32>, tensor<32xf32>)
    -> (tensor<32xf32>, tensor<32xf32>) carried(tensor<32xf32>, tensor<32xf32>) condition tensor<i1> workspace tensor<1xi8>
  return %r#0, %r#1 : tensor<32xf32>, tensor<32xf32>
}
func.func private @before(%x: tensor<32xf32>, %y: tensor<32xf32>) -> (tensor<i1>, tensor<32xf32>, tensor<32xf32>) {
  %t = func.call @kernel_0(%x) : (tensor<32xf32>) -> tensor<32xf32>
  %c, %z = func.call @kernel_1(%t, %y) : (tensor<32xf32>, tensor<32xf32>) -> (tensor<i1>, tensor<32xf32>)
  return %c, %z, %x : tensor<i1>, tensor<32xf32>, tensor<32xf32>
}
// CHECK-NOT: @after
func.func private @after(%x: tensor<32xf32>, %y: tensor<32xf32>) -> (tensor<32xf32>, tensor<32xf32>) {
  return %y, %x : tensor<32xf32>, tensor<32xf32>
}

// -----

func.func private @make() -> tensor<5x2xf32> attributes {heddle.kernel}
// CHECK-LABEL: rt.program @join
// CHECK-NEXT: rt.launch @make () -> (result 0[0 : 5x2xf32])
// CHECK-NEXT: rt.fill_zero result 0[40 : 1x2xf32]
// CHECK-NEXT: }
func.func @join() -> tensor<6x2xf32> attributes {rt.arena = 0 : i64} {
  %x = func.call @make() {rt.places = [#rt.buffer<result 0[0 : 5x2xf32]>]} : () -> tensor<5x2xf32>
  %zeros = arith.constant dense<0.0> : tensor<1x2xf32>
  %whole = tensor.concat dim(0) %x, %zeros {rt.places = [#rt.buffer<result 0[0 : 6x2xf32]>]} : (tensor<5x2xf32>, tensor<1x2xf32>) -> tensor<6x2xf32>
  return %whole : tensor<6x2xf32>
}
