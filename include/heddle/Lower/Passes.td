//===- Passes.td - From local tensors to native code -------*- tablegen -*-===//

#ifndef HEDDLE_LOWER_PASSES
#define HEDDLE_LOWER_PASSES

include "include/heddle/Lower/KernelPasses.td"
include "mlir/Pass/PassBase.td"

//===----------------------------------------------------------------------===//
// Executable: from kernels to rt programs with memory planned
//===----------------------------------------------------------------------===//

def ShortenLivesPass : Pass<"heddle-shorten-lives", "::mlir::ModuleOp"> {
  let summary = "moves ops that change a tensor's size to free memory early";
  let description = [{
    Runs on program functions before places are planned. If a reduce_scatter or
    slice is the only reader of a larger tensor, it moves right after the op
    that makes this tensor (the gradients of ZeRO-2). An all_gather, or a slice
    of a variable, moves right before its own first reader (the parameters of
    ZeRO-3). The ops that pack an operand or unpack a result move with its
    collective. The order of collectives changes in the same way on every
    device.
  }];
}

def PlanArenasPass : Pass<"heddle-plan-arenas", "::mlir::ModuleOp"> {
  let summary = "gives every tensor of a program its place in memory";
  let description = [{
    Programs are the functions that have a body and no `heddle.kernel`; they are
    straight-line. Every op gets `rt.places`, an `#rt.buffer` for each tensor
    result. The function gets `rt.arena`, the bytes of its arena, and
    `rt.arena_bound`, the most bytes that are live at one op. No arena can be
    smaller than this bound.

    Wherever it is sound, a view lies in its operand, a load in its variable, a
    stored or returned value in the variable or result itself, a slice in its
    stack, and a result in the place of an operand (lib/Lower/PlanArenas/
    ProgramBuffers.h has the rules). `heddle-lower-to-rt` makes a copy where two
    places differ. All other tensors are placed in the arena by best fit over
    live intervals; the best of four orders is taken. `heddle.barrier` vanishes:
    the order of the program is final.
  }];
  let options = [
    Option<"inPlace", "in-place", "bool", /*default=*/"true",
           "share memory between values; off: for finding errors">];
  let dependentDialects = ["::heddle::rt::RtDialect"];
}

def LowerToRtPass : Pass<"heddle-lower-to-rt", "::mlir::ModuleOp"> {
  let summary = "turns planned programs into rt programs";
  let description = [{
    Needs the places of `heddle-plan-arenas`. Each program function becomes an
    `rt.program` of the same name with one call for each op, in order; views
    vanish. A value is copied if its place is not the one where it is needed: in
    a variable, a result, a stack, or the tensor that a product accumulates onto.
    The letters of a `heddle.contract` become m, n, k, strides and loops.
  }];
  let dependentDialects = ["::heddle::rt::RtDialect"];
}

def VerifyExecutablePass : Pass<"heddle-verify-executable", "::mlir::ModuleOp"> {
  let summary = "checks that all code is in rt programs and kernels";
  let description = [{
    Checks after the phase `executable`. The verifiers of the rt ops check each
    op by itself (buffers within their memories, streams, axes, kernels that
    exist); this pass checks that:
    - every function with a body is a kernel;
    - the arguments of an `rt.program` differ by name, and so do its results;
    - the sharding of an argument or result fits its dimensions, leaves no
      partial sums, and has only axes of a `heddle.mesh` of the module;
    - the SSA values in a program are numbers, because its tensors are buffers;
    - each `rt.record` has an event of its own;
    - each `rt.wait` has an event that was recorded before it. A record in the
      `after` region of a loop does not count behind the loop, because the
      region may never run;
    - any two calls that touch the same bytes, if at least one of them writes
      the bytes, are ordered: by their stream, by events, or because the host
      waits for all streams in a loop;
    - each other stream waits for an event of stream 0 before its first call,
      and stream 0 waits for the last call of each other stream before the
      program ends.
  }];
}

//===----------------------------------------------------------------------===//
// LLVM: from rt programs and kernels to the LLVM dialect
//===----------------------------------------------------------------------===//

def LowerKernelsPass : Pass<"heddle-lower-kernels", "::mlir::ModuleOp"> {
  let summary = "lowers kernel functions to LLVM loops over rows";
  let description = [{
    Each kernel function becomes
    `llvm.func @kernel_<k>(%buffers: !llvm.ptr, %begin: i64, %end: i64)`, the
    `heddle_rt_kernel_fn` of heddle_rt/abi.h. `buffers[0]` holds the device's
    coordinates. The operands and then the results follow, dense and row-major;
    an index operand is a pointer to its i64 value.

    One loop runs over the blocks [begin, end), a second one over the rows of a
    block. Inside, the ops are fused into as few loops over the row's elements as
    their reductions allow. Values pass in registers within such a loop and
    through a row-sized scratch between loops.

    bf16 is converted by integer arithmetic and rounds to nearest even; exp, log,
    tanh and erf of f32 are polynomials; floats may be reassociated and
    contracted, but infinities and NaN keep their meaning.

    The innermost loops carry llvm.loop metadata that tells the vectorizer that
    their accesses are independent. `prefer-vector-width` is 512. A kernel calls
    no function of the runtime and allocates nothing; it may call libm (sin, cos,
    pow).

    `rt.work` on the function is the work of one launch: the FLOPs of its
    ops, and the bytes of the operands that it must read and of its results.
  }];
  let dependentDialects = ["::heddle::rt::RtDialect", "::mlir::LLVM::LLVMDialect",
                           "::mlir::linalg::LinalgDialect"];
}

def LowerKernelsToGpuPass : Pass<"heddle-lower-kernels-to-gpu", "::mlir::ModuleOp"> {
  let summary = "lowers kernel functions to code of an NVIDIA GPU's threads";
  let description = [{
    For modules with `heddle.target_gpu`. Each kernel function becomes
    `llvm.func @kernel_<k>` with `nvvm.kernel`. Its parameters are a pointer to
    global memory for each operand and result, dense and row-major, and an i64
    for each index operand. `heddle.blocks` is the number of blocks of the grid,
    `nvvm.reqntid` that of the threads of a block. The shared memory is a global
    `@kernel_<k>_shared`.

    Rows become teams of threads: one thread, a warp or a block, by the length
    of the row. The threads of a team share the iterations of each loop nest,
    with accesses of 16 bytes where the shapes and the launches allow it. Sums
    go through registers, shuffles and then shared memory, in an order that only
    depends on the shapes. A value that another thread of the team reads lies in
    shared memory. A barrier stands where a thread reads or overwrites memory
    that another thread of the team wrote or reads.

    Functions of f32 are polynomials; those of f64, and sin, cos and pow, are
    expansions in f64.
  }];
  let dependentDialects = ["::heddle::rt::RtDialect", "::mlir::LLVM::LLVMDialect",
                           "::mlir::NVVM::NVVMDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::math::MathDialect"];
  let options = [
    Option<"rows", "rows", "std::string", /*default=*/"\"auto\"",
           "threads that share a row: auto, or for tests thread, warp or "
           "block">];
}

def VerifyGpuKernelsPass : Pass<"heddle-verify-gpu-kernels", "::mlir::ModuleOp"> {
  let summary = "checks that a GPU has instructions for all ops of kernels";
  let description = [{
    Refuses functions of libm and intrinsics for which LLVM's NVPTX code
    generator has no instructions. LLVM itself would end the process.
  }];
}

def ConvertRtToLLVMPass : Pass<"heddle-convert-rt-to-llvm", "::mlir::ModuleOp"> {
  let summary = "turns rt programs into functions that call the runtime";
  let description = [{
    Each `rt.program @p` becomes two ops. `llvm.func @heddle_program_p(device,
    frame) -> i32` is a `heddle_rt_program_fn` of heddle_rt/abi.h; it checks the
    status of every call. An `rt.export` keeps the facts that the manifest needs.

    Descriptors are constants with the bytes of the header's structs; equal
    descriptors are one constant. `rt.groups` on the module lists the groups of
    mesh axes in the order of their numbers. The global `heddle_program_p.frame`
    holds the sizes of the frame that the function expects, for the loader. The
    global `heddle_kernel_work` lists the work of all kernels that have
    `rt.work`, for emulated devices. The global `heddle_calls` names the calls
    of all programs, for traces.

    Input: kernels are lowered (`heddle-lower-kernels`).
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

def VerifyLLVMPass : Pass<"heddle-verify-llvm", "::mlir::ModuleOp"> {
  let summary = "checks that the module can become an artifact";
  let description = [{
    Checks after the phase `llvm` that:
    - no `rt.program` is left, and no `func.func` with a body;
    - an `rt.export` names a function of the LLVM dialect that is no kernel, has
      a body, and is a `heddle_rt_program_fn`;
    - the name of that function is `heddle_program_` and the program's name: the
      artifact's library shows no functions of other names;
    - a function with `heddle.blocks` is a `heddle_rt_kernel_fn`, with a body;
    - functions of the LLVM dialect hold no ops of other dialects;
    - `rt.groups` on the module is a list of lists of axes of its mesh.
  }];
}

//===----------------------------------------------------------------------===//
// Artifact: from the LLVM dialect to native code
//===----------------------------------------------------------------------===//

def WriteArtifactPass : Pass<"heddle-write-artifact", "::mlir::ModuleOp"> {
  let summary = "compiles the module's functions and writes the artifact";
  let description = [{
    Input: a module after `heddle-convert-rt-to-llvm`. The pass does not change
    the module. heddle/Lower/Artifact.h describes the artifact.
  }];
  let options = [
    Option<"path", "path", "std::string", /*default=*/"", "directory to write">,
    Option<"targetCpu", "target-cpu", "std::string", /*default=*/"\"native\"",
           "native, or CPU[,+feature,-feature...]">,
    Option<"sanitize", "sanitize", "std::string", /*default=*/"",
           "address or thread: instrument kernels for a process that has that "
           "sanitizer">,
    Option<"threads", "threads", "unsigned", /*default=*/"0",
           "threads that generate code; 0: all cores">,
    Option<"seed", "seed", "uint64_t", /*default=*/"0",
           "what the variables' initial values are drawn from">];
}

#endif // HEDDLE_LOWER_PASSES
