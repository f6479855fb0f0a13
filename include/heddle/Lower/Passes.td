//===- Passes.td - From kernels and libraries to native code -*- tablegen -*-===//

#ifndef HEDDLE_LOWER_PASSES
#define HEDDLE_LOWER_PASSES

include "mlir/Pass/PassBase.td"

//===----------------------------------------------------------------------===//
// Kernels: lib/Lower/Kernel
//===----------------------------------------------------------------------===//

//===----------------------------------------------------------------------===//
// Programs: lib/Lower/Program
//===----------------------------------------------------------------------===//

def PlanArenasPass : Pass<"heddle-plan-arenas", "::mlir::ModuleOp"> {
  let summary = "gives every tensor of a program its place in memory";
  let description = [{
    Programs are the functions that have a body and no `heddle.kernel`; they are
    straight-line. Every op gets `rt.places`, an `#rt.buffer` for each tensor
    result, and the function `rt.arena`, the bytes of its arena, and
    `rt.arena_bound`, the most bytes live at one op: no arena is smaller.

    Views lie in their operand, loads in their variable, stored and returned
    values straight in the variable or result, slices in their stack, and
    results in place of operands, wherever that is sound (lib/Lower/Program/
    ProgramBuffers.h has the rules); `heddle-lower-to-rt` makes a copy where two
    places differ. The rest is placed in the arena by best fit over live
    intervals in four orders.
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
    vanish, and copies are made where a value lies elsewhere than it is wanted
    (stores, results, slices of a stack, what a product adds to).
    The letters of a contraction become m, n, k, strides and loops.
  }];
  let dependentDialects = ["::heddle::rt::RtDialect"];
}

def ConvertRtToLLVMPass : Pass<"heddle-convert-rt-to-llvm", "::mlir::ModuleOp"> {
  let summary = "turns rt programs into functions that call the runtime";
  let description = [{
    Each `rt.program @p` becomes `llvm.func @heddle_program_p(device, frame) ->
    i32`, a `heddle_rt_program_fn` of heddle_rt/abi.h, and an `rt.export` that
    keeps what the manifest says of it. Every call's status is checked.
    Descriptors are constants with the bytes of the header's structs; equal ones
    are one constant. `rt.groups` on the module lists the groups of mesh axes in
    the order of their numbers. Kernels have to be lowered before.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

def WriteArtifactPass : Pass<"heddle-write-artifact", "::mlir::ModuleOp"> {
  let summary = "compiles the module's functions and writes the artifact";
  let description = [{
    For a module after `heddle-convert-rt-to-llvm`; see heddle/Lower/Artifact.h.
    The module stays as it is.
  }];
  let options = [
    Option<"path", "path", "std::string", /*default=*/"", "directory to write">,
    Option<"targetCpu", "target-cpu", "std::string", /*default=*/"\"native\"",
           "native, or CPU[,+feature,-feature...]">,
    Option<"threads", "threads", "unsigned", /*default=*/"0",
           "threads that generate code; 0: all cores">,
    Option<"seed", "seed", "uint64_t", /*default=*/"0",
           "what the variables' initial values are drawn from">];
}

#endif // HEDDLE_LOWER_PASSES
