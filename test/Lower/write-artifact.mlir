// RUN: rm -rf %t && mkdir %t
// RUN: heddle-opt %s --heddle-convert-rt-to-llvm --heddle-write-artifact="path=%t/a target-cpu=x86-64-v3 seed=7" -o /dev/null
// RUN: FileCheck %s --input-file %t/a/manifest.json
// RUN: llvm-nm -D %t/a/program.so | FileCheck %s --check-prefix=SYMBOLS
// An old artifact is replaced, and no other file remains beside it.
// RUN: heddle-opt %s --heddle-convert-rt-to-llvm --heddle-write-artifact=path=%t/a/ -o /dev/null
// RUN: ls %t | FileCheck %s --check-prefix=FILES
// Any other file or folder is not replaced.
// RUN: mkdir %t/mine && touch %t/mine/thesis.tex
// RUN: not heddle-opt %s --heddle-convert-rt-to-llvm --heddle-write-artifact=path=%t/mine 2>&1 | FileCheck %s --check-prefix=MINE
// RUN: ls %t/mine | FileCheck %s --check-prefix=KEPT
// RUN: not heddle-opt %s --heddle-convert-rt-to-llvm --heddle-write-artifact="path=%t/b target-cpu=z80" 2>&1 | FileCheck %s --check-prefix=CPU
// RUN: not heddle-opt %s --heddle-convert-rt-to-llvm --heddle-write-artifact="path=%t/b target-cpu=x86-64-v3,+sse9" 2>&1 | FileCheck %s --check-prefix=FEATURE
// RUN: not heddle-opt %s --heddle-convert-rt-to-llvm --heddle-write-artifact="path=%t/b sanitize=memory" 2>&1 | FileCheck %s --check-prefix=SANITIZE
// RUN: not env PATH=%t %{opt} %s --heddle-convert-rt-to-llvm --heddle-write-artifact=path=%t/b 2>&1 | FileCheck %s --check-prefix=LINKER
// A linker that ends before it reads the objects.
// RUN: rm -rf %t.bin && mkdir %t.bin && cp %S/Inputs/linker.sh %t.bin/ld.lld-19
// RUN: not env PATH=%t.bin:$PATH %{opt} %s --heddle-convert-rt-to-llvm --heddle-write-artifact=path=%t/b 2>&1 | FileCheck %s --check-prefix=BROKEN
// RUN: not heddle-opt %s --heddle-convert-rt-to-llvm --heddle-write-artifact=path=/dev/full/b 2>&1 | FileCheck %s --check-prefix=FOLDER
// RUN: ls %t | FileCheck %s --check-prefix=NOTHING-LEFT

// FILES: a
// FILES-NOT: {{.}}
// MINE: mine' exists and is not an artifact: it is not overwritten
// KEPT: thesis.tex
// CPU: target-cpu: expected 'native' or a CPU of {{.*}}, got 'z80'
// FEATURE: target-cpu: expected +feature or -feature of {{.*}}, got '+sse9'
// SANITIZE: sanitize: expected 'address' or 'thread', got 'memory'
// LINKER: expected a linker in PATH: ld.lld-19, ld.lld, cc or clang-19;
// BROKEN: ld.lld-19 failed with status 3: no linker today
// FOLDER: cannot make the folder
// NOTHING-LEFT: a
// NOTHING-LEFT-NEXT: mine
// NOTHING-LEFT-NOT: {{.}}

heddle.mesh @mesh <["dp"=2, "tp"=2]>
heddle.variable @"h.0.w" : tensor<8x16xf32> parameter init(normal<0.02>) storage(<@mesh, [{}, {"tp"} ]>) checkpoint(<"transformer.h.0.w", [8, 2, 8]>)
heddle.variable @stage : tensor<4xf32> parameter init(zeros) {heddle.ranks = #heddle.ranks<@mesh, {"dp" = [1]}>}
heddle.variable @steps : tensor<i64> counter init(zeros)
llvm.func @kernel_0(%buffers: !llvm.ptr, %begin: i64, %end: i64) attributes {heddle.blocks = 12 : i64, heddle.grain = 3 : i64, rt.work = #rt.work<flops = 5, bytes = 6>} {
  llvm.return
}
rt.program @step arena(512) streams(2) arguments [#rt.port<"x", tensor<8x8xf32>, <@mesh, [{"dp"}, {}]> as <features>>] results [#rt.port<"loss", tensor<f32> as <loss>>] {
  rt.launch @kernel_0 (argument 0[0 : 4x8xf32]) -> (result 0[0 : f32]) serves <activation ["x"]>
  rt.all_reduce sum result 0[0 : f32] -> result 0[0 : f32] over @mesh <{"tp"}> serves <activation ["x"]>
}
// A program whose result may take its argument's memory, as `gradients` of a
// trainer, on some ranks only.
rt.program @other arena(64) arguments [#rt.port<"y", tensor<4xf32> in <@mesh, {"dp" = [1]}>>] results [#rt.port<"z", tensor<4xf32> in <@mesh, {"dp" = [1]}>>]
    attributes {heddle.ranks = #heddle.ranks<@mesh, {"dp" = [1]}>, heddle.role = #heddle.program_role<gradients>} {
  rt.copy argument 0[0 : 4xf32] -> arena[0 : 4xf32] serves <activation ["x"]>
  rt.copy arena[0 : 4xf32] -> result 0[0 : 4xf32] serves <activation ["x"]>
}

// CHECK: "version": 2,
// CHECK: "abi": 4,
// CHECK: "kind": "cpu"
// CHECK-NEXT: "library": "program.so"
// CHECK-NEXT: "triple": "x86_64
// CHECK-NOT: avx512
// CHECK: "avx2"
// CHECK-NOT: avx512
// CHECK: "name": "dp",
// CHECK-NEXT: "size": 2
// CHECK: "rank_sets"
// CHECK: "where": {}
// CHECK: "where":
// CHECK: "dp": [
// CHECK-NEXT: 1
// CHECK: "groups"
// CHECK: "axes": [
// CHECK-NEXT: "tp"
// CHECK: "variables"
// CHECK: "name": "h.0.w"
// CHECK-NEXT: "type": "f32"
// CHECK: "role": "parameter"
// CHECK: "kind": "normal"
// CHECK-NEXT: "mean": 0
// CHECK-NEXT: "std": 0.02
// CHECK: "name": "transformer.h.0.w"
// CHECK: "name": "stage"
// CHECK: "ranks": 1,
// CHECK-NEXT: "role": "parameter"
// CHECK: "name": "steps"
// CHECK-NEXT: "type": "i64"
// CHECK-NEXT: "shape": [],
// CHECK-NEXT: "storage": [],
// CHECK-NEXT: "role": "counter"
// CHECK: "programs"
// CHECK: "name": "step"
// CHECK: "symbol": "heddle_program_step"
// CHECK: "arena_bytes": 512
// CHECK-NEXT: "streams": 2
// CHECK: "name": "x"
// CHECK: "role": "features"
// CHECK: "name": "loss"
// CHECK: "role": "loss"
// CHECK: "name": "other"
// CHECK: "ranks": 1,
// CHECK: "name": "z"
// CHECK: "ranks": 1,
// CHECK-NEXT: "in_place": [
// CHECK-NEXT: 0
// CHECK: "tables"
// CHECK: "name": "step"
// CHECK-NEXT: "micro_batches": 1,
// CHECK: "inputs"
// CHECK: "name": "x"
// CHECK: "outputs"
// CHECK: "name": "loss"
// CHECK: "of": "step"
// CHECK: "slots": []
// CHECK: "lists"
// CHECK: "call": "step"
// CHECK: "input": 0
// CHECK: "output": 0
// CHECK: "name": "other"
// CHECK-NEXT: "role": "gradients"
// CHECK: "lists"
// CHECK: "ranks": 1,
// CHECK: "call": "other"
// CHECK: "seed": 7

// SYMBOLS: D heddle_kernel_work
// SYMBOLS-NEXT: T heddle_program_other
// SYMBOLS-NEXT: R heddle_program_other.frame
// SYMBOLS-NEXT: T heddle_program_step
// SYMBOLS-NEXT: R heddle_program_step.frame
// SYMBOLS-NEXT: U heddle_rt_all_reduce
// SYMBOLS-NEXT: U heddle_rt_copy
// SYMBOLS-NEXT: U heddle_rt_launch
