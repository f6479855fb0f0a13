//===- VerifyLocalized.cpp - Checks one device's program ------------------===//

#include "dialects/Comm/Comm.h"
#include "heddle/Shard/Passes.h"
#include "heddle/Sharding/FactorShardings.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {
#define GEN_PASS_DEF_VERIFYLOCALIZEDPASS
#include "heddle/Shard/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

static LogicalResult verifyOp(Operation *op, MeshRef mesh,
                              SymbolTableCollection &tables) {
  if (isa<ReshardOp>(op))
    return op->emitOpError() << "expected no reshard after localization";
  // An attribute of the partitioner that is still present was read by no pass.
  for (StringRef name : {kFactorsAttrName, kShardingAttrName, kPriorityAttrName,
                         kPinAttrName, kCarriedAttrName, kSplitAttrName})
    if (op->hasAttr(name))
      return op->emitOpError()
             << "expected no " << name << " after localization";
  if (isa_and_nonnull<comm::CommDialect>(op->getDialect()) && !mesh)
    return op->emitOpError() << "expected a mesh in the module";
  if (failed(comm::verifyContiguous(op)))
    return failure();
  if (!isa<LoadOp, StoreOp>(op))
    return success();
  Value value = isa<LoadOp>(op) ? op->getResult(0) : op->getOperand(0);
  auto symbol = isa<LoadOp>(op) ? cast<LoadOp>(op).getVariableAttr()
                                : cast<StoreOp>(op).getVariableAttr();
  auto variable = tables.lookupNearestSymbolFrom<VariableOp>(op, symbol);
  if (!variable)
    return op->emitOpError() << "expected a variable, got " << symbol;
  RankedTensorType expected = variable.getTensorType();
  if (ShardingAttr storage = variable.getStorageAttr())
    expected = storage.getLocalType(expected, mesh.mesh);
  if (value.getType() != expected) {
    auto diag = op->emitOpError() << "expected the local type " << expected
                                  << ", got " << value.getType();
    diag.attachNote(variable.getLoc()) << "stored as declared here";
    return diag;
  }
  return success();
}

/// Checks that an argument or result, if it is a tensor, has the local type of
/// its global type and its sharding.
static LogicalResult verifyLocalType(func::FuncOp function, StringRef what,
                                     unsigned index, Type type,
                                     Attribute sharding, Attribute global,
                                     MeshRef mesh) {
  if (!isa<RankedTensorType>(type))
    return success();
  auto shardingAttr = dyn_cast_or_null<ShardingAttr>(sharding);
  auto globalAttr = dyn_cast_or_null<TypeAttr>(global);
  if (!shardingAttr || !globalAttr)
    return function.emitOpError()
           << "expected " << what << " " << index << " to have "
           << kShardingAttrName << " and " << kGlobalTypeAttrName;
  auto globalType = dyn_cast<RankedTensorType>(globalAttr.getValue());
  if (!globalType || globalType.getRank() != shardingAttr.getRank())
    return function.emitOpError()
           << "expected the global type of " << what << " " << index
           << " to have " << shardingAttr.getRank() << " dimensions, got "
           << globalAttr;
  Type expected = shardingAttr.getLocalType(globalType, mesh.mesh);
  if (type != expected)
    return function.emitOpError() << "expected " << what << " " << index
                                  << " to be " << expected << ", got " << type;
  return success();
}

static LogicalResult verifyFunction(func::FuncOp function, MeshRef mesh) {
  if (!mesh || function.isExternal() || function.isPrivate())
    return success();
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (failed(verifyLocalType(
            function, "argument", i, function.getArgumentTypes()[i],
            function.getArgAttr(i, kShardingAttrName),
            function.getArgAttr(i, kGlobalTypeAttrName), mesh)))
      return failure();
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (failed(verifyLocalType(
            function, "result", i, function.getResultTypes()[i],
            function.getResultAttr(i, kShardingAttrName),
            function.getResultAttr(i, kGlobalTypeAttrName), mesh)))
      return failure();
  return success();
}

namespace {
struct VerifyLocalizedPass
    : heddle::impl::VerifyLocalizedPassBase<VerifyLocalizedPass> {
  void runOnOperation() override {
    MeshRef mesh = getMesh(getOperation());
    SymbolTableCollection tables;
    WalkResult result = getOperation().walk([&](Operation *op) {
      if (auto function = dyn_cast<func::FuncOp>(op))
        return WalkResult(verifyFunction(function, mesh));
      return WalkResult(verifyOp(op, mesh, tables));
    });
    if (result.wasInterrupted())
      signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
