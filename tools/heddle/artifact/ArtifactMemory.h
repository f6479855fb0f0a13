//===- ArtifactMemory.h - Memory of the devices of an artifact --*- C++ -*-===//

#ifndef HEDDLE_TOOLS_HEDDLE_ARTIFACTMEMORY_H
#define HEDDLE_TOOLS_HEDDLE_ARTIFACTMEMORY_H

#include "heddle_rt/manifest.h"

#include <array>
#include <string>
#include <vector>

namespace heddle::tools {

/// The bytes of memory of one rank. All ranks with the same variables, programs
/// and tables share an entry.
struct RankMemory {
  std::string ranks; ///< their common coordinates, such as "pp 0"
  /// By role of the variables.
  std::array<double, runtime::variableRoles.size()> variables{};
  double arena = 0;  ///< of the largest program
  double passed = 0; ///< inputs and outputs of all tables
  double slots = 0;  ///< values between the programs of a pipeline

  double getVariables() const {
    double sum = 0;
    for (double bytes : variables)
      sum += bytes;
    return sum;
  }
  double getTotal() const { return getVariables() + arena + passed + slots; }
};

/// Returns the memory of all ranks, in the order of their first rank.
std::vector<RankMemory> getMemory(const runtime::Manifest &manifest);

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_HEDDLE_ARTIFACTMEMORY_H
