//===- PackCollectives.cpp - heddle-pack-collectives ----------------------===//
//
// Makes collectives contiguous: each member then exchanges one run of memory
// with each other member. With P members, a = A / P and b = B / P (rounded up):
//
//   all_gather, dim 1:     [x, b] -> all_gather -> [P x, b] = [P, x, b]
//                          -> [x, P, b] = [x, P b] -> slice [x, B]
//   reduce_scatter, dim 1: [x, A] -> pad [x, P a] = [x, P, a] -> [P, x, a]
//                          = [P x, a] -> reduce_scatter -> [x, a]
//   all_to_all:            [b, A] -> pad [b, P a] = [b, P, a] -> [P, b, a]
//                          = [P, 1, b, a] -> all_to_all -> [1, P, b, a]
//                          = [P b, a] -> slice [B, a]
//
//===----------------------------------------------------------------------===//

#include "Dimensions.h"
#include "dialects/Comm/Comm.h"
#include "heddle/Shard/Passes.h"
#include "heddle/Support/Rows.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "llvm/ADT/TypeSwitch.h"

namespace heddle {
#define GEN_PASS_DEF_PACKCOLLECTIVESPASS
#include "heddle/Shard/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {

/// Packs one collective.
class Packer {
public:
  Packer(Operation *op, int64_t members)
      : builder(op), loc(op->getLoc()), members(members) {}

  template <typename OpTy> void run(OpTy op);

private:
  /// Return the operand of the contiguous collective.
  Value prepare(comm::AllGatherOp op) { return op.getInput(); }
  Value prepare(comm::ReduceScatterOp op);
  Value prepare(comm::AllToAllOp op);
  /// Return the result of the contiguous collective.
  Value issue(comm::AllGatherOp op, Value packed);
  Value issue(comm::ReduceScatterOp op, Value packed);
  Value issue(comm::AllToAllOp op, Value packed);
  /// Return the result of `op`, made from that of the contiguous collective.
  Value finish(comm::AllGatherOp op, Value received);
  Value finish(comm::ReduceScatterOp, Value received) { return received; }
  Value finish(comm::AllToAllOp op, Value received);

  /// Returns `value` with the members as its new first dimension and `part`
  /// rows, those of one member, along `dim`.
  Value pack(Value value, int64_t dim, int64_t part);
  /// Reverses `pack`: merges the members' parts to `size` rows along `dim`.
  Value unpack(Value value, int64_t dim, int64_t size);
  Value cutEnd(Value value, int64_t dim, int64_t size);

  OpBuilder builder;
  Location loc;
  int64_t members;
};

} // namespace

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

static int64_t getSize(Value value, int64_t dim) {
  return cast<RankedTensorType>(value.getType()).getDimSize(dim);
}

Value Packer::cutEnd(Value value, int64_t dim, int64_t size) {
  if (getSize(value, dim) == size)
    return value;
  return extractRows(builder, loc, value, dim, builder.getIndexAttr(0), size);
}

Value Packer::pack(Value value, int64_t dim, int64_t part) {
  value = padEnd(builder, loc, value, dim, members * part);
  value = splitDimension(builder, loc, value, dim, {members, part});
  return moveDimension(builder, loc, value, dim, 0);
}

Value Packer::unpack(Value value, int64_t dim, int64_t size) {
  value = moveDimension(builder, loc, value, 0, dim);
  value = mergeDimensions(builder, loc, value, dim, 2);
  return cutEnd(value, dim, size);
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

Value Packer::issue(comm::AllGatherOp op, Value packed) {
  auto type = cast<RankedTensorType>(packed.getType());
  return builder.create<comm::AllGatherOp>(
      loc, withSize(type, 0, members * type.getDimSize(0)), packed,
      op.getMeshAttr(), op.getAxesAttr(), builder.getI64IntegerAttr(0));
}

Value Packer::finish(comm::AllGatherOp op, Value received) {
  int64_t dim = op.getDim(), size = op.getType().getDimSize(dim);
  if (dim == 0)
    return cutEnd(received, dim, size);
  int64_t rows = getSize(op.getInput(), 0);
  return unpack(splitDimension(builder, loc, received, 0, {members, rows}), dim,
                size);
}

Value Packer::prepare(comm::ReduceScatterOp op) {
  int64_t dim = op.getDim(), part = op.getType().getDimSize(dim);
  if (dim == 0)
    return padEnd(builder, loc, op.getInput(), dim, members * part);
  return mergeDimensions(builder, loc, pack(op.getInput(), dim, part), 0, 2);
}

Value Packer::issue(comm::ReduceScatterOp op, Value packed) {
  return builder.create<comm::ReduceScatterOp>(
      loc, op.getType(), packed, op.getMeshAttr(), op.getAxesAttr(),
      op.getKindAttr(), builder.getI64IntegerAttr(0));
}

Value Packer::prepare(comm::AllToAllOp op) {
  int64_t dim = op.getSplitDim();
  Value packed = pack(op.getInput(), dim, op.getType().getDimSize(dim));
  return splitDimension(builder, loc, packed, 0, {members, 1});
}

Value Packer::issue(comm::AllToAllOp op, Value packed) {
  auto type = cast<RankedTensorType>(packed.getType());
  SmallVector<int64_t> shape(type.getShape());
  std::swap(shape[0], shape[1]);
  return builder.create<comm::AllToAllOp>(
      loc, type.clone(shape), packed, op.getMeshAttr(), op.getAxesAttr(),
      builder.getI64IntegerAttr(0), builder.getI64IntegerAttr(1));
}

Value Packer::finish(comm::AllToAllOp op, Value received) {
  int64_t dim = op.getConcatDim();
  return unpack(mergeDimensions(builder, loc, received, 0, 2), dim,
                op.getType().getDimSize(dim));
}

template <typename OpTy> void Packer::run(OpTy op) {
  auto start = dyn_cast<comm::StartOp>(op->getParentOp());
  if (!start) {
    Value received = issue(op, prepare(op));
    op.getResult().replaceAllUsesWith(finish(op, received));
    op.erase();
    return;
  }
  // Packs before the start, and unpacks behind the wait.
  builder.setInsertionPoint(start);
  Value packed = prepare(op);
  builder.setInsertionPoint(op);
  Value received = issue(op, packed);
  auto type = cast<RankedTensorType>(received.getType());
  start.getToken().setType(comm::TokenType::get(type.getContext(), type));
  for (Operation *user : start->getUsers()) {
    auto wait = cast<comm::WaitOp>(user);
    SmallVector<OpOperand *> uses =
        llvm::to_vector(llvm::make_pointer_range(wait.getResult().getUses()));
    wait.getResult().setType(type);
    builder.setInsertionPointAfter(wait);
    Value finished = finish(op, wait.getResult());
    for (OpOperand *use : uses)
      use->set(finished);
  }
  op.getResult().replaceAllUsesWith(received);
  op.erase();
}

namespace {
struct PackCollectivesPass
    : heddle::impl::PackCollectivesPassBase<PackCollectivesPass> {
  void runOnOperation() override {
    SmallVector<Operation *> collectives;
    getOperation().walk([&](Operation *op) {
      if (!comm::isContiguous(op))
        collectives.push_back(op);
    });
    for (Operation *op : collectives)
      llvm::TypeSwitch<Operation *>(op)
          .Case<comm::AllGatherOp, comm::ReduceScatterOp, comm::AllToAllOp>(
              [](auto collective) {
                MeshOp mesh = lookupMesh(collective, collective.getMeshAttr());
                int64_t members =
                    mesh.getMesh().getSize(collective.getAxes().getAxes());
                Packer(collective, members).run(collective);
              });
  }
};
} // namespace
