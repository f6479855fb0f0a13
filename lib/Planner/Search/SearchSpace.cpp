//===- SearchSpace.cpp - The candidates of a search and their bounds ------===//

#include "../Bounds/KernelCounts.h"
#include "../Complete/CompletePlan.h"
#include "Search.h"
#include <atomic>
#include <numeric>
#include <thread>

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
  return request.stated ? verifyStated(*request.stated, request.pins, *step)
                        : llvm::Error::success();
}

/// Adds the kernels of one and two layers to the counts of such programs. If a
/// program cannot be compiled, judging the candidates will say why.
static void countKernels(Judge &judge, double launch,
                         ProgramCounts (&counts)[2][2],
                         const double (&sizes)[2]) {
  std::optional<KernelCounts> kernels[2];
  for (int j = 0; j < 2; ++j) {
    kernels[j] = measureKernelCounts(
        [&](int64_t rows) {
          return judge.measureKernels({rows, int64_t(sizes[j])});
        },
        launch);
    if (!kernels[j])
      return;
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j)
      kernels[j]->setIn(counts[i][j], sizes[i]);
}

llvm::Expected<CountModel> PlanSearch::countSmallPrograms() {
  Judge &judge = judges.first();
  const ProgramToPlan &program = request.program;
  const ClusterDevice device = request.cluster.getStrongest();
  auto count =
      [&](int64_t rows,
          std::optional<int64_t> layers) -> llvm::Expected<ProgramCounts> {
    // Two micro-batches, so that the update is a program of its own.
    llvm::Expected<ModuleOp> step =
        judge.getTrainingStep({rows, layers}, /*microBatches=*/2);
    if (!step)
      return step.takeError();
    limits = getSplitLimits(*step);
    return countProgram(*step, device);
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
  if (limits.hasBackward)
    countKernels(judge, device.launch, counts, sizes);
  return CountModel(counts, sizes, sizes);
}

llvm::Expected<SearchEntry> PlanSearch::makeEntry(Candidate candidate,
                                                  size_t index) {
  llvm::Expected<CandidateBounds> rated = bounds->rate(candidate);
  if (!rated)
    return rated.takeError();
  return makeEntry(std::move(candidate), index, *rated);
}

SearchEntry PlanSearch::makeEntry(Candidate candidate, size_t index,
                                  const CandidateBounds &rated) {
  SearchEntry entry;
  entry.bounds = rated;
  entry.counted = rated.seconds;
  entry.index = index;
  entry.stages = judges.getStagesName(candidate);
  entry.keys = keys.get(candidate);
  entry.candidate = std::move(candidate);
  return entry;
}

/// Rates all candidates, on several threads. Each thread has a model of its
/// own, because models keep topologies. The error is that of the first
/// candidate that has one.
static llvm::Expected<std::vector<CandidateBounds>>
rateAll(const std::deque<Candidate> &candidates, const PlanRequest &request,
        const CountModel &counts) {
  constexpr size_t kBlock = 1024;
  std::vector<CandidateBounds> rated(candidates.size());
  std::atomic<size_t> next = 0;
  auto run = [&]() -> std::pair<size_t, llvm::Error> {
    BoundModel model(request, counts);
    for (size_t begin = next.fetch_add(kBlock); begin < candidates.size();
         begin = next.fetch_add(kBlock))
      for (size_t i = begin; i < std::min(begin + kBlock, rated.size()); ++i) {
        llvm::Expected<CandidateBounds> bounds = model.rate(candidates[i]);
        if (!bounds) {
          // No thread begins a further block.
          next = candidates.size();
          return {i, bounds.takeError()};
        }
        rated[i] = *bounds;
      }
    return {candidates.size(), llvm::Error::success()};
  };
  size_t numThreads = std::clamp<size_t>(candidates.size() / kBlock, 1,
                                         std::max(1u, request.threads));
  std::vector<std::optional<std::pair<size_t, llvm::Error>>> results(
      numThreads);
  std::vector<std::thread> threads;
  for (size_t i = 1; i < numThreads; ++i)
    threads.emplace_back([&, i] { results[i].emplace(run()); });
  results[0].emplace(run());
  for (std::thread &thread : threads)
    thread.join();
  llvm::sort(results,
             [](const auto &a, const auto &b) { return a->first < b->first; });
  for (auto &result : llvm::drop_begin(results))
    llvm::consumeError(std::move(result->second));
  if (results.front()->second)
    return std::move(results.front()->second);
  return rated;
}

llvm::Error PlanSearch::makeEntries() {
  llvm::Expected<CountModel> counts = countSmallPrograms();
  if (!counts)
    return counts.takeError();
  SearchSpace space = enumerateCandidates(request, limits);
  report.skipped = std::move(space.leftOut);
  report.candidates = int64_t(space.candidates.size());
  bounds = std::make_unique<BoundModel>(request, *counts);
  llvm::Expected<std::vector<CandidateBounds>> rated =
      rateAll(space.candidates, request, *counts);
  if (!rated)
    return rated.takeError();
  std::vector<size_t> order(rated->size());
  std::iota(order.begin(), order.end(), size_t(0));
  llvm::sort(order, [&](size_t a, size_t b) {
    return std::pair((*rated)[a].estimate, a) <
           std::pair((*rated)[b].estimate, b);
  });
  for (size_t index : order)
    entries.push_back(
        makeEntry(std::move(space.candidates[index]), index, (*rated)[index]));
  return llvm::Error::success();
}
