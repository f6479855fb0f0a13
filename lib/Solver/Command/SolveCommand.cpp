//===- SolveCommand.cpp - `heddle solve` ----------------------------------===//

#include "heddle/Solver/Command.h"
#include "heddle/Solver/Oases.h"
#include "heddle/Solver/Osdp.h"
#include "heddle/Solver/ProblemIO.h"
#include "heddle/Solver/Solve.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>

namespace heddle::solver {

namespace {

constexpr int kDone = 0, kNoAssignment = 1, kWrongInput = 2;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr uint64_t kMost64 = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kMaxSize = 1'000'000; ///< The most batches or devices.
constexpr uint64_t kMaxLayers = 10'000;

/// Set by the signal handler, which may not touch anything else.
std::atomic<bool> stopRequested{false};
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void requestStop(int) { stopRequested = true; }

/// While it lives, the first SIGINT and the first SIGTERM stop the search
/// instead of the process.
class InterruptGuard {
public:
  InterruptGuard() {
    stopRequested = false;
    struct sigaction action = {};
    action.sa_handler = requestStop;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
    for (size_t i = 0; i < std::size(kSignals); ++i)
      sigaction(kSignals[i], &action, &previous[i]);
  }
  ~InterruptGuard() {
    for (size_t i = 0; i < std::size(kSignals); ++i)
      sigaction(kSignals[i], &previous[i], nullptr);
  }

private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM};
  struct sigaction previous[std::size(kSignals)];
};

struct Arguments {
  std::string program; ///< The name in error messages.
  std::string problemPath;
  std::string checkPath;
  std::string tracePath;
  std::string osdpPath, oasesPath;
  int64_t hidden = 0, batchIndex = 0;
  OsdpOptions osdp;
  OasesOptions oases;
  bool printProblem = false;
  SolveOptions options;
};

/// The program's name in messages, without folders: `heddle` for
/// `/usr/bin/heddle solve`.
std::string programName(std::string_view command) {
  size_t slash = command.substr(0, command.find(' ')).rfind('/');
  std::string_view name =
      slash == std::string_view::npos ? command : command.substr(slash + 1);
  return std::string(name.substr(0, name.find(' ')));
}

int complain(const Arguments &args, const std::string &message) {
  std::fprintf(stderr, "%s: error: %s\n", args.program.c_str(),
               message.c_str());
  return kWrongInput;
}

/// Flushes standard output. Returns `code`, or reports an error if output could
/// not be written.
int flushOutput(const Arguments &args, int code) {
  if (std::fflush(stdout) == 0 && !std::ferror(stdout))
    return code;
  return complain(args, "cannot write to standard output");
}

/// Parses the content of a file; errors name the file.
template <typename ParseFn>
auto parseFile(const std::string &path, const ParseFn &parse)
    -> decltype(parse(std::string_view())) {
  auto text = readFile(path);
  if (!text)
    return text.takeError();
  auto value = parse(std::string_view(*text));
  if (!value)
    return llvm::createStringError("'" + path +
                                   "': " + llvm::toString(value.takeError()));
  return value;
}

int check(const Problem &p, const Arguments &args) {
  auto a = parseFile(args.checkPath, parseAssignment);
  if (!a)
    return complain(args, llvm::toString(a.takeError()));
  auto value = evaluate(p, *a);
  if (!value)
    return complain(args, "'" + args.checkPath +
                              "': " + llvm::toString(value.takeError()));
  std::printf("cost %lld\npeak usage %lld at time %lld\n",
              static_cast<long long>(value->total),
              static_cast<long long>(value->peakUsage),
              static_cast<long long>(value->peakTime));
  if (p.usageLimit)
    std::printf("usage limit %lld\n", static_cast<long long>(*p.usageLimit));
  std::printf("%s\n", value->isFeasible() ? "feasible" : "infeasible");
  return flushOutput(args, value->isFeasible() ? kDone : kNoAssignment);
}

std::string describe(const Progress &now) {
  char line[160];
  std::snprintf(line, sizeof(line), "%9.3f s  cost %s  bound %lld  gap %.4f%%",
                now.seconds,
                now.best ? std::to_string(*now.best).c_str() : "none",
                static_cast<long long>(now.lowerBound), 100 * now.gap);
  return line;
}

/// Shows every better cost, and the bound at most once a second in between.
class ProgressPrinter {
public:
  explicit ProgressPrinter(std::ostream *trace) : trace(trace) {}

  void operator()(const Progress &now) {
    if (trace)
      *trace << now.seconds << ','
             << (now.best ? std::to_string(*now.best) : "") << ','
             << now.lowerBound << ',' << now.gap << '\n';
    if (now.best == shown && now.seconds < lastTime + 1)
      return;
    shown = now.best;
    lastTime = now.seconds;
    std::fprintf(stderr, "%s\n", describe(now).c_str());
  }

private:
  std::ostream *trace;
  std::optional<Cost> shown;
  double lastTime = 0;
};

void explainFailure(const Problem &p, const Solution &s) {
  std::fprintf(stderr, "no feasible assignment: %s\n",
               s.why == StopReason::Infeasible
                   ? s.explanation.c_str()
                   : (std::string("none found so far, nor a proof that there "
                                  "is none: ") +
                      nameOf(s.why))
                         .c_str());
  if (!s.miss || s.miss->excess == 0)
    return;
  std::fprintf(stderr, "nearest miss: %lld over the limit at time %lld; nodes",
               static_cast<long long>(s.miss->excess),
               static_cast<long long>(s.miss->time));
  for (uint32_t n : s.miss->nodes)
    std::fprintf(
        stderr, " %u (%lld)", n,
        static_cast<long long>(p.nodes[n].usages[s.miss->strategies[n]]));
  std::fprintf(stderr, "\n");
}

/// A problem, and the names of its strategies (empty if they have none).
struct Instance {
  Problem own;
  const char *nodes = "nodes"; ///< The word for its nodes.
  std::vector<std::string> strategyNames;
};

/// Formats a list of choices for a message: `512, 1024 or 1536`.
std::string oneOf(const std::set<int64_t> &values) {
  std::string list;
  size_t left = values.size();
  for (int64_t v : values) {
    list += std::to_string(v);
    if (--left > 0)
      list += left == 1 ? " or " : ", ";
  }
  return list;
}

llvm::Error notInProfile(const char *flag, const std::set<int64_t> &values,
                         const std::string &path, int64_t got) {
  return llvm::createStringError(std::string(flag) + ": expected " +
                                 oneOf(values) + ", which '" + path +
                                 "' has, got " + std::to_string(got));
}

llvm::Expected<Instance> fromOsdp(const Arguments &args) {
  auto profile = parseFile(args.osdpPath, parseOsdpProfile);
  if (!profile)
    return profile.takeError();
  std::set<int64_t> hiddens, indices;
  for (const OsdpProfileEntry &e : *profile) {
    hiddens.insert(e.hidden);
    if (e.hidden != args.hidden)
      continue;
    indices.insert(e.batchIndex);
    if (e.batchIndex == args.batchIndex)
      return Instance{osdpProblem(e, args.osdp), "layers",
                      nameOsdpStrategies(args.osdp)};
  }
  if (indices.empty())
    return notInProfile("--hidden", hiddens, args.osdpPath, args.hidden);
  return notInProfile("--batch-index", indices, args.osdpPath, args.batchIndex);
}

llvm::Expected<Instance> fromOases(Arguments &args) {
  auto profile = parseFile(args.oasesPath, parseOasesProfile);
  if (!profile)
    return profile.takeError();
  std::set<int64_t> hiddens;
  for (const OasesProfileRow &r : *profile)
    hiddens.insert(r.hidden);
  if (!hiddens.count(args.hidden))
    return notInProfile("--hidden", hiddens, args.oasesPath, args.hidden);
  args.oases.hidden = args.hidden;
  args.oases.layers = args.osdp.layers;
  auto p = oasesProblem(*profile, args.oases);
  if (!p)
    return llvm::createStringError("'" + args.oasesPath +
                                   "': " + llvm::toString(p.takeError()));
  std::vector<std::string> names;
  for (int64_t degree : p->degrees)
    names.push_back("degree " + std::to_string(degree));
  return Instance{std::move(p->instance), "half-layers", std::move(names)};
}

llvm::Expected<Instance> readInstance(Arguments &args) {
  if (!args.osdpPath.empty())
    return fromOsdp(args);
  if (!args.oasesPath.empty())
    return fromOases(args);
  if (args.problemPath.empty())
    return llvm::createStringError(
        "problem: expected a file, --from-osdp or --from-oases");
  auto p = parseFile(args.problemPath, parseProblem);
  if (!p)
    return p.takeError();
  return Instance{std::move(*p), "nodes", {}};
}

/// Prints how often each strategy is chosen, with its name.
void explainPlan(const Instance &i, const Assignment &a) {
  std::string line;
  for (size_t s = 0; s < i.strategyNames.size(); ++s)
    if (auto count = std::ranges::count(a, s))
      line += (line.empty() ? "" : ", ") + std::to_string(count) + " with " +
              std::to_string(s) + " (" + i.strategyNames[s] + ")";
  if (!line.empty())
    std::fprintf(stderr, "%s: %s\n", i.nodes, line.c_str());
}

int search(const Instance &i, Arguments &args) {
  std::ofstream trace;
  if (!args.tracePath.empty()) {
    trace.open(args.tracePath);
    if (!trace)
      return complain(args,
                      "'" + args.tracePath + "': expected a writable file");
    trace << "seconds,cost,bound,gap\n";
  }
  InterruptGuard guard;
  args.options.stop = &stopRequested;
  args.options.onProgress =
      ProgressPrinter(args.tracePath.empty() ? nullptr : &trace);
  auto s = solve(i.own, args.options);
  if (!s)
    return complain(args, llvm::toString(s.takeError()));
  int code = kDone;
  if (!args.tracePath.empty() && !trace.flush())
    code = complain(args, "'" + args.tracePath +
                              "': expected a file that takes all of "
                              "the trace");
  if (!s->best) {
    explainFailure(i.own, *s);
    return code == kDone ? kNoAssignment : code;
  }
  std::fprintf(stderr, "%s: cost %lld  bound %lld  gap %.4f%%\n",
               nameOf(s->why), static_cast<long long>(s->total),
               static_cast<long long>(s->lowerBound), 100 * s->gap);
  explainPlan(i, *s->best);
  std::printf("%s\n", printAssignment(*s->best).c_str());
  return flushOutput(args, code);
}

std::string outOfRange(const std::string &what, const std::string &text) {
  return "expected " + what + ", got '" + text.substr(0, 40) + "'";
}

/// Accepts a number of at least 0 and below `most`; not NaN.
CLI::Validator realBelow(double most, const std::string &what) {
  return CLI::Validator(
      [=](std::string &text) {
        double value = 0;
        const char *end = text.data() + text.size();
        auto [rest, status] = std::from_chars(text.data(), end, value);
        bool fits =
            status == std::errc() && rest == end && value >= 0 && value < most;
        return fits ? std::string() : outOfRange(what, text);
      },
      "");
}

CLI::Validator wholeNumber(uint64_t least, uint64_t most) {
  return CLI::Validator(
      [=](std::string &text) {
        uint64_t value = 0;
        const char *end = text.data() + text.size();
        auto [rest, status] = std::from_chars(text.data(), end, value);
        // CLI11 would read a number with a leading zero as octal.
        bool octal = text.size() > 1 && text[0] == '0';
        bool fits = status == std::errc() && rest == end && value >= least &&
                    value <= most && !octal;
        return fits
                   ? std::string()
                   : outOfRange("a whole number from " + std::to_string(least) +
                                    " to " + std::to_string(most),
                                text);
      },
      "");
}

void addConverters(CLI::App &app, Arguments &args) {
  const char *group = "Problems made from profiles";
  auto *osdp = app.add_option("--from-osdp", args.osdpPath,
                              "Sharded storage per layer, from OSDP's profile");
  auto *oases =
      app.add_option("--from-oases", args.oasesPath,
                     "Tensor parallelism per half-layer, from Oases' profile");
  // Each of these options chooses the problem, so they exclude each other.
  CLI::Option *file = app.get_option("problem");
  osdp->group(group)->excludes(oases)->excludes(file);
  oases->group(group)->excludes(file);
  auto *hidden = app.add_option("--hidden", args.hidden, "Hidden size")
                     ->group(group)
                     ->excludes(file)
                     ->check(wholeNumber(0, kMaxSize));
  app.add_option("--layers", args.osdp.layers, "Layers")
      ->group(group)
      ->excludes(file)
      ->capture_default_str()
      ->check(wholeNumber(1, kMaxLayers));
  auto *index =
      app.add_option("--batch-index", args.batchIndex,
                     "OSDP: position in the profile's list of batch sizes")
          ->group(group)
          ->needs(osdp)
          ->check(wholeNumber(0, kMaxSize));
  auto *memory = app.add_option("--memory-mb", args.osdp.megabytes,
                                "OSDP: megabytes for the layers")
                     ->group(group)
                     ->needs(osdp)
                     ->check(realBelow(kMaxOsdpMegabytes,
                                       "megabytes from 0 to below 1e9"));
  osdp->needs(hidden)->needs(index)->needs(memory);
  app.add_option("--slices", args.osdp.slices,
                 "OSDP: slices that each operator splits into")
      ->group(group)
      ->needs(osdp)
      ->capture_default_str()
      ->check(wholeNumber(1, kMaxOsdpSlices));
  auto *batch = app.add_option("--global-batch", args.oases.globalBatch,
                               "Oases: samples of a step")
                    ->group(group)
                    ->needs(oases)
                    ->check(wholeNumber(1, kMaxSize));
  oases->needs(hidden)->needs(batch);
  app.add_option("--devices", args.oases.devices, "Oases: devices")
      ->group(group)
      ->needs(oases)
      ->capture_default_str()
      ->check(wholeNumber(1, kMaxSize));
  app.add_flag("--print-problem", args.printProblem,
               "Print the problem in the contest's form instead of solving it");
}

} // namespace

int runSolveCommand(int argc, const char *const *argv) {
  auto start = std::chrono::steady_clock::now();
  Arguments args;
  std::string command = argc > 0 ? argv[0] : "heddle solve";
  args.program = programName(command);
  CLI::App app("Chooses one strategy per node at least cost within a memory "
               "limit",
               command.find(' ') == std::string::npos ? args.program : command);
  app.add_option("problem", args.problemPath,
                 "Problem in the contest's JSON form, plain or gzip");
  app.add_option("--timeout", args.options.timeoutSeconds,
                 "Seconds of wall clock, reading included")
      ->capture_default_str()
      ->check(realBelow(kInfinity, "seconds of at least 0"));
  app.add_option("--threads", args.options.threads, "Threads; 0: all")
      ->capture_default_str()
      ->check(wholeNumber(0, 1024));
  app.add_option("--seed", args.options.seed, "Seed of all random choices")
      ->capture_default_str()
      ->check(wholeNumber(0, kMost64));
  app.add_option("--gap", args.options.gap, "Stop at this relative gap")
      ->capture_default_str()
      ->check(realBelow(kInfinity, "a gap of at least 0"));
  app.add_option("--work-limit", args.options.workLimit,
                 "Stop after this many table entries, reproducibly; 0: never")
      ->capture_default_str()
      ->check(wholeNumber(0, kMost64));
  app.add_option("--trace", args.tracePath,
                 "Write every improvement to this file, as CSV");
  app.add_option("--check", args.checkPath,
                 "Evaluate this assignment instead of searching");
  addConverters(app, args);
  app.footer("The assignment goes to standard output as a list of strategies, "
             "one per node; all else to standard error.\n"
             "Exit codes: 0 an assignment, 1 none found, or with --check: not "
             "feasible, 2 wrong input or output that could not be written.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &request) { // --help
    return app.exit(request);
  } catch (const CLI::ParseError &e) {
    complain(args, e.what());
    std::fprintf(stderr, "see %s --help\n", app.get_name().c_str());
    return kWrongInput;
  }
  auto i = readInstance(args);
  if (!i)
    return complain(args, llvm::toString(i.takeError()));
  if (args.printProblem) {
    std::printf("%s\n", printProblem(i->own).c_str());
    return flushOutput(args, kDone);
  }
  if (!args.checkPath.empty())
    return check(i->own, args);
  args.options.secondsSpent =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  return search(*i, args);
}

} // namespace heddle::solver
