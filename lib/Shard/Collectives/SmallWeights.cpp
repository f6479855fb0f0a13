//===- SmallWeights.cpp - Small weights and gradients ---------------------===//

#include "SmallWeights.h"
#include "ExchangeTogether.h"
#include "dialects/Comm/Comm.h"
#include "dialects/Heddle/Heddle.h"
#include "dialects/Interfaces/Interfaces.h"
#include "heddle/Support/Bytes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace heddle;

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

/// Returns whether the op does no more than a few operations on each element
/// that it reads or writes. A product does more.
static bool computesLittle(Operation *op) {
  constexpr int64_t kMostFlops = 5;
  auto interface = dyn_cast<WorkOpInterface>(op);
  if (!interface)
    return op->getNumRegions() == 0;
  Work work = interface.getWork();
  int64_t elements = 1;
  auto count = [&](Type type) {
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      elements += tensor.getNumElements();
  };
  llvm::for_each(op->getOperandTypes(), count);
  llvm::for_each(op->getResultTypes(), count);
  return work.flops <= kMostFlops * elements;
}

llvm::DenseSet<Operation *> heddle::findGradientReductions(Block &block) {
  llvm::DenseSet<Operation *> atEnd, reductions;
  for (Operation &op : llvm::reverse(block)) {
    // An unused result may be a copy of what the forward pass reduces.
    bool isReduction = isa<comm::AllReduceOp, comm::ReduceScatterOp>(op);
    bool isLast = !(isReduction && op.use_empty()) &&
                  llvm::all_of(op.getUsers(), [&](Operation *user) {
                    return atEnd.contains(block.findAncestorOpInBlock(*user));
                  });
    if (!isLast)
      continue;
    if (isa<StoreOp>(op) || op.hasTrait<OpTrait::IsTerminator>() ||
        computesLittle(&op))
      atEnd.insert(&op);
    if (isReduction)
      reductions.insert(&op);
  }
  return reductions;
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

namespace {
/// A gather of a value that depends on variables alone.
struct WeightGather {
  comm::AllGatherOp op;
  SmallVector<Operation *> sources; ///< that compute its operand, in any order
};

struct Bucket {
  SmallVector<WeightGather> gathers;
  int64_t bytes = 0;
};

class GatherCombiner {
public:
  GatherCombiner(Block &block, int64_t maxBytes, int64_t bucketBytes)
      : block(block), maxBytes(maxBytes), bucketBytes(bucketBytes) {}

  void run();

private:
  /// Returns nothing if the operand depends on more than variables, or if the
  /// result is large.
  std::optional<WeightGather> getWeightGather(Operation &op) const;
  /// Returns whether the sources may move up to `place`.
  bool canMove(const WeightGather &gather, Operation *place) const;
  void combine(const Bucket &bucket);

  Block &block;
  int64_t maxBytes, bucketBytes;
  /// The stores to each variable. Calls are stores to the null entry, which
  /// stands for any variable.
  llvm::DenseMap<Attribute, SmallVector<Operation *>> stores;
};
} // namespace

std::optional<WeightGather>
GatherCombiner::getWeightGather(Operation &op) const {
  auto gather = dyn_cast<comm::AllGatherOp>(op);
  if (!gather || getBytes(gather.getType()) > maxBytes)
    return std::nullopt;
  llvm::SmallSetVector<Operation *, 8> sources;
  SmallVector<Value> work = {gather.getInput()};
  while (!work.empty()) {
    Operation *maker = work.pop_back_val().getDefiningOp();
    if (!maker || maker->getBlock() != &block || maker->getNumRegions() != 0 ||
        !(isa<LoadOp>(maker) || isPure(maker)))
      return std::nullopt;
    if (sources.insert(maker))
      llvm::append_range(work, maker->getOperands());
  }
  return WeightGather{gather, sources.takeVector()};
}

bool GatherCombiner::canMove(const WeightGather &gather,
                             Operation *place) const {
  auto isStoredBetween = [&](Attribute variable, Operation *load) {
    auto known = stores.find(variable);
    return known != stores.end() &&
           llvm::any_of(known->second, [&](Operation *store) {
             return place->isBeforeInBlock(store) &&
                    store->isBeforeInBlock(load);
           });
  };
  return llvm::none_of(gather.sources, [&](Operation *source) {
    auto load = dyn_cast<LoadOp>(source);
    return load && (isStoredBetween(load.getVariableAttr(), load) ||
                    isStoredBetween(Attribute(), load));
  });
}

void GatherCombiner::combine(const Bucket &bucket) {
  Operation *place = bucket.gathers.front().op;
  llvm::SmallSetVector<Operation *, 8> moving;
  SmallVector<Operation *> ops;
  for (const WeightGather &gather : bucket.gathers) {
    ops.push_back(gather.op);
    for (Operation *source : gather.sources)
      if (place->isBeforeInBlock(source))
        moving.insert(source);
  }
  SmallVector<Operation *> order = moving.takeVector();
  llvm::sort(order,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  for (Operation *op : order)
    op->moveBefore(place);
  OpBuilder builder(place);
  SmallVector<Value> results = exchangeTogether(builder, ops);
  for (auto [op, result] : llvm::zip(ops, results)) {
    op->getResult(0).replaceAllUsesWith(result);
    op->erase();
  }
}

void GatherCombiner::run() {
  using Key = std::tuple<Attribute, Attribute, Type>;
  llvm::MapVector<Key, size_t> open;
  SmallVector<Bucket> buckets;
  for (Operation &op : block) {
    op.walk([&](Operation *inner) {
      if (auto store = dyn_cast<StoreOp>(inner))
        stores[store.getVariableAttr()].push_back(&op);
      else if (isa<func::CallOp>(inner))
        stores[Attribute()].push_back(&op);
    });
    std::optional<WeightGather> gather = getWeightGather(op);
    if (!gather)
      continue;
    comm::AllGatherOp itself = gather->op;
    int64_t bytes = getBytes(itself.getType());
    Key key{itself.getMeshAttr(), itself.getAxesAttr(),
            itself.getType().getElementType()};
    auto [entry, isNew] = open.try_emplace(key, buckets.size());
    if (!isNew) {
      const Bucket &bucket = buckets[entry->second];
      if (bucket.bytes + bytes > bucketBytes ||
          !canMove(*gather, bucket.gathers.front().op))
        entry->second = buckets.size();
    }
    if (entry->second == buckets.size())
      buckets.emplace_back();
    buckets[entry->second].bytes += bytes;
    buckets[entry->second].gathers.push_back(std::move(*gather));
  }
  for (const Bucket &bucket : buckets)
    if (bucket.gathers.size() > 1)
      combine(bucket);
}

void heddle::combineWeightGathers(Block &block, int64_t maxBytes,
                                  int64_t bucketBytes) {
  GatherCombiner(block, maxBytes, bucketBytes).run();
}
