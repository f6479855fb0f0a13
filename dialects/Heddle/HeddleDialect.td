//===- HeddleDialect.td - The model dialect ----------------*- tablegen -*-===//

#ifndef HEDDLE_DIALECT
#define HEDDLE_DIALECT

include "mlir/IR/OpBase.td"

def HeddleDialect : Dialect {
  let name = "heddle";
  let cppNamespace = "::heddle";
  let summary = "Training programs of large models over global tensors";
  let description = [{
    Tensors are global, shapes static, and ops have value semantics. The dialect
    holds the ops that upstream lacks; elementwise arithmetic is `arith` and
    `math` on tensors, shape changes are `tensor`. State lives in symbols
    (`heddle.variable`), not in arguments.

    The dialect has these discardable attributes, on ops of any dialect. A name
    that is not listed is an error:
    - `heddle.sharding` on function arguments, results and ops: one
      `#heddle.sharding` (ops with several results: an array of them);
    - `heddle.factors` on ops: for each factor of the op, the mesh axes that
      split it;
    - `heddle.pin` on ops: the exact sharding that the result must get (ops with
      several results: an array, with `unit` for a result that is not pinned);
    - `heddle.priority` on ops with factors or a pin, and on function arguments
      and results with a sharding: an i64 from 0 to 65536. Shardings of lower
      priority numbers are propagated first;
    - `heddle.carried` on control flow, between the passes of the partitioner:
      the sharding of each class of values that regions and results receive;
    - `heddle.split` on ops: the factor along which the op is cut into slices,
      and their number;
    - `heddle.storage_axes` on variables: axes that a plan adds to the storage;
    - `heddle.name` on ops of other dialects: the stable name of the module that
      the op came from (Heddle's own ops hold it as `op_name`); on arguments and
      results of functions: their name in files;
    - `heddle.role` on arguments and results of functions: what they are for
      (`#heddle.port_role`); on functions and programs of training: what they
      are called for (`#heddle.program_role<step>`);
    - `heddle.ranks` on variables, functions, programs, and on arguments and
      results of functions: the ranks that have it (`#heddle.ranks`). Without
      the attribute, all ranks have it;
    - `heddle.group` on variables of role parameter: how the optimizer updates
      the parameter (`#heddle.group`), if the options of the training step do
      not say so;
    - `heddle.stage` on ops: the stage of a pipeline that the op belongs to;
    - `heddle.pipeline` on the module: the pipeline in which its programs run
      (`#heddle.pipeline`);
    - `heddle.stage_program` on functions and programs that are parts of an entry
      point: the entry point, the stage, and the part of its work
      (`#heddle.stage_program`);
    - `heddle.serves` (`#heddle.serves`) on the calls and collectives of one
      device's program: the operators that they are made of, and the kind of
      their data;
    - `heddle.global_type` on arguments and results of one device's program: the
      type of the global tensor;
    - `heddle.model` on the module: the model's family;
    - `heddle.weights` on the module: the checkpoint that holds the variables'
      values;
    - `heddle.config` on the module: the text of the model's config.json, which
      is written beside trained weights;
    - `heddle.micro_batches` on the module: the number of calls of the program
      that make a step;
    - `heddle.plan` on the module: the text of the plan;
    - `heddle.phase` on the module: the phase that compilation has reached;
    - `heddle.program_hash` on the module: the fingerprint of the executable
      program, from which the module was lowered to LLVM;
    - `heddle.hierarchy` (`#heddle.hierarchy<never>`), `heddle.reduce_gradients`
      (`#heddle.gradient_reduction<step>`) and `heddle.sub_batches` on the
      module: the plan's entries of these names;
    - `heddle.kernel` on functions that hold kernels;
    - `heddle.row_dims` on kernels: the number of leading dimensions that are
      rows;
    - `heddle.inplace` on kernels: for each result, an array of the operands
      that may share its buffer;
    - `heddle.blocks` and `heddle.grain` on kernels that are lowered to the LLVM
      dialect: the number of blocks, and the fewest blocks that are worth a
      thread;
    - `heddle.inplace` on `rt.export`, too: for each result of the program an
      array of the arguments that may share its memory.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect",
                           "::mlir::math::MathDialect"];
}

#endif
