//===- HeddleAttention.cpp - Attention of a split sequence ----------------===//
//
// The localization of an attention whose queries (factor s) or keys (t) are
// split. A device computes:
//
// - s: its own queries over all keys, at their global positions.
// - t: all queries over its own keys. Each device's output is weighted by its
//   share of the row's sum of exponentials; the weighted outputs are added.
// - s and t over the same axes: its own queries, while the keys and values go
//   round a ring of the devices. Each step's output is combined with the
//   outputs of the steps before (join). With a causal mask, the sequence is
//   first redistributed so that every device has the same work, and afterwards
//   brought back (RingParts).
//
// The idea of the ring is H. Liu, M. Zaharia, P. Abbeel, "Ring attention with
// blockwise transformers for near-infinite context" (2023).
//
//===----------------------------------------------------------------------===//

#include "LocalBuilder.h"

using namespace mlir;
using namespace heddle;

using LocalResults = FailureOr<SmallVector<Value>>;

namespace {

/// The attention over some of the keys: its output, and the log of the sum of
/// exponentials over these keys.
struct Partial {
  Value output, lse;
};

} // namespace

/// Replaces -infinity, the maximum of a row that saw no key, by the lowest
/// finite number. The maximum is subtracted before exp: -infinity less a finite
/// number is -infinity, whose exp is zero, while -infinity less itself is NaN.
static Value finiteMaximum(const LocalBuilder &b, Value x) {
  return b.make<arith::MaximumFOp>(
      x, b.splat(typeOf(x), -std::numeric_limits<float>::max()));
}

/// Joins the attentions over two disjoint sets of keys:
///   m = max(lse, lse'), s = exp(lse - m) + exp(lse' - m)
///   o'' = (o exp(lse - m) + o' exp(lse' - m)) / s,  lse'' = m + log s.
static Partial join(const LocalBuilder &b, Partial x, Partial y) {
  Value m = finiteMaximum(b, b.make<arith::MaximumFOp>(x.lse, y.lse));
  Value p = b.make<math::ExpOp>(b.make<arith::SubFOp>(x.lse, m));
  Value q = b.make<math::ExpOp>(b.make<arith::SubFOp>(y.lse, m));
  Value sum = b.make<arith::AddFOp>(p, q);
  // The larger of p and q is 1, unless the row saw no key. Then both are 0, and
  // 0.5 avoids a division by 0.
  Value divisor = b.make<arith::MaximumFOp>(sum, b.splat(typeOf(sum), 0.5));
  RankedTensorType type = typeOf(x.output);
  auto weighted = [&](Value output, Value weight) {
    return b.make<arith::MulFOp>(
        output, b.alongLast(b.make<arith::DivFOp>(weight, divisor), type));
  };
  return {b.make<arith::AddFOp>(weighted(x.output, p), weighted(y.output, q)),
          b.make<arith::AddFOp>(m, b.make<math::LogOp>(sum))};
}

//===----------------------------------------------------------------------===//
// One call
//===----------------------------------------------------------------------===//

namespace {

/// Builds the local ops of one global attention, or of its gradient.
template <typename OpTy> struct Attention {
  Attention(OpTy op, Localizer &localizer)
      : op(op), rule(op.getShardingRule()),
        localizer(localizer), b{localizer.builder, op.getLoc()},
        s(*rule.getFactor("s")), t(*rule.getFactor("t")) {}

  bool needsCoordinates() const {
    if (!op.getOffsets().empty())
      return true; // a part of a batch has coordinates already
    bool anySplit = false;
    for (unsigned i = 0; i < rule.factors.size(); ++i)
      anySplit |= localizer.isSplit(i);
    bool positions = localizer.isSplit(s) || localizer.isSplit(t);
    return (anySplit && !op.getDropout().isZero()) ||
           (positions && (op.getCausal() || op.getWindow())) ||
           (localizer.isSplit(t) && op.getMask()) || localizer.isPadded(t);
  }

  /// Appends the values of `offsets` (b, s, t, n, r) and `global_shape` (s, t,
  /// n, r).
  void getCoordinates(Value query, Value key, SmallVectorImpl<Value> &offsets,
                      SmallVectorImpl<int64_t> &shape) const {
    for (StringRef name : {"b", "s", "t", "n", "r"}) {
      std::optional<unsigned> factor = rule.getFactor(name);
      offsets.push_back(name == "s"   ? query
                        : name == "t" ? key
                        : factor      ? localizer.getOffset(*factor)
                                      : b.index(0));
      if (name != "b")
        shape.push_back(factor ? rule.factors[*factor].size : 1);
    }
    // The op may be a part of a larger one (a sub-batch).
    ValueRange own = localizer.operands.take_back(op.getOffsets().size());
    for (auto [offset, first] : llvm::zip(offsets, own))
      offset = b.add(first, offset);
    if (auto whole = op.getGlobalShape())
      shape.assign(whole->begin(), whole->end());
  }

  /// Returns the local mask: the rows of this device's queries, all keys.
  Value getMask() const {
    return op.getMask() ? localizer.operands[op.getMaskIndex()] : Value();
  }

  /// Clones the op with `tensors` as its first operands and results of `types`.
  /// `mask` has the rows of these queries. `query` and `key` are the global
  /// positions of the first query and key.
  Operation *make(ArrayRef<Value> tensors, Value mask, ArrayRef<Type> types,
                  Value query, Value key) const {
    SmallVector<Value> offsets;
    SmallVector<int64_t> shape;
    if (needsCoordinates())
      getCoordinates(query, key, offsets, shape);
    SmallVector<Value> operands(tensors);
    if (op.getStep())
      operands.push_back(localizer.operands[tensors.size()]);
    if (mask)
      operands.push_back(mask);
    Operation *made = localizer.builder.insert(op->clone());
    cast<OpTy>(made).getOffsetsMutable().clear();
    made->setOperands(operands);
    for (auto [result, type] : llvm::zip(made->getResults(), types))
      result.setType(type);
    if (offsets.empty())
      return made;
    auto local = cast<OpTy>(made);
    local.getOffsetsMutable().assign(offsets);
    local.setGlobalShape(shape);
    return made;
  }
  /// Makes the local op on the queries and keys that the device holds.
  Operation *makeInPlace(unsigned numTensors) const {
    return make(llvm::to_vector(localizer.operands.take_front(numTensors)),
                getMask(), llvm::to_vector(localizer.resultTypes),
                localizer.getOffset(s), localizer.getOffset(t));
  }

  mutable OpTy op; // its accessors are not const
  ShardingRule rule;
  Localizer &localizer;
  LocalBuilder b;
  unsigned s, t;
};

} // namespace

//===----------------------------------------------------------------------===//
// The ring
//===----------------------------------------------------------------------===//

namespace {

/// Redistributes ("deals") a sequence over a ring of P devices, so that all
/// have the same work under a causal mask. Without `deal`, every device keeps
/// its part of the sequence as it is.
///
/// If every device kept its part, the last device's queries would see P times
/// as many keys as the first device's. So the sequence is cut into 2 P chunks,
/// two for each device. Outside of the ring, device d holds the chunks 2 d and
/// 2 d + 1; in the ring, it holds the chunks d and 2 P - 1 - d. A device's two
/// chunks of queries and two chunks of keys make four pairs. In each step but
/// the first, exactly two of the four are not masked, on every device.
///
/// One of d and 2 P - 1 - d is even and one odd. So one permutation of the
/// devices moves all even chunks and another one all odd chunks. Even chunks
/// may have one row more than odd ones.
///
/// Example, P = 4: the even chunks 0 2 4 6 go to devices 0 2 3 1, the odd
/// chunks 1 3 5 7 to devices 1 3 2 0; device 1 then holds 6 and 1.
class RingParts {
public:
  RingParts(const LocalBuilder &b, Localizer &localizer, unsigned factor,
            bool deal, int64_t rows)
      : b(b), localizer(localizer), factor(factor), deal(deal), rows(rows),
        degree(localizer.getDegree(factor)), evenRows((rows + 1) / 2) {}

  int64_t getNumParts() const { return deal ? 2 : 1; }

  /// Cuts a local tensor into its chunks and sends each to the device that
  /// holds it in the ring. Returns the even and the odd chunk that this device
  /// gets.
  SmallVector<Value> split(Value value) const {
    if (!deal)
      return {value};
    SmallVector<Value> parts;
    for (int64_t part : {0, 1}) {
      SmallVector<int64_t> sources(degree);
      for (int64_t device = 0; device < degree; ++device)
        sources[holderOf(2 * device + part)] = device;
      parts.push_back(localizer.permute(
          part == 0 ? b.slice(value, 0, evenRows)
                    : b.slice(value, evenRows, rows - evenRows),
          sources, factor));
    }
    return parts;
  }
  /// The reverse of split.
  Value merge(ArrayRef<Value> parts) const {
    if (!deal)
      return parts.front();
    SmallVector<Value> home;
    for (int64_t part : {0, 1}) {
      SmallVector<int64_t> sources;
      for (int64_t device = 0; device < degree; ++device)
        sources.push_back(holderOf(2 * device + part));
      home.push_back(localizer.permute(parts[part], sources, factor));
    }
    return b.concatenate(home[0], home[1]);
  }
  /// The global position of the first row of a device's part: part 0 is its
  /// even chunk, part 1 its odd one.
  Value getPosition(int64_t part, Value device) const {
    if (!deal)
      return b.mul(device, b.index(rows));
    // The even one of d and 2 P - 1 - d; the two add up to 2 P - 1.
    Value last = b.index(2 * degree - 1);
    Value isOdd = b.mod(device, b.index(2));
    Value chunk =
        b.add(device, b.mul(isOdd, b.sub(last, b.mul(b.index(2), device))));
    if (part == 1)
      chunk = b.sub(last, chunk);
    Value first = b.mul(b.div(chunk, b.index(2)), b.index(rows));
    return part == 0 ? first : b.add(first, b.index(evenRows));
  }
  /// The device whose keys this device holds after `step` rotations.
  Value getSource(int64_t step) const {
    Value device = localizer.getIndex(factor);
    if (step == 0)
      return device;
    return b.mod(b.add(device, b.index(step)), b.index(degree));
  }
  /// Passes the parts on: device d gets those of device d + 1.
  void rotate(MutableArrayRef<Value> parts) const {
    SmallVector<int64_t> sources;
    for (int64_t device = 0; device < degree; ++device)
      sources.push_back((device + 1) % degree);
    for (Value &part : parts)
      part = localizer.permute(part, sources, factor);
  }
  int64_t getDegree() const { return degree; }

private:
  /// The device that holds the chunk in the ring.
  int64_t holderOf(int64_t chunk) const {
    return chunk < degree ? chunk : 2 * degree - 1 - chunk;
  }

  const LocalBuilder &b;
  Localizer &localizer;
  unsigned factor;
  bool deal;
  int64_t rows, degree, evenRows;
};

/// The distributions of queries and keys in the ring.
template <typename OpTy> struct Ring {
  explicit Ring(const Attention<OpTy> &a)
      : queries(a.b, a.localizer, a.s, isDealt(a), rowsOf(a, 0)),
        keys(a.b, a.localizer, a.t, isDealt(a), rowsOf(a, 1)) {}

  static int64_t rowsOf(const Attention<OpTy> &a, unsigned operand) {
    return typeOf(a.localizer.operands[operand]).getDimSize(kSequenceDim);
  }
  static bool isDealt(const Attention<OpTy> &a) {
    return a.op.getCausal() &&
           a.rule.factors[a.s].size == a.rule.factors[a.t].size &&
           rowsOf(a, 0) >= 2;
  }

  /// Returns the mask of each part of the queries.
  static SmallVector<Value> splitMask(const Attention<OpTy> &a,
                                      const RingParts &queries) {
    Value mask = a.getMask();
    if (mask && typeOf(mask).getDimSize(kSequenceDim) > 1)
      return queries.split(mask);
    return SmallVector<Value>(queries.getNumParts(), mask);
  }

  RingParts queries, keys;
};

} // namespace

/// Adds y to x; an x that is null counts as zero.
static void accumulate(const LocalBuilder &b, Value &x, Value y) {
  y = b.widen(y);
  x = x ? b.make<arith::AddFOp>(x, y) : y;
}

/// Builds the ring of an attention: one local op for each step and each pair of
/// a part of queries and a part of keys.
static SmallVector<Value> goRound(const Attention<AttentionOp> &a) {
  const LocalBuilder &b = a.b;
  Ring<AttentionOp> ring(a);
  SmallVector<Value> query = ring.queries.split(a.localizer.operands[0]);
  SmallVector<Value> key = ring.keys.split(a.localizer.operands[1]);
  SmallVector<Value> value = ring.keys.split(a.localizer.operands[2]);
  SmallVector<Value> mask = Ring<AttentionOp>::splitMask(a, ring.queries);
  SmallVector<std::optional<Partial>> sums(query.size());
  int64_t degree = ring.queries.getDegree();
  for (int64_t step = 0; step < degree; ++step) {
    if (step > 0) {
      ring.keys.rotate(key);
      ring.keys.rotate(value);
    }
    for (auto [i, sum] : llvm::enumerate(sums))
      for (unsigned j = 0; j < key.size(); ++j) {
        RankedTensorType type = typeOf(query[i]);
        auto lse = RankedTensorType::get(type.getShape().drop_back(),
                                         b.b.getF32Type());
        Operation *call =
            a.make({query[i], key[j], value[j]}, mask[i], {type, lse},
                   ring.queries.getPosition(i, ring.queries.getSource(0)),
                   ring.keys.getPosition(j, ring.keys.getSource(step)));
        Partial part{b.widen(call->getResult(0)), call->getResult(1)};
        sum = sum ? join(b, *sum, part) : part;
      }
  }
  SmallVector<Value> output, lse;
  for (auto [i, sum] : llvm::enumerate(sums)) {
    output.push_back(b.narrow(sum->output, query[i].getType()));
    lse.push_back(sum->lse);
  }
  return {ring.queries.merge(output), ring.queries.merge(lse)};
}

/// Builds the ring of the gradient. The gradients of keys and values go round
/// with the keys and values, one rotation more, and so end at their own device.
static SmallVector<Value> goRound(const Attention<AttentionGradOp> &a) {
  const LocalBuilder &b = a.b;
  Ring<AttentionGradOp> ring(a);
  auto split = [&](const RingParts &parts, unsigned operand) {
    return parts.split(a.localizer.operands[operand]);
  };
  SmallVector<Value> query = split(ring.queries, 0), key = split(ring.keys, 1),
                     value = split(ring.keys, 2),
                     output = split(ring.queries, 3),
                     lse = split(ring.queries, 4),
                     outputGrad = split(ring.queries, 5);
  SmallVector<Value> mask = Ring<AttentionGradOp>::splitMask(a, ring.queries);
  SmallVector<Value> queryGrad(query.size()), keyGrad(key.size()),
      valueGrad(key.size());
  int64_t degree = ring.queries.getDegree();
  for (int64_t step = 0; step < degree; ++step) {
    for (unsigned i = 0; i < query.size(); ++i)
      for (unsigned j = 0; j < key.size(); ++j) {
        Operation *call = a.make(
            {query[i], key[j], value[j], output[i], lse[i], outputGrad[i]},
            mask[i], {query[i].getType(), key[j].getType(), value[j].getType()},
            ring.queries.getPosition(i, ring.queries.getSource(0)),
            ring.keys.getPosition(j, ring.keys.getSource(step)));
        accumulate(b, queryGrad[i], call->getResult(0));
        accumulate(b, keyGrad[j], call->getResult(1));
        accumulate(b, valueGrad[j], call->getResult(2));
      }
    if (step + 1 < degree) {
      ring.keys.rotate(key);
      ring.keys.rotate(value);
    }
    ring.keys.rotate(keyGrad);
    ring.keys.rotate(valueGrad);
  }
  auto finish = [&](const RingParts &parts, SmallVector<Value> &grads,
                    ArrayRef<Value> like) {
    for (auto [grad, other] : llvm::zip(grads, like))
      grad = b.narrow(grad, other.getType());
    return parts.merge(grads);
  };
  return {finish(ring.queries, queryGrad, query),
          finish(ring.keys, keyGrad, key), finish(ring.keys, valueGrad, value)};
}

//===----------------------------------------------------------------------===//
// The ops
//===----------------------------------------------------------------------===//

/// Builds an attention with split keys: the devices' outputs, each over its own
/// keys, are weighted and added as in join.
static SmallVector<Value> combineKeys(const Attention<AttentionOp> &a) {
  const LocalBuilder &b = a.b;
  Operation *local = a.makeInPlace(3);
  Value output = b.widen(local->getResult(0)), lse = local->getResult(1);
  Value m = finiteMaximum(b, a.localizer.allReduce(lse, FactorKind::Max, a.t));
  Value mine = b.make<math::ExpOp>(b.make<arith::SubFOp>(lse, m));
  Value sum = a.localizer.allReduce(mine, FactorKind::Sum, a.t);
  Value divisor = b.make<arith::MaximumFOp>(sum, b.splat(typeOf(sum), 0.5));
  Value weight = b.make<arith::DivFOp>(mine, divisor);
  Value whole = a.localizer.allReduce(
      b.make<arith::MulFOp>(output, b.alongLast(weight, typeOf(output))),
      FactorKind::Sum, a.t);
  return {b.narrow(whole, a.localizer.resultTypes[0]),
          b.make<arith::AddFOp>(m, b.make<math::LogOp>(sum))};
}

LocalResults AttentionOp::localize(Localizer &localizer) {
  Attention<AttentionOp> attention(*this, localizer);
  if (localizer.doFactorsMeet())
    return goRound(attention);
  if (localizer.isSplit(attention.t))
    return combineKeys(attention);
  return SmallVector<Value>(attention.makeInPlace(3)->getResults());
}

LocalResults AttentionGradOp::localize(Localizer &localizer) {
  Attention<AttentionGradOp> attention(*this, localizer);
  if (localizer.doFactorsMeet())
    return goRound(attention);
  return SmallVector<Value>(attention.makeInPlace(6)->getResults());
}
