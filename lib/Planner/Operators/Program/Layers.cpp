//===- Layers.cpp - Ops at the same place of equal layers -----------------===//

#include "Layers.h"
#include "mlir/IR/BuiltinAttributes.h"
#include <map>

using namespace mlir;
using namespace heddle;

/// Ops that repeat with a shorter period are no layers.
static constexpr unsigned kLeastPeriod = 4;
/// A longer period is not looked for, so that the search stays short.
static constexpr unsigned kMostPeriod = 4096;

uint64_t heddle::getOpShape(Operation *op) {
  llvm::hash_code hash = llvm::hash_value(op->getName().getAsOpaquePointer());
  for (Type type : op->getOperandTypes())
    hash = llvm::hash_combine(hash, type);
  for (Type type : op->getResultTypes())
    hash = llvm::hash_combine(hash, type);
  for (NamedAttribute attribute : op->getAttrDictionary())
    if (!isa<StringAttr, IntegerAttr, FloatAttr>(attribute.getValue()))
      hash =
          llvm::hash_combine(hash, attribute.getName(), attribute.getValue());
  for (Region &region : op->getRegions())
    for (Operation &inner : region.getOps())
      hash = llvm::hash_combine(hash, getOpShape(&inner));
  return hash;
}

namespace {
/// Ops that repeat: op i equals op i + period for begin <= i < end - period.
struct Run {
  unsigned begin = 0, end = 0, period = 0;
  unsigned size() const { return end - begin; }
};
} // namespace

/// Returns the longest run of at least two periods between `begin` and `end`.
/// Of equally long runs, takes the one with the shortest period.
static Run findLongestRun(ArrayRef<uint64_t> shapes, unsigned begin,
                          unsigned end) {
  Run best;
  unsigned most = std::min((end - begin) / 2, kMostPeriod);
  for (unsigned period = kLeastPeriod; period <= most; ++period) {
    unsigned first = begin;
    for (unsigned i = begin; i + period <= end; ++i)
      if (i + period == end || shapes[i] != shapes[i + period]) {
        unsigned size = i + period - first;
        if (i - first >= period && size > best.size())
          best = {first, i + period, period};
        first = i + 1;
      }
  }
  return best;
}

void heddle::uniteLayers(ArrayRef<Operation *> ops,
                         ArrayRef<uint64_t> plannedAs,
                         llvm::EquivalenceClasses<unsigned> &classes) {
  SmallVector<uint64_t> shapes;
  for (auto [i, op] : llvm::enumerate(ops)) {
    shapes.push_back(getOpShape(op));
    classes.insert(i);
  }
  SmallVector<std::pair<unsigned, unsigned>> rest = {{0, ops.size()}};
  while (!rest.empty()) {
    auto [begin, end] = rest.pop_back_val();
    Run run = findLongestRun(shapes, begin, end);
    if (run.size() == 0)
      continue;
    // Keeps whole periods only. The ops after the last layer may begin like a
    // layer.
    unsigned last = run.begin + run.size() / run.period * run.period;
    std::map<uint64_t, unsigned> firstOf;
    for (unsigned layer = run.begin; layer < last; layer += run.period) {
      ArrayRef<uint64_t> planned = plannedAs.slice(layer, run.period);
      uint64_t key = llvm::hash_combine_range(planned.begin(), planned.end());
      unsigned first = firstOf.try_emplace(key, layer).first->second;
      for (unsigned i = 0; i < run.period; ++i)
        classes.unionSets(first + i, layer + i);
    }
    rest.push_back({begin, run.begin});
    rest.push_back({last, end});
  }
}
