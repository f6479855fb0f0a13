//===- Boundaries.cpp - Shardings of arguments and results ----------------===//

#include "heddle/Sharding/Boundaries.h"
#include "dialects/Comm/Comm.h"
#include "heddle/Sharding/Pins.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace heddle;

/// Checks that the sharding of an argument or result, if it has one, is over
/// the mesh of the module.
static LogicalResult verifyIsOverMesh(func::FuncOp function, ModuleOp module,
                                      MeshRef mesh, const Twine &what,
                                      Attribute attribute) {
  if (!attribute)
    return success();
  auto sharding = cast<ShardingAttr>(attribute); // HeddleDialect checks it
  if (function->getParentOp() != module.getOperation())
    return function.emitOpError()
           << "has a sharding of " << what
           << ", but is within another module than the one to be partitioned; "
              "move it there, or run the pass on its own module";
  if (!mesh)
    return function.emitOpError()
           << "has a sharding of " << what << " over " << sharding.getMesh()
           << ", but the module has no heddle.mesh";
  if (sharding.getMesh() != mesh.symbol)
    return function.emitOpError()
           << "expected a sharding of " << what << " over " << mesh.symbol
           << ", the mesh of the module, got one over " << sharding.getMesh();
  return success();
}

/// Emits an error for the program of one device, because partitioning would cut
/// its tensors a second time.
static LogicalResult verifyIsGlobal(func::FuncOp function) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (function.getArgAttr(i, kGlobalTypeAttrName))
      return function.emitOpError()
             << "expected a global program, got one device's: argument " << i
             << " has " << kGlobalTypeAttrName;
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (function.getResultAttr(i, kGlobalTypeAttrName))
      return function.emitOpError()
             << "expected a global program, got one device's: result " << i
             << " has " << kGlobalTypeAttrName;
  WalkResult found = function.walk([](Operation *op) {
    if (!isa_and_nonnull<comm::CommDialect>(op->getDialect()))
      return WalkResult::advance();
    op->emitOpError() << "is one device's: expected a global program";
    return WalkResult::interrupt();
  });
  return failure(found.wasInterrupted());
}

static LogicalResult verifyHasOneBlock(func::FuncOp function) {
  if (function.isExternal() || llvm::hasSingleElement(function.getBody()))
    return success();
  return function.emitOpError()
         << "cannot be partitioned: expected one block, got "
         << function.getBody().getBlocks().size()
         << "; turn its branches into scf ops first (--lift-cf-to-scf)";
}

static LogicalResult verifyGlobalProgram(ModuleOp module, MeshRef mesh) {
  auto meshes = module.getOps<MeshOp>();
  if (!meshes.empty() && !llvm::hasSingleElement(meshes))
    return (*std::next(meshes.begin()))->emitOpError()
           << "expected one mesh in a module, got another after " << mesh.symbol
           << "; axes of both can be axes of one";
  for (auto variable : module.getOps<VariableOp>())
    if (ShardingAttr storage = variable.getStorageAttr();
        storage && failed(verifySharding(variable.getLoc(), storage,
                                         variable.getTensorType(), mesh)))
      return failure();
  WalkResult result = module.walk([&](func::FuncOp function) {
    if (failed(verifyIsGlobal(function)) ||
        (mesh && function->getParentOp() == module.getOperation() &&
         failed(verifyHasOneBlock(function))))
      return WalkResult::interrupt();
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (failed(verifyIsOverMesh(function, module, mesh,
                                  "argument " + Twine(i),
                                  function.getArgAttr(i, kShardingAttrName))))
        return WalkResult::interrupt();
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (failed(
              verifyIsOverMesh(function, module, mesh, "result " + Twine(i),
                               function.getResultAttr(i, kShardingAttrName))))
        return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

FailureOr<MeshRef> heddle::getMeshOfGlobalProgram(ModuleOp module) {
  MeshRef mesh = getMesh(module);
  if (failed(verifyGlobalProgram(module, mesh)))
    return failure();
  return mesh;
}
