//===- HeddleDialect.td - The model dialect ----------------*- tablegen -*-===//

#ifndef HEDDLE_DIALECT
#define HEDDLE_DIALECT

include "mlir/IR/OpBase.td"

def HeddleDialect : Dialect {
  let name = "heddle";
  let cppNamespace = "::heddle";
  let summary = "Training programs of large models over global tensors";
  let description = [{
    Global tensors, static shapes, value semantics. The dialect holds what
    upstream lacks; elementwise arithmetic is `arith` and `math` on tensors and
    shape changes are `tensor`. State is symbols (`heddle.variable`), not
    arguments.

    Discardable attributes of the dialect:
    - `heddle.sharding` on function arguments, results and ops: one
      `#heddle.sharding` (ops with several results: an array of them);
    - `heddle.factors` on ops: which mesh axes split which of the op's factors;
    - `heddle.pin` on ops: the sharding that the result shall have, exactly (ops
      with several results: an array, `unit` for those that are free);
    - `heddle.priority` on ops with factors or a pin, and on function arguments
      and results with a sharding: an i64; the lower, the earlier others hear of
      it;
    - `heddle.carried` on control flow, between the passes of the partitioner:
      the sharding of each value that a region or a result receives;
    - `heddle.name` on ops of other dialects: the stable name of the module that
      the op came from (Heddle's own ops hold it as `op_name`);
    - `heddle.model`, `heddle.weights` on the module: the family, and the
      checkpoint that holds the variables' values;
    - `heddle.config` on the module: the text of the model's config.json, which
      is written beside trained weights.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect",
                           "::mlir::math::MathDialect"];
}

#endif
