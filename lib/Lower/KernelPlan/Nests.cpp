//===- Nests.cpp - Loop nests and the places of values --------------------===//

#include "KernelPlan.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

//===----------------------------------------------------------------------===//
// Nests
//===----------------------------------------------------------------------===//

bool KernelPlan::canForward(const Statement &from, const Statement &to,
                            const Access &read) const {
  if (from.kind != StatementKind::Map || from.loops != to.loops)
    return false;
  const Access &write =
      from.writes[cast<OpResult>(read.value).getResultNumber()];
  return read.loops == write.loops && read.constant == write.constant;
}

void KernelPlan::assignLevels() {
  for (Statement &statement : statements) {
    for (const Access &read : statement.reads) {
      auto found = producer.find(read.value);
      if (found == producer.end())
        continue;
      const Statement &from = statements[found->second];
      bool together = from.isScalar() || canForward(from, statement, read);
      statement.level =
          std::max(statement.level, from.level + (together ? 0 : 1));
    }
    for (auto [value, aligned] : getExtracted(statement.op, rowDims)) {
      auto found = producer.find(value);
      if (found != producer.end())
        statement.level =
            std::max(statement.level, statements[found->second].level + 1);
    }
  }
}

bool KernelPlan::isCheap(unsigned index) const {
  llvm::SmallDenseMap<unsigned, bool> known;
  return isCheap(index, known);
}

bool KernelPlan::isCheap(unsigned index,
                         llvm::SmallDenseMap<unsigned, bool> &known) const {
  if (auto found = known.find(index); found != known.end())
    return found->second;
  known[index] = false;
  const Statement &statement = statements[index];
  int64_t elements = 1;
  for (int64_t extent : statement.loops)
    elements *= extent;
  bool isLong = elements > target.mostKeptElements;
  if (statement.kind != StatementKind::Map ||
      (statement.cost > target.cheapCost && !isLong) ||
      (statement.reads.size() > target.cheapReads && !isLong) ||
      !getExtracted(statement.op, rowDims).empty())
    return false;
  for (const Access &read : statement.reads) {
    auto found = producer.find(read.value);
    if (found == producer.end() || statements[found->second].isScalar() ||
        resultIndex(read.value) >= 0)
      continue;
    const Statement &from = statements[found->second];
    if (from.kind == StatementKind::Reduce && from.firstReduced == 0)
      continue;
    if (!canForward(from, statement, read) || !isCheap(found->second, known))
      return false;
  }
  known[index] = true;
  return true;
}

/// Makes every value that the nest reads available in it: repeats a cheap
/// producer in the nest, otherwise keeps the value in memory.
void KernelPlan::placeValues(Nest &nest) {
  llvm::SmallDenseSet<unsigned> inNest(nest.statements.begin(),
                                       nest.statements.end());
  SmallVector<unsigned> work(nest.statements);
  while (!work.empty()) {
    const Statement &to = statements[work.pop_back_val()];
    for (auto [value, aligned] : getExtracted(to.op, rowDims))
      if (producer.contains(value) && resultIndex(value) < 0)
        scratch.insert(value);
    // A statement that accumulates in memory needs a buffer even if nobody
    // reads its result.
    if (to.kind == StatementKind::ReduceBlocks ||
        (to.kind == StatementKind::Reduce && to.firstReduced < 0))
      for (const Access &write : to.writes)
        if (resultIndex(write.value) < 0)
          scratch.insert(write.value);
    for (const Access &read : to.reads) {
      auto found = producer.find(read.value);
      if (found == producer.end())
        continue;
      unsigned index = found->second;
      const Statement &from = statements[index];
      bool isRowScalar =
          from.isScalar() ||
          (from.kind == StatementKind::Reduce && from.firstReduced == 0);
      if (isRowScalar)
        continue;
      if (canForward(from, to, read)) {
        if (inNest.contains(index))
          continue;
        if (resultIndex(read.value) < 0 && isCheap(index)) {
          inNest.insert(index);
          work.push_back(index);
          continue;
        }
      }
      if (resultIndex(read.value) < 0)
        scratch.insert(read.value);
    }
  }
  nest.statements.assign(inNest.begin(), inNest.end());
  llvm::sort(nest.statements);
}

/// Returns whether `statement` is a reduction and the nest has a reduction that
/// reduces other loops. Such a statement needs a nest of its own: the threads
/// of a GPU share the iterations of a nest in one way, which suits only one
/// choice of reduced loops.
bool KernelPlan::reducesOtherLoops(const Nest &nest,
                                   const Statement &statement) const {
  return statement.kind == StatementKind::Reduce &&
         llvm::any_of(nest.statements, [&](unsigned index) {
           const Statement &other = statements[index];
           auto keepSameLoops = [](int64_t left, int64_t right) {
             return (left == 0) == (right == 0);
           };
           return other.kind == StatementKind::Reduce &&
                  (other.firstReduced != statement.firstReduced ||
                   !llvm::equal(other.writes[0].loops,
                                statement.writes[0].loops, keepSameLoops));
         });
}

void KernelPlan::formNests() {
  int64_t levels = 0;
  for (const Statement &statement : statements)
    levels = std::max(levels, statement.level + 1);
  for (int64_t level = 0; level < levels; ++level) {
    // Values computed once per row come before the loops that use them.
    for (bool scalars : {true, false})
      for (auto [i, statement] : llvm::enumerate(statements)) {
        if (statement.level != level || statement.isScalar() != scalars)
          continue;
        auto same = llvm::find_if(nests, [&](const Nest &nest) {
          return nest.level == level && nest.loops == statement.loops &&
                 !(target.isGpu && reducesOtherLoops(nest, statement));
        });
        if (same == nests.end()) {
          nests.push_back({statement.loops, {}, level});
          same = std::prev(nests.end());
        }
        same->statements.push_back(i);
      }
  }
  for (Nest &nest : nests)
    placeValues(nest);
}

//===----------------------------------------------------------------------===//
// Buffers in place
//===----------------------------------------------------------------------===//

unsigned KernelPlan::getHome(unsigned statement) const {
  for (auto [n, nest] : llvm::enumerate(nests))
    if (statements[statement].level == nest.level &&
        statements[statement].loops == nest.loops &&
        llvm::is_contained(nest.statements, statement))
      return n;
  return 0;
}

bool KernelPlan::canHost(Value value, Value result) const {
  unsigned from = producer.lookup(value), to = producer.lookup(result);
  const Statement &source = statements[from], &target = statements[to];
  auto elementOf = [](Value v) {
    return cast<RankedTensorType>(v.getType()).getElementType();
  };
  // Scratch holds a value as computed (f32), but the row of a bf16 result would
  // round it. So only values of f32 or f64 can be hosted.
  if (value.getType() != result.getType() ||
      !(elementOf(value).isF32() || elementOf(value).isF64()) ||
      source.kind != StatementKind::Map || target.kind != StatementKind::Map ||
      source.loops != target.loops || getHome(from) >= getHome(to))
    return false;
  const Access &write = target.writes[cast<OpResult>(result).getResultNumber()];
  auto isSame = [&](const Access &access) {
    return access.constant == write.constant && access.rows == write.rows &&
           access.loops == write.loops;
  };
  if (!isSame(source.writes[cast<OpResult>(value).getResultNumber()]))
    return false;
  for (auto [n, nest] : llvm::enumerate(nests))
    for (unsigned reader : nest.statements) {
      for (auto [extracted, aligned] :
           getExtracted(statements[reader].op, rowDims))
        if (extracted == value)
          return false;
      for (const Access &read : statements[reader].reads)
        if (read.value == value && n >= getHome(to) &&
            (n > getHome(to) || !isSame(read)))
          return false;
    }
  return true;
}

/// Keeps values of scratch in the row of a result (their host) instead, which
/// saves cache. The value must have the result's type and must not be read
/// after the result is written.
void KernelPlan::chooseHosts() {
  llvm::DenseSet<Value> taken;
  for (const Statement &statement : statements)
    for (Value value : statement.op->getResults()) {
      if (!scratch.contains(value))
        continue;
      for (Value result :
           kernel.getBody().front().getTerminator()->getOperands())
        if (!taken.contains(result) && canHost(value, result)) {
          host[value] = result;
          taken.insert(result);
          scratch.erase(value);
          break;
        }
    }
}

SmallVector<SmallVector<int64_t>> KernelPlan::findInplace() const {
  auto mayTake = [&](Value result, Value operand) {
    unsigned index = producer.lookup(result);
    const Statement &from = statements[index];
    int64_t written = getHome(index);
    for (auto [guest, owner] : host)
      if (owner == result)
        written = getHome(producer.lookup(guest));
    if (from.kind == StatementKind::ReduceBlocks ||
        (from.kind == StatementKind::Reduce && from.firstReduced != 0))
      return false;
    const Access &write = from.writes[cast<OpResult>(result).getResultNumber()];
    int64_t rowSize = write.rows.empty() ? INT64_MAX : write.rows.back();
    for (auto [n, nest] : llvm::enumerate(nests))
      for (unsigned statement : nest.statements) {
        const Statement &reader = statements[statement];
        for (auto [value, aligned] : getExtracted(reader.op, rowDims))
          if (value == operand && (!aligned || (int64_t)n >= written || chunk))
            return false;
        for (const Access &read : reader.reads) {
          if (read.value != operand)
            continue;
          if (read.rows != write.rows || (int64_t)n > written)
            return false;
          bool same = read.constant == write.constant &&
                      read.loops == write.loops && reader.loops == from.loops;
          if ((int64_t)n == written && !same)
            return false;
          int64_t low = read.constant, high = read.constant;
          for (auto [step, extent] : llvm::zip(read.loops, reader.loops))
            (step < 0 ? low : high) += step * (extent - 1);
          if (low < 0 || high >= rowSize)
            return false;
        }
      }
    return true;
  };

  SmallVector<SmallVector<int64_t>> result;
  for (Value value : kernel.getBody().front().getTerminator()->getOperands()) {
    SmallVector<int64_t> &operands = result.emplace_back();
    for (BlockArgument argument : kernel.getArguments())
      if (argument.getType() == value.getType() && !argument.use_empty() &&
          mayTake(value, argument))
        operands.push_back(argument.getArgNumber());
  }
  return result;
}
