//===- LayerStages.cpp - Stages of a pipeline by layers -------------------===//

#include "LayerStages.h"
#include "dialects/Heddle/Heddle.h"
#include <map>
#include <set>

using namespace mlir;
using namespace heddle;

llvm::Expected<std::vector<std::string>> heddle::findLayers(ModuleOp module) {
  struct Numbers {
    std::set<int64_t> layers;
    int64_t operators = 0;
  };
  std::map<std::string, Numbers> prefixes;
  module.walk([&](Operation *op) {
    StringRef name = getOpName(op);
    for (size_t begin = 0; begin < name.size();) {
      size_t end = name.find('.', begin);
      int64_t number = 0;
      if (end == StringRef::npos)
        return;
      if (!name.slice(begin, end).getAsInteger(10, number)) {
        Numbers &numbers = prefixes[name.take_front(begin).str()];
        numbers.layers.insert(number);
        ++numbers.operators;
        return;
      }
      begin = end + 1;
    }
  });
  auto most = llvm::max_element(prefixes, [](const auto &a, const auto &b) {
    return a.second.operators < b.second.operators;
  });
  if (most == prefixes.end())
    return llvm::createStringError(
        "expected operators whose names have the number of their layer, such "
        "as h.0.mlp, got none: a pipeline needs them");
  std::vector<std::string> globs;
  for (int64_t layer : most->second.layers)
    globs.push_back(most->first + std::to_string(layer) + ".*");
  return globs;
}

void heddle::setStages(Plan &plan, ArrayRef<std::string> layers,
                       ArrayRef<int64_t> counts) {
  plan.stages.clear();
  for (int64_t count : counts) {
    PlanStage &stage = plan.stages.emplace_back();
    stage.globs.assign(layers.begin(), layers.begin() + count);
    layers = layers.drop_front(count);
  }
  plan.numStages = int64_t(plan.stages.size());
}
