//===- ScheduleNames.cpp - The known schedules' names and stages ----------===//

#include "heddle/Stages/StageSchedule.h"

using namespace heddle;

static constexpr std::pair<PipelineSchedule, llvm::StringLiteral> kNames[] = {
    {PipelineSchedule::GPipe, "gpipe"},
    {PipelineSchedule::OneFOneB, "1f1b"},
    {PipelineSchedule::Interleaved, "interleaved"},
    {PipelineSchedule::ZBH1, "zb-h1"},
    {PipelineSchedule::ZBH2, "zb-h2"},
    {PipelineSchedule::ZBV, "zb-v"}};
static_assert(std::size(kNames) == getMaxEnumValForPipelineSchedule() + 1);

llvm::StringRef heddle::getScheduleName(PipelineSchedule schedule) {
  return kNames[static_cast<unsigned>(schedule)].second;
}

std::optional<PipelineSchedule>
heddle::parseScheduleName(llvm::StringRef name) {
  for (auto [schedule, known] : kNames)
    if (known == name)
      return schedule;
  return std::nullopt;
}

std::string heddle::listScheduleNames() {
  std::string names;
  for (auto [schedule, name] : kNames)
    names += (names.empty() ? "" : ", ") + name.str();
  return names;
}

bool heddle::splitsBackward(PipelineSchedule schedule) {
  return schedule >= PipelineSchedule::ZBH1;
}

int64_t heddle::getNumChunks(PipelineSchedule schedule, int64_t stated) {
  return stated > 0 ? stated : hasChunks(schedule) ? 2 : 1;
}

bool heddle::hasChunks(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::Interleaved ||
         schedule == PipelineSchedule::ZBV;
}

int64_t heddle::getDeviceOfStage(PipelineSchedule schedule, int64_t devices,
                                 int64_t stage) {
  int64_t place = stage % devices;
  bool isBack = schedule == PipelineSchedule::ZBV && stage / devices % 2 == 1;
  return isBack ? devices - 1 - place : place;
}
