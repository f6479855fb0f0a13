//===- Candidates.cpp - The search space of the planner -------------------===//

#include "Candidates.h"
#include "../Bounds/Extrapolation.h"
#include "heddle/Stages/StageSchedule.h"
#include "llvm/ADT/StringExtras.h"
#include <map>
#include <numeric>

using namespace heddle;

static std::string joinSizes(const std::vector<int64_t> &sizes) {
  std::string text;
  for (int64_t size : sizes)
    text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

std::string Candidate::getName() const {
  std::string text = "--mesh ";
  if (mesh.pipeline > 1)
    text += "pp=" + std::to_string(mesh.pipeline) + ",";
  text += "dp=" + joinSizes(mesh.data);
  if (mesh.context > 1)
    text += ",cp=" + std::to_string(mesh.context);
  if (mesh.getTensorSize() > 1)
    text += ",tp=" + joinSizes(mesh.tensor);
  if (mesh.context > 1 && mesh.attention != ContextParallelism::Ring)
    text += (" --context " + getContextName(mesh.attention)).str();
  if (zeroLevel > 0)
    text += " --zero " + std::to_string(zeroLevel);
  if (mesh.sequence)
    text += " --sequence";
  if (microBatches > 1)
    text += " --micro-batches " + std::to_string(microBatches);
  ScheduleVariant variant = getSchedule();
  if (variant.subBatches > 1)
    text += " --sub-batches " + std::to_string(variant.subBatches);
  if (variant.recompute != RecomputeMode::None)
    text += (" --recompute " + stringifyRecomputeMode(variant.recompute)).str();
  if (variant.scattersSums)
    text += " --scatter-sums";
  if (variant.exchangeChunks > 1)
    text += " --exchange-chunks " + std::to_string(variant.exchangeChunks);
  if (variant.exchangesInRing)
    text += " --exchange-ring";
  if (overlap != Overlap::None)
    text += (" --overlap " + getNamedSchedule(overlap).name).str();
  if (mesh.pipeline > 1 && mesh.schedule != PipelineSchedule::OneFOneB)
    text += (" --pipeline " + getScheduleName(mesh.schedule)).str();
  if (recomputeBytes > 0)
    text += recomputeBytes < 1 << 20
                ? " (limit " + std::to_string(recomputeBytes >> 10) + " KiB)"
                : " (limit " + std::to_string(recomputeBytes >> 20) + " MiB)";
  if (decidesOperators)
    text += " (each operator decided)";
  if (leavesSchedule)
    text += schedule ? " (as the schedule chose)" : " (the schedule chooses)";
  for (const PlanSplit &split : splits)
    text += (&split == &splits.front() ? " (" : ", ") + split.glob + " in " +
            std::to_string(split.slices) + " slices of " + split.factor;
  if (!splits.empty())
    text += ")";
  return text;
}

std::string Candidate::getKey() const {
  auto list = [](const std::vector<int64_t> &numbers) {
    std::string text;
    for (int64_t number : numbers)
      text += " " + std::to_string(number);
    return text;
  };
  return getName() + "; attention " + std::to_string(int64_t(mesh.attention)) +
         ", chunks " + std::to_string(mesh.chunks) + ", recompute " +
         std::to_string(getSchedule().recomputeBytes) + " bytes; layers" +
         list(stageLayers) + "; kinds" + list(kinds);
}

ScheduleVariant Candidate::getSchedule() const {
  if (schedule)
    return *schedule;
  ScheduleVariant variant;
  variant.subBatches = subBatches;
  variant.recompute = recompute;
  variant.recomputeBytes = recomputeBytes;
  return variant;
}

int64_t Candidate::getNumStages() const {
  return mesh.pipeline > 1
             ? mesh.pipeline * getNumChunks(mesh.schedule, mesh.chunks)
             : 1;
}

unsigned heddle::getDistance(const Candidate &a, const Candidate &b) {
  const DefaultMesh &x = a.mesh, &y = b.mesh;
  return unsigned(
             x.pipeline != y.pipeline || x.getDataSize() != y.getDataSize() ||
             x.context != y.context || x.getTensorSize() != y.getTensorSize()) +
         unsigned(x.data.back() != y.data.back()) +
         unsigned(x.sequence != y.sequence) +
         unsigned(x.attention != y.attention) +
         unsigned(a.zeroLevel != b.zeroLevel) +
         unsigned(a.microBatches != b.microBatches) +
         (a.leavesSchedule || b.leavesSchedule
              ? unsigned(a.leavesSchedule != b.leavesSchedule)
              : unsigned(a.subBatches != b.subBatches) +
                    unsigned(a.recompute != b.recompute)) +
         unsigned(a.overlap != b.overlap) + unsigned(x.schedule != y.schedule) +
         unsigned(a.decidesOperators != b.decidesOperators);
}

static std::vector<int64_t> getDivisors(int64_t number) {
  std::vector<int64_t> divisors;
  for (int64_t divisor = 1; divisor <= number / divisor; ++divisor)
    if (number % divisor == 0) {
      divisors.push_back(divisor);
      if (divisor != number / divisor)
        divisors.push_back(number / divisor);
    }
  llvm::sort(divisors);
  return divisors;
}

namespace {

class Enumerator {
public:
  Enumerator(const PlanRequest &request, const SplitLimits &limits)
      : request(request), limits(limits), pins(request.pins) {}

  SearchSpace run() {
    for (int64_t pipeline : getDivisors(request.devices)) {
      int64_t stage = request.devices / pipeline;
      for (int64_t tensor : getDivisors(stage))
        for (int64_t context : getDivisors(stage / tensor))
          addMeshes(pipeline, stage / tensor / context, context, tensor);
    }
    for (const auto &[reason, count] : leftOut)
      space.leftOut.push_back({reason, count});
    return std::move(space);
  }

private:
  /// Returns whether the user's choice, if there is one, is `value`.
  template <typename T> static bool allows(std::optional<T> pin, T value) {
    return !pin || *pin == value;
  }
  void addMeshes(int64_t pipeline, int64_t data, int64_t context,
                 int64_t tensor);
  void addUnnamed(int64_t data, int64_t tensor);
  /// Returns the ways to write the axis dp: whole, or as groups times the
  /// members of a group.
  std::vector<std::vector<int64_t>> getGroups(int64_t data,
                                              int64_t inner) const;
  std::vector<ContextParallelism> getKinds(int64_t context,
                                           int64_t tensor) const;
  void addStorage(Candidate candidate, int64_t data);
  void addBatches(Candidate candidate, int64_t data);
  void addPipelines(Candidate candidate, int64_t rowsOfDevice);
  void addSchedules(Candidate candidate, int64_t rowsOfDevice);

  const PlanRequest &request;
  const SplitLimits &limits;
  const PlanPins &pins;
  SearchSpace space;
  std::map<std::string, int64_t> leftOut;
};

} // namespace

/// Adds the candidates of a program whose factors have no roles. Such a program
/// has no standard plan, but each of its operators can be decided.
void Enumerator::addUnnamed(int64_t data, int64_t tensor) {
  Candidate candidate;
  candidate.mesh.data = {data};
  candidate.mesh.statesData = true;
  candidate.mesh.tensor = {tensor};
  candidate.decidesOperators = request.devices > 1;
  candidate.microBatches =
      request.program.microBatchRows
          ? request.program.rows / *request.program.microBatchRows
          : 1;
  candidate.overlap = pins.overlap.value_or(
      request.devices == 1 ? Overlap::None : Overlap::Auto);
  candidate.recompute = pins.recompute.value_or(RecomputeMode::None);
  candidate.subBatches = pins.subBatches.value_or(1);
  if (allows(pins.microBatches, candidate.microBatches) &&
      allows(pins.zeroLevel, int64_t(0)) && allows(pins.sequence, false))
    space.candidates.push_back(std::move(candidate));
}

void Enumerator::addMeshes(int64_t pipeline, int64_t data, int64_t context,
                           int64_t tensor) {
  if (!allows(pins.pipeline, pipeline) || !allows(pins.data, data) ||
      !allows(pins.context, context) || !allows(pins.tensor, tensor))
    return;
  if ((pins.schedule && pipeline == 1) || (pins.attention && context == 1))
    return;
  if (pipeline > 1 && !limits.hasBackward) {
    ++leftOut["a pipeline needs the training step of a model, which Heddle "
              "derives with micro-batches; stages of any other program would "
              "run one after the other"];
    return;
  }
  if (!limits.hasRoles()) {
    if (pipeline == 1 && context == 1)
      addUnnamed(data, tensor);
    return;
  }
  if (pipeline > 1 && request.program.getMostStages() < pipeline) {
    ++leftOut["the program has fewer layers than pp"];
    return;
  }
  if (!limits.canSplitTensor(tensor)) {
    ++leftOut["tensor parallelism does not divide heads or features"];
    return;
  }
  std::vector<ContextParallelism> kinds = getKinds(context, tensor);
  if (kinds.empty()) {
    ++leftOut[pins.attention
                  ? "context parallelism of the pinned kind divides neither"
                  : "context parallelism does not divide the sequence"];
    return;
  }
  if (data > 1 && !limits.hasBatch) {
    ++leftOut["no operator has a batch to split"];
    return;
  }
  int64_t inner = context * tensor;
  for (const std::vector<int64_t> &sizes : getGroups(data, inner))
    for (bool sequence : {false, true}) {
      if (!allows(pins.sequence, sequence) ||
          (sequence && (tensor == 1 || !limits.canSplitSequence(inner))))
        continue;
      Candidate candidate;
      candidate.mesh.pipeline = pipeline;
      candidate.mesh.data = sizes;
      candidate.mesh.statesData = true;
      candidate.mesh.context = context;
      candidate.mesh.statesContext = context > 1;
      candidate.mesh.tensor = {tensor};
      candidate.mesh.sequence = sequence;
      for (ContextParallelism kind : kinds) {
        candidate.mesh.attention = kind;
        addStorage(candidate, data);
      }
    }
}

/// Returns the ways in which attention can see the parts of the sequence. If
/// there is one part, that is the default.
std::vector<ContextParallelism> Enumerator::getKinds(int64_t context,
                                                     int64_t tensor) const {
  if (context == 1)
    return {ContextParallelism::Ring};
  std::vector<ContextParallelism> kinds;
  for (ContextParallelism kind : kContextKinds)
    if (allows(pins.attention, kind) &&
        limits.canSplitContext(kind, context, tensor))
      kinds.push_back(kind);
  return kinds;
}

std::vector<std::vector<int64_t>> Enumerator::getGroups(int64_t data,
                                                        int64_t inner) const {
  std::vector<std::vector<int64_t>> groups = {{data}};
  // A group within one unit of a level communicates over that unit's links
  // alone.
  int64_t unit = 1;
  for (const ClusterLevel &level : request.cluster.levels) {
    if (level.count == 1)
      continue;
    unit *= level.count;
    int64_t members = unit / inner;
    if (unit % inner == 0 && members > 1 && members < data &&
        data % members == 0)
      groups.push_back({data / members, members});
  }
  return groups;
}

void Enumerator::addStorage(Candidate candidate, int64_t data) {
  for (int64_t level = 0; level <= 3; ++level) {
    if (!allows(pins.zeroLevel, level) || (level > 0 && data == 1))
      continue;
    candidate.zeroLevel = level;
    addBatches(candidate, data);
  }
}

void Enumerator::addBatches(Candidate candidate, int64_t data) {
  const ProgramToPlan &program = request.program;
  std::optional<int64_t> stated;
  if (request.stated && !request.stated->subBatchSizes.empty())
    stated = std::accumulate(request.stated->subBatchSizes.begin(),
                             request.stated->subBatchSizes.end(), int64_t(0));
  for (int64_t count : getDivisors(program.rows)) {
    int64_t rows = program.rows / count;
    if (!allows(pins.microBatches, count) ||
        !allows(program.microBatchRows, rows))
      continue;
    if (!allows(stated, rows)) {
      ++leftOut["the rows of a micro-batch are not those of the stated "
                "sub-batches"];
      continue;
    }
    // Without accumulated gradients, level 2 stores what level 1 does.
    if (count == 1 && candidate.zeroLevel == 2 && !pins.zeroLevel)
      continue;
    if (limits.hasBatch && rows % data != 0) {
      ++leftOut["the rows of a micro-batch do not divide over dp"];
      continue;
    }
    // Fewer micro-batches than stages leave devices without work.
    if (count < candidate.mesh.pipeline && candidate.mesh.pipeline > 1) {
      if (program.microBatchRows)
        ++leftOut["the step has fewer micro-batches than pp: a larger --batch "
                  "has more micro-batches of the file's rows"];
      continue;
    }
    candidate.microBatches = count;
    addPipelines(candidate, limits.hasBatch ? rows / data : 1);
  }
}

void Enumerator::addPipelines(Candidate candidate, int64_t rowsOfDevice) {
  if (candidate.mesh.pipeline == 1) {
    addSchedules(candidate, rowsOfDevice);
    return;
  }
  std::vector<PipelineSchedule> schedules = {PipelineSchedule::OneFOneB,
                                             PipelineSchedule::Interleaved,
                                             PipelineSchedule::ZBH1};
  if (pins.schedule)
    schedules = {*pins.schedule};
  for (PipelineSchedule schedule : schedules) {
    candidate.mesh.schedule = schedule;
    int64_t stages = candidate.getNumStages();
    if (request.program.getMostStages() < stages ||
        (stages > candidate.mesh.pipeline &&
         candidate.microBatches % candidate.mesh.pipeline != 0))
      continue;
    addSchedules(candidate, rowsOfDevice);
  }
}

void Enumerator::addSchedules(Candidate candidate, int64_t rowsOfDevice) {
  if (limits.hasBatch && pins.subBatches && *pins.subBatches > rowsOfDevice) {
    ++leftOut["a device has fewer rows of a micro-batch than the pinned number "
              "of sub-batches"];
    return;
  }
  // One device has nothing to hide.
  bool isAlone = request.devices == 1;
  candidate.overlap =
      pins.overlap.value_or(isAlone ? Overlap::None : Overlap::Auto);
  bool isOrdered = getNamedSchedule(candidate.overlap).order.has_value();
  if (candidate.overlap == Overlap::Auto && candidate.mesh.pipeline == 1 &&
      limits.hasBackward && !(pins.subBatches && pins.recompute) &&
      request.program.layers.value_or(request.program.depth) <=
          kMostLayersOfOpen) {
    Candidate open = candidate;
    open.subBatches = pins.subBatches.value_or(1);
    open.recompute = pins.recompute.value_or(RecomputeMode::None);
    open.leavesSchedule = true;
    space.candidates.push_back(std::move(open));
  }
  llvm::SmallVector<int64_t> numbers = {1, 2, 4};
  if (pins.subBatches)
    numbers = {*pins.subBatches};
  for (int64_t parts : numbers) {
    if (!pins.subBatches && parts > 1 &&
        (!isOrdered || rowsOfDevice % parts != 0))
      continue;
    // More micro-batches split the rows, too. Parts of a batch also hide the
    // communication within a micro-batch, and two parts are enough for that.
    if (!pins.subBatches && parts > 1 && candidate.mesh.pipeline > 1 &&
        (parts > 2 || candidate.mesh.tensor.front() == 1))
      continue;
    candidate.subBatches = parts;
    for (RecomputeMode mode :
         {RecomputeMode::None, RecomputeMode::Communication,
          RecomputeMode::Layer, RecomputeMode::Optimal}) {
      if (!allows(pins.recompute, mode) ||
          (mode != RecomputeMode::None && !limits.hasBackward))
        continue;
      // `Optimal` keeps as much as the memory of a program of all layers
      // allows. The schedule `auto` does that for few layers, and nothing for
      // stages.
      if (mode == RecomputeMode::Optimal && !pins.recompute &&
          (candidate.mesh.pipeline > 1 || parts > 1 || !isDeep(request)))
        continue;
      // Without communication inside of layers, both keep the same.
      if (mode == RecomputeMode::Communication && !pins.recompute &&
          candidate.mesh.tensor.front() == 1 && candidate.mesh.context == 1)
        continue;
      candidate.recompute = mode;
      candidate.recomputeBytes =
          mode == RecomputeMode::Optimal && request.stated
              ? request.stated->recomputeBytes.value_or(0)
              : 0;
      space.candidates.push_back(candidate);
    }
  }
}

SearchSpace heddle::enumerateCandidates(const PlanRequest &request,
                                        const SplitLimits &limits) {
  return Enumerator(request, limits).run();
}
