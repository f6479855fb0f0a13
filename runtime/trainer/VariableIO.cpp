//===- VariableIO.cpp - Streams variables to and from files ---------------===//

#include "VariableIO.h"

#include <algorithm>
#include <vector>

using namespace heddle::runtime;

std::optional<safetensors::DType> heddle::runtime::safetensorsType(DType type) {
  switch (type) {
  case HEDDLE_RT_F32:
    return safetensors::DType::F32;
  case HEDDLE_RT_BF16:
    return safetensors::DType::BF16;
  case HEDDLE_RT_F16:
    return safetensors::DType::F16;
  case HEDDLE_RT_F64:
    return safetensors::DType::F64;
  case HEDDLE_RT_I1:
    return safetensors::DType::Bool;
  case HEDDLE_RT_I8:
    return safetensors::DType::I8;
  case HEDDLE_RT_I32:
    return safetensors::DType::I32;
  case HEDDLE_RT_I64:
    return safetensors::DType::I64;
  }
  return std::nullopt;
}

static constexpr int64_t pieceElements = int64_t(1) << 20;

Status heddle::runtime::forEachPiece(
    const Session &session, size_t tensor,
    const std::function<Status(int64_t first, ConstBytes bytes)> &use) {
  const WholeTensor &info = session.manifest().tensors[tensor];
  int64_t elements = info.elements();
  size_t width = byteSize(info.type);
  std::vector<std::byte> buffer(std::min(elements, pieceElements) * width);
  for (int64_t first = 0; first < elements; first += pieceElements) {
    int64_t count = std::min(pieceElements, elements - first);
    Bytes piece = Bytes(buffer).first(count * width);
    HEDDLE_RT_RETURN_IF_ERROR(session.readTensor(tensor, first, count, piece));
    HEDDLE_RT_RETURN_IF_ERROR(use(first, piece));
  }
  return Status::success();
}

Status heddle::runtime::zeroSumsOfStep(Session &session) {
  const Manifest &manifest = session.manifest();
  for (size_t i = 0; i < manifest.variables.size(); ++i) {
    const VariableInfo &info = manifest.variables[i];
    if (!isSumOfStep(info.role))
      continue;
    std::vector<std::byte> zeros(std::min(info.elements(), pieceElements) *
                                 byteSize(info.type));
    for (int64_t first = 0; first < info.elements(); first += pieceElements) {
      int64_t count = std::min(pieceElements, info.elements() - first);
      HEDDLE_RT_RETURN_IF_ERROR(session.writeElements(
          i, first, count,
          ConstBytes(zeros).first(count * byteSize(info.type))));
    }
  }
  return Status::success();
}
