//===- Plan.cpp - heddle plan ---------------------------------------------===//

#include "../common/CheckOutput.h"
#include "../common/Run.h"
#include "Commands.h"
#include "plan/PlanFront.h"
#include "plan/PlanReport.h"
#include "plan/UsePlan.h"

#include "heddle_rt/atomic_file.h"

#include <filesystem>

using namespace heddle;
using namespace heddle::tools;

namespace {
struct PlanCommandFlags {
  CompileFlags compile;
  PlannerFlags planner;
  FrontFlags front;
  std::string output;
  bool json = false;
};
} // namespace

/// Returns the file, beside the plan's, of the cluster that a plan assumes if
/// it is not the given one.
static std::string getAssumedCluster(const std::string &plan) {
  std::filesystem::path file(plan);
  return file.replace_extension(".cluster.json").string();
}

/// If the plan assumes another order of the kinds of device or another memory
/// (--memory) than the given cluster has, writes a cluster of that order and
/// memory beside the plan's file and chooses it in the flags. The scheduler
/// uses all of the memory that a cluster states. Returns an error text, or an
/// empty text.
static std::string useAssumedCluster(const PlanSearch &search,
                                     const PlanCommandFlags &flags,
                                     ClusterChoice &choice) {
  llvm::Expected<const Cluster &> given = choice.load();
  if (!given)
    return llvm::toString(given.takeError());
  const std::vector<int64_t> &kinds = search.report.winner.kinds;
  // The request's cluster lacks devices that are not used.
  Cluster limited = *given;
  limitMemory(flags.planner, limited);
  std::string assumed = writeCluster(orderKinds(limited, kinds));
  if (assumed == writeCluster(*given))
    return "";
  std::string path = "CLUSTER";
  if (!flags.output.empty()) {
    path = getAssumedCluster(flags.output);
    runtime::Status status = runtime::writeFileAtomically(path, assumed);
    if (!status.ok())
      return std::string(status.message());
  }
  choice = ClusterChoice(path);
  return "";
}

/// Returns an error text if the cluster that useAssumedCluster() may write
/// would replace the given one.
static std::string checkAssumedCluster(const PlanCommandFlags &flags) {
  const ClusterChoice &choice = flags.compile.options.cluster;
  llvm::Expected<const Cluster &> cluster = choice.load();
  if (!cluster) {
    llvm::consumeError(cluster.takeError()); // the search reports it
    return "";
  }
  std::error_code ignored;
  std::string path = getAssumedCluster(flags.output);
  if (flags.output.empty() ||
      (cluster->groups.size() < 2 && flags.planner.memory.empty()) ||
      !std::filesystem::equivalent(path, choice.getName().str(), ignored))
    return "";
  return "-o: the cluster that the plan assumes would be written to '" + path +
         "', which is the given cluster; give the plan another name";
}

static int runPlan(PlanCommandFlags &flags) {
  if (flags.front.isAsked)
    return runPlanFront(flags.compile, flags.planner, flags.front, flags.output,
                        flags.json);
  if (!flags.output.empty())
    if (std::string problem = checkOutput("-o", flags.output); !problem.empty())
      return reportError(problem);
  if (std::string problem = checkAssumedCluster(flags); !problem.empty())
    return reportError(problem);
  flags.planner.ordersKinds = true;
  PlanSearch search;
  if (int code = planModel(flags.compile, flags.planner, search,
                           /*choosesBatch=*/true);
      code != exitSuccess)
    return code;
  const PlanReport &report = search.report;
  std::string command;
  CompileFlags compiled = flags.compile;
  if (report.plan) {
    if (std::string problem =
            useAssumedCluster(search, flags, compiled.options.cluster);
        !problem.empty())
      return reportError(problem);
    command = getCompileCommand(compiled, search, flags.output);
  }
  if (flags.json)
    writePlanReport(search, command);
  else
    printPlanReport(search, command);
  if (report.plan && !flags.json) {
    llvm::StringRef given = flags.compile.options.cluster.getName();
    llvm::StringRef assumed = compiled.options.cluster.getName();
    if (assumed != given && !flags.planner.memory.empty())
      llvm::outs() << assumed << " is the cluster " << given
                   << " with the memory of --memory: a program may use all of "
                      "the memory that its cluster states\n";
    if (flags.output.empty())
      llvm::outs() << "the plan is not kept: -o FILE writes it"
                   << (assumed != given ? ", and the cluster" : "") << "\n";
  }
  llvm::outs().flush();
  if (!report.plan)
    return report.isInterrupted ? exitInterrupted : exitFailure;
  if (!flags.output.empty()) {
    runtime::Status status =
        runtime::writeFileAtomically(flags.output, writePlan(*report.plan));
    if (!status.ok())
      return reportError(status.message());
  }
  return report.isInterrupted ? exitInterrupted : exitSuccess;
}

void tools::addPlanCommand(CLI::App &app, int &result) {
  CLI::App *command = addCommand(
      app, "plan",
      "Choose the plan with which a training step takes the least time "
      "on a cluster",
      getPinHint);
  auto flags = std::make_shared<PlanCommandFlags>();
  addModelFlags(*command, flags->compile.model);
  command->get_option("--batch")->description(
      "Rows of a step, of all devices and micro-batches together (default: the "
      "number from which on more raise the rows of a second by less than 2 %; "
      "for --front one for each device; for an .mlir file, those that it has)");
  addTrainingFlags(*command, flags->compile);
  command->get_option("--micro-batches")
      ->description("Micro-batches of a step, as --pin micro-batches=N "
                    "(default: the planner chooses)")
      ->default_str("");
  addVerificationFlag(*command, flags->compile);
  flags->compile.trainingOptions.push_back(
      command->add_flag("--bf16", flags->compile.options.training.bf16,
                        "Compute in bf16 with f32 master weights"));
  command
      ->add_option("--cluster", flags->compile.options.cluster,
                   "The cluster to plan for: a JSON file, or one of " +
                       listPresets())
      ->check(notEmpty("a cluster's file or preset"))
      ->required();
  command
      ->add_option("--devices", flags->compile.devices,
                   "Number of devices (default: those of the cluster)")
      ->check(positive());
  addPlannerFlags(*command, flags->planner);
  command
      ->add_option("-o,--output", flags->output,
                   "The file to write the plan to; with --front, the folder "
                   "of the plans")
      ->check(notEmpty("a file"));
  CLI::Option *front = command->add_flag(
      "--front", flags->front.isAsked,
      "Find the plans of which none is better in all: time, memory and number "
      "of devices");
  // A profile of blocks was measured on one mesh.
  front->excludes("--profile");
  command
      ->add_option("--html", flags->front.page,
                   "Also write a page for a browser: time against memory")
      ->check(notEmpty("a file"))
      ->needs(front);
  command->add_flag("--json", flags->json,
                    "Print one JSON object instead of text");
  command->callback([flags, &result] { result = runPlan(*flags); });
}
