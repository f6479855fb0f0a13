//===- ExplainPlan.cpp - Plans explained and compared ---------------------===//

#include "ExplainPlan.h"

#include "../common/Run.h"

#include "heddle/Plan/Plan.h"
#include "heddle/Planner/Explain.h"
#include "heddle/Report/Report.h"
#include "heddle/Simulate/Report.h"
#include "heddle_rt/atomic_file.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"

#include <cmath>
#include <set>

using namespace heddle;
using namespace heddle::tools;
namespace json = llvm::json;

//===----------------------------------------------------------------------===//
// Explanations
//===----------------------------------------------------------------------===//

static bool isStated(const CompileFlags &flags, llvm::StringRef name) {
  return llvm::any_of(flags.trainingOptions, [&](const CLI::Option *option) {
    return option->get_name() == name && option->count() > 0;
  });
}

/// Takes from the plan's prediction what the flags do not state of the step.
static void usePrediction(CompileFlags &flags, const Plan &plan,
                          std::optional<ModelKind> kind) {
  if (!plan.prediction)
    return;
  TrainingOptions &training = flags.options.training;
  if (!isStated(flags, "--micro-batches"))
    training.microBatches = plan.prediction->microBatches;
  if (!isStated(flags, "--bf16"))
    training.bf16 = plan.prediction->bf16;
  // An .mlir file has its batch.
  if (!flags.model.batch && kind != ModelKind::Module)
    flags.model.batch =
        std::max<int64_t>(1, plan.prediction->rows / training.microBatches);
}

/// Prints an error and returns nullopt if the plan cannot be explained.
static std::optional<PlanExplanation> explain(CompileFlags flags,
                                              const std::string &path) {
  llvm::Expected<Plan> plan = readPlanFile(path);
  if (!plan) {
    reportError(llvm::toString(plan.takeError()));
    return std::nullopt;
  }
  std::optional<ModelKind> kind;
  if (!flags.model.path.empty()) {
    kind = classifyModel(flags.model.path);
    if (!kind)
      return std::nullopt;
  }
  usePrediction(flags, *plan, kind);
  flags.plan = path;
  if (resolvePlan(flags) != exitSuccess)
    return std::nullopt;
  llvm::Expected<const Cluster &> cluster = flags.options.cluster.load();
  if (!cluster) {
    reportError(llvm::toString(cluster.takeError()));
    return std::nullopt;
  }
  Compiler compiler;
  auto module = loadModel(compiler, flags.model);
  if (failed(module))
    return std::nullopt;
  if (!isModel(**module) && !checkNoTrainingOptions(flags))
    return std::nullopt;
  auto explanation = explainPlan(**module, flags.options, *cluster);
  if (failed(explanation))
    return std::nullopt;
  return std::move(*explanation);
}

/// Returns the memory of the devices that need most.
static DeviceMemoryPlan getMostMemory(const PlanExplanation &explanation) {
  DeviceMemoryPlan most;
  for (const DeviceUse &device : explanation.memory)
    if (device.memory.total() > most.total())
      most = device.memory;
  return most;
}

/// Returns what keeps the operator from taking less time: the memory, if the
/// runner-up would be faster and does not fit.
static std::string getBinding(const PlanExplanation &explanation,
                              const OperatorUse &use) {
  const OperatorChoice *choice = explanation.findChoice(use.name);
  if (choice && choice->runnerUp &&
      choice->runnerUp->seconds < choice->chosen.seconds &&
      getMostMemory(explanation).total() + choice->runnerUp->bytes -
              choice->chosen.bytes >
          explanation.capacity)
    return "device memory";
  return use.binds;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static double inMiB(int64_t bytes) { return double(bytes) / double(1 << 20); }

/// Prints the heading of a table: a name, columns of numbers, and a text.
static void printHeading(std::initializer_list<llvm::StringRef> columns,
                         llvm::StringRef last = "") {
  for (const llvm::StringRef *column = columns.begin(); column != columns.end();
       ++column)
    llvm::outs() << (column == columns.begin()
                         ? llvm::left_justify(*column, 28)
                         : llvm::right_justify(*column, 13));
  llvm::outs() << (last.empty() ? "" : "  ") << last << "\n";
}

static void printRunnerUp(const OperatorChoice &choice) {
  if (!choice.runnerUp)
    return;
  llvm::outs() << "  runner-up " << choice.runnerUp->strategy
               << llvm::format(
                      ": %+.4g ms, %+.1f MiB",
                      1e3 * (choice.runnerUp->seconds - choice.chosen.seconds),
                      inMiB(choice.runnerUp->bytes - choice.chosen.bytes));
}

static void printMemory(const PlanExplanation &explanation) {
  llvm::outs() << llvm::format("memory of each device, of %.1f MiB\n",
                               inMiB(explanation.capacity));
  for (const DeviceUse &device : explanation.memory) {
    llvm::outs() << "  " << device.ranks << ":";
    const char *separator = " ";
    for (const MemoryPart &part : getMemoryParts(device.memory))
      if (part.bytes > 0) {
        llvm::outs() << separator << part.name
                     << llvm::format(" %.1f MiB", inMiB(part.bytes));
        separator = ", ";
      }
    llvm::outs() << llvm::format("; in all %.1f MiB\n",
                                 inMiB(device.memory.total()));
  }
}

static void printExplanation(const PlanExplanation &explanation) {
  llvm::outs() << "simulated on " << explanation.devices << " devices of '"
               << explanation.cluster << "'\n"
               << llvm::format("step %.4g ms, of which %.4g ms wait for "
                               "communication; bound %.4g ms (",
                               1e3 * explanation.seconds,
                               1e3 * explanation.exposed,
                               1e3 * explanation.bound)
               << explanation.boundName << ")\n";
  printMemory(explanation);
  printHeading({"operator (simulated)", "compute ms", "wait ms", "sent MiB"},
               "binds");
  for (const OperatorUse &use : explanation.uses)
    llvm::outs() << llvm::format("%-28s %12.4g %12.4g %12.4g  ",
                                 use.name.c_str(), 1e3 * use.computing,
                                 1e3 * use.exposed, inMiB(use.bytesSent))
                 << getBinding(explanation, use) << "\n";
  if (!explanation.whyNoChoices.empty()) {
    llvm::outs() << "no runner-ups: " << explanation.whyNoChoices << "\n";
    return;
  }
  for (bool areVariables : {false, true}) {
    llvm::outs() << (areVariables ? "variables, and where they are stored "
                                    "(estimated)\n"
                                  : "operators, and how they are split "
                                    "(estimated)\n");
    int64_t free = 0;
    for (const OperatorChoice &choice : explanation.choices) {
      if (choice.isVariable != areVariables)
        continue;
      // What costs nothing is stored as its uses want it.
      if (areVariables && choice.chosen.seconds == 0) {
        free += choice.count;
        continue;
      }
      llvm::outs() << "  " << choice.glob << ": " << choice.chosen.strategy
                   << llvm::format(" %.4g ms, %.1f MiB",
                                   1e3 * choice.chosen.seconds,
                                   inMiB(choice.chosen.bytes));
      printRunnerUp(choice);
      llvm::outs() << "\n";
    }
    if (free > 0)
      llvm::outs() << "  " << free
                   << " others, whose storage costs no time (--json)\n";
  }
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

static void writeCost(json::OStream &out, const char *key,
                      const StrategyCost &cost) {
  out.attributeObject(key, [&] {
    if (llvm::Expected<json::Value> strategy = json::parse(cost.strategy))
      out.attribute("strategy", *strategy);
    else
      llvm::consumeError(strategy.takeError());
    out.attribute("seconds", cost.seconds);
    out.attribute("bytes", cost.bytes);
  });
}

static void writeExplanation(json::OStream &out,
                             const PlanExplanation &explanation) {
  out.attributeObject("simulated", [&] {
    out.attribute("cluster", explanation.cluster);
    out.attribute("devices", explanation.devices);
    out.attribute("seconds", explanation.seconds);
    out.attribute("exposed", explanation.exposed);
    out.attribute("bound", explanation.bound);
    out.attribute("bound_by", explanation.boundName);
    out.attribute("capacity", explanation.capacity);
    out.attributeArray("memory", [&] {
      for (const DeviceUse &device : explanation.memory)
        out.object([&] {
          out.attribute("ranks", device.ranks);
          for (const MemoryPart &part : getMemoryParts(device.memory))
            out.attribute(part.key, part.bytes);
          out.attribute("total", device.memory.total());
        });
    });
    out.attributeArray("operators", [&] {
      for (const OperatorUse &use : explanation.uses)
        out.object([&] {
          out.attribute("name", use.name);
          out.attribute("computing", use.computing);
          out.attribute("communicating", use.communicating);
          out.attribute("exposed", use.exposed);
          out.attribute("bytes_sent", use.bytesSent);
          out.attribute("binds", getBinding(explanation, use));
        });
    });
  });
  out.attributeObject("estimated", [&] {
    if (!explanation.whyNoChoices.empty())
      out.attribute("unknown", explanation.whyNoChoices);
    out.attributeArray("choices", [&] {
      for (const OperatorChoice &choice : explanation.choices)
        out.object([&] {
          out.attribute(choice.isVariable ? "variables" : "operators",
                        choice.glob);
          out.attribute("count", choice.count);
          writeCost(out, "chosen", choice.chosen);
          if (choice.runnerUp)
            writeCost(out, "runner_up", *choice.runnerUp);
        });
    });
  });
}

int tools::explainPlanFile(const CompileFlags &flags, const std::string &plan,
                           bool asJson, const std::string &page) {
  std::optional<PlanExplanation> explanation = explain(flags, plan);
  if (!explanation)
    return exitFailure;
  std::string text;
  llvm::raw_string_ostream stream(text);
  json::OStream out(stream, /*IndentSize=*/1);
  out.object([&] { writeExplanation(out, *explanation); });
  stream.flush();
  if (!page.empty()) {
    runtime::Status status =
        runtime::writeFileAtomically(page, makePlanPage(text, plan));
    if (!status.ok())
      return reportError(std::string(status.message()));
  }
  if (asJson) {
    llvm::outs() << text << "\n";
  } else {
    printExplanation(*explanation);
  }
  llvm::outs().flush();
  return exitSuccess;
}

//===----------------------------------------------------------------------===//
// Differences
//===----------------------------------------------------------------------===//

namespace {
/// One operator in two plans. A plan whose program fuses it with others may
/// lack it.
struct OperatorDifference {
  std::string name;
  OperatorUse before, after;
  std::string chosenBefore, chosenAfter;

  /// Sums of equal times in another order differ by less than a picosecond.
  double getSeconds() const {
    double seconds = after.getSeconds() - before.getSeconds();
    return std::abs(seconds) < 1e-12 ? 0 : seconds;
  }
};
} // namespace

static const OperatorUse *findUse(const PlanExplanation &explanation,
                                  llvm::StringRef name) {
  for (const OperatorUse &use : explanation.uses)
    if (use.name == name)
      return &use;
  return nullptr;
}

/// Returns the operators of both plans, the largest difference in time first.
static std::vector<OperatorDifference>
findDifferences(const PlanExplanation &before, const PlanExplanation &after) {
  std::set<std::string> names;
  for (const PlanExplanation *side : {&before, &after})
    for (const OperatorUse &use : side->uses)
      names.insert(use.name);
  std::vector<OperatorDifference> differences;
  for (const std::string &name : names) {
    OperatorDifference &difference = differences.emplace_back();
    difference.name = name;
    auto take = [&](const PlanExplanation &side, OperatorUse &use,
                    std::string &chosen) {
      if (const OperatorUse *found = findUse(side, name))
        use = *found;
      if (const OperatorChoice *choice = side.findChoice(name))
        chosen = choice->chosen.strategy;
    };
    take(before, difference.before, difference.chosenBefore);
    take(after, difference.after, difference.chosenAfter);
  }
  llvm::sort(differences, [](const auto &a, const auto &b) {
    return std::tuple(-std::abs(a.getSeconds()), a.name) <
           std::tuple(-std::abs(b.getSeconds()), b.name);
  });
  return differences;
}

static void printDifferences(const PlanExplanation &before,
                             const PlanExplanation &after) {
  auto row = [](const std::string &name, double a, double b) {
    llvm::outs() << llvm::format("%-28s %12.4g %12.4g %+12.4g\n", name.c_str(),
                                 a, b, b - a);
  };
  printHeading({"simulated", "first", "second", "difference"});
  row("step, ms", 1e3 * before.seconds, 1e3 * after.seconds);
  row("waits, ms", 1e3 * before.exposed, 1e3 * after.exposed);
  DeviceMemoryPlan a = getMostMemory(before), b = getMostMemory(after);
  for (auto [x, y] : llvm::zip(getMemoryParts(a), getMemoryParts(b)))
    if (x.bytes > 0 || y.bytes > 0)
      row(x.name.str() + ", MiB", inMiB(x.bytes), inMiB(y.bytes));
  row("memory, MiB", inMiB(a.total()), inMiB(b.total()));
  printHeading(
      {"operator (simulated)", "first ms", "second ms", "ms", "sent MiB"},
      "chosen (estimated)");
  for (const OperatorDifference &difference : findDifferences(before, after)) {
    llvm::outs() << llvm::format(
        "%-28s %12.4g %12.4g %+12.4g %+12.4g", difference.name.c_str(),
        1e3 * difference.before.getSeconds(),
        1e3 * difference.after.getSeconds(), 1e3 * difference.getSeconds(),
        inMiB(difference.after.bytesSent - difference.before.bytesSent));
    if (difference.chosenBefore != difference.chosenAfter)
      llvm::outs() << "  " << difference.chosenBefore << " -> "
                   << difference.chosenAfter;
    llvm::outs() << "\n";
  }
}

static void writeDifferences(json::OStream &out, const PlanExplanation &before,
                             const PlanExplanation &after) {
  out.attributeObject("first", [&] { writeExplanation(out, before); });
  out.attributeObject("second", [&] { writeExplanation(out, after); });
  out.attributeObject("difference", [&] {
    out.attribute("seconds", after.seconds - before.seconds);
    out.attribute("exposed", after.exposed - before.exposed);
    out.attribute("memory",
                  getMostMemory(after).total() - getMostMemory(before).total());
    out.attributeArray("operators", [&] {
      for (const OperatorDifference &each : findDifferences(before, after))
        out.object([&] {
          out.attribute("name", each.name);
          out.attribute("seconds", each.getSeconds());
          out.attribute("computing",
                        each.after.computing - each.before.computing);
          out.attribute("exposed", each.after.exposed - each.before.exposed);
          out.attribute("bytes_sent",
                        each.after.bytesSent - each.before.bytesSent);
        });
    });
  });
}

int tools::diffPlanFiles(const CompileFlags &flags, const std::string &before,
                         const std::string &after, bool asJson) {
  std::optional<PlanExplanation> first = explain(flags, before);
  std::optional<PlanExplanation> second;
  if (first)
    second = explain(flags, after);
  if (!second)
    return exitFailure;
  if (asJson) {
    json::OStream out(llvm::outs(), /*IndentSize=*/1);
    out.object([&] { writeDifferences(out, *first, *second); });
    llvm::outs() << "\n";
  } else {
    printDifferences(*first, *second);
  }
  llvm::outs().flush();
  return exitSuccess;
}
