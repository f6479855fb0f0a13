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
    InterfaceMethod<"How the op chooses its types.",
                    "::heddle::Precision", "getPrecision">,
    InterfaceMethod<[{
      Whether an operand stays f32 though the op is narrow (the tables of a
      rotation).
    }], "bool", "keepsOperandWide", (ins "unsigned":$operand), "", [{
      return false;
    }]>,
    InterfaceMethod<[{
      Whether a result stays f32 though the op is narrow (the statistics of
      attention).
    }], "bool", "keepsResultWide", (ins "unsigned":$result), "", [{
      return false;
    }]>
  ];
}

#endif
