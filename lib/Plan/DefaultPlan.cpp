//===- DefaultPlan.cpp - Standard plans from a mesh -----------------------===//

#include "heddle/Plan/DefaultPlan.h"
#include "dialects/Heddle/Heddle.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include <map>
#include <set>

using namespace mlir;
using namespace heddle;

/// "h.3.ln_1.weight" -> "h.*.ln_1.weight": layers are alike.
static std::string withoutNumbers(StringRef name) {
  SmallVector<StringRef> parts;
  name.split(parts, '.');
  std::string pattern;
  for (StringRef part : parts) {
    if (!pattern.empty())
      pattern += '.';
    bool isNumber = !part.empty() && llvm::all_of(part, llvm::isDigit);
    pattern += isNumber ? "*" : part.str();
  }
  return pattern;
}

namespace {

/// What the model's ops say of the variables and letters.
struct Model {
  /// The letters of named factors that may be split.
  std::set<std::string> letters;
  /// Dimensions of a variable that tensor-parallel letters run over.
  llvm::StringMap<std::set<unsigned>> tensorDims;

  explicit Model(ModuleOp module) {
    module.walk([&](ShardingRuleOpInterface op) {
      if (getOpName(op).empty())
        return;
      ShardingRule rule = op.getShardingRule();
      for (const Factor &factor : rule.factors)
        if (!factor.name.empty() && factor.kind != FactorKind::Replicate)
          letters.insert(factor.name);
      for (OpOperand &operand : op->getOpOperands())
        noteVariable(rule, operand);
    });
  }

private:
  void noteVariable(const ShardingRule &rule, OpOperand &operand) {
    // A weight may be cast before its use.
    Operation *source = operand.get().getDefiningOp();
    while (source && !isa<LoadOp>(source) && source->getNumOperands() == 1 &&
           source->getOperand(0).getType().getTypeID() ==
               operand.get().getType().getTypeID() &&
           isa<RankedTensorType>(operand.get().getType()) &&
           cast<RankedTensorType>(source->getOperand(0).getType()).getShape() ==
               cast<RankedTensorType>(operand.get().getType()).getShape())
      source = source->getOperand(0).getDefiningOp();
    auto load = dyn_cast_or_null<LoadOp>(source);
    if (!load)
      return;
    const TensorFactors &dims = rule.operands[operand.getOperandNumber()];
    for (auto [i, dim] : llvm::enumerate(dims))
      for (unsigned factor : dim) {
        StringRef name = rule.factors[factor].name;
        if (name == "n" || name == "f" || name == "v")
          tensorDims[load.getVariable()].insert(i);
      }
  }
};

} // namespace

/// The dimension to store over `parts` devices; none for what is too small.
static std::optional<unsigned> chooseDimension(RankedTensorType type,
                                               const std::set<unsigned> &tensor,
                                               int64_t parts) {
  std::optional<unsigned> best;
  auto rank = [&](unsigned dim) {
    int64_t size = type.getDimSize(dim);
    return std::tuple(!tensor.count(dim) && size % parts == 0,
                      size % parts == 0, !tensor.count(dim), size);
  };
  for (unsigned dim = 0; dim < type.getRank(); ++dim)
    if (type.getDimSize(dim) >= parts && (!best || rank(dim) > rank(*best)))
      best = dim;
  return best;
}

static bool isStoredSharded(VariableRole role, unsigned zeroLevel) {
  switch (role) {
  case VariableRole::OptimizerState:
    return zeroLevel >= 1;
  case VariableRole::Gradient:
    return zeroLevel >= 2;
  case VariableRole::Parameter:
    return zeroLevel >= 3;
  case VariableRole::Counter:
    return false;
  }
  return false;
}

Plan heddle::makeDefaultPlan(ModuleOp module, int64_t dataParallel,
                             int64_t tensorParallel, unsigned zeroLevel) {
  Model model(module);
  Plan plan;
  plan.mesh = {{"dp", dataParallel}, {"tp", tensorParallel}};
  PlanEntry all{"*", {}, {}};
  for (auto [letter, axis] : {std::pair("b", "dp"), std::pair("f", "tp"),
                              std::pair("n", "tp"), std::pair("v", "tp")})
    if (model.letters.count(letter))
      all.assignments.push_back({letter, {axis}, {}});
  if (!all.assignments.empty())
    plan.operators.push_back(all);
  if (zeroLevel == 0 || dataParallel == 1)
    return plan;

  // One entry for all layers, unless their dimensions differ.
  std::map<std::string, std::map<std::string, unsigned>> byPattern;
  llvm::StringSet<> unstored; // patterns that match a variable to leave alone
  SmallVector<VariableOp> variables(module.getOps<VariableOp>());
  for (VariableOp variable : variables) {
    StringRef name = variable.getSymName();
    std::string pattern = withoutNumbers(name);
    std::optional<unsigned> dim;
    if (isStoredSharded(variable.getRole(), zeroLevel)) {
      // State is split by tp as its parameter is: the one whose name it ends
      // in.
      std::set<unsigned> tensor;
      for (const auto &entry : model.tensorDims) {
        StringRef parameter = entry.getKey();
        if (name == parameter ||
            (name.ends_with(parameter) &&
             name[name.size() - parameter.size() - 1] == '.'))
          tensor = entry.getValue();
      }
      dim = chooseDimension(variable.getTensorType(), tensor, dataParallel);
    }
    if (dim)
      byPattern[pattern][name.str()] = *dim;
    else
      unstored.insert(pattern);
  }
  auto add = [&](StringRef glob, unsigned dim) {
    plan.storage.push_back(
        {glob.str(), {{std::to_string(dim), {"dp"}, {}}}, {}});
  };
  for (const auto &[pattern, dims] : byPattern) {
    bool alike = !unstored.contains(pattern) &&
                 llvm::all_of(dims, [&](const auto &entry) {
                   return entry.second == dims.begin()->second;
                 });
    // "adamw.m.h.*.weight" must not match a variable of another pattern.
    for (VariableOp variable : variables)
      if (alike && matchesGlob(pattern, variable.getSymName()) &&
          withoutNumbers(variable.getSymName()) != pattern)
        alike = false;
    if (alike)
      add(pattern, dims.begin()->second);
    else
      for (const auto &[name, dim] : dims)
        add(name, dim);
  }
  return plan;
}
