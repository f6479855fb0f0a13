//===- ReshardingBridges.cpp - A permute, another op and a permute --------===//

#include "BridgeSearch.h"
#include "PermuteSources.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>

using namespace heddle;
using llvm::ArrayRef;

static int64_t toPicoseconds(CollectiveCost cost) {
  return std::llround(cost.seconds * 1e12);
}

BridgeSearch::BridgeSearch(ReshardingMoves &moves, const HeldTensor &from,
                           const HeldTensor &to, const TensorLayout &layout,
                           int64_t below)
    : moves(moves), topology(moves.topology), from(from), to(to), below(below),
      devices(topology.getNumDevices()), shapeBefore(moves.getLocalShape(from)),
      shapeAfter(moves.getLocalShape(to)),
      setOfDevice(moves.summands.getSets(from.summands)),
      numSummands(moves.summands[from.summands].holders.size()),
      wantedOf(devices, -1) {
  // A whole value is its own maximum.
  if (!moves.isWhole(to) && !(layout.isMax && moves.isWhole(from)))
    partial = layout.partial;
  isMaximum = from.isMax;
  leastBefore = moves.getLeastPermute(from);
  leastAfter = moves.getLeastPermute(to);
  for (int64_t device = 0; device < devices; ++device) {
    std::vector<Runs> rows = rowsOf(from, device);
    if (isNothing(rows) || setOfDevice[device].empty()) {
      givenOf.push_back(-1);
      continue;
    }
    auto set = llvm::find(sets, setOfDevice[device]);
    Value value{std::move(rows), unsigned(set - sets.begin())};
    if (set == sets.end())
      sets.push_back(setOfDevice[device]);
    auto known = llvm::find(given, value);
    givenOf.push_back(int(known - given.begin()));
    if (known == given.end())
      given.push_back(std::move(value));
  }
}

std::vector<std::vector<DimensionRows::Run>>
BridgeSearch::rowsOf(const HeldTensor &held, int64_t device) const {
  std::vector<Runs> rows;
  for (auto [dim, number] : llvm::zip(moves.dims, held.rows))
    rows.push_back(dim[number].held[device]);
  return rows;
}

std::vector<Move> BridgeSearch::find() {
  bool isWhole = moves.isWhole(from);
  if (below <= leastBefore + leastAfter)
    return {};
  // Parts of a sum are no parts of a maximum.
  if (!isWhole && partial && from.isMax != to.isMax)
    return {};
  for (const auto &[axes, mask] : moves.orders) {
    Op op{ReshardingStep::AllReduce, &axes, mask};
    op.members = topology.getSize(mask);
    unsigned rank = unsigned(shapeBefore.size());
    auto isCut = [&](unsigned dim) {
      return shapeAfter[dim] ==
             int64_t(llvm::divideCeil(shapeBefore[dim], op.members));
    };
    auto isJoined = [&](unsigned dim) {
      return shapeBefore[dim] ==
             int64_t(llvm::divideCeil(shapeAfter[dim], op.members));
    };
    auto areOthersSame = [&](unsigned dim, unsigned second) {
      for (unsigned i = 0; i < rank; ++i)
        if (i != dim && i != second && shapeBefore[i] != shapeAfter[i])
          return false;
      return true;
    };
    // What is to be whole has to be reduced.
    bool mayReduce = !isWhole, mustReduce = !isWhole && !partial;
    if (mayReduce && shapeBefore == shapeAfter && llvm::is_sorted(axes)) {
      op.cost = topology.allReduce(mask, moves.getBytes(from));
      tryOp(op);
    }
    int64_t elements = moves.elementBytes;
    for (int64_t size : shapeAfter)
      elements *= size;
    for (op.dim = 0; op.dim < rank; ++op.dim) {
      bool cuts = areOthersSame(op.dim, op.dim) && isCut(op.dim);
      if (cuts && mayReduce) {
        op.kind = ReshardingStep::ReduceScatter;
        op.cost = topology.reduceScatter(mask, elements);
        tryOp(op);
      }
      if (mustReduce)
        continue;
      if (cuts) {
        op.kind = ReshardingStep::Slice;
        op.cost = topology.local(elements);
        tryOp(op);
      }
      if (areOthersSame(op.dim, op.dim) && isJoined(op.dim)) {
        op.kind = ReshardingStep::AllGather;
        op.cost = topology.allGather(mask, moves.getBytes(from));
        tryOp(op);
      }
      for (op.concatDim = 0; op.concatDim < rank; ++op.concatDim)
        if (op.concatDim != op.dim && areOthersSame(op.dim, op.concatDim) &&
            isCut(op.dim) && isJoined(op.concatDim)) {
          op.kind = ReshardingStep::AllToAll;
          // Of a tensor without elements, nothing is exchanged.
          int64_t rows = shapeAfter[op.concatDim];
          op.cost = topology.allToAll(
              mask, rows ? elements / rows * shapeBefore[op.concatDim] : 0);
          tryOp(op);
        }
      op.concatDim = 0;
    }
  }
  return std::move(best);
}

void BridgeSearch::tryOp(Op op) {
  op.picoseconds = toPicoseconds(op.cost);
  if (op.picoseconds + leastBefore + leastAfter >= below)
    return;
  std::map<int64_t, int64_t> groups;
  groupOf.clear();
  indexOf.clear();
  for (int64_t device = 0; device < devices; ++device) {
    int64_t first = topology.getFirstOfGroup(device, op.mask), index = 0;
    groupOf.push_back(
        groups.try_emplace(first, int64_t(groups.size())).first->second);
    for (unsigned axis : *op.axes)
      index = index * topology.getAxisSizes()[axis] +
              topology.getCoordinate(device, axis);
    indexOf.push_back(index);
  }
  numGroups = int64_t(groups.size());
  blocks.clear();
  if (op.isReduction()) {
    tryBlocks(op, 0);
    return;
  }
  blocks = sets;
  tryEntries(op);
}

/// Every way to put the summands from one on into blocks.
void BridgeSearch::tryBlocks(const Op &op, unsigned summand) {
  if (summand == numSummands) {
    tryEntries(op);
    return;
  }
  for (size_t i = 0; i < blocks.size(); ++i)
    if (int64_t(blocks[i].size()) < op.members) {
      blocks[i].push_back(summand);
      tryBlocks(op, summand + 1);
      blocks[i].pop_back();
    }
  // As many as members over the partial axes can hold.
  if (int64_t(blocks.size()) >= (partial ? topology.getSize(partial) : 1) ||
      int64_t(blocks.size()) >= numGroups)
    return;
  blocks.push_back({summand});
  tryBlocks(op, summand + 1);
  blocks.pop_back();
}

void BridgeSearch::tryEntries(const Op &op) {
  wanted.clear();
  for (int64_t device = 0; device < devices; ++device) {
    Value value{rowsOf(to, device)};
    if (isNothing(value.rows))
      continue;
    auto known = llvm::find(wanted, value);
    wantedOf[device] = int(known - wanted.begin());
    if (known == wanted.end())
      wanted.push_back(std::move(value));
  }
  size_t count = wanted.size();
  for (unsigned set = 1; set < blocks.size(); ++set)
    for (size_t i = 0; i < count; ++i)
      wanted.push_back({wanted[i].rows, set});
  if (wanted.empty() || int64_t(wanted.size()) > devices)
    return;
  entries.clear();
  for (unsigned target = 0; target < wanted.size(); ++target)
    for (int64_t member = 0; member < op.members; ++member)
      addEntries(op, target, member);
  entryOf.clear();
  assign(op, 0);
}

void BridgeSearch::assign(const Op &op, uint64_t covered) {
  int64_t rest = numGroups - int64_t(entryOf.size());
  int64_t open = int64_t(wanted.size()) - llvm::popcount(covered);
  if (open > rest * op.members)
    return;
  if (rest == 0) {
    weigh(op);
    return;
  }
  for (int entry = -1; entry < int(entries.size()); ++entry) {
    entryOf.push_back(entry);
    assign(op, entry < 0 ? covered : covered | entries[entry].covers);
    entryOf.pop_back();
  }
}

/// What the permutes take that go with an assignment of groups.
void BridgeSearch::weigh(const Op &op) {
  auto seconds = [&](int64_t picoseconds) {
    return double(below - op.picoseconds - picoseconds) * 1e-12;
  };
  PermuteSources first(topology, moves.getBytes(from));
  std::vector<int> made(devices, -1);
  std::vector<int64_t> groups(devices, -1), models(devices), needed(devices);
  for (int64_t device = 0; device < devices; ++device) {
    models[device] = device;
    std::vector<int64_t> &candidates = first.getCandidates()[device];
    int entry = entryOf[groupOf[device]];
    if (entry < 0) {
      candidates = {-1};
      continue;
    }
    int value = entries[entry].given[indexOf[device]];
    made[device] = entries[entry].made[indexOf[device]];
    if (value < 0) {
      candidates = {-1};
    } else if (op.isReduction()) {
      groups[device] = groupOf[device];
      const std::vector<unsigned> &block = blocks[entries[entry].block];
      needed[groupOf[device]] = int64_t(block.size());
      for (int64_t source = 0; source < devices; ++source)
        if (givenOf[source] >= 0 &&
            given[givenOf[source]].rows == given[value].rows &&
            llvm::all_of(setOfDevice[source], [&](unsigned summand) {
              return llvm::is_contained(block, summand);
            }))
          candidates.push_back(source);
      if (!isMaximum)
        candidates.push_back(-1);
    } else if (givenOf[device] == value) {
      candidates = {device};
    } else {
      for (int64_t source = 0; source < devices; ++source)
        if (givenOf[source] == value)
          candidates.push_back(source);
    }
  }
  if (op.isReduction())
    first.setSummands(setOfDevice, groups, models, needed, !isMaximum);
  ArrayRef<int64_t> before = first.find(0, seconds(leastAfter));
  if (before.empty())
    return;
  int64_t spent = toPicoseconds(topology.permute(before, moves.getBytes(from)));

  PermuteSources second(topology, moves.getBytes(to));
  std::vector<std::vector<unsigned>> madeSets(devices);
  for (int64_t device = 0; device < devices; ++device) {
    std::vector<int64_t> &candidates = second.getCandidates()[device];
    if (made[device] >= 0 && partial)
      madeSets[device] = blocks[wanted[made[device]].set];
    groups[device] = -1;
    if (wantedOf[device] < 0) {
      candidates = {-1};
      continue;
    }
    if (partial)
      groups[device] = topology.getFirstOfGroup(device, partial);
    auto isFit = [&](int64_t source) {
      return made[source] >= 0 &&
             wanted[made[source]].rows == wanted[wantedOf[device]].rows;
    };
    if (!partial && isFit(device)) {
      candidates = {device};
      continue;
    }
    for (int64_t source = 0; source < devices; ++source)
      if (isFit(source))
        candidates.push_back(source);
    if (partial && !isMaximum)
      candidates.push_back(-1);
  }
  if (partial)
    second.setSummands(madeSets, groups, models,
                       std::vector<int64_t>(devices, int64_t(numSummands)),
                       !isMaximum);
  ArrayRef<int64_t> after = second.find(0, seconds(spent));
  if (after.empty())
    return;
  int64_t sum = spent + op.picoseconds +
                toPicoseconds(topology.permute(after, moves.getBytes(to)));
  if (sum >= below)
    return;
  sourcesBefore = before.vec();
  sourcesAfter = after.vec();
  std::vector<Move> found = build(op);
  if (found.empty())
    return;
  below = sum;
  best = std::move(found);
}

std::vector<Move> BridgeSearch::build(const Op &op) {
  Move first{ReshardingStep::Permute, {}};
  first.sources = sourcesBefore;
  first.cost = topology.permute(sourcesBefore, moves.getBytes(from));
  first.after = from;
  // A device that has but padding along what is joined has the rows of another
  // member otherwise. Where there is only padding, any summands will do.
  std::vector<int64_t> alike = sourcesBefore;
  std::vector<std::vector<unsigned>> held(devices);
  for (int64_t device = 0; device < devices; ++device) {
    int entry = entryOf[groupOf[device]];
    if (entry >= 0 && op.joins() && alike[device] < 0)
      for (int64_t other = 0; other < devices; ++other)
        if (groupOf[other] == groupOf[device] && sourcesBefore[other] >= 0)
          alike[device] = sourcesBefore[other];
    if (entry >= 0)
      held[device] = alike[device] < 0 ? std::vector<unsigned>()
                                       : setOfDevice[alike[device]];
    else if (!op.isReduction())
      held[device] = sets[0];
    else if (size_t(indexOf[device]) < numSummands)
      held[device] = {unsigned(indexOf[device])};
  }
  for (auto [dim, rows] : llvm::enumerate(first.after.rows))
    rows = moves.dims[dim].permute(
        rows, op.joins() && dim != op.getJoined() ? alike : sourcesBefore);
  if (!moves.isWhole(from))
    first.after.summands = moves.summands.ofSets(held);

  Move middle{op.kind, *op.axes, op.dim, op.concatDim};
  middle.cost = op.cost;
  middle.after = first.after;
  if (op.kind != ReshardingStep::AllGather &&
      op.kind != ReshardingStep::AllReduce)
    middle.after.rows[op.dim] =
        moves.dims[op.dim].cut(first.after.rows[op.dim], *op.axes);
  if (op.joins()) {
    unsigned dim = op.getJoined();
    const std::vector<unsigned> &joined =
        moves.dims[dim].join(first.after.rows[dim], *op.axes);
    auto fit = llvm::find_if(joined, [&](unsigned rows) {
      return moves.dims[dim][rows].rows == shapeAfter[dim];
    });
    if (fit == joined.end())
      return {};
    middle.after.rows[dim] = *fit;
  }
  if (op.isReduction()) {
    std::optional<unsigned> sum =
        moves.summands.reduce(first.after.summands, op.mask, isMaximum);
    if (!sum)
      return {};
    middle.after.summands = *sum;
    middle.after.isMax &= *sum != moves.whole;
  }

  Move last{ReshardingStep::Permute, {}};
  last.sources = sourcesAfter;
  last.cost = topology.permute(sourcesAfter, moves.getBytes(to));
  last.after = to;
  return {std::move(first), std::move(middle), std::move(last)};
}

std::vector<Move> ReshardingMoves::bridge(const HeldTensor &from,
                                          const HeldTensor &to,
                                          const TensorLayout &layout,
                                          int64_t below) {
  return BridgeSearch(*this, from, to, layout, below).find();
}
