//===- Repetition.cpp - Ops that repeat -----------------------------------===//

#include "Repetition.h"
#include "dialects/Heddle/Heddle.h"
#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;
using namespace heddle;

uint64_t heddle::getFingerprint(Operation *op) {
  llvm::hash_code hash = llvm::hash_value(op->getName().getAsOpaquePointer());
  for (Type type : op->getOperandTypes())
    hash = llvm::hash_combine(hash, type);
  for (Type type : op->getResultTypes())
    hash = llvm::hash_combine(hash, type);
  bool isLoad = isa<LoadOp>(op);
  for (NamedAttribute attribute : op->getAttrDictionary())
    if (!isa<StringAttr>(attribute.getValue()) &&
        !(isLoad && isa<SymbolRefAttr>(attribute.getValue())))
      hash =
          llvm::hash_combine(hash, attribute.getName(), attribute.getValue());
  for (Region &region : op->getRegions())
    for (Operation &inner : region.getOps())
      hash = llvm::hash_combine(hash, getFingerprint(&inner));
  return hash;
}

/// Returns the runs of at least two periods.
static SmallVector<Run> findRuns(ArrayRef<uint64_t> fingerprints,
                                 int32_t period) {
  SmallVector<Run> runs;
  auto count = static_cast<int32_t>(fingerprints.size());
  int32_t begin = 0;
  for (int32_t i = 0; i + period <= count; ++i)
    if (i + period == count || fingerprints[i] != fingerprints[i + period]) {
      if (i - begin >= period)
        runs.push_back({begin, i + period});
      begin = i + 1;
    }
  return runs;
}

SmallVector<Run> heddle::findLeastRuns(ArrayRef<uint64_t> fingerprints,
                                       int32_t &period) {
  auto count = static_cast<int32_t>(fingerprints.size());
  auto countCovered = [&](int32_t period) {
    int64_t covered = 0;
    for (Run run : findRuns(fingerprints, period))
      covered += run.end - run.begin;
    return covered;
  };
  SmallVector<int64_t> covered;
  int64_t most = 0;
  for (period = 1; 2 * period <= count; ++period)
    most = std::max(most, covered.emplace_back(countCovered(period)));
  if (2 * most < count)
    return {};
  // Parts of a layer may repeat, too, as the steps of a ring do. But then the
  // ops between two rings are in no run, so a shorter period covers fewer ops
  // than the period of a layer.
  auto *least =
      llvm::find_if(covered, [&](int64_t ops) { return 10 * ops >= 9 * most; });
  period = static_cast<int32_t>(least - covered.begin()) + 1;
  return findRuns(fingerprints, period);
}
