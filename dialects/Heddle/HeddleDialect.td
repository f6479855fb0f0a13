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
