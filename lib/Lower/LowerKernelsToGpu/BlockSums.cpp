//===- BlockSums.cpp - Sums that each thread keeps over its rows ----------===//

#include "SharedNestEmitter.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

ElementType GpuEmitter::sumType(ReduceBlocksOp op) {
  return ElementType(ElementType(op.getType().getElementType()).compute);
}

const SharedNest &GpuEmitter::homeOf(const Statement &statement) const {
  return layout.nests[plan.getHome(&statement - plan.statements.data())];
}

/// Sets the sums to their initial values before the first row of a block.
void GpuEmitter::startBlockSums() {
  for (const Statement &statement : plan.statements) {
    auto op = dyn_cast<ReduceBlocksOp>(statement.op);
    if (!op)
      continue;
    const SharedNest &home = homeOf(statement);
    ElementType type = sumType(op);
    int64_t size =
        home.isScalar() ? 1 : layout.countOfThread(home) * home.width;
    Value memory;
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(place.entry);
      memory = b.create<LLVM::AllocaOp>(
          LLVM::LLVMPointerType::get(b.getContext()), type.memory, b.i64(size),
          /*alignment=*/16);
    }
    blockSums[op.getResult()] = memory;
    Value zero = b.create<arith::ConstantOp>(initialValue(statement, 0));
    strided(b.i64(0), 1, size, {}, /*inChunk=*/false, 1,
            GpuLayout::kMostUnrolled * home.width,
            [&](Value index, Value, ValueRange) {
              b.store(zero, b.address(memory, index, type), type, {});
              return Carried();
            });
  }
}

/// Stores the sums after the last row of a block.
void GpuEmitter::storeBlockSums() {
  for (const Statement &statement : plan.statements) {
    auto op = dyn_cast<ReduceBlocksOp>(statement.op);
    if (!op || !isInMemory(op.getResult()) || failedOnce)
      continue;
    const Access &write = statement.writes[0];
    ElementType type = sumType(op);
    Value memory = blockSums.lookup(op.getResult());
    Location location = locate(write);
    const SharedNest &home = homeOf(statement);
    if (home.isScalar()) {
      Value sum = b.load(memory, type, {});
      when(isFirstOfTeam(), {}, [&] {
        b.store(sum, location.pointer, memoryType(op.getResult()), {});
        return Carried();
      });
      continue;
    }
    NestState state(home);
    location.loops = home.loops.join(location.loops);
    iterate(
        state,
        [&](Value counter) {
          SmallVector<Value> values;
          for (int64_t i = 0; i < home.width; ++i)
            values.push_back(
                b.load(ownAddress(state, memory, type, counter, i), type, {}));
          Value condition =
              home.sharing == Sharing::Repeated ? isFirstOfTeam() : Value();
          when(condition, {}, [&] {
            store(state, write, location, values);
            return Carried();
          });
        },
        [](ValueRange) {});
  }
}
