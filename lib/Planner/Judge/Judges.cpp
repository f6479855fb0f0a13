//===- Judges.cpp - Candidates judged on several threads ------------------===//

#include "Judges.h"
#include "KindOrders.h"
#include <atomic>
#include <set>
#include <thread>

using namespace heddle;

Judges::Judges(const PlanRequest &request)
    : request(request), orders(getKindOrders(request)) {
  for (unsigned i = 0; i < std::max(1u, request.threads); ++i)
    judges.push_back(std::make_unique<Judge>(request));
}

/// Returns the devices among which the optimizer's state of a stage is split.
static double getStorageGroup(const Candidate &candidate) {
  return candidate.zeroLevel > 0 ? double(candidate.mesh.data.back()) : 1;
}

std::string Judges::getStagesName(const Candidate &candidate) const {
  if (candidate.mesh.pipeline == 1 || !judges.front()->extrapolates(candidate))
    return "";
  int64_t data = candidate.mesh.getDataSize();
  Candidate stages = candidate;
  stages.stageLayers.clear();
  stages.microBatches = 1;
  stages.mesh.pipeline = 2;
  stages.mesh.chunks = 0;
  stages.mesh.schedule = splitsBackward(candidate.mesh.schedule)
                             ? PipelineSchedule::ZBH1
                             : PipelineSchedule::OneFOneB;
  // Above ZeRO level 1, each micro-batch gathers or reduces over the
  // data-parallel devices. At levels 0 and 1, these devices affect only the
  // update and the optimizer's state, unless a stated part or the decisions of
  // operators change storage or exchanges.
  if (candidate.zeroLevel <= 1 && !request.stated &&
      !candidate.decidesOperators) {
    stages.zeroLevel = 0;
    // One device exchanges nothing, so its update does not scale to several
    // devices.
    stages.mesh.data = {data > 1 ? 2 : 1};
  }
  int64_t rows = request.program.rows / candidate.microBatches;
  return stages.getName() + " rows " + std::to_string(rows / data);
}

const StageModel *Judges::getStages(llvm::StringRef name) const {
  auto known = stages.find(name);
  return known == stages.end() || !known->second.model ? nullptr
                                                       : &*known->second.model;
}

llvm::Expected<PlanFigures> Judges::predict(JudgeTask &task,
                                            const Known &known) const {
  if (!known.model)
    return llvm::createStringError(known.error);
  StageScales scales;
  if (known.update > 0)
    scales.update = task.update / known.update;
  scales.optimizerState = known.storageGroup / getStorageGroup(task.candidate);
  return judgeOrders(task.candidate, [&](Candidate &candidate) {
    return predictOrder(candidate, *known.model, scales);
  });
}

llvm::Expected<PlanFigures>
Judges::predictOrder(Candidate &candidate, const StageModel &model,
                     const StageScales &scales) const {
  int64_t stages = candidate.mesh.pipeline;
  llvm::Expected<MeshTopology> topology =
      MeshTopology::create(orderKinds(request.cluster, candidate.kinds),
                           {stages, request.devices / stages});
  if (!topology)
    return topology.takeError();
  const StageModel ordered = model.orderKinds(candidate.kinds);
  candidate.stageLayers =
      ordered.balance(candidate, *request.program.layers, *topology);
  llvm::Expected<PlanFigures> figures =
      ordered.predict(candidate, candidate.stageLayers, *topology, scales);
  if (!figures)
    return figures;
  if (llvm::Error problem = checkExtrapolated(*figures))
    return std::move(problem);
  figures->exposure = judges.front()->getExposure(candidate);
  return figures;
}

llvm::Expected<PlanFigures> Judges::judgeOrders(
    Candidate &candidate,
    llvm::function_ref<llvm::Expected<PlanFigures>(Candidate &)> judge) const {
  Candidate best = candidate;
  best.kinds.clear();
  llvm::Expected<PlanFigures> figures = judge(best);
  if (candidate.mesh.pipeline > 1 && figures)
    for (size_t i = 1; i < orders.size(); ++i) {
      Candidate other = candidate;
      other.kinds = orders[i];
      llvm::Expected<PlanFigures> tried = judge(other);
      if (!tried)
        llvm::consumeError(tried.takeError());
      else if (isBetter(*tried, *figures, request.memory)) {
        best = std::move(other);
        *figures = std::move(*tried);
      }
    }
  candidate = std::move(best);
  return figures;
}

std::optional<PlanFigures> Judges::predict(llvm::StringRef name,
                                           JudgeTask task) const {
  auto known = stages.find(name);
  if (known == stages.end())
    return std::nullopt;
  llvm::Expected<PlanFigures> figures = predict(task, known->second);
  if (figures)
    return std::move(*figures);
  llvm::consumeError(figures.takeError());
  return std::nullopt;
}

std::vector<llvm::Expected<PlanFigures>>
Judges::judge(llvm::MutableArrayRef<JudgeTask> tasks) {
  // If several pipelines have the same stages, only the first is compiled.
  std::vector<std::string> names;
  std::vector<size_t> work; // indices of tasks
  std::set<std::string> begun;
  for (auto [i, task] : llvm::enumerate(tasks)) {
    names.push_back(getStagesName(task.candidate));
    if (names[i].empty() ||
        (!stages.count(names[i]) && begun.insert(names[i]).second))
      work.push_back(i);
  }
  numCompiled += int64_t(work.size());
  std::vector<std::optional<llvm::Expected<PlanFigures>>> results(tasks.size());
  std::vector<Known> compiled(tasks.size());
  std::atomic<size_t> next = 0;
  auto run = [&](Judge &judge) {
    for (size_t i = next++; i < work.size(); i = next++) {
      size_t task = work[i];
      Candidate &candidate = tasks[task].candidate;
      if (candidate.leavesSchedule) {
        llvm::Expected<ScheduleVariant> schedule =
            judge.chooseSchedule(candidate);
        if (!schedule) {
          results[task].emplace(schedule.takeError());
          continue;
        }
        candidate.schedule = *schedule;
      }
      if (names[task].empty()) {
        results[task].emplace(judgeOrders(candidate, [&](Candidate &ordered) {
          return judge.extrapolate(ordered, tasks[task].limit);
        }));
        continue;
      }
      Known &known = compiled[task];
      known.update = tasks[task].update;
      known.storageGroup = getStorageGroup(candidate);
      llvm::Expected<StageModel> model = judge.measureStages(candidate);
      if (model)
        known.model = *model;
      else
        known.error = llvm::toString(model.takeError());
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min(judges.size(), work.size()); ++i)
    threads.emplace_back([&, i] { run(*judges[i]); });
  run(*judges.front());
  for (std::thread &thread : threads)
    thread.join();
  for (size_t i = 1; i < judges.size(); ++i)
    judges.front()->learnPrices(*judges[i]);
  for (size_t task : work)
    if (!names[task].empty())
      stages.emplace(names[task], std::move(compiled[task]));
  std::vector<llvm::Expected<PlanFigures>> ordered;
  for (auto [i, task] : llvm::enumerate(tasks))
    if (names[i].empty())
      ordered.push_back(std::move(*results[i]));
    else
      ordered.push_back(predict(task, stages.find(names[i])->second));
  return ordered;
}
