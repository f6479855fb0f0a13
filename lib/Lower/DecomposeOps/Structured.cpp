//===- Structured.cpp - Structured ops in the form that kernels take ------===//
//
// Foreign programs have structured ops of any form. Kernels accept
// linalg.generic ops whose parallel loops come first, in the order of the
// result. Such an op overwrites its result, and its reductions start from a
// constant.
//
//===----------------------------------------------------------------------===//

#include "Decomposer.h"
#include "GenericForm.h"
#include "dialects/Interfaces/ScalarBodies.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Affine/Utils.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

/// Makes a generic op without reductions read the tensors that it overwrites as
/// operands, if its body uses their elements.
static linalg::GenericOp readInitsAsInputs(RewriterBase &rewriter,
                                           linalg::GenericOp op) {
  SmallVector<Value> inputs(op.getInputs()), outputs;
  SmallVector<AffineMap> all = op.getIndexingMapsArray(), maps(all);
  maps.truncate(inputs.size());
  SmallVector<unsigned> used; // positions among the outputs
  for (OpOperand &init : op.getDpsInitsMutable())
    if (op.payloadUsesValueFromOperand(&init)) {
      used.push_back(init.getOperandNumber() - op.getInputs().size());
      inputs.push_back(init.get());
      maps.push_back(op.getMatchingIndexingMap(&init));
    }
  if (used.empty())
    return op;
  maps.append(all.begin() + op.getInputs().size(), all.end());
  rewriter.setInsertionPoint(op);
  for (Value output : op.getOutputs()) {
    auto type = cast<RankedTensorType>(output.getType());
    outputs.push_back(rewriter.create<tensor::EmptyOp>(
        op.getLoc(), type.getShape(), type.getElementType()));
  }
  auto separate = rewriter.create<linalg::GenericOp>(
      op.getLoc(), op.getResultTypes(), inputs, outputs, maps,
      op.getIteratorTypesArray(),
      [&](OpBuilder &b, Location, ValueRange arguments) {
        IRMapping mapping;
        Block &body = *op.getBody();
        unsigned numInputs = op.getInputs().size();
        for (unsigned i = 0; i < numInputs; ++i)
          mapping.map(body.getArgument(i), arguments[i]);
        for (auto [i, output] : llvm::enumerate(used))
          mapping.map(body.getArgument(numInputs + output),
                      arguments[numInputs + i]);
        for (Operation &inner : body)
          b.clone(inner, mapping);
      });
  rewriter.replaceOp(op, separate);
  return separate;
}

/// Combines two results of a reduction. If the combiner is a subtraction, each
/// result is a negated sum (0 - a - b), so the two are added.
static Value combine(OpBuilder &b, Operation *combiner, Value x, Value y) {
  Location loc = combiner->getLoc();
  if (isa<arith::SubFOp>(combiner))
    return b.create<arith::AddFOp>(loc, x, y);
  if (isa<arith::SubIOp>(combiner))
    return b.create<arith::AddIOp>(loc, x, y);
  Operation *both = b.clone(*combiner);
  both->setOperands({x, y});
  return both->getResult(0);
}

/// Returns the op of the body that combines with the accumulator of a result.
/// Null if the body has no such op or the op has no neutral element.
static Operation *findCombiner(linalg::GenericOp op, unsigned result) {
  SmallVector<Operation *, 4> combiners;
  BlockArgument accumulator = op.getRegionOutputArgs()[result];
  if (!matchReduction(op.getRegionOutputArgs(), result, combiners) ||
      combiners.size() != 1 || !getNeutral(combiners[0]))
    return nullptr;
  // x - accumulator would change the accumulator's sign in every iteration.
  if (isa<arith::SubFOp, arith::SubIOp>(combiners[0]) &&
      combiners[0]->getOperand(0) != accumulator)
    return nullptr;
  return combiners[0];
}

static Value fill(RewriterBase &rewriter, Location loc, RankedTensorType type,
                  TypedAttr element) {
  Value empty = rewriter.create<tensor::EmptyOp>(loc, type.getShape(),
                                                 type.getElementType());
  Value scalar = rewriter.create<arith::ConstantOp>(loc, element);
  return rewriter.create<linalg::FillOp>(loc, scalar, empty).getResult(0);
}

/// Starts the reduction from the combiner's neutral element, and combines its
/// result with the given start afterwards.
static void combineWithStart(RewriterBase &rewriter, linalg::GenericOp op,
                             unsigned result, Operation *combiner) {
  Location loc = op.getLoc();
  Value start = op.getOutputs()[result];
  auto type = cast<RankedTensorType>(start.getType());
  rewriter.setInsertionPoint(op);
  Value filled = fill(rewriter, loc, type, getNeutral(combiner));
  rewriter.modifyOpInPlace(op,
                           [&] { op.getOutputsMutable()[result].set(filled); });
  rewriter.setInsertionPointAfter(op);
  AffineMap map = rewriter.getMultiDimIdentityMap(type.getRank());
  SmallVector<utils::IteratorType> parallel(type.getRank(),
                                            utils::IteratorType::parallel);
  Value empty = rewriter.create<tensor::EmptyOp>(loc, type.getShape(),
                                                 type.getElementType());
  auto combined = rewriter.create<linalg::GenericOp>(
      loc, TypeRange{type}, ValueRange{start, op->getResult(result)},
      ValueRange{empty}, ArrayRef<AffineMap>{map, map, map}, parallel,
      [&](OpBuilder &b, Location at, ValueRange arguments) {
        b.create<linalg::YieldOp>(
            at, combine(b, combiner, arguments[0], arguments[1]));
      });
  rewriter.replaceAllUsesExcept(op->getResult(result), combined.getResult(0),
                                combined);
}

/// Makes the first iteration read the given start in place of the accumulator.
/// This is correct for any body.
static linalg::GenericOp readStart(RewriterBase &rewriter, linalg::GenericOp op,
                                   unsigned result) {
  Location loc = op.getLoc();
  OpOperand &init = op.getDpsInitsMutable()[result];
  auto type = cast<RankedTensorType>(init.get().getType());
  Type element = type.getElementType();
  SmallVector<Value> inputs(op.getInputs()), outputs(op.getOutputs());
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  unsigned position = inputs.size();
  maps.insert(maps.begin() + position, op.getMatchingIndexingMap(&init));
  inputs.push_back(init.get());
  rewriter.setInsertionPoint(op);
  outputs[result] = fill(rewriter, loc, type, rewriter.getZeroAttr(element));
  auto reading = rewriter.create<linalg::GenericOp>(
      loc, op.getResultTypes(), inputs, outputs,
      rewriter.getAffineMapArrayAttr(maps), op.getIteratorTypes(),
      op.getDocAttr(), op.getLibraryCallAttr());
  rewriter.inlineRegionBefore(op.getRegion(), reading.getRegion(),
                              reading.getRegion().begin());
  Block &body = *reading.getBody();
  Value start = body.insertArgument(position, element, loc);
  BlockArgument accumulator = reading.getRegionOutputArgs()[result];
  rewriter.setInsertionPointToStart(&body);
  Value zero = rewriter.create<arith::ConstantIndexOp>(loc, 0), isFirst;
  SmallVector<unsigned> loops;
  reading.getReductionDims(loops);
  for (unsigned loop : loops) {
    Value isZero = rewriter.create<arith::CmpIOp>(
        loc, arith::CmpIPredicate::eq,
        rewriter.create<linalg::IndexOp>(loc, loop), zero);
    isFirst =
        isFirst
            ? rewriter.create<arith::AndIOp>(loc, isFirst, isZero).getResult()
            : isZero;
  }
  auto chosen =
      rewriter.create<arith::SelectOp>(loc, isFirst, start, accumulator);
  rewriter.replaceAllUsesExcept(accumulator, chosen.getResult(), chosen);
  rewriter.replaceOp(op, reading);
  return reading;
}

/// Returns the element that a splat constant repeats. Null if `value` is no
/// splat or is complex.
static TypedAttr getConstantSplat(Value value) {
  SplatElementsAttr elements;
  if (!matchPattern(value, m_Constant(&elements)))
    return {};
  return dyn_cast<TypedAttr>(elements.getSplatValue<Attribute>());
}

/// Returns whether the combiner is a minimum or maximum. For these, combining
/// the start a second time changes nothing.
static bool isExtremum(Operation *combiner) {
  return isa<arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp,
             arith::MinNumFOp, arith::MaxSIOp, arith::MinSIOp, arith::MaxUIOp,
             arith::MinUIOp>(combiner);
}

/// Makes every reduction start from a constant.
///
/// A minimum or maximum keeps a constant start. If the start were combined
/// afterwards, it would be lost: upstream folds maxnumf(x, -infinity) to x,
/// which is wrong where x is NaN. Sums are more exact from zero.
static void startFromConstant(RewriterBase &rewriter, linalg::GenericOp op) {
  for (unsigned i = 0; i < op.getNumDpsInits(); ++i) {
    Value start = op.getOutputs()[i];
    auto filled = start.getDefiningOp<linalg::FillOp>();
    if (filled && matchPattern(filled.getInputs()[0], m_Constant()))
      continue;
    Operation *combiner = findCombiner(op, i);
    TypedAttr number = getConstantSplat(start);
    if (combiner && number &&
        (isExtremum(combiner) || number == getNeutral(combiner))) {
      rewriter.setInsertionPoint(op);
      Value same = fill(rewriter, op.getLoc(),
                        cast<RankedTensorType>(start.getType()), number);
      rewriter.modifyOpInPlace(op,
                               [&] { op.getOutputsMutable()[i].set(same); });
    } else if (combiner) {
      combineWithStart(rewriter, op, i, combiner);
    } else {
      op = readStart(rewriter, op, i);
    }
  }
}

/// Removes the dimensions of results whose map is the constant 0. For a sum
/// that keeps its dimension, (i, j, k) -> (i, 0) becomes (i, j, k) -> (i). A
/// reshape after the op adds the dimensions of size 1 again.
static linalg::GenericOp dropConstantDims(RewriterBase &rewriter,
                                          linalg::GenericOp op) {
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  SmallVector<Value> inits(op.getOutputs());
  SmallVector<SmallVector<ReassociationIndices>> kept(inits.size());
  bool changed = false;
  for (auto [i, init] : llvm::enumerate(inits)) {
    AffineMap &map = maps[op.getInputs().size() + i];
    llvm::SmallBitVector zeros(map.getNumResults());
    for (auto [dim, expr] : llvm::enumerate(map.getResults()))
      zeros[dim] = isa<AffineConstantExpr>(expr) &&
                   cast<RankedTensorType>(init.getType()).getDimSize(dim) == 1;
    // If every dimension would be dropped, the result has one element and
    // stays.
    if (zeros.none() || zeros.all())
      continue;
    // Each group is a kept dimension with the dropped ones before it. The last
    // group also has the dropped dimensions after it.
    ReassociationIndices group;
    for (unsigned dim = 0; dim < zeros.size(); ++dim) {
      group.push_back(dim);
      if (!zeros[dim])
        kept[i].push_back(std::exchange(group, {}));
    }
    kept[i].back().append(group);
    auto type = cast<RankedTensorType>(init.getType());
    SmallVector<int64_t> shape;
    SmallVector<AffineExpr> exprs;
    for (unsigned dim = 0; dim < zeros.size(); ++dim)
      if (!zeros[dim]) {
        shape.push_back(type.getDimSize(dim));
        exprs.push_back(map.getResult(dim));
      }
    map = AffineMap::get(map.getNumDims(), 0, exprs, op.getContext());
    rewriter.setInsertionPoint(op);
    if (auto fill = init.getDefiningOp<linalg::FillOp>()) {
      Value empty = rewriter.create<tensor::EmptyOp>(op.getLoc(), shape,
                                                     type.getElementType());
      inits[i] =
          rewriter
              .create<linalg::FillOp>(op.getLoc(), fill.getInputs()[0], empty)
              .getResult(0);
    } else if (init.getDefiningOp<tensor::EmptyOp>()) {
      inits[i] = rewriter.create<tensor::EmptyOp>(op.getLoc(), shape,
                                                  type.getElementType());
    } else {
      inits[i] =
          rewriter.create<tensor::CollapseShapeOp>(op.getLoc(), init, kept[i]);
    }
    changed = true;
  }
  if (!changed)
    return op;
  SmallVector<Type> types(ValueRange(inits).getTypes());
  auto smaller = rewriter.create<linalg::GenericOp>(
      op.getLoc(), types, op.getInputs(), inits,
      rewriter.getAffineMapArrayAttr(maps), op.getIteratorTypes(),
      op.getDocAttr(), op.getLibraryCallAttr());
  rewriter.inlineRegionBefore(op.getRegion(), smaller.getRegion(),
                              smaller.getRegion().begin());
  SmallVector<Value> results;
  rewriter.setInsertionPointAfter(smaller);
  for (auto [i, result] : llvm::enumerate(smaller.getResults()))
    if (kept[i].empty())
      results.push_back(result);
    else
      results.push_back(rewriter.create<tensor::ExpandShapeOp>(
          op.getLoc(), op.getResult(i).getType(), result, kept[i]));
  rewriter.replaceOp(op, results);
  return smaller;
}

/// Emits an error if the op reads a tensor.empty, whose elements are undefined.
static LogicalResult expectDefined(linalg::GenericOp op) {
  for (OpOperand &operand : op->getOpOperands())
    if (operand.get().getDefiningOp<tensor::EmptyOp>() &&
        op.payloadUsesValueFromOperand(&operand))
      return op.emitOpError()
             << "reads the elements of operand " << operand.getOperandNumber()
             << ", a tensor.empty, which are undefined; linalg.fill it first";
  return success();
}

/// Expands affine.apply ops in the body into arithmetic. Reordering the loops
/// leaves such ops behind.
static void expandIndexMaps(RewriterBase &rewriter, linalg::GenericOp op) {
  for (auto apply : llvm::to_vector(op.getOps<affine::AffineApplyOp>())) {
    rewriter.setInsertionPoint(apply);
    std::optional<SmallVector<Value, 8>> results =
        affine::expandAffineMap(rewriter, apply.getLoc(), apply.getAffineMap(),
                                llvm::to_vector<8>(apply.getOperands()));
    if (results)
      rewriter.replaceOp(apply, *results);
  }
}

LogicalResult lower::normalizeStructured(RewriterBase &rewriter,
                                         linalg::LinalgOp op) {
  FailureOr<linalg::GenericOp> form = makeGeneric(rewriter, op);
  if (failed(form) || failed(expectDefined(*form)))
    return failure();
  linalg::GenericOp generic = *form;
  generic = dropConstantDims(rewriter, generic);
  AffineMap result =
      generic.getMatchingIndexingMap(generic.getDpsInitOperand(0));
  if (!result.isProjectedPermutation())
    return generic->emitOpError()
           << "expected the result's indexing map to be a projected "
              "permutation, got "
           << AffineMapAttr::get(result)
           << "; write it as an op whose loops run over the result";
  SmallVector<unsigned> order;
  for (AffineExpr expr : result.getResults())
    order.push_back(cast<AffineDimExpr>(expr).getPosition());
  for (unsigned dim = 0; dim < generic.getNumLoops(); ++dim)
    if (!llvm::is_contained(order, dim))
      order.push_back(dim);
  if (!llvm::is_sorted(order)) {
    rewriter.setInsertionPoint(generic);
    FailureOr<linalg::GenericOp> sorted =
        linalg::interchangeGenericOp(rewriter, generic, order);
    if (failed(sorted))
      return generic->emitOpError() << "could not reorder the loops";
    generic = *sorted;
  }
  expandIndexMaps(rewriter, generic);
  if (generic.getNumReductionLoops() == 0) {
    readInitsAsInputs(rewriter, generic);
    return success();
  }
  startFromConstant(rewriter, generic);
  return success();
}
