//===- Explain.cpp - heddle explain ---------------------------------------===//

#include "../common/CommandLine.h"
#include "Commands.h"

#include "heddle/Stages/StageSchedule.h"

#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <memory>
#include <string>
#include <vector>

using namespace heddle;
using namespace heddle::tools;

namespace {
struct Flags {
  std::string schedule;
  int64_t devices = 4, chunks = 0, microBatches = 8, mostInFlight = 0;
  std::vector<double> times = {1, 1, 1};
};
} // namespace

/// Makes the schedule of a name, or reads it from a file.
static llvm::Expected<StageSchedule> getSchedule(const Flags &flags) {
  std::optional<PipelineSchedule> known = parseScheduleName(flags.schedule);
  if (!known) {
    auto text = llvm::MemoryBuffer::getFile(flags.schedule, /*IsText=*/true);
    if (!text)
      return llvm::createStringError(
          "'" + flags.schedule + "' is none of the schedules (" +
          listScheduleNames() + "), and no file: " + text.getError().message());
    return parseSchedule((*text)->getBuffer(), flags.schedule,
                         flags.microBatches, flags.mostInFlight);
  }
  ScheduleProblem problem;
  problem.schedule = *known;
  problem.devices = flags.devices;
  int64_t chunks = flags.chunks > 0 ? flags.chunks : hasChunks(*known) ? 2 : 1;
  problem.stages = flags.devices * chunks;
  problem.microBatches = flags.microBatches;
  problem.mostInFlight = flags.mostInFlight;
  auto part = double(chunks);
  problem.times.assign(
      problem.stages,
      {flags.times[0] / part, flags.times[1] / part, flags.times[2] / part});
  return makeSchedule(problem);
}

static int runCommand(const Flags &flags) {
  llvm::Expected<StageSchedule> schedule = getSchedule(flags);
  if (!schedule)
    return reportError(llvm::toString(schedule.takeError()));
  printSchedule(*schedule, llvm::outs());
  return exitSuccess;
}

void tools::addExplainCommand(CLI::App &app, int &result) {
  CLI::App *command = app.add_subcommand(
      "explain", "Draw the order in which a pipeline's devices work");
  auto flags = std::make_shared<Flags>();
  command
      ->add_option("--schedule", flags->schedule,
                   "A schedule (" + listScheduleNames() +
                       "), or a JSON file with the tasks of each device, which "
                       "is verified")
      ->required();
  command->add_option("--devices", flags->devices, "Devices of the pipeline")
      ->check(between(1, 1024))
      ->capture_default_str();
  command
      ->add_option("--chunks", flags->chunks,
                   "Stages on each device (default: 2 for interleaved and "
                   "zb-v, otherwise 1)")
      ->check(positive());
  command
      ->add_option("--micro-batches", flags->microBatches,
                   "Micro-batches of a step")
      ->check(between(1, 1 << 16))
      ->capture_default_str();
  command
      ->add_option("--in-flight", flags->mostInFlight,
                   "The most micro-batches whose activations a device may "
                   "hold, each of them once for every stage that it has "
                   "(default: as the schedule is defined)")
      ->check(positive());
  command
      ->add_option("--times", flags->times,
                   "Times of a device's forward pass, backward pass for inputs "
                   "and backward pass for weights (1,1,1)")
      ->expected(3)
      ->delimiter(',')
      ->check(positive());
  command->callback([flags, &result] { result = runCommand(*flags); });
}
