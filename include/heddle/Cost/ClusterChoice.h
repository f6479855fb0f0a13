//===- ClusterChoice.h - A cluster by its name, read once -------*- C++ -*-===//

#ifndef HEDDLE_COST_CLUSTERCHOICE_H
#define HEDDLE_COST_CLUSTERCHOICE_H

#include "heddle/Cost/Cluster.h"
#include "heddle/Cost/Resharding.h"
#include "llvm/Support/CommandLine.h"
#include <memory>

namespace heddle {

/// The cluster that a user chose: a preset, the path of a JSON file, or none.
/// It is loaded at first use. Copies share the loaded cluster and the
/// reshardings on it, so that all passes of a pipeline see the same ones. All
/// copies belong to one thread.
class ClusterChoice {
public:
  ClusterChoice() = default;
  ClusterChoice(std::string name);
  /// Chooses a cluster that is known already.
  explicit ClusterChoice(Cluster cluster);

  /// Returns the preset or path; empty if none was chosen.
  llvm::StringRef getName() const;
  bool isNone() const { return getName().empty(); }

  /// Loads the cluster at the first call, and returns it. The cluster lives as
  /// long as any copy of this choice. Invalid if isNone().
  llvm::Expected<const Cluster &> load() const;

  /// Leaves the devices of the loaded cluster from number `used` on out of
  /// this choice, but not of its copies (see Cluster::getFirst). The name
  /// stays.
  void keepFirst(int64_t used);

  /// Returns the reshardings on a mesh on this cluster (see
  /// ReshardingPlanner). Keeps those of the latest meshes. Invalid if isNone().
  llvm::Expected<std::shared_ptr<KnownReshardings>>
  getReshardings(llvm::ArrayRef<int64_t> axisSizes, AxisMask closed) const;

private:
  struct State;
  std::shared_ptr<State> state;
};

/// Print and parse a choice as an option of a pass.
llvm::raw_ostream &operator<<(llvm::raw_ostream &stream,
                              const ClusterChoice &choice);

} // namespace heddle

template <>
class llvm::cl::parser<heddle::ClusterChoice>
    : public llvm::cl::basic_parser<heddle::ClusterChoice> {
public:
  using basic_parser::basic_parser;

  bool parse(Option &, StringRef, StringRef text,
             heddle::ClusterChoice &value) {
    value = text.str();
    return false;
  }
  void printOptionDiff(const Option &option, const heddle::ClusterChoice &,
                       const OptVal &, size_t width) const {
    printOptionNoValue(option, width);
  }
  StringRef getValueName() const override { return "string"; }
};

#endif // HEDDLE_COST_CLUSTERCHOICE_H
