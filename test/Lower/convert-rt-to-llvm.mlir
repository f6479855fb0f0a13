// RUN: heddle-opt %s --heddle-convert-rt-to-llvm | FileCheck %s

heddle.mesh @mesh <["dp"=2, "tp"=2]>
heddle.variable @v : tensor<4xf32> parameter init(zeros)
heddle.variable @w : tensor<8x8xf32> parameter init(zeros)
rt.constant @c dense<[true, false]> : tensor<2xi1>

// CHECK: module attributes {rt.groups = [#heddle.axes<{"tp"}>, #heddle.axes<{"dp", "tp"}>]}
// CHECK: llvm.func @kernel_0
llvm.func @kernel_0(%buffers: !llvm.ptr, %begin: i64, %end: i64) attributes {heddle.blocks = 12 : i64, heddle.grain = 3 : i64, rt.work = #rt.work<flops = 5, bytes = 6>} {
  llvm.return
}

// CHECK: llvm.func @heddle_program_step(%[[DEVICE:.*]]: !llvm.ptr, %[[FRAME:.*]]: !llvm.ptr) -> i32
rt.program @step arena(512) streams(2) arguments [#rt.port<"x", tensor<4x8xf32>>] results [#rt.port<"y", tensor<4x8xf32>>] {
  // CHECK: %[[ARENA:.*]] = llvm.load %[[FRAME]]
  // CHECK: llvm.getelementptr %[[FRAME]][8]
  // CHECK: %[[VARIABLES:.*]] = llvm.load
  // CHECK: llvm.getelementptr %[[FRAME]][32]
  // CHECK: %[[COORDINATES:.*]] = llvm.load
  // CHECK: %[[ADDRESS:.*]] = llvm.getelementptr %[[COORDINATES]][8]
  // CHECK: %[[I:.*]] = llvm.load %[[ADDRESS]] : !llvm.ptr -> i64
  %i = rt.coordinate @mesh "tp"
  // Equal products share a descriptor; @w is variable 1.
  // CHECK: %[[W:.*]] = llvm.getelementptr %[[VARIABLES]][8]
  // CHECK: llvm.load %[[W]]
  // CHECK: llvm.call @heddle_rt_matmul(%[[DEVICE]]
  // CHECK: llvm.icmp "ne"
  // CHECK: llvm.cond_br %{{.*}}, ^[[FAIL:bb[0-9]+]](%{{.*}} : i32)
  rt.matmul m(4) n(8) k(8) a(argument 0[0 : 4x8xf32] strides [8, 1]) b(variable @w[0 : 8x8xf32] strides [8, 1]) c(arena[0 : 4x8xf32] stride 8) serves <activation ["x"]>
  // CHECK: llvm.getelementptr %[[ARENA]][128]
  // CHECK: llvm.call @heddle_rt_matmul
  rt.matmul m(4) n(8) k(8) a(argument 0[0 : 4x8xf32] strides [8, 1]) b(variable @w[0 : 8x8xf32] strides [8, 1]) c(arena[128 : 4x8xf32] stride 8) serves <activation ["x"]>
  // Indices are words of one array, which the launch names, too.
  // CHECK: %[[J:.*]] = llvm.add %[[I]], %[[I]]
  %j = arith.addi %i, %i : index
  // CHECK: llvm.store %[[I]], %[[WORDS:.*]] : i64
  // CHECK: %[[SECOND:.*]] = llvm.getelementptr %[[WORDS]][8]
  // CHECK: llvm.store %[[J]], %[[SECOND]] : i64
  // CHECK: %[[ENTRY:.*]] = llvm.getelementptr %[[WORDS]][8]
  // CHECK: llvm.mlir.addressof @kernel_0
  // CHECK: llvm.store %[[COORDINATES]], %[[BUFFERS:.*]] : !llvm.ptr
  // CHECK: llvm.store %[[WORDS]]
  // CHECK: llvm.store %[[ENTRY]]
  // CHECK: %[[NUM_BUFFERS:.*]] = llvm.mlir.constant(5 : i32)
  // CHECK: %[[NUM_WORDS:.*]] = llvm.mlir.constant(2 : i32)
  // CHECK: %[[BLOCKS:.*]] = llvm.mlir.constant(12 : i64)
  // CHECK: %[[GRAIN:.*]] = llvm.mlir.constant(3 : i64)
  // CHECK: llvm.call @heddle_rt_launch(%[[DEVICE]], {{.*}}, %[[BUFFERS]], %[[NUM_BUFFERS]], %[[WORDS]], %[[NUM_WORDS]], %[[BLOCKS]], %[[GRAIN]])
  rt.launch @kernel_0 (arena[0 : 4x8xf32], %i, %j) -> (result 0[0 : 4x8xf32]) serves <activation ["x"]>
  // CHECK: %[[NONE:.*]] = llvm.mlir.zero
  // CHECK: llvm.call @heddle_rt_launch({{.*}}, %[[NONE]], %{{[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}})
  rt.launch @kernel_0 (arena[0 : 4x8xf32]) -> (result 0[0 : 4x8xf32]) serves <activation ["x"]>
  // CHECK: llvm.call @heddle_rt_all_reduce
  rt.all_reduce sum arena[0 : 4x8xf32] -> arena[0 : 4x8xf32] over @mesh <{"tp"}> serves <activation ["x"]>
  // CHECK: llvm.call @heddle_rt_all_reduce
  rt.all_reduce max arena[0 : 4x8xf32] -> arena[0 : 4x8xf32] over @mesh <{"dp", "tp"}> serves <activation ["x"]>
  // Each member gives 8 elements to all others, or to each other one.
  // CHECK: %[[COUNT:.*]] = llvm.mlir.constant(8 : i64)
  // CHECK: llvm.call @heddle_rt_all_gather({{.*}}, %[[COUNT]]) :
  rt.all_gather arena[0 : 2x4xf32] -> arena[64 : 8x4xf32] over @mesh <{"dp", "tp"}> serves <activation ["x"]>
  // CHECK: %[[COUNT:.*]] = llvm.mlir.constant(8 : i64)
  // CHECK: llvm.call @heddle_rt_reduce_scatter({{.*}}, %[[COUNT]]) :
  rt.reduce_scatter sum arena[64 : 8x4xf32] -> arena[0 : 2x4xf32] over @mesh <{"dp", "tp"}> serves <activation ["x"]>
  // CHECK: %[[COUNT:.*]] = llvm.mlir.constant(8 : i64)
  // CHECK: llvm.call @heddle_rt_all_to_all({{.*}}, %[[COUNT]]) :
  rt.all_to_all arena[64 : 4x1x8xf32] -> arena[192 : 1x4x8xf32] over @mesh <{"dp", "tp"}> serves <activation ["x"]>
  // CHECK: llvm.call @heddle_rt_copy
  rt.copy constant @c[0 : 2xi1] -> arena[0 : 2xi1] serves <activation ["x"]>
  // CHECK: llvm.call @heddle_rt_attention
  rt.attention q(arena[0 : 1x2x1x4xf32]) k(arena[0 : 1x2x1x4xf32]) v(arena[0 : 1x2x1x4xf32]) causal scale(0.5) -> o(arena[128 : 1x2x1x4xf32]) lse(arena[256 : 1x2x1xf32]) serves <activation ["x"]>
  // CHECK: ^[[FAIL]](%[[STATUS:.*]]: i32):
  // CHECK: llvm.return %[[STATUS]]
}
// Sums across processes are staged: inputs of 128 bytes of four members, and the sum.
// CHECK: rt.export @step as @heddle_program_step arena(512) streams(2) arguments [#rt.port<"x", tensor<4x8xf32>>] results [#rt.port<"y", tensor<4x8xf32>>] {heddle.inplace = [array<i64: 0>], rt.staging = array<i64: 640>}

// Results that may take the memory of an argument of their size: the last read
// comes before the first write. Argument 0 is read by the call that writes
// result 0; a communication stream reads argument 1; argument 2 is read last in
// a loop.
// CHECK: rt.export @in_place as {{.*}} {heddle.inplace = [array<i64>, array<i64: 0>, array<i64: 0, 2>], heddle.role = #heddle.program_role<evaluate>, rt.staging = array<i64: 0, 48>}
rt.program @in_place arena(128) streams(2) arguments [#rt.port<"a", tensor<4xf32>>, #rt.port<"b", tensor<4xf32>>, #rt.port<"c", tensor<4xf32>>, #rt.port<"d", tensor<8xf32>>] results [#rt.port<"x", tensor<4xf32>>, #rt.port<"y", tensor<4xf32>>, #rt.port<"z", tensor<4xf32>>] attributes {heddle.role = #heddle.program_role<evaluate>} {
  rt.record 0
  rt.wait 0 stream(1)
  rt.all_reduce stream(1) sum argument 1[0 : 4xf32] -> arena[64 : 4xf32] over @mesh <{"tp"}> serves <activation ["x"]>
  rt.record 1 stream(1)
  rt.copy argument 0[0 : 4xf32] -> result 0[0 : 4xf32] serves <activation ["x"]>
  rt.copy arena[0 : 4xf32] -> result 1[0 : 4xf32] serves <activation ["x"]>
  rt.while arena[32 : i1] before {
    rt.copy argument 2[0 : 4xf32] -> arena[0 : 4xf32] serves <activation ["x"]>
  } after {
    rt.fill_zero arena[16 : 4xf32] serves <activation ["x"]>
  }
  rt.wait 1
  rt.copy arena[0 : 4xf32] -> result 2[0 : 4xf32] serves <activation ["x"]>
}

// The host waits before it reads the condition.
// CHECK-LABEL: llvm.func @heddle_program_loop
// CHECK: llvm.br ^[[HEAD:bb[0-9]+]]
// CHECK: ^[[HEAD]]:
// CHECK: llvm.call @heddle_rt_copy
// CHECK: llvm.call @heddle_rt_synchronize
// CHECK: %[[BYTE:.*]] = llvm.load %{{.*}} -> i8
// CHECK: %[[NONE:.*]] = llvm.mlir.constant(0 : i8)
// CHECK: %[[MORE:.*]] = llvm.icmp "ne" %[[BYTE]], %[[NONE]]
// CHECK: llvm.cond_br %[[MORE]], ^[[BODY:bb[0-9]+]], ^[[END:bb[0-9]+]]
// CHECK: ^[[BODY]]:
// CHECK: llvm.call @heddle_rt_fill_zero
// CHECK: llvm.br ^[[HEAD]]
// CHECK: ^[[END]]:
rt.program @loop arena(64) {
  rt.while arena[0 : i1] before {
    rt.copy arena[1 : i1] -> arena[0 : i1] serves <activation ["x"]>
  } after {
    rt.fill_zero arena[1 : i1] serves <activation ["x"]>
  }
}
// CHECK: llvm.mlir.global internal constant @data_0
// CHECK: llvm.mlir.global internal constant @data_0_{{[0-9]+}}("\01\00")
// The frame of @step: 512 bytes of arena, 2 variables, 1 argument, 1 result.
// CHECK: llvm.mlir.global external constant @heddle_program_step.frame("\00\02\00\00\00\00\00\00\02\00\00\00\00\00\00\00\01\00\00\00\00\00\00\00\01\00\00\00\00\00\00\00")
// CHECK: llvm.mlir.global external constant @heddle_kernel_work(){{.*}} : !llvm.array<2 x struct<(ptr, i64, i64)>> {
// CHECK: llvm.mlir.zero
// CHECK: %[[KERNEL:.*]] = llvm.mlir.addressof @kernel_0
// CHECK: llvm.insertvalue %[[KERNEL]], %{{.*}}[0, 0]
// CHECK: %[[FLOPS:.*]] = llvm.mlir.constant(5 : i64)
// CHECK: llvm.insertvalue %[[FLOPS]], %{{.*}}[0, 1]
// CHECK: %[[BYTES:.*]] = llvm.mlir.constant(6 : i64)
// CHECK: llvm.insertvalue %[[BYTES]], %{{.*}}[0, 2]
