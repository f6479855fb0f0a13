//===- LocalizeBodies.cpp - Edits of bodies for one device ----------------===//

#include "StructuredBodies.h"
#include "dialects/Interfaces/ScalarBodies.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

Value heddle::mapElements(
    OpBuilder &builder, Location loc, Value tensor,
    function_ref<Value(OpBuilder &, Location, Value element)> body) {
  auto type = cast<RankedTensorType>(tensor.getType());
  Value empty = builder.create<tensor::EmptyOp>(loc, type.getShape(),
                                                type.getElementType());
  AffineMap identity = builder.getMultiDimIdentityMap(type.getRank());
  SmallVector<utils::IteratorType> parallel(type.getRank(),
                                            utils::IteratorType::parallel);
  return builder
      .create<linalg::GenericOp>(
          loc, type, tensor, empty, ArrayRef<AffineMap>{identity, identity},
          parallel,
          [&](OpBuilder &b, Location at, ValueRange arguments) {
            b.create<linalg::YieldOp>(at, body(b, at, arguments[0]));
          })
      .getResult(0);
}

namespace {
/// Edits a body with explicit ops for one device.
class BodyLocalizer {
public:
  BodyLocalizer(Block &body, Localizer &localizer)
      : body(body), localizer(localizer),
        builder(localizer.builder.getContext()),
        loc(body.getParentOp()->getLoc()) {}

  void shiftIndices() {
    for (auto index : llvm::to_vector(body.getOps<linalg::IndexOp>())) {
      if (!localizer.isSplit(index.getDim()))
        continue;
      Value offset = localizer.getOffset(index.getDim());
      builder.setInsertionPointAfter(index);
      auto shifted = builder.create<arith::AddIOp>(index.getLoc(),
                                                   index.getResult(), offset);
      index.getResult().replaceAllUsesExcept(shifted, shifted);
    }
  }

  /// Returns an i1 that is true if the iteration is outside the padding of
  /// `loops`. It is computed once, at the beginning of the body.
  Value isWithin(ArrayRef<std::pair<unsigned, int64_t>> loops) {
    builder.setInsertionPointToStart(&body);
    Value all;
    for (auto [loop, size] : loops) {
      Value at = builder.create<arith::AddIOp>(
          loc, builder.create<linalg::IndexOp>(loc, loop),
          localizer.getOffset(loop));
      Value isIn = builder.create<arith::CmpIOp>(
          loc, arith::CmpIPredicate::slt, at,
          builder.create<arith::ConstantIndexOp>(loc, size));
      all = all ? builder.create<arith::AndIOp>(loc, all, isIn).getResult()
                : isIn;
    }
    return all;
  }

  void select(OpOperand &operand, Value isIn, TypedAttr otherwise) {
    builder.setInsertionPoint(operand.getOwner());
    Value other = builder.create<arith::ConstantOp>(loc, otherwise);
    operand.set(
        builder.create<arith::SelectOp>(loc, isIn, operand.get(), other));
  }

  /// Leaves the accumulators unchanged if `isIn` is false.
  void keepAccumulators(ArrayRef<BlockArgument> accumulators, Value isIn) {
    Operation *end = body.getTerminator();
    builder.setInsertionPoint(end);
    for (auto [operand, accumulator] :
         llvm::zip(end->getOpOperands(), accumulators))
      operand.set(builder.create<arith::SelectOp>(loc, isIn, operand.get(),
                                                  accumulator));
  }

private:
  Block &body;
  Localizer &localizer;
  OpBuilder builder;
  Location loc;
};
} // namespace

/// Returns the op in a form whose body can be edited: a named op becomes a
/// linalg.generic.
static linalg::LinalgOp makeBodyExplicit(Operation *local, OpBuilder &builder) {
  auto op = cast<linalg::LinalgOp>(local);
  if (isa<linalg::GenericOp, linalg::ReduceOp, linalg::MapOp>(local))
    return op;
  IRRewriter rewriter(builder.getContext());
  rewriter.setInsertionPoint(local);
  FailureOr<linalg::GenericOp> generic =
      linalg::generalizeNamedOp(rewriter, op);
  return failed(generic) ? op : cast<linalg::LinalgOp>(generic->getOperation());
}

Operation *heddle::localizeBody(Operation *local, ArrayRef<int64_t> loops,
                                Localizer &localizer,
                                ArrayRef<unsigned> masked) {
  if (local->getNumRegions() == 0 || local->getRegion(0).empty())
    return local;
  SmallVector<std::pair<unsigned, int64_t>> padded, unwanted;
  for (auto [loop, size] : llvm::enumerate(loops))
    if (localizer.isPadded(loop)) {
      padded.push_back({loop, size});
      if (llvm::is_contained(masked, loop))
        unwanted.push_back({loop, size});
    }
  if (!unwanted.empty() || (!padded.empty() && !findTraps(local).empty()))
    local = makeBodyExplicit(local, localizer.builder);
  Block &body = local->getRegion(0).front();
  OpBuilder::InsertionGuard guard(localizer.builder);
  localizer.builder.setInsertionPoint(local); // for its offsets
  BodyLocalizer edit(body, localizer);
  edit.shiftIndices();
  auto traps = findTraps(local);
  if (!padded.empty() && !traps.empty()) {
    Value isIn = edit.isWithin(padded);
    for (const Trap &trap : traps)
      edit.select(*trap.operand, isIn, getHarmless(trap));
  }
  if (!unwanted.empty()) {
    auto op = cast<linalg::LinalgOp>(local);
    if (std::optional<Reduction> reduction = findReduction(op))
      edit.select(*reduction->contribution, edit.isWithin(unwanted),
                  getNeutral(reduction->combiner));
    else
      edit.keepAccumulators(op.getRegionOutputArgs(), edit.isWithin(unwanted));
  }
  return local;
}

Value heddle::guardDivisor(Operation *op, Value divisor, Localizer &localizer) {
  auto type = dyn_cast<RankedTensorType>(divisor.getType());
  SmallVector<std::pair<unsigned, int64_t>> padded;
  if (!type)
    return divisor;
  auto global = cast<RankedTensorType>(op->getOperand(1).getType());
  for (int64_t i = 0; i < type.getRank(); ++i)
    if (localizer.isPadded(i))
      padded.push_back({i, global.getDimSize(i)});
  if (padded.empty())
    return divisor;
  SmallVector<Value> offsets;
  for (auto [factor, size] : padded)
    offsets.push_back(localizer.getOffset(factor));
  return mapElements(
      localizer.builder, op->getLoc(), divisor,
      [&](OpBuilder &b, Location at, Value element) {
        Value one = b.create<arith::ConstantOp>(
            at, b.getIntegerAttr(element.getType(), 1));
        for (auto [dim, offset] : llvm::zip(padded, offsets)) {
          Value place = b.create<arith::AddIOp>(
              at, b.create<linalg::IndexOp>(at, dim.first), offset);
          Value isIn = b.create<arith::CmpIOp>(
              at, arith::CmpIPredicate::slt, place,
              b.create<arith::ConstantIndexOp>(at, dim.second));
          element = b.create<arith::SelectOp>(at, isIn, element, one);
        }
        return element;
      });
}
