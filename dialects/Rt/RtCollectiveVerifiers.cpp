//===- RtCollectiveVerifiers.cpp - Constraints of collectives -------------===//

#include "dialects/Rt/Rt.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::rt;

/// Returns the number of members. Fails if the mesh or an axis does not exist.
static FailureOr<int64_t> verifyGroup(Operation *op, FlatSymbolRefAttr symbol,
                                      AxisListAttr axes,
                                      SymbolTableCollection &tables) {
  auto mesh = tables.lookupNearestSymbolFrom<MeshOp>(op, symbol);
  if (!mesh)
    return op->emitOpError()
           << "expected " << symbol << " to be a heddle.mesh in this module";
  for (StringAttr axis : axes.getAxes())
    if (!mesh.getMesh().getAxisSize(axis))
      return op->emitOpError()
             << "expected an axis of " << mesh.getMesh() << ", got " << axis;
  return mesh.getMesh().getSize(axes.getAxes());
}

template <typename OpTy>
static LogicalResult verifyEqual(OpTy op, SymbolTableCollection &tables) {
  if (failed(verifyGroup(op, op.getMeshAttr(), op.getAxes(), tables)))
    return failure();
  if (op.getIn().getType() != op.getOut().getType())
    return op.emitOpError()
           << "expected equal types, got " << op.getIn().getType() << " and "
           << op.getOut().getType();
  return success();
}

template <typename OpTy> static LogicalResult verifySeparate(OpTy op) {
  if (!op.getIn().overlaps(op.getOut()))
    return success();
  return op.emitOpError() << "expected in and out not to overlap";
}

/// Checks that `whole` holds one run of memory of the size of `part` for each
/// member, and that the two do not overlap.
template <typename OpTy>
static LogicalResult verifyRuns(OpTy op, BufferAttr whole, BufferAttr part,
                                SymbolTableCollection &tables) {
  FailureOr<int64_t> members =
      verifyGroup(op, op.getMeshAttr(), op.getAxes(), tables);
  if (failed(members))
    return failure();
  RankedTensorType w = whole.getType(), p = part.getType();
  if (w.getElementType() == p.getElementType() &&
      w.getNumElements() == *members * p.getNumElements())
    return verifySeparate(op);
  return op.emitOpError() << "expected " << w << " to have the elements of "
                          << *members << " members' " << p;
}

LogicalResult rt::AllReduceOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyEqual(*this, tables);
}
LogicalResult rt::BroadcastOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyEqual(*this, tables);
}
LogicalResult rt::PermuteOp::verifySymbolUses(SymbolTableCollection &tables) {
  return success(succeeded(verifyEqual(*this, tables)) &&
                 succeeded(verifySeparate(*this)));
}
LogicalResult rt::AllGatherOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyRuns(*this, getOut(), getIn(), tables);
}
LogicalResult
rt::ReduceScatterOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyRuns(*this, getIn(), getOut(), tables);
}

LogicalResult rt::AllToAllOp::verifySymbolUses(SymbolTableCollection &tables) {
  FailureOr<int64_t> members =
      verifyGroup(*this, getMeshAttr(), getAxes(), tables);
  if (failed(members))
    return failure();
  RankedTensorType in = getIn().getType(), out = getOut().getType();
  if (in.getElementType() == out.getElementType() &&
      in.getNumElements() == out.getNumElements() &&
      in.getNumElements() % *members == 0)
    return verifySeparate(*this);
  return emitOpError() << "expected " << in << " and " << out
                       << " to have equally many elements, a multiple of "
                       << *members << " members";
}

LogicalResult rt::SendOp::verifySymbolUses(SymbolTableCollection &tables) {
  return success(
      succeeded(verifyGroup(*this, getMeshAttr(), getAxes(), tables)));
}
LogicalResult rt::RecvOp::verifySymbolUses(SymbolTableCollection &tables) {
  return success(
      succeeded(verifyGroup(*this, getMeshAttr(), getAxes(), tables)));
}
