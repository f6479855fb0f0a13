//===- CheckModel.cpp - A plan against the model's names ------------------===//

#include "PlanResolver.h"
#include "dialects/Heddle/HeddleDialect.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace heddle;

PlanProblem &PlanResolver::reportUnknown(PlanRule rule, PlanPosition at,
                                         std::string path,
                                         const Twine &message) {
  PlanProblem &problem = report(rule, at, std::move(path), message);
  unknown.insert(&problem - result.problems.data());
  return problem;
}

/// Returns the number of the plan's globs of operators and variables.
static size_t countEntries(const Plan &plan) {
  size_t count = plan.operators.size() + plan.storage.size() +
                 plan.splits.size() + plan.pins.size() + plan.priorities.size();
  for (const PlanStage &stage : plan.stages)
    count += stage.globs.size();
  return count;
}

bool PlanResolver::checkModel() {
  // So many misspelt names are unlikely in a plan of this model.
  constexpr size_t kFewest = 3;
  size_t entries = countEntries(plan);
  if (unknown.size() < kFewest || 2 * unknown.size() < entries)
    return false;
  std::string text;
  llvm::raw_string_ostream message(text);
  message << "the plan seems to be of another model: " << unknown.size()
          << " of its " << entries << " entries name nothing in ";
  if (auto model = module->getAttrOfType<StringAttr>(kModelAttrName))
    message << model << ", ";
  else
    message << "this program, ";
  message << "which has " << names.size() << " named operators: ";
  llvm::interleaveComma(
      ArrayRef(unknown.getArrayRef()).take_front(kFewest), message,
      [&](size_t index) { message << result.problems[index].path; });
  if (unknown.size() > kFewest)
    message << " and " << unknown.size() - kFewest << " more";
  PlanPosition at = result.problems[unknown.front()].position;
  result.problems.clear();
  known.clear();
  unknown.clear();
  report(PlanRule::Model, at, "$", message.str());
  return true;
}
