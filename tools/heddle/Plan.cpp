//===- Plan.cpp - heddle plan ---------------------------------------------===//

#include "../common/CheckOutput.h"
#include "../common/Mebibytes.h"
#include "../common/Run.h"
#include "Commands.h"
#include "plan/PlanFront.h"
#include "plan/UsePlan.h"

#include "heddle/Simulate/Report.h"
#include "heddle/Support/Units.h"
#include "heddle_rt/atomic_file.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

#include <filesystem>
#include <map>

using namespace heddle;
using namespace heddle::tools;
namespace json = llvm::json;

namespace {
struct PlanCommandFlags {
  CompileFlags compile;
  PlannerFlags planner;
  FrontFlags front;
  std::string output;
  bool json = false;
};
} // namespace

/// The significant digits of times in the report.
static constexpr int kDigits = 6;

/// Returns two numbers of bytes as texts such as "10.5 MiB". Different numbers
/// get different texts.
static std::pair<std::string, std::string> showBytes(int64_t a, int64_t b) {
  auto show = [](int64_t bytes) {
    return llvm::formatv("{0:f1} MiB", inMiB(bytes)).str();
  };
  if (std::max(a, b) >= 1 << 20 && (a == b || show(a) != show(b)))
    return {show(a), show(b)};
  return {std::to_string(a) + " bytes", std::to_string(b) + " bytes"};
}

/// Returns a lower bound of the memory of any plan, as the end of a message
/// that no plan fits. Empty if the search already proved that the plan with the
/// least memory was found.
static std::string showMemoryBound(const PlanReport &report) {
  int64_t found = report.figures.getNeededMemory();
  if (report.memoryBound == 0 || report.memoryBound >= found)
    return "";
  return ", and no plan needs less than " +
         showBytes(found, report.memoryBound).second;
}

static void printBytes(const char *name, int64_t bytes) {
  if (bytes > 0)
    llvm::outs() << llvm::format("  %-21s %12.1f MiB\n", name, inMiB(bytes));
}

static void printMemory(const DeviceMemoryPlan &memory) {
  for (const MemoryPart &part : getMemoryParts(memory))
    printBytes(part.name.data(), part.bytes);
  printBytes("in all", memory.total());
}

/// Prints how many blocks of each kind have which strategy.
static void printBlocks(const std::vector<BlockChoice> &blocks) {
  std::map<std::string, std::map<std::string, int64_t>> counts;
  for (const BlockChoice &choice : blocks)
    ++counts[generalizeNames(choice.block)][choice.strategy];
  for (const auto &[kind, strategies] : counts) {
    llvm::outs() << kind << ":";
    const char *comma = " ";
    for (const auto &[strategy, count] : strategies) {
      llvm::outs() << comma << count << " x " << strategy;
      comma = ", ";
    }
    llvm::outs() << "\n";
  }
}

static void printBatches(const std::vector<BatchPoint> &batches) {
  llvm::outs() << "rows of a step    rows a second    by the best plan of few "
                  "layers\n";
  for (const BatchPoint &point : batches) {
    auto rows = static_cast<long long>(point.rows);
    if (point.seconds > 0)
      llvm::outs() << llvm::format("%14lld %16.6g    ", rows,
                                   point.getThroughput())
                   << point.candidate.getName() << "\n";
    else
      llvm::outs() << llvm::format("%14lld     ", rows) << point.why << "\n";
  }
}

/// Returns the kinds of device in the order of the plan's stages, if this order
/// differs from the cluster's.
static std::vector<std::string> getKinds(const PlanSearch &search) {
  std::vector<std::string> names;
  for (int64_t kind : search.report.winner.kinds)
    names.push_back(search.request.cluster.groups[kind].device.kind);
  return names;
}

/// Returns the line about the time of other plans. If the bound rests on
/// predictions, or is that of standard plans although a part of the plan is
/// stated, the line promises nothing.
static std::string showBound(const PlanSearch &search) {
  const PlanReport &report = search.report;
  std::string text;
  llvm::raw_string_ostream out(text);
  bool isProven = report.boundPredictions == 0 && !search.request.stated;
  out << (isProven ? "no other plan takes less than "
                   : "no other plan is expected to take less than ")
      << formatSeconds(report.bound, kDigits)
      << llvm::format(", gap %.1f %%", 100 * report.plan->prediction->gap);
  if (report.boundPredictions > 0)
    out << " (" << report.boundPredictions
        << (report.boundPredictions == 1 ? " candidate counts"
                                         : " candidates count")
        << " by programs of few layers)";
  out << "\n";
  return text;
}

static void printReport(const PlanSearch &search, const std::string &command) {
  const PlanReport &report = search.report;
  const PlanRequest &request = search.request;
  const PlanFigures &figures = report.figures;
  if (!search.batches.empty())
    printBatches(search.batches);
  if (report.plan) {
    if (!search.batches.empty())
      llvm::outs() << "rows: " << request.program.rows << "\n";
    llvm::outs() << "plan: " << report.winner.getName() << "\n"
                 << "step: " << formatSeconds(figures.seconds, kDigits);
    // A profile of blocks does not say how long a step waits.
    if (!request.blocks)
      llvm::outs() << ", of which " << formatSeconds(figures.exposed, kDigits)
                   << " wait for communication"
                   << (report.isExtrapolated ? " (extrapolated from few layers)"
                                             : "");
    llvm::outs() << "\n"
                 << showBound(search)
                 << llvm::format("memory of each device (%.1f MiB may be "
                                 "used)\n",
                                 inMiB(request.memory + figures.extraMemory));
    if (report.blocks.empty())
      printMemory(figures.memory);
    else
      printBytes("by the profile", figures.memory.total());
    printBlocks(report.blocks);
    if (const auto &exposure = figures.exposure)
      llvm::outs() << "operators were decided " << exposure->rounds
                   << " times for a program of few layers, which waits "
                   << formatSeconds(exposure->simulated, kDigits)
                   << llvm::format(" for communication: %.1f %%",
                                   100 * std::abs(exposure->getError()))
                   << " of its step "
                   << (exposure->getError() > 0 ? "less" : "more")
                   << " than expected"
                   << (exposure->isFixed
                           ? ""
                           : "; further rounds might decide otherwise")
                   << "\n";
    if (!report.winner.kinds.empty())
      llvm::outs() << "kinds of device along the pipeline: "
                   << llvm::join(getKinds(search), ", ")
                   << "; the cluster has another order: number the devices so, "
                      "by the order of the hosts, and use the plan with a "
                      "cluster of that order\n";
    for (const std::string &kinds : figures.mixed)
      llvm::outs() << "devices that do the same are of several kinds (" << kinds
                   << "): they take the time of the weakest\n";
  } else {
    auto [limit, least] = showBytes(request.memory, figures.getNeededMemory());
    llvm::outs() << (report.isInterrupted
                         ? "nothing that fits into " + limit +
                               " was found yet; the least is " + least
                         : "nothing fits into " + limit +
                               "; the least found is " + least +
                               showMemoryBound(report))
                 << ":\n  " << report.winner.getName() << "\n"
                 << "largest parts:\n";
    for (const auto &[name, bytes] : report.consumers)
      llvm::outs() << llvm::format("  %-27s %12.1f MiB\n", name.c_str(),
                                   inMiB(bytes));
  }
  llvm::outs() << "candidates: " << report.candidates << ", judged "
               << report.judged.size() << ", compiled " << report.compiled
               << "\n";
  if (!report.plan && report.memoryBound > request.memory)
    llvm::outs() << "no candidate can fit: the lower bound of the memory "
                    "exceeds the limit, however large --work is\n";
  else if (!report.plan && report.isWorkUsedUp)
    llvm::outs() << "--work " << request.mostCompiled
                 << " is used up: a candidate that was not compiled may fit\n";
  else if (report.plan && report.isWorkUsedUp && report.untried > 0)
    llvm::outs() << "--work " << request.mostCompiled
                 << " is used up: a candidate that was not compiled may be "
                    "faster; --work "
                 << 2 * request.mostCompiled << " compiles more of them\n";
  if (int64_t count = report.infeasiblePredictions; !report.plan && count > 0)
    llvm::outs() << count
                 << (count == 1
                         ? " candidate counts by programs of few layers: "
                           "it may fit\n"
                         : " candidates count by programs of few "
                           "layers: one of them may fit\n");
  auto printSkipped = [&](bool areCandidates, const char *heading) {
    for (const SkippedCandidates &skipped : report.skipped)
      if (skipped.isCandidate == areCandidates) {
        llvm::outs() << heading << "  left out " << skipped.count << ": "
                     << skipped.reason << "\n";
        heading = "";
      }
  };
  printSkipped(true, "");
  printSkipped(false, "meshes and batches without candidates\n");
  int64_t devices = request.cluster.getNumDevices();
  if (report.plan && request.devices < devices)
    llvm::outs() << "devices: the first " << request.devices
                 << " of the cluster's " << devices << "\n";
  if (report.plan)
    llvm::outs() << "to compile it: " << command << "\n";
  if (report.isInterrupted)
    llvm::outs() << (report.plan ? "interrupted: this is the best plan so far\n"
                                 : "interrupted\n");
}

static void writeFigures(json::OStream &out, const PlanFigures &figures) {
  out.attribute("seconds", figures.seconds);
  out.attribute("exposed", figures.exposed);
  if (!figures.mixed.empty())
    out.attributeArray("mixed_devices", [&] {
      for (const std::string &kinds : figures.mixed)
        out.value(kinds);
    });
  out.attributeObject("memory", [&] { writeMemoryParts(out, figures.memory); });
  if (const auto &exposure = figures.exposure)
    out.attributeObject("exposure", [&] {
      out.attribute("predicted", exposure->predicted);
      out.attribute("simulated", exposure->simulated);
      out.attribute("error", exposure->getError());
      out.attribute("rounds", exposure->rounds);
      out.attribute("settled", exposure->isFixed);
    });
}

static void writeReport(const PlanSearch &search, const std::string &command) {
  const PlanReport &report = search.report;
  const PlanRequest &request = search.request;
  json::OStream out(llvm::outs(), /*IndentSize=*/1);
  out.object([&] {
    out.attribute("feasible", report.plan.has_value());
    out.attribute("interrupted", report.isInterrupted);
    out.attribute("extrapolated", report.isExtrapolated);
    out.attribute("cluster", request.cluster.name);
    out.attribute("devices", request.devices);
    out.attribute("rows", request.program.rows);
    if (!search.batches.empty())
      out.attributeArray("batches", [&] {
        for (const BatchPoint &point : search.batches)
          out.object([&] {
            out.attribute("rows", point.rows);
            out.attribute("fits", point.seconds > 0);
            if (point.seconds <= 0) {
              out.attribute("why", point.why);
              return;
            }
            out.attribute("options", point.candidate.getName());
            out.attribute("seconds", point.seconds);
            out.attribute("rows_per_second", point.getThroughput());
          });
      });
    out.attribute("limit", request.memory);
    out.attribute("options", report.winner.getName());
    out.attribute("micro_batches", report.winner.microBatches);
    if (request.blocks) {
      // A profile of blocks says neither how long a step waits nor what the
      // bytes hold.
      out.attribute("seconds", report.figures.seconds);
      out.attributeObject("memory", [&] {
        out.attribute("total", report.figures.memory.total());
      });
    } else {
      writeFigures(out, report.figures);
    }
    if (!report.winner.kinds.empty())
      out.attributeArray("kinds", [&] {
        for (const std::string &kind : getKinds(search))
          out.value(kind);
      });
    if (report.plan) {
      out.attribute("bound", report.bound);
      out.attribute("bound_predictions", report.boundPredictions);
      out.attribute("gap", report.plan->prediction->gap);
      out.attribute("command", command);
    } else {
      if (report.memoryBound > 0)
        out.attribute("memory_bound", report.memoryBound);
      out.attribute("infeasible_predictions", report.infeasiblePredictions);
      out.attributeArray("consumers", [&] {
        for (const auto &[name, bytes] : report.consumers)
          out.object([&] {
            out.attribute("name", name);
            out.attribute("bytes", bytes);
          });
      });
    }
    if (!report.blocks.empty())
      out.attributeArray("blocks", [&] {
        for (const BlockChoice &choice : report.blocks)
          out.object([&] {
            out.attribute("name", choice.block);
            out.attribute("strategy", choice.strategy);
            out.attribute("seconds", choice.seconds);
            out.attribute("bytes", choice.bytes);
          });
      });
    out.attribute("candidates", report.candidates);
    out.attribute("compiled", report.compiled);
    out.attributeArray("judged", [&] {
      for (const JudgedCandidate &judged : report.judged)
        out.object([&] {
          out.attribute("options", judged.candidate.getName());
          out.attribute("bound", judged.bound);
          if (!judged.error.empty()) {
            out.attribute("error", judged.error);
            return;
          }
          out.attribute("fits", judged.fits);
          writeFigures(out, judged.figures);
        });
    });
    out.attributeArray("left_out", [&] {
      for (const SkippedCandidates &skipped : report.skipped)
        out.object([&] {
          out.attribute("reason", skipped.reason);
          out.attribute("count", skipped.count);
          out.attribute("candidates", skipped.isCandidate);
        });
    });
  });
  llvm::outs() << "\n";
}

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
                                     const std::string &plan,
                                     ClusterChoice &choice) {
  llvm::Expected<const Cluster &> given = choice.load();
  if (!given)
    return llvm::toString(given.takeError());
  const std::vector<int64_t> &kinds = search.report.winner.kinds;
  const Cluster &limited = search.request.cluster;
  std::string assumed =
      writeCluster(kinds.empty() ? limited : orderKinds(limited, kinds));
  if (assumed == writeCluster(*given))
    return "";
  std::string path = "CLUSTER";
  if (!plan.empty()) {
    path = getAssumedCluster(plan);
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
  std::optional<PlanSearch> search =
      planModel(flags.compile, flags.planner, /*choosesBatch=*/true);
  if (!search)
    return exitFailure;
  const PlanReport &report = search->report;
  std::string command;
  CompileFlags compiled = flags.compile;
  if (report.plan) {
    if (std::string problem =
            useAssumedCluster(*search, flags.output, compiled.options.cluster);
        !problem.empty())
      return reportError(problem);
    command = getCompileCommand(compiled, *search, flags.output);
  }
  if (flags.json)
    writeReport(*search, command);
  else
    printReport(*search, command);
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
