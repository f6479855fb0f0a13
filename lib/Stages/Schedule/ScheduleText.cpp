//===- ScheduleText.cpp - Schedules of pipelines as text ------------------===//

#include "heddle/Stages/StageSchedule.h"
#include "heddle/Support/LlvmJson.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

using namespace heddle;
namespace json = llvm::json;

/// Reads "F2.13". Refuses negative numbers and the largest number of the type,
/// so that a count (the largest number + 1) fits in the same type.
static std::optional<StageTask> parseTask(llvm::StringRef text) {
  StageTask task;
  if (text.consume_front("B"))
    task.work = StageWork::Backward;
  else if (text.consume_front("W"))
    task.work = StageWork::BackwardWeights;
  else if (!text.consume_front("F"))
    return std::nullopt;
  auto [stage, number] = text.split('.');
  if (stage.getAsInteger(10, task.stage) ||
      number.getAsInteger(10, task.microBatch) || task.stage < 0 ||
      task.microBatch < 0 ||
      std::max(task.stage, task.microBatch) ==
          std::numeric_limits<int64_t>::max())
    return std::nullopt;
  return task;
}

static std::string toText(const json::Value &value) {
  std::string text;
  llvm::raw_string_ostream(text) << value;
  return text;
}

llvm::Expected<StageSchedule> heddle::parseSchedule(llvm::StringRef text,
                                                    llvm::StringRef source,
                                                    int64_t microBatches,
                                                    int64_t mostInFlight) {
  auto error = [&](const llvm::Twine &what) {
    return llvm::createStringError(source + ": " + what);
  };
  llvm::Expected<json::Value> root = parseLlvmJson(text);
  if (!root)
    return error("expected JSON: " + llvm::toString(root.takeError()));
  const json::Object *object = root->getAsObject();
  const json::Array *devices = object ? object->getArray("devices") : nullptr;
  if (!devices || devices->empty())
    return error("expected {\"devices\": [[\"F0.0\", ...], ...]}, a list of "
                 "tasks for each device");
  for (const auto &[key, value] : *object)
    if (llvm::StringRef name = key; name != "devices")
      return error("$: unknown key \"" + name + "\": expected devices alone");
  StageSchedule schedule;
  schedule.microBatches = std::max<int64_t>(microBatches, 1);
  // By stage and device: the number of tasks.
  std::map<int64_t, std::map<int64_t, int64_t>> counts;
  for (auto [device, value] : llvm::enumerate(*devices)) {
    const json::Array *list = value.getAsArray();
    if (!list)
      return error("$.devices[" + llvm::Twine(device) +
                   "]: expected a list of tasks, got " + toText(value));
    if (list->empty())
      return error("$.devices[" + llvm::Twine(device) +
                   "]: expected at least one task, got none");
    std::vector<StageTask> &tasks = schedule.devices.emplace_back();
    for (auto [entry, name] : llvm::enumerate(*list)) {
      std::optional<llvm::StringRef> label = name.getAsString();
      std::optional<StageTask> task;
      if (label)
        task = parseTask(*label);
      if (!task)
        return error("$.devices[" + llvm::Twine(device) + "][" +
                     llvm::Twine(entry) +
                     "]: expected a task such as \"F0.3\", \"B0.3\" or "
                     "\"W0.3\" (stage and micro-batch), got " +
                     toText(name));
      if (microBatches == 0)
        schedule.microBatches =
            std::max(schedule.microBatches, task->microBatch + 1);
      schedule.splitsBackward |= task->work == StageWork::BackwardWeights;
      ++counts[task->stage][int64_t(device)];
      tasks.push_back(*task);
    }
  }
  // A stage is on the device that has most of its tasks, so that an error names
  // the tasks that are elsewhere.
  for (const auto &[stage, own] : counts) {
    if (stage != schedule.getNumStages())
      return error("expected tasks of stage " +
                   llvm::Twine(schedule.getNumStages()) + ", got none");
    auto owner = llvm::max_element(own, llvm::less_second());
    schedule.deviceOf.push_back(owner->first);
  }
  double part =
      double(schedule.devices.size()) / double(schedule.deviceOf.size());
  schedule.times.assign(schedule.deviceOf.size(), {part, part, part});
  if (llvm::Error problem = verifySchedule(schedule, mostInFlight))
    return error(llvm::toString(std::move(problem)));
  return schedule;
}

std::string heddle::writeSchedule(const StageSchedule &schedule) {
  json::Array devices;
  for (const std::vector<StageTask> &tasks : schedule.devices) {
    json::Array list;
    for (const StageTask &task : tasks)
      list.push_back(task.getName());
    devices.push_back(std::move(list));
  }
  return toText(json::Object{{"devices", std::move(devices)}});
}

llvm::Expected<StageSchedule> heddle::getSchedule(PipelineAttr pipeline,
                                                  llvm::StringRef table,
                                                  int64_t devices,
                                                  int64_t microBatches) {
  if (table.empty()) {
    ScheduleProblem problem;
    problem.schedule = pipeline.getSchedule();
    problem.devices = devices;
    problem.stages = pipeline.getStages();
    problem.microBatches = std::max<int64_t>(microBatches, 1);
    return makeSchedule(problem);
  }
  llvm::Expected<StageSchedule> schedule =
      parseSchedule(table, "pipeline", microBatches);
  if (schedule && int64_t(schedule->devices.size()) != devices)
    return llvm::createStringError(
        "pipeline: expected a list of tasks for each of " +
        llvm::Twine(devices) + " devices, got " +
        llvm::Twine(schedule->devices.size()));
  if (schedule && schedule->getNumStages() != pipeline.getStages())
    return llvm::createStringError(
        "pipeline: expected tasks of " + llvm::Twine(pipeline.getStages()) +
        " stages, got " + llvm::Twine(schedule->getNumStages()));
  return schedule;
}

/// Draws the tasks of a device. A task takes `width` characters for each
/// `unit` of time.
static std::string draw(llvm::ArrayRef<StageTask> list, double unit,
                        size_t width, bool hasChunks) {
  std::string line;
  for (const StageTask &task : list) {
    line.resize(size_t(std::lround(task.begin / unit)) * width, ' ');
    std::string name = task.getName();
    if (!hasChunks) // the device tells the stage
      name = name.substr(0, 1) + name.substr(name.find('.') + 1);
    line += name;
    line.resize(
        std::max(line.size(), size_t(std::lround(task.end / unit)) * width),
        task.work == StageWork::Forward ? '-' : '=');
  }
  return line;
}

void heddle::printSchedule(const StageSchedule &schedule,
                           llvm::raw_ostream &out) {
  double unit = 0;
  size_t longest = 1;
  bool hasChunks = schedule.deviceOf.size() > schedule.devices.size();
  for (const auto &list : schedule.devices)
    for (const StageTask &task : list) {
      double time = task.end - task.begin;
      if (time > 0)
        unit = unit > 0 ? std::min(unit, time) : time;
      size_t label = task.getName().size();
      if (!hasChunks)
        label -= std::to_string(task.stage).size() + 1;
      longest = std::max(longest, label);
    }
  double work = 0;
  for (auto [device, list] : llvm::enumerate(schedule.devices)) {
    out << "device " << device << ": ";
    if (unit > 0)
      out << draw(list, unit, longest + 1, hasChunks);
    out << '\n';
    double own = 0;
    for (const StageTask &task : list)
      own += task.end - task.begin;
    work = std::max(work, own);
  }
  double makespan = schedule.getMakespan();
  out << llvm::format("time %g, of which the busiest device works %g; idle "
                      "%.1f %%; period without a barrier %g\n",
                      makespan, work,
                      makespan > 0 ? 100 * (1 - work / makespan) : 0.0,
                      schedule.getSpan());
  out << "most in flight by device:";
  for (size_t device = 0; device < schedule.devices.size(); ++device)
    out << ' ' << schedule.getInFlight(int64_t(device));
  if (schedule.splitsBackward) {
    out << "; weights pending:";
    for (size_t device = 0; device < schedule.devices.size(); ++device)
      out << ' ' << schedule.getPendingWeights(int64_t(device));
  }
  out << '\n';
}
