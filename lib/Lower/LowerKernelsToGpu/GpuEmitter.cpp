//===- GpuEmitter.cpp - Writes a kernel for the threads of a GPU ----------===//

#include "GpuEmitter.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

GpuEmitter::GpuEmitter(const KernelPlan &plan, mlir::Location loc,
                       OpBuilder &builder, GpuRows rows,
                       ArrayRef<int64_t> alignments)
    : BodyEmitter(plan, loc, builder), layout(plan, rows, alignments) {
  b.roundsToBF16 = true;
}

Value GpuEmitter::i32(int64_t value) {
  return b.create<arith::ConstantOp>(b.getI32IntegerAttr(value));
}

Value GpuEmitter::emitMath(Operation *op, ValueRange operands) {
  if (!isa_and_nonnull<math::MathDialect>(op->getDialect()))
    return Value();
  if (Value value = expandForGpu(b, op, operands))
    return value;
  Type type = operands[0].getType();
  bool hasInstructions =
      isa<math::AbsFOp, math::AbsIOp, math::CeilOp, math::CopySignOp,
          math::CountLeadingZerosOp, math::CountTrailingZerosOp, math::CtPopOp,
          math::FloorOp, math::FmaOp, math::RoundEvenOp, math::RoundOp,
          math::RsqrtOp, math::SqrtOp, math::TruncOp>(op);
  bool hasPolynomial =
      type.isF32() && isa<math::AtanOp, math::Atan2Op, math::CbrtOp,
                          math::ErfOp, math::ExpOp, math::ExpM1Op, math::LogOp,
                          math::Log1pOp, math::Log2Op, math::TanhOp>(op);
  if (!hasInstructions && !hasPolynomial)
    (void)fail(op, "cannot be compiled for a GPU: there is no expansion of it "
                   "for " +
                       Twine(type.isF64() ? "f64" : "f32"));
  return Value();
}

//===----------------------------------------------------------------------===//
// The code of a kernel
//===----------------------------------------------------------------------===//

LogicalResult GpuEmitter::emit(const Place &to) {
  place = to;
  b.setInsertionPointToEnd(place.start);
  if (succeeded(emitEntry())) {
    int64_t teams = layout.blocks * layout.teamsInBlock;
    Value inRange;
    if (teams != plan.blocks)
      inRange = b.create<arith::CmpIOp>(arith::CmpIPredicate::slt, block,
                                        b.i64(plan.blocks));
    when(inRange, {}, [&] {
      startBlockSums();
      if (plan.blockUnits == 1) {
        emitRow(block);
      } else {
        Value first = b.mulI(block, plan.blockUnits);
        Value end = b.create<arith::MinSIOp>(
            b.addI(first, b.i64(plan.blockUnits)), b.i64(plan.numUnits()));
        b.loop(first, end, /*mayBeEmpty=*/false, {}, {},
               [&](Value row, ValueRange) {
                 emitRow(row);
                 return Carried();
               });
      }
      storeBlockSums();
      return Carried();
    });
    b.create<LLVM::ReturnOp>(ValueRange());
  }
  // Every kernel may use this amount without asking the driver.
  constexpr int64_t kMostShared = 48 << 10;
  if (sharedBytes > kMostShared)
    (void)fail(plan.kernel, "expected at most " + Twine(kMostShared) +
                                " bytes of shared memory for values that "
                                "threads exchange, got " +
                                Twine(sharedBytes));
  return success(!failedOnce);
}

Value GpuEmitter::getParameter(unsigned number, Type type) {
  if (!place.table)
    return place.function.getArgument(number);
  ElementType type64(b.getI64Type());
  Value word = b.load(
      b.address(table, number ? b.i64(number) : Value(), type64), type64, {});
  if (!isa<RankedTensorType>(type))
    return word;
  // States that the address is in global memory. Otherwise each access would
  // have to determine the memory space.
  return b.create<LLVM::IntToPtrOp>(
      LLVM::LLVMPointerType::get(b.getContext(), NVVM::kGlobalMemorySpace),
      word);
}

LogicalResult GpuEmitter::emitEntry() {
  auto wide = [&](Value value) -> Value {
    return b.create<arith::ExtUIOp>(b.getI64Type(), value);
  };
  Value thread = wide(b.create<NVVM::ThreadIdXOp>(b.getI32Type()));
  Value blockIndex = place.block;
  auto divide = [&](Value value, int64_t by) -> Value {
    return by == 1 ? value : b.create<arith::DivUIOp>(value, b.i64(by));
  };
  auto rest = [&](Value value, int64_t by) -> Value {
    return b.create<arith::RemUIOp>(value, b.i64(by));
  };
  if (place.table) {
    table = place.table;
    if (place.copies > 1) {
      int64_t row = int64_t(countParameters()) * 8;
      table = b.address(table, b.mulI(divide(blockIndex, layout.blocks), row),
                        ElementType(b.getI8Type()));
      blockIndex = rest(blockIndex, layout.blocks);
    }
  }
  lane = layout.team == 1           ? b.i64(0)
         : layout.teamsInBlock == 1 ? thread
                                    : rest(thread, layout.team);
  laneOfWarp = rest(thread, kWarp);
  warp = divide(lane, kWarp);
  teamInBlock =
      layout.teamsInBlock == 1 ? b.i64(0) : divide(thread, layout.team);
  block = b.addI(b.mulI(blockIndex, layout.teamsInBlock), teamInBlock);

  unsigned next = 0;
  for (BlockArgument argument : plan.kernel.getArguments()) {
    Value parameter = getParameter(next++, argument.getType());
    if (isa<RankedTensorType>(argument.getType()))
      base[argument] = parameter;
    else
      scalars[argument] =
          b.create<arith::IndexCastOp>(b.getIndexType(), parameter);
  }
  Operation *terminator = plan.kernel.getBody().front().getTerminator();
  for (Value result : terminator->getOperands())
    base[result] = getParameter(next++, result.getType());
  for (auto [guest, result] : plan.host)
    base[guest] = base.lookup(result);
  emitConstants();

  for (const Statement &statement : plan.statements)
    for (Value value : statement.op->getResults()) {
      if (!plan.scratch.contains(value) ||
          statement.kind == StatementKind::ReduceBlocks)
        continue;
      FailureOr<int64_t> size = getScratchElements(value);
      if (failed(size))
        return failure();
      ElementType type = memoryType(value);
      int64_t bytes = type.memory.getIntOrFloatBitWidth() / 8;
      if (layout.team > 1 && !layout.own.contains(value)) {
        int64_t row = llvm::alignTo(*size * bytes, 16);
        Value all = shareBytes(row * layout.teamsInBlock);
        base[value] = b.address(all, b.mulI(teamInBlock, row),
                                ElementType(b.getI8Type()));
        continue;
      }
      if (layout.own.contains(value)) {
        const SharedNest &home =
            layout.nests[plan.getHome(plan.producer.lookup(value))];
        size = llvm::divideCeil(home.count() / home.width, layout.team) *
               home.width;
      }
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(place.entry);
      Value memory = b.create<LLVM::AllocaOp>(
          LLVM::LLVMPointerType::get(b.getContext()), type.memory, b.i64(*size),
          /*alignment=*/16);
      (layout.own.contains(value) ? owned : base)[value] = memory;
    }
  return success();
}

Value GpuEmitter::shareBytes(int64_t bytes) {
  auto pointer =
      LLVM::LLVMPointerType::get(b.getContext(), NVVM::kSharedMemorySpace);
  int64_t offset = sharedBytes;
  sharedBytes = llvm::alignTo(offset + bytes, 16);
  Value all = b.create<LLVM::AddressOfOp>(pointer, place.sharedName);
  return b.address(all, offset ? b.i64(offset) : Value(),
                   ElementType(b.getI8Type()));
}

void GpuEmitter::barrier() {
  if (layout.team == kWarp)
    b.create<NVVM::SyncWarpOp>(i32(-1));
  else if (layout.team > kWarp)
    b.create<NVVM::Barrier0Op>();
}

GpuEmitter::Carried GpuEmitter::when(Value condition, ValueRange init,
                                     llvm::function_ref<Carried()> body) {
  if (!condition)
    return body();
  Block *before = b.getInsertionBlock();
  Region *region = before->getParent();
  Block *inside = b.createBlock(region, region->end());
  Block *after = b.createBlock(region, region->end());
  for (Value value : init)
    after->addArgument(value.getType(), b.getLoc());
  b.setInsertionPointToEnd(before);
  b.create<LLVM::CondBrOp>(condition, inside, ValueRange(), after, init);
  b.setInsertionPointToEnd(inside);
  Carried results = body();
  b.create<LLVM::BrOp>(results, after);
  after->moveBefore(region, region->end());
  b.setInsertionPointToEnd(after);
  return Carried(after->args_begin(), after->args_end());
}

Value GpuEmitter::isFirstOfTeam() {
  if (layout.team == 1)
    return Value();
  return b.create<arith::CmpIOp>(arith::CmpIPredicate::eq, lane, b.i64(0));
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

void GpuEmitter::emitRow(Value index) {
  beginRow(index);
  for (auto [i, nest] : llvm::enumerate(layout.nests)) {
    if (failedOnce)
      return;
    if (layout.barriers.before[i])
      barrier();
    if (nest.isScalar())
      emitScalars(nest, layout.barriers.inside[i]);
    else
      emitNest(nest, layout.barriers.inside[i]);
  }
}

/// All threads compute the scalars of a row; the first thread stores them.
void GpuEmitter::emitScalars(const SharedNest &nest, bool barrierInside) {
  DenseMap<std::pair<unsigned, unsigned>, Value> loaded;
  llvm::DenseSet<Value> computed;
  for (unsigned index : nest.nest->statements) {
    const Statement &statement = plan.statements[index];
    for (auto [operand, read] : llvm::enumerate(statement.reads))
      if (!rowValues.contains(read.value) && !computed.contains(read.value))
        loaded[{index, (unsigned)operand}] =
            b.load(locate(read).pointer, memoryType(read.value), {});
    if (statement.kind != StatementKind::ReduceBlocks)
      for (const Access &write : statement.writes)
        computed.insert(write.value);
  }
  SmallVector<std::pair<const Access *, Value>> stores;
  for (unsigned index : nest.nest->statements) {
    const Statement &statement = plan.statements[index];
    SmallVector<Value> arguments;
    for (auto [operand, read] : llvm::enumerate(statement.reads)) {
      Value value = rowValues.lookup(read.value);
      arguments.push_back(value ? value
                                : loaded.lookup({index, (unsigned)operand}));
    }
    if (auto blocks = dyn_cast<ReduceBlocksOp>(statement.op)) {
      Value memory = blockSums.lookup(blocks.getResult());
      ElementType type = sumType(blocks);
      Value sum = combineBlocks(blocks, arguments[0], b.load(memory, type, {}));
      b.store(sum, memory, type, {});
      continue;
    }
    if (statement.kind == StatementKind::Reduce) {
      (void)fail(statement.op, "expected reduced loops inside of a row");
      return;
    }
    SmallVector<Value> results = cloneBody(statement, arguments, {}, {});
    if (failedOnce)
      return;
    for (auto [write, value] : llvm::zip(statement.writes, results)) {
      rowValues[write.value] = value;
      if (isInMemory(write.value))
        stores.push_back({&write, value});
    }
  }
  if (barrierInside)
    barrier();
  if (stores.empty())
    return;
  when(isFirstOfTeam(), {}, [&] {
    for (auto [write, value] : stores)
      b.store(value, locate(*write).pointer, memoryType(write->value), {});
    return Carried();
  });
}
