//===- PinnedLayers.cpp - Layers that the user decides alone --------------===//

#include "PinnedLayers.h"
#include "../Bounds/Extrapolation.h"
#include "LayerStages.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/Plan/Plan.h"
#include <algorithm>

using namespace mlir;
using namespace heddle;

std::vector<std::string> heddle::getLayerPrefixes(ModuleOp module) {
  llvm::Expected<std::vector<std::string>> layers = findLayers(module);
  if (!layers) {
    llvm::consumeError(layers.takeError());
    return {};
  }
  for (std::string &layer : *layers)
    layer.pop_back(); // the star
  return std::move(*layers);
}

/// Returns the number of a layer as text: "1" of "h.1.".
static StringRef getNumber(StringRef layer) {
  StringRef name = layer.drop_back(); // the dot
  return name.drop_front(name.rfind('.') + 1);
}

PinnedLayers::PinnedLayers(ModuleOp few, const PlanRequest &request)
    : layers(getLayerPrefixes(few)) {
  globs.assign(request.pins.replicated.begin(), request.pins.replicated.end());
  auto addGlobs = [&](const auto &entries) {
    for (const auto &entry : entries)
      globs.push_back(entry.glob);
  };
  if (request.stated) {
    addGlobs(request.stated->operators);
    addGlobs(request.stated->storage);
    addGlobs(request.stated->pins);
    addGlobs(request.stated->splits);
    addGlobs(request.stated->priorities);
  }
  if (layers.empty() || globs.empty())
    return;
  int64_t first = 0;
  getNumber(layers.front()).getAsInteger(10, first);
  int64_t count =
      std::max(request.program.layers.value_or(0), int64_t(layers.size()));
  for (int64_t i = 0; i < count; ++i)
    numbers.push_back(std::to_string(first + i));
  auto addName = [&](StringRef name) {
    for (const std::string &layer : layers) {
      // State of the optimizer has the layer's name behind another one:
      // "adam.m.h.1.mlp".
      size_t at = name.find(layer);
      if (at == StringRef::npos || (at > 0 && name[at - 1] != '.'))
        continue;
      StringRef number = getNumber(layer);
      size_t before = at + layer.size() - 1 - number.size();
      names[layer].insert({name.take_front(before).str(),
                           name.drop_front(before + number.size()).str()});
      return;
    }
  };
  few.walk([&](Operation *op) {
    if (auto variable = dyn_cast<VariableOp>(op))
      addName(variable.getSymName());
    addName(getOpName(op));
  });
}

/// Returns whether the glob matches a name of `layer` if that layer had this
/// number.
bool PinnedLayers::matches(StringRef glob, const std::string &layer,
                           StringRef number) const {
  auto known = names.find(layer);
  return known != names.end() &&
         llvm::any_of(known->second, [&](const auto &name) {
           return matchesGlob(glob, name.first + number.str() + name.second);
         });
}

std::vector<StringRef> PinnedLayers::getOwnGlobs(StringRef layer) const {
  std::vector<StringRef> own;
  std::string name = layer.str();
  for (StringRef glob : globs)
    if (matches(glob, name, getNumber(layer)) &&
        !llvm::all_of(numbers, [&](const std::string &number) {
          return matches(glob, name, number);
        }))
      own.push_back(glob);
  return own;
}

std::set<size_t> PinnedLayers::findFurther(StringRef glob) const {
  std::set<size_t> further;
  for (size_t i = 0; i < numbers.size(); ++i)
    if (matches(glob, layers.front(), numbers[i])) {
      if (i < size_t(kFewLayers))
        return {};
      further.insert(i);
    }
  return further;
}

std::vector<StringRef> PinnedLayers::getFurtherGlobs() const {
  std::vector<StringRef> further;
  llvm::copy_if(globs, std::back_inserter(further),
                [&](StringRef glob) { return !findFurther(glob).empty(); });
  return further;
}

bool PinnedLayers::arePinnedFurther() const {
  std::set<size_t> pinned;
  for (StringRef glob : globs)
    pinned.merge(findFurther(glob));
  size_t few = std::min(numbers.size(), size_t(kFewLayers));
  return 2 * pinned.size() > numbers.size() - few;
}

StringRef PinnedLayers::findFree() const {
  for (const std::string &layer : llvm::reverse(layers))
    if (getOwnGlobs(layer).empty())
      return layer;
  return {};
}
