//===- DifferentiableOpInterface.td - Reverse mode ---------*- tablegen -*-===//

#ifndef HEDDLE_DIFFERENTIABLE_OPINTERFACE
#define HEDDLE_DIFFERENTIABLE_OPINTERFACE

include "mlir/IR/OpBase.td"

def DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::heddle";
  let description = [{
    Builds the vector-Jacobian product of an op for reverse-mode autodiff over
    the global program. Foreign ops join by external models.
  }];
  let methods = [
    InterfaceMethod<[{
      Given the gradients of the results (a null Value where the gradient is
      zero; at least one is not null), builds the gradients of the operands at
      the builder's insertion point. `operandGradients` arrives with one null
      Value an operand; what stays null is zero or does not exist (integers).
      `wanted[i]` says whether the gradient of operand i is used at all. A
      gradient has the type of its value. New ops that belong to a named op
      carry its name.
    }], "::mlir::LogicalResult", "buildVjp",
    (ins "::mlir::OpBuilder &":$builder,
         "::mlir::ArrayRef<::mlir::Value>":$resultGradients,
         "::mlir::ArrayRef<bool>":$wanted,
         "::mlir::MutableArrayRef<::mlir::Value>":$operandGradients)>
  ];
}

#endif
