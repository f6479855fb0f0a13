//===- Pipelines.cpp - The story of a compilation -------------------------===//

#include "PhasePipelines.h"
#include "heddle/Lower/Passes.h"
#include "heddle/Shard/Passes.h"
#include "heddle/Stages/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include <limits>

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

void heddle::buildAutodiffPipeline(OpPassManager &passes,
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

void heddle::buildShardPipeline(OpPassManager &passes,
                                const CompileOptions &options) {
  // Sub-batches come before everything else, so that later passes treat the ops
  // of each part like any other ops.
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
  // Before the passes that state padding and reshards, which follow from the
  // factors.
  ReadStoredRowsPassOptions rows;
  rows.cluster = options.cluster;
  passes.addPass(createReadStoredRowsPass(rows));
  passes.addPass(createCastStoredPass());
  // Before reshards are inserted, because they follow from factors, to which
  // this pass adds axes. It decides by the gathers and sums between ops.
  if (options.scatterSums.value_or(false)) {
    ScatterSumsPassOptions scatter;
    scatter.cluster = options.cluster;
    passes.addPass(createScatterSumsPass(scatter));
  }
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
  // After reshards: values between stages now have their shardings, and partial
  // sums that would cross a cut have been reduced.
  CutStagesPassOptions stages;
  stages.cluster = options.cluster;
  passes.addPass(createCutStagesPass(stages));
}

void heddle::buildLocalizePipeline(OpPassManager &passes,
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
    if (recompute.mode == RecomputeMode::Optimal)
      recompute.memory = options.recomputeBytes;
    recompute.depth = options.recomputeDepth;
    recompute.exceeds = options.recomputeExceeds;
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
  // Before packing, which rearranges what a product computes.
  if (options.exchangeRing.value_or(false))
    passes.addPass(createRingExchangesPass());
  if (options.exchangeChunks.value_or(1) > 1) {
    ChunkExchangesPassOptions exchanges;
    exchanges.chunks = *options.exchangeChunks;
    passes.addNestedPass<func::FuncOp>(createChunkExchangesPass(exchanges));
  }
  // The runtime has only contiguous collectives.
  passes.addPass(createPackCollectivesPass());
  passes.addPass(createVerifyLocalizedPass());
}

//===----------------------------------------------------------------------===//
// 3. Lowering and scheduling: from local tensors to native code
//===----------------------------------------------------------------------===//

void heddle::buildKernelPipeline(OpPassManager &passes) {
  // A device's program is one sequence of ops. Calls are inlined first, because
  // a callee may be part of a branch; then branches and loops of known length
  // are flattened.
  passes.addPass(createInlineCallsPass());
  passes.addPass(createFlattenControlFlowPass());
  // Loops are written out, so it is known now which inserted values slices
  // read.
  passes.addPass(createForwardSlicesPass());
  // The remaining loops become calls of programs of their own.
  passes.addPass(createOutlineLoopsPass());
  // All control flow is gone. Conditions and other computed scalars become
  // tensors.
  passes.addPass(createSpreadScalarsPass());
  // Before ops are merged and rewritten, because the names travel with the ops.
  passes.addPass(createNameOperatorsPass());
  // For products of foreign programs.
  passes.addPass(createRaiseContractionsPass());
  // While the ops of the loss, which know of padding, are whole.
  passes.addPass(createPadVocabularyPass());
  // While biases and sums are still separate ops.
  passes.addPass(createFuseEpiloguesPass());
  // After epilogues, because products then have their final operands.
  passes.addPass(createFusePackingPass());
  // Last, because it makes ops that only lowering knows.
  passes.addPass(createFuseLibraryEpiloguesPass());
  // Every op that is no library call becomes loops over tensors. Loops over the
  // same rows become one kernel.
  passes.addPass(createDecomposeOpsPass());
  passes.addPass(createFormKernelsPass());
  passes.addPass(createVerifyKernelsPass());
}

void heddle::buildSchedulePipeline(OpPassManager &passes,
                                   const CompileOptions &options,
                                   const NamedSchedule &schedule,
                                   ProgramMemory memory) {
  // Chooses an order that needs little memory. The later passes start from it.
  passes.addPass(createShortenLivesPass());
  if (schedule.order) {
    OrderProgramPassOptions order;
    order.order = *schedule.order;
    order.cluster = options.cluster;
    order.chunks = schedule.chunks;
    if (memory.isAmple)
      order.memory = std::numeric_limits<int64_t>::max();
    order.reserve = memory.reserve;
    order.report = options.remarkBytes >= 0;
    passes.addPass(createOrderProgramPass(order));
  }
  if (options.startCollectives)
    passes.addPass(createStartCollectivesPass(*options.startCollectives));
  passes.addPass(createVerifyScheduledPass());
}

void heddle::buildExecutablePipeline(OpPassManager &passes) {
  // From here on every value has its place, and ops are issued in the order of
  // the text.
  passes.addPass(createPlanArenasPass());
  passes.addPass(createLowerToRtPass());
  passes.addPass(createVerifyExecutablePass());
}

void heddle::buildLLVMPipeline(OpPassManager &passes) {
  passes.addPass(createLowerKernelsPass());
  passes.addPass(createConvertRtToLLVMPass());
  passes.addPass(createVerifyLLVMPass());
}

void heddle::buildGpuPipeline(OpPassManager &passes,
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
// Registration
//===----------------------------------------------------------------------===//

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
