//===- HeddleEpilogues.td - What a library adds to products -*- tablegen -*-===//

#ifndef HEDDLE_EPILOGUES
#define HEDDLE_EPILOGUES

include "mlir/IR/EnumAttr.td"

def ProductEpilogue : I32EnumAttr<"ProductEpilogue",
    "what the library computes with a matrix product: gelu (tanh form) of it, "
    "with the input kept; the gradient of gelu; or the sums over k of one of "
    "the operands, which are the gradient of a bias", [
  I32EnumAttrCase<"Gelu", 1, "gelu">,
  I32EnumAttrCase<"GeluGrad", 2, "gelu_grad">,
  I32EnumAttrCase<"LhsSums", 3, "lhs_sums">,
  I32EnumAttrCase<"RhsSums", 4, "rhs_sums">]> {
  let cppNamespace = "::heddle";
}

#endif // HEDDLE_EPILOGUES
