//===- Epilogues.cpp - What cuBLASLt computes with a product --------------===//

#include "backends/cuda/Products.h"

namespace heddle::runtime::cuda {

using blas::CublasLt;

ProductLibrary::Kind ProductLibrary::kindOf(const Operands &operands) {
  if (!operands.epilogue)
    return Kind::Plain;
  switch (*operands.epilogue) {
  case HEDDLE_RT_EPILOGUE_GELU:
    return operands.bias ? Kind::GeluOfBias : Kind::Gelu;
  case HEDDLE_RT_EPILOGUE_GELU_GRAD:
    return Kind::GeluGrad;
  case HEDDLE_RT_EPILOGUE_A_SUMS:
    return Kind::ASums;
  case HEDDLE_RT_EPILOGUE_B_SUMS:
    return Kind::BSums;
  }
  return Kind::Plain;
}

/// cuBLASLt's A is our B, so the sums change places.
uint32_t ProductLibrary::epilogueOf(Kind kind) {
  switch (kind) {
  case Kind::Plain:
  case Kind::Sum:
    return blas::kEpilogueDefault;
  case Kind::Bias:
    return blas::kEpilogueBias;
  case Kind::Gelu:
    return blas::kEpilogueGeluAux;
  case Kind::GeluOfBias:
    return blas::kEpilogueGeluAuxBias;
  case Kind::GeluGrad:
    return blas::kEpilogueDGelu;
  case Kind::ASums:
    return blas::kEpilogueBGradB;
  case Kind::BSums:
    return blas::kEpilogueBGradA;
  }
  return blas::kEpilogueDefault;
}

bool ProductLibrary::usesAux(Kind kind) {
  return kind == Kind::Gelu || kind == Kind::GeluOfBias ||
         kind == Kind::GeluGrad;
}

Status ProductLibrary::setPointers(const Prepared &product, const Call &call) {
  const CublasLt &f = library->functions;
  auto set = [&](int attribute, const void *pointer) {
    return CublasLt::check(
        f.descSet(product.operation, attribute, &pointer, sizeof pointer),
        "cublasLtMatmulDescSetAttribute");
  };
  bool writesSums = call.kind == Kind::ASums || call.kind == Kind::BSums;
  if (const void *bias = writesSums ? call.extra : call.bias)
    HEDDLE_RT_RETURN_IF_ERROR(set(blas::kBiasPointer, bias));
  if (usesAux(call.kind))
    HEDDLE_RT_RETURN_IF_ERROR(set(blas::kAuxPointer, call.extra));
  return Status::success();
}

} // namespace heddle::runtime::cuda
