//===- Pipelines.cpp - The story of a compilation -------------------------===//

#include "heddle/Pipelines/Pipelines.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/Autodiff/StateNames.h"
#include "heddle/Lower/Artifact.h"
#include "heddle/Lower/Passes.h"
#include "heddle/Plan/DefaultPlan.h"
#include "heddle/Plan/Plan.h"
#include "heddle/Shard/ApplyPlan.h"
#include "heddle/Shard/Passes.h"
#include "heddle/Stages/Passes.h"
#include "heddle/Support/DenseNumbers.h"
#include "heddle/Support/TensorSizes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace heddle;

//===----------------------------------------------------------------------===//
// Names of phases
//===----------------------------------------------------------------------===//

static constexpr std::pair<Phase, StringLiteral> kPhaseNames[] = {
    {Phase::Autodiff, "autodiff"},
    {Phase::Sharded, "sharded"},
    {Phase::Localized, "localized"},
    {Phase::Kernels, "kernels"},
    {Phase::Scheduled, "scheduled"},
    {Phase::Executable, "executable"},
    {Phase::LLVM, "llvm"}};

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
  // Before autodiff, so that the backward pass gets the types of the forward
  // pass.
  if (options.bf16)
    passes.addPass(createApplyMixedPrecisionPass());
  passes.addPass(createBuildTrainingStepPass(options));

  // Casts and gradients leave duplicates and identities behind.
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  passes.addPass(createVerifyTrainingStepPass());
}

//===----------------------------------------------------------------------===//
// 2. Sharding: from the global program to that of one device
//===----------------------------------------------------------------------===//

static void buildShardPipeline(OpPassManager &passes,
                               const CompileOptions &options) {
  // Sub-batches come before everything else, so that the ops of each part are
  // ops as any other.
  passes.addPass(createSplitBatchPass());
  // An op that runs in slices is cut first. Each slice of its tensors is then
  // stored, gathered and sharded as any other tensor.
  passes.addPass(createSplitOperatorsPass());
  // A gather can be split over the rows of its table; a structured op cannot.
  passes.addPass(createRaiseGathersPass());
  // Before shardings are propagated, so that one use of a constant does not
  // decide the sharding of another use.
  passes.addPass(createRepeatConstantsPass());
  // Before propagation, while attributes hold only shardings that the user
  // wrote.
  if (options.explainShardings)
    passes.addPass(createExplainShardingsPass());
  // Chooses a sharding for every op and value.
  passes.addPass(createPropagateShardingsPass());
  // Before padding and reshards are stated, which follow from the factors.
  ReadStoredRowsPassOptions rows;
  rows.cluster = options.cluster;
  passes.addPass(createReadStoredRowsPass(rows));
  // As soon as all splits are known. Reshards add no splits.
  passes.addPass(createWarnOfPaddingPass());
  // Propagation has used the pins. The pass turns them into reshards, like
  // those that a program may contain.
  passes.addPass(createMaterializePinsPass());
  // Makes each mismatch of shardings an explicit reshard.
  InsertReshardsPassOptions reshards;
  reshards.cluster = options.cluster;
  reshards.remarkBytes = options.remarkBytes;
  passes.addPass(createInsertReshardsPass(reshards));
  passes.addPass(createVerifyShardedPass());
  // Values between stages have their shardings, and sums that would cross have
  // been resolved.
  passes.addPass(createCutStagesPass());
}

static void buildLocalizePipeline(OpPassManager &passes,
                                  const CompileOptions &options,
                                  const NamedSchedule &schedule) {
  LocalizePassOptions localize;
  localize.cluster = options.cluster;
  localize.remarkBytes = options.remarkBytes;
  passes.addPass(createLocalizePass(localize));
  // Devices compute the same offsets and masks for equal shardings: merges
  // them.
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  // Before collectives are combined: the sum of the losses may go with sums of
  // the backward pass.
  if (schedule.recompute.value_or(RecomputeMode::None) != RecomputeMode::None) {
    RecomputePassOptions recompute;
    recompute.mode = *schedule.recompute;
    recompute.whole = schedule.repeatsWholeLayers;
    recompute.cluster = options.cluster;
    recompute.report = options.remarkBytes >= 0;
    passes.addPass(createRecomputePass(recompute));
  }
  passes.addNestedPass<func::FuncOp>(createCombineCollectivesPass());
  // After combining, writes the remaining collectives by levels of the
  // topology.
  DecomposeCollectivesPassOptions decompose;
  decompose.cluster = options.cluster;
  passes.addPass(createDecomposeCollectivesPass(decompose));
  // The runtime has only contiguous collectives.
  passes.addPass(createPackCollectivesPass());
  passes.addPass(createVerifyLocalizedPass());
}

//===----------------------------------------------------------------------===//
// 3. Lowering and scheduling: from local tensors to native code
//===----------------------------------------------------------------------===//

static void buildKernelPipeline(OpPassManager &passes) {
  // A device's program is one sequence of ops. Calls are inlined first, because
  // a callee may be part of a branch; then branches and loops of known length
  // are flattened.
  passes.addPass(createInlineCallsPass());
  passes.addPass(createFlattenControlFlowPass());
  // The remaining loops become calls of programs of their own.
  passes.addPass(createOutlineLoopsPass());
  // All control flow is gone. Conditions and other computed scalars become
  // tensors.
  passes.addPass(createSpreadScalarsPass());
  // Before ops are merged and rewritten, because the names travel with the ops.
  passes.addPass(createNameOperatorsPass());
  // For products of foreign programs.
  passes.addPass(createRaiseContractionsPass());
  // While biases and sums are still separate ops.
  passes.addPass(createFuseEpiloguesPass());
  // When products have their final operands.
  passes.addPass(createFusePackingPass());
  // Every op that is no library call becomes loops over tensors. Loops over the
  // same rows become one kernel.
  passes.addPass(createDecomposeOpsPass());
  passes.addPass(createFormKernelsPass());
  passes.addPass(createVerifyKernelsPass());
}

static void buildSchedulePipeline(OpPassManager &passes,
                                  const CompileOptions &options,
                                  const NamedSchedule &schedule) {
  // The order that needs little memory. The passes behind start from it.
  passes.addPass(createShortenLivesPass());
  if (schedule.isOrdered) {
    OrderProgramPassOptions order;
    order.cluster = options.cluster;
    order.chunks = schedule.chunks;
    order.report = options.remarkBytes >= 0;
    passes.addPass(createOrderProgramPass(order));
  }
  if (options.startCollectives)
    passes.addPass(createStartCollectivesPass(*options.startCollectives));
  passes.addPass(createVerifyScheduledPass());
}

static void buildExecutablePipeline(OpPassManager &passes) {
  // From here on every value has its place, and ops are issued in the order of
  // the text.
  passes.addPass(createPlanArenasPass());
  passes.addPass(createLowerToRtPass());
  passes.addPass(createVerifyExecutablePass());
}

static void buildLLVMPipeline(OpPassManager &passes) {
  passes.addPass(createLowerKernelsPass());
  passes.addPass(createConvertRtToLLVMPass());
  passes.addPass(createVerifyLLVMPass());
}

static void buildGpuPipeline(OpPassManager &passes,
                             const CompileOptions &options) {
  LowerKernelsToGpuPassOptions kernels;
  kernels.rows = options.gpuRows;
  passes.addPass(createLowerKernelsToGpuPass(kernels));
  // Before LLVM's code generator, which would end the process.
  passes.addPass(createVerifyGpuKernelsPass());
  passes.addPass(createConvertRtToLLVMPass());
  passes.addPass(createVerifyLLVMPass());
}

//===----------------------------------------------------------------------===//
// Running the phases
//===----------------------------------------------------------------------===//

/// Returns the phase that the module is in; nullopt for an imported one.
static FailureOr<std::optional<Phase>> getPhase(ModuleOp module) {
  Attribute attribute = module->getAttr(kPhaseAttrName);
  if (!attribute)
    return std::optional<Phase>();
  auto name = dyn_cast<StringAttr>(attribute);
  std::optional<Phase> phase = name ? parsePhase(name) : std::nullopt;
  if (!phase)
    return module.emitError()
           << "expected '" << kPhaseAttrName << "' to be one of "
           << llvm::join(getPhaseNames(), ", ") << ", got " << attribute;
  return phase;
}

/// Returns the training state that the module lacks, with the reason where the
/// module is compiled for training. Without training the reason is empty: a
/// plan for training may then name such state.
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

/// Applies the plan and keeps its text on the module, for the artifact.
static LogicalResult usePlan(ModuleOp module, llvm::Expected<Plan> plan,
                             int64_t devices,
                             ArrayRef<AbsentVariable> absent = {}) {
  if (!plan)
    return emitPlanError(module.getContext(), plan.takeError());
  if (failed(applyPlan(module, *plan, devices, absent)))
    return failure();
  module->setAttr(kPlanAttrName,
                  StringAttr::get(module.getContext(), writePlan(*plan)));
  return success();
}

/// Uses the plan of the options, or the standard one for their mesh.
static LogicalResult choosePlan(ModuleOp module,
                                const CompileOptions &options) {
  llvm::Expected<Plan> plan =
      options.planText.empty()
          ? makeDefaultPlan(module, options.mesh, options.zeroLevel)
          : parsePlan(options.planText, options.planPath);
  if (plan) {
    plan->overlap = options.overlap.value_or(plan->overlap);
    if (options.recompute)
      plan->recompute = options.recompute;
    if (options.subBatches != 0)
      plan->subBatches = options.subBatches;
    else if (plan->subBatches == 1)
      plan->subBatches =
          std::max<int64_t>(1, getNamedSchedule(plan->overlap).subBatches);
    // A prediction is of the plan as it was written.
    if (options.overlap || options.recompute || options.subBatches != 0)
      plan->prediction.reset();
  }
  return usePlan(module, std::move(plan), options.devices,
                 findAbsentState(module, options.training.train));
}

/// Returns the schedule of the options or else of the module's plan. What the
/// options or the plan say of recomputation counts more than the schedule.
static FailureOr<NamedSchedule> chooseSchedule(ModuleOp module,
                                               const CompileOptions &options) {
  Plan plan;
  if (auto text = module->getAttrOfType<StringAttr>(kPlanAttrName)) {
    llvm::Expected<Plan> stated = parsePlan(text.getValue(), kPlanAttrName);
    if (!stated)
      return emitPlanError(module.getContext(), stated.takeError());
    plan = std::move(*stated);
  }
  NamedSchedule schedule =
      getNamedSchedule(options.overlap.value_or(plan.overlap));
  if (std::optional<RecomputeMode> stated =
          options.recompute ? options.recompute : plan.recompute) {
    schedule.recompute = stated;
    schedule.repeatsWholeLayers &= stated == RecomputeMode::Layer;
  }
  if (schedule.isOrdered && options.cluster.isNone())
    emitWarning(module.getLoc())
        << "'" << schedule.name
        << "' orders the program by the times of a cluster, and none is given: "
           "assumes that all devices are equally near (--cluster)";
  return schedule;
}

/// Returns whether the plan splits a factor of an operator of the module.
static bool isAnythingSplit(ModuleOp module) {
  return module
      .walk([](Operation *op) {
        return op->hasAttr(kFactorsAttrName) ? WalkResult::interrupt()
                                             : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Emits an error if an argument or result has a sharding in a program without
/// a mesh. Such a program is compiled for one device, over the axes of a
/// standard plan, and the sharding would be lost.
static LogicalResult verifyStatesNoSharding(ModuleOp module) {
  auto emit = [](func::FuncOp function, const Twine &what,
                 Attribute attribute) -> LogicalResult {
    auto sharding = dyn_cast_if_present<ShardingAttr>(attribute);
    if (!sharding)
      return success();
    return function.emitOpError()
           << "has a sharding of " << what << " over " << sharding.getMesh()
           << ", but the program declares no heddle.mesh: write one, such as "
              "heddle.mesh "
           << sharding.getMesh() << " <[\"x\"=2]>";
  };
  for (auto function : module.getOps<func::FuncOp>()) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (failed(emit(function, "argument " + Twine(i),
                      function.getArgAttr(i, kShardingAttrName))))
        return failure();
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (failed(emit(function, "result " + Twine(i),
                      function.getResultAttr(i, kShardingAttrName))))
        return failure();
  }
  return success();
}

bool heddle::isModel(ModuleOp module) {
  return module.lookupSymbol<func::FuncOp>("forward") &&
         (module->hasAttr(kModelAttrName) ||
          !module.getOps<VariableOp>().empty());
}

/// Checks for input that would make a later pass fail without a location.
static LogicalResult verifyInput(ModuleOp module) {
  if (failed(verifyTensorSizes(module)))
    return failure();
  WalkResult walked = module.walk([](arith::ConstantOp constant) {
    auto resource = dyn_cast<DenseResourceElementsAttr>(constant.getValue());
    return resource && failed(getResourceBytes(
                           resource, [&] { return constant.emitOpError(); }))
               ? WalkResult::interrupt()
               : WalkResult::advance();
  });
  return failure(walked.wasInterrupted());
}

/// Sets the GPU of a module that has no kernels yet.
static LogicalResult chooseTargetGpu(ModuleOp module, StringRef chip,
                                     std::optional<Phase> phase) {
  StringRef present = getTargetGpu(module);
  if (chip.empty())
    return present.empty() ? success()
                           : checkTargetGpu(module.getLoc(), present);
  if (failed(checkTargetGpu(module.getLoc(), chip)))
    return failure();
  if (present != chip && phase && *phase >= Phase::Kernels)
    return module.emitError()
           << "the program's kernels are made for "
           << (present.empty() ? StringRef("a CPU") : present)
           << ": leave out --target-gpu, or start from an earlier phase";
  module->setAttr(kTargetGpuAttrName,
                  StringAttr::get(module.getContext(), chip));
  return success();
}

LogicalResult heddle::runPhases(ModuleOp module, const CompileOptions &options,
                                Phase last) {
  if (failed(verifyInput(module)))
    return failure();
  // A program of other dialects gets a mesh and shardings, which are Heddle's.
  module.getContext()->loadDialect<HeddleDialect>();
  FailureOr<std::optional<Phase>> present = getPhase(module);
  if (failed(present))
    return failure();
  // A program that is no imported model gets no training step. Without a plan,
  // its mesh and shardings are those that it declares.
  bool isProgram = !*present && !isModel(module);
  if (isProgram)
    *present = Phase::Autodiff;
  if (failed(chooseTargetGpu(module, options.targetGpu, *present)))
    return failure();
  bool isPlanned = *present >= Phase::Sharded;
  if (isPlanned &&
      (!options.planText.empty() || options.mesh.getNumDevices() != 1 ||
       options.subBatches != 0))
    return module.emitError()
           << "the program is in phase '" << stringifyPhase(**present)
           << "' and has a plan already: leave out the plan, the mesh and the "
              "sub-batches, or start from an earlier phase";

  NamedSchedule wanted =
      getNamedSchedule(options.overlap.value_or(Overlap::None));
  if ((isPlanned && options.subBatches == 0 && wanted.subBatches > 1) ||
      (*present >= Phase::Localized && (options.recompute || wanted.recompute)))
    return module.emitError()
           << "the program is in phase '" << stringifyPhase(**present)
           << "', so its sub-batches and what is computed again are decided: "
              "leave out --recompute and take the schedule none or auto, or "
              "start from an earlier phase";

  if (*present >= Phase::Scheduled && options.overlap)
    return module.emitError()
           << "the program is in phase '" << stringifyPhase(**present)
           << "', so its order is decided: leave out --overlap, or start from "
              "an earlier phase";
  if (*present > last)
    return module.emitError()
           << "the program is in phase '" << stringifyPhase(**present)
           << "', which comes after '" << stringifyPhase(last) << "'";

  auto runPhase = [&](Phase phase, auto build) -> LogicalResult {
    if (*present >= phase || phase > last)
      return success();
    PassManager passes(module.getContext(), ModuleOp::getOperationName());
    build(passes);
    if (failed(passes.run(module)))
      return failure();
    module->setAttr(kPhaseAttrName, StringAttr::get(module.getContext(),
                                                    stringifyPhase(phase)));
    return success();
  };
  if (failed(runPhase(Phase::Autodiff, [&](OpPassManager &passes) {
        buildAutodiffPipeline(passes, options.training);
      })))
    return failure();
  bool statesMesh = isProgram && !module.getOps<MeshOp>().empty();
  if (statesMesh && options.planText.empty() &&
      options.mesh.getNumDevices() != 1)
    return (*module.getOps<MeshOp>().begin()).emitError()
           << "the program declares a mesh of its own: leave out --mesh and "
              "--devices, or the program's";
  if (isProgram && !statesMesh && options.planText.empty() &&
      options.mesh.getNumDevices() == 1 &&
      failed(verifyStatesNoSharding(module)))
    return failure();
  bool needsPlan = !isPlanned && !(statesMesh && options.planText.empty());
  if (needsPlan && last >= Phase::Sharded) {
    if (failed(choosePlan(module, options)))
      return failure();
    if (isProgram && options.mesh.getNumDevices() != 1 &&
        !isAnythingSplit(module))
      return module.emitError()
             << "the mesh splits nothing: no operator of the program has a "
                "batch, heads or features that it names; declare a heddle.mesh "
                "in the program and shardings of its arguments";
  }
  // A program with a mesh of its own has no plan that could say so.
  int64_t subBatches =
      options.subBatches == 0 ? wanted.subBatches : options.subBatches;
  if (!isPlanned && !needsPlan && subBatches > 1)
    module->setAttr(kSubBatchesAttrName,
                    Builder(module.getContext()).getI64IntegerAttr(subBatches));
  if (last < Phase::Localized)
    return runPhase(Phase::Sharded, [&](OpPassManager &passes) {
      buildShardPipeline(passes, options);
    });
  FailureOr<NamedSchedule> schedule = chooseSchedule(module, options);
  if (failed(schedule))
    return failure();
  return success(
      succeeded(runPhase(Phase::Sharded,
                         [&](OpPassManager &passes) {
                           buildShardPipeline(passes, options);
                         })) &&
      succeeded(runPhase(Phase::Localized,
                         [&](OpPassManager &passes) {
                           buildLocalizePipeline(passes, options, *schedule);
                         })) &&
      succeeded(runPhase(Phase::Kernels, buildKernelPipeline)) &&
      succeeded(runPhase(Phase::Scheduled,
                         [&](OpPassManager &passes) {
                           buildSchedulePipeline(passes, options, *schedule);
                         })) &&
      succeeded(runPhase(Phase::Executable, buildExecutablePipeline)) &&
      succeeded(runPhase(Phase::LLVM, [&](OpPassManager &passes) {
        if (isForGpu(module))
          buildGpuPipeline(passes, options);
        else
          buildLLVMPipeline(passes);
      })));
}

LogicalResult heddle::compileToArtifact(ModuleOp module,
                                        const CompileOptions &options,
                                        StringRef path) {
  // Checks the options and the path before the long work.
  FailureOr<Sanitizer> sanitizer =
      parseSanitizer(module.getLoc(), options.sanitize);
  if (failed(sanitizer) || failed(checkArtifactPath(module.getLoc(), path)) ||
      failed(runPhases(module, options, Phase::LLVM)))
    return failure();
  ArtifactOptions artifact;
  artifact.targetCpu = options.targetCpu;
  artifact.sanitizer = *sanitizer;
  artifact.seed = options.training.seed;
  if (auto plan = module->getAttrOfType<StringAttr>(kPlanAttrName))
    artifact.planJson = plan.getValue();
  return writeArtifact(module, path, artifact);
}

LogicalResult heddle::partition(ModuleOp module,
                                const PartitionOptions &options) {
  if (failed(verifyInput(module)))
    return failure();
  if (!options.planText.empty()) {
    if (failed(usePlan(module, parsePlan(options.planText, options.planPath),
                       options.devices)))
      return failure();
  } else if (module.getOps<MeshOp>().empty()) {
    return module.emitError()
           << "expected a heddle.mesh in the module, or a plan that has one";
  }
  PassManager passes(module.getContext(), ModuleOp::getOperationName());
  CompileOptions communication;
  communication.cluster = options.cluster;
  buildShardPipeline(passes, communication);
  buildLocalizePipeline(passes, communication, getNamedSchedule(Overlap::None));
  if (failed(passes.run(module)))
    return failure();
  module->setAttr(
      kPhaseAttrName,
      StringAttr::get(module.getContext(), stringifyPhase(Phase::Localized)));
  return success();
}

void heddle::registerPipelines() {
  PassPipelineRegistration<>(
      "heddle-autodiff-pipeline",
      "The training step of @forward, with the standard options",
      [](OpPassManager &passes) {
        buildAutodiffPipeline(passes, TrainingOptions());
      });
  PassPipelineRegistration<>(
      "heddle-shard-pipeline",
      "After heddle-apply-plan: shardings propagated, reshards explicit",
      [](OpPassManager &passes) {
        buildShardPipeline(passes, CompileOptions());
      });
  PassPipelineRegistration<>(
      "heddle-localize-pipeline", "One device's program with collectives",
      [](OpPassManager &passes) {
        buildLocalizePipeline(passes, CompileOptions(),
                              getNamedSchedule(Overlap::None));
      });
  PassPipelineRegistration<>("heddle-kernels-pipeline",
                             "Calls of libraries and outlined kernels",
                             buildKernelPipeline);
  PassPipelineRegistration<>(
      "heddle-schedule-pipeline", "The order of the program chosen",
      [](OpPassManager &passes) {
        buildSchedulePipeline(passes, CompileOptions(),
                              getNamedSchedule(Overlap::None));
      });
  PassPipelineRegistration<>("heddle-executable-pipeline",
                             "rt programs with memory planned",
                             buildExecutablePipeline);
  PassPipelineRegistration<>("heddle-llvm-pipeline", "The LLVM dialect",
                             buildLLVMPipeline);
}
