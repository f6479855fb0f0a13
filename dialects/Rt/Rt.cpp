//===- Rt.cpp - The rt dialect and its types in memory --------------------===//

#include "dialects/Rt/Rt.h"
#include "heddle_rt/abi.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::rt;

#include "dialects/Rt/RtDialect.cpp.inc"

#include "dialects/Rt/RtInterfaces.cpp.inc"

void RtDialect::initialize() {
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "dialects/Rt/RtOps.cpp.inc"
      >();
}

std::optional<int32_t> rt::getRuntimeType(Type type) {
  if (type.isF32())
    return HEDDLE_RT_F32;
  if (type.isBF16())
    return HEDDLE_RT_BF16;
  if (type.isF16())
    return HEDDLE_RT_F16;
  if (type.isF64())
    return HEDDLE_RT_F64;
  if (type.isSignlessInteger(1))
    return HEDDLE_RT_I1;
  if (type.isSignlessInteger(8))
    return HEDDLE_RT_I8;
  if (type.isSignlessInteger(32))
    return HEDDLE_RT_I32;
  if (type.isSignlessInteger(64))
    return HEDDLE_RT_I64;
  return std::nullopt;
}

int64_t rt::getByteSize(Type type) {
  if (!getRuntimeType(type))
    return 0;
  return (type.getIntOrFloatBitWidth() + 7) / 8;
}

int64_t rt::getByteSize(RankedTensorType type) {
  return type.getNumElements() * getByteSize(type.getElementType());
}

static RankedTensorType getLocal(Operation *from, RankedTensorType type,
                                 ShardingAttr sharding) {
  if (!sharding)
    return type;
  MeshOp mesh = lookupMesh(from, sharding.getMesh());
  return mesh ? sharding.getLocalType(type, mesh.getMesh()) : type;
}

RankedTensorType rt::getLocalType(VariableOp variable) {
  return getLocal(variable, variable.getTensorType(),
                  variable.getStorageAttr());
}

RankedTensorType rt::getLocalType(Operation *from, PortAttr port) {
  return getLocal(from, port.getType(), port.getSharding());
}

SmallVector<int64_t> rt::getDenseStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * shape[i];
  return strides;
}
