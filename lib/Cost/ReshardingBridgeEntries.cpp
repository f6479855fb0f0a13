//===- ReshardingBridgeEntries.cpp - What groups have to begin with -------===//

#include "BridgeSearch.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace heddle;

/// What a member has after an op; nothing if the group's values do not go
/// together.
std::optional<BridgeSearch::Value>
BridgeSearch::make(const Op &op, const Entry &entry, int64_t member) const {
  auto cut = [&](unsigned dim, Value &value) {
    int64_t rows = llvm::divideCeil(shapeBefore[dim], op.members);
    value.rows[dim] = DimensionRows::take(value.rows[dim], rows * member, rows);
  };
  if (!op.joins()) {
    Value value = given[entry.given[member]];
    if (op.isReduction())
      value.set = entry.block;
    if (op.kind != ReshardingStep::AllReduce)
      cut(op.dim, value);
    return value;
  }
  Runs joined;
  std::optional<Value> common;
  for (int number : entry.given) {
    if (number < 0) {
      DimensionRows::append(joined, {-1, shapeBefore[op.getJoined()]});
      continue;
    }
    Value part = given[number];
    if (op.kind == ReshardingStep::AllToAll)
      cut(op.dim, part);
    for (const DimensionRows::Run &run : part.rows[op.getJoined()])
      DimensionRows::append(joined, run);
    part.rows[op.getJoined()].clear();
    if (common && *common != part)
      return std::nullopt;
    common = std::move(part);
  }
  int64_t rows = shapeAfter[op.getJoined()];
  int64_t dropped = shapeBefore[op.getJoined()] * op.members - rows;
  if (!common ||
      !DimensionRows::isPadding(DimensionRows::take(joined, rows, dropped)))
    return std::nullopt;
  common->rows[op.getJoined()] = DimensionRows::take(joined, 0, rows);
  return common;
}

/// Adds what a group may begin with so that a member ends with something
/// wanted.
void BridgeSearch::addEntries(const Op &op, unsigned target, int64_t member) {
  std::vector<std::vector<int>> choices(op.members);
  for (int64_t i = 0; i < op.members; ++i) {
    Value part = wanted[target];
    if (op.joins())
      part.rows[op.getJoined()] = DimensionRows::take(
          part.rows[op.getJoined()], shapeBefore[op.getJoined()] * i,
          shapeBefore[op.getJoined()]);
    if (op.joins() && DimensionRows::isPadding(part.rows[op.getJoined()])) {
      choices[i] = {-1};
      continue;
    }
    for (unsigned number = 0; number < given.size(); ++number) {
      Value value = given[number];
      if (op.isReduction())
        value.set = part.set;
      if (op.kind != ReshardingStep::AllGather &&
          op.kind != ReshardingStep::AllReduce)
        value.rows[op.dim] =
            DimensionRows::take(value.rows[op.dim], shapeAfter[op.dim] * member,
                                shapeAfter[op.dim]);
      if (value == part)
        choices[i].push_back(int(number));
    }
  }
  if (!op.joins()) {
    // All members begin with the same, of a reduction with the same rows.
    for (int number : choices[0])
      addEntry(op, std::vector<int>(op.members, number), wanted[target].set);
    return;
  }
  std::vector<int> chosen;
  auto extend = [&](auto &&extend) -> void {
    if (int64_t(chosen.size()) == op.members) {
      addEntry(op, chosen, 0);
      return;
    }
    for (int number : choices[chosen.size()]) {
      chosen.push_back(number);
      extend(extend);
      chosen.pop_back();
    }
  };
  extend(extend);
}

void BridgeSearch::addEntry(const Op &op, std::vector<int> values,
                            unsigned block) {
  Entry entry{std::move(values), {}, 0, op.isReduction() ? block : 0};
  if (op.isReduction())
    // Any device's with these rows stands for all.
    for (int &number : entry.given)
      number = int(llvm::find_if(given,
                                 [&](const Value &value) {
                                   return value.rows == given[number].rows;
                                 }) -
                   given.begin());
  if (llvm::is_contained(entries, entry))
    return;
  for (int64_t member = 0; member < op.members; ++member) {
    std::optional<Value> value = make(op, entry, member);
    if (!value)
      return;
    auto known = llvm::find(wanted, *value);
    entry.made.push_back(known == wanted.end() ? -1
                                               : int(known - wanted.begin()));
    if (known != wanted.end())
      entry.covers |= uint64_t(1) << (known - wanted.begin());
  }
  entries.push_back(std::move(entry));
}
