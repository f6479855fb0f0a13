//===- ModulePlan.cpp - The plan that a module follows --------------------===//

#include "ModulePlan.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/Autodiff/StateNames.h"
#include "heddle/Plan/DefaultPlan.h"
#include "heddle/Shard/ApplyPlan.h"

using namespace mlir;
using namespace heddle;

/// Returns the training state that the module lacks. If the module is compiled
/// for training, each entry has the reason. Otherwise the reason is empty,
/// because the plan may be one for training and name such state.
static std::vector<AbsentVariable> findAbsentState(ModuleOp module,
                                                   bool train) {
  llvm::DenseSet<StateAttr> present;
  for (auto variable : module.getOps<VariableOp>())
    if (StateAttr state = variable.getStateAttr())
      present.insert(state);
  std::vector<AbsentVariable> absent;
  for (auto variable : module.getOps<VariableOp>()) {
    if (variable.getRole() != VariableRole::Parameter)
      continue;
    for (unsigned i = 0; i <= getMaxEnumValForStateKind(); ++i) {
      auto kind = static_cast<StateKind>(i);
      if (present.contains(StateAttr::get(module.getContext(), kind,
                                          FlatSymbolRefAttr::get(variable))))
        continue;
      std::string name = getStateName(kind, variable.getSymName());
      StringRef reason = kind == StateKind::Gradient
                             ? "gradients accumulate only where a step has "
                               "several micro-batches (--micro-batches)"
                             : "it is the state of another optimizer "
                               "(--optimizer, --momentum)";
      absent.push_back({name, variable.getTensorType().getRank(),
                        train ? reason.str() : ""});
    }
  }
  return absent;
}

FailureOr<const Cluster *> heddle::getCluster(ModuleOp module,
                                              const ClusterChoice &choice) {
  if (choice.isNone())
    return nullptr;
  llvm::Expected<const Cluster &> cluster = choice.load();
  if (!cluster)
    return module.emitError() << llvm::toString(cluster.takeError());
  return &*cluster;
}

LogicalResult heddle::usePlan(ModuleOp module, llvm::Expected<Plan> plan,
                              int64_t devices, const ClusterChoice &choice,
                              ArrayRef<AbsentVariable> absent) {
  if (!plan)
    return emitPlanError(module.getContext(), plan.takeError());
  FailureOr<const Cluster *> cluster = getCluster(module, choice);
  if (failed(cluster) ||
      failed(applyPlan(module, *plan, {devices, *cluster, absent})))
    return failure();
  module->setAttr(kPlanAttrName,
                  StringAttr::get(module.getContext(), writePlan(*plan)));
  return success();
}

LogicalResult heddle::choosePlan(ModuleOp module,
                                 const CompileOptions &options) {
  llvm::Expected<Plan> plan =
      options.planText.empty()
          ? makeDefaultPlan(module, options.mesh, options.zeroLevel)
          : parsePlan(options.planText, options.planPath);
  if (plan) {
    plan->overlap = options.overlap.value_or(plan->overlap);
    if (options.recompute && plan->recompute != options.recompute) {
      plan->recompute = options.recompute;
      plan->recomputeBytes = std::nullopt;
    }
    if (options.recomputeBytes != 0)
      plan->recomputeBytes = options.recomputeBytes;
    if (options.exchangeChunks)
      plan->exchangeChunks = options.exchangeChunks;
    plan->exchangeRing = options.exchangeRing.value_or(plan->exchangeRing);
    plan->scatterSums = options.scatterSums.value_or(plan->scatterSums);
    int64_t parts = getNamedSchedule(plan->overlap).subBatches;
    if (options.subBatches != 0) {
      plan->setSubBatches(options.subBatches);
      plan->options["sub_batches"] = "--sub-batches";
    } else if (!plan->subBatches && parts > 1) {
      plan->setSubBatches(parts);
      plan->options["sub_batches"] = "--overlap";
    }
    // The plan's prediction only holds for the plan as it was written.
    if (options.overlap || options.recompute || options.subBatches != 0 ||
        options.exchangeChunks || options.exchangeRing || options.scatterSums)
      plan->prediction.reset();
  }
  return usePlan(module, std::move(plan), options.devices, options.cluster,
                 findAbsentState(module, options.training.train));
}

FailureOr<Plan> heddle::getPlan(ModuleOp module) {
  auto text = module->getAttrOfType<StringAttr>(kPlanAttrName);
  if (!text)
    return Plan();
  llvm::Expected<Plan> plan = parsePlan(text.getValue(), kPlanAttrName);
  if (!plan)
    return emitPlanError(module.getContext(), plan.takeError());
  return std::move(*plan);
}
