//===- PlanVerifier.cpp - A plan against a program and a cluster ----------===//

#include "PlanResolver.h"
#include "dialects/Heddle/HeddleDialect.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace heddle;

/// Returns the command-line option that sets the key at a path such as
/// $.mesh.dp. Returns "" if there is none.
static StringRef findOption(const Plan &plan, StringRef path) {
  path.consume_front("$.");
  auto known = plan.options.find(path.take_until(
      [](char letter) { return letter == '.' || letter == '['; }));
  return known == plan.options.end() ? "" : StringRef(known->second);
}

PlanProblem &PlanResolver::report(PlanRule rule, PlanPosition at,
                                  std::string path, const Twine &message,
                                  StringRef name, StringRef axis) {
  auto [entry, isNew] = known.try_emplace(
      {rule, path, axis.str()}, result.problems.size(), llvm::StringSet<>());
  auto &[index, names] = entry->second;
  bool isOther = names.insert(name).second && !isNew;
  if (isNew) {
    if (StringRef option = findOption(plan, path); !option.empty()) {
      path = option;
      at = {};
    }
    result.problems.push_back({rule, /*isWarning=*/false, at, std::move(path),
                               message.str(), 0, "", UnknownLoc::get(context)});
  }
  PlanProblem &problem = result.problems[index];
  problem.others += isOther;
  return problem;
}

void PlanResolver::warn(PlanRule rule, PlanPosition at, std::string path,
                        const Twine &message) {
  report(rule, at, std::move(path), message).isWarning = true;
}

Axes PlanResolver::toAxes(ArrayRef<std::string> names) {
  Axes axes;
  for (const std::string &name : names)
    if (plan.getAxisSize(name) > 1)
      axes.push_back(StringAttr::get(context, name));
  return axes;
}

ResolvedPlan PlanResolver::run() {
  if (!resolveMesh())
    return std::move(result);
  checkAxes();
  collectOperators();
  resolveOperators();
  resolveStorage();
  resolveSplits();
  resolvePins();
  resolvePriorities();
  resolveStages();
  checkSubBatches();
  if (checkModel())
    return std::move(result);
  // Warns, so that errors come first. A plan for more devices than there are is
  // of no use for this step, whatever its prediction says.
  if (llvm::none_of(result.problems, [](const PlanProblem &problem) {
        return problem.rule == PlanRule::Devices;
      }))
    checkPrediction();
  return std::move(result);
}

ResolvedPlan heddle::resolvePlan(ModuleOp module, const Plan &plan,
                                 const PlanSetting &setting) {
  return PlanResolver(module, plan, setting).run();
}

std::vector<PlanProblem> heddle::verifyPlan(ModuleOp module, const Plan &plan,
                                            const PlanSetting &setting) {
  return resolvePlan(module, plan, setting).problems;
}

LogicalResult heddle::emitPlanProblems(MLIRContext *context, StringRef source,
                                       ArrayRef<PlanProblem> problems) {
  bool isGood = true;
  for (const PlanProblem &problem : problems) {
    isGood &= problem.isWarning;
    Location place = UnknownLoc::get(context);
    if (problem.position.line && !source.empty())
      place = FileLineColLoc::get(context, source, problem.position.line,
                                  problem.position.column);
    auto diag = problem.isWarning ? emitWarning(place) : emitError(place);
    diag << problem.path << ": " << problem.message;
    if (problem.others > 0)
      diag << "; so it is in " << problem.others << " more "
           << (problem.isOfVariable ? "variable" : "operator")
           << (problem.others > 1 ? "s" : "");
    if (!problem.note.empty())
      diag.attachNote(problem.place) << problem.note;
  }
  return success(isGood);
}

FunctionOpInterface heddle::findTrainingProgram(ModuleOp module) {
  for (auto function : module.getOps<FunctionOpInterface>())
    if (auto role = function->getAttrOfType<ProgramRoleAttr>(kRoleAttrName);
        role && (role.getValue() == ProgramRole::Step ||
                 role.getValue() == ProgramRole::Accumulate))
      return function;
  return {};
}

int64_t heddle::getNumMicroBatches(ModuleOp module) {
  auto stated = module->getAttrOfType<IntegerAttr>(kMicroBatchesAttrName);
  return stated ? stated.getInt() : 1;
}
