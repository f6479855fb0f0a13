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

constexpr int Done = 0, NoAssignment = 1, WrongInput = 2;

constexpr double Infinity = std::numeric_limits<double>::infinity();
constexpr uint64_t Most64 = std::numeric_limits<uint64_t>::max();
constexpr uint64_t MaxSize = 1'000'000; ///< Of batches and devices.
constexpr uint64_t MaxLayers = 10'000;

/// The one thing that a signal handler may touch.
std::atomic<bool> StopRequested{false};
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void requestStop(int) { StopRequested = true; }

/// Takes over the first SIGINT and the first SIGTERM for as long as it lives.
class InterruptGuard {
public:
  InterruptGuard() {
    StopRequested = false;
    struct sigaction Action = {};
    Action.sa_handler = requestStop;
    Action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
    for (size_t I = 0; I < std::size(Signals); ++I)
      sigaction(Signals[I], &Action, &Previous[I]);
  }
  ~InterruptGuard() {
    for (size_t I = 0; I < std::size(Signals); ++I)
      sigaction(Signals[I], &Previous[I], nullptr);
  }

private:
  static constexpr int Signals[] = {SIGINT, SIGTERM};
  struct sigaction Previous[std::size(Signals)];
};

struct Arguments {
  std::string Program; ///< Whose name errors bear.
  std::string ProblemPath;
  std::string CheckPath;
  std::string TracePath;
  std::string OsdpPath, OasesPath;
  int64_t Hidden = 0, BatchIndex = 0;
  OsdpOptions Osdp;
  OasesOptions Oases;
  bool PrintProblem = false;
  SolveOptions Options;
};

/// `heddle` of `heddle solve`, and of a program's path its last part.
std::string programName(std::string_view Command) {
  size_t Slash = Command.substr(0, Command.find(' ')).rfind('/');
  std::string_view Name =
      Slash == std::string_view::npos ? Command : Command.substr(Slash + 1);
  return std::string(Name.substr(0, Name.find(' ')));
}

int complain(const Arguments &Args, const Error &E) {
  std::fprintf(stderr, "%s: error: %s\n", Args.Program.c_str(),
               E.Message.c_str());
  return WrongInput;
}

/// The exit code, unless what was printed could not be written.
int flushOutput(const Arguments &Args, int Code) {
  if (std::fflush(stdout) == 0 && !std::ferror(stdout))
    return Code;
  return complain(Args, {"cannot write to standard output"});
}

/// What `Parse` makes of the content of a file; errors name the file.
template <typename ParseFn>
auto parseFile(const std::string &Path, const ParseFn &Parse)
    -> decltype(Parse(std::string_view())) {
  auto Text = readFile(Path);
  if (!Text)
    return Text.error();
  auto Value = Parse(std::string_view(*Text));
  if (!Value)
    return Error{"'" + Path + "': " + Value.error().Message};
  return Value;
}

int check(const Problem &P, const Arguments &Args) {
  auto A = parseFile(Args.CheckPath, parseAssignment);
  if (!A)
    return complain(Args, A.error());
  auto Value = evaluate(P, *A);
  if (!Value)
    return complain(Args,
                    {"'" + Args.CheckPath + "': " + Value.error().Message});
  std::printf("cost %lld\npeak usage %lld at time %lld\n",
              static_cast<long long>(Value->Total),
              static_cast<long long>(Value->PeakUsage),
              static_cast<long long>(Value->PeakTime));
  if (P.UsageLimit)
    std::printf("usage limit %lld\n", static_cast<long long>(*P.UsageLimit));
  std::printf("%s\n", Value->feasible() ? "feasible" : "infeasible");
  return flushOutput(Args, Value->feasible() ? Done : NoAssignment);
}

std::string describe(const Progress &Now) {
  char Line[160];
  std::snprintf(Line, sizeof(Line), "%9.3f s  cost %s  bound %lld  gap %.4f%%",
                Now.Seconds,
                Now.Best ? std::to_string(*Now.Best).c_str() : "none",
                static_cast<long long>(Now.LowerBound), 100 * Now.Gap);
  return Line;
}

/// Shows every better cost and, in between, the bound once a second.
class ProgressPrinter {
public:
  explicit ProgressPrinter(std::ostream *Trace) : Trace(Trace) {}

  void operator()(const Progress &Now) {
    if (Trace)
      *Trace << Now.Seconds << ','
             << (Now.Best ? std::to_string(*Now.Best) : "") << ','
             << Now.LowerBound << ',' << Now.Gap << '\n';
    if (Now.Best == Shown && Now.Seconds < LastTime + 1)
      return;
    Shown = Now.Best;
    LastTime = Now.Seconds;
    std::fprintf(stderr, "%s\n", describe(Now).c_str());
  }

private:
  std::ostream *Trace;
  std::optional<Cost> Shown;
  double LastTime = 0;
};

void explainFailure(const Problem &P, const Solution &S) {
  std::fprintf(stderr, "no feasible assignment: %s\n",
               S.Why == StopReason::Infeasible
                   ? S.Explanation.c_str()
                   : (std::string("none found so far, nor a proof that there "
                                  "is none: ") +
                      nameOf(S.Why))
                         .c_str());
  if (!S.Miss || S.Miss->Excess == 0)
    return;
  std::fprintf(stderr, "nearest miss: %lld over the limit at time %lld; nodes",
               static_cast<long long>(S.Miss->Excess),
               static_cast<long long>(S.Miss->Time));
  for (uint32_t N : S.Miss->Nodes)
    std::fprintf(
        stderr, " %u (%lld)", N,
        static_cast<long long>(P.Nodes[N].Usages[S.Miss->Strategies[N]]));
  std::fprintf(stderr, "\n");
}

/// What to solve, and what its strategies stand for if that is known.
struct Instance {
  Problem Own;
  const char *Nodes = "nodes"; ///< What they are.
  std::vector<std::string> StrategyNames;
};

/// How an error lists what there is: `512, 1024 or 1536`.
std::string oneOf(const std::set<int64_t> &Values) {
  std::string List;
  size_t Left = Values.size();
  for (int64_t V : Values) {
    List += std::to_string(V);
    if (--Left > 0)
      List += Left == 1 ? " or " : ", ";
  }
  return List;
}

Error notInProfile(const char *Flag, const std::set<int64_t> &Values,
                   const std::string &Path, int64_t Got) {
  return {std::string(Flag) + ": expected " + oneOf(Values) + ", which '" +
          Path + "' has, got " + std::to_string(Got)};
}

Expected<Instance> fromOsdp(const Arguments &Args) {
  auto Profile = parseFile(Args.OsdpPath, parseOsdpProfile);
  if (!Profile)
    return Profile.error();
  std::set<int64_t> Hiddens, Indices;
  for (const OsdpProfileEntry &E : *Profile) {
    Hiddens.insert(E.Hidden);
    if (E.Hidden != Args.Hidden)
      continue;
    Indices.insert(E.BatchIndex);
    if (E.BatchIndex == Args.BatchIndex)
      return Instance{osdpProblem(E, Args.Osdp), "layers",
                      nameOsdpStrategies(Args.Osdp)};
  }
  if (Indices.empty())
    return notInProfile("--hidden", Hiddens, Args.OsdpPath, Args.Hidden);
  return notInProfile("--batch-index", Indices, Args.OsdpPath, Args.BatchIndex);
}

Expected<Instance> fromOases(Arguments &Args) {
  auto Profile = parseFile(Args.OasesPath, parseOasesProfile);
  if (!Profile)
    return Profile.error();
  std::set<int64_t> Hiddens;
  for (const OasesProfileRow &R : *Profile)
    Hiddens.insert(R.Hidden);
  if (!Hiddens.count(Args.Hidden))
    return notInProfile("--hidden", Hiddens, Args.OasesPath, Args.Hidden);
  Args.Oases.Hidden = Args.Hidden;
  Args.Oases.Layers = Args.Osdp.Layers;
  auto P = oasesProblem(*Profile, Args.Oases);
  if (!P)
    return Error{"'" + Args.OasesPath + "': " + P.error().Message};
  std::vector<std::string> Names;
  for (int64_t Degree : P->Degrees)
    Names.push_back("degree " + std::to_string(Degree));
  return Instance{std::move(P->Instance), "half-layers", std::move(Names)};
}

Expected<Instance> readInstance(Arguments &Args) {
  if (!Args.OsdpPath.empty())
    return fromOsdp(Args);
  if (!Args.OasesPath.empty())
    return fromOases(Args);
  if (Args.ProblemPath.empty())
    return Error{"problem: expected a file, --from-osdp or --from-oases"};
  auto P = parseFile(Args.ProblemPath, parseProblem);
  if (!P)
    return P.error();
  return Instance{std::move(*P), "nodes", {}};
}

/// How often each strategy is chosen, and what it stands for.
void explainPlan(const Instance &I, const Assignment &A) {
  std::string Line;
  for (size_t S = 0; S < I.StrategyNames.size(); ++S)
    if (auto Count = std::ranges::count(A, S))
      Line += (Line.empty() ? "" : ", ") + std::to_string(Count) + " with " +
              std::to_string(S) + " (" + I.StrategyNames[S] + ")";
  if (!Line.empty())
    std::fprintf(stderr, "%s: %s\n", I.Nodes, Line.c_str());
}

int search(const Instance &I, Arguments &Args) {
  std::ofstream Trace;
  if (!Args.TracePath.empty()) {
    Trace.open(Args.TracePath);
    if (!Trace)
      return complain(Args,
                      {"'" + Args.TracePath + "': expected a writable file"});
    Trace << "seconds,cost,bound,gap\n";
  }
  InterruptGuard Guard;
  Args.Options.Stop = &StopRequested;
  Args.Options.OnProgress =
      ProgressPrinter(Args.TracePath.empty() ? nullptr : &Trace);
  auto S = solve(I.Own, Args.Options);
  if (!S)
    return complain(Args, S.error());
  int Code = Done;
  if (!Args.TracePath.empty() && !Trace.flush())
    Code = complain(Args, {"'" + Args.TracePath +
                           "': expected a file that takes all of "
                           "the trace"});
  if (!S->Best) {
    explainFailure(I.Own, *S);
    return Code == Done ? NoAssignment : Code;
  }
  std::fprintf(stderr, "%s: cost %lld  bound %lld  gap %.4f%%\n",
               nameOf(S->Why), static_cast<long long>(S->Total),
               static_cast<long long>(S->LowerBound), 100 * S->Gap);
  explainPlan(I, *S->Best);
  std::printf("%s\n", printAssignment(*S->Best).c_str());
  return flushOutput(Args, Code);
}

std::string outOfRange(const std::string &What, const std::string &Text) {
  return "expected " + What + ", got '" + Text.substr(0, 40) + "'";
}

/// A number from 0 to `Most`, which `Most` itself and NaN are not.
CLI::Validator realBelow(double Most, const std::string &What) {
  return CLI::Validator(
      [=](std::string &Text) {
        double Value = 0;
        const char *End = Text.data() + Text.size();
        auto [Rest, Status] = std::from_chars(Text.data(), End, Value);
        bool Fits =
            Status == std::errc() && Rest == End && Value >= 0 && Value < Most;
        return Fits ? std::string() : outOfRange(What, Text);
      },
      "");
}

CLI::Validator wholeNumber(uint64_t Least, uint64_t Most) {
  return CLI::Validator(
      [=](std::string &Text) {
        uint64_t Value = 0;
        const char *End = Text.data() + Text.size();
        auto [Rest, Status] = std::from_chars(Text.data(), End, Value);
        // The option itself would be read as octal after a zero.
        bool Octal = Text.size() > 1 && Text[0] == '0';
        bool Fits = Status == std::errc() && Rest == End && Value >= Least &&
                    Value <= Most && !Octal;
        return Fits
                   ? std::string()
                   : outOfRange("a whole number from " + std::to_string(Least) +
                                    " to " + std::to_string(Most),
                                Text);
      },
      "");
}

void addConverters(CLI::App &App, Arguments &Args) {
  const char *Group = "Problems made from profiles";
  auto *Osdp = App.add_option("--from-osdp", Args.OsdpPath,
                              "Sharded storage per layer, from OSDP's profile");
  auto *Oases =
      App.add_option("--from-oases", Args.OasesPath,
                     "Tensor parallelism per half-layer, from Oases' profile");
  // Each of these says what the problem is.
  CLI::Option *File = App.get_option("problem");
  Osdp->group(Group)->excludes(Oases)->excludes(File);
  Oases->group(Group)->excludes(File);
  auto *Hidden = App.add_option("--hidden", Args.Hidden, "Hidden size")
                     ->group(Group)
                     ->excludes(File)
                     ->check(wholeNumber(0, MaxSize));
  App.add_option("--layers", Args.Osdp.Layers, "Layers")
      ->group(Group)
      ->excludes(File)
      ->capture_default_str()
      ->check(wholeNumber(1, MaxLayers));
  auto *Index =
      App.add_option("--batch-index", Args.BatchIndex,
                     "OSDP: position in the profile's list of batch sizes")
          ->group(Group)
          ->needs(Osdp)
          ->check(wholeNumber(0, MaxSize));
  auto *Memory =
      App.add_option("--memory-mb", Args.Osdp.Megabytes,
                     "OSDP: megabytes for the layers")
          ->group(Group)
          ->needs(Osdp)
          ->check(realBelow(MaxOsdpMegabytes, "megabytes from 0 to below 1e9"));
  Osdp->needs(Hidden)->needs(Index)->needs(Memory);
  App.add_option("--slices", Args.Osdp.Slices,
                 "OSDP: slices that each operator splits into")
      ->group(Group)
      ->needs(Osdp)
      ->capture_default_str()
      ->check(wholeNumber(1, MaxOsdpSlices));
  auto *Batch = App.add_option("--global-batch", Args.Oases.GlobalBatch,
                               "Oases: samples of a step")
                    ->group(Group)
                    ->needs(Oases)
                    ->check(wholeNumber(1, MaxSize));
  Oases->needs(Hidden)->needs(Batch);
  App.add_option("--devices", Args.Oases.Devices, "Oases: devices")
      ->group(Group)
      ->needs(Oases)
      ->capture_default_str()
      ->check(wholeNumber(1, MaxSize));
  App.add_flag("--print-problem", Args.PrintProblem,
               "Print the problem in the contest's form instead of solving it");
}

} // namespace

int runSolveCommand(int Argc, const char *const *Argv) {
  auto Start = std::chrono::steady_clock::now();
  Arguments Args;
  std::string Command = Argc > 0 ? Argv[0] : "heddle solve";
  Args.Program = programName(Command);
  CLI::App App("Chooses one strategy per node at least cost within a memory "
               "limit",
               Command.find(' ') == std::string::npos ? Args.Program : Command);
  App.add_option("problem", Args.ProblemPath,
                 "Problem in the contest's JSON form, plain or gzip");
  App.add_option("--timeout", Args.Options.TimeoutSeconds,
                 "Seconds of wall clock, reading included")
      ->capture_default_str()
      ->check(realBelow(Infinity, "seconds of at least 0"));
  App.add_option("--threads", Args.Options.Threads, "Threads; 0: all")
      ->capture_default_str()
      ->check(wholeNumber(0, 1024));
  App.add_option("--seed", Args.Options.Seed, "Seed of all random choices")
      ->capture_default_str()
      ->check(wholeNumber(0, Most64));
  App.add_option("--gap", Args.Options.Gap, "Stop at this relative gap")
      ->capture_default_str()
      ->check(realBelow(Infinity, "a gap of at least 0"));
  App.add_option("--work-limit", Args.Options.WorkLimit,
                 "Stop after this many table entries, reproducibly; 0: never")
      ->capture_default_str()
      ->check(wholeNumber(0, Most64));
  App.add_option("--trace", Args.TracePath,
                 "Write every improvement to this file, as CSV");
  App.add_option("--check", Args.CheckPath,
                 "Evaluate this assignment instead of searching");
  addConverters(App, Args);
  App.footer("The assignment goes to standard output as a list of strategies, "
             "one per node; all else to standard error.\n"
             "Exit codes: 0 an assignment, 1 none that is feasible, 2 wrong "
             "input or output that could not be written.");
  try {
    App.parse(Argc, Argv);
  } catch (const CLI::Success &Request) { // --help
    return App.exit(Request);
  } catch (const CLI::ParseError &E) {
    complain(Args, {E.what()});
    std::fprintf(stderr, "see %s --help\n", App.get_name().c_str());
    return WrongInput;
  }
  auto I = readInstance(Args);
  if (!I)
    return complain(Args, I.error());
  if (Args.PrintProblem) {
    std::printf("%s\n", printProblem(I->Own).c_str());
    return flushOutput(Args, Done);
  }
  if (!Args.CheckPath.empty())
    return check(I->Own, Args);
  Args.Options.SecondsSpent =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - Start)
          .count();
  return search(*I, Args);
}

} // namespace heddle::solver
