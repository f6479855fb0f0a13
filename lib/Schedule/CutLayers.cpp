//===- CutLayers.cpp - A model with fewer equal layers --------------------===//

#include "heddle/Schedule/CutLayers.h"
#include "Repetition.h"
#include "dialects/Heddle/Heddle.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace heddle;

namespace {
/// The equal layers of a function: `count` times `period` ops.
struct Layers {
  SmallVector<Operation *> ops; ///< of the function
  int32_t begin = 0, period = 0;
  int64_t count = 0;

  /// Returns the index behind the first `layers` layers.
  size_t getEnd(int64_t layers) const { return begin + layers * period; }
};
} // namespace

static Layers findLayers(ModuleOp module) {
  Layers layers;
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  if (!forward || !forward.getBody().hasOneBlock())
    return layers;
  SmallVector<uint64_t> fingerprints;
  for (Operation &op : forward.getBody().front().without_terminator()) {
    layers.ops.push_back(&op);
    fingerprints.push_back(getFingerprint(&op));
  }
  SmallVector<Run> runs = findLeastRuns(fingerprints, layers.period);
  for (Run run : runs)
    if (int64_t count = (run.end - run.begin) / layers.period;
        count > layers.count) {
      layers.begin = run.begin;
      layers.count = count;
    }
  return layers;
}

int64_t heddle::countEqualLayers(ModuleOp module) {
  return findLayers(module).count;
}

bool heddle::namesLayers(StringRef glob) {
  SmallVector<StringRef> parts;
  glob.split(parts, '.');
  return llvm::any_of(parts, [](StringRef part) {
    if (!part.empty() && llvm::all_of(part, llvm::isDigit))
      return true;
    // A question mark stands for numbers of one digit.
    return part.contains('?') ||
           (part.contains('*') && llvm::any_of(part, llvm::isDigit));
  });
}

void heddle::keepLayers(ModuleOp module, int64_t layers) {
  Layers all = findLayers(module);
  size_t end = all.getEnd(layers);
  ArrayRef<Operation *> removed =
      ArrayRef<Operation *>(all.ops).slice(end, all.getEnd(all.count) - end);
  llvm::DenseSet<Attribute> variables;
  for (auto [i, op] : llvm::enumerate(removed)) {
    Operation *same = all.ops[end - all.period + i % all.period];
    op->replaceAllUsesWith(same->getResults());
    op->walk([&](LoadOp load) { variables.insert(load.getVariableAttr()); });
  }
  for (Operation *op : llvm::reverse(removed))
    op->erase();
  module.walk([&](LoadOp load) { variables.erase(load.getVariableAttr()); });
  for (auto variable : llvm::make_early_inc_range(module.getOps<VariableOp>()))
    if (variables.contains(FlatSymbolRefAttr::get(variable)))
      variable.erase();
}
