//===- SearchSpace.cpp - The candidates of a search and their bounds ------===//

#include "../Complete/CompletePlan.h"
#include "Search.h"

using namespace mlir;
using namespace heddle;

/// The most rows of a step that are planned: as many as a batch may have.
static constexpr int64_t kMostRows = int64_t(1) << 30;

llvm::Error PlanSearch::checkRequest() const {
  int64_t available = request.cluster.getNumDevices();
  if (request.devices < 1 || request.devices > available)
    return llvm::createStringError(
        "expected 1 to " + std::to_string(available) +
        " devices, which the cluster '" + request.cluster.name + "' has, got " +
        std::to_string(request.devices));
  const ProgramToPlan &program = request.program;
  if (program.rows < 1 || program.rows > kMostRows)
    return llvm::createStringError("expected a step of 1 to 2^30 rows, got " +
                                   std::to_string(program.rows));
  if (program.microBatchRows && program.rows % *program.microBatchRows != 0)
    return llvm::createStringError(
        "expected the rows of a step to be a multiple of " +
        std::to_string(*program.microBatchRows) +
        ", those of the program's micro-batches, got " +
        std::to_string(program.rows));
  return llvm::Error::success();
}

/// Checks the names that the user pins, and the user's stated part of a plan,
/// against the whole program.
llvm::Error PlanSearch::checkStated() {
  if (!request.stated && request.pins.replicated.empty())
    return llvm::Error::success();
  const ProgramToPlan &program = request.program;
  llvm::Expected<ModuleOp> step = judges.first().getTrainingStep(
      {program.microBatchRows.value_or(program.rows), program.layers},
      /*microBatches=*/2);
  if (!step)
    return step.takeError();
  if (llvm::Error problem = verifyPins(request.pins, *step))
    return problem;
  return request.stated ? verifyStated(*request.stated, *step)
                        : llvm::Error::success();
}

llvm::Expected<CountModel> PlanSearch::countSmallPrograms() {
  Judge &judge = judges.first();
  const ProgramToPlan &program = request.program;
  const ClusterDevice device = request.cluster.getStrongest();
  bool isMeasured = true;
  auto count =
      [&](int64_t rows,
          std::optional<int64_t> layers) -> llvm::Expected<ProgramCounts> {
    // Two micro-batches, so that the update is a program of its own.
    llvm::Expected<ModuleOp> step =
        judge.getTrainingStep({rows, layers}, /*microBatches=*/2);
    if (!step)
      return step.takeError();
    limits = getSplitLimits(*step);
    ProgramCounts counts = countProgram(*step, device);
    if (layers && limits.hasBackward) {
      // If the program cannot be compiled, judging the candidates will say why.
      llvm::Expected<double> seconds = judge.measureComputing({rows, layers});
      if (seconds)
        counts.computing = *seconds;
      else
        llvm::consumeError(seconds.takeError());
      isMeasured &= counts.computing > 0;
    }
    return counts;
  };
  if (program.microBatchRows || !program.layers) {
    llvm::Expected<ProgramCounts> counts =
        count(program.microBatchRows.value_or(program.rows), program.layers);
    if (!counts)
      return counts.takeError();
    return CountModel(*counts);
  }
  constexpr double sizes[2] = {1, 2};
  ProgramCounts counts[2][2];
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      llvm::Expected<ProgramCounts> small =
          count(int64_t(sizes[i]), int64_t(sizes[j]));
      if (!small)
        return small.takeError();
      counts[i][j] = *small;
    }
  for (auto &ofRows : counts)
    for (ProgramCounts &small : ofRows)
      small.computing = isMeasured ? small.computing : 0;
  return CountModel(counts, sizes, sizes);
}

/// Returns the next entry of the search, with the bounds of its candidate.
llvm::Expected<SearchEntry> PlanSearch::makeEntry(Candidate candidate) {
  llvm::Expected<CandidateBounds> rated = bounds->rate(candidate);
  if (!rated)
    return rated.takeError();
  // Stated storage may shard variables over more devices than the candidate
  // does.
  if (request.stated && !request.stated->storage.empty())
    rated->state /= double(request.devices);
  SearchEntry entry;
  entry.bounds = *rated;
  entry.counted = rated->seconds;
  entry.index = entries.size();
  entry.stages = judges.getStagesName(candidate);
  entry.keys = keys.get(candidate);
  entry.candidate = std::move(candidate);
  return std::move(entry);
}

llvm::Error PlanSearch::makeEntries() {
  llvm::Expected<CountModel> counts = countSmallPrograms();
  if (!counts)
    return counts.takeError();
  SearchSpace space = enumerateCandidates(request, limits);
  report.skipped = std::move(space.leftOut);
  report.candidates = int64_t(space.candidates.size());
  bounds = std::make_unique<BoundModel>(request, *counts);
  for (Candidate &candidate : space.candidates) {
    llvm::Expected<SearchEntry> entry = makeEntry(std::move(candidate));
    if (!entry)
      return entry.takeError();
    entries.push_back(std::move(*entry));
  }
  llvm::sort(entries, [](const SearchEntry &a, const SearchEntry &b) {
    return std::pair(a.bounds.estimate, a.index) <
           std::pair(b.bounds.estimate, b.index);
  });
  return llvm::Error::success();
}
