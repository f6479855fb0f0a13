//===- PrecisionOpInterface.td - An op in mixed precision --*- tablegen -*-===//

#ifndef HEDDLE_PRECISION_OPINTERFACE
#define HEDDLE_PRECISION_OPINTERFACE

include "mlir/IR/OpBase.td"

def PrecisionOpInterface : OpInterface<"PrecisionOpInterface"> {
  let cppNamespace = "::heddle";
  let description = [{
    The types that an op takes and gives in mixed precision, where products take
    narrow numbers (bf16). An op without the interface computes in f32. Ops of
    other dialects get the interface by external models.
  }];
  let methods = [
    InterfaceMethod<"Returns how the op chooses its types.",
                    "::heddle::Precision", "getPrecision">,
    InterfaceMethod<[{
      Returns whether an operand stays f32 although the op takes narrow numbers.
      The tables of a rotation are such operands.
    }], "bool", "keepsOperandWide", (ins "unsigned":$operand), "", [{
      return false;
    }]>,
    InterfaceMethod<[{
      Returns whether a result stays f32 although the op gives narrow numbers.
      The statistics of attention are such a result.
    }], "bool", "keepsResultWide", (ins "unsigned":$result), "", [{
      return false;
    }]>
  ];
}

#endif
