//===- PlanModel.cpp - The planner on the command line --------------------===//

#include "PlanModel.h"
#include "PlanProgram.h"

#include "../../common/Mebibytes.h"
#include "../../common/Run.h"

#include "heddle/Cost/Cluster.h"
#include "heddle/InitAll.h"
#include "heddle/Support/Units.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <csignal>
#include <memory>
#include <thread>
#include <unistd.h>

using namespace mlir;
using namespace heddle;
using namespace heddle::tools;

//===----------------------------------------------------------------------===//
// Flags
//===----------------------------------------------------------------------===//

/// Reads "80GiB", "40e9" or "1048576"; nullopt for any other text.
static std::optional<int64_t> parseBytes(StringRef text) {
  constexpr std::pair<StringLiteral, double> units[] = {
      {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
      {"kB", 1e3},     {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12}};
  double unit = 1;
  for (const auto &[name, size] : units)
    if (text.consume_back(name)) {
      unit = size;
      break;
    }
  double number = 0;
  if (text.trim().getAsDouble(number) || !(number * unit >= 1) ||
      number * unit > 0x1p62)
    return std::nullopt;
  return static_cast<int64_t>(number * unit);
}

std::string tools::getPinHint(const std::string &name,
                              const std::string &value) {
  if (name == "mesh")
    return ", because it decides this: to fix the size of an axis, give --pin "
           "tp=2";
  static constexpr StringLiteral kPinned[] = {
      "zero", "sequence", "context", "overlap", "recompute", "sub-batches"};
  if (!llvm::is_contained(kPinned, name))
    return "";
  return ", because it decides this: to fix it, give --pin " + name + "=" +
         (value.empty() ? "VALUE" : value);
}

void tools::addPlannerFlags(CLI::App &app, PlannerFlags &flags) {
  const char *group = "Planner";
  app.add_option("--memory", flags.memory,
                 "Bytes that each device may use, such as 40GiB (default: the "
                 "memory of the cluster's device)")
      ->check(CLI::Validator(
          [](std::string &text) {
            return parseBytes(text) ? std::string()
                                    : "expected a number of bytes, such as "
                                      "40GiB, got '" +
                                          text + "'";
          },
          "BYTES"))
      ->group(group);
  app.add_option("--pin", flags.pins,
                 "Decide a part of the plan: dp, cp, tp, pp, zero, "
                 "micro-batches or sub-batches=N, sequence=on or off, "
                 "context=KIND, recompute=MODE, overlap=SCHEDULE, or "
                 "GLOB=replicated for "
                 "operators")
      ->check(notEmpty("a pin such as tp=4"))
      ->check(CLI::Validator(
          // Pins of all options together, which may contradict one another.
          [pins = std::make_shared<PlanPins>()](std::string &text) {
            return llvm::toString(parsePin(text, *pins));
          },
          ""))
      ->expected(1)
      ->take_all()
      ->group(group);
  CLI::Option *stated =
      app.add_option(
             "--plan", flags.stated,
             "A part of a plan (JSON) to complete: what it states stays")
          ->check(notEmpty("a plan's file"))
          ->group(group);
  app.add_option("--profile", flags.profile,
                 "A profile of blocks (JSON): decide nothing but their "
                 "strategies, by what was measured of them")
      ->check(notEmpty("a profile's file"))
      ->excludes(stated)
      ->group(group);
  app.add_option("--work", flags.mostCompiled,
                 "The most candidates that are compiled; once something fits, "
                 "those that need too much memory count half")
      ->check(positive())
      ->capture_default_str()
      ->group(group);
  app.add_flag("--estimate", flags.estimate,
               "Do not compile the best plan with all layers; extrapolate its "
               "time and memory from few")
      ->group(group);
  app.add_flag("--quiet", flags.quiet, "Show no progress")->group(group);
}

//===----------------------------------------------------------------------===//
// Progress
//===----------------------------------------------------------------------===//

static volatile std::sig_atomic_t interrupted = 0;

/// Prints a line of progress in lines of at most 100 columns. A word stays in
/// one line.
static void printWrapped(llvm::StringRef text) {
  constexpr size_t kColumns = 100;
  size_t column = 0;
  for (llvm::StringRef word : llvm::split(text, ' ')) {
    if (column > 0 && column + 1 + word.size() > kColumns) {
      llvm::errs() << "\n   ";
      column = 3;
    }
    llvm::errs() << (column > 0 ? " " : "") << word;
    column += (column > 0) + word.size();
  }
  llvm::errs() << "\n";
}

namespace {

/// Records Ctrl-C while the object exists, and says that the search ends after
/// the candidates that it judges now. A second Ctrl-C ends the process as
/// usual.
class InterruptNote {
public:
  InterruptNote() {
    interrupted = 0;
    struct sigaction action = {};
    action.sa_handler = [](int) {
      interrupted = 1;
      constexpr StringLiteral kNote(
          "\nheddle: interrupted: the search ends after the candidates that it "
          "judges now; Ctrl-C again ends it at once, without a plan\n");
      // A handler may call write(), but not a stream.
      [[maybe_unused]] ssize_t written =
          ::write(STDERR_FILENO, kNote.data(), kNote.size());
    };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, &before);
  }
  ~InterruptNote() { sigaction(SIGINT, &before, nullptr); }

private:
  struct sigaction before = {};
};

class ProgressLines : public PlanObserver {
public:
  explicit ProgressLines(bool quiet) : quiet(quiet) {}

  void progress(const PlanProgress &progress) override {
    if (quiet)
      return;
    const JudgedCandidate &last = *progress.last;
    std::string text;
    llvm::raw_string_ostream out(text);
    out << llvm::format("heddle: %lld of %lld candidates: ",
                        static_cast<long long>(progress.judged),
                        static_cast<long long>(progress.candidates));
    if (!last.error.empty())
      out << "cannot be compiled (" << last.error << ")";
    else
      out << formatSeconds(last.figures.seconds)
          << llvm::format(", %.1f MiB%s", inMiB(last.figures.memory.total()),
                          last.fits ? "" : " (too much)");
    if (progress.best)
      out << " (best " << formatSeconds(progress.best->figures.seconds)
          << ", bound " << formatSeconds(progress.bound) << ")";
    out << ": " << last.candidate.getName();
    printWrapped(text);
  }
  void plansBatch(int64_t rows) override {
    if (!quiet)
      llvm::errs() << "heddle: planning for " << rows << " rows\n";
  }
  void compilesWhole(const Candidate &candidate) override {
    if (!quiet)
      printWrapped("heddle: compiling with all layers: " + candidate.getName());
  }
  bool isInterrupted() override { return interrupted != 0; }

private:
  bool quiet;
};

} // namespace

//===----------------------------------------------------------------------===//
// The search
//===----------------------------------------------------------------------===//

/// Returns the error text for more devices than the cluster has.
static std::string describeTooManyDevices(const PlanRequest &request,
                                          const char *what) {
  return llvm::formatv("expected {0}at most {1} devices, which the cluster "
                       "'{2}' has, got {3}",
                       what, request.cluster.getNumDevices(),
                       request.cluster.name, request.devices)
      .str();
}

/// Reads the part of a plan that the user states. Its mesh is the number of
/// devices of the request, unless --devices is given. Prints an error and
/// returns false if the part is invalid.
static bool useStated(const CompileFlags &flags, const std::string &path,
                      PlanRequest &request) {
  llvm::Expected<Plan> stated = readPartialPlanFile(path);
  if (!stated) {
    reportError(llvm::toString(stated.takeError()));
    return false;
  }
  if (llvm::Error problem = pinStated(*stated, request.pins)) {
    reportError("--plan: " + llvm::toString(std::move(problem)));
    return false;
  }
  PlanPosition mesh = stated->getPosition("mesh");
  if (mesh.line != 0 && flags.devices == 0) {
    request.devices = stated->getNumDevices();
    if (request.devices > request.cluster.getNumDevices()) {
      reportError(llvm::formatv("{0}:{1}:{2}: $.mesh: {3}", path, mesh.line,
                                mesh.column,
                                describeTooManyDevices(request, "a mesh of "))
                      .str());
      return false;
    }
  }
  request.stated = std::move(*stated);
  return true;
}

void tools::limitMemory(const PlannerFlags &planner, Cluster &cluster) {
  if (planner.memory.empty())
    return;
  int64_t bytes = *parseBytes(planner.memory);
  cluster.device.memory =
      cluster.groups.empty() ? bytes : std::min(cluster.device.memory, bytes);
  for (ClusterGroup &group : cluster.groups)
    group.device.memory = std::min(group.device.memory, bytes);
}

/// Makes the request that the flags describe, without its program. Returns an
/// exit code. If it is not exitSuccess, the flags are invalid, and an error was
/// printed.
static int makeRequest(const CompileFlags &flags, const PlannerFlags &planner,
                       PlanRequest &request) {
  if (int code = checkModelFlags(flags.model); code != exitSuccess)
    return code;
  llvm::Expected<const Cluster &> cluster = flags.options.cluster.load();
  if (!cluster) {
    reportError(llvm::toString(cluster.takeError()));
    return exitFailure;
  }
  request.cluster = *cluster;
  request.devices =
      flags.devices != 0 ? flags.devices : cluster->getNumDevices();
  if (request.devices > cluster->getNumDevices())
    return reportUsage("--devices: " + describeTooManyDevices(request, ""));
  // The scheduler keeps live tensors within the device's memory.
  limitMemory(planner, request.cluster);
  request.memory = request.cluster.device.memory;
  request.training = flags.options.training;
  request.training.seed = flags.model.seed;
  if (flags.options.verification == Verification::EachPass)
    request.verification = Verification::EachPass;
  request.mostCompiled = planner.mostCompiled;
  request.ordersKinds = planner.ordersKinds;
  request.compilesWinner = !planner.estimate;
  request.threads = std::clamp(std::thread::hardware_concurrency(), 1u, 4u);
  request.pins = planner.decided;
  for (const std::string &pin : planner.pins)
    if (llvm::Error problem = parsePin(pin, request.pins))
      return reportUsage("--pin: " + llvm::toString(std::move(problem)));
  if (!planner.stated.empty() && !useStated(flags, planner.stated, request))
    return exitFailure;
  if (!planner.profile.empty()) {
    llvm::Expected<BlockProfile> blocks = loadBlockProfile(planner.profile);
    if (!blocks) {
      reportError("--profile: " + llvm::toString(blocks.takeError()));
      return exitFailure;
    }
    request.blocks = std::move(*blocks);
    int64_t measured = request.blocks->mesh.getNumDevices();
    if (flags.devices == 0 && measured < request.devices)
      llvm::errs() << "heddle: warning: the blocks of '" << planner.profile
                   << "' were measured on " << measured << " of the "
                   << request.devices << " devices of '" << cluster->name
                   << "': the others are not used\n";
    if (flags.devices == 0)
      request.devices = measured;
  }
  if (isStated(flags, "--micro-batches")) {
    int64_t stated = flags.options.training.microBatches;
    if (request.pins.microBatches.value_or(stated) != stated)
      return reportUsage(
          "--pin micro-batches=" + std::to_string(*request.pins.microBatches) +
          " contradicts --micro-batches " + std::to_string(stated));
    request.pins.microBatches = stated;
  }
  request.useFirst(request.devices);
  if (request.training.bf16 && !request.cluster.device.peak.count("bf16")) {
    reportError("--bf16: the cluster '" + cluster->name +
                "' states no rate of bf16 for every device: add it to "
                "device.peak of the cluster's file (`heddle info CLUSTER` "
                "prints a preset as one)");
    return exitFailure;
  }
  return exitSuccess;
}

/// Makes the request of the flags and answers it by `find`, which returns an
/// llvm::Expected of a report. Returns an exit code. Prints errors.
template <typename ReportT, typename FindT>
static int answer(CompileFlags &flags, const PlannerFlags &planner,
                  PlanRequest &request, ReportT &report, FindT find) {
  DialectRegistry dialects;
  registerAllDialects(dialects);
  Compiler compiler;
  if (int code = makeRequest(flags, planner, request); code != exitSuccess)
    return code;
  if (!chooseProgram(compiler, flags, request.devices,
                     request.pins.microBatches.value_or(1), request.program))
    return exitFailure;
  request.program.dialects = &dialects;
  InterruptNote note;
  ProgressLines lines(planner.quiet);
  llvm::Expected<ReportT> found = find(request, lines);
  request.program.dialects = nullptr; // it ends here
  if (!found)
    return reportError(llvm::toString(found.takeError()));
  report = std::move(*found);
  return exitSuccess;
}

int tools::planModel(CompileFlags &flags, const PlannerFlags &planner,
                     PlanSearch &search, bool choosesBatch) {
  auto find = [&](const PlanRequest &request,
                  PlanObserver &observer) -> llvm::Expected<PlanReport> {
    if (!choosesBatch || flags.model.batch || request.program.microBatchRows ||
        request.blocks)
      return findPlan(request, observer);
    llvm::Expected<BatchChoice> choice = findBatch(request, observer);
    if (!choice)
      return choice.takeError();
    search.request.program.rows = choice->rows;
    search.batches = std::move(choice->tried);
    return std::move(choice->report);
  };
  return answer(flags, planner, search.request, search.report, find);
}

int tools::planFront(CompileFlags &flags, const PlannerFlags &planner,
                     FrontSearch &search) {
  return answer(flags, planner, search.request, search.front, findFront);
}

int tools::planAutomatically(CompileFlags &flags) {
  CompileOptions &options = flags.options;
  if (options.cluster.isNone()) {
    return reportUsage("--plan auto: expected a --cluster, on which plans are "
                       "weighed, got none");
  }
  PlannerFlags planner;
  planner.decided.overlap = options.overlap;
  planner.decided.recompute = options.recompute;
  if (options.subBatches != 0)
    planner.decided.subBatches = options.subBatches;
  CompileFlags asked = flags;
  if (asked.model.batch && isStated(flags, "--micro-batches") &&
      llvm::MulOverflow(*asked.model.batch, options.training.microBatches,
                        *asked.model.batch)) {
    return reportUsage("--batch times --micro-batches is too large");
  }
  PlanSearch search;
  if (int code = planModel(asked, planner, search); code != exitSuccess)
    return code;
  const PlanReport &report = search.report;
  if (report.isInterrupted) {
    reportError("--plan auto: interrupted before a plan was chosen");
    return exitInterrupted;
  }
  if (!report.plan) {
    auto [limit, least] =
        showBytes(search.request.memory, report.figures.getNeededMemory());
    return reportError("--plan auto: nothing fits into " + limit +
                       " of a device; the least found is " + least + ", with " +
                       report.winner.getName());
  }
  int64_t bytes = report.figures.memory.total();
  llvm::errs() << "heddle: plan: " << report.winner.getName()
               << " (predicted: a step of "
               << formatSeconds(report.figures.seconds, kStepDigits) << ", "
               << showBytes(bytes, bytes).first << " of a device)\n";
  options.planText = writePlan(*report.plan);
  options.planPath = "the plan that was chosen";
  options.training.microBatches = report.winner.microBatches;
  // The plan states these settings itself. An option would invalidate its
  // prediction.
  options.overlap.reset();
  options.recompute.reset();
  options.subBatches = 0;
  if (search.request.program.microBatchRows)
    flags.model.batch.reset(); // the file has its batch
  else
    flags.model.batch =
        search.request.program.rows / report.winner.microBatches;
  return exitSuccess;
}
