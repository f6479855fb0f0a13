//===- NestEmitter.cpp - One loop nest of a row ---------------------------===//

#include "KernelEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

struct KernelEmitter::NestState {
  NestState(const KernelPlan &plan, const Nest &nest)
      : nest(nest), loops(plan, nest) {}

  const Nest &nest;
  JoinedLoops loops;

  struct Read {
    Location location;
    ElementType type;
    int64_t depth; ///< number of outer loops that index the operand
    Value value;   ///< once loaded
  };
  struct Accumulator {
    unsigned statement, result;
    size_t depth; ///< number of loops around the reduction
    Value current;
  };
  /// The read of each (statement, operand) of the nest. Missing if the value
  /// passes in a register.
  DenseMap<std::pair<unsigned, unsigned>, Read> reads;
  DenseMap<Value, Location> targets; ///< tensors stored or accumulated
  SmallVector<Accumulator> accumulators;
  DenseMap<Value, Value> forwarded; ///< values computed in this iteration
  SmallVector<Value> indices;
  LLVM::LoopAnnotationAttr annotation;
  ArrayAttr groups;
};

static bool hasTranscendental(const Statement &statement) {
  bool found = false;
  statement.op->walk([&](Operation *op) {
    found |= isa<math::ExpOp, math::ErfOp, math::TanhOp, math::LogOp>(op);
  });
  return found;
}

void KernelEmitter::emitNest(const Nest &nest) {
  NestState state(plan, nest);
  auto joined = [&](Location location) {
    location.loops = state.loops.join(location.loops);
    return location;
  };

  bool independent = true, expensive = false;
  llvm::DenseSet<Value> inNest;
  for (unsigned index : nest.statements) {
    const Statement &statement = plan.statements[index];
    bool isHome = statement.level == nest.level;
    expensive |= hasTranscendental(statement);
    for (auto [operand, read] : llvm::enumerate(statement.reads)) {
      bool passes =
          inNest.contains(read.value) &&
          plan.canForward(plan.statements[plan.producer.lookup(read.value)],
                          statement, read);
      if (passes || rowValues.contains(read.value))
        continue;
      Location location = joined(locate(read));
      int64_t depth = 0;
      for (auto [loop, step] : llvm::enumerate(location.loops))
        if (step != 0)
          depth = loop + 1;
      state.reads.insert({{index, (unsigned)operand},
                          {location, memoryType(read.value), depth, {}}});
    }
    for (auto [result, write] : llvm::enumerate(statement.writes)) {
      inNest.insert(write.value);
      if (isHome && isInMemory(write.value)) {
        Location location = joined(locate(write));
        bool accumulates = statement.kind == StatementKind::ReduceBlocks ||
                           (statement.kind == StatementKind::Reduce &&
                            statement.firstReduced < 0);
        if (accumulates && location.loops.back() == 0)
          independent = false;
        state.targets[write.value] = location;
      }
      if (statement.kind == StatementKind::Reduce &&
          statement.firstReduced >= 0) {
        size_t depth = 0;
        while (depth < state.loops.lastOf.size() &&
               state.loops.lastOf[depth] < statement.firstReduced)
          ++depth;
        state.accumulators.push_back({index, (unsigned)result, depth, {}});
      }
    }
  }
  if (independent) {
    state.groups = accessGroups;
    LLVM::LoopInterleaveAttr interleave;
    // A polynomial is a long dependence chain. Several vectors in flight hide
    // its latency.
    if (expensive)
      interleave =
          LLVM::LoopInterleaveAttr::get(b.getContext(), b.getI32IntegerAttr(4));
    state.annotation = LLVM::LoopAnnotationAttr::get(
        b.getContext(), {}, {}, interleave, {}, {}, {}, {}, {}, {}, {}, {}, {},
        {}, {}, {accessGroup});
  }
  emitDepth(state, 0);
}

void KernelEmitter::emitLoads(NestState &state, size_t depth) {
  for (unsigned index : state.nest.statements)
    for (size_t operand = 0; operand < plan.statements[index].reads.size();
         ++operand) {
      auto found = state.reads.find({index, (unsigned)operand});
      if (found == state.reads.end() || found->second.depth != (int64_t)depth)
        continue;
      // The window operand of a pooling only gives the window's shape. Its
      // elements are not read.
      auto generic = dyn_cast<linalg::GenericOp>(plan.statements[index].op);
      if (generic && generic.getBody()->getArgument(operand).use_empty())
        continue;
      NestState::Read &read = found->second;
      Value offset;
      for (size_t loop = 0; loop < depth; ++loop)
        if (read.location.loops[loop] != 0)
          offset = b.addI(
              offset, b.mulI(state.indices[loop], read.location.loops[loop]));
      bool innermost = depth == state.loops.extents.size();
      read.value = b.load(b.address(read.location.pointer, offset, read.type),
                          read.type, innermost ? state.groups : ArrayAttr());
    }
}

void KernelEmitter::emitDepth(NestState &state, size_t depth) {
  emitLoads(state, depth);
  if (depth == state.loops.extents.size()) {
    emitInnermost(state);
    return;
  }
  SmallVector<NestState::Accumulator *> active;
  SmallVector<Value> init;
  for (NestState::Accumulator &accumulator : state.accumulators) {
    if (accumulator.depth > depth)
      continue;
    if (accumulator.depth == depth)
      accumulator.current = b.create<arith::ConstantOp>(initialValue(
          plan.statements[accumulator.statement], accumulator.result));
    active.push_back(&accumulator);
    init.push_back(accumulator.current);
  }
  bool innermost = depth + 1 == state.loops.extents.size();
  bool isChunk = plan.chunk && innermost;
  Value end = isChunk ? chunkEnd : b.i64(state.loops.extents[depth]);
  SmallVector<Value> finals =
      b.loop(b.i64(0), end, /*mayBeEmpty=*/false, init,
             innermost ? state.annotation : LLVM::LoopAnnotationAttr(),
             [&](Value index, ValueRange carried) {
               state.indices.push_back(index);
               for (auto [accumulator, value] : llvm::zip(active, carried))
                 accumulator->current = value;
               emitDepth(state, depth + 1);
               state.indices.pop_back();
               SmallVector<Value> next;
               for (NestState::Accumulator *accumulator : active)
                 next.push_back(accumulator->current);
               return next;
             });
  for (auto [accumulator, value] : llvm::zip(active, finals)) {
    accumulator->current = value;
    if (accumulator->depth != depth)
      continue;
    const Statement &statement = plan.statements[accumulator->statement];
    Value tensor = statement.writes[accumulator->result].value;
    if (depth == 0)
      rowValues[tensor] = value;
    auto target = state.targets.find(tensor);
    if (target == state.targets.end())
      continue;
    ElementType type = memoryType(tensor);
    Value offset;
    for (size_t loop = 0; loop < depth; ++loop)
      offset = b.addI(offset,
                      b.mulI(state.indices[loop], target->second.loops[loop]));
    b.store(value, b.address(target->second.pointer, offset, type), type, {});
  }
}

void KernelEmitter::emitInnermost(NestState &state) {
  state.forwarded.clear();
  auto addressOf = [&](const Location &location, const ElementType &type) {
    Value offset;
    for (auto [index, step] : llvm::zip(state.indices, location.loops))
      if (step != 0)
        offset = b.addI(offset, b.mulI(index, step));
    return b.address(location.pointer, offset, type);
  };
  // Every read of the iteration comes before any write, because a result may
  // lie in the buffer of an operand.
  DenseMap<std::pair<unsigned, unsigned>, Value> old;
  for (unsigned index : state.nest.statements) {
    const Statement &statement = plan.statements[index];
    bool accumulates =
        statement.kind == StatementKind::ReduceBlocks ||
        (statement.kind == StatementKind::Reduce && statement.firstReduced < 0);
    if (accumulates)
      for (auto [result, write] : llvm::enumerate(statement.writes)) {
        ElementType type = memoryType(write.value);
        old[{index, (unsigned)result}] = b.load(
            addressOf(state.targets[write.value], type), type, state.groups);
      }
  }
  SmallVector<std::pair<Value, Value>> stores;
  for (unsigned index : state.nest.statements) {
    const Statement &statement = plan.statements[index];
    SmallVector<Value> arguments;
    for (auto [operand, read] : llvm::enumerate(statement.reads)) {
      auto found = state.reads.find({index, (unsigned)operand});
      if (found != state.reads.end())
        arguments.push_back(found->second.value);
      else if (Value value = state.forwarded.lookup(read.value))
        arguments.push_back(value);
      else
        arguments.push_back(rowValues.lookup(read.value));
    }
    SmallVector<Value> results;
    if (auto blocks = dyn_cast<ReduceBlocksOp>(statement.op)) {
      results.push_back(combineBlocks(blocks, arguments[0], old[{index, 0u}]));
    } else {
      if (statement.kind == StatementKind::Reduce)
        for (unsigned result = 0; result < statement.writes.size(); ++result) {
          Value current = old.lookup({index, result});
          for (NestState::Accumulator &accumulator : state.accumulators)
            if (accumulator.statement == index && accumulator.result == result)
              current = accumulator.current;
          arguments.push_back(current);
        }
      results = cloneBody(
          statement, arguments,
          [&](int64_t dim) {
            int64_t loop = statement.loopOfDim[dim];
            return state.indices[llvm::find(state.loops.lastOf, loop) -
                                 state.loops.lastOf.begin()];
          },
          state.groups);
    }
    if (failedOnce)
      return;
    for (auto [result, value] : llvm::enumerate(results)) {
      Value tensor = statement.writes[result].value;
      bool isRegister = statement.kind == StatementKind::Reduce &&
                        statement.firstReduced >= 0;
      if (isRegister) {
        for (NestState::Accumulator &accumulator : state.accumulators)
          if (accumulator.statement == index && accumulator.result == result)
            accumulator.current = value;
        continue;
      }
      if (statement.kind == StatementKind::Map)
        state.forwarded[tensor] = value;
      if (state.targets.contains(tensor))
        stores.push_back({tensor, value});
    }
  }
  for (auto [tensor, value] : stores) {
    ElementType type = memoryType(tensor);
    b.store(value, addressOf(state.targets[tensor], type), type, state.groups);
  }
}
