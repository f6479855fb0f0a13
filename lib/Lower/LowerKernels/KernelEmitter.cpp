//===- KernelEmitter.cpp - Writes the loops of a kernel -------------------===//

#include "KernelEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

KernelEmitter::KernelEmitter(const KernelPlan &plan, mlir::Location loc,
                             OpBuilder &builder)
    : plan(plan), b(loc, builder) {
  accessGroup = LLVM::AccessGroupAttr::get(b.getContext());
  accessGroups = b.getArrayAttr({accessGroup});
}

LogicalResult KernelEmitter::fail(Operation *op, Twine message) {
  failedOnce = true;
  return op->emitOpError(message);
}

//===----------------------------------------------------------------------===//
// The function
//===----------------------------------------------------------------------===//

/// Returns the annotation that keeps loops over rows from being vectorized and
/// unrolled. LLVM would do both where it unrolls the inner loop completely. A
/// row's sums would then depend on whether it falls into the remainder, that
/// is, on where a thread's range ends.
LLVM::LoopAnnotationAttr KernelEmitter::keepOuterLoop() {
  BoolAttr yes = b.getBoolAttr(true);
  auto vectorize =
      LLVM::LoopVectorizeAttr::get(b.getContext(), yes, {}, {}, {}, {}, {}, {});
  auto unroll =
      LLVM::LoopUnrollAttr::get(b.getContext(), yes, {}, {}, {}, {}, {}, {});
  return LLVM::LoopAnnotationAttr::get(b.getContext(), {}, vectorize, {},
                                       unroll, {}, {}, {}, {}, {}, {}, {}, {},
                                       {}, {}, {});
}

FailureOr<LLVM::LLVMFuncOp> KernelEmitter::emit() {
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  auto type =
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()),
                                  {pointer, b.getI64Type(), b.getI64Type()});
  auto func = b.create<LLVM::LLVMFuncOp>(plan.kernel.getName(), type);
  func->setAttr(kBlocksAttrName, b.getI64IntegerAttr(plan.blocks));
  func->setAttr(kGrainAttrName, b.getI64IntegerAttr(plan.grain));
  func.setPassthroughAttr(
      b.getArrayAttr(b.getStrArrayAttr({"prefer-vector-width", "512"})));

  entry = func.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  emitEntry(entry->getArgument(0));
  // If emitEntry failed, the values that the rows need do not exist.
  if (failedOnce) {
    func.erase();
    return failure();
  }

  LLVM::LoopAnnotationAttr once = keepOuterLoop();
  b.loop(entry->getArgument(1), entry->getArgument(2), /*mayBeEmpty=*/true, {},
         once, [&](Value index, ValueRange) {
           block = index;
           initAccumulators(/*ofBlock=*/true);
           if (plan.blockUnits == 1) {
             emitRow(index);
             return SmallVector<Value>();
           }
           Value first = b.mulI(index, plan.blockUnits);
           Value end = b.create<arith::MinSIOp>(
               b.addI(first, b.i64(plan.blockUnits)), b.i64(plan.numUnits()));
           b.loop(first, end, /*mayBeEmpty=*/false, {}, once,
                  [&](Value row, ValueRange) {
                    emitRow(row);
                    return SmallVector<Value>();
                  });
           return SmallVector<Value>();
         });
  b.create<LLVM::ReturnOp>(ValueRange());
  if (failedOnce) {
    func.erase();
    return failure();
  }
  return func;
}

/// Emits what precedes the rows: the addresses of operands and results,
/// constants, and scratch buffers.
void KernelEmitter::emitEntry(Value buffers) {
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  auto bufferAt = [&](int64_t index) -> Value {
    Value address = b.create<LLVM::GEPOp>(
        pointer, pointer, buffers,
        ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(index)}, true);
    auto load = b.create<LLVM::LoadOp>(pointer, address);
    load.setInvariant(true);
    return load;
  };
  func::FuncOp kernel = plan.kernel;
  int64_t next = 1; // buffers[0] are the coordinates
  for (BlockArgument argument : kernel.getArguments()) {
    Value buffer = bufferAt(next++);
    if (isa<RankedTensorType>(argument.getType()))
      base[argument] = buffer;
    else
      scalars[argument] = b.load(buffer, ElementType(argument.getType()), {});
  }
  Block &body = kernel.getBody().front();
  for (Value result : body.getTerminator()->getOperands())
    base[result] = bufferAt(next++);
  for (auto [guest, result] : plan.host)
    base[guest] = base.lookup(result);
  for (auto constant : body.getOps<arith::ConstantOp>())
    if (!isa<TensorType>(constant.getType()))
      scalars[constant] = emitConstant(constant);
  for (const Statement &statement : plan.statements)
    for (Value result : statement.op->getResults())
      if (plan.scratch.contains(result))
        allocateScratch(result);
}

void KernelEmitter::allocateScratch(Value value) {
  constexpr int64_t kLargestScratch = 4 << 20; // bytes, of a thread's stack
  auto type = cast<RankedTensorType>(value.getType());
  int64_t size = 1;
  for (int64_t extent : type.getShape().drop_front(plan.rowDims))
    size *= extent;
  if (plan.chunk)
    size *= plan.chunk;
  ElementType element = memoryType(value);
  if (size * 8 > kLargestScratch) {
    (void)fail(value.getDefiningOp(),
               "expected a row of at most " + Twine(kLargestScratch / 8) +
                   " elements between the loops of a kernel, got " +
                   Twine(size));
    return;
  }
  base[value] = b.create<LLVM::AllocaOp>(
      LLVM::LLVMPointerType::get(b.getContext()), element.memory, b.i64(size),
      /*alignment=*/64);
}

ElementType KernelEmitter::memoryType(Value value) const {
  Type element = cast<RankedTensorType>(value.getType()).getElementType();
  if (plan.scratch.contains(value))
    return ElementType(ElementType(element).compute);
  return ElementType(element);
}

bool KernelEmitter::isInMemory(Value value) const {
  return base.contains(value);
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

Value KernelEmitter::unitIndex(size_t dim) {
  if (plan.units.size() == 1)
    return unit;
  if (unitIndices.empty()) {
    unitIndices.resize(plan.units.size());
    Value rest = unit;
    for (size_t i = plan.units.size(); i-- > 1;) {
      Value extent = b.i64(plan.units[i]);
      unitIndices[i] = b.create<arith::RemUIOp>(rest, extent);
      rest = b.create<arith::DivUIOp>(rest, extent);
    }
    unitIndices[0] = rest;
  }
  return unitIndices[dim];
}

Value KernelEmitter::rowOffset(const Access &access) {
  ArrayRef<int64_t> steps = access.rows;
  if (llvm::all_of(steps, [](int64_t step) { return step == 0; }))
    return Value();
  bool collapses = true;
  for (size_t i = 0; i + 1 < steps.size(); ++i)
    collapses &= steps[i] == plan.units[i + 1] * steps[i + 1];
  if (collapses)
    return b.mulI(unit, steps.back());
  Value offset;
  for (auto [dim, step] : llvm::enumerate(steps))
    if (step != 0)
      offset = b.addI(offset, b.mulI(unitIndex(dim), step));
  return offset;
}

KernelEmitter::Location KernelEmitter::locate(const Access &access) {
  Location location{base.lookup(access.value), access.loops};
  if (plan.scratch.contains(access.value)) {
    if (access.constant != 0)
      location.pointer = b.address(location.pointer, b.i64(access.constant),
                                   memoryType(access.value));
    return location;
  }
  Value offset = rowOffset(access);
  bool isPartial = false;
  if (auto found = plan.producer.find(access.value);
      found != plan.producer.end()) {
    const Statement &from = plan.statements[found->second];
    isPartial = from.kind == StatementKind::ReduceBlocks;
  }
  if (isPartial) {
    auto type = cast<RankedTensorType>(access.value.getType());
    offset = b.mulI(block, type.getNumElements() / type.getDimSize(0));
  }
  if (access.constant != 0)
    offset = b.addI(offset, b.i64(access.constant));
  location.pointer =
      b.address(location.pointer, offset, memoryType(access.value));
  return location;
}

void KernelEmitter::emitRow(Value index) {
  unit = index;
  unitIndices.clear();
  rowValues.clear();
  if (plan.units.size() > 1)
    unitIndex(0); // before any loop, so that it dominates all of the row
  if (plan.chunk)
    chunkEnd = b.create<arith::MinSIOp>(
        b.i64(plan.chunk),
        b.create<arith::SubIOp>(b.i64(plan.rows), b.mulI(unit, plan.chunk)));
  initAccumulators(/*ofBlock=*/false);
  for (const Nest &nest : plan.nests) {
    if (nest.loops.empty())
      emitScalars(nest);
    else
      emitNest(nest);
  }
}

TypedAttr KernelEmitter::initialValue(const Statement &statement,
                                      unsigned result) const {
  TypedAttr value;
  if (auto generic = dyn_cast<linalg::GenericOp>(statement.op)) {
    auto fill = generic.getDpsInitOperand(result)
                    ->get()
                    .getDefiningOp<linalg::FillOp>();
    matchPattern(fill.getInputs()[0], m_Constant(&value));
  } else {
    auto op = cast<ReduceBlocksOp>(statement.op);
    Type type = op.getType().getElementType();
    bool isSum = op.getKind() == ReductionKind::Sum;
    if (auto floatType = dyn_cast<FloatType>(type))
      value = FloatAttr::get(
          type, isSum ? APFloat::getZero(floatType.getFloatSemantics())
                      : APFloat::getInf(floatType.getFloatSemantics(), true));
    else
      value = IntegerAttr::get(
          type, isSum ? APInt(type.getIntOrFloatBitWidth(), 0)
                      : APInt::getSignedMinValue(type.getIntOrFloatBitWidth()));
  }
  Type compute = ElementType(value.getType()).compute;
  if (compute != value.getType())
    return FloatAttr::get(compute,
                          cast<FloatAttr>(value).getValue().convertToFloat());
  return value;
}

/// Sets accumulators in memory to their initial values: those of a block of
/// rows if `ofBlock`, else those of one row.
void KernelEmitter::initAccumulators(bool ofBlock) {
  for (const Statement &statement : plan.statements) {
    bool inBlock = statement.kind == StatementKind::ReduceBlocks;
    bool inRow =
        statement.kind == StatementKind::Reduce && statement.firstReduced < 0;
    if (ofBlock ? inBlock : inRow)
      for (unsigned result = 0; result < statement.writes.size(); ++result)
        fillRow(statement, result);
  }
}

void KernelEmitter::fillRow(const Statement &statement, unsigned result) {
  const Access &write = statement.writes[result];
  if (!isInMemory(write.value))
    return;
  Value value = b.create<arith::ConstantOp>(initialValue(statement, result));
  Location location = locate(write);
  ElementType type = memoryType(write.value);
  // Only loops that index the result; a reduced loop has step 0.
  SmallVector<std::pair<int64_t, int64_t>> loops;
  for (size_t i = 0; i < statement.loops.size(); ++i)
    if (write.loops[i] != 0)
      loops.push_back({statement.loops[i], write.loops[i]});
  std::function<void(size_t, Value)> emit = [&](size_t depth, Value offset) {
    if (depth == loops.size()) {
      b.store(value, b.address(location.pointer, offset, type), type, {});
      return;
    }
    bool isChunk = plan.chunk && depth + 1 == loops.size();
    Value end = isChunk ? chunkEnd : b.i64(loops[depth].first);
    b.loop(b.i64(0), end, false, {}, {}, [&](Value index, ValueRange) {
      emit(depth + 1, b.addI(offset, b.mulI(index, loops[depth].second)));
      return SmallVector<Value>();
    });
  };
  emit(0, Value());
}

void KernelEmitter::emitScalars(const Nest &nest) {
  // As in a loop, every read comes before any write. A result may lie in the
  // buffer of an operand that a later statement still reads.
  DenseMap<std::pair<unsigned, unsigned>, Value> loaded;
  DenseMap<unsigned, Value> sums;
  llvm::DenseSet<Value> computed;
  for (unsigned index : nest.statements) {
    const Statement &statement = plan.statements[index];
    for (auto [operand, read] : llvm::enumerate(statement.reads))
      if (!rowValues.contains(read.value) && !computed.contains(read.value))
        loaded[{index, (unsigned)operand}] =
            b.load(locate(read).pointer, memoryType(read.value), {});
    for (const Access &write : statement.writes) {
      if (statement.kind == StatementKind::ReduceBlocks)
        sums[index] =
            b.load(locate(write).pointer, memoryType(write.value), {});
      else
        computed.insert(write.value);
    }
  }
  SmallVector<std::pair<const Access *, Value>> stores;
  for (unsigned index : nest.statements) {
    const Statement &statement = plan.statements[index];
    SmallVector<Value> arguments;
    for (auto [operand, read] : llvm::enumerate(statement.reads)) {
      Value value = rowValues.lookup(read.value);
      arguments.push_back(value ? value
                                : loaded.lookup({index, (unsigned)operand}));
    }
    SmallVector<Value> results;
    if (auto blocks = dyn_cast<ReduceBlocksOp>(statement.op)) {
      results.push_back(combineBlocks(blocks, arguments[0], sums[index]));
    } else {
      if (statement.kind == StatementKind::Reduce) {
        (void)fail(statement.op, "expected reduced loops inside of a row");
        return;
      }
      results = cloneBody(statement, arguments, {}, {});
    }
    if (failedOnce)
      return;
    for (auto [write, value] : llvm::zip(statement.writes, results)) {
      if (statement.kind == StatementKind::Map)
        rowValues[write.value] = value;
      if (isInMemory(write.value))
        stores.push_back({&write, value});
    }
  }
  for (auto [write, value] : stores)
    b.store(value, locate(*write).pointer, memoryType(write->value), {});
}
