// RUN: heddle-opt %s | heddle-opt | FileCheck %s

heddle.mesh @mesh <["dp"=2, "tp"=2]>
heddle.variable @w : tensor<8x4xf32> parameter init(normal<0.02>) storage(<@mesh, [{}, {"tp"} ]>)
rt.constant @one dense<1.0> : tensor<f32>

func.func private @kernel_0(tensor<4x2xf32>, index) -> tensor<4x2xf32> attributes {heddle.kernel}

// CHECK: rt.program @step arena(256)
// CHECK-SAME: streams(2)
// CHECK-SAME: arguments [#rt.port<"x", tensor<8x8xf32>, <@mesh, [{"dp"}, {}]>>]
// CHECK-SAME: results [#rt.port<"loss", tensor<f32>>]
rt.program @step arena(256) streams(2)
    arguments [#rt.port<"x", tensor<8x8xf32>, <@mesh, [{"dp"}, {}]>>]
    results [#rt.port<"loss", tensor<f32>>] {
  // CHECK: %[[I:.*]] = rt.coordinate @mesh "dp"
  %i = rt.coordinate @mesh "dp"
  // CHECK: rt.matmul m(4) n(2) k(8) a(argument 0[0 : 4x8xf32] strides [8, 1])
  // CHECK-SAME: b(variable @w[0 : 8x2xf32] strides [2, 1]) c(arena[0 : 4x2xf32] stride 2)
  rt.matmul m(4) n(2) k(8) a(argument 0[0 : 4x8xf32] strides [8, 1])
    b(variable @w[0 : 8x2xf32] strides [2, 1]) c(arena[0 : 4x2xf32] stride 2) serves <activation ["fc"]>
  // CHECK: rt.matmul m(4) n(2) k(4) {{.*}} accumulate loops [#rt.loop<2, a = 4, b = 8, c = 0>]
  rt.matmul m(4) n(2) k(4) a(argument 0[0 : 4x8xf32] strides [8, 1])
    b(variable @w[0 : 8x2xf32] strides [2, 1]) c(arena[0 : 4x2xf32] stride 2)
    accumulate loops [#rt.loop<2, a = 4, b = 8, c = 0>] serves <activation ["x"]>
  // CHECK: rt.launch @kernel_0 (arena[0 : 4x2xf32], %[[I]]) -> (arena[64 : 4x2xf32]) serves <state ["a", "b"]>
  rt.launch @kernel_0 (arena[0 : 4x2xf32], %i) -> (arena[64 : 4x2xf32]) serves <state ["a", "b"]>
  // CHECK: rt.record 0
  rt.record 0
  // CHECK: rt.wait 0 stream(1)
  rt.wait 0 stream(1)
  // CHECK: rt.all_reduce stream(1) sum arena[64 : 4x2xf32] -> arena[64 : 4x2xf32] over @mesh <{"tp"}> serves <gradient ["x"]>
  rt.all_reduce stream(1) sum arena[64 : 4x2xf32] -> arena[64 : 4x2xf32] over @mesh <{"tp"}> serves <gradient ["x"]>
  // CHECK: rt.all_gather arena[64 : 4x2xf32] -> arena[128 : 8x2xf32] over @mesh <{"tp"}>
  rt.all_gather arena[64 : 4x2xf32] -> arena[128 : 8x2xf32] over @mesh <{"tp"}> serves <activation ["x"]>
  // CHECK: rt.reduce_scatter max arena[128 : 8x2xf32] -> arena[64 : 4x2xf32] over @mesh <{"tp"}>
  rt.reduce_scatter max arena[128 : 8x2xf32] -> arena[64 : 4x2xf32] over @mesh <{"tp"}> serves <activation ["x"]>
  // CHECK: rt.all_to_all arena[128 : 2x1x4x2xf32] -> arena[192 : 1x2x4x2xf32] over @mesh <{"tp"}>
  rt.all_to_all arena[128 : 2x1x4x2xf32] -> arena[192 : 1x2x4x2xf32] over @mesh <{"tp"}> serves <activation ["x"]>
  // CHECK: rt.copy constant @one[0 : f32] -> result 0[0 : f32]
  rt.copy constant @one[0 : f32] -> result 0[0 : f32] serves <activation ["x"]>
  // CHECK: rt.fill_zero arena[0 : 4x2xf32]
  rt.fill_zero arena[0 : 4x2xf32] serves <activation ["x"]>
}

// CHECK: rt.program @attention
rt.program @attention arena(4096) {
  // CHECK: rt.attention "attn" q(arena[0 : 1x4x2x8xf32]) k(arena[256 : 1x4x2x8xf32]) v(arena[512 : 1x4x2x8xf32])
  // CHECK-SAME: causal scale(2.500000e-01) -> o(arena[768 : 1x4x2x8xf32]) lse(arena[1024 : 1x4x2xf32])
  rt.attention "attn" q(arena[0 : 1x4x2x8xf32]) k(arena[256 : 1x4x2x8xf32]) v(arena[512 : 1x4x2x8xf32])
    causal scale(0.25) -> o(arena[768 : 1x4x2x8xf32]) lse(arena[1024 : 1x4x2xf32]) serves <activation ["x"]>
  // CHECK: rt.attention q({{.*}} window(3) scale(2.500000e-01) mask(arena[1152 : 1x1x1x4xi1]) -> o(
  rt.attention q(arena[0 : 1x4x2x8xf32]) k(arena[256 : 1x4x2x8xf32]) v(arena[512 : 1x4x2x8xf32])
    window(3) scale(0.25) mask(arena[1152 : 1x1x1x4xi1]) -> o(arena[768 : 1x4x2x8xf32]) lse(arena[1024 : 1x4x2xf32]) serves <activation ["x"]>
  // CHECK: rt.rotary_table frequencies({{\[}}1.000000e+00, 1.000000e-01]) -> arena[0 : 4x2xf32], arena[64 : 4x2xf32]
  rt.rotary_table frequencies([1.0, 0.1]) -> arena[0 : 4x2xf32], arena[64 : 4x2xf32] serves <activation ["x"]>
  // CHECK: rt.embedding_grad ids(arena[0 : 4xi32]) rows(arena[64 : 4x2xf32]) accumulate -> arena[128 : 8x2xf32]
  rt.embedding_grad ids(arena[0 : 4xi32]) rows(arena[64 : 4x2xf32]) accumulate -> arena[128 : 8x2xf32] serves <activation ["x"]>
}

// CHECK: rt.program @loop
rt.program @loop arena(128) streams(2) arguments [#rt.port<"go", tensor<i1>>] {
  // CHECK: rt.while arena[64 : i1] before {
  // CHECK-NEXT: rt.copy argument 0[0 : i1] -> arena[64 : i1]
  // CHECK-NEXT: } after {
  // CHECK-NEXT: rt.while arena[65 : i1] before {
  // CHECK-NEXT: } after {
  // CHECK-NEXT: }
  // CHECK-NEXT: rt.fill_zero stream(1) arena[0 : 4xf32]
  // CHECK-NEXT: }
  rt.while arena[64 : i1] before {
    rt.copy argument 0[0 : i1] -> arena[64 : i1] serves <activation ["x"]>
  } after {
    rt.while arena[65 : i1] before {
    } after {
    }
    rt.fill_zero stream(1) arena[0 : 4xf32] serves <activation ["x"]>
  }
}

// Roles and rank sets.
// CHECK: rt.export @half as @heddle_program_half arena(64)
// CHECK-SAME: arguments [#rt.port<"x", tensor<4xf32>, <@mesh, [{"dp"}]> as <features> in <@mesh, {"tp" = [1]}>>]
// CHECK-SAME: results [#rt.port<"g", tensor<4xf32> as <gradient of "w">>]
// CHECK-SAME: {heddle.ranks = #heddle.ranks<@mesh, {"tp" = [1]}>}
rt.export @half as @heddle_program_half arena(64)
  arguments [#rt.port<"x", tensor<4xf32>, <@mesh, [{"dp"}]> as <features> in <@mesh, {"tp" = [1]}>>]
  results [#rt.port<"g", tensor<4xf32> as <gradient of "w">>]
  {heddle.ranks = #heddle.ranks<@mesh, {"tp" = [1]}>}

// CHECK: rt.export @evaluate as @heddle_program_evaluate arena(64) results [#rt.port<"loss", tensor<f32>>]
rt.export @evaluate as @heddle_program_evaluate arena(64) results [#rt.port<"loss", tensor<f32>>]
// CHECK: rt.export @on_streams as @heddle_program_on_streams arena(64) streams(3)
rt.export @on_streams as @heddle_program_on_streams arena(64) streams(3)
