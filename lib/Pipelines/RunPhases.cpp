//===- RunPhases.cpp - A module brought to a later phase ------------------===//

#include "ModulePlan.h"
#include "OrderStages.h"
#include "OrderWithinMemory.h"
#include "PhasePipelines.h"
#include "UnitTimes.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/Lower/Artifact.h"
#include "heddle/Lower/ProgramFingerprint.h"
#include "heddle/Pipelines/ChooseSchedule.h"
#include "heddle/Plan/Plan.h"
#include "heddle/PlanVerifier/PlanVerifier.h"
#include "heddle/Support/DenseNumbers.h"
#include "heddle/Support/TensorSizes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace heddle;

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

/// Returns the schedule of the options, or else of the module's plan. A
/// recomputation that the options or the plan state overrides that of the
/// schedule.
static NamedSchedule getSchedule(ModuleOp module, const Plan &plan,
                                 const CompileOptions &options) {
  NamedSchedule schedule =
      getNamedSchedule(options.overlap.value_or(plan.overlap));
  if (std::optional<RecomputeMode> stated =
          options.recompute ? options.recompute : plan.recompute) {
    schedule.recompute = stated;
    schedule.repeatsWholeLayers &= stated == RecomputeMode::Layer;
  }
  if (schedule.order && options.cluster.isNone())
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

/// Sets who computes attention on the GPU that the module is for.
static LogicalResult chooseGpuAttention(ModuleOp module, StringRef choice) {
  if (choice.empty())
    return success();
  if (!isForGpu(module))
    return module.emitError() << "expected --target-gpu with --gpu-attention";
  module->setAttr(kGpuAttentionAttrName,
                  StringAttr::get(module.getContext(), choice));
  return success();
}

namespace {
/// One call of runPhases.
class PhaseRunner {
public:
  PhaseRunner(ModuleOp module, CompileOptions options, Phase last)
      : module(module), options(std::move(options)), last(last) {}

  LogicalResult run();

private:
  /// Checks that the options do not contradict what earlier phases decided.
  LogicalResult verifyOptions();
  /// Decides what the schedule `auto` leaves open.
  void decideSchedule();
  /// Gives the module a plan unless it states a mesh itself.
  LogicalResult applyAnyPlan();
  /// Checks that stages without a barrier need not wait to clip gradients.
  LogicalResult verifyClip(const Plan &plan);
  /// Checks that the variables, whose storage is known now, fit into the memory
  /// of the cluster's devices.
  LogicalResult verifyMemory(const Plan &plan);
  LogicalResult runPhase(Phase phase,
                         llvm::function_ref<void(OpPassManager &)> build);
  /// Orders the programs. Without a plan of the memory (--stop-after
  /// scheduled), the order is the one within the memory.
  LogicalResult runScheduled(const NamedSchedule &schedule);
  LogicalResult runExecutable();
  LogicalResult runLLVM();

  bool isPlanned() const { return present >= Phase::Sharded; }

  ModuleOp module;
  CompileOptions options;
  Phase last;
  std::optional<Phase> present;
  /// The module is no imported model, so it gets no training step.
  bool isProgram = false;
};
} // namespace

LogicalResult PhaseRunner::verifyOptions() {
  if (isPlanned() &&
      (!options.planText.empty() || options.mesh.getNumDevices() != 1 ||
       options.subBatches != 0))
    return module.emitError()
           << "the program is in phase '" << stringifyPhase(*present)
           << "' and has a plan already: leave out the plan, the mesh and the "
              "sub-batches, or start from an earlier phase";
  NamedSchedule wanted =
      getNamedSchedule(options.overlap.value_or(Overlap::None));
  if ((isPlanned() && options.subBatches == 0 && wanted.subBatches > 1) ||
      (present >= Phase::Localized && (options.recompute || wanted.recompute)))
    return module.emitError()
           << "the program is in phase '" << stringifyPhase(*present)
           << "', so its sub-batches and what is computed again are decided: "
              "leave out --recompute and take the schedule none or auto, or "
              "start from an earlier phase";
  if (present >= Phase::Scheduled && options.overlap)
    return module.emitError()
           << "the program is in phase '" << stringifyPhase(*present)
           << "', so its order is decided: leave out --overlap, or start from "
              "an earlier phase";
  if (present > last)
    return module.emitError()
           << "the program is in phase '" << stringifyPhase(*present)
           << "', which comes after '" << stringifyPhase(last) << "'";
  return success();
}

LogicalResult
PhaseRunner::runPhase(Phase phase,
                      llvm::function_ref<void(OpPassManager &)> build) {
  if (present >= phase || phase > last)
    return success();
  PassManager passes(module.getContext(), ModuleOp::getOperationName());
  build(passes);
  passes.enableVerifier(options.verification == Verification::EachPass);
  bool verifiesPhase =
      options.verification == Verification::EachPhase ||
      (options.verification == Verification::LastPhase && phase == last);
  if (failed(passes.run(module)) || (verifiesPhase && failed(verify(module))))
    return failure();
  module->setAttr(kPhaseAttrName,
                  StringAttr::get(module.getContext(), stringifyPhase(phase)));
  return success();
}

LogicalResult PhaseRunner::runScheduled(const NamedSchedule &schedule) {
  auto run = [&](ProgramMemory memory) -> LogicalResult {
    auto build = [&](OpPassManager &passes) {
      buildSchedulePipeline(passes, options, schedule, memory);
    };
    if (failed(runPhase(Phase::Scheduled, build)))
      return failure();
    return runExecutable();
  };
  bool isOrdered = present.value_or(Phase::Kernels) < Phase::Scheduled &&
                   last >= Phase::Scheduled &&
                   schedule.order == ProgramOrder::Shortest;
  if (isOrdered && failed(attachUnitTimes(module, options)))
    return failure();
  FailureOr<const Cluster *> cluster = getCluster(module, options.cluster);
  if (failed(cluster))
    return failure();
  if (!isOrdered || last < Phase::Executable || !*cluster)
    return run({});
  return orderWithinMemory(module, **cluster, run);
}

/// Orders the stages by the times of their programs, which are known now that
/// the programs are executable.
LogicalResult PhaseRunner::runExecutable() {
  if (present >= Phase::Executable || last < Phase::Executable)
    return success();
  return success(
      succeeded(runPhase(Phase::Executable, buildExecutablePipeline)) &&
      succeeded(orderStages(module, options)));
}

/// Lowers the programs to LLVM. Keeps their fingerprint, because they are gone
/// afterwards.
LogicalResult PhaseRunner::runLLVM() {
  if (present >= Phase::LLVM || last < Phase::LLVM)
    return success();
  module->setAttr(
      kProgramHashAttrName,
      StringAttr::get(module.getContext(), getProgramFingerprint(module)));
  return runPhase(Phase::LLVM, [&](OpPassManager &passes) {
    if (isForGpu(module))
      buildGpuPipeline(passes, options);
    else
      buildLLVMPipeline(passes);
  });
}

void PhaseRunner::decideSchedule() {
  if (isPlanned() || last < Phase::Sharded || !options.choosesSchedule ||
      !leavesChoice(options))
    return;
  std::optional<ScheduleChoice> choice = chooseSchedule(module, options);
  if (!choice)
    return;
  options.subBatches = choice->best.variant.subBatches;
  options.recompute = choice->best.variant.recompute;
  options.recomputeBytes = choice->best.variant.recomputeBytes;
  if (choice->best.variant.scattersSums)
    options.scatterSums = true;
  if (choice->best.variant.exchangesInRing)
    options.exchangeRing = true;
  if (choice->best.variant.exchangeChunks > 1)
    options.exchangeChunks = choice->best.variant.exchangeChunks;
  if (!choice->best.canFit())
    emitWarning(module.getLoc())
        << "variables, arguments and results of a device take "
        << choice->best.fixed << " bytes of " << choice->best.capacity
        << ", so no schedule fits: split or store them over more devices; "
           "'auto' takes the fastest: "
        << describeBest(*choice);
  else if (!choice->best.fits())
    emitWarning(module.getLoc())
        << "no schedule fits into " << choice->best.capacity
        << " bytes of a device: the least that 'auto' found is "
        << describeBest(*choice);
  if (options.remarkBytes >= 0)
    emitRemark(module.getLoc()) << "'auto' takes " << describe(*choice);
}

LogicalResult PhaseRunner::applyAnyPlan() {
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
  bool needsPlan = !isPlanned() && !(statesMesh && options.planText.empty());
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
  // A program with a mesh of its own has no plan that could state the number of
  // sub-batches.
  int64_t subBatches = options.subBatches;
  if (subBatches == 0)
    subBatches =
        getNamedSchedule(options.overlap.value_or(Overlap::None)).subBatches;
  if (!isPlanned() && !needsPlan && subBatches > 1)
    module->setAttr(kSubBatchesAttrName,
                    Builder(module.getContext()).getI64IntegerAttr(subBatches));
  return success();
}

LogicalResult PhaseRunner::verifyClip(const Plan &plan) {
  double clip = options.training.clip;
  if (plan.numStages == 0 || plan.pipelineBarrier == PipelineBarrier::Step ||
      !options.training.train || clip <= 0)
    return success();
  return module.emitError()
         << "stages without a barrier (--pipeline-barrier none, or "
            "\"pipeline_barrier\" of the plan) do not wait for the norm of all "
            "gradients, which clipping needs: expected --clip 0"
         << (clip == TrainingOptions().clip ? " instead of its default" : "");
}

LogicalResult PhaseRunner::verifyMemory(const Plan &plan) {
  FailureOr<const Cluster *> cluster = getCluster(module, options.cluster);
  if (failed(cluster))
    return failure();
  if (isPlanned() || !*cluster)
    return success();
  std::vector<PlanProblem> problems = verifyPlanMemory(module, plan, **cluster);
  if (problems.empty())
    return success();
  // The module's plan is printed anew, so its line numbers differ from the
  // file's.
  PlanPosition at;
  if (llvm::Expected<Plan> read = parsePlan(options.planText, options.planPath))
    at = read->getPosition("storage");
  else
    llvm::consumeError(read.takeError());
  for (PlanProblem &problem : problems) {
    problem.isWarning = !options.refusesTooLarge;
    problem.position = at;
    if (options.planText.empty() && !options.mesh.option.empty())
      problem.path = options.mesh.option;
  }
  return emitPlanProblems(module.getContext(), options.planPath, problems);
}

LogicalResult PhaseRunner::run() {
  if (failed(verifyInput(module)))
    return failure();
  // A program of other dialects gets a mesh and shardings, which are Heddle's.
  module.getContext()->loadDialect<HeddleDialect>();
  FailureOr<std::optional<Phase>> known = getPhase(module);
  if (failed(known))
    return failure();
  present = *known;
  // A program that is no imported model gets no training step. Without a plan,
  // its mesh and shardings are those that it declares.
  isProgram = !present && !isModel(module);
  bool makesStep = !present && !isProgram; // with the options' clip
  if (isProgram)
    present = Phase::Autodiff;
  if (failed(chooseTargetGpu(module, options.targetGpu, present)) ||
      failed(chooseGpuAttention(module, options.gpuAttention)) ||
      failed(verifyOptions()))
    return failure();
  // Before autodiff, which hides that layers are equal.
  decideSchedule();
  if (failed(runPhase(Phase::Autodiff,
                      [&](OpPassManager &passes) {
                        buildAutodiffPipeline(passes, options.training);
                      })) ||
      failed(applyAnyPlan()))
    return failure();
  FailureOr<Plan> plan = getPlan(module);
  if (failed(plan) || (makesStep && failed(verifyClip(*plan))))
    return failure();
  options.exchangeRing = options.exchangeRing.value_or(plan->exchangeRing);
  options.scatterSums = options.scatterSums.value_or(plan->scatterSums);
  if (failed(runPhase(Phase::Sharded, [&](auto &passes) {
        buildShardPipeline(passes, options);
      })))
    return failure();
  if (last < Phase::Sharded)
    return success();
  if (failed(verifyMemory(*plan)))
    return failure();
  if (last < Phase::Localized)
    return success();
  NamedSchedule schedule = getSchedule(module, *plan, options);
  if (options.recomputeBytes == 0)
    options.recomputeBytes = plan->recomputeBytes.value_or(0);
  if (!options.exchangeChunks)
    options.exchangeChunks = plan->exchangeChunks;
  if (failed(runPhase(Phase::Localized,
                      [&](OpPassManager &passes) {
                        buildLocalizePipeline(passes, options, schedule);
                      })) ||
      failed(runPhase(Phase::Kernels, buildKernelPipeline)))
    return failure();
  if (failed(runScheduled(schedule)))
    return failure();
  return runLLVM();
}

LogicalResult heddle::runPhases(ModuleOp module, const CompileOptions &options,
                                Phase last) {
  return PhaseRunner(module, options, last).run();
}

LogicalResult heddle::partition(ModuleOp module,
                                const PartitionOptions &options) {
  if (failed(verifyInput(module)))
    return failure();
  if (!options.planText.empty()) {
    if (failed(usePlan(module, parsePlan(options.planText, options.planPath),
                       options.devices, options.cluster)))
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
