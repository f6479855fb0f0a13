//===- SplitOptions.cpp - Operators that could run in slices --------------===//

#include "SplitOptions.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/PlanVerifier/PlanVerifier.h"
#include "heddle/Sharding/FactorShardings.h"
#include "heddle/Simulate/Report.h"
#include "llvm/ADT/MapVector.h"
#include <map>

using namespace mlir;
using namespace heddle;

/// Returns the parameter that findLoad() of a value loads. Null if there is
/// none.
static VariableOp findParameter(Value value, const SymbolTable &symbols) {
  LoadOp load = findLoad(value);
  if (!load)
    return {};
  auto variable = symbols.lookup<VariableOp>(load.getVariable());
  return variable && variable.getRole() == VariableRole::Parameter
             ? variable
             : VariableOp();
}

/// Returns whether the plan may run the operator in slices of the factor.
static bool mayRunInSlices(ModuleOp module, Plan plan,
                           const SplitOption &option) {
  plan.splits.push_back({option.glob, option.factor, 2, {}, {}});
  return llvm::none_of(
      verifyPlan(module, plan, {}), [](const PlanProblem &problem) {
        return !problem.isWarning && (problem.rule == PlanRule::SlicedAxis ||
                                      problem.rule == PlanRule::Slices);
      });
}

namespace {
struct Parameter {
  int64_t bytes = 0;
  std::set<std::string> readers;
  /// Slices of a sum are added up. They come last, because that takes longer
  /// than to join slices of a result.
  std::vector<SplitOption> parallel, sums;
  bool isCut = false;
};
} // namespace

std::vector<SplitOption> heddle::findSplitOptions(ModuleOp module,
                                                  const Plan &plan) {
  SymbolTable symbols(module);
  llvm::MapVector<StringAttr, Parameter> parameters;
  module.walk([&](ShardingRuleOpInterface op) {
    StringRef name = getOpName(op);
    if (name.empty())
      return;
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      VariableOp variable = findParameter(operand, symbols);
      if (!variable)
        continue;
      auto key = StringAttr::get(module.getContext(),
                                 generalizeNames(variable.getSymName()));
      Parameter &parameter = parameters[key];
      RankedTensorType type = variable.getTensorType();
      parameter.bytes = type.getNumElements() *
                        llvm::divideCeil(type.getElementTypeBitWidth(), 8);
      parameter.readers.insert(generalizeNames(name));
      parameter.isCut |= findPlanSplit(plan.splits, name) != nullptr;
      ShardingRule rule = op.getShardingRule();
      for (const DimensionFactors &factors : rule.operands[i]) {
        if (factors.size() != 1)
          continue;
        const Factor &factor = rule.factors[factors[0]];
        if (factor.name.empty() || factor.size < 2 ||
            factor.kind == FactorKind::Combine ||
            factor.kind == FactorKind::Replicate)
          continue; // runs whole
        auto &options = factor.kind == FactorKind::Parallel ? parameter.parallel
                                                            : parameter.sums;
        options.push_back({generalizeNames(name), factor.name, factor.size, 0});
      }
    }
  });
  std::vector<SplitOption> found;
  for (auto &[name, parameter] : parameters) {
    if (parameter.isCut)
      continue;
    std::vector<SplitOption> options = std::move(parameter.parallel);
    llvm::append_range(options, parameter.sums);
    auto legal = llvm::find_if(options, [&](const SplitOption &option) {
      return mayRunInSlices(module, plan, option);
    });
    if (legal == options.end())
      continue;
    legal->bytes = parameter.bytes;
    legal->readers = parameter.readers;
    found.push_back(std::move(*legal));
  }
  return found;
}

std::vector<PeakShare> heddle::getPeakShares(const Simulation &simulation) {
  std::map<std::string, int64_t> bytes;
  for (const LiveValue &value : simulation.memory.aliveAtPeak) {
    rt::DeviceCallOpInterface writer = simulation.calls[value.writer].op;
    for (StringAttr name : writer.getServes().getNames())
      bytes[generalizeNames(name.getValue())] += value.bytes;
  }
  std::vector<PeakShare> shares;
  for (auto &[glob, share] : bytes)
    shares.push_back({glob, share});
  llvm::sort(shares, [](const PeakShare &a, const PeakShare &b) {
    return std::pair(-a.bytes, a.glob) < std::pair(-b.bytes, b.glob);
  });
  return shares;
}
