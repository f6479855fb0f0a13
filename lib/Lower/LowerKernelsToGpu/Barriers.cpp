//===- Barriers.cpp - Where the threads of a row wait for each other ------===//
//
// A team needs a barrier where one thread touches memory that another thread of
// the team touched before, if one of the two accesses is a write. Different
// rows touch different memory, except for shared memory that a team's next row
// uses again.
//
//===----------------------------------------------------------------------===//

#include "GpuEmitter.h"
#include "llvm/ADT/EquivalenceClasses.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

namespace {

/// One kind of access to memory.
struct Touch {
  const void *memory; ///< a buffer, scratch value, or slot of a sum
  bool isWrite;
  bool isReused; ///< by the team's next row
  enum { Any, First, Element } by;
  /// For Element: the nest and the access, which determine the thread that
  /// touches each element.
  const SharedNest *nest = nullptr;
  const Access *access = nullptr;
};

/// Returns whether each element is touched by the same thread both times.
bool haveSameThreads(const Touch &a, const Touch &b) {
  if (a.by != b.by || a.by == Touch::Any)
    return false;
  return a.by == Touch::First || (a.nest->nest->loops == b.nest->nest->loops &&
                                  a.nest->width == b.nest->width &&
                                  a.access->loops == b.access->loops &&
                                  a.access->constant == b.access->constant);
}

/// Visits the nests in order, and keeps the touches since the last barrier.
class Visitor {
public:
  Visitor(const KernelPlan &plan, const GpuLayout &layout, Barriers &barriers)
      : plan(plan), layout(layout), barriers(barriers) {
    auto results = plan.kernel.getBody().front().getTerminator()->getOperands();
    for (auto [result, operands] : llvm::zip(results, plan.findInplace())) {
      buffers.insert(result.getAsOpaquePointer());
      for (int64_t operand : operands)
        buffers.unionSets(
            result.getAsOpaquePointer(),
            plan.kernel.getArgument(operand).getAsOpaquePointer());
    }
    for (auto [guest, owner] : plan.host)
      buffers.unionSets(guest.getAsOpaquePointer(), owner.getAsOpaquePointer());
  }

  void visitRow() {
    for (size_t i = 0; i < layout.nests.size(); ++i)
      visit(i);
  }
  void startNextRow() {
    llvm::erase_if(pending, [](const Touch &touch) { return !touch.isReused; });
    inRegisters.clear();
  }

private:
  /// Returns the memory of a value. Null if accesses to it need no barrier.
  const void *memoryOf(Value value) const {
    if (plan.scratch.contains(value))
      return layout.own.contains(value) ? nullptr : value.getAsOpaquePointer();
    auto found = buffers.findLeader(value.getAsOpaquePointer());
    return found == buffers.member_end() ? nullptr : *found;
  }

  bool meets(const Touch &touch) const {
    return llvm::any_of(pending, [&](const Touch &before) {
      return before.memory == touch.memory &&
             (before.isWrite || touch.isWrite) &&
             !haveSameThreads(before, touch);
    });
  }
  bool meets(ArrayRef<Touch> touches) const {
    return llvm::any_of(touches, [&](const Touch &t) { return meets(t); });
  }

  void add(SmallVector<Touch> &touches, Value value, bool isWrite,
           decltype(Touch::by) by, const SharedNest *nest = nullptr,
           const Access *access = nullptr) const {
    if (const void *memory = memoryOf(value))
      touches.push_back(
          {memory, isWrite, plan.scratch.contains(value), by, nest, access});
  }

  void visit(size_t i) {
    const SharedNest &shared = layout.nests[i];
    bool isElements = shared.sharing == Sharing::Elements && !shared.isScalar();
    // `all` has the touches of all threads. `first` has those of the first
    // thread, which writes the values that exist once a row.
    SmallVector<Touch> all, first;
    bool combines = false;
    for (unsigned index : shared.nest->statements) {
      const Statement &statement = plan.statements[index];
      for (auto [value, aligned] : getExtracted(statement.op, plan.rowDims))
        add(all, value, false, Touch::Any);
      for (const Access &read : statement.reads) {
        if (inRegisters.contains(read.value))
          continue;
        bool isOneElement =
            llvm::all_of(read.loops, [](int64_t step) { return step == 0; });
        add(all, read.value, false,
            isElements && !isOneElement ? Touch::Element : Touch::Any, &shared,
            &read);
      }
      bool isHome = layout.isHome(index, shared);
      bool isRowSum = statement.kind == StatementKind::Reduce &&
                      statement.firstReduced == 0;
      combines |=
          (isRowSum && isElements && layout.team > kWarp) || shared.parts > 1;
      if (statement.kind == StatementKind::ReduceBlocks || !isHome)
        continue;
      for (const Access &write : statement.writes) {
        if (shared.isScalar() || (isRowSum && isElements))
          inRegisters.insert(write.value);
        if (shared.isScalar() || isRowSum)
          add(first, write.value, true, Touch::First);
        else if (shared.parts > 1 && statement.kind == StatementKind::Reduce)
          add(first, write.value, true, Touch::Any);
        else
          add(all, write.value, true, isElements ? Touch::Element : Touch::Any,
              &shared, &write);
      }
    }
    // Sums of several warps, or of several parts, pass through shared memory.
    Touch slot{&shared, true, true, Touch::Any};
    if (meets(all) || (combines && meets(slot)))
      barriers.before[i] = true;
    if (barriers.before[i])
      pending.clear();
    append_range(pending, all);
    if (combines) {
      pending.clear();
      slot.isWrite = false;
      pending.push_back(slot);
    }
    if (meets(first))
      barriers.inside[i] = true;
    if (barriers.inside[i])
      pending.clear();
    append_range(pending, first);
  }

  const KernelPlan &plan;
  const GpuLayout &layout;
  Barriers &barriers;
  llvm::EquivalenceClasses<const void *> buffers;
  SmallVector<Touch> pending;
  /// Scalars of the row that every thread has. They may be stored, too, but no
  /// nest reads them from memory.
  llvm::DenseSet<Value> inRegisters;
};

} // namespace

void GpuLayout::placeBarriers() {
  barriers.before.assign(nests.size(), false);
  barriers.inside.assign(nests.size(), false);
  if (team == 1)
    return;
  Visitor visitor(plan, *this, barriers);
  visitor.visitRow();
  if (plan.blockUnits == 1)
    return;
  visitor.startNextRow();
  visitor.visitRow();
}
