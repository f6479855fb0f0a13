//===- OpTraits.td - Traits of ops for plans ---------------*- tablegen -*-===//

#ifndef HEDDLE_OPTRAITS
#define HEDDLE_OPTRAITS

include "mlir/IR/OpBase.td"

class Heddle_OpTrait<string name> : NativeOpTrait<name> {
  let cppNamespace = "::heddle";
}

// See OpTraits.h.
def NetworkOp : Heddle_OpTrait<"NetworkOp">;
def NormalizationOp : Heddle_OpTrait<"NormalizationOp">;

#endif
