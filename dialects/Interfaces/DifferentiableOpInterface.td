//===- DifferentiableOpInterface.td - Reverse mode ---------*- tablegen -*-===//

#ifndef HEDDLE_DIFFERENTIABLE_OPINTERFACE
#define HEDDLE_DIFFERENTIABLE_OPINTERFACE

include "mlir/IR/OpBase.td"

def DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::heddle";
  let description = [{
    Builds the vector-Jacobian product of an op for reverse-mode autodiff over
    the global program. Ops of other dialects get it by external models.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds the gradients of the operands at the builder's insertion point. In
      `resultGradients`, a null Value stands for a gradient of zero; at least
      one is not null. `operandGradients` arrives with one null Value for each
      operand. A Value that stays null means that the gradient is zero, or that
      there is none (integers). `wanted[i]` is true if the gradient of operand i
      is used. A gradient has the type of its operand. If the op has a name, the
      new ops get the same name.
    }], "::mlir::LogicalResult", "buildVjp",
    (ins "::mlir::OpBuilder &":$builder,
         "::mlir::ArrayRef<::mlir::Value>":$resultGradients,
         "::mlir::ArrayRef<bool>":$wanted,
         "::mlir::MutableArrayRef<::mlir::Value>":$operandGradients)>
  ];
}

#endif
