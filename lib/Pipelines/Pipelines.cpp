//===- Pipelines.cpp - The story of a compilation -------------------------===//

#include "heddle/Pipelines/Pipelines.h"
#include "heddle/Autodiff/Passes.h"
#include "heddle/Plan/DefaultPlan.h"
#include "heddle/Plan/Plan.h"
#include "heddle/Shard/ApplyPlan.h"
#include "heddle/Shard/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace heddle;

//===----------------------------------------------------------------------===//
// Names of phases
//===----------------------------------------------------------------------===//

static constexpr std::pair<Phase, StringLiteral> kPhaseNames[] = {
    {Phase::Autodiff, "autodiff"},     {Phase::Sharded, "sharded"},
    {Phase::Localized, "localized"},   {Phase::Kernels, "kernels"},
    {Phase::Executable, "executable"}, {Phase::LLVM, "llvm"}};

std::optional<Phase> heddle::parsePhase(StringRef name) {
  for (auto [phase, known] : kPhaseNames)
    if (known == name)
      return phase;
  return std::nullopt;
}

StringRef heddle::stringifyPhase(Phase phase) {
  for (auto [known, name] : kPhaseNames)
    if (known == phase)
      return name;
  return "";
}

SmallVector<StringRef> heddle::getPhaseNames() {
  SmallVector<StringRef> names;
  for (auto [phase, name] : kPhaseNames)
    names.push_back(name);
  return names;
}

//===----------------------------------------------------------------------===//
// 1. Autodiff: from the forward program to the training step
//===----------------------------------------------------------------------===//

static void buildAutodiffPipeline(OpPassManager &passes,
                                  const TrainingOptions &options) {
  // Before autodiff, so that the backward pass inherits the types.
  if (options.bf16)
    passes.addPass(createApplyMixedPrecisionPass());

  BuildTrainingStepPassOptions step;
  step.optimizer = options.optimizer == Optimizer::AdamW ? OptimizerKind::AdamW
                                                         : OptimizerKind::SGD;
  step.learningRate = options.learningRate;
  step.beta1 = options.beta1;
  step.beta2 = options.beta2;
  step.epsilon = options.epsilon;
  step.weightDecay = options.weightDecay;
  step.momentum = options.momentum;
  step.clip = options.clip;
  step.schedule = options.schedule == Schedule::Cosine ? ScheduleKind::Cosine
                                                       : ScheduleKind::Constant;
  step.warmupSteps = options.warmupSteps;
  step.totalSteps = options.totalSteps;
  step.finalRatio = options.finalRatio;
  step.microBatches = options.microBatches;
  step.dropout = options.dropout;
  step.seed = options.seed;
  step.train = options.train;
  step.evaluate = options.evaluate;
  step.gradients = options.gradients;
  passes.addPass(createBuildTrainingStepPass(step));

  // Casts and gradients leave duplicates and identities behind.
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
}

//===----------------------------------------------------------------------===//
// 2. Sharding: from the global program to that of one device
//===----------------------------------------------------------------------===//

/// The plan of the options: their text, or the standard one for their mesh.
static FailureOr<Plan> makePlan(ModuleOp module,
                                const CompileOptions &options) {
  if (options.planText.empty())
    return makeDefaultPlan(module, options.dataParallel, options.tensorParallel,
                           options.zeroLevel);
  llvm::Expected<Plan> plan = parsePlan(options.planText, options.planPath);
  if (!plan)
    return emitError(UnknownLoc::get(module.getContext()))
           << llvm::toString(plan.takeError());
  return std::move(*plan);
}

static void buildShardPipeline(OpPassManager &passes) {
  // Decide for every op and value, then make each mismatch explicit.
  passes.addPass(createPropagateShardingsPass());
  passes.addPass(createInsertReshardsPass());
}

static void buildLocalizePipeline(OpPassManager &passes) {
  passes.addPass(createLocalizePass());
  // Offsets and masks of equal shardings are the same.
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  passes.addNestedPass<func::FuncOp>(createCombineCollectivesPass());
  passes.addPass(createVerifyLocalizedPass());
}

//===----------------------------------------------------------------------===//
// All of it
//===----------------------------------------------------------------------===//

LogicalResult heddle::runPhases(ModuleOp module, const CompileOptions &options,
                                Phase last) {
  auto run = [&](auto build) {
    PassManager passes(module.getContext(), ModuleOp::getOperationName());
    build(passes);
    return passes.run(module);
  };

  if (failed(run([&](OpPassManager &passes) {
        buildAutodiffPipeline(passes, options.training);
      })))
    return failure();
  if (last == Phase::Autodiff)
    return success();

  FailureOr<Plan> plan = makePlan(module, options);
  if (failed(plan) || failed(applyPlan(module, *plan, options.devices)) ||
      failed(run(buildShardPipeline)))
    return failure();
  if (last == Phase::Sharded)
    return success();

  if (failed(run(buildLocalizePipeline)))
    return failure();
  if (last == Phase::Localized)
    return success();

  return module.emitError() << "phase '" << stringifyPhase(last)
                            << "' is not part of this build yet";
}

LogicalResult heddle::compileToArtifact(ModuleOp module,
                                        const CompileOptions &options,
                                        StringRef path) {
  return runPhases(module, options, Phase::LLVM);
}

void heddle::registerPipelines() {}
