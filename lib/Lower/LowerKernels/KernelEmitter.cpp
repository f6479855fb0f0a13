//===- KernelEmitter.cpp - Writes the loops of a kernel -------------------===//

#include "KernelEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

KernelEmitter::KernelEmitter(const KernelPlan &plan, mlir::Location loc,
                             OpBuilder &builder)
    : BodyEmitter(plan, loc, builder) {
  accessGroup = LLVM::AccessGroupAttr::get(b.getContext());
  accessGroups = b.getArrayAttr({accessGroup});
}

//===----------------------------------------------------------------------===//
// The function
//===----------------------------------------------------------------------===//

/// Returns the annotation that keeps loops over rows from being vectorized and
/// unrolled. LLVM would do both to an outer loop whose inner loop it unrolls
/// completely. The bits of a row's sums would then depend on whether the row is
/// in the remainder of the loop, that is, on where a thread's range ends.
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
  emitConstants();
  for (const Statement &statement : plan.statements)
    for (Value result : statement.op->getResults())
      if (plan.scratch.contains(result))
        allocateScratch(result);
}

void KernelEmitter::allocateScratch(Value value) {
  FailureOr<int64_t> size = getScratchElements(value);
  if (failed(size))
    return;
  base[value] =
      b.create<LLVM::AllocaOp>(LLVM::LLVMPointerType::get(b.getContext()),
                               memoryType(value).memory, b.i64(*size),
                               /*alignment=*/64);
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

void KernelEmitter::emitRow(Value index) {
  beginRow(index);
  initAccumulators(/*ofBlock=*/false);
  for (const Nest &nest : plan.nests) {
    if (nest.loops.empty())
      emitScalars(nest);
    else
      emitNest(nest);
  }
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
