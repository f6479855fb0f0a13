//===- KernelPasses.td - From local tensors to kernels -----*- tablegen -*-===//
//
// Kernels: from local tensors to calls of libraries and outlined kernels.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LOWER_KERNELPASSES
#define HEDDLE_LOWER_KERNELPASSES

include "mlir/Pass/PassBase.td"

def InlineCallsPass : Pass<"heddle-inline-calls", "::mlir::ModuleOp"> {
  let summary = "replaces calls by the functions that they call";
  let description = [{
    Inlines all calls in every public function and folds values that become
    constant. Private functions are removed.

    Errors: a call of a function that is external or has several blocks; calls
    of one function that become more than `max-ops` ops.
  }];
  let options = [
    Option<"maxOps", "max-ops", "int64_t", /*default=*/"100000",
           "the most ops that the calls of a function become">];
}

def FlattenControlFlowPass
    : Pass<"heddle-flatten-control-flow", "::mlir::ModuleOp"> {
  let summary = "makes branches and loops of known length straight-line code";
  let description = [{
    A device's program is a sequence of calls. `scf.for` with constant bounds is
    unrolled. Both branches of an `scf.if` are computed and their results are
    selected; if the condition is constant, only the branch that is taken is
    computed. Control flow in the body of a structured op is treated alike. An
    op that would trap in a branch that is not taken gets a harmless operand
    there: a division divides by one, a read takes the first element.

    `scf.while` stays, and so does `scf.for` with computed bounds or too many
    iterations; their regions are flattened. In a branch that is not taken, a
    loop of computed length makes no iteration.

    All devices run the same ops in the same order, so collectives in branches
    stay matched.

    Input: functions without calls of others (heddle-inline-calls).
    Errors: another op with branches; a `heddle.store` in a branch; a step that
    is not positive; loops of one function that become more than `max-ops` ops.
  }];
  let options = [
    Option<"maxOps", "max-ops", "int64_t", /*default=*/"100000",
           "the most ops that the loops of a function become">];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def ForwardSlicesPass : Pass<"heddle-forward-slices", "::mlir::ModuleOp"> {
  let summary = "reads slices from the values that were inserted there";
  let description = [{
    A loop over layers keeps the values of all layers in one tensor, from which
    the backward loop takes slices. When both loops are written out, each slice
    is known: `tensor.extract_slice` becomes the value that `tensor.insert_slice`
    put there. A slice that meets none of the last insertions is read from the
    tensor before them. Insertions that fill a tensor along one dimension become
    a `tensor.concat`, whose parts are computed in place. Constant offsets become
    attributes, so that contiguous slices can be views. Unused ops are removed.

    Input: functions in which loops of known length are written out
    (heddle-flatten-control-flow).
  }];
  let dependentDialects = ["::mlir::tensor::TensorDialect"];
}

def OutlineLoopsPass : Pass<"heddle-outline-loops", "::mlir::ModuleOp"> {
  let summary = "turns the remaining loops into calls of two functions";
  let description = [{
    Every `scf.while` and `scf.for` becomes a `heddle.while`, which calls a
    private function of tensors for each of the loop's two regions. A value from
    outside the loop becomes an operand. If it can be computed without reading
    a tensor's elements, the functions compute it again instead: constants, the
    device's place in the mesh, arithmetic on these, fills. Loads of variables
    move before the loop.
    Numbers that a loop carries become tensors without dimensions; an index
    becomes an i64.

    Input: functions without other control flow (heddle-flatten-control-flow).
    Errors: a condition that depends on the device's place in the mesh; a
    `heddle.store` in a loop; a value that cannot become a tensor of static
    shape.
  }];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::arith::ArithDialect",
                           "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
}

def SpreadScalarsPass : Pass<"heddle-spread-scalars", "::mlir::ModuleOp"> {
  let summary = "turns scalars that are computed from tensors into tensors";
  let description = [{
    A device's program holds tensors alone. A scalar that is computed from
    tensors (`tensor.extract` and arithmetic on it) becomes a tensor without
    dimensions where it is
    - an argument or result of the function;
    - the condition of a select between tensors;
    - the scalar of `tensor.splat`, `tensor.from_elements`, `tensor.pad`,
      `linalg.fill` or `tensor.insert`;
    - the offset of a slice;
    - an operand of a structured op, or captured by its body.

    Constants stay. An index becomes an i64.

    Errors: a scalar that comes from another op than `tensor.extract`,
    constants and elementwise arithmetic.
  }];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect"];
}

def NameOperatorsPass : Pass<"heddle-name-operators", "::mlir::ModuleOp"> {
  let summary = "records for every op which operators it serves";
  let description = [{
    Runs after `heddle-spread-scalars`. Gives each op of every program function
    a `#heddle.serves` in its location. The rewrites of this phase pass
    locations on. At the end of the phase, `heddle-form-kernels` writes it as
    the attribute `heddle.serves` on calls of kernels, calls of the library and
    collectives.

    An operator of the model has a name and serves itself. Any other op takes
    its names along the flow of data:
    - a load or store: from its variable;
    - a collective, a cast or another op of one operand: from its operand;
    - an op of several operands (an update, a sum): from the operands that have
      the op's kind of data and are nearest to a name. Scalars count only if
      there are no tensors;
    - a stack or concatenation: from all its operands;
    - a slice of an unstack: from the operand of the stack at the same position,
      and a slice that is one part of a concatenation from that part;
    - an op that no name reaches: from the name of the program result that it
      returns, else from its location's name, else from its function and its
      operation name, numbered, as in `main.linalg.matmul.0`.

    The kind of data (see `#heddle.serves`) follows from the roles of variables
    and from the flow of data, never from names:
    - a load has the kind of its variable's role;
    - data that only flows into variables belongs to the update. If an operator
      computes it, it is a gradient. If another op does, its kind is the last of
      the operands' kinds in the order gradient, state, parameter: new moments
      are state, and a parameter less its step is a parameter;
    - data that operators read, or that the program returns, has the common kind
      of its op's operands. If the kinds of the operands differ, the data is an
      activation.

    An operator that sums over a loop of an operand computes new data and so
    counts as a reader of the operand. In the update, an operator whose results
    run over all loops of an operand only passes the operand on: a product that
    accumulates onto a gradient passes this gradient on.
  }];
  let dependentDialects = ["::heddle::HeddleDialect"];
}

def RaiseContractionsPass : Pass<"heddle-raise-contractions", "::mlir::ModuleOp"> {
  let summary = "turns linalg products into calls of the library";
  let description = [{
    A structured op (`linalg.matmul`, `batch_matmul`, `matvec`, ...,
    `linalg.generic`) becomes a `heddle.contract` if its body is
    `out + lhs * rhs`, its maps are projected permutations, and each of its
    reductions runs over both operands. Operands are f32 or bf16, and the result
    has the same type or f32. The contraction accumulates onto the op's init,
    unless the init is zeros. Transposed and repeated operands are read where
    they are. Products that the library cannot express, and scalar products,
    stay and become kernels.

    Input: local tensors, before `heddle-fuse-epilogues`. A sum of bf16 products
    is rounded once, whereas linalg rounds after each addition.
  }];
  let dependentDialects = ["::heddle::HeddleDialect"];
}

def PadVocabularyPass : Pass<"heddle-pad-vocabulary", "::mlir::ModuleOp"> {
  let summary = "pads logits and their tables for a GPU's tensor cores";
  let description = [{
    For a module with `heddle.target_gpu`: 16-bit logits whose rows do not begin
    at multiples of 16 bytes (a vocabulary of 50257), and which only the
    cross-entropy reads, are padded to a multiple of 64 elements. So are the
    copy of the table that they are computed from, with zeros, and the gradient
    of the logits. Padded logits count as the lowest number; the gradient of the
    table is sliced. Variables and what a program takes and returns stay.

    Input: local tensors, before `heddle-fuse-epilogues`.
  }];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect"];
}

def FuseEpiloguesPass : Pass<"heddle-fuse-epilogues", "::mlir::ModuleOp"> {
  let summary = "adds biases and sums within matrix products";
  let description = [{
    A bias is a `heddle.broadcast` of a vector along the product's inner
    dimension. Where it is added to a contraction that has no other use, it
    becomes the contraction's `bias`.

    A contraction that is added to another one becomes a contraction that
    accumulates. So does one that is added to a variable's value and stored back
    (a gradient that accumulates), and likewise the gradient of a table
    (`heddle.embedding_grad`).

    Residual connections stay. Their operand is read again later, so the product
    would need a copy of it, and a kernel fuses the addition with the
    normalization that follows.

    Input: local tensors, before `heddle-form-kernels`.
  }];
}

def FusePackingPass : Pass<"heddle-fuse-packing", "::mlir::ModuleOp"> {
  let summary = "lets matrix products read and write packed tensors";
  let description = [{
    If a contraction's operand is a `linalg.transpose`, perhaps followed by a
    reshape that merges dimensions (the parts that a gather brings), the
    contraction reads the transposition's operand instead. One letter then
    becomes several, in all tensors of the contraction. If a transposition is
    the only reader of a contraction (the operand of a scatter), the contraction
    writes the transposed result. So does another contraction that it
    accumulates onto.

    The copy stays where it costs less: if the products would become much
    smaller, if their sums would be added up in memory, or if another op reads
    the copy, too.

    Input: local tensors, after `heddle-fuse-epilogues`, before
    `heddle-decompose-ops`.
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

def FuseLibraryEpiloguesPass
    : Pass<"heddle-fuse-library-epilogues", "::mlir::ModuleOp"> {
  let summary = "lets a GPU's library compute functions and sums of products";
  let description = [{
    For a module with `heddle.target_gpu`, a contraction becomes a
    `heddle.fused_contract` with
    - the `heddle.gelu` (tanh form) of it, if its gradient reads the product;
    - the `heddle.gelu_grad` (tanh form) that alone reads it;
    - the sum of one of its operands over the letters that the product sums
      over: the gradient of a bias beside that of the weight.

    Each must be an epilogue that cuBLASLt has: gelu and its gradient of one
    matrix product whose rows begin at multiples of 8 elements; sums of the
    result's type, without loops that add to the same result.

    Input: local tensors, after `heddle-fuse-packing`, before
    `heddle-decompose-ops`.
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
    The loops of a `linalg.generic` run over the result's dimensions in order,
    then over the reduced ones. Floats are computed in f32 (f64 for f64) and
    rounded to the element type where they are stored.

    A reduction over leading dimensions (the gradient of a bias) has two stages:
    `heddle.reduce_blocks` sums blocks of rows, whose number follows from the
    shape, then the blocks are summed. So the reduction is parallel, gives the
    same bits with any number of threads, and errs less than one long sum.

    These ops stay: contract, fused_contract, attention, embedding_grad, rotary_table, load,
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
    - `heddle.row_dims`: the number of leading dimensions that are the kernel's
      rows;
    - `heddle.blocks`: the extent of the outermost loop;
    - `heddle.grain`: the least number of iterations of the outermost loop that
      are worth a thread of their own;
    - `heddle.inplace`: for each result, the operands whose buffer it may take.

    The rows of a kernel are its leading dimensions, collapsed. Two ops may share
    a kernel if row i of each reads only row i of the other, and if no path
    between them leaves the kernel. Clusters grow greedily along the program:
    first from producers to consumers, then across readers of one tensor.
    Copies, casts and cheap elementwise ops are repeated in every consumer
    rather than stored. Equal kernels are outlined once.

    Each call of a kernel gets `heddle.serves`: the operators of all ops that
    were merged, in program order, and the kind of the data that leaves the
    kernel. All other calls and collectives get the `heddle.serves` that
    `heddle-name-operators` left in their locations.
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect", "::mlir::func::FuncDialect"];
  let options = [
    Option<"fuse", "fuse", "bool", /*default=*/"true",
           "several ops in a kernel; off: one op each, for finding errors">];
}

def VerifyKernelsPass : Pass<"heddle-verify-kernels", "::mlir::ModuleOp"> {
  let summary = "checks that programs are sequences of calls, and kernels loops";
  let description = [{
    Checks, after the phase `kernels`, for every function with `heddle.kernel`
    that:
    - its operands are tensors of static shape or indices, its results tensors of
      static shape;
    - it has one block;
    - its ops are `linalg.generic` and `heddle.reduce_blocks`, and the ops that
      make their inits: `linalg.fill`, `tensor.empty`, `arith.constant`;
    - every tensor in it has a static shape;
    - `heddle.row_dims` is at least 0, and `heddle.inplace` names, for each
      result, operands of its type.

    For every other function with a body (a program, or a function that a loop
    calls), checks that:
    - it has one block;
    - its ops are calls of the library, of kernels and of loops, collectives,
      views (reshapes, contiguous slices), loads, stores, stacks, constants and
      arithmetic on indices;
    - its arguments and results, and all tensors in it, are tensors that the
      runtime can hold: of static shape, with at least one element, and of an
      element type that the runtime has;
    - a `func.call` calls a kernel.
  }];
}

#endif // HEDDLE_LOWER_KERNELPASSES
