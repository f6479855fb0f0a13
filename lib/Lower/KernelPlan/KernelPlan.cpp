//===- KernelPlan.cpp - The loops of a kernel and its values --------------===//

#include "KernelPlan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

//===----------------------------------------------------------------------===//
// Accesses
//===----------------------------------------------------------------------===//

static SmallVector<int64_t> stridesOf(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (int64_t dim = shape.size() - 1; dim >= 0; --dim) {
    strides[dim] = stride;
    stride *= shape[dim];
  }
  return strides;
}

FailureOr<std::pair<int64_t, SmallVector<int64_t>>>
lower::linearize(AffineMap map, ArrayRef<int64_t> shape) {
  bool divides = false;
  map.walkExprs([&](AffineExpr expr) {
    divides |= expr.getKind() == AffineExprKind::Mod ||
               expr.getKind() == AffineExprKind::FloorDiv ||
               expr.getKind() == AffineExprKind::CeilDiv;
  });
  if (divides)
    return failure();
  SmallVector<int64_t> strides = stridesOf(shape);
  auto offsetAt = [&](ArrayRef<int64_t> point) {
    int64_t offset = 0;
    for (auto [index, stride] : llvm::zip(map.compose(point), strides))
      offset += index * stride;
    return offset;
  };
  SmallVector<int64_t> point(map.getNumDims(), 0);
  int64_t constant = offsetAt(point);
  SmallVector<int64_t> coefficients;
  for (unsigned dim = 0; dim < map.getNumDims(); ++dim) {
    point[dim] = 1;
    coefficients.push_back(offsetAt(point) - constant);
    point[dim] = 0;
  }
  return std::make_pair(constant, coefficients);
}

SmallVector<std::pair<Value, bool>> lower::getExtracted(Operation *op,
                                                        int64_t rowDims) {
  SmallVector<std::pair<Value, bool>> result;
  op->walk([&](tensor::ExtractOp extract) {
    bool aligned = (int64_t)extract.getIndices().size() >= rowDims;
    for (int64_t dim = 0; aligned && dim < rowDims; ++dim) {
      auto index = extract.getIndices()[dim].getDefiningOp<linalg::IndexOp>();
      aligned = index && (int64_t)index.getDim() == dim;
    }
    result.push_back({extract.getTensor(), aligned});
  });
  return result;
}

ValueRange Statement::getInputs() const {
  if (auto generic = dyn_cast<linalg::GenericOp>(op))
    return generic.getInputs();
  return op->getOperands();
}

int64_t KernelPlan::numUnits() const {
  int64_t result = 1;
  for (int64_t extent : units)
    result *= extent;
  return result;
}

int64_t KernelPlan::resultIndex(Value value) const {
  Operation *terminator = kernel.getBody().front().getTerminator();
  for (auto [i, result] : llvm::enumerate(terminator->getOperands()))
    if (result == value)
      return i;
  return -1;
}

//===----------------------------------------------------------------------===//
// Statements
//===----------------------------------------------------------------------===//

/// Returns the cost of an op's body, where an addition costs 1. This rough
/// measure decides which values are computed again and how many iterations are
/// worth a thread.
static int64_t getCost(Operation *op) {
  int64_t cost = 0;
  op->walk([&](Operation *inner) {
    if (isa<math::AbsFOp, math::FmaOp>(inner))
      cost += 1;
    else if (isa_and_nonnull<math::MathDialect>(inner->getDialect()))
      cost += 16;
    else if (isa<arith::DivFOp>(inner))
      cost += 6;
    else if (isa<tensor::ExtractOp>(inner))
      cost += 8;
    else if (!isa<arith::ConstantOp, arith::ExtFOp, arith::TruncFOp,
                  linalg::IndexOp, linalg::YieldOp, linalg::GenericOp>(inner))
      cost += 1;
  });
  return cost;
}

static Access split(Value value, int64_t constant, ArrayRef<int64_t> all,
                    int64_t rowDims) {
  Access access{value, constant, {}, {}};
  access.rows.assign(all.begin(), all.begin() + rowDims);
  access.loops.assign(all.begin() + rowDims, all.end());
  return access;
}

LogicalResult KernelPlan::addGeneric(linalg::GenericOp op) {
  Statement statement;
  statement.op = op;
  statement.cost = getCost(op);
  statement.usesIndex = op.hasIndexSemantics();
  SmallVector<int64_t> ranges = op.getStaticLoopRanges();
  int64_t parallel = 0;
  for (utils::IteratorType type : op.getIteratorTypesArray()) {
    if (type == utils::IteratorType::parallel)
      ++parallel;
    else
      statement.kind = StatementKind::Reduce;
  }
  if (parallel < rowDims)
    return op.emitOpError()
           << "expected at least " << rowDims
           << " parallel loops, the rows of the kernel, got " << parallel;
  if (units.empty() && rowDims > 0)
    units.assign(ranges.begin(), ranges.begin() + rowDims);
  for (int64_t dim = 0; dim < rowDims; ++dim)
    if (ranges[dim] != units[dim])
      return op.emitOpError()
             << "expected " << units[dim] << " rows in dimension " << dim
             << " as in the rest of the kernel, got " << ranges[dim];
  for (auto [i, type] : llvm::enumerate(op.getIteratorTypesArray()))
    if ((type == utils::IteratorType::parallel) != ((int64_t)i < parallel))
      return op.emitOpError() << "expected parallel loops before reductions";
  statement.loops.assign(ranges.begin() + rowDims, ranges.end());
  statement.firstReduced = parallel - rowDims;

  for (OpOperand &operand : op->getOpOperands()) {
    AffineMap map = op.getMatchingIndexingMap(&operand);
    auto type = dyn_cast<RankedTensorType>(operand.get().getType());
    if (!type || !type.hasStaticShape())
      return op.emitOpError() << "expected operands to be static tensors, got "
                              << operand.get().getType();
    auto form = linearize(map, type.getShape());
    if (failed(form))
      return op.emitOpError() << "expected linear indexing maps, got "
                              << AffineMapAttr::get(map);
    Access access = split(operand.get(), form->first, form->second, rowDims);
    if (op.isDpsInput(&operand)) {
      statement.reads.push_back(access);
      continue;
    }
    if (!map.isProjectedPermutation() ||
        (int64_t)map.getNumResults() != parallel || !map.isMinorIdentity())
      if (map != AffineMap::getMultiDimIdentityMap(parallel, op.getContext()) &&
          !llvm::all_of(llvm::enumerate(map.getResults()), [](auto result) {
            auto dim = dyn_cast<AffineDimExpr>(result.value());
            return dim && dim.getPosition() == result.index();
          }))
        return op.emitOpError() << "expected results indexed by the parallel "
                                   "loops in order, got "
                                << AffineMapAttr::get(map);
    access.value = op.getTiedOpResult(&operand);
    statement.writes.push_back(access);
    if (statement.kind == StatementKind::Reduce) {
      auto fill = operand.get().getDefiningOp<linalg::FillOp>();
      if (!fill || !matchPattern(fill.getInputs()[0], m_Constant()))
        return op.emitOpError() << "expected a reduction to start from a "
                                   "constant of linalg.fill";
    } else if (op.payloadUsesValueFromOperand(&operand)) {
      return op.emitOpError() << "expected no use of the initial value";
    }
  }
  for (OpResult result : op->getResults())
    producer[result] = statements.size();
  statements.push_back(statement);
  return success();
}

LogicalResult KernelPlan::addReduceBlocks(ReduceBlocksOp op) {
  ArrayRef<int64_t> shape = op.getX().getType().getShape();
  if ((int64_t)op.getRowDims() != rowDims)
    return op.emitOpError() << "expected the kernel's " << rowDims
                            << " row dimensions, got " << op.getRowDims();
  if (units.empty())
    units.assign(shape.begin(), shape.begin() + rowDims);
  if (ArrayRef<int64_t>(units) != shape.take_front(rowDims))
    return op.emitOpError() << "expected the kernel's rows";
  if (blockUnits != 1 && blockUnits != (int64_t)op.getBlock())
    return op.emitOpError()
           << "expected blocks of " << blockUnits
           << " rows as in the rest of the kernel, got " << op.getBlock();
  blockUnits = op.getBlock();
  Statement statement;
  statement.op = op;
  statement.kind = StatementKind::ReduceBlocks;
  statement.cost = 2;
  statement.loops.assign(shape.begin() + rowDims, shape.end());
  statement.firstReduced = statement.loops.size();
  SmallVector<int64_t> strides = stridesOf(shape);
  statement.reads.push_back(split(op.getX(), 0, strides, rowDims));
  Access write{op.getResult(), 0, {}, {}};
  write.rows.assign(rowDims, 0);
  write.loops.assign(strides.begin() + rowDims, strides.end());
  statement.writes.push_back(write);
  producer[op.getResult()] = statements.size();
  statements.push_back(statement);
  return success();
}

LogicalResult KernelPlan::addStatements() {
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    if (isa<tensor::EmptyOp, linalg::FillOp, arith::ConstantOp>(op))
      continue;
    LogicalResult added = success();
    if (auto generic = dyn_cast<linalg::GenericOp>(op))
      added = addGeneric(generic);
    else if (auto blocks = dyn_cast<ReduceBlocksOp>(op))
      added = addReduceBlocks(blocks);
    else
      return op.emitOpError() << "expected linalg.generic or "
                                 "heddle.reduce_blocks in a kernel";
    if (failed(added))
      return failure();
  }
  for (auto [i, result] :
       llvm::enumerate(kernel.getBody().front().getTerminator()->getOperands()))
    if (!producer.contains(result))
      return kernel.emitOpError()
             << "expected result " << i << " to be computed by the kernel";
  for (int64_t extent : units)
    rows *= extent;
  return success();
}

/// Checks that a value made inside the kernel is only read in its own row.
LogicalResult KernelPlan::checkRows() {
  for (Statement &statement : statements) {
    for (Access &read : statement.reads) {
      auto found = producer.find(read.value);
      if (found == producer.end())
        continue;
      const Statement &from = statements[found->second];
      auto result = cast<OpResult>(read.value);
      if (from.kind == StatementKind::ReduceBlocks ||
          read.rows != from.writes[result.getResultNumber()].rows)
        return statement.op->emitOpError()
               << "expected operands that the kernel produces to be read in "
                  "their own row";
    }
    for (auto [value, aligned] : getExtracted(statement.op, rowDims))
      if (producer.contains(value) && !aligned)
        return statement.op->emitOpError()
               << "expected tensor.extract of a value that the kernel produces "
                  "to stay in its row";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Column mode
//===----------------------------------------------------------------------===//

/// Returns whether the row dimensions act as one dimension in an access.
static bool collapses(ArrayRef<int64_t> coefficients,
                      ArrayRef<int64_t> extents) {
  for (size_t i = 0; i + 1 < coefficients.size(); ++i)
    if (coefficients[i] != extents[i + 1] * coefficients[i + 1])
      return false;
  return true;
}

bool KernelPlan::suitsColumns() const {
  if (rowDims == 0)
    return false;
  for (const Statement &statement : statements) {
    if (statement.kind == StatementKind::ReduceBlocks ||
        statement.firstReduced != 0)
      if (statement.kind != StatementKind::Map || !statement.loops.empty())
        return false;
    if (statement.usesIndex && rowDims > 1)
      return false;
    for (const Access &access : statement.reads) {
      if (!collapses(access.rows, units))
        return false;
      // A row that is contiguous in memory is read faster in row mode.
      if (!statement.loops.empty() && access.rows.back() > 1)
        return false;
    }
    for (const Access &access : statement.writes)
      if (!collapses(access.rows, units))
        return false;
    for (auto [value, aligned] : getExtracted(statement.op, rowDims))
      if (producer.contains(value))
        return false;
  }
  return true;
}

void KernelPlan::makeColumns() {
  // A chunk is short, so that a few scratch buffers of f32 fit the first-level
  // cache and there are chunks for many threads.
  int64_t part =
      llvm::alignTo(llvm::divideCeil(rows, target.chunks), target.leastChunk);
  chunk = std::max(target.leastChunk, std::min(target.mostChunk, part));
  auto change = [&](Access &access) {
    int64_t step = access.rows.back();
    access.rows.assign(1, step * chunk);
    access.loops.push_back(step);
  };
  for (Statement &statement : statements) {
    bool isReduce = statement.kind == StatementKind::Reduce;
    for (Access &access : statement.reads)
      change(access);
    for (Access &access : statement.writes)
      change(access);
    for (size_t dim = 0; dim < statement.loops.size(); ++dim)
      statement.loopOfDim.push_back(dim);
    statement.loopOfDim.push_back(statement.loops.size()); // the chunk
    statement.loops.push_back(chunk);
    statement.firstReduced = isReduce ? -1 : 1;
  }
  units.assign(1, llvm::divideCeil(rows, chunk));
}

/// In row mode, moves the reduced loops outermost if an operand is contiguous
/// along the last parallel loop and not along the last reduced one. Otherwise
/// the reduced loops stay innermost.
void KernelPlan::orderLoops() {
  for (Statement &statement : statements) {
    int64_t count = statement.loops.size(), first = statement.firstReduced;
    statement.loopOfDim = llvm::to_vector(llvm::seq<int64_t>(0, count));
    if (statement.kind != StatementKind::Reduce || first == 0)
      continue;
    bool alongParallel = llvm::any_of(statement.reads, [&](Access &access) {
      return access.loops[first - 1] == 1 && access.loops.back() != 1;
    });
    if (!alongParallel)
      continue;
    auto turn = [&](SmallVector<int64_t> &values) {
      std::rotate(values.begin(), values.begin() + first, values.end());
    };
    turn(statement.loops);
    for (Access &access : statement.reads)
      turn(access.loops);
    for (Access &access : statement.writes)
      turn(access.loops);
    for (int64_t dim = 0; dim < count; ++dim)
      statement.loopOfDim[dim] = (dim + count - first) % count;
    statement.firstReduced = -1;
  }
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

void KernelPlan::chooseBlocks() {
  blocks = llvm::divideCeil(numUnits(), blockUnits);
  int64_t work = 1;
  for (const Statement &statement : statements) {
    int64_t iterations = 1;
    for (int64_t extent : statement.loops)
      iterations *= extent;
    work +=
        iterations * (statement.cost + 2 * (int64_t)statement.reads.size() + 1);
  }
  grain = llvm::divideCeil(target.worthAThread, work * blockUnits);
  grain = std::clamp<int64_t>(grain, 1, std::max<int64_t>(blocks, 1));
}

FailureOr<KernelPlan> KernelPlan::create(func::FuncOp kernel) {
  KernelPlan plan;
  plan.kernel = kernel;
  plan.target = KernelTarget::of(kernel);
  auto rowDims = kernel->getAttrOfType<IntegerAttr>(kRowDimsAttrName);
  if (!rowDims || rowDims.getInt() < 0)
    return kernel.emitOpError()
           << "expected an attribute '" << kRowDimsAttrName << "'";
  if (!kernel.getBody().hasOneBlock())
    return kernel.emitOpError() << "expected one block";
  plan.rowDims = rowDims.getInt();
  if (failed(plan.addStatements()) || failed(plan.checkRows()))
    return failure();
  if (plan.suitsColumns())
    plan.makeColumns();
  else
    plan.orderLoops();
  plan.assignLevels();
  plan.formNests();
  plan.chooseHosts();
  plan.chooseBlocks();
  return plan;
}
