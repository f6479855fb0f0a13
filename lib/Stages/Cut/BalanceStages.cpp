//===- BalanceStages.cpp - Stages of equal work ---------------------------===//

#include "FunctionStages.h"
#include "llvm/ADT/StringMap.h"
#include <limits>

using namespace mlir;
using namespace heddle;

/// Returns whether the batch runs in parts: ops of the same name read the same
/// variable.
bool FunctionStages::runsInParts(ArrayRef<Op> list) const {
  llvm::DenseSet<std::tuple<StringAttr, OperationName, StringRef>> known;
  for (Op op : list)
    for (StringAttr variable : getVariables(op))
      if (!known.insert({variable, op->getName(), getOpName(op)}).second)
        return true;
  return false;
}

/// Returns the place of each op in the order in which stages take them. If the
/// batch does not run in parts, this is the op's position in the text. If it
/// does, the text has one part after the other, so the place is the number of
/// ops on the longest path to the op: ops that do the same for different parts
/// have the same place, and their variables are in one stage.
SmallVector<int64_t> FunctionStages::findPlaces(ArrayRef<Op> list) const {
  SmallVector<int64_t> places(list.size());
  llvm::DenseMap<Op, int64_t> depths;
  bool isByDepth = runsInParts(list);
  for (auto [i, op] : llvm::enumerate(list)) {
    int64_t &depth = depths[op] = 0;
    for (Op maker : getMakers(op))
      if (auto known = depths.find(maker); known != depths.end())
        depth = std::max(depth, known->second + 1);
    places[i] = isByDepth ? depth : int64_t(i);
  }
  return places;
}

/// Returns the seconds of forward ops and of what the backward pass does for
/// them: backward ops have the names of their forward ops.
llvm::DenseMap<Operation *, double>
FunctionStages::findTimes(ArrayRef<Op> list) const {
  llvm::DenseMap<Op, double> times;
  llvm::StringMap<double> forwardOf, backwardOf; // by name
  for (Op op : list) {
    times[op] = pipeline.costs->getSeconds(op);
    forwardOf[getOpName(op)] += times[op];
  }
  for (Op op : ops)
    if (!isForward(op) && !isRepeated(op) && !isa<LoadOp, StoreOp>(op))
      backwardOf[getOpName(op)] += pipeline.costs->getSeconds(op);
  for (Op op : list)
    if (StringRef name = getOpName(op); !name.empty() && forwardOf[name] > 0)
      times[op] *= 1 + backwardOf.lookup(name) / forwardOf[name];
  return times;
}

/// Returns the element type of the op with most FLOPs.
static Type getProductType(ArrayRef<Operation *> list) {
  Type type = Float32Type::get(list.front()->getContext());
  int64_t most = 0;
  for (Operation *op : list)
    if (auto working = dyn_cast<WorkOpInterface>(op))
      if (int64_t flops = working.getWork().flops;
          flops > most && op->getNumOperands() > 0) {
        most = flops;
        type = getElementTypeOrSelf(op->getOperand(0).getType());
      }
  return type;
}

/// Pins every forward op such that all stages have about the same work.
LogicalResult FunctionStages::balanceForward() {
  SmallVector<Op> list;
  for (Op op : ops)
    if (isForward(op) && !isRepeated(op) && !isa<LoadOp, StoreOp>(op))
      list.push_back(op);
  SmallVector<int64_t> places = findPlaces(list);
  int64_t count = list.empty() ? 0 : *llvm::max_element(places) + 1;
  if (count < pipeline.stages)
    return function.emitOpError()
           << "expected a program of at least " << pipeline.stages
           << " operators, which is the number of stages, got " << count;
  llvm::DenseMap<Op, double> times = findTimes(list);
  llvm::DenseMap<Op, int64_t> placeOf;
  for (auto [op, place] : llvm::zip(list, places))
    placeOf[op] = place;
  SmallVector<double> seconds(count), bytes(count + 1);
  for (auto [op, place] : llvm::zip(list, places)) {
    seconds[place] += times.lookup(op);
    int64_t last = place;
    for (Op reader : getReaders(op))
      if (auto known = placeOf.find(reader); known != placeOf.end())
        last = std::max(last, known->second);
    for (Value result : op->getResults())
      for (int64_t cut = place + 1; cut <= last; ++cut)
        bytes[cut] += double(getLocalBytes(result, pipeline.mesh));
  }
  SmallVector<double> crossing;
  for (double each : bytes)
    crossing.push_back(pipeline.costs->getTransferSeconds(int64_t(each)));
  std::vector<double> ofPlaces =
      pipeline.costs->getFactors(getProductType(list));
  SmallVector<double> factors;
  for (int64_t stage = 0; stage < pipeline.stages; ++stage)
    factors.push_back(ofPlaces[pipeline.getDevice(stage)]);
  SmallVector<int64_t> balanced = balanceStages(seconds, crossing, factors);
  auto type = IntegerType::get(function.getContext(), 64);
  for (auto [op, place] : llvm::zip(list, places))
    op->setAttr(kStageAttrName, IntegerAttr::get(type, balanced[place]));
  return success();
}

namespace {
/// Stages of consecutive places, by dynamic programming over their ends.
class Balance {
public:
  Balance(ArrayRef<double> seconds, ArrayRef<double> crossing,
          ArrayRef<double> factors)
      : crossing(crossing), factors(factors), stages(factors.size()),
        count(seconds.size()), sums{0} {
    for (double each : seconds)
      sums.push_back(sums.back() + each);
  }

  /// Returns the first place of each stage such that the longest of them is
  /// shortest, and sets `longest`.
  SmallVector<int64_t> findShortest(double &longest) {
    return solve(longest,
                 [&](double before, int64_t stage, int64_t begin, int64_t end) {
                   return std::max(before, getSeconds(stage, begin, end));
                 });
  }
  /// Returns the first place of each stage such that the least crosses the
  /// cuts, and no stage takes longer than `limit`.
  SmallVector<int64_t> findNarrow(double limit) {
    double sum = 0;
    return solve(sum,
                 [&](double before, int64_t stage, int64_t begin, int64_t end) {
                   return getSeconds(stage, begin, end) > limit
                              ? kInfinity
                              : before + getCrossing(begin);
                 });
  }

private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  double getCrossing(int64_t begin) const {
    return begin > 0 ? crossing[begin] : 0;
  }
  /// Returns the seconds of a stage. The transfer of a micro-batch to it runs
  /// beside the computation of another one, so the longer of the two counts.
  double getSeconds(int64_t stage, int64_t begin, int64_t end) const {
    return std::max(factors[stage] * (sums[end] - sums[begin]),
                    getCrossing(begin));
  }
  /// Returns the first place of each stage. `add(cost, k, begin, end)` returns
  /// the cost of the stages up to `k`, if those before `k` cost `cost` and `k`
  /// holds the places [begin, end).
  SmallVector<int64_t>
  solve(double &least,
        llvm::function_ref<double(double, int64_t, int64_t, int64_t)> add) {
    // The least cost of `k` stages that hold the first `i` places, and the
    // first place of the last of these stages.
    std::vector<std::vector<double>> cost(
        stages + 1, std::vector<double>(count + 1, kInfinity));
    std::vector<std::vector<int64_t>> first(stages + 1,
                                            std::vector<int64_t>(count + 1));
    cost[0][0] = 0;
    for (int64_t k = 1; k <= stages; ++k)
      for (int64_t i = k; i <= count; ++i)
        for (int64_t j = k - 1; j < i; ++j)
          if (double own = add(cost[k - 1][j], k - 1, j, i); own < cost[k][i]) {
            cost[k][i] = own;
            first[k][i] = j;
          }
    least = cost[stages][count];
    SmallVector<int64_t> begins(stages);
    for (int64_t k = stages, end = count; k >= 1; --k)
      begins[k - 1] = end = first[k][end];
    return begins;
  }

  ArrayRef<double> crossing, factors; ///< by place, by stage
  int64_t stages, count;
  std::vector<double> sums; ///< of the seconds before each place
};
} // namespace

SmallVector<int64_t> heddle::balanceStages(ArrayRef<double> seconds,
                                           ArrayRef<double> crossing,
                                           ArrayRef<double> factors) {
  // The share by which the longest stage may grow if less crosses the cuts.
  // What crosses is also stored, for all micro-batches in flight.
  constexpr double kSlack = 0.01;
  Balance balance(seconds, crossing, factors);
  double longest = 0;
  balance.findShortest(longest);
  SmallVector<int64_t> begins = balance.findNarrow(longest * (1 + kSlack));
  SmallVector<int64_t> result(seconds.size());
  for (int64_t begin : ArrayRef(begins).drop_front())
    for (int64_t i = begin; i < int64_t(result.size()); ++i)
      ++result[i];
  return result;
}
