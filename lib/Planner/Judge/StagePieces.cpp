//===- StagePieces.cpp - Pipelines judged by few layers -------------------===//

#include "StagePieces.h"
#include "../Bounds/StageLinks.h"
#include "StagePlaces.h"
#include <algorithm>
#include <limits>

using namespace heddle;

//===----------------------------------------------------------------------===//
// Figures of a stage
//===----------------------------------------------------------------------===//

static constexpr double StagePiece::*kFigures[] = {
    &StagePiece::forward,
    &StagePiece::backward,
    &StagePiece::weights,
    &StagePiece::exposed,
    &StagePiece::kept,
    &StagePiece::keptForWeights,
    &StagePiece::pending,
    &StagePiece::sent,
    &StagePiece::returned,
    &StagePiece::exchanged,
    &StagePiece::parameters,
    &StagePiece::optimizerState,
    &StagePiece::gradients,
    &StagePiece::counters,
    &StagePiece::arena,
    &StagePiece::argumentsAndResults,
    &StagePiece::argumentsOfMicroBatch};

StagePiece StagePiece::add(const StagePiece &a, const StagePiece &b,
                           double factor) {
  StagePiece sum = a;
  for (double StagePiece::*figure : kFigures)
    sum.*figure += factor * (b.*figure);
  return sum;
}

//===----------------------------------------------------------------------===//
// Predicting a pipeline
//===----------------------------------------------------------------------===//

StagePiece StageModel::get(int64_t stage, int64_t numStages,
                           int64_t layers) const {
  auto slope = [&](const StagePiece &from, const StagePiece &to) {
    return StagePiece::add({}, StagePiece::add(to, from, -1),
                           1 / double(more.layers - few.layers));
  };
  StagePiece ofLayer = slope(few.first, more.first);
  double added = double(layers - few.layers);
  if (stage == 0)
    return StagePiece::add(few.first, ofLayer, added);
  if (stage + 1 == numStages)
    return StagePiece::add(few.last, slope(few.last, more.last), added);
  // A stage in between has layers alone.
  StagePiece piece = StagePiece::add({}, ofLayer, double(layers));
  piece.sent = few.first.sent;
  piece.returned = few.last.returned;
  piece.counters = few.first.counters;
  piece.arena = few.first.arena + ofLayer.arena * added;
  return piece;
}

double StageModel::getLeast(
    llvm::function_ref<double(const StageModel &)> getFigure) const {
  if (kinds.empty())
    return getFigure(*this);
  double least = std::numeric_limits<double>::infinity();
  for (const StageModel &kind : kinds)
    least = std::min(least, getFigure(kind));
  return least;
}

double StageModel::getSecondsOfLayer() const {
  return getLeast([](const StageModel &kind) {
    double first = kind.more.first.getSeconds() - kind.few.first.getSeconds();
    double last = kind.more.last.getSeconds() - kind.few.last.getSeconds();
    return std::min(first, last) / double(kind.more.layers - kind.few.layers);
  });
}

double StageModel::getSeconds(int64_t layers) const {
  // Takes the least over the kinds of device, because each stage may be on the
  // best kind for it.
  double first = getLeast(
      [](const StageModel &kind) { return kind.few.first.getSeconds(); });
  double last = getLeast(
      [](const StageModel &kind) { return kind.few.last.getSeconds(); });
  return first + last + double(layers - 2 * few.layers) * getSecondsOfLayer();
}

double StageModel::getUpdate(int64_t layers) const {
  double ofLayer =
      (more.update - few.update) / double(more.layers - few.layers);
  return std::max(0.0, few.update + ofLayer * double(layers - few.layers));
}

std::vector<int64_t> StageModel::balance(const Candidate &candidate,
                                         int64_t layers,
                                         const MeshTopology &topology) const {
  std::vector<PlaceDevice> places = getPlaces(topology);
  const DefaultMesh &mesh = candidate.mesh;
  int64_t numStages = candidate.getNumStages();
  std::vector<int64_t> counts(numStages, 1);
  std::vector<double> work(numStages), ofDevice(mesh.pipeline);
  auto getDevice = [&](int64_t stage) {
    return getDeviceOfStage(mesh.schedule, mesh.pipeline, stage);
  };
  for (int64_t stage = 0; stage < numStages; ++stage) {
    work[stage] = of(places[getDevice(stage)].group)
                      .get(stage, numStages, 1)
                      .getSeconds();
    ofDevice[getDevice(stage)] += work[stage];
  }
  for (int64_t left = layers - numStages; left > 0; --left) {
    // Adds a layer to the device that is done first. If devices differ, to the
    // one that would be done first with the layer. Later stages keep fewer
    // activations.
    int64_t best = 0;
    auto getKey = [&](int64_t stage) {
      double next = 0;
      if (!kinds.empty())
        next = of(places[getDevice(stage)].group).getSecondsOfLayer();
      return std::tuple(ofDevice[getDevice(stage)] + next, work[stage], -stage);
    };
    for (int64_t stage = 1; stage < numStages; ++stage)
      if (getKey(stage) < getKey(best))
        best = stage;
    double added = of(places[getDevice(best)].group)
                       .get(best, numStages, ++counts[best])
                       .getSeconds() -
                   work[best];
    work[best] += added;
    ofDevice[getDevice(best)] += added;
  }
  return counts;
}

namespace {
struct PlayedStep {
  /// Seconds from the first pass to the end of the last one.
  double passes = 0;
  /// Seconds after them until the first and the last stage have exchanged the
  /// gradients of a table that they share.
  double exchange = 0;
};
} // namespace

static PlayedStep play(const StageSchedule &schedule,
                       llvm::ArrayRef<StagePiece> pieces, StageLinks &links) {
  int64_t numStages = schedule.getNumStages();
  constexpr double kOpen = -1;
  auto makeTable = [&] {
    return std::vector<std::vector<double>>(
        numStages, std::vector<double>(schedule.microBatches, kOpen));
  };
  auto forward = makeTable(), backward = makeTable();
  std::vector<size_t> next(schedule.devices.size());
  std::vector<double> freeAt(schedule.devices.size());
  auto arrive = [&](double end, int64_t from, int64_t to, double bytes) {
    int64_t source = schedule.deviceOf[from], target = schedule.deviceOf[to];
    if (end == kOpen || source == target)
      return end;
    return end + links.send(source, target, bytes);
  };
  // Returns when the inputs of a task are there; kOpen: not known yet.
  auto getReady = [&](const StageTask &task) {
    int64_t stage = task.stage, number = task.microBatch;
    if (task.work == StageWork::BackwardWeights)
      return backward[stage][number];
    if (task.work == StageWork::Forward)
      return stage == 0 ? 0
                        : arrive(forward[stage - 1][number], stage - 1, stage,
                                 pieces.front().sent);
    if (stage + 1 == numStages)
      return forward[stage][number];
    return arrive(backward[stage + 1][number], stage + 1, stage,
                  pieces.back().returned);
  };
  double last = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t device = 0; device < next.size(); ++device)
      for (; next[device] < schedule.devices[device].size(); ++next[device]) {
        const StageTask &task = schedule.devices[device][next[device]];
        double ready = getReady(task);
        if (ready == kOpen)
          break;
        const StagePiece &piece = pieces[task.stage];
        double end = std::max(ready, freeAt[device]) +
                     (task.work == StageWork::Forward    ? piece.forward
                      : task.work == StageWork::Backward ? piece.backward
                                                         : piece.weights);
        if (task.work == StageWork::Forward)
          forward[task.stage][task.microBatch] = end;
        else if (task.work == StageWork::Backward)
          backward[task.stage][task.microBatch] = end;
        freeAt[device] = end;
        last = std::max(last, end);
        moved = true;
      }
  }
  int64_t first = schedule.deviceOf.front(), end = schedule.deviceOf.back();
  double table = pieces.front().exchanged / 2; // sent and received
  if (first == end || table == 0)
    return {last, 0};
  double exchanged =
      std::max(freeAt[first], freeAt[end]) + links.exchange(first, end, table);
  return {last, std::max(0.0, exchanged - last)};
}

/// Returns the bytes of a device's slots: as many slots for kept values as are
/// alive at once, two slots in each direction for values that cross between
/// devices, and the gradients of tied tables.
static double getSlots(const StageSchedule &schedule, int64_t device,
                       llvm::ArrayRef<StagePiece> pieces) {
  double kept = 0, keptForWeights = 0, pending = 0, mostKept = 0,
         mostForWeights = 0, mostPending = 0, crossing = 0;
  int64_t last = schedule.getNumStages() - 1;
  for (const StageTask &task : schedule.devices[device]) {
    const StagePiece &piece = pieces[task.stage];
    switch (task.work) {
    case StageWork::Forward:
      kept += piece.kept;
      keptForWeights += piece.keptForWeights;
      break;
    case StageWork::Backward:
      kept -= piece.kept;
      pending += piece.pending;
      break;
    default:
      keptForWeights -= piece.keptForWeights;
      pending -= piece.pending;
      break;
    }
    mostKept = std::max(mostKept, kept);
    mostForWeights = std::max(mostForWeights, keptForWeights);
    mostPending = std::max(mostPending, pending);
  }
  for (int64_t stage = 0; stage <= last; ++stage)
    if (schedule.deviceOf[stage] == device) {
      if (stage > 0)
        crossing += pieces[stage].returned + pieces[stage - 1].sent;
      if (stage < last)
        crossing += pieces[stage].sent + pieces[stage + 1].returned;
    }
  double exchanged = 0; // unless one device has both ends
  if (schedule.deviceOf.front() != schedule.deviceOf[last])
    for (int64_t stage : {int64_t(0), last})
      if (schedule.deviceOf[stage] == device)
        exchanged += pieces[stage].exchanged;
  return mostKept + mostForWeights + mostPending + 2 * crossing + exchanged;
}

llvm::Expected<PlanFigures>
StageModel::predict(const Candidate &candidate, llvm::ArrayRef<int64_t> counts,
                    const MeshTopology &topology,
                    const StageScales &scales) const {
  const DefaultMesh &mesh = candidate.mesh;
  ScheduleProblem problem;
  problem.schedule = mesh.schedule;
  problem.devices = mesh.pipeline;
  problem.stages = int64_t(counts.size());
  problem.microBatches = candidate.microBatches;
  std::vector<PlaceDevice> places = getPlaces(topology);
  std::vector<StagePiece> pieces;
  std::vector<int64_t> layersOf(places.size());
  for (auto [stage, layers] : llvm::enumerate(counts)) {
    int64_t place =
        getDeviceOfStage(mesh.schedule, mesh.pipeline, int64_t(stage));
    const StagePiece &piece = pieces.emplace_back(
        of(places[place].group)
            .get(int64_t(stage), int64_t(counts.size()), layers));
    // The table of a compiled pipeline is ordered by these times, too.
    problem.times.push_back({piece.forward, piece.backward, piece.weights});
    layersOf[place] += layers;
  }
  llvm::Expected<StageSchedule> schedule = makeSchedule(problem);
  if (!schedule)
    return schedule.takeError();
  StageLinks links(topology);
  double update = 0;
  for (auto [place, layers] : llvm::zip(places, layersOf))
    update = std::max(update, of(place.group).getUpdate(layers));
  PlanFigures figures;
  PlayedStep step = play(*schedule, pieces, links);
  figures.seconds = step.passes + step.exchange + scales.update * update;
  auto micro = double(candidate.microBatches);
  for (int64_t device = 0; device < mesh.pipeline; ++device) {
    StagePiece sum;
    double arena = 0;
    for (size_t stage = 0; stage < pieces.size(); ++stage)
      if (schedule->deviceOf[stage] == device) {
        sum = StagePiece::add(sum, pieces[stage], 1);
        arena = std::max(arena, pieces[stage].arena);
      }
    DeviceMemoryPlan memory;
    memory.parameters = int64_t(sum.parameters);
    memory.optimizerState = int64_t(sum.optimizerState * scales.optimizerState);
    memory.gradients = int64_t(sum.gradients);
    memory.counters = int64_t(sum.counters);
    memory.arena = int64_t(arena);
    memory.argumentsAndResults =
        int64_t(sum.argumentsAndResults + micro * sum.argumentsOfMicroBatch);
    memory.slots = int64_t(getSlots(*schedule, device, pieces));
    if (device == 0 || memory.total() - places[device].extraMemory >
                           figures.memory.total() - figures.extraMemory) {
      figures.memory = memory;
      figures.extraMemory = places[device].extraMemory;
    }
    if (!places[device].mixed.empty())
      figures.mixed.push_back(places[device].mixed);
    figures.exposed =
        std::max(figures.exposed, micro * sum.exposed + step.exchange);
  }
  return figures;
}
