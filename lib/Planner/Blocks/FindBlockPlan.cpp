//===- FindBlockPlan.cpp - The answer to a request with blocks ------------===//

#include "FindBlockPlan.h"
#include "../Judge/Judge.h"
#include "PlanBlocks.h"
#include "heddle/PlanVerifier/PlanVerifier.h"
#include <functional>
#include <numeric>

using namespace mlir;
using namespace heddle;

/// Returns the candidate that the pins and the profile's mesh make.
static llvm::Expected<Candidate> makeCandidate(const PlanRequest &request) {
  const BlockProfile &profile = *request.blocks;
  const PlanPins &pins = request.pins;
  auto product = [](const std::vector<int64_t> &sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), int64_t(1),
                           std::multiplies<int64_t>());
  };
  std::pair<const char *, std::pair<std::optional<int64_t>, int64_t>> axes[] = {
      {"pp", {pins.pipeline, 1}},
      {"dp", {pins.data, product(profile.mesh.data)}},
      {"cp", {pins.context, 1}},
      {"tp", {pins.tensor, product(profile.mesh.tensor)}}};
  for (const auto &[axis, sizes] : axes)
    if (sizes.first && *sizes.first != sizes.second)
      return llvm::createStringError(
          "expected %s=%lld, the mesh of the blocks in '%s', got a pin of %lld",
          axis, static_cast<long long>(sizes.second), profile.source.c_str(),
          static_cast<long long>(*sizes.first));
  if (pins.attention)
    return llvm::createStringError(
        "expected no pin of context, because the mesh of the blocks in '%s' "
        "has no axis cp",
        profile.source.c_str());
  if (request.stated)
    return llvm::createStringError(
        "expected no part of a plan beside the blocks in '%s', which decide "
        "what it may state",
        profile.source.c_str());
  int64_t devices = profile.mesh.getNumDevices();
  if (devices != request.devices)
    return llvm::createStringError(
        "expected %lld devices, the mesh of the blocks in '%s', got %lld",
        static_cast<long long>(devices), profile.source.c_str(),
        static_cast<long long>(request.devices));
  Candidate candidate;
  candidate.mesh = profile.mesh;
  candidate.mesh.sequence = pins.sequence.value_or(false);
  candidate.zeroLevel = pins.zeroLevel.value_or(0);
  const ProgramToPlan &program = request.program;
  // A file has the rows of its micro-batches.
  candidate.microBatches = pins.microBatches.value_or(
      program.microBatchRows ? program.rows / *program.microBatchRows : 1);
  candidate.subBatches = pins.subBatches.value_or(1);
  candidate.recompute = pins.recompute.value_or(RecomputeMode::None);
  candidate.overlap = pins.overlap.value_or(Overlap::None);
  if (program.microBatchRows &&
      program.rows != candidate.microBatches * *program.microBatchRows)
    return llvm::createStringError(
        "expected a step of %lld rows, those of %lld micro-batches of the "
        "program, got %lld",
        static_cast<long long>(candidate.microBatches *
                               *program.microBatchRows),
        static_cast<long long>(candidate.microBatches),
        static_cast<long long>(program.rows));
  if (program.rows % candidate.microBatches != 0)
    return llvm::createStringError(
        "expected the rows of a step to be a multiple of %lld micro-batches, "
        "got %lld",
        static_cast<long long>(candidate.microBatches),
        static_cast<long long>(program.rows));
  return candidate;
}

/// Names the largest consumers of memory when no choice of strategies fits.
static void explain(const BlocksAnswer &answer, PlanReport &report) {
  int64_t blocks = 0;
  for (const BlockChoice &choice : answer.choices) {
    report.consumers.push_back({choice.block, choice.bytes});
    blocks += choice.bytes;
  }
  report.consumers.push_back({"beside the blocks", answer.bytes - blocks});
  llvm::sort(report.consumers, [](const auto &a, const auto &b) {
    return std::tie(b.second, a.first) < std::tie(a.second, b.first);
  });
  report.consumers.resize(std::min<size_t>(3, report.consumers.size()));
}

llvm::Expected<PlanReport> heddle::findBlockPlan(const PlanRequest &request) {
  llvm::Expected<Candidate> candidate = makeCandidate(request);
  if (!candidate)
    return candidate.takeError();
  Judge judge(request);
  llvm::Expected<Plan> plan = judge.plan(*candidate);
  if (!plan)
    return plan.takeError();
  llvm::Expected<ModuleOp> step = judge.getTrainingStep(
      {request.program.rows / candidate->microBatches, request.program.layers},
      candidate->microBatches);
  if (!step)
    return step.takeError();
  llvm::Expected<BlocksAnswer> answer =
      planBlocks(*step, *request.blocks, request.memory, *plan);
  if (!answer)
    return answer.takeError();
  PlanReport report;
  report.winner = *candidate;
  report.candidates = 1;
  report.blocks = answer->choices;
  report.figures.seconds = answer->seconds;
  // The profile does not say what the bytes hold.
  report.figures.memory.arena = answer->bytes;
  if (!answer->fits) {
    explain(*answer, report);
    return report;
  }
  PlanSetting setting;
  setting.cluster = &request.cluster;
  for (const PlanProblem &problem : verifyPlan(*step, *plan, setting))
    if (!problem.isWarning)
      return llvm::createStringError(request.blocks->source + ": " +
                                     problem.path + ": " + problem.message);
  report.bound = answer->bound;
  report.plan = std::move(*plan);
  return report;
}
