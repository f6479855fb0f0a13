//===- ReshardingBackward.cpp - A permute and two other ops ---------------===//
//
// What two ops make a wanted layout of is found backwards. It need be no layout
// itself, nor what one op makes of one: of 10 rows, parts of 2 are put next to
// each other so that a gather and a slice make parts of 3.
//
//===----------------------------------------------------------------------===//

#include "ReshardingMoves.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>

using namespace heddle;

static int64_t toPicoseconds(CollectiveCost cost) {
  return std::llround(cost.seconds * 1e12);
}

int64_t ReshardingMoves::getLeastPermute(const HeldTensor &held) const {
  const Cluster &cluster = topology.getCluster();
  double bytes = double(getBytes(held));
  double seconds = 2 * bytes / cluster.device.memoryBandwidth;
  for (const ClusterLevel &level : cluster.levels)
    seconds =
        std::min(seconds, level.latency + bytes / level.getUnitBandwidth());
  return int64_t((cluster.device.launch + seconds) * 1e12 * (1 - 1e-9));
}

void ReshardingMoves::forEachBefore(
    const PermuteGoal &after, const std::vector<int64_t> *shapeBefore,
    bool isMax,
    llvm::function_ref<void(const PermuteGoal &, const Move &)> visit) {
  HeldTensor held{after.rows};
  std::vector<int64_t> local = getLocalShape(held);
  AxisMask rowAxes = getRowAxes(held);
  unsigned rank = unsigned(shape.size());
  // Whether the local shape is to be that of before but for two dimensions.
  auto areOthersSame = [&](unsigned a, unsigned b) {
    for (unsigned dim = 0; shapeBefore && dim < rank; ++dim)
      if (dim != a && dim != b && local[dim] != (*shapeBefore)[dim])
        return false;
    return true;
  };
  for (const auto &order : orders) {
    const std::vector<unsigned> &axes = order.first;
    AxisMask mask = order.second;
    int64_t members = topology.getSize(mask);
    auto isCut = [&](unsigned dim) {
      return !shapeBefore ||
             local[dim] ==
                 int64_t(llvm::divideCeil((*shapeBefore)[dim], members));
    };
    auto isJoined = [&](unsigned dim) {
      return !shapeBefore || (*shapeBefore)[dim] ==
                                 int64_t(llvm::divideCeil(local[dim], members));
    };
    auto emit = [&](const PermuteGoal &before, ReshardingStep::Kind kind,
                    unsigned dim, unsigned concatDim, CollectiveCost cost) {
      Move move{kind, axes, dim, concatDim};
      move.after.rows = after.rows;
      move.cost = cost;
      visit(before, move);
    };
    // The rows of which the op makes a part for each member.
    auto forEachWhole = [&](unsigned dim, auto body) {
      unsigned part = after.rows[dim];
      const std::vector<unsigned> joined = dims[dim].join(part, axes);
      for (unsigned whole : joined)
        if (!(dims[dim][whole].depends & mask) &&
            (!shapeBefore || dims[dim][whole].rows == (*shapeBefore)[dim]) &&
            dims[dim].cut(whole, axes) == part)
          body(whole);
    };
    auto forPart = [&](unsigned dim, auto body) {
      unsigned whole = after.rows[dim];
      if (dims[dim][whole].depends & mask)
        return;
      unsigned part = dims[dim].cut(whole, axes);
      if (llvm::is_contained(dims[dim].join(part, axes), whole))
        body(part);
    };
    for (unsigned dim = 0; dim < rank; ++dim) {
      if (areOthersSame(dim, dim) && isJoined(dim) && !(rowAxes & mask))
        forPart(dim, [&](unsigned part) {
          PermuteGoal before = after;
          before.rows[dim] = part;
          emit(before, ReshardingStep::AllGather, dim, 0,
               topology.allGather(mask, getBytes({before.rows})));
        });
      if (!isCut(dim))
        continue;
      forEachWhole(dim, [&](unsigned whole) {
        PermuteGoal before = after;
        before.rows[dim] = whole;
        if (areOthersSame(dim, dim) && !(getRowAxes({before.rows}) & mask)) {
          emit(before, ReshardingStep::Slice, dim, 0,
               topology.local(getBytes(held)));
          if (!(after.partial & mask)) {
            before.partial |= mask;
            emit(before, ReshardingStep::ReduceScatter, dim, 0,
                 topology.reduceScatter(mask, getBytes(held)));
            before.partial = after.partial;
          }
        }
        for (unsigned concat = 0; concat < rank; ++concat) {
          if (concat == dim || !areOthersSame(dim, concat) || !isJoined(concat))
            continue;
          forPart(concat, [&](unsigned part) {
            PermuteGoal exchanged = before;
            exchanged.rows[concat] = part;
            PermuteGoal block = exchanged;
            block.rows[dim] = after.rows[dim];
            emit(exchanged, ReshardingStep::AllToAll, dim, concat,
                 topology.allToAll(mask, getBytes({block.rows})));
          });
        }
      });
    }
    if (!llvm::is_sorted(axes) || (rowAxes & mask) ||
        (shapeBefore && local != *shapeBefore))
      continue;
    PermuteGoal before = after;
    if (!(after.partial & mask)) {
      before.partial |= mask;
      emit(before, ReshardingStep::AllReduce, 0, 0,
           topology.allReduce(mask, getBytes(held)));
    } else if ((after.partial & mask) == mask && !isMax) {
      before.partial &= ~mask;
      emit(before, ReshardingStep::KeepFirst, 0, 0,
           topology.local(getBytes(held)));
    }
  }
}

std::vector<Move> ReshardingMoves::followBy(std::vector<Move> moves,
                                            llvm::ArrayRef<Move> ops,
                                            const HeldTensor &to,
                                            const TensorLayout &layout) {
  if (moves.empty())
    return {};
  for (const Move &op : ops) {
    std::vector<Move> next = from(moves.back().after);
    auto same = llvm::find_if(next, [&](const Move &move) {
      return move.kind == op.kind && move.axes == op.axes &&
             move.dim == op.dim && move.concatDim == op.concatDim &&
             move.after.rows == op.after.rows;
    });
    if (same == next.end())
      return {};
    moves.push_back(std::move(*same));
  }
  if (!isHeldAs(moves.back().after, to, layout))
    return {};
  return moves;
}

std::vector<Move> ReshardingMoves::permuteFirst(const HeldTensor &from,
                                                const HeldTensor &to,
                                                const TensorLayout &layout,
                                                unsigned mostOps,
                                                int64_t below) {
  std::vector<Move> best;
  int64_t least = getLeastPermute(from);
  if (below <= least + getLaunch())
    return best;
  std::vector<int64_t> shapeFrom = getLocalShape(from);
  auto tryGoal = [&](const PermuteGoal &goal, llvm::ArrayRef<Move> ops,
                     int64_t picoseconds) {
    if ((isWhole(from) && !goal.partial && goal.rows == from.rows) ||
        (!isWhole(from) && !goal.partial) || !isThere(from, goal))
      return;
    std::optional<double> seconds = getLeastSeconds(from, goal);
    if (!seconds || toPicoseconds({*seconds, 0}) + picoseconds >= below)
      return;
    for (AxisMask aligned : getAlignments(goal)) {
      std::optional<Move> first = permute(from, goal, aligned);
      if (!first || toPicoseconds(first->cost) + picoseconds >= below)
        continue;
      std::vector<Move> found = followBy({*first}, ops, to, layout);
      if (found.empty())
        continue;
      below = toPicoseconds(first->cost) + picoseconds;
      best = std::move(found);
    }
  };
  PermuteGoal wanted{to.rows, isWhole(to) ? 0 : layout.partial};
  forEachBefore(wanted, mostOps == 1 ? &shapeFrom : nullptr, layout.isMax,
                [&](const PermuteGoal &second, const Move &last) {
                  int64_t one = toPicoseconds(last.cost);
                  if (one + least >= below)
                    return;
                  if (getLocalShape({second.rows}) == shapeFrom)
                    tryGoal(second, {last}, one);
                  if (mostOps == 1 || one + least + getLaunch() >= below)
                    return;
                  forEachBefore(second, &shapeFrom, layout.isMax,
                                [&](const PermuteGoal &goal, const Move &op) {
                                  int64_t two = one + toPicoseconds(op.cost);
                                  if (two + least < below)
                                    tryGoal(goal, {op, last}, two);
                                });
                });
  return best;
}
