//===- Liveness.cpp - Values in memory, kernels and the peak --------------===//

#include "Liveness.h"

using namespace mlir;
using namespace heddle;

/// Fusable ops at most this far apart are in one kernel.
static constexpr unsigned kNear = 8;

bool heddle::isFusableOp(Operation *op, const ShardingRule &rule) {
  return op->getNumResults() > 0 && !rule.results.front().empty() &&
         llvm::all_of(rule.factors, [](const Factor &factor) {
           return factor.kind == FactorKind::Parallel;
         });
}

void heddle::findKernelBorders(OpClass &made,
                               function_ref<bool(Operation *)> isFusable,
                               const DenseMap<Operation *, unsigned> &indexOf) {
  // Takes an op of a middle layer, because the first and the last layer have
  // other neighbours.
  Operation *op = made.ops[made.ops.size() / 2];
  unsigned index = indexOf.lookup(op);
  made.reads.assign(op->getNumOperands(), true);
  made.writes.assign(op->getNumResults(), true);
  if (!made.isFusable)
    return;
  bool launches = true;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    Operation *source = operand.getDefiningOp();
    auto found = indexOf.find(source);
    if (found == indexOf.end() || !isFusable(source) ||
        index - found->second > kNear)
      continue;
    made.reads[i] = false;
    launches = false;
  }
  for (auto [i, result] : llvm::enumerate(op->getResults()))
    made.writes[i] = result.use_empty() ||
                     llvm::any_of(result.getUsers(), [&](Operation *user) {
                       auto found = indexOf.find(user);
                       return found == indexOf.end() || !isFusable(user) ||
                              found->second - index > kNear;
                     });
  made.launches = launches;
}

/// Returns whether the op's result is a view of its first operand.
static bool isView(Operation *op) {
  auto model = dyn_cast<WorkOpInterface>(op);
  if (!model || op->getNumOperands() == 0)
    return false;
  Work work = model.getWork();
  return work.flops == 0 && work.bytesRead == 0 && work.bytesWritten == 0;
}

std::vector<LiveResult>
heddle::findLiveAtPeak(ArrayRef<Operation *> ops,
                       function_ref<bool(Operation *)> isFusable) {
  DenseMap<Operation *, unsigned> indexOf;
  for (auto [i, op] : llvm::enumerate(ops))
    indexOf[op] = i;
  DenseMap<Value, unsigned> lastUse;
  std::vector<int64_t> change(ops.size() + 1, 0);
  struct Life {
    unsigned begin, end, result;
  };
  std::vector<Life> lives;
  for (size_t i = ops.size(); i-- > 0;) {
    Operation *op = ops[i];
    for (OpResult result : op->getResults()) {
      unsigned last = i;
      for (Operation *user : result.getUsers()) {
        auto found = indexOf.find(user);
        while (found == indexOf.end() && user->getParentOp()) {
          user = user->getParentOp();
          found = indexOf.find(user);
        }
        if (found == indexOf.end())
          continue;
        last = std::max(last, found->second);
        if (isView(user))
          for (Value view : user->getResults())
            if (auto known = lastUse.find(view); known != lastUse.end())
              last = std::max(last, known->second);
      }
      lastUse[result] = last;
      int64_t bytes = getBytes(result.getType());
      if (bytes == 0 || isView(op) || last == i)
        continue;
      // Inside of a kernel, the value is never in memory.
      if (last - i <= kNear && isFusable(op) &&
          llvm::all_of(result.getUsers(), [&](Operation *user) {
            return indexOf.contains(user) && isFusable(user);
          }))
        continue;
      lives.push_back({unsigned(i), last, result.getResultNumber()});
      change[i] += bytes;
      change[last] -= bytes;
    }
  }
  int64_t live = 0, most = 0;
  unsigned peak = 0;
  for (size_t i = 0; i < ops.size(); ++i) {
    live += change[i];
    if (live > most) {
      most = live;
      peak = i;
    }
  }
  std::vector<LiveResult> result;
  for (const Life &life : lives)
    if (life.begin <= peak && peak < life.end)
      result.push_back({ops[life.begin], life.result, 1});
  return result;
}
