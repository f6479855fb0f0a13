//===- Lines.cpp - The lines of an explanation ----------------------------===//

#include "Lines.h"
#include "heddle/Simulate/Report.h"
#include "llvm/ADT/StringExtras.h"
#include <optional>
#include <set>

using namespace mlir;
using namespace heddle;

/// Returns the name's words that are numbers.
static std::vector<int64_t> getNumbers(StringRef name) {
  std::vector<int64_t> numbers;
  for (StringRef word : llvm::split(name, '.'))
    if (int64_t number = 0; !word.getAsInteger(10, number))
      numbers.push_back(number);
  return numbers;
}

/// Returns "3" or "{1-3,5}".
static std::string formatNumbers(const std::set<int64_t> &numbers) {
  std::vector<std::string> ranges;
  for (auto i = numbers.begin(); i != numbers.end();) {
    int64_t first = *i, last = first;
    while (++i != numbers.end() && *i == last + 1)
      ++last;
    ranges.push_back(first == last
                         ? std::to_string(first)
                         : std::to_string(first) + "-" + std::to_string(last));
  }
  if (numbers.size() == 1)
    return ranges.front();
  return "{" + llvm::join(ranges, ",") + "}";
}

/// Returns the name of a line of `names`, which differ in their numbers alone:
/// "h.{1-3}.mlp.c_fc". If several of their numbers differ, lists the names.
static std::string nameLayers(ArrayRef<std::string> names) {
  std::vector<std::set<int64_t>> numbers(getNumbers(names.front()).size());
  for (const std::string &name : names)
    for (auto [known, number] : llvm::zip(numbers, getNumbers(name)))
      known.insert(number);
  if (llvm::count_if(numbers, [](const auto &of) { return of.size() > 1; }) > 1)
    return llvm::join(names, " and ");
  std::string line;
  unsigned next = 0;
  for (StringRef word : llvm::split(names.front(), '.')) {
    bool isNumber = !word.empty() && llvm::all_of(word, llvm::isDigit);
    line += (line.empty() ? "" : ".") +
            (isNumber ? formatNumbers(numbers[next++]) : word.str());
  }
  return line;
}

LineNames heddle::nameLines(ArrayRef<const PlanExplanation *> plans) {
  // The choice and the slices of each name in each plan.
  std::map<std::string, std::vector<std::string>> choicesOf;
  for (auto [i, plan] : llvm::enumerate(plans)) {
    auto note = [&](const std::string &name, const std::string &choice) {
      std::vector<std::string> &known = choicesOf[name];
      known.resize(plans.size());
      known[i] += choice;
    };
    for (const OperatorUse &use : plan->usesOfNames)
      note(use.name, "");
    for (const OperatorChoice &choice : plan->choices)
      for (const std::string &name : choice.names)
        note(name, choice.chosen.strategy);
    for (const SlicedOperator &sliced : plan->slicedOfNames)
      note(sliced.name, " in " + sliced.describe());
  }
  std::map<std::string,
           std::map<std::vector<std::string>, std::vector<std::string>>>
      names;
  for (const auto &[name, choices] : choicesOf)
    names[generalizeNames(name)][choices].push_back(name);
  LineNames lines;
  for (const auto &[form, groups] : names)
    for (const auto &[choices, group] : groups) {
      std::string line = groups.size() == 1 ? form : nameLayers(group);
      for (const std::string &name : group)
        lines[name] = line;
    }
  return lines;
}

void heddle::nameLine(OperatorChoice &choice, const LineNames &lines) {
  std::vector<std::string> own;
  bool isSplit = false;
  for (const std::string &name : choice.names) {
    const std::string &line = lines.at(name);
    isSplit |= line != generalizeNames(name);
    if (!llvm::is_contained(own, line))
      own.push_back(line);
  }
  // Otherwise, the glob may be shorter.
  if (isSplit)
    choice.glob = llvm::join(own, ", ");
}

std::string SlicedOperator::describe() const {
  std::string text = std::to_string(slices) + " slices of " + factor;
  if (sharded < slices)
    text +=
        ", " + std::to_string(sharded) + " of them stored as \"storage\" says";
  return text;
}

std::vector<SlicedOperator>
heddle::groupSliced(const PlanExplanation &explanation,
                    const LineNames &lines) {
  std::vector<SlicedOperator> grouped;
  std::set<std::string> seen;
  for (SlicedOperator sliced : explanation.slicedOfNames) {
    sliced.name = lines.at(sliced.name);
    if (seen.insert(sliced.name).second)
      grouped.push_back(std::move(sliced));
  }
  return grouped;
}

std::vector<OperatorUse> heddle::groupUses(const PlanExplanation &explanation,
                                           const LineNames &lines) {
  std::map<std::string, OperatorUse> entries;
  for (const OperatorUse &use : explanation.usesOfNames) {
    const std::string &line = lines.at(use.name);
    OperatorUse &entry = entries[line];
    entry.name = line;
    entry.computing += use.computing;
    entry.communicating += use.communicating;
    entry.exposed += use.exposed;
    entry.bytesSent += use.bytesSent;
    for (const auto &[part, seconds] : use.parts)
      entry.parts[part] += seconds;
  }
  std::vector<OperatorUse> uses;
  for (auto &[name, entry] : entries) {
    double most = 0;
    for (const auto &[part, seconds] : entry.parts)
      if (seconds > most) {
        most = seconds;
        entry.binds = part;
      }
    uses.push_back(std::move(entry));
  }
  llvm::sort(uses, [](const OperatorUse &a, const OperatorUse &b) {
    return std::tuple(-a.getSeconds(), a.name) <
           std::tuple(-b.getSeconds(), b.name);
  });
  return uses;
}
