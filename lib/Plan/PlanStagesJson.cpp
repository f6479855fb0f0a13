//===- PlanStagesJson.cpp - The pipeline of a plan ------------------------===//

#include "PlanReader.h"
#include "heddle/Stages/StageSchedule.h"
#include "heddle/Support/JsonText.h"

using namespace heddle;
using llvm::Error;
using llvm::StringRef;
using json = PlanReader::Json;

Error PlanReader::readStages(const json &value, size_t from, Plan &plan) {
  if (value.is_number_unsigned() && value.get<uint64_t>() >= 1 &&
      value.get<uint64_t>() <= uint64_t(kMaxPlanDevices)) {
    plan.numStages = value.get<int64_t>();
    return Error::success();
  }
  if (!value.is_array() || value.empty())
    return error(from, "$.stages",
                 "expected a number of stages, or a list with the globs of "
                 "each, got " +
                     showJson(value));
  for (const json &element : value) {
    PlanStage &stage = plan.stages.emplace_back();
    std::vector<json> globs = {element};
    if (element.is_array())
      globs.assign(element.begin(), element.end());
    bool isGood = !globs.empty() && llvm::all_of(globs, [](const json &glob) {
      return glob.is_string() && !glob.get<std::string>().empty();
    });
    if (!isGood)
      return error(from, "$.stages",
                   "expected a glob of operators, or a list of globs, for each "
                   "stage, got " +
                       showJson(element));
    for (const json &glob : globs)
      stage.globs.push_back(glob.get<std::string>());
    stage.position = position(locate(stage.globs.front(), from));
  }
  plan.numStages = int64_t(plan.stages.size());
  return Error::success();
}

Error PlanReader::readScheduleName(const json &value, size_t from, Plan &plan) {
  std::optional<PipelineSchedule> schedule =
      value.is_string() ? parseScheduleName(value.get<std::string>())
                        : std::nullopt;
  if (!schedule)
    return error(from, "$.pipeline",
                 "expected one of " + listScheduleNames() +
                     ", or a table such as {\"devices\": [[\"F0.0\", ...], "
                     "...]}, got " +
                     showJson(value));
  plan.schedule = *schedule;
  plan.numStages =
      plan.getAxisSize(kPipelineAxis) * getNumChunks(plan.schedule, 0);
  return Error::success();
}

Error PlanReader::readScheduleTable(const json &value, size_t from,
                                    Plan &plan) {
  plan.scheduleTable = value.dump();
  llvm::Expected<StageSchedule> schedule =
      parseSchedule(plan.scheduleTable, "$.pipeline", 0);
  if (!schedule)
    return error(from, "", llvm::toString(schedule.takeError()));
  plan.numStages = schedule->getNumStages();
  return Error::success();
}

Error PlanReader::readPipeline(const json &root, Plan &plan) {
  int64_t devices = plan.getAxisSize(kPipelineAxis);
  if (root.contains("pipeline")) {
    const json &value = root["pipeline"];
    size_t at = locate("pipeline", 0);
    if (value.is_object()) {
      if (Error failure = readScheduleTable(value, at, plan))
        return failure;
    } else if (Error failure = readScheduleName(value, at, plan)) {
      return failure;
    }
  }
  if (root.contains("stages"))
    if (Error failure = readStages(root["stages"], locate("stages", 0), plan))
      return failure;
  if (root.contains("pipeline_barrier")) {
    const json &value = root["pipeline_barrier"];
    if (value != "step" && value != "none")
      return error(locate("pipeline_barrier", 0), "$.pipeline_barrier",
                   "expected \"step\" or \"none\", got " + showJson(value));
    // The planner's bounds and predictions are those of steps with a barrier.
    if (isPart && value == "none")
      return error(locate("pipeline_barrier", 0), "$.pipeline_barrier",
                   "expected \"step\" in a part of a plan, got \"none\"; the "
                   "planner knows only steps with a barrier: add the key to "
                   "the plan that it writes");
    if (value == "none")
      plan.pipelineBarrier = PipelineBarrier::None;
  }
  // The planner chooses the mesh of a part that names a schedule alone.
  bool isChosen = isPart && !root.contains("mesh") &&
                  !root.contains("stages") && plan.scheduleTable.empty();
  for (StringRef key : {"stages", "pipeline", "pipeline_barrier"})
    if (!isChosen && root.contains(key.str()) && devices == 0)
      return error(locate(key, 0), "$." + key.str(),
                   "expected a mesh with the axis \"pp\", over which the "
                   "stages of a pipeline lie");
  return Error::success();
}

static std::string writeStages(const Plan &plan) {
  if (plan.stages.empty())
    return std::to_string(plan.numStages);
  json list = json::array();
  for (const PlanStage &stage : plan.stages) {
    if (stage.globs.size() == 1)
      list.push_back(stage.globs.front());
    else
      list.push_back(stage.globs);
  }
  return list.dump();
}

std::string heddle::writePipeline(const Plan &plan) {
  if (plan.numStages == 0)
    return "";
  return ",\n  \"stages\": " + writeStages(plan) + ",\n  \"pipeline\": " +
         (plan.scheduleTable.empty()
              ? json(getScheduleName(plan.schedule).str()).dump()
              : plan.scheduleTable) +
         (plan.pipelineBarrier == PipelineBarrier::None
              ? ",\n  \"pipeline_barrier\": \"none\""
              : "");
}
