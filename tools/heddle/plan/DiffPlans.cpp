//===- DiffPlans.cpp - Two plans compared by operator ---------------------===//

#include "DiffPlans.h"
#include "ExplanationReport.h"

#include "../../common/Mebibytes.h"

#include "heddle/Simulate/Report.h"

#include "llvm/Support/Format.h"

#include <cmath>
#include <functional>
#include <map>

using namespace heddle;
using namespace heddle::tools;
namespace json = llvm::json;

namespace {
/// One line in two plans. A plan whose program fuses its operators with others
/// may lack its use.
struct OperatorDifference {
  std::string name;
  OperatorUse before, after;
  std::string chosenBefore, chosenAfter;
  std::string slicesBefore = "whole", slicesAfter = "whole";
  bool isVariable = false;
  bool isUsed = false; ///< an operator, or a variable that calls serve

  /// Sums of equal times in another order differ by less than a picosecond.
  double getSeconds() const {
    double seconds = after.getSeconds() - before.getSeconds();
    return std::abs(seconds) < 1e-12 ? 0 : seconds;
  }
  /// Plans do not state the layout of every variable, so that alone is no
  /// difference.
  bool isNone() const {
    return getSeconds() == 0 && before.bytesSent == after.bytesSent &&
           (isVariable || chosenBefore == chosenAfter) &&
           slicesBefore == slicesAfter;
  }
};
} // namespace

/// Returns the lines of both plans, the largest difference in time first.
static std::vector<OperatorDifference>
findDifferences(const PlanExplanation &before, const PlanExplanation &after) {
  LineNames lines = nameLines({&before, &after});
  std::map<std::string, OperatorDifference> found;
  auto take = [&](const PlanExplanation &side, auto use, auto chosen,
                  auto slices) {
    for (const OperatorUse &each : groupUses(side, lines)) {
      found[each.name].*use = each;
      found[each.name].isUsed = true;
    }
    for (const OperatorChoice &choice : side.choices)
      for (const std::string &name : choice.names) {
        OperatorDifference &difference = found[lines.at(name)];
        difference.*chosen = choice.chosen.strategy;
        difference.isVariable = choice.isVariable;
        difference.isUsed |= !choice.isVariable;
      }
    for (const SlicedOperator &sliced : groupSliced(side, lines)) {
      found[sliced.name].*slices = sliced.describe();
      found[sliced.name].isUsed = true;
    }
  };
  take(before, &OperatorDifference::before, &OperatorDifference::chosenBefore,
       &OperatorDifference::slicesBefore);
  take(after, &OperatorDifference::after, &OperatorDifference::chosenAfter,
       &OperatorDifference::slicesAfter);
  std::vector<OperatorDifference> differences;
  for (auto &[name, difference] : found)
    if (difference.isUsed) {
      difference.name = name;
      differences.push_back(std::move(difference));
    }
  llvm::sort(differences, [](const auto &a, const auto &b) {
    return std::tuple(-std::abs(a.getSeconds()), a.name) <
           std::tuple(-std::abs(b.getSeconds()), b.name);
  });
  return differences;
}

void tools::printDifferences(const PlanExplanation &before,
                             const PlanExplanation &after) {
  auto row = [](const std::string &name, double a, double b) {
    llvm::outs() << llvm::format("%-28s %12.4g %12.4g %+12.4g\n", name.c_str(),
                                 a, b, b - a);
  };
  printHeading({"simulated", "first", "second", "difference"});
  auto rowMiB = [](const std::string &name, double a, double b) {
    llvm::outs() << llvm::format("%-28s %12.3f %12.3f %+12.3f\n", name.c_str(),
                                 roundMiB(a), roundMiB(b), roundMiB(b - a));
  };
  row("step, ms", 1e3 * before.seconds, 1e3 * after.seconds);
  row("waits, ms", 1e3 * before.exposed, 1e3 * after.exposed);
  DeviceMemoryPlan a = getMostMemory(before), b = getMostMemory(after);
  for (auto [x, y] : llvm::zip(getMemoryParts(a), getMemoryParts(b)))
    if (x.bytes > 0 || y.bytes > 0)
      rowMiB(x.name.str() + ", MiB", x.bytes, y.bytes);
  rowMiB("memory, MiB", a.total(), b.total());
  std::vector<OperatorDifference> differences = findDifferences(before, after);
  size_t numOperators = differences.size();
  llvm::erase_if(differences, std::mem_fn(&OperatorDifference::isNone));
  if (differences.empty()) {
    llvm::outs() << "no operator differs, of " << numOperators << " (--json)\n";
    return;
  }
  printHeading(
      {"operator (simulated)", "first ms", "second ms", "ms", "sent MiB"},
      "chosen (estimated)");
  for (const OperatorDifference &difference : differences) {
    llvm::outs() << llvm::format(
        "%-28s %12.4g %12.4g %+12.4g %+12.3f", difference.name.c_str(),
        1e3 * difference.before.getSeconds(),
        1e3 * difference.after.getSeconds(), 1e3 * difference.getSeconds(),
        roundMiB(difference.after.bytesSent - difference.before.bytesSent));
    // A choice that is not known is empty.
    if (difference.chosenBefore != difference.chosenAfter &&
        !difference.chosenBefore.empty() && !difference.chosenAfter.empty())
      llvm::outs() << "  " << difference.chosenBefore << " -> "
                   << difference.chosenAfter;
    if (difference.slicesBefore != difference.slicesAfter)
      llvm::outs() << "  " << difference.slicesBefore << " -> "
                   << difference.slicesAfter;
    llvm::outs() << "\n";
  }
  if (size_t numEqual = numOperators - differences.size(); numEqual > 0)
    llvm::outs() << numEqual << " others do not differ (--json)\n";
}

void tools::writeDifferences(json::OStream &out, const PlanExplanation &before,
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
