//===- HeddleEpilogues.td - What a library adds to products -*- tablegen -*-===//

#ifndef HEDDLE_EPILOGUES
#define HEDDLE_EPILOGUES

include "mlir/IR/EnumAttr.td"

def ProductEpilogue : I32EnumAttr<"ProductEpilogue",
    "what the library computes together with a matrix product: `gelu` applies "
    "gelu (tanh form) to the product and keeps its input; `gelu_grad` multiplies "
    "the product by gelu's derivative; `lhs_sums` and `rhs_sums` sum an operand "
    "over k, which gives the gradient of a bias", [
  I32EnumAttrCase<"Gelu", 1, "gelu">,
  I32EnumAttrCase<"GeluGrad", 2, "gelu_grad">,
  I32EnumAttrCase<"LhsSums", 3, "lhs_sums">,
  I32EnumAttrCase<"RhsSums", 4, "rhs_sums">]> {
  let cppNamespace = "::heddle";
}

#endif // HEDDLE_EPILOGUES
