//===- ReshardingSearchBridges.cpp - A permute, another op and a permute --===//
//
// What each group of the op in the middle is given is tried in all ways of
// which something that a layout needs comes out; else the group stands aside.
// A group of a reduction is given some or all summands of some rows, each once,
// on any of its members.
//
//===----------------------------------------------------------------------===//

#include "ReshardingSearch.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <bitset>
#include <limits>

using namespace heddle;
using namespace heddle::test;
using llvm::ArrayRef;

class ReshardingSearch::BridgeSearch {
public:
  BridgeSearch(ReshardingSearch &search, unsigned state, size_t model,
               const std::vector<Costs> &bounds,
               llvm::function_ref<void(unsigned, const Costs &)> visit)
      : search(search), from(search.states[state]), model(model),
        bounds(bounds), topology(search.models[model].topology), visit(visit),
        zero(search.make(from.devices[0].rows, 0)),
        contents(search.getDistinct(from)) {
    const Cluster &cluster = topology.getCluster();
    top = &cluster.levels[topology.getMeetingLevel(0, search.devices - 1)];
    unitSize = int(topology.getUnitSize(unsigned(top - cluster.levels.data())));
    bytes = double(search.getBytes(from.devices[0]) *
                   search.models[model].elementBytes);
  }

  void run() {
    for (const Op &op : search.getOps(from))
      tryOp(op);
  }

private:
  /// Bits by rows and summand.
  using Wanted = std::bitset<512>;
  struct Target {
    unsigned layout;
    Wanted wanted;
    int64_t bound; ///< picoseconds of both permutes
  };
  /// What the members of a group are given (of a reduction, all of them
  /// together what the first says), and what comes out.
  struct Entry {
    std::vector<Content> given, made;
    Wanted covers;
  };

  static bool isReduction(const Op &op) {
    return op.kind == ReshardingStep::AllReduce ||
           op.kind == ReshardingStep::ReduceScatter;
  }
  static bool joins(const Op &op) {
    return op.kind == ReshardingStep::AllGather ||
           op.kind == ReshardingStep::AllToAll;
  }

  Sizes getSizesAfter(const Op &op) const {
    Sizes sizes = search.getSizes(from.devices[0]);
    auto cut = [&](unsigned dim) {
      sizes[dim] = llvm::divideCeil(sizes[dim], op.order->members);
    };
    if (op.kind == ReshardingStep::Slice ||
        op.kind == ReshardingStep::ReduceScatter)
      cut(op.dim);
    if (op.kind == ReshardingStep::AllToAll)
      cut(op.split);
    if (joins(op))
      sizes[op.dim] = op.total;
    return sizes;
  }

  static Wanted getBits(size_t rows, uint8_t summands) {
    return Wanted(summands) << (8 * rows);
  }

  void tryOp(const Op &op) {
    Sizes sizes = getSizesAfter(op);
    int64_t spent = search.getCosts(op, from)[model] + 2 * search.launch[model];
    bool isWhole = from.allSummands == 1;
    targets.clear();
    wantedRows.clear();
    mayLeaveSums = false;
    for (unsigned layout = 0; layout < search.layouts.size(); ++layout) {
      const std::vector<Content> &wanted = search.wanted[layout];
      int64_t rest = bounds[layout][model] - spent;
      if (search.getSizes(wanted[0]) != sizes || rest < 0)
        continue;
      bool isPartial = search.layouts[layout].partial;
      if (!isWhole && !isPartial && !isReduction(op))
        continue;
      Target target{layout, {}, rest + 2 * search.launch[model]};
      for (const Content &content : wanted)
        if (!search.isNothing(content))
          target.wanted |=
              getBits(wantedRows.try_emplace(content.rows, wantedRows.size())
                          .first->second,
                      from.allSummands);
      mayLeaveSums |= isPartial;
      targets.push_back(target);
    }
    if (targets.empty())
      return;
    entries.clear();
    mostCovered = 0;
    given.assign(op.order->members, zero);
    addEntries(op, 0);
    entryOf.clear();
    incoming.fill(0);
    std::vector<unsigned> open(targets.size());
    for (unsigned i = 0; i < open.size(); ++i)
      open[i] = i;
    groups.clear();
    for (int device = 0; device < search.devices; ++device)
      if (op.order->index[device] == 0)
        groups.push_back(
            ArrayRef(op.order->group[device]).take_front(op.order->members));
    assign(op, {}, open, 0);
  }

  /// All that fits together, from a member on.
  void addEntries(const Op &op, int member) {
    if (joins(op) && member > 0 && !isWantedSoFar(op, member))
      return;
    if (member == op.order->members) {
      addEntry(op);
      return;
    }
    if (isReduction(op)) {
      // As many summands as the members can hold, or all.
      std::set<std::array<uint16_t, 3>> rows;
      int most = 1;
      for (const Content &content : contents)
        if (content.summands && !search.isNothing(content)) {
          rows.insert(content.rows);
          most = std::max(most, llvm::popcount(content.summands));
        }
      for (const auto &row : rows)
        for (int sum = mayLeaveSums ? 1 : from.allSummands;
             sum <= from.allSummands; ++sum)
          if (llvm::popcount(unsigned(sum)) <= most * op.order->members) {
            given[0] = {row, uint8_t(sum)};
            addEntry(op);
          }
      return;
    }
    for (const Content &content : contents) {
      if (!joins(op) && member > 0 && content != given[0])
        continue;
      if (joins(op) && content.summands == 0)
        continue;
      bool isNothing = search.isNothing(content);
      bool isFit = true;
      for (int other = 0; other < member && joins(op) && !isNothing; ++other)
        isFit &= search.isNothing(given[other]) ||
                 (content != given[other] &&
                  content.summands == given[other].summands);
      if (!isFit)
        continue;
      given[member] = content;
      addEntries(op, member + 1);
    }
    // Padding, where no device holds but padding: zeros will do.
    if (joins(op) && member > 0 &&
        llvm::none_of(contents, [&](const Content &content) {
          return search.isNothing(content);
        })) {
      given[member] = search.make(zero.rows, 0xff);
      addEntries(op, member + 1);
    }
  }

  /// Whether the first members' rows, joined, begin something wanted.
  bool isWantedSoFar(const Op &op, int members) const {
    RowLists::Rows joined;
    for (int i = 0; i < members; ++i)
      llvm::append_range(joined, search.lists[given[i].rows[op.dim]]);
    joined.resize(std::min(joined.size(), op.total));
    return llvm::any_of(wantedRows, [&](const auto &wanted) {
      ArrayRef<int8_t> rows = search.lists[wanted.first[op.dim]];
      return rows.take_front(joined.size()) == ArrayRef(joined);
    });
  }

  void addEntry(const Op &op) {
    HeldState state;
    state.allSummands = from.allSummands;
    state.devices.fill(zero);
    ArrayRef<int8_t> members =
        ArrayRef(op.order->group[0]).take_front(op.order->members);
    for (size_t i = 0; i < members.size(); ++i)
      state.devices[members[i]] = given[i];
    Entry entry{given, {}, {}};
    for (int8_t member : members) {
      std::optional<Content> content = search.apply(op, state, member);
      if (!content)
        return;
      entry.made.push_back(*content);
      if (auto known = wantedRows.find(content->rows);
          content->summands && known != wantedRows.end())
        entry.covers |= getBits(known->second, content->summands);
    }
    if (entry.covers.none())
      return;
    mostCovered = std::max(mostCovered, entry.covers.count());
    entries.push_back(std::move(entry));
  }

  /// Seconds in which a device is given something, without the launch, at
  /// least; and whether that comes from another unit.
  double getNearest(int device, const Content &content, bool &crosses) const {
    double nearest = std::numeric_limits<double>::infinity();
    crosses = true;
    if (content == from.devices[device] || search.isNothing(content)) {
      crosses = false;
      return 0;
    }
    for (int source = 0; source < search.devices; ++source)
      if (from.devices[source] == content) {
        crosses &= source / unitSize != device / unitSize;
        const ClusterLevel &link =
            topology.getCluster()
                .levels[topology.getMeetingLevel(source, device)];
        nearest =
            std::min(nearest, link.latency + bytes / link.getUnitBandwidth());
      }
    return nearest;
  }

  /// `longest`: seconds of the first permute at least, without the launch.
  void assign(const Op &op, Wanted covered, const std::vector<unsigned> &open,
              double longest) {
    int64_t first = search.launch[model] + int64_t(longest * 1e12 * (1 - 1e-9));
    size_t places = (groups.size() - entryOf.size()) * mostCovered;
    std::vector<unsigned> rest;
    for (unsigned number : open)
      if (const Target &target = targets[number];
          (target.wanted & ~covered).count() <= places &&
          first + search.launch[model] <= target.bound)
        rest.push_back(number);
    if (rest.empty())
      return;
    if (entryOf.size() == groups.size()) {
      finish(op, rest);
      return;
    }
    ArrayRef<int8_t> members = groups[entryOf.size()];
    entryOf.push_back(nullptr);
    assign(op, covered, rest, longest);
    for (const Entry &entry : entries) {
      entryOf.back() = &entry;
      std::array<int, 8> saved = incoming;
      double seconds = longest;
      for (size_t i = 0; i < members.size() && !isReduction(op); ++i) {
        bool crosses;
        seconds =
            std::max(seconds, getNearest(members[i], entry.given[i], crosses));
        int &count = incoming[members[i] / unitSize];
        count += crosses;
        if (crosses)
          seconds = std::max(
              seconds, top->latency + count * bytes / top->getUnitBandwidth());
      }
      assign(op, covered | entry.covers, rest, seconds);
      incoming = saved;
    }
    entryOf.pop_back();
  }

  void finish(const Op &op, const std::vector<unsigned> &open) {
    HeldState before, after;
    before.allSummands = after.allSummands = from.allSummands;
    before.devices.fill(zero);
    after.devices.fill(zero);
    Contents wanted;
    std::array<uint8_t, 8> needed = {}; // summands
    for (auto [members, entry] : llvm::zip(groups, entryOf))
      for (size_t i = 0; entry && i < members.size(); ++i) {
        before.devices[members[i]] = entry->given[i];
        after.devices[members[i]] = entry->made[i];
        wanted[members[i]] = entry->given[0];
        needed[members[i]] = entry->given[0].summands;
      }
    int64_t most = 0;
    for (unsigned number : open)
      most = std::max(most, targets[number].bound - search.launch[model]);
    std::optional<int64_t> first;
    if (isReduction(op)) {
      first = search.bringSummands(from, wanted, needed, op.order->mask, model,
                                   most);
    } else if (auto costs = search.permute(from, &before, 0)) {
      first = (*costs)[model];
    }
    if (!first)
      return;
    for (unsigned number : open) {
      const Target &target = targets[number];
      Costs limit(search.models.size(), 0);
      limit[model] = target.bound - *first;
      if (limit[model] < search.launch[model])
        continue;
      std::optional<Costs> costs =
          search.permute(after, nullptr, target.layout, &limit);
      if (!costs)
        continue;
      // Only this model's first permute is known.
      Costs sum(search.models.size(), int64_t(1) << 60);
      sum[model] = *first + search.getCosts(op, from)[model] + (*costs)[model];
      visit(target.layout, sum);
    }
  }

  ReshardingSearch &search;
  HeldState from;
  size_t model;
  const std::vector<Costs> &bounds;
  const MeshTopology &topology;
  llvm::function_ref<void(unsigned, const Costs &)> visit;
  Content zero;
  std::vector<Content> contents;
  const ClusterLevel *top; ///< the outermost level of the mesh
  int unitSize;
  double bytes;
  // Of the op at hand.
  std::vector<Target> targets;
  bool mayLeaveSums = false; ///< some target is partial
  std::map<std::array<uint16_t, 3>, size_t> wantedRows;
  std::vector<Content> given;
  std::vector<Entry> entries;
  size_t mostCovered = 0; ///< by an entry
  std::vector<ArrayRef<int8_t>> groups;
  std::vector<const Entry *> entryOf; ///< by group; null: stands aside
  std::array<int, 8> incoming = {};   ///< messages by unit
};

void ReshardingSearch::forEachBridge(
    unsigned state, const std::vector<Costs> &bounds,
    llvm::function_ref<void(unsigned, const Costs &)> visit) {
  // Zeros would be a maximum's greatest value now and then.
  if (isMax)
    return;
  for (size_t model = 0; model < models.size(); ++model)
    BridgeSearch(*this, state, model, bounds, visit).run();
}
