//===- ExplanationReport.cpp - Explanations as text and JSON --------------===//

#include "ExplanationReport.h"

#include "../../common/Mebibytes.h"

#include "heddle/Simulate/Report.h"
#include "heddle/Support/Units.h"

#include "llvm/Support/Format.h"

using namespace heddle;
using namespace heddle::tools;
namespace json = llvm::json;

DeviceMemoryPlan tools::getMostMemory(const PlanExplanation &explanation) {
  DeviceMemoryPlan most;
  for (const DeviceUse &device : explanation.memory)
    if (device.memory.total() > most.total())
      most = device.memory;
  return most;
}

/// Returns whether some device lacks the memory for `bytes` more.
static bool exceeds(const PlanExplanation &explanation, int64_t bytes) {
  return llvm::any_of(explanation.memory, [&](const DeviceUse &device) {
    return device.memory.total() + bytes > device.capacity;
  });
}

/// Returns the resource that limits the operator's time. It is the memory if
/// the runner-up would be faster but does not fit.
static std::string getBinding(const PlanExplanation &explanation,
                              const OperatorUse &use) {
  const OperatorChoice *choice = explanation.findChoice(use.name);
  if (choice && choice->runnerUp &&
      choice->runnerUp->seconds < choice->chosen.seconds &&
      exceeds(explanation, choice->runnerUp->bytes - choice->chosen.bytes))
    return "device memory";
  return use.binds;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

void tools::printHeading(std::initializer_list<llvm::StringRef> columns,
                         llvm::StringRef last) {
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
                      ": %+.4g ms, %+.3f MiB",
                      1e3 * (choice.runnerUp->seconds - choice.chosen.seconds),
                      roundMiB(choice.runnerUp->bytes - choice.chosen.bytes));
}

static void printMemory(const PlanExplanation &explanation) {
  bool areEqual = llvm::all_of(explanation.memory, [&](const DeviceUse &use) {
    return use.capacity == explanation.capacity;
  });
  llvm::outs() << "memory of each device";
  if (areEqual)
    llvm::outs() << llvm::format(", of %.3f MiB",
                                 roundMiB(explanation.capacity));
  llvm::outs() << "\n";
  for (const DeviceUse &device : explanation.memory) {
    llvm::outs() << "  " << device.ranks << ":";
    const char *separator = " ";
    for (const MemoryPart &part : getMemoryParts(device.memory))
      if (part.bytes > 0) {
        llvm::outs() << separator << part.name
                     << llvm::format(" %.3f MiB", roundMiB(part.bytes));
        separator = ", ";
      }
    llvm::outs() << llvm::format("; in all %.3f MiB",
                                 roundMiB(device.memory.total()));
    if (!areEqual)
      llvm::outs() << llvm::format(" of %.3f MiB", roundMiB(device.capacity));
    llvm::outs() << "\n";
  }
}

/// Prints the choices of operators without costs.
static void printSplits(const PlanExplanation &explanation) {
  if (!explanation.choices.empty())
    llvm::outs() << "operators, and how they are split\n";
  for (const OperatorChoice &choice : explanation.choices)
    llvm::outs() << "  " << choice.glob << ": " << choice.chosen.strategy
                 << "\n";
  llvm::outs() << "no estimated costs and no runner-ups: "
               << explanation.whyNoCosts << "\n";
}

void tools::printExplanation(const PlanExplanation &explanation) {
  llvm::outs() << "simulated on " << explanation.devices << " devices of '"
               << explanation.cluster << "'\n"
               << "step " << formatSeconds(explanation.seconds, kStepDigits)
               << ", of which "
               << formatSeconds(explanation.exposed, kStepDigits)
               << " wait for communication; lower bound of this plan's "
                  "schedule "
               << formatSeconds(explanation.bound, kStepDigits) << " ("
               << explanation.boundName << ")\n";
  printMemory(explanation);
  for (const std::string &kinds : explanation.mixed)
    llvm::outs() << "ranks that do the same have several kinds of device ("
                 << kinds << "): they take the time of the weakest\n";
  if (!explanation.sliced.empty())
    llvm::outs() << "operators in slices\n";
  for (const SlicedOperator &sliced : explanation.sliced)
    llvm::outs() << "  " << sliced.name << ": " << sliced.describe() << "\n";
  printHeading({"operator (simulated)", "compute ms", "wait ms", "sent MiB"},
               "binds");
  for (const OperatorUse &use : explanation.uses)
    llvm::outs() << llvm::format("%-28s %12.4g %12.4g %12.3f  ",
                                 use.name.c_str(), 1e3 * use.computing,
                                 1e3 * use.exposed, roundMiB(use.bytesSent))
                 << getBinding(explanation, use) << "\n";
  if (!explanation.whyNoCosts.empty()) {
    printSplits(explanation);
    return;
  }
  llvm::outs()
      << "runner-up: the cheapest other choice; a negative difference means "
         "that it takes less\n"
         "  estimated for this operator, with the reshardings at its borders, "
         "not for a step;\n"
         "  equal layers are summed. The plan's choices were made for all "
         "operators together:\n"
         "  a runner-up may need more memory, or other reshardings elsewhere\n";
  for (bool areVariables : {false, true}) {
    llvm::outs() << (areVariables ? "variables, and where they are stored "
                                    "(estimated)\n"
                                  : "operators, and how they are split "
                                    "(estimated)\n");
    int64_t free = 0;
    for (const OperatorChoice &choice : explanation.choices) {
      if (choice.isVariable != areVariables)
        continue;
      // A variable whose storage takes no time already has the layout of its
      // uses.
      if (areVariables && choice.chosen.seconds == 0) {
        free += choice.count;
        continue;
      }
      llvm::outs() << "  " << choice.glob << ": " << choice.chosen.strategy
                   << llvm::format(" %.4g ms, %.3f MiB",
                                   1e3 * choice.chosen.seconds,
                                   roundMiB(choice.chosen.bytes));
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
                      const StrategyCost &cost, bool isKnown = true) {
  out.attributeObject(key, [&] {
    if (llvm::Expected<json::Value> strategy = json::parse(cost.strategy))
      out.attribute("strategy", *strategy);
    else
      llvm::consumeError(strategy.takeError());
    if (!isKnown)
      return;
    out.attribute("seconds", cost.seconds);
    out.attribute("bytes", cost.bytes);
  });
}

void tools::writeExplanation(json::OStream &out,
                             const PlanExplanation &explanation) {
  out.attributeObject("simulated", [&] {
    writeStepTimes(out, explanation.cluster, explanation.devices,
                   explanation.seconds, explanation.exposed);
    out.attribute("bound", explanation.bound);
    out.attribute("bound_by", explanation.boundName);
    out.attribute("capacity", explanation.capacity);
    out.attributeArray("memory", [&] {
      for (const DeviceUse &device : explanation.memory)
        out.object([&] {
          out.attribute("ranks", device.ranks);
          writeMemoryParts(out, device.memory);
          out.attribute("capacity", device.capacity);
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
  out.attributeArray("splits", [&] {
    for (const SlicedOperator &sliced : explanation.sliced)
      out.object([&] {
        out.attribute("name", sliced.name);
        out.attribute("factor", sliced.factor);
        out.attribute("slices", sliced.slices);
        out.attribute("sharded", sliced.sharded);
      });
  });
  out.attributeObject("estimated", [&] {
    if (!explanation.whyNoCosts.empty())
      out.attribute("unknown", explanation.whyNoCosts);
    out.attributeArray("choices", [&] {
      for (const OperatorChoice &choice : explanation.choices)
        out.object([&] {
          out.attribute(choice.isVariable ? "variables" : "operators",
                        choice.glob);
          out.attribute("count", choice.count);
          writeCost(out, "chosen", choice.chosen, choice.hasCost);
          if (choice.runnerUp)
            writeCost(out, "runner_up", *choice.runnerUp);
        });
    });
  });
}
