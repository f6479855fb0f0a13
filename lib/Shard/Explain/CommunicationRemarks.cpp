//===- CommunicationRemarks.cpp - Groups remarks that are alike -----------===//

#include "CommunicationRemarks.h"
#include "heddle/Plan/Plan.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace heddle;

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

std::string heddle::describeAxes(ArrayRef<StringAttr> axes) {
  std::string text = "{";
  for (StringAttr axis : axes)
    text += (text.size() == 1 ? "\"" : ", \"") + axis.str() + "\"";
  return text + "}";
}

std::string heddle::describeSharding(ShardingAttr sharding) {
  std::string text = "[";
  for (auto [i, dim] : llvm::enumerate(sharding.getDims()))
    text += (i ? ", " : "") + describeAxes(dim.getAxes());
  text += "]";
  if (sharding.isPartial())
    text += ", partial " +
            stringifyReductionKind(sharding.getPartialKind()).str() + " " +
            describeAxes(sharding.getPartialAxes());
  return text;
}

std::string heddle::describeOperator(Operation *op) {
  if (auto load = dyn_cast<LoadOp>(op))
    return "variable '" + load.getVariable().str() + "'";
  if (auto store = dyn_cast<StoreOp>(op))
    return "variable '" + store.getVariable().str() + "'";
  if (StringRef name = getOpName(op); !name.empty())
    return "'" + name.str() + "' (" + op->getName().getStringRef().str() + ")";
  return "'" + op->getName().getStringRef().str() + "'";
}

/// Returns `text` with '*' in place of each number that is a part of a dotted,
/// quoted name: 'h.0.attn' becomes 'h.*.attn'.
static std::string globNumbers(StringRef text) {
  std::string glob;
  auto isQuote = [](char c) { return c == '\'' || c == '"'; };
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && llvm::isDigit(text[end]))
      ++end;
    if (end == i) {
      glob += text[i++];
      continue;
    }
    char before = i == 0 ? '\'' : text[i - 1];
    char after = end == text.size() ? '\'' : text[end];
    bool isPart = (before == '.' && (after == '.' || isQuote(after))) ||
                  (isQuote(before) && after == '.');
    glob += isPart ? std::string("*") : text.slice(i, end).str();
    i = end;
  }
  return glob;
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

void CommunicationRemarks::add(CommunicationRemark remark) {
  if (!isWanted(remark.cost))
    return;
  std::string key =
      globNumbers(remark.text) + "\n" + std::to_string(remark.cost.bytes);
  for (const CommunicationRemark::Note &note : remark.notes)
    key += "\n" + globNumbers(note.text);
  auto [entry, isNew] = groupOf.try_emplace(key, groups.size());
  if (isNew)
    groups.emplace_back();
  groups[entry->second].push_back(std::move(remark));
}

/// Returns the names that a plan can use: those of operators and variables.
static llvm::StringSet<> findNames(ModuleOp module) {
  llvm::StringSet<> names;
  module.walk([&](Operation *op) {
    if (auto variable = dyn_cast<VariableOp>(op))
      names.insert(variable.getSymName());
    else if (StringRef name = getOpName(op); !name.empty())
      names.insert(name);
  });
  return names;
}

/// Returns a note's text for all remarks of a group. It has globs if these
/// match only names that occur in the group's notes.
static std::string generalizeNote(ArrayRef<CommunicationRemark> group,
                                  size_t note, const llvm::StringSet<> &names) {
  const CommunicationRemark::Note &first = group.front().notes[note];
  bool isOne = llvm::all_of(group, [&](const CommunicationRemark &remark) {
    return remark.notes[note].text == first.text;
  });
  if (isOne || first.names.empty())
    return first.text;
  for (auto [i, name] : llvm::enumerate(first.names)) {
    llvm::StringSet<> members;
    for (const CommunicationRemark &remark : group)
      members.insert(remark.notes[note].names[i]);
    std::string glob = globNumbers(name);
    for (const auto &other : names)
      if (matchesGlob(glob, other.getKey()) &&
          !members.contains(other.getKey()))
        return first.text;
  }
  return globNumbers(first.text);
}

std::string heddle::describeCost(const CollectiveCost &cost) {
  std::string text = std::to_string(cost.bytes) + " bytes in ";
  llvm::raw_string_ostream(text)
      << llvm::format("%.3g", cost.seconds * 1e3) << " ms";
  return text;
}

void CommunicationRemarks::emit(ModuleOp module) const {
  if (groups.empty())
    return;
  llvm::StringSet<> names = findNames(module);
  for (ArrayRef<CommunicationRemark> group : groups) {
    const CommunicationRemark &first = group.front();
    InFlightDiagnostic remark = emitRemark(first.location);
    remark << first.text << "; a device sends " << describeCost(first.cost)
           << " on '" << cluster << "'";
    if (group.size() > 1) {
      CollectiveCost sum;
      for (const CommunicationRemark &member : group)
        sum += member.cost;
      remark << "; the same for " << group[1].subject;
      if (group.size() > 2)
        remark << (group.size() > 3 ? ", ..., " : ", ") << group.back().subject;
      remark << ": " << group.size() << " times, " << describeCost(sum)
             << " in all";
    }
    for (auto [i, note] : llvm::enumerate(first.notes))
      remark.attachNote(note.location) << generalizeNote(group, i, names);
  }
}
