//===- PinnedLayers.h - Layers that the user decides alone ------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_JUDGE_PINNEDLAYERS_H
#define HEDDLE_LIB_PLANNER_JUDGE_PINNEDLAYERS_H

#include "heddle/Planner/Planner.h"
#include "mlir/IR/BuiltinOps.h"
#include <map>
#include <set>

namespace heddle {

/// Which layers of a program of few layers the user decides unlike others, by
/// the globs of the pins and of the stated part. Example: "h.1*" names layer 1
/// alone, because it leaves out layer 0. "h.*.mlp" names no layer alone.
class PinnedLayers {
public:
  /// `few` is a program after autodiff that stands for that of the request.
  PinnedLayers(mlir::ModuleOp few, const PlanRequest &request);

  /// Returns the prefixes of the names of each layer: "h.0.", "h.1.". Empty if
  /// the names have no numbers of layers.
  llvm::ArrayRef<std::string> getLayers() const { return layers; }
  /// Returns the globs that name the layer alone: they match a name of it, and
  /// there is a layer of the whole program of which they match none.
  std::vector<llvm::StringRef> getOwnGlobs(llvm::StringRef layer) const;
  /// Returns the last layer that no glob names alone; "" if there is none.
  llvm::StringRef findFree() const;
  /// Returns the globs that match names of further layers alone: those behind
  /// the first kFewLayers.
  std::vector<llvm::StringRef> getFurtherGlobs() const;
  /// Returns whether such globs match most further layers.
  bool arePinnedFurther() const;

private:
  /// Returns the further layers that the glob matches, by their place in
  /// `numbers`. Empty if it matches a layer of the first ones.
  std::set<size_t> findFurther(llvm::StringRef glob) const;
  bool matches(llvm::StringRef glob, const std::string &layer,
               llvm::StringRef number) const;

  std::vector<std::string> layers;
  /// The numbers of the layers of the whole program.
  std::vector<std::string> numbers;
  std::vector<llvm::StringRef> globs; ///< of the request
  /// The names of operators and variables by layer, in two parts: before and
  /// behind its number.
  std::map<std::string, std::set<std::pair<std::string, std::string>>,
           std::less<>>
      names;
};

/// Returns the prefixes of the names of each layer; see PinnedLayers.
std::vector<std::string> getLayerPrefixes(mlir::ModuleOp module);

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_JUDGE_PINNEDLAYERS_H
