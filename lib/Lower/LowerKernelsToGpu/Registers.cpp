//===- Registers.cpp - What a thread keeps in registers -------------------===//
//
// ptxas loads the elements of all iterations of an unrolled loop before it
// computes with them, and spills the elements that do not fit. So a loop is
// unrolled only if the loaded elements fit into registers. A loop over values
// that a thread keeps has to be unrolled, because registers have no index. If
// its loads do not fit, the block gets fewer threads.
//
// Example: the gradients of layer normalization of x : [2048, 12288] in bf16.
// With 512 threads in a block, a thread has 128 registers. It keeps two sums of
// 24 columns each over the rows of its block, which takes 48 registers. Its
// three iterations load 8 elements of three tensors each, which takes 60
// registers. Addresses and the values of the body do not fit beside these. With
// 256 threads, a thread needs 96 registers for sums and 120 for loads, and has
// 255.
//
//===----------------------------------------------------------------------===//

#include "GpuEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

/// Registers of a multiprocessor and of a thread, of 32 bits each.
static constexpr int64_t kRegistersOfBlock = 1 << 16, kRegistersOfThread = 255;
/// Registers for indices, for a row's scalars and for a body's own values.
static constexpr int64_t kReserved = 24;
/// Additional registers of a body that draws random numbers.
static constexpr int64_t kRandom = 16;

static ElementType elementTypeOf(Value value) {
  return ElementType(cast<RankedTensorType>(value.getType()).getElementType());
}

/// Returns the registers of some values of a type.
static int64_t registersOf(Type type, int64_t count) {
  return llvm::divideCeil(type.getIntOrFloatBitWidth() * count, 32);
}

int64_t GpuLayout::countKept() const {
  int64_t kept = 0;
  auto add = [&](Value value, unsigned statement) {
    const SharedNest &home = nests[plan.getHome(statement)];
    int64_t elements = home.isScalar() ? 1 : countOfThread(home) * home.width;
    kept += registersOf(elementTypeOf(value).compute, elements);
  };
  for (auto [index, statement] : llvm::enumerate(plan.statements))
    if (statement.kind == StatementKind::ReduceBlocks)
      add(statement.op->getResult(0), index);
  for (Value value : own)
    add(value, plan.producer.lookup(value));
  return kept;
}

GpuLayout::Registers GpuLayout::countRegisters(const SharedNest &shared) const {
  Registers count;
  // For each tensor, the registers of the elements that one iteration loads.
  llvm::DenseMap<Value, int64_t> loaded;
  llvm::DenseSet<Value> stored;
  for (unsigned index : shared.nest->statements) {
    const Statement &statement = plan.statements[index];
    count.isKeeper |= statement.kind == StatementKind::ReduceBlocks;
    for (const Access &read : statement.reads) {
      auto from = plan.producer.find(read.value);
      if (own.contains(read.value))
        count.isKeeper = true;
      else if (from == plan.producer.end() ||
               !llvm::is_contained(shared.nest->statements, from->second)) {
        bool isOne = shared.loops.join(read.loops).back() == 0;
        int64_t &most = loaded[read.value];
        most = std::max(most, registersOf(elementTypeOf(read.value).memory,
                                          isOne ? 1 : shared.width));
      }
    }
    bool isHere = isHome(index, shared);
    for (const Access &write : statement.writes) {
      if (statement.kind == StatementKind::Reduce)
        count.fixed +=
            registersOf(elementTypeOf(write.value).compute,
                        shared.sharing == Sharing::Columns ? shared.width : 1);
      else if (isHere && own.contains(write.value))
        count.isKeeper = true;
      else if (isHere && (plan.resultIndex(write.value) >= 0 ||
                          plan.scratch.contains(write.value)))
        stored.insert(write.value);
    }
  }
  for (auto [value, registers] : loaded)
    count.ofIteration += registers;
  // Addresses have two registers.
  count.fixed += 2 * int64_t(loaded.size() + stored.size());
  return count;
}

int64_t GpuLayout::getMostRegisters() const {
  return std::min(kRegistersOfThread, kRegistersOfBlock / threads());
}

int64_t GpuLayout::getMostUnrolled(const SharedNest &shared) const {
  Registers count = countRegisters(shared);
  if (count.isKeeper || count.ofIteration == 0)
    return kMostUnrolled;
  int64_t free = getMostRegisters() - kReserved - countKept() - count.fixed;
  return std::clamp<int64_t>(free / count.ofIteration, 1, kMostUnrolled);
}

/// Returns whether a body draws random numbers. It holds their words in 64
/// bits.
static bool drawsRandomNumbers(const Statement &statement) {
  return statement.op
      ->walk([](arith::XOrIOp op) {
        return op.getType().isInteger(64) ? WalkResult::interrupt()
                                          : WalkResult::advance();
      })
      .wasInterrupted();
}

int64_t GpuLayout::countRegisters() const {
  int64_t most = 0;
  for (const SharedNest &shared : nests) {
    if (shared.isScalar())
      continue;
    Registers count = countRegisters(shared);
    int64_t iterations = countOfThread(shared);
    if (!count.isKeeper && iterations > getMostUnrolled(shared))
      iterations = 1;
    most = std::max(most, count.fixed + iterations * count.ofIteration);
  }
  if (llvm::any_of(plan.statements, drawsRandomNumbers))
    most += kRandom;
  return kReserved + countKept() + most;
}

int64_t GpuLayout::countBlocksAtOnce() const {
  // The threads of a multiprocessor on newer graphics GPUs, which have the
  // fewest.
  constexpr int64_t kThreads = 1536;
  int64_t registers = llvm::alignTo(countRegisters(), 8);
  return std::clamp<int64_t>(kRegistersOfBlock / (threads() * registers), 1,
                             std::max<int64_t>(kThreads / threads(), 1));
}
