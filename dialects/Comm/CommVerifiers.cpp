//===- CommVerifiers.cpp - Constraints of the collectives -----------------===//

#include "dialects/Comm/Comm.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::comm;

/// Returns the number of members. Fails if the mesh or an axis does not exist,
/// if there is no axis, or if an axis is listed twice.
static FailureOr<int64_t> verifyAxes(Operation *op, FlatSymbolRefAttr symbol,
                                     AxisListAttr axes,
                                     SymbolTableCollection &tables) {
  auto mesh = tables.lookupNearestSymbolFrom<MeshOp>(op, symbol);
  if (!mesh)
    return op->emitOpError()
           << "expected " << symbol << " to be a heddle.mesh in this module";
  if (axes.empty())
    return op->emitOpError() << "expected at least one mesh axis";
  for (auto [i, axis] : llvm::enumerate(axes.getAxes())) {
    if (!mesh.getMesh().getAxisSize(axis))
      return op->emitOpError()
             << "expected an axis of " << mesh.getMesh() << ", got " << axis;
    if (llvm::is_contained(axes.getAxes().take_front(i), axis))
      return op->emitOpError()
             << "expected each axis once, got " << axis << " twice";
  }
  return mesh.getMesh().getSize(axes.getAxes());
}

static LogicalResult verifyDim(Operation *op, int64_t dim,
                               RankedTensorType type) {
  if (dim >= 0 && dim < type.getRank())
    return success();
  return op->emitOpError() << "expected a dimension of " << type << ", got "
                           << dim;
}

/// Checks that element types and ranks are equal, and all sizes except those of
/// `dims`.
static LogicalResult verifyOthers(Operation *op, RankedTensorType from,
                                  RankedTensorType to, ArrayRef<int64_t> dims) {
  bool same = from.getRank() == to.getRank() &&
              from.getElementType() == to.getElementType();
  for (int64_t i = 0; same && i < from.getRank(); ++i)
    same =
        llvm::is_contained(dims, i) || from.getDimSize(i) == to.getDimSize(i);
  if (same)
    return success();
  return op->emitOpError() << "expected " << from << " and " << to
                           << " to differ only along the named dimensions";
}

static LogicalResult verifySplit(Operation *op, RankedTensorType whole,
                                 RankedTensorType part, int64_t dim,
                                 int64_t members) {
  int64_t expected = (whole.getDimSize(dim) + members - 1) / members;
  if (part.getDimSize(dim) == expected)
    return success();
  return op->emitOpError() << "expected dimension " << dim << " of " << part
                           << " to have size " << expected << ", "
                           << whole.getDimSize(dim) << " over " << members
                           << " members";
}

bool comm::isContiguous(Operation *op) {
  auto getMembers = [](auto collective) {
    MeshOp mesh = lookupMesh(collective, collective.getMeshAttr());
    return mesh ? mesh.getMesh().getSize(collective.getAxes().getAxes()) : 1;
  };
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case([&](AllGatherOp gather) {
        return gather.getDim() == 0 &&
               gather.getType().getDimSize(0) ==
                   getMembers(gather) *
                       gather.getInput().getType().getDimSize(0);
      })
      .Case([&](ReduceScatterOp scatter) {
        return scatter.getDim() == 0 &&
               scatter.getInput().getType().getDimSize(0) ==
                   getMembers(scatter) * scatter.getType().getDimSize(0);
      })
      .Case([&](AllToAllOp exchange) {
        RankedTensorType type = exchange.getInput().getType();
        return exchange.getSplitDim() == 0 && exchange.getConcatDim() == 1 &&
               type.getDimSize(0) == getMembers(exchange) &&
               type.getDimSize(1) == 1 &&
               exchange.getType().getDimSize(1) == getMembers(exchange);
      })
      .Default(true);
}

LogicalResult comm::verifyContiguous(Operation *op) {
  if (isContiguous(op))
    return success();
  StringRef form =
      isa<AllToAllOp>(op)
          ? "[members, 1, ...] -> [1, members, ...], split 0 concat 1"
          : "dimension 0, and parts that divide it";
  return op->emitOpError() << "expected a contiguous collective (" << form
                           << "); run heddle-pack-collectives";
}

static LogicalResult verifyCollective(Operation *op, FlatSymbolRefAttr mesh,
                                      AxisListAttr axes,
                                      SymbolTableCollection &tables) {
  return success(succeeded(verifyAxes(op, mesh, axes, tables)));
}

LogicalResult AllReduceOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyCollective(*this, getMeshAttr(), getAxes(), tables);
}

LogicalResult AllGatherOp::verifySymbolUses(SymbolTableCollection &tables) {
  FailureOr<int64_t> members =
      verifyAxes(*this, getMeshAttr(), getAxes(), tables);
  if (failed(members))
    return failure();
  RankedTensorType part = getInput().getType(), whole = getType();
  if (failed(verifyDim(*this, getDim(), part)) ||
      failed(verifyOthers(*this, part, whole, getDim())))
    return failure();
  return verifySplit(*this, whole, part, getDim(), *members);
}

LogicalResult ReduceScatterOp::verifySymbolUses(SymbolTableCollection &tables) {
  FailureOr<int64_t> members =
      verifyAxes(*this, getMeshAttr(), getAxes(), tables);
  if (failed(members))
    return failure();
  RankedTensorType whole = getInput().getType(), part = getType();
  if (failed(verifyDim(*this, getDim(), whole)) ||
      failed(verifyOthers(*this, whole, part, getDim())))
    return failure();
  return verifySplit(*this, whole, part, getDim(), *members);
}

LogicalResult AllToAllOp::verifySymbolUses(SymbolTableCollection &tables) {
  FailureOr<int64_t> members =
      verifyAxes(*this, getMeshAttr(), getAxes(), tables);
  if (failed(members))
    return failure();
  RankedTensorType from = getInput().getType(), to = getType();
  int64_t split = getSplitDim(), concat = getConcatDim();
  if (split == concat)
    return emitOpError() << "expected two different dimensions, got " << split
                         << " twice";
  if (failed(verifyDim(*this, split, from)) ||
      failed(verifyDim(*this, concat, from)) ||
      failed(verifyOthers(*this, from, to, {split, concat})))
    return failure();
  if (failed(verifySplit(*this, from, to, split, *members)))
    return failure();
  return verifySplit(*this, to, from, concat, *members);
}

LogicalResult
comm::BroadcastOp::verifySymbolUses(SymbolTableCollection &tables) {
  FailureOr<int64_t> members =
      verifyAxes(*this, getMeshAttr(), getAxes(), tables);
  if (failed(members))
    return failure();
  if ((int64_t)getRoot() < 0 || (int64_t)getRoot() >= *members)
    return emitOpError() << "expected a root below " << *members << ", got "
                         << getRoot();
  return success();
}

LogicalResult PermuteOp::verifySymbolUses(SymbolTableCollection &tables) {
  FailureOr<int64_t> members =
      verifyAxes(*this, getMeshAttr(), getAxes(), tables);
  if (failed(members))
    return failure();
  if ((int64_t)getSources().size() != *members)
    return emitOpError() << "expected " << *members << " sources, got "
                         << getSources().size();
  for (int64_t source : getSources())
    if (source < -1 || source >= *members)
      return emitOpError() << "expected sources from -1 to " << *members - 1
                           << ", got " << source;
  return success();
}

LogicalResult SendOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyCollective(*this, getMeshAttr(), getAxes(), tables);
}

LogicalResult RecvOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyCollective(*this, getMeshAttr(), getAxes(), tables);
}

LogicalResult AxisIndexOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyCollective(*this, getMeshAttr(), getAxes(), tables);
}

LogicalResult SliceOp::verifySymbolUses(SymbolTableCollection &tables) {
  FailureOr<int64_t> members =
      verifyAxes(*this, getMeshAttr(), getAxes(), tables);
  if (failed(members))
    return failure();
  auto whole = cast<RankedTensorType>(getInput().getType());
  auto part = cast<RankedTensorType>(getType());
  if (failed(verifyDim(*this, getDim(), whole)) ||
      failed(verifyOthers(*this, whole, part, getDim())))
    return failure();
  return verifySplit(*this, whole, part, getDim(), *members);
}

LogicalResult StartOp::verify() {
  int32_t stream = getStream();
  if (stream <= kComputeStream || stream >= kMaxStreams)
    return emitOpError() << "expected a stream from 1 to " << kMaxStreams - 1
                         << ", got " << stream;
  Block &block = getBody().front();
  if (block.getOperations().size() != 2)
    return emitOpError() << "expected one collective and a yield, got "
                         << block.getOperations().size() << " ops";
  auto yield = dyn_cast<YieldOp>(block.back());
  if (!yield || !block.front().hasTrait<Collective>() ||
      yield.getValue().getDefiningOp() != &block.front())
    return emitOpError() << "expected one collective whose result is yielded";
  if (yield.getValue().getType() != getToken().getType().getValue())
    return emitOpError() << "expected a token of " << yield.getValue().getType()
                         << ", got " << getToken().getType();
  return success();
}
