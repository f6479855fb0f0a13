//===- Epilogues.cpp - What cuBLASLt computes with a product --------------===//

#include "backends/cuda/products/Products.h"

#include <algorithm>

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

/// cuBLASLt's A is our B, so the epilogues for the sums of A and B are
/// exchanged.
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

//===----------------------------------------------------------------------===//
// By kernels of the library
//===----------------------------------------------------------------------===//

/// The blocks of a kernel with a loop over so many elements.
static int64_t blocksOf(int64_t elements) {
  return std::min<int64_t>(4096, (elements + 127) / 128);
}

static uint64_t word(const void *pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

Status ProductLibrary::finishSum(int32_t stream,
                                 const heddle_rt_matmul_desc &desc, Address sum,
                                 void *c, const void *bias) {
  const uint64_t arguments[] = {sum,
                                word(c),
                                uint64_t(desc.c_type),
                                uint64_t(desc.c_row_stride),
                                uint64_t(desc.accumulate),
                                word(bias),
                                uint64_t(desc.bias_type),
                                uint64_t(desc.m),
                                uint64_t(desc.n)};
  return device.launchLibrary(stream, "heddle_finish_sum",
                              blocksOf(desc.m * desc.n), arguments);
}

Status ProductLibrary::addBias(int32_t stream,
                               const heddle_rt_matmul_desc &desc, void *c,
                               const void *bias) {
  const uint64_t arguments[] = {
      word(c),         uint64_t(desc.c_type),    uint64_t(desc.c_row_stride),
      word(bias),      uint64_t(desc.bias_type), uint64_t(desc.m),
      uint64_t(desc.n)};
  return device.launchLibrary(stream, "heddle_add_bias",
                              blocksOf(desc.m * desc.n), arguments);
}

Status ProductLibrary::finishApart(int32_t stream,
                                   const heddle_rt_matmul_desc &desc,
                                   const Call &call, int batchLoop) {
  auto sumLines = [&](const void *matrix, int32_t type, int64_t lineStride,
                      int64_t elementStride, int64_t lines) {
    const uint64_t arguments[] = {word(matrix),         uint64_t(type),
                                  uint64_t(lineStride), uint64_t(elementStride),
                                  uint64_t(lines),      uint64_t(desc.k),
                                  word(call.extra),     uint64_t(desc.c_type)};
    return device.launchLibrary(stream, "heddle_sum_lines", blocksOf(lines),
                                arguments);
  };
  switch (call.kind) {
  case Kind::Plain:
  case Kind::Sum:
    return Status::success();
  case Kind::Bias: {
    int64_t copies = batchLoop >= 0 ? desc.loops[batchLoop].extent : 1;
    for (int64_t copy = 0; copy < copies; ++copy) {
      int64_t place = copy > 0 ? copy * desc.loops[batchLoop].c_stride : 0;
      HEDDLE_RT_RETURN_IF_ERROR(
          addBias(stream, desc,
                  static_cast<char *>(call.c) +
                      place * int64_t(byteSize(DType(desc.c_type))),
                  call.bias));
    }
    return Status::success();
  }
  case Kind::Gelu:
  case Kind::GeluOfBias: {
    const uint64_t arguments[] = {
        word(call.c),          word(call.extra),
        uint64_t(desc.c_type), uint64_t(desc.c_row_stride),
        word(call.bias),       uint64_t(desc.bias_type),
        uint64_t(desc.m),      uint64_t(desc.n)};
    return device.launchLibrary(stream, "heddle_gelu",
                                blocksOf(desc.m * desc.n), arguments);
  }
  case Kind::GeluGrad: {
    const uint64_t arguments[] = {
        word(call.c),          word(call.extra),
        uint64_t(desc.c_type), uint64_t(desc.c_row_stride),
        uint64_t(desc.m),      uint64_t(desc.n)};
    return device.launchLibrary(stream, "heddle_gelu_grad",
                                blocksOf(desc.m * desc.n), arguments);
  }
  case Kind::ASums:
    return sumLines(call.a, desc.a_type, desc.a_row_stride,
                    desc.a_column_stride, desc.m);
  case Kind::BSums:
    return sumLines(call.b, desc.b_type, desc.b_column_stride,
                    desc.b_row_stride, desc.n);
  }
  return Status::success();
}

} // namespace heddle::runtime::cuda
