//===- Passes.td - From kernels and libraries to native code -*- tablegen -*-===//

#ifndef HEDDLE_LOWER_PASSES
#define HEDDLE_LOWER_PASSES

include "mlir/Pass/PassBase.td"

//===----------------------------------------------------------------------===//
// Kernels: DecomposeOps, FormKernels, LowerKernels, VerifyKernels
//===----------------------------------------------------------------------===//

def InlineCallsPass : Pass<"heddle-inline-calls", "::mlir::ModuleOp"> {
  let summary = "replaces calls by the functions that they call";
  let description = [{
    Inlines all calls in every public function, and folds values that become
    constant. Private functions go.

    Errors: a call of a function that is external or has several blocks, more
    than `max-ops` ops of one function's calls.
  }];
  let options = [
    Option<"maxOps", "max-ops", "int64_t", /*default=*/"100000",
           "the most ops that one function's calls are written out to">];
}

def FlattenControlFlowPass
    : Pass<"heddle-flatten-control-flow", "::mlir::ModuleOp"> {
  let summary = "writes branches and loops of known length out in a row";
  let description = [{
    A device's program is a row of calls. `scf.for` with constant bounds is
    unrolled. Both branches of an `scf.if` are computed and the results
    selected; if the condition is constant, only the branch that is taken. The
    same holds in the body of a structured op. An op that would trap in a branch
    that is not taken gets a harmless operand there: a division by one, a read
    of the first element.

    `scf.while`, and `scf.for` with bounds that are computed or with too many
    iterations, stay; their regions are flattened. In a branch that is not
    taken, a loop of computed length makes no iteration.

    All devices run the same ops in the same order, so collectives in branches
    stay matched.

    Input: functions without calls of others (heddle-inline-calls).
    Errors: other ops with branches, a `heddle.store` in a branch, a step that
    is not positive, more than `max-ops` ops of one function's loops.
  }];
  let options = [
    Option<"maxOps", "max-ops", "int64_t", /*default=*/"100000",
           "the most ops that the loops of a function are written out to">];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def OutlineLoopsPass : Pass<"heddle-outline-loops", "::mlir::ModuleOp"> {
  let summary = "turns the loops that are left into calls of two functions";
  let description = [{
    Every `scf.while` and `scf.for` becomes a `heddle.while`, whose two regions
    are private functions of tensors. A value from around the loop becomes an
    operand, or is computed again in the functions if that reads nothing. Loads
    of variables move before the loop. Numbers that a loop carries become
    tensors without dimensions; indices are i64.

    Input: functions without other control flow (heddle-flatten-control-flow).
    Errors: a condition that depends on the device's place in the mesh, a
    `heddle.store` in a loop, a value that no tensor of static shape stands for.
  }];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::arith::ArithDialect",
                           "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
}

def SpreadScalarsPass : Pass<"heddle-spread-scalars", "::mlir::ModuleOp"> {
  let summary = "turns scalars that are computed from tensors into tensors";
  let description = [{
    A device's program holds tensors alone. A scalar that is computed from
    tensors (`tensor.extract` and arithmetic on it) becomes a tensor without
    dimensions where it is an argument or result of the function, the condition
    of a select between tensors, the scalar that `tensor.splat`,
    `tensor.from_elements`, `tensor.pad` or `linalg.fill` spreads or that
    `tensor.insert` inserts, the place of a slice, an operand of a structured
    op, or captured by its body. Constants stay, and indices are i64.

    Errors: a scalar that comes from another op than `tensor.extract`,
    constants and elementwise arithmetic.
  }];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect"];
}

def NameOperatorsPass : Pass<"heddle-name-operators", "::mlir::ModuleOp"> {
  let summary = "says of every op which operators it serves";
  let description = [{
    In every program function, after `heddle-spread-scalars`: each op gets
    its `#heddle.serves` in its location, from where the rewrites of this phase
    pass it on. `heddle-form-kernels` writes it as the attribute `heddle.serves`
    on the kernels' calls, the library's calls and the collectives.

    An operator of the model has a name and serves itself. All other ops take
    their names along the flow of data:
    - a load or store from its variable;
    - a collective, a cast or another op of one operand from what it reads;
    - an op of several operands (an update, a sum) from those of its own kind
      that are nearest to a name, scalars after tensors; a stack from all, and
      what is unstacked from its own part;
    - an op that no name reaches from the result of the program that it makes,
      or else from its location's name, or else from its function and its own
      operation name, numbered, as in `main.linalg.matmul.0`.

    The kind of data (see `#heddle.serves`) follows from roles and flow, never
    from names:
    - a load has the kind of its variable's role;
    - data that flows into variables alone is of the update. There an operator
      makes a gradient. Any other op has the kind of the operands that is
      farthest on the way from gradient to state to parameter: new moments are
      state, a parameter less its step is a parameter;
    - data that operators read, or that the program returns, has the kind that
      all its operands share, else it is an activation.

    An operator that reads every loop of an operand again in what it makes (an
    accumulating product reads its sum so) passes gradients on; one that sums
    over a loop of the operand makes something new of it.
  }];
  let dependentDialects = ["::heddle::HeddleDialect"];
}

def DecomposeOpsPass : Pass<"heddle-decompose-ops", "::mlir::ModuleOp"> {
  let summary = "turns model ops on local tensors into structured ops";
  let description = [{
    In every program function each op that is not a library call becomes
    `linalg.generic`: normalization, embedding, cross-entropy, activations,
    dropout, rotary embedding, masks, reductions, broadcasts, `tensor.pack` and
    `tensor.unpack`, and arith and math on tensors. Complex numbers are refused.
    The loops of each run over the result's dimensions in order, then over the
    reduced ones. Floats are computed in f32 (f64 for f64) and rounded to the
    element type where they are stored.

    A reduction over leading dimensions (the gradient of a bias) is made in two
    stages: `heddle.reduce_blocks` over blocks of rows whose number follows from
    the shape, then the sum over the blocks. So it is parallel, gives the same
    bits with any number of threads, and errs less than one long sum.

    These ops stay: contract, attention, embedding_grad, rotary_table, load,
    store, stack, unstack, comm ops, and views (expand_shape, collapse_shape,
    contiguous slices).
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect", "::mlir::tensor::TensorDialect"];
}

def FormKernelsPass : Pass<"heddle-form-kernels", "::mlir::ModuleOp"> {
  let summary = "clusters structured ops into kernels and outlines them";
  let description = [{
    Input: program functions after `heddle-decompose-ops`. Output: the same
    functions calling `func.func private @kernel_<k>(operands) -> (results)`
    with these attributes:
    - `heddle.kernel` (unit);
    - `heddle.row_dims`: how many leading dimensions are the kernel's rows;
    - `heddle.blocks`, `heddle.grain`: extent of the outermost loop and how many
      of its iterations are worth a thread;
    - `heddle.inplace`: for each result the operands whose buffer it may take.

    The rows of a kernel are its leading dimensions, collapsed. Two ops may share a
    kernel if row i of each reads only row i of the other, and if no path between
    them leaves the kernel. Clusters grow greedily along the program:
    first from producers to consumers, then across readers of one tensor.
    Copies, casts and cheap elementwise ops are repeated in every consumer
    rather than stored. Equal kernels are outlined once.

    The calls get `heddle.serves`: the operators of all ops that were merged, in
    program order, and the kind of what leaves the kernel. All other calls and
    collectives get it, too, from what `heddle-name-operators` left in their
    locations.
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect", "::mlir::func::FuncDialect"];
  let options = [
    Option<"fuse", "fuse", "bool", /*default=*/"true",
           "several ops in a kernel; off: one op each, for finding errors">];
}

def LowerKernelsPass : Pass<"heddle-lower-kernels", "::mlir::ModuleOp"> {
  let summary = "lowers kernel functions to LLVM loops over rows";
  let description = [{
    Each kernel function becomes
    `llvm.func @kernel_<k>(%buffers: !llvm.ptr, %begin: i64, %end: i64)`, the
    `heddle_rt_kernel_fn` of heddle_rt/abi.h: buffers[0] are the device's
    coordinates, then come the operands (an index operand as a pointer to its
    i64 value) and the results, dense and row-major. One loop runs over blocks
    [begin, end), one over a block's rows; inside it the ops are fused into as
    few loops over the row's elements as their reductions allow, values pass in
    registers within a loop and through a row-sized scratch between loops.
    bf16 is converted by integer arithmetic, rounding to nearest even; exp, log,
    tanh and erf of f32 are polynomials; floats may be reassociated and
    contracted, but infinities and NaN keep their meaning.

    The innermost loops carry llvm.loop metadata which tells the vectorizer that
    their accesses are independent. `prefer-vector-width` is 512. No function of
    the runtime is called and nothing is allocated; libm may be (sin, cos, pow).
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::linalg::LinalgDialect"];
}

def VerifyKernelsPass : Pass<"heddle-verify-kernels", "::mlir::ModuleOp"> {
  let summary = "checks that programs are rows of calls, and kernels loops";
  let description = [{
    After the phase `kernels`, of every function with `heddle.kernel`:
    - its operands are tensors of static shape or indices, its results tensors of
      static shape;
    - it has one block;
    - it holds `linalg.generic` and `heddle.reduce_blocks` alone, and what these
      start from: `linalg.fill`, `tensor.empty`, `arith.constant`;
    - every tensor in it is of static shape;
    - `heddle.row_dims` is at least 0, and `heddle.inplace` names, for each
      result, operands of its type.

    Of every other function with a body, which is a program or what a loop calls:
    - it has one block;
    - its ops are calls of the library, kernels and loops, collectives, views
      (reshapes, contiguous slices), loads, stores, stacks, constants and
      arithmetic on indices;
    - its arguments and results are tensors that the runtime can hold, and so is
      every tensor in it: of static shape, with an element at least, and of a
      type that the runtime has;
    - what `func.call` calls is a kernel.
  }];
}

//===----------------------------------------------------------------------===//
// Programs: RaiseContractions, FuseEpilogues, ShortenLives, PlanArenas, LowerToRt,
// VerifyExecutable, ConvertRtToLLVM, VerifyLLVM, WriteArtifact
//===----------------------------------------------------------------------===//

def RaiseContractionsPass : Pass<"heddle-raise-contractions", "::mlir::ModuleOp"> {
  let summary = "turns linalg products into calls of the library";
  let description = [{
    A structured op (`linalg.matmul`, `batch_matmul`, `matvec`, ...,
    `linalg.generic`) whose body is `out + lhs * rhs`, whose maps choose loops,
    and whose reductions run over both operands becomes `heddle.contract`, in
    f32 or bf16 (with a result of the same type or f32). It accumulates onto its
    init, unless that is zeros, and reads transposed and repeated operands where
    they are. Products that the library cannot express, and scalar products,
    stay and become kernels.

    Input: local tensors, before `heddle-fuse-epilogues`. Sums of bf16 products
    are rounded once, where linalg rounds after each addition.
  }];
  let dependentDialects = ["::heddle::HeddleDialect"];
}

def FuseEpiloguesPass : Pass<"heddle-fuse-epilogues", "::mlir::ModuleOp"> {
  let summary = "adds biases and sums within matrix products";
  let description = [{
    A bias (`heddle.broadcast` of a vector along the product's inner dimension)
    that is added to a contraction only used there becomes the contraction's
    `bias`. A contraction added to another one, or to a variable's value that is
    stored back (a gradient that accumulates), becomes a contraction that
    accumulates; likewise the gradient of a table (`heddle.embedding_grad`) that
    is added to a variable's value. Residual
    connections stay: their operand is read again later, so the product would
    need a copy of it, and a kernel fuses the addition with the normalization
    that follows.

    Input: local tensors, before `heddle-form-kernels`.
  }];
}

def ShortenLivesPass : Pass<"heddle-shorten-lives", "::mlir::ModuleOp"> {
  let summary = "moves ops that change a tensor's size to free memory early";
  let description = [{
    In program functions, before places are planned. A reduce_scatter or slice
    that is the only reader of a larger tensor moves right after the op that
    makes it (the gradients of ZeRO-2); an all_gather, or a slice of a variable,
    moves right before its first reader (the parameters of ZeRO-3). The order of
    collectives changes alike on every device.
  }];
}

def PlanArenasPass : Pass<"heddle-plan-arenas", "::mlir::ModuleOp"> {
  let summary = "gives every tensor of a program its place in memory";
  let description = [{
    Programs are the functions that have a body and no `heddle.kernel`; they are
    straight-line. Every op gets `rt.places`, an `#rt.buffer` for each tensor
    result, and the function `rt.arena`, the bytes of its arena, and
    `rt.arena_bound`, the most bytes live at one op: no arena is smaller.

    Views lie in their operand, loads in their variable, stored and returned
    values straight in the variable or result, slices in their stack, and
    results in place of operands, wherever that is sound (lib/Lower/PlanArenas/
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
    vanish. Copies are made where a value lies elsewhere than it is wanted
    (stores, results, slices of a stack, what a product adds to).
    The letters of a contraction become m, n, k, strides and loops.
  }];
  let dependentDialects = ["::heddle::rt::RtDialect"];
}

def VerifyExecutablePass : Pass<"heddle-verify-executable", "::mlir::ModuleOp"> {
  let summary = "checks that all that runs is rt programs and kernels";
  let description = [{
    After the phase `executable`, beside what each rt op holds to by itself
    (buffers within their memories, streams, axes, kernels that exist):
    - every function with a body is a kernel;
    - the arguments of an `rt.program` differ by name, and so do its results;
    - each of these that is sharded is whole, by a sharding of its dimensions,
      over axes of a `heddle.mesh` of the module;
    - the values in a program are numbers: tensors are buffers;
    - each `rt.record` has an event of its own;
    - each `rt.wait` has an event that was recorded before it, not in the `after`
      of a loop that has ended;
    - any two calls that touch the same bytes, of which one writes them, are
      ordered: by their stream, by events, or by the wait of a loop;
    - each stream waits for an event of stream 0 before its first call, and
      stream 0 for the last call of each stream before the program ends.
  }];
}

def ConvertRtToLLVMPass : Pass<"heddle-convert-rt-to-llvm", "::mlir::ModuleOp"> {
  let summary = "turns rt programs into functions that call the runtime";
  let description = [{
    Each `rt.program @p` becomes `llvm.func @heddle_program_p(device, frame) ->
    i32`, a `heddle_rt_program_fn` of heddle_rt/abi.h, and an `rt.export` that
    keeps the facts that the manifest needs. Every call's status is checked.
    Descriptors are constants with the bytes of the header's structs; equal ones
    are one constant. `rt.groups` on the module lists the groups of mesh axes in
    the order of their numbers. Kernels have to be lowered before.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

def VerifyLLVMPass : Pass<"heddle-verify-llvm", "::mlir::ModuleOp"> {
  let summary = "checks that the module can become an artifact";
  let description = [{
    After the phase `llvm`:
    - no `rt.program` is left, and no `func.func` with a body;
    - an `rt.export` names a function of the LLVM dialect that is no kernel;
    - this is `@heddle_program_` with the program's name, the only names that
      the artifact's library shows;
    - it is a `heddle_rt_program_fn`, with a body;
    - a function with `heddle.blocks` is a `heddle_rt_kernel_fn`, with a body;
    - functions of the LLVM dialect hold no ops of others;
    - `rt.groups` on the module is a list of lists of axes of its mesh.
  }];
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
    Option<"sanitize", "sanitize", "std::string", /*default=*/"",
           "address or thread: instrument kernels for a process that has that "
           "sanitizer">,
    Option<"threads", "threads", "unsigned", /*default=*/"0",
           "threads that generate code; 0: all cores">,
    Option<"seed", "seed", "uint64_t", /*default=*/"0",
           "what the variables' initial values are drawn from">];
}

#endif // HEDDLE_LOWER_PASSES
