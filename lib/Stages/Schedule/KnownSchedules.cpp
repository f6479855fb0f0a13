//===- KnownSchedules.cpp - The known schedules of pipelines --------------===//

#include "heddle/Stages/StageSchedule.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <deque>
#include <limits>
#include <queue>
#include <tuple>

using namespace heddle;

//===----------------------------------------------------------------------===//
// Lists by a greedy rule
//===----------------------------------------------------------------------===//

namespace {

/// A rule by which a device that is free chooses its next task.
struct Rule {
  std::vector<int64_t> mostInFlight; ///< by device
  /// The first of a device's stages begins a micro-batch only if fewer than
  /// this number are in flight. The rest of the room is for the device's later
  /// stages.
  int64_t mostAtFirst = std::numeric_limits<int64_t>::max();
  /// If this number of passes for weights are pending, one of them goes first.
  /// Otherwise these passes only fill gaps.
  int64_t mostPending = 1;
  /// For devices with two stages each. A micro-batch begins only if the device
  /// will have room for its forward passes through both stages. Once a device
  /// has run a backward pass, it prefers forward passes to backward passes, and
  /// its earlier stage to its later one. So late micro-batches reach the last
  /// stage early.
  bool reservesRoom = false;
};

/// Plays a pipeline forward in time. A free device takes, in this order: a pass
/// for weights if too many are pending; a backward pass, of the lowest
/// micro-batch; a forward pass, of the last stage that has one, unless too many
/// are in flight; a pass for weights. A rule that reserves room changes this.
class Greedy {
public:
  Greedy(const StageSchedule &empty, const Rule &rule)
      : schedule(empty), rule(rule), numStages(empty.getNumStages()),
        forward(numStages), backward(numStages), inFlight(empty.devices.size()),
        hasRunBackward(empty.devices.size()), pending(empty.devices.size()),
        stagesOf(empty.devices.size()), mayChoose(empty.devices.size(), true) {
    for (int64_t stage = numStages - 1; stage >= 0; --stage)
      stagesOf[empty.deviceOf[stage]].push_back(stage);
  }

  /// Returns the schedule. It lacks tasks if the rule comes to a halt.
  StageSchedule run();

private:
  bool choose(int64_t device);
  void addForward(int64_t stage, int64_t device);
  void addBackward(int64_t stage, int64_t device);
  void addWeights(int64_t device);
  void add(StageWork work, int64_t stage, int64_t number, int64_t device,
           double time);
  bool hasRoom(int64_t stage, int64_t device) const;
  /// Lets the devices choose again that a task of the stage may have held up:
  /// its own device, and those of the neighbouring stages.
  void wake(int64_t stage);
  static bool isDone(const std::vector<double> &ends, int64_t number,
                     double now) {
    return number < int64_t(ends.size()) && ends[number] <= now;
  }

  StageSchedule schedule;
  const Rule &rule;
  int64_t numStages;
  double now = 0;
  std::vector<std::vector<double>> forward, backward; ///< ends, by stage
  std::vector<int64_t> inFlight;
  std::vector<bool> hasRunBackward; ///< by device
  std::vector<std::deque<std::pair<int64_t, int64_t>>> pending;
  std::vector<double> freeAt;
  std::vector<std::vector<int64_t>> stagesOf; ///< by device, the last one first
  /// By device: whether something has changed since it last found no task.
  std::vector<bool> mayChoose;
  /// The times at which devices become free, and the stages of their last
  /// tasks.
  using End = std::pair<double, int64_t>;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
};

} // namespace

void Greedy::add(StageWork work, int64_t stage, int64_t number, int64_t device,
                 double time) {
  double begin = std::max(now, freeAt[device]);
  freeAt[device] = begin + time;
  schedule.devices[device].push_back(
      {work, stage, number, begin, begin + time});
}

void Greedy::addForward(int64_t stage, int64_t device) {
  auto number = int64_t(forward[stage].size());
  add(StageWork::Forward, stage, number, device, schedule.times[stage].forward);
  forward[stage].push_back(freeAt[device]);
  ++inFlight[device];
  if (stage == numStages - 1)
    addBackward(stage, device);
}

void Greedy::addBackward(int64_t stage, int64_t device) {
  auto number = int64_t(backward[stage].size());
  const StageTimes &times = schedule.times[stage];
  add(StageWork::Backward, stage, number, device,
      times.backward + (schedule.splitsBackward ? 0 : times.weights));
  backward[stage].push_back(freeAt[device]);
  --inFlight[device];
  hasRunBackward[device] = true;
  if (schedule.splitsBackward)
    pending[device].push_back({stage, number});
}

void Greedy::addWeights(int64_t device) {
  auto [stage, number] = pending[device].front();
  pending[device].pop_front();
  add(StageWork::BackwardWeights, stage, number, device,
      schedule.times[stage].weights);
}

/// Returns whether the device may run one more forward pass of its stage.
bool Greedy::hasRoom(int64_t stage, int64_t device) const {
  int64_t most = rule.mostInFlight[device];
  bool isFirst = stage < int64_t(schedule.devices.size());
  if (!rule.reservesRoom || !isFirst)
    return inFlight[device] < most &&
           (!isFirst || inFlight[device] < rule.mostAtFirst);
  int64_t reserved = inFlight[device];
  for (int64_t other : stagesOf[device])
    if (other > stage)
      reserved +=
          int64_t(forward[stage].size()) - int64_t(forward[other].size()) + 1;
  return reserved < most;
}

bool Greedy::choose(int64_t device) {
  if (int64_t(pending[device].size()) >= rule.mostPending) {
    addWeights(device);
    return true;
  }
  std::optional<std::pair<int64_t, int64_t>> back; // micro-batch, stage
  std::optional<int64_t> ahead;
  bool isForwardFirst = rule.reservesRoom && hasRunBackward[device];
  for (int64_t stage : stagesOf[device]) {
    auto number = int64_t(backward[stage].size());
    if (stage + 1 < numStages && isDone(forward[stage], number, now) &&
        isDone(backward[stage + 1], number, now) &&
        (!back || number < back->first))
      back = {number, stage};
    number = int64_t(forward[stage].size());
    if ((!ahead || isForwardFirst) && number < schedule.microBatches &&
        (stage == 0 || isDone(forward[stage - 1], number, now)) &&
        (!rule.reservesRoom || hasRoom(stage, device)))
      ahead = stage;
  }
  if (ahead && !rule.reservesRoom && !hasRoom(*ahead, device))
    ahead.reset();
  if (ahead && (isForwardFirst || !back))
    addForward(*ahead, device);
  else if (back)
    addBackward(back->second, device);
  else if (!pending[device].empty())
    addWeights(device);
  else
    return false;
  return true;
}

void Greedy::wake(int64_t stage) {
  for (int64_t other = std::max<int64_t>(stage - 1, 0);
       other <= std::min(stage + 1, numStages - 1); ++other)
    mayChoose[schedule.deviceOf[other]] = true;
}

StageSchedule Greedy::run() {
  auto devices = int64_t(schedule.devices.size());
  freeAt.assign(devices, 0);
  // At each time, devices choose in the order of their numbers. A device that
  // found no task finds none until a task of its own or of a neighbouring stage
  // ends.
  for (bool isBegin = true; isBegin || !ends.empty(); isBegin = false) {
    now = isBegin ? 0 : ends.top().first;
    for (; !ends.empty() && ends.top().first <= now; ends.pop())
      wake(ends.top().second);
    for (int64_t device = 0; device < devices; ++device) {
      if (!mayChoose[device] || freeAt[device] > now)
        continue;
      mayChoose[device] = choose(device);
      if (!mayChoose[device])
        continue;
      ends.push({freeAt[device], schedule.devices[device].back().stage});
      // Devices with larger numbers see a task that takes no time at once.
      if (freeAt[device] <= now)
        wake(schedule.devices[device].back().stage);
    }
  }
  return std::move(schedule);
}

//===----------------------------------------------------------------------===//
// Lists by definition
//===----------------------------------------------------------------------===//

/// All forward passes, then all backward passes. The last stage runs both
/// passes of a micro-batch together.
static StageSchedule makeGPipe(StageSchedule schedule) {
  int64_t last = schedule.getNumStages() - 1;
  for (int64_t stage = 0; stage <= last; ++stage) {
    std::vector<StageTask> &list = schedule.devices[schedule.deviceOf[stage]];
    for (int64_t i = 0; i < schedule.microBatches; ++i) {
      list.push_back({StageWork::Forward, stage, i});
      if (stage == last)
        list.push_back({StageWork::Backward, stage, i});
    }
    for (int64_t i = 0; stage < last && i < schedule.microBatches; ++i)
      list.push_back({StageWork::Backward, stage, i});
  }
  return schedule;
}

/// Each device runs a group of micro-batches through one of its stages before
/// it runs the group through the next one. It first runs as many forward
/// passes as it can until its first backward pass can run, then alternates
/// forward and backward passes.
static StageSchedule makeInterleaved(StageSchedule schedule,
                                     llvm::ArrayRef<int64_t> groups) {
  auto devices = int64_t(schedule.devices.size());
  int64_t chunks = schedule.getNumStages() / devices;
  std::vector<std::pair<int64_t, int64_t>> order; // (chunk, micro-batch)
  int64_t first = 0;
  for (int64_t size : groups) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk)
      for (int64_t i = 0; i < size; ++i)
        order.push_back({chunk, first + i});
    first += size;
  }
  auto count = int64_t(order.size());
  int64_t largest = *llvm::max_element(groups);
  for (int64_t device = 0; device < devices; ++device) {
    std::vector<StageTask> &list = schedule.devices[device];
    // The last stage runs both passes of a micro-batch together.
    auto add = [&](StageWork work, int64_t chunk, int64_t number) {
      int64_t stage = chunk * devices + device;
      bool isLast = stage == schedule.getNumStages() - 1;
      if (isLast && work == StageWork::Backward)
        return;
      list.push_back({work, stage, number});
      if (isLast)
        list.push_back({StageWork::Backward, stage, number});
    };
    auto addForward = [&](int64_t i) {
      add(StageWork::Forward, order[i].first, order[i].second);
    };
    auto addBackward = [&](int64_t i) {
      add(StageWork::Backward, chunks - 1 - order[i].first, order[i].second);
    };
    int64_t warmUp =
        std::min((devices - 1 - device) * 2 + (chunks - 1) * largest, count);
    for (int64_t i = 0; i < warmUp; ++i)
      addForward(i);
    for (int64_t i = warmUp; i < count; ++i) {
      addForward(i);
      addBackward(i - warmUp);
    }
    for (int64_t i = count - warmUp; i < count; ++i)
      addBackward(i);
  }
  return schedule;
}

/// Returns ways to divide micro-batches into groups. A group has at least as
/// many micro-batches as there are devices, if there are so many. The rest
/// makes one group or several larger, at the end or at the beginning.
static std::vector<std::vector<int64_t>> divide(int64_t microBatches,
                                                int64_t devices) {
  int64_t count = std::max<int64_t>(microBatches / devices, 1);
  std::vector<int64_t> even, uneven(count, devices);
  for (int64_t i = 0; i < count; ++i)
    even.push_back(microBatches / count + (i < microBatches % count));
  uneven.back() = microBatches - devices * (count - 1);
  std::vector<std::vector<int64_t>> ways = {even, uneven};
  for (int i : {0, 1})
    ways.emplace_back(ways[i].rbegin(), ways[i].rend());
  return ways;
}

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

static llvm::Error checkProblem(const ScheduleProblem &p) {
  auto expect = [](const llvm::Twine &what, const llvm::Twine &got) {
    return llvm::createStringError("pipeline: expected " + what + ", got " +
                                   got);
  };
  if (p.devices < 1 || p.microBatches < 1)
    return expect("at least one device and one micro-batch",
                  llvm::Twine(p.devices) + " and " +
                      llvm::Twine(p.microBatches));
  int64_t chunks = p.devices > 0 ? p.stages / p.devices : 0;
  llvm::StringRef name = getScheduleName(p.schedule);
  if (p.stages % p.devices != 0 || chunks < 1)
    return expect("as many stages on each of " + llvm::Twine(p.devices) +
                      " devices",
                  llvm::Twine(p.stages) + " stages");
  if (!hasChunks(p.schedule) && chunks != 1)
    return expect("one stage on each device for " + name,
                  llvm::Twine(chunks) + "; interleaved and zb-v take several");
  if (p.schedule == PipelineSchedule::Interleaved && chunks == 1)
    return expect("several stages on each device for interleaved",
                  "one; with one, take 1f1b");
  if (p.schedule == PipelineSchedule::ZBV && chunks != 2)
    return expect("two stages on each device for zb-v", llvm::Twine(chunks));
  if (!p.times.empty() && int64_t(p.times.size()) != p.stages)
    return expect("the times of " + llvm::Twine(p.stages) + " stages",
                  "those of " + llvm::Twine(p.times.size()));
  return llvm::Error::success();
}

namespace {
/// Keeps the best of several schedules.
class Choice {
public:
  Choice(const ScheduleProblem &problem, const StageSchedule &empty)
      : mostInFlight(problem.mostInFlight), hasBarrier(problem.hasBarrier),
        bounds(getBounds(empty)) {}

  /// Returns whether no schedule can be better than the best one so far.
  bool isDone() const {
    constexpr double kSame = 1 + 1e-9;
    return best && std::get<0>(bestKey) <= std::get<0>(bounds) * kSame &&
           std::get<1>(bestKey) <= std::get<1>(bounds) * kSame;
  }

  /// Takes a schedule if it is legal and better than the ones before: with a
  /// barrier, if its makespan is shorter, or equal with a shorter span; without
  /// one, if its span is shorter, or equal with a shorter makespan.
  void consider(StageSchedule schedule) {
    if (llvm::Error problem = verifySchedule(schedule, mostInFlight)) {
      reason = llvm::toString(std::move(problem));
      return;
    }
    Key key = makeKey(schedule.getMakespan(), schedule.getSpan());
    if (!best || key < bestKey) {
      best = std::move(schedule);
      bestKey = key;
    }
  }

  llvm::Expected<StageSchedule> take(PipelineSchedule schedule) {
    if (best)
      return std::move(*best);
    return llvm::createStringError("pipeline: no " + getScheduleName(schedule) +
                                   " schedule: " + reason);
  }

private:
  using Key = std::tuple<double, double>; ///< makespan and span, by weight

  Key makeKey(double makespan, double span) const {
    return hasBarrier ? Key(makespan, span) : Key(span, makespan);
  }

  /// Returns lower bounds: a device cannot begin before its first stage has its
  /// input, and then does all the work of its stages.
  Key getBounds(const StageSchedule &empty) const {
    std::vector<double> begins(empty.devices.size(),
                               std::numeric_limits<double>::infinity());
    std::vector<double> work(empty.devices.size());
    double ahead = 0;
    for (auto [times, device] : llvm::zip(empty.times, empty.deviceOf)) {
      begins[device] = std::min(begins[device], ahead);
      ahead += times.forward;
      work[device] += double(empty.microBatches) *
                      (times.forward + times.backward + times.weights);
    }
    double makespan = 0, span = 0;
    for (auto [begin, own] : llvm::zip(begins, work)) {
      makespan = std::max(makespan, begin + own);
      span = std::max(span, own);
    }
    return makeKey(makespan, span);
  }

  int64_t mostInFlight;
  bool hasBarrier;
  Key bounds;
  std::optional<StageSchedule> best;
  Key bestKey;
  std::string reason;
};
} // namespace

/// Returns the most forward passes in flight on a device by the schedule's
/// definition.
static int64_t getMostInFlight(const ScheduleProblem &p, int64_t device) {
  int64_t chunks = p.stages / p.devices, most = p.devices - device;
  if (p.schedule == PipelineSchedule::ZBH2)
    most = 2 * most - 1;
  if (p.schedule == PipelineSchedule::ZBV)
    most = p.devices * chunks;
  return p.mostInFlight > 0 ? std::min(most, p.mostInFlight) : most;
}

/// Returns the limits on the number of waiting passes for weights that are
/// tried, ascending. These are all numbers up to `most`, or about eight of them
/// for many devices, because orders for many devices take long to find.
static std::vector<int64_t> getPendingLimits(int64_t devices, int64_t most) {
  constexpr int64_t kManyDevices = 16, kFewLimits = 8;
  int64_t step =
      devices <= kManyDevices ? 1 : std::max<int64_t>(most / kFewLimits, 1);
  std::vector<int64_t> limits = {1};
  for (int64_t limit = step; limit <= most; limit += step)
    if (limit > 1)
      limits.push_back(limit);
  return limits;
}

/// Considers the orders in which devices would choose their tasks if these took
/// the times of `empty`. `choice` compares the orders by `times`.
static void consider(const ScheduleProblem &problem, const StageSchedule &empty,
                     const std::vector<StageTimes> &times, Choice &choice) {
  auto add = [&](StageSchedule schedule) {
    schedule.times = times;
    choice.consider(std::move(schedule));
  };
  auto tryGreedy = [&](const Rule &rule) {
    if (!choice.isDone())
      add(Greedy(empty, rule).run());
  };
  Rule rule;
  for (int64_t device = 0; device < problem.devices; ++device)
    rule.mostInFlight.push_back(getMostInFlight(problem, device));
  switch (problem.schedule) {
  case PipelineSchedule::GPipe:
    add(makeGPipe(empty));
    break;
  case PipelineSchedule::OneFOneB:
    add(Greedy(empty, rule).run());
    break;
  case PipelineSchedule::Interleaved:
    for (const auto &groups : divide(problem.microBatches, problem.devices))
      add(makeInterleaved(empty, groups));
    break;
  case PipelineSchedule::ZBH1:
  case PipelineSchedule::ZBH2:
  case PipelineSchedule::ZBV: {
    int64_t most = problem.schedule == PipelineSchedule::ZBH1
                       ? problem.devices
                       : 2 * problem.devices;
    std::vector<int64_t> limits = getPendingLimits(problem.devices, most);
    if (problem.schedule == PipelineSchedule::ZBV) {
      // Limits of at least the number of devices come first, because one of
      // them is most likely the best.
      rule.reservesRoom = true;
      auto middle = llvm::lower_bound(limits, problem.devices);
      std::vector<int64_t> likeliest(middle, limits.end());
      likeliest.insert(likeliest.end(), limits.begin(), middle);
      for (int64_t limit : likeliest) {
        rule.mostPending = limit;
        tryGreedy(rule);
      }
      rule.reservesRoom = false;
    }
    for (int64_t limit : limits) {
      rule.mostPending = limit;
      tryGreedy(rule);
    }
    if (problem.schedule != PipelineSchedule::ZBV)
      break;
    // If passes take unequal times, the devices may fill up with micro-batches
    // that have passed only their first stages, so that none has room for the
    // later stages.
    int64_t room = rule.mostInFlight.front();
    for (int64_t first : {room - 1, room * 3 / 4, room / 2})
      for (int64_t pending : {problem.devices, 2 * problem.devices}) {
        rule.mostAtFirst = std::max<int64_t>(first, 1);
        rule.mostPending = pending;
        tryGreedy(rule);
      }
    break;
  }
  }
}

llvm::Expected<StageSchedule>
heddle::makeSchedule(const ScheduleProblem &problem) {
  if (llvm::Error error = checkProblem(problem))
    return std::move(error);
  StageSchedule empty;
  empty.splitsBackward = splitsBackward(problem.schedule);
  empty.microBatches = problem.microBatches;
  double part = double(problem.devices) / double(problem.stages);
  empty.times = problem.times;
  empty.times.resize(problem.stages, {part, part, part});
  for (int64_t stage = 0; stage < problem.stages; ++stage)
    empty.deviceOf.push_back(
        getDeviceOfStage(problem.schedule, problem.devices, stage));
  empty.devices.resize(problem.devices);

  Choice choice(problem, empty);
  std::vector<StageTimes> times = empty.times;
  consider(problem, empty, times, choice);
  // The order for equal times is good for unequal ones, too.
  if (!problem.times.empty()) {
    empty.times.assign(problem.stages, {part, part, part});
    consider(problem, empty, times, choice);
  }
  return choice.take(problem.schedule);
}
