//===- Explain.cpp - heddle explain ---------------------------------------===//

#include "../common/CommandLine.h"
#include "Commands.h"
#include "plan/ExplainPlan.h"

#include "heddle/Stages/StageSchedule.h"

#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

using namespace heddle;
using namespace heddle::tools;

namespace {
struct ExplainCommandFlags {
  // Flags of a plan.
  CompileFlags compile;
  std::string plan;
  std::vector<std::string> diff;
  std::string page;
  bool json = false;
  // Flags of a schedule without a model.
  std::string schedule;
  int64_t devices = 4, chunks = 0, mostInFlight = 0;
  int64_t microBatches = 0; ///< 0: those of a table, or 8
  std::vector<double> times = {1, 1, 1};
  /// A flag that was given but only applies to a schedule by name.
  std::string flagOfNames;
};
} // namespace

/// Makes the schedule with a name, or reads the schedule from a file.
static llvm::Expected<StageSchedule>
getSchedule(const ExplainCommandFlags &flags) {
  std::optional<PipelineSchedule> known = parseScheduleName(flags.schedule);
  if (!known) {
    auto text = llvm::MemoryBuffer::getFile(flags.schedule, /*IsText=*/true);
    if (!text)
      return llvm::createStringError(
          "'" + flags.schedule + "' is none of the schedules (" +
          listScheduleNames() + "), and no file: " + text.getError().message());
    if (!flags.flagOfNames.empty())
      return llvm::createStringError(
          flags.flagOfNames + " is for a schedule by name (" +
          listScheduleNames() + "), got the table '" + flags.schedule +
          "', which states its devices and stages itself");
    return parseSchedule((*text)->getBuffer(), flags.schedule,
                         flags.microBatches, flags.mostInFlight);
  }
  ScheduleProblem problem;
  problem.schedule = *known;
  problem.devices = flags.devices;
  int64_t chunks = getNumChunks(*known, flags.chunks);
  problem.stages = flags.devices * chunks;
  problem.microBatches = flags.microBatches > 0 ? flags.microBatches : 8;
  problem.mostInFlight = flags.mostInFlight;
  auto part = double(chunks);
  problem.times.assign(
      problem.stages,
      {flags.times[0] / part, flags.times[1] / part, flags.times[2] / part});
  return makeSchedule(problem);
}

static int drawSchedule(const ExplainCommandFlags &flags) {
  llvm::Expected<StageSchedule> schedule = getSchedule(flags);
  if (!schedule)
    return reportError(llvm::toString(schedule.takeError()));
  printSchedule(*schedule, llvm::outs());
  return exitSuccess;
}

static int runExplainCommand(ExplainCommandFlags &flags) {
  if (!flags.schedule.empty()) {
    if (!flags.plan.empty())
      return reportUsage("--schedule draws a schedule without a PLAN, got '" +
                         flags.plan + "'");
    return drawSchedule(flags);
  }
  if (flags.compile.options.cluster.isNone())
    return reportUsage("expected a --cluster, on which the plan is explained "
                       "(or a --schedule to draw), got none");
  if (flags.diff.empty()) {
    if (flags.plan.empty())
      return reportUsage("expected a PLAN and a MODEL, --diff PLAN PLAN and a "
                         "MODEL, or a --schedule to draw");
    if (std::error_code ignored;
        std::filesystem::is_directory(flags.plan, ignored) ||
        llvm::StringRef(flags.plan).ends_with(".mlir"))
      return reportUsage("expected PLAN before MODEL, got '" + flags.plan +
                         "' as the plan");
    return explainPlanFile(flags.compile, flags.plan, flags.json, flags.page);
  }
  // With --diff, the only argument is the model.
  if (!flags.compile.model.path.empty())
    return reportUsage("--diff compares two plans for one MODEL, got '" +
                       flags.plan + "' and '" + flags.compile.model.path + "'");
  bool hasModel = !flags.plan.empty() || flags.compile.model.gpt.layers != 0;
  if (!hasModel)
    return reportUsage("--diff compares two plans for one MODEL, got '" +
                       flags.diff[0] + "', '" + flags.diff[1] +
                       "' and no MODEL");
  flags.compile.model.path = flags.plan;
  return diffPlanFiles(flags.compile, flags.diff[0], flags.diff[1], flags.json);
}

/// Adds the flags of the schedule to draw, which needs no model. Returns the
/// flag that names the schedule.
static CLI::Option *addScheduleFlags(CLI::App &app,
                                     ExplainCommandFlags &flags) {
  const char *group = "A schedule, drawn without a plan";
  CLI::Option *schedule =
      app.add_option("--schedule", flags.schedule,
                     "A schedule (" + listScheduleNames() +
                         "), or a JSON file with the tasks of each device, "
                         "which is verified")
          ->group(group);
  app.add_option("--devices", flags.devices, "Devices of the pipeline")
      ->check(between(1, 1024))
      ->capture_default_str()
      ->needs(schedule)
      ->group(group);
  app.add_option("--chunks", flags.chunks,
                 "Stages on each device (default: 2 for interleaved and "
                 "zb-v, otherwise 1)")
      ->check(positive())
      ->needs(schedule)
      ->group(group);
  app.add_option("--in-flight", flags.mostInFlight,
                 "The most micro-batches whose activations a device may "
                 "hold, each of them once for every stage that it has "
                 "(default: as the schedule is defined)")
      ->check(positive())
      ->needs(schedule)
      ->group(group);
  app.add_option("--times", flags.times,
                 "Times of a device's forward pass, backward pass for inputs "
                 "and backward pass for weights (1,1,1)")
      ->expected(3)
      ->delimiter(',')
      ->check(positive())
      ->needs(schedule)
      ->group(group);
  return schedule;
}

/// Returns the end of the error about options of other commands; see
/// OptionHint.
static std::string getPlanHint(const std::string &name,
                               const std::string &value) {
  if (name == "plan")
    return ", because the plan is an argument: heddle explain " +
           (value.empty() ? "PLAN" : value) + " MODEL";
  if (name == "mesh")
    return ", because it explains a plan: heddle compile MODEL --mesh writes "
           "the plan of a mesh as plan.json of its artifact";
  return "";
}

void tools::addExplainCommand(CLI::App &app, int &result) {
  CLI::App *command = addCommand(
      app, "explain",
      "Say what a plan chooses for each operator, what that takes, and what "
      "another choice would; compare two plans; or draw the order in which a "
      "pipeline's devices work",
      getPlanHint);
  auto flags = std::make_shared<ExplainCommandFlags>();
  CompileFlags &compile = flags->compile;
  command->add_option("PLAN", flags->plan, "The plan to explain (JSON)");
  addModelFlags(*command, compile.model);
  CLI::Option *diff =
      command
          ->add_option(
              "--diff", flags->diff,
              "Compare two plans, instead of a PLAN, operator by operator")
          ->expected(2)
          ->allow_extra_args(false) // the next argument is the model
          ->check(notEmpty("two plans' files"));
  addTrainingFlags(*command, compile);
  addVerificationFlag(*command, compile);
  // Removes the --schedule of the learning rate, which changes no plan. In this
  // command, --schedule names the schedule of a pipeline.
  CLI::Option *rate = command->get_option("--schedule");
  llvm::erase(compile.trainingOptions, rate);
  command->remove_option(rate);
  compile.trainingOptions.push_back(
      command->add_flag("--bf16", compile.options.training.bf16,
                        "Compute in bf16 with f32 master weights"));
  command
      ->add_option("--cluster", compile.options.cluster,
                   "The cluster to explain the plan on: a JSON file, or one "
                   "of " +
                       listPresets())
      ->check(notEmpty("a cluster's file or preset"));
  CLI::Option *json = command->add_flag(
      "--json", flags->json, "Print one JSON object instead of text");
  CLI::Option *page =
      command
          ->add_option(
              "--html", flags->page,
              "Also write a page for a browser: a table of the operators, "
              "coloured by how they are split")
          ->check(notEmpty("a file"))
          ->excludes(diff);
  CLI::Option *schedule = addScheduleFlags(*command, *flags);
  // Not PLAN: the value of an unknown option would be taken for one, and hide
  // the error that there is no such option.
  for (CLI::Option *other : {diff, json, page})
    schedule->excludes(other);
  CLI::Option *microBatches = command->get_option("--micro-batches");
  command->callback([command, flags, microBatches, &result] {
    for (const char *name : {"--devices", "--chunks", "--times"})
      if (command->count(name) > 0)
        flags->flagOfNames = name;
    if (microBatches->count() > 0)
      flags->microBatches = flags->compile.options.training.microBatches;
    result = runExplainCommand(*flags);
  });
}
