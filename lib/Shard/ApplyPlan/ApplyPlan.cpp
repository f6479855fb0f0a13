//===- ApplyPlan.cpp - Annotates a program with a plan --------------------===//

#include "heddle/Shard/ApplyPlan.h"
#include "SplitAxesForHeads.h"
#include "dialects/Heddle/HeddleDialect.h"
#include "dialects/Heddle/StageTable.h"
#include "heddle/Shard/Passes.h"
#include "heddle/Sharding/Pins.h"

namespace heddle {
#define GEN_PASS_DEF_APPLYPLANPASS
#include "heddle/Shard/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

/// Checks that the module has no mesh yet, and no other symbol of that name.
static LogicalResult verifyHasNoMesh(ModuleOp module) {
  if (MeshOp present = module.lookupSymbol<MeshOp>("mesh"))
    return present.emitError() << "expected a module without a mesh: a plan "
                                  "has been applied already";
  if (Operation *taken = module.lookupSymbol("mesh"))
    return taken->emitError()
           << "expected the symbol @mesh to be free: the mesh "
              "of the plan, or of one device where there is "
              "no plan, has this name; rename yours";
  return success();
}

static void setFactors(const PlannedOp &planned) {
  MLIRContext *context = planned.op->getContext();
  // A factor that the plan keeps whole is written with an empty list.
  SmallVector<FactorAxesAttr> entries;
  for (auto [i, factor] : llvm::enumerate(planned.rule.factors))
    if (planned.pinned[i])
      entries.push_back(
          FactorAxesAttr::get(context, StringAttr::get(context, factor.name),
                              AxisListAttr::get(context, planned.axes[i])));
  if (!entries.empty())
    planned.op->setAttr(kFactorsAttrName,
                        FactorShardingAttr::get(context, entries));
}

static void setPin(const PlannedOp &pin, MeshRef mesh) {
  DimensionAxes dims;
  for (const DimensionFactors &dim : pin.rule.results.front())
    dims.push_back(getDimensionAxes(dim, pin.axes));
  setPinOf(pin.op->getResult(0), makeSharding(mesh, dims));
}

static void setPipeline(ModuleOp module, const Plan &plan) {
  if (plan.numStages == 0)
    return;
  Builder builder(module.getContext());
  module->setAttr(kPipelineAttrName,
                  PipelineAttr::get(module.getContext(),
                                    builder.getStringAttr(kPipelineAxis),
                                    plan.schedule, plan.numStages));
  if (!plan.scheduleTable.empty())
    module->setAttr(kStageTableAttrName,
                    builder.getStringAttr(plan.scheduleTable));
  if (plan.pipelineBarrier == PipelineBarrier::None)
    module->setAttr(kNoStepBarrierAttrName, builder.getUnitAttr());
}

/// Sets the attributes of operators, variables and values.
static void annotate(ModuleOp module, ResolvedPlan &resolved) {
  MLIRContext *context = module.getContext();
  SmallVector<DimensionAxes> dims;
  for (auto &[variable, list] : resolved.storage)
    dims.push_back(std::move(list));
  // Pins get the refined axes of the ops that make the pinned values.
  std::vector<PlannedOp> ops = std::move(resolved.ops);
  size_t count = ops.size();
  std::move(resolved.pins.begin(), resolved.pins.end(),
            std::back_inserter(ops));
  splitAxesForHeads(context, resolved.mesh, ops, dims);

  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  auto meshOp = builder.create<MeshOp>(module.getLoc(), "mesh", resolved.mesh);
  MeshRef mesh{FlatSymbolRefAttr::get(meshOp), resolved.mesh};
  for (auto [entry, list] : llvm::zip(resolved.storage, dims))
    if (llvm::any_of(list, [](const Axes &axes) { return !axes.empty(); }))
      entry.first->setAttr(kStorageAxesAttrName, makeSharding(mesh, list));
  for (auto [op, split] : resolved.splits)
    op->setAttr(kSplitAttrName, split);
  for (auto [i, planned] : llvm::enumerate(ops)) {
    if (i < count)
      setFactors(planned);
    else
      setPin(planned, mesh);
  }
  for (auto [op, priority] : resolved.priorities)
    op->setAttr(kPriorityAttrName, builder.getI64IntegerAttr(priority));
  for (auto [op, stage] : resolved.stages)
    op->setAttr(kStageAttrName, builder.getI64IntegerAttr(stage));
}

LogicalResult heddle::applyPlan(ModuleOp module, const Plan &plan,
                                const PlanSetting &setting) {
  if (failed(verifyHasNoMesh(module)))
    return failure();
  MLIRContext *context = module.getContext();
  ResolvedPlan resolved = resolvePlan(module, plan, setting);
  if (failed(emitPlanProblems(context, plan.source, resolved.problems)))
    return failure();
  annotate(module, resolved);
  setPipeline(module, plan);
  if (plan.reduceGradients != GradientReduction::Step)
    module->setAttr(kReduceGradientsAttrName,
                    GradientReductionAttr::get(context, plan.reduceGradients));
  if (plan.hierarchy != Hierarchy::Auto)
    module->setAttr(kHierarchyAttrName,
                    HierarchyAttr::get(context, plan.hierarchy));
  Builder builder(context);
  if (int64_t parts = plan.subBatches.value_or(1); parts > 1)
    module->setAttr(
        kSubBatchesAttrName,
        plan.subBatchSizes.empty()
            ? Attribute(builder.getI64IntegerAttr(parts))
            : Attribute(builder.getDenseI64ArrayAttr(plan.subBatchSizes)));
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
    PlanSetting setting;
    setting.devices = devices;
    if (failed(applyPlan(getOperation(), *plan, setting)))
      signalPassFailure();
  }
};
} // namespace
