//===- Clusters.cpp - Partitions ops into kernels -------------------------===//

#include "Clusters.h"
#include "dialects/Comm/Comm.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

bool lower::isFree(Operation *op) {
  if (isa<tensor::EmptyOp, linalg::FillOp>(op))
    return true;
  auto constant = dyn_cast<arith::ConstantOp>(op);
  return constant && !isa<TensorType>(constant.getType());
}

bool lower::isClusterable(Operation *op) {
  return isa<linalg::GenericOp, ReduceBlocksOp>(op);
}

static int64_t product(ArrayRef<int64_t> sizes) {
  int64_t result = 1;
  for (int64_t size : sizes)
    result *= size;
  return result;
}

//===----------------------------------------------------------------------===//
// The graph
//===----------------------------------------------------------------------===//

static void describe(Operation *op, Cluster &cluster) {
  if (auto generic = dyn_cast<linalg::GenericOp>(op)) {
    SmallVector<int64_t> ranges = generic.getStaticLoopRanges();
    cluster.work = product(ranges);
    for (auto [range, type] :
         llvm::zip(ranges, generic.getIteratorTypesArray()))
      if (type == utils::IteratorType::parallel)
        cluster.rows.push_back(range);
      else
        cluster.sums = true;
    return;
  }
  auto blocks = cast<ReduceBlocksOp>(op);
  ArrayRef<int64_t> shape = blocks.getX().getType().getShape();
  cluster.work = product(shape);
  cluster.rows.assign(shape.begin(), shape.begin() + blocks.getRowDims());
  cluster.rowDims = blocks.getRowDims();
  cluster.block = blocks.getBlock();
}

Clusters::Clusters(Block &body, const KernelTarget &target) : target(target) {
  for (Operation &op : body.without_terminator()) {
    if (isFree(&op))
      continue;
    position[&op] = ops.size();
    clusterOf.push_back(ops.size());
    Cluster cluster;
    cluster.ops.push_back(ops.size());
    cluster.isKernel = isClusterable(&op);
    if (cluster.isKernel)
      describe(&op, cluster);
    clusters.push_back(cluster);
    ops.push_back(&op);
  }
  predecessors.resize(ops.size());
  for (auto [i, op] : llvm::enumerate(ops)) {
    llvm::SmallDenseSet<unsigned> before;
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (Operation *from = operand.getDefiningOp())
          if (auto found = position.find(from); found != position.end())
            before.insert(found->second);
    });
    before.erase(i);
    predecessors[i].assign(before.begin(), before.end());
  }
  addOrderEdges();
  marks.resize(clusters.size(), 0);
  for (unsigned i = 0; i < clusters.size(); ++i) {
    clusterAt.push_back(i);
    placeOf.push_back(i);
  }
}

/// Adds edges for effects. A store comes after the loads and stores of its
/// variable that precede it, and a load after the store that precedes it. All
/// other ops with effects keep their order.
void Clusters::addOrderEdges() {
  llvm::DenseMap<StringAttr, unsigned> lastStore;
  llvm::DenseMap<StringAttr, SmallVector<unsigned>> loads;
  std::optional<unsigned> lastEffect;
  for (auto [i, op] : llvm::enumerate(ops)) {
    if (auto load = dyn_cast<LoadOp>(op)) {
      StringAttr variable = load.getVariableAttr().getAttr();
      if (auto found = lastStore.find(variable); found != lastStore.end())
        predecessors[i].push_back(found->second);
      loads[variable].push_back(i);
    } else if (auto store = dyn_cast<StoreOp>(op)) {
      StringAttr variable = store.getVariableAttr().getAttr();
      if (auto found = lastStore.find(variable); found != lastStore.end())
        predecessors[i].push_back(found->second);
      llvm::append_range(predecessors[i], loads[variable]);
      loads[variable].clear();
      lastStore[variable] = i;
    } else if (!isMemoryEffectFree(op) && !isClusterable(op)) {
      if (lastEffect)
        predecessors[i].push_back(*lastEffect);
      lastEffect = i;
    }
  }
}

bool Clusters::hasDetour(unsigned a, unsigned b) {
  // The order of clusters is topological: each cluster comes after its
  // producers. So only clusters between a and b can be on a path from a to b.
  ++epoch;
  auto followsMarked = [&](const Cluster &cluster) {
    return llvm::any_of(cluster.ops, [&](unsigned op) {
      return llvm::any_of(predecessors[op], [&](unsigned before) {
        return marks[clusterOf[before]] == epoch;
      });
    });
  };
  marks[a] = epoch;
  for (unsigned place = placeOf[a] + 1; place < placeOf[b]; ++place)
    if (unsigned next = clusterAt[place];
        next != kNone && followsMarked(clusters[next]))
      marks[next] = epoch;
  marks[a] = 0; // a direct edge is no detour
  return followsMarked(clusters[b]);
}

void Clusters::place(unsigned merged, unsigned a, unsigned b) {
  unsigned begin = placeOf[a], end = placeOf[b], at = begin;
  SmallVector<unsigned> followers;
  auto put = [&](unsigned cluster) {
    clusterAt[at] = cluster;
    placeOf[cluster] = at++;
  };
  for (unsigned place = begin + 1; place < end; ++place) {
    unsigned next = clusterAt[place];
    if (next == kNone)
      continue;
    if (marks[next] == epoch)
      followers.push_back(next);
    else
      put(next);
  }
  put(merged);
  for (unsigned next : followers)
    put(next);
  while (at <= end)
    clusterAt[at++] = kNone;
}

//===----------------------------------------------------------------------===//
// Merging
//===----------------------------------------------------------------------===//

/// Returns how many leading results of a map are the leading loops in order,
/// such as 2 for (i, j, k) -> (i, j, k + 1). A result does not count if a later
/// result uses its loop, too. So for a diagonal (i) -> (i, i) this is 0: each
/// row is read at a different column.
static int64_t identityPrefix(AffineMap map) {
  int64_t count = 0;
  for (AffineExpr expr : map.getResults()) {
    auto dim = dyn_cast<AffineDimExpr>(expr);
    if (!dim || (int64_t)dim.getPosition() != count)
      break;
    ++count;
  }
  for (int64_t dim = 0; dim < count; ++dim)
    if (llvm::any_of(map.getResults().drop_front(count), [&](AffineExpr expr) {
          return expr.isFunctionOfDim(dim);
        }))
      count = dim;
  return count;
}

int64_t Clusters::sharedRowDims(Operation *from, Operation *to) const {
  int64_t shared = INT64_MAX;
  auto limit = [&](int64_t count) { shared = std::min(shared, count); };
  auto isFrom = [&](Value value) { return value.getDefiningOp() == from; };
  if (isa<ReduceBlocksOp>(from)) {
    // heddle.reduce_blocks makes one row of its result from a block of rows.
    bool reads = false;
    to->walk([&](Operation *inner) {
      reads |= llvm::any_of(inner->getOperands(), isFrom);
    });
    return reads ? -1 : INT64_MAX;
  }
  if (auto generic = dyn_cast<linalg::GenericOp>(to)) {
    for (OpOperand &operand : generic->getOpOperands())
      if (isFrom(operand.get()))
        limit(identityPrefix(generic.getMatchingIndexingMap(&operand)));
    generic.walk([&](tensor::ExtractOp extract) {
      if (!isFrom(extract.getTensor()))
        return;
      int64_t count = 0;
      for (Value index : extract.getIndices()) {
        auto loop = index.getDefiningOp<linalg::IndexOp>();
        if (!loop || (int64_t)loop.getDim() != count)
          break;
        ++count;
      }
      limit(count);
    });
  }
  return shared;
}

std::optional<Cluster> Clusters::combine(const Cluster &a,
                                         const Cluster &b) const {
  if (a.ops.size() + b.ops.size() > target.mostOps)
    return std::nullopt;
  Cluster both;
  both.isKernel = true;
  both.work = a.work + b.work;
  int64_t common = 0;
  while (common < (int64_t)std::min(a.rows.size(), b.rows.size()) &&
         a.rows[common] == b.rows[common])
    ++common;
  llvm::SmallDenseSet<unsigned> inA(a.ops.begin(), a.ops.end());
  auto limitEdges = [&](const Cluster &readers, const Cluster &producers) {
    llvm::SmallDenseSet<unsigned> from(producers.ops.begin(),
                                       producers.ops.end());
    for (unsigned to : readers.ops)
      for (unsigned before : predecessors[to])
        if (from.contains(before))
          common = std::min(common, sharedRowDims(ops[before], ops[to]));
  };
  limitEdges(a, b);
  limitEdges(b, a);
  if (common < 0)
    return std::nullopt;
  if (a.rowDims && b.rowDims &&
      (*a.rowDims != *b.rowDims || *a.block != *b.block))
    return std::nullopt;
  both.rowDims = a.rowDims ? a.rowDims : b.rowDims;
  both.block = a.block ? a.block : b.block;
  if (both.rowDims) {
    if (common < *both.rowDims)
      return std::nullopt;
    common = *both.rowDims;
  }
  both.rows.assign(a.rows.begin(), a.rows.begin() + common);
  // The rows of a kernel are divided among threads, so a kernel with much work
  // needs enough rows.
  int64_t most = std::max(product(a.rows), product(b.rows));
  if (product(both.rows) < std::min(target.enoughRows, most) &&
      both.work > target.littleWork)
    return std::nullopt;
  both.sums = a.sums || b.sums;
  for (const Cluster *cluster : {&a, &b})
    if (cluster->sums && product(both.rows) < product(cluster->rows) &&
        both.work / product(both.rows) > target.mostRowWork)
      return std::nullopt;
  both.ops.resize(a.ops.size() + b.ops.size());
  std::merge(a.ops.begin(), a.ops.end(), b.ops.begin(), b.ops.end(),
             both.ops.begin());
  return both;
}

bool Clusters::tryMerge(unsigned a, unsigned b) {
  if (a == b || !clusters[a].isKernel || !clusters[b].isKernel)
    return false;
  std::optional<Cluster> both = combine(clusters[a], clusters[b]);
  unsigned first = a, second = b;
  if (placeOf[b] < placeOf[a])
    std::swap(first, second);
  if (!both || hasDetour(first, second))
    return false;
  place(a, first, second);
  clusters[a] = std::move(*both);
  for (unsigned op : clusters[b].ops)
    clusterOf[op] = a;
  clusters[b] = Cluster();
  return true;
}

void Clusters::fuseProducers() {
  for (unsigned op = 0; op < ops.size(); ++op) {
    if (!clusters[clusterOf[op]].isKernel)
      continue;
    // Tries the nearest producer first, because its value is most likely in
    // cache.
    SmallVector<unsigned> before(predecessors[op]);
    llvm::sort(before, std::greater<>());
    for (unsigned from : before) {
      // An op of the backward pass that reads a value of the forward pass stays
      // in the backward pass. In the forward kernel, its result would be
      // stored, and live until the backward pass.
      if (op - clusters[clusterOf[from]].ops.back() > target.near &&
          op > clusters[clusterOf[from]].ops.back())
        continue;
      tryMerge(clusterOf[from], clusterOf[op]);
    }
  }
}

void Clusters::fuseSiblings() {
  llvm::MapVector<Value, SmallVector<unsigned>> readers;
  for (unsigned op = 0; op < ops.size(); ++op) {
    if (!clusters[clusterOf[op]].isKernel)
      continue;
    for (Value operand : ops[op]->getOperands()) {
      auto type = dyn_cast<RankedTensorType>(operand.getType());
      Operation *from = operand.getDefiningOp();
      if (type && type.getNumElements() >= target.largeOperand &&
          !(from && isFree(from)))
        readers[operand].push_back(op);
    }
  }
  for (auto &[value, list] : readers)
    for (size_t i = 0; i + 1 < list.size(); ++i) {
      if (list[i + 1] - list[i] > target.near)
        continue;
      // Merges the clusters only if both read the tensor row by row.
      unsigned a = clusterOf[list[i]], b = clusterOf[list[i + 1]];
      auto rowsOf = [&](unsigned op) -> int64_t {
        auto generic = dyn_cast<linalg::GenericOp>(ops[op]);
        if (!generic)
          return cast<ReduceBlocksOp>(ops[op]).getRowDims();
        int64_t shared = INT64_MAX;
        for (OpOperand &operand : generic->getOpOperands())
          if (operand.get() == value)
            shared = std::min(
                shared,
                identityPrefix(generic.getMatchingIndexingMap(&operand)));
        return shared;
      };
      if (clusters[a].rows.empty() || clusters[b].rows.empty() ||
          rowsOf(list[i]) == 0 || rowsOf(list[i + 1]) == 0)
        continue;
      tryMerge(a, b);
    }
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

SmallVector<const Cluster *> Clusters::getOrder() const {
  SmallVector<const Cluster *> order;
  SmallVector<char> state(clusters.size(), 0);
  // An explicit stack, because programs are long chains.
  SmallVector<std::pair<unsigned, bool>> work;
  for (unsigned op = 0; op < ops.size(); ++op) {
    unsigned cluster = clusterOf[op];
    // A kernel takes the place of its last op, unless its results are needed
    // earlier.
    if (clusters[cluster].ops.back() != op)
      continue;
    work.push_back({cluster, false});
    while (!work.empty()) {
      auto [next, done] = work.pop_back_val();
      if (done) {
        order.push_back(&clusters[next]);
        continue;
      }
      if (state[next])
        continue;
      state[next] = 1;
      work.push_back({next, true});
      for (unsigned inside : clusters[next].ops)
        for (unsigned before : predecessors[inside])
          if (!state[clusterOf[before]])
            work.push_back({clusterOf[before], false});
    }
  }
  return order;
}
