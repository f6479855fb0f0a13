//===- Fingerprint.cpp - What a plan was made for -------------------------===//

#include "heddle/PlanVerifier/Fingerprint.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/Cost/Cluster.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

#include <map>
#include <set>

using namespace mlir;
using namespace heddle;

static std::string hash(StringRef text) {
  std::string digits;
  llvm::raw_string_ostream(digits) << llvm::format(
      "%016llx", static_cast<unsigned long long>(llvm::xxh3_64bits(text)));
  return digits;
}

std::string heddle::getFingerprint(ModuleOp module) {
  // Sorted, because autodiff and passes may move ops.
  std::map<std::string, std::set<std::string>> operators, variables;
  module.walk([&](ShardingRuleOpInterface op) {
    StringRef name = getOpName(op);
    if (name.empty())
      return;
    for (const Factor &factor : op.getShardingRule().factors)
      if (!factor.name.empty() && factor.role != FactorRole::Batch &&
          factor.role != FactorRole::Sequence)
        operators[name.str()].insert(factor.name + "=" +
                                     std::to_string(factor.size));
  });
  for (VariableOp variable : module.getOps<VariableOp>()) {
    if (variable.getRole() != VariableRole::Parameter &&
        variable.getRole() != VariableRole::Buffer)
      continue;
    std::set<std::string> &shape = variables[variable.getSymName().str()];
    std::string text;
    for (int64_t size : variable.getTensorType().getShape())
      text += std::to_string(size) + "x";
    shape.insert(text);
  }
  std::string all;
  for (const auto &named : {operators, variables}) {
    for (const auto &[name, sizes] : named) {
      all += name + ":";
      for (const std::string &size : sizes)
        all += " " + size;
      all += "\n";
    }
    all += "\n";
  }
  return hash(all);
}

std::string heddle::getFingerprint(const Cluster &cluster) {
  Cluster counted = cluster;
  counted.name.clear();
  counted.device.memory = 0;
  for (ClusterGroup &group : counted.groups)
    group.device.memory = 0;
  return hash(writeCluster(counted));
}
