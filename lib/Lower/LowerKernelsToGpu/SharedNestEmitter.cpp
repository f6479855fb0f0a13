//===- SharedNestEmitter.cpp - One nest, shared by the threads of a row ---===//

#include "SharedNestEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

//===----------------------------------------------------------------------===//
// Accesses
//===----------------------------------------------------------------------===//

Value GpuEmitter::offsetOf(NestState &state, const Location &location,
                           int64_t lane) {
  Value offset;
  for (auto [loop, step] : llvm::enumerate(location.loops))
    if (step != 0)
      offset = b.addI(offset, b.mulI(state.indices[loop], step));
  if (int64_t constant = lane * location.loops.back())
    offset = b.addI(offset, b.i64(constant));
  return offset;
}

Value GpuEmitter::ownAddress(NestState &state, Value memory,
                             const ElementType &type, Value counter,
                             int64_t lane) {
  Value index = b.mulI(counter, state.shared.width);
  if (lane != 0)
    index = b.addI(index, b.i64(lane));
  return b.address(memory, index, type);
}

SmallVector<Value> GpuEmitter::load(NestState &state, const Access &access,
                                    const Location &location) {
  ElementType type = memoryType(access.value);
  int64_t width = state.shared.width;
  if (location.loops.back() == 0) {
    Value one =
        b.load(b.address(location.pointer, offsetOf(state, location, 0), type),
               type, {});
    return SmallVector<Value>(width, one);
  }
  int64_t piece = layout.getPiece(access, location.loops, width);
  int64_t bytes = type.memory.getIntOrFloatBitWidth() / 8;
  SmallVector<Value> values;
  for (int64_t at = 0; at < width; at += piece) {
    Value address =
        b.address(location.pointer, offsetOf(state, location, at), type);
    if (piece == 1) {
      values.push_back(b.load(address, type, {}));
      continue;
    }
    Value all = b.create<LLVM::LoadOp>(VectorType::get({piece}, type.memory),
                                       address, piece * bytes);
    for (int64_t i = 0; i < piece; ++i)
      values.push_back(
          b.toCompute(b.create<LLVM::ExtractElementOp>(all, i32(i)), type));
  }
  return values;
}

void GpuEmitter::store(NestState &state, const Access &access,
                       const Location &location, ArrayRef<Value> values) {
  ElementType type = memoryType(access.value);
  int64_t width = values.size();
  int64_t piece = layout.getPiece(access, location.loops, width);
  int64_t bytes = type.memory.getIntOrFloatBitWidth() / 8;
  for (int64_t at = 0; at < width; at += piece) {
    Value address =
        b.address(location.pointer, offsetOf(state, location, at), type);
    if (piece == 1) {
      b.store(values[at], address, type, {});
      continue;
    }
    Value all = b.create<LLVM::UndefOp>(VectorType::get({piece}, type.memory));
    for (int64_t i = 0; i < piece; ++i)
      all = b.create<LLVM::InsertElementOp>(
          all, b.toMemory(values[at + i], type), i32(i));
    b.create<LLVM::StoreOp>(all, address, piece * bytes);
  }
}

//===----------------------------------------------------------------------===//
// The nest
//===----------------------------------------------------------------------===//

void GpuEmitter::describeReads(NestState &state) {
  llvm::DenseSet<Value> inNest;
  for (unsigned index : state.shared.nest->statements) {
    const Statement &statement = plan.statements[index];
    auto generic = dyn_cast<linalg::GenericOp>(statement.op);
    for (auto [operand, access] : llvm::enumerate(statement.reads)) {
      bool passes =
          inNest.contains(access.value) &&
          plan.canForward(plan.statements[plan.producer.lookup(access.value)],
                          statement, access);
      if (passes || rowValues.contains(access.value))
        continue;
      NestState::Read read{&access, {}, {}, /*once=*/false};
      // The window operand of a pooling only gives the window's shape. Its
      // elements are not read.
      bool isUnused =
          generic && generic.getBody()->getArgument(operand).use_empty();
      if (isUnused) {
        read.once = true;
        read.values.assign(state.shared.width, Value());
      } else if (!layout.own.contains(access.value)) {
        read.location = locate(access);
        read.location.loops = state.shared.loops.join(read.location.loops);
        read.once = llvm::all_of(read.location.loops,
                                 [](int64_t step) { return step == 0; });
        if (read.once)
          read.values = load(state, access, read.location);
      }
      state.reads.insert({{index, (unsigned)operand}, read});
    }
    for (const Access &write : statement.writes)
      inNest.insert(write.value);
  }
}

void GpuEmitter::emitIteration(NestState &state, Value counter) {
  int64_t width = state.shared.width;
  state.forwarded.clear();
  // Every read of the iteration comes before any write, because a result may
  // lie in the buffer of an operand.
  for (auto &[key, read] : state.reads) {
    if (read.once)
      continue;
    if (Value memory = owned.lookup(read.access->value)) {
      ElementType type = memoryType(read.access->value);
      read.values.clear();
      for (int64_t i = 0; i < width; ++i)
        read.values.push_back(
            b.load(ownAddress(state, memory, type, counter, i), type, {}));
      continue;
    }
    read.values = load(state, *read.access, read.location);
  }
  struct Store {
    const Access *access;
    SmallVector<Value> values;
  };
  SmallVector<Store> stores;
  for (unsigned index : state.shared.nest->statements) {
    const Statement &statement = plan.statements[index];
    auto operandOf = [&](size_t operand, int64_t i) -> Value {
      auto found = state.reads.find({index, (unsigned)operand});
      if (found != state.reads.end())
        return found->second.values[i];
      Value value = statement.reads[operand].value;
      auto forwarded = state.forwarded.find(value);
      if (forwarded != state.forwarded.end())
        return forwarded->second[i];
      return rowValues.lookup(value);
    };
    if (auto blocks = dyn_cast<ReduceBlocksOp>(statement.op)) {
      ElementType type = sumType(blocks);
      Value memory = blockSums.lookup(blocks.getResult());
      for (int64_t i = 0; i < width; ++i) {
        Value address = ownAddress(state, memory, type, counter, i);
        Value sum =
            combineBlocks(blocks, operandOf(0, i), b.load(address, type, {}));
        b.store(sum, address, type, {});
      }
      continue;
    }
    SmallVector<SmallVector<Value>> results(statement.writes.size());
    for (int64_t i = 0; i < width; ++i) {
      SmallVector<Value> arguments;
      for (size_t operand = 0; operand < statement.reads.size(); ++operand)
        arguments.push_back(operandOf(operand, i));
      bool reduces = statement.kind == StatementKind::Reduce;
      if (reduces)
        for (NestState::Sum &sum : state.sums)
          if (sum.statement == index)
            arguments.push_back(sum.current[i % sum.current.size()]);
      SmallVector<Value> yielded = cloneBody(
          statement, arguments,
          [&](int64_t dim) {
            ArrayRef<int64_t> lastOf = state.shared.loops.lastOf;
            size_t loop =
                llvm::find(lastOf, statement.loopOfDim[dim]) - lastOf.begin();
            Value at = state.indices[loop];
            return loop + 1 == lastOf.size() && i > 0 ? b.addI(at, b.i64(i))
                                                      : at;
          },
          {});
      if (failedOnce)
        return;
      if (reduces) {
        for (NestState::Sum &sum : state.sums)
          if (sum.statement == index)
            sum.current[i % sum.current.size()] = yielded[sum.result];
        continue;
      }
      for (auto [list, value] : llvm::zip(results, yielded))
        list.push_back(value);
    }
    if (statement.kind == StatementKind::Reduce)
      continue;
    bool isHome = layout.isHome(index, state.shared);
    for (auto [write, values] : llvm::zip(statement.writes, results)) {
      state.forwarded[write.value] = values;
      if (isHome && (isInMemory(write.value) || owned.contains(write.value)))
        stores.push_back({&write, values});
    }
  }
  for (Store &each : stores) {
    Value value = each.access->value;
    if (Value memory = owned.lookup(value)) {
      ElementType type = memoryType(value);
      for (auto [i, element] : llvm::enumerate(each.values))
        b.store(element, ownAddress(state, memory, type, counter, i), type, {});
      continue;
    }
    const Location &location = state.targets.find(value)->second;
    Value condition =
        state.shared.sharing == Sharing::Repeated ? isFirstOfTeam() : Value();
    when(condition, {}, [&] {
      store(state, *each.access, location, each.values);
      return Carried();
    });
  }
}

void GpuEmitter::emitNest(const SharedNest &shared, bool barrierInside) {
  NestState state(shared);
  describeReads(state);
  bool combines = (shared.sharing == Sharing::Elements && layout.team > 1) ||
                  (shared.sharing == Sharing::Outer && shared.group > 1) ||
                  shared.parts > 1;
  for (unsigned index : shared.nest->statements) {
    const Statement &statement = plan.statements[index];
    bool isHome = layout.isHome(index, shared);
    for (auto [result, write] : llvm::enumerate(statement.writes)) {
      if (isHome && isInMemory(write.value) &&
          statement.kind != StatementKind::ReduceBlocks) {
        Location location = locate(write);
        location.loops = shared.loops.join(location.loops);
        state.targets.insert({write.value, location});
      }
      if (statement.kind != StatementKind::Reduce)
        continue;
      TypedAttr initial = initialValue(statement, result);
      NestState::Sum sum{index, (unsigned)result, &write, initial, initial, {},
                         {}};
      if (combines) {
        sum.combiner = getCombiner(statement, result);
        sum.initial = sum.combiner.identity;
      }
      sum.current.resize(shared.sharing == Sharing::Columns ? shared.width : 1);
      state.sums.push_back(sum);
    }
  }
  bool hasRowSums = shared.sharing == Sharing::Elements ||
                    shared.sharing == Sharing::Repeated;
  iterate(
      state, [&](Value counter) { emitIteration(state, counter); },
      [&](ValueRange sums) {
        if (failedOnce)
          return;
        if (hasRowSums)
          finishRowSums(state, sums, barrierInside);
        else
          finishKeptSums(state, sums);
      });
}

/// Combines the sums of all threads, which become scalars of the row.
void GpuEmitter::finishRowSums(NestState &state, ValueRange sums,
                               bool barrierInside) {
  if (state.sums.empty())
    return;
  Carried totals(sums);
  if (state.sums.front().combiner.op) {
    SmallVector<Combiner> combiners;
    for (NestState::Sum &sum : state.sums)
      combiners.push_back(sum.combiner);
    totals = combineTeam(combiners, sums);
  }
  if (barrierInside)
    barrier();
  SmallVector<std::pair<NestState::Sum *, Value>> stores;
  for (auto [sum, total] : llvm::zip(state.sums, totals)) {
    Value value = state.complete(*this, sum, total);
    rowValues[sum.write->value] = value;
    if (state.targets.contains(sum.write->value))
      stores.push_back({&sum, value});
  }
  if (stores.empty())
    return;
  when(isFirstOfTeam(), {}, [&] {
    for (auto [sum, value] : stores) {
      Value tensor = sum->write->value;
      b.store(value, state.targets.find(tensor)->second.pointer,
              memoryType(tensor), {});
    }
    return Carried();
  });
}

/// Stores the sums of one kept iteration.
void GpuEmitter::finishKeptSums(NestState &state, ValueRange sums) {
  bool isColumns = state.shared.sharing == Sharing::Columns;
  size_t next = 0;
  SmallVector<std::pair<NestState::Sum *, SmallVector<Value>>> all;
  for (NestState::Sum &sum : state.sums) {
    SmallVector<Value> values;
    for (size_t i = 0; i < sum.current.size(); ++i) {
      Value value = sums[next++];
      if (state.shared.group > 1)
        value = combineWarp(sum.combiner, value);
      values.push_back(state.complete(*this, sum, value));
    }
    if (state.targets.contains(sum.write->value))
      all.push_back({&sum, values});
  }
  Value condition;
  if (state.shared.group > 1)
    condition =
        b.create<arith::CmpIOp>(arith::CmpIPredicate::eq, laneOfWarp, b.i64(0));
  when(condition, {}, [&] {
    for (auto &[sum, values] : all) {
      Location location = state.targets.find(sum->write->value)->second;
      if (isColumns) {
        store(state, *sum->write, location, values);
        continue;
      }
      // Only the kept loops count: along reduced loops the result has step 0.
      Value offset;
      for (size_t loop = 0; loop < state.shared.border; ++loop)
        offset =
            b.addI(offset, b.mulI(state.indices[loop], location.loops[loop]));
      ElementType type = memoryType(sum->write->value);
      b.store(values[0], b.address(location.pointer, offset, type), type, {});
    }
    return Carried();
  });
}
