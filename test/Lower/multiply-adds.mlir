// The sum with a product of a kernel is one instruction on a CPU that has it, and
// two on another one. An fma of the program's own always rounds once.
// RUN: rm -rf %t && mkdir %t
// RUN: heddle-opt %s --heddle-convert-rt-to-llvm --heddle-write-artifact="path=%t/old target-cpu=x86-64" -o /dev/null
// RUN: llvm-objdump -d %t/old/program.so | FileCheck %s --check-prefix=OLD
// RUN: heddle-opt %s --heddle-convert-rt-to-llvm --heddle-write-artifact="path=%t/new target-cpu=x86-64-v3" -o /dev/null
// RUN: llvm-objdump -d %t/new/program.so | FileCheck %s --check-prefix=NEW --implicit-check-not=fmaf

// OLD-COUNT-1: mulss
// OLD: addss
// OLD: fmaf
// NEW-COUNT-2: vfmadd

heddle.mesh @mesh <["dp"=1]>
llvm.func @kernel_0(%buffers: !llvm.ptr, %begin: i64, %end: i64) attributes {heddle.blocks = 1 : i64, heddle.grain = 1 : i64, rt.work = #rt.work<flops = 4, bytes = 12>} {
  %p = llvm.load %buffers : !llvm.ptr -> !llvm.ptr
  %x = llvm.load %p : !llvm.ptr -> f32
  %fused = llvm.intr.fma(%x, %x, %x) {fastmathFlags = #llvm.fastmath<contract>} : (f32, f32, f32) -> f32
  %exact = llvm.intr.fma(%fused, %fused, %x) : (f32, f32, f32) -> f32
  llvm.store %exact, %p : f32, !llvm.ptr
  llvm.return
}
rt.program @step arena(0) streams(1) arguments [#rt.port<"x", tensor<f32>>] results [#rt.port<"y", tensor<f32>>] {
  rt.launch @kernel_0 (argument 0[0 : f32]) -> (result 0[0 : f32]) serves <activation ["x"]>
}
