//===- ApplyPlan.cpp - Annotates a program with a plan --------------------===//

#include "heddle/Shard/ApplyPlan.h"
#include "PlanApplier.h"
#include "dialects/Heddle/HeddleDialect.h"
#include "heddle/Shard/Passes.h"

namespace heddle {
#define GEN_PASS_DEF_APPLYPLANPASS
#include "heddle/Shard/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

LogicalResult heddle::applyPlan(ModuleOp module, const Plan &plan,
                                int64_t devices,
                                ArrayRef<AbsentVariable> absent) {
  if (failed(PlanApplier(module, plan, absent).apply(devices)))
    return failure();
  MLIRContext *context = module.getContext();
  if (plan.reduceGradients != GradientReduction::Step)
    module->setAttr(kReduceGradientsAttrName,
                    GradientReductionAttr::get(context, plan.reduceGradients));
  if (plan.hierarchy != Hierarchy::Auto)
    module->setAttr(kHierarchyAttrName,
                    HierarchyAttr::get(context, plan.hierarchy));
  if (int64_t parts = plan.subBatches.value_or(1); parts > 1)
    module->setAttr(kSubBatchesAttrName,
                    Builder(context).getI64IntegerAttr(parts));
  return success();
}

LogicalResult heddle::emitPlanError(MLIRContext *context, llvm::Error error) {
  llvm::handleAllErrors(
      std::move(error),
      [&](const PlanError &problem) {
        emitError(FileLineColLoc::get(context, problem.source,
                                      problem.position.line,
                                      problem.position.column))
            << problem.message;
      },
      [&](const llvm::ErrorInfoBase &problem) {
        emitError(UnknownLoc::get(context)) << problem.message();
      });
  return failure();
}

namespace {
struct ApplyPlanPass : heddle::impl::ApplyPlanPassBase<ApplyPlanPass> {
  using Base::Base;

  void runOnOperation() override {
    if (planFile.empty()) {
      getOperation().emitError()
          << "heddle-apply-plan: expected the file of a plan (plan=FILE)";
      return signalPassFailure();
    }
    llvm::Expected<Plan> plan = readPlanFile(planFile);
    if (!plan) {
      (void)emitPlanError(&getContext(), plan.takeError());
      return signalPassFailure();
    }
    if (failed(applyPlan(getOperation(), *plan, devices)))
      signalPassFailure();
  }
};
} // namespace
