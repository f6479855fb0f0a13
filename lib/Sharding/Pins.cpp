//===- Pins.cpp - Pins and priorities of single values --------------------===//

#include "heddle/Sharding/Pins.h"

using namespace mlir;
using namespace heddle;

int64_t heddle::getPriority(DictionaryAttr attributes) {
  auto given = attributes ? attributes.getAs<IntegerAttr>(kPriorityAttrName)
                          : IntegerAttr();
  return given ? given.getInt() : 0;
}

LogicalResult heddle::verifySharding(Location loc, ShardingAttr sharding,
                                     Type type, MeshRef mesh) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return emitError(loc) << "expected a ranked tensor to have a sharding, got "
                          << type;
  if (sharding.getRank() != tensor.getRank())
    return emitError(loc) << "expected a sharding of " << tensor.getRank()
                          << " dimensions, got " << sharding;
  if (!mesh)
    return emitError(loc) << "expected a heddle.mesh in the module for "
                          << sharding;
  if (sharding.getMesh() != mesh.symbol)
    return emitError(loc) << "expected a sharding over " << mesh.symbol
                          << ", the mesh of the module, got one over "
                          << sharding.getMesh();
  for (StringAttr axis : sharding.getPartialAxes())
    if (!mesh.mesh.getAxisSize(axis))
      return emitError(loc)
             << "expected an axis of " << mesh.mesh << ", got " << axis;
  for (AxisListAttr axes : sharding.getDims())
    for (StringAttr axis : axes.getAxes()) {
      if (!mesh.mesh.getAxisSize(axis))
        return emitError(loc)
               << "expected an axis of " << mesh.mesh << ", got " << axis;
      if (!tensor.hasStaticShape())
        return emitError(loc)
               << "expected a static shape to be split over " << axis
               << ", got " << type
               << "; partition the program for the sizes that it runs with";
    }
  return success();
}

LogicalResult heddle::readPins(Operation *op,
                               llvm::MapVector<Value, ShardingAttr> &pins) {
  Attribute given = op->getAttr(kPinAttrName);
  if (!given)
    return success();
  SmallVector<Attribute> list = {given};
  if (auto array = dyn_cast<ArrayAttr>(given))
    list.assign(array.begin(), array.end());
  if (list.size() != op->getNumResults())
    return op->emitOpError()
           << "expected " << kPinAttrName << " for " << op->getNumResults()
           << " results, got " << list.size();
  for (auto [result, pin] : llvm::zip(op->getResults(), list)) {
    if (isa<UnitAttr>(pin))
      continue;
    auto sharding = dyn_cast<ShardingAttr>(pin);
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (!sharding || !type || sharding.isPartial())
      return op->emitOpError()
             << "expected " << kPinAttrName
             << " to be a sharding of a tensor, without partial sums, got "
             << pin << " for " << result.getType();
    pins[result] = sharding;
  }
  return success();
}

ShardingAttr heddle::getPinOf(OpResult result) {
  Attribute given = result.getOwner()->getAttr(kPinAttrName);
  if (auto list = dyn_cast_or_null<ArrayAttr>(given))
    given = result.getResultNumber() < list.size()
                ? list[result.getResultNumber()]
                : Attribute();
  return dyn_cast_or_null<ShardingAttr>(given);
}

void heddle::setPinOf(OpResult result, ShardingAttr pin) {
  Operation *op = result.getOwner();
  if (op->getNumResults() == 1)
    return op->setAttr(kPinAttrName, pin);
  SmallVector<Attribute> list;
  for (OpResult other : op->getResults()) {
    ShardingAttr own = other == result ? pin : getPinOf(other);
    list.push_back(own ? Attribute(own) : UnitAttr::get(op->getContext()));
  }
  op->setAttr(kPinAttrName, ArrayAttr::get(op->getContext(), list));
}
