//===- Products.cpp - Contractions and attention --------------------------===//

#include "Evaluation.h"
#include "dialects/Heddle/Heddle.h"
#include <cmath>
#include <map>

using namespace mlir;
using namespace heddle;

/// Runs one loop for each letter; the innermost loop adds one product to an
/// element of the result.
static bool evaluateContract(ContractOp op, Evaluation &e) {
  StringRef letters[] = {op.getContraction().getLhs().getValue(),
                         op.getContraction().getRhs().getValue(),
                         op.getContraction().getResult().getValue()};
  const Tensor &lhs = e.operand(0), &rhs = e.operand(1);
  Tensor &result = e.result();
  if (op.getAccumulate())
    result = e[op.getAccumulate()];
  if (op.getBias())
    forEachIndex(result.shape, [&](ArrayRef<int64_t> index) {
      SmallVector<int64_t> from;
      ArrayRef<int64_t> along = *op.getBiasAlong();
      for (int64_t d : along)
        from.push_back(index[d]);
      result.at(index) += e[op.getBias()].at(from);
    });
  std::map<char, unsigned> loops;
  SmallVector<int64_t> sizes;
  auto addLoops = [&](StringRef names, const Tensor &tensor) {
    for (auto [letter, size] : llvm::zip(names, tensor.shape))
      if (loops.try_emplace(letter, sizes.size()).second)
        sizes.push_back(size);
  };
  addLoops(letters[0], lhs);
  addLoops(letters[1], rhs);
  // By how many elements the place in a tensor moves with each loop.
  auto stridesOf = [&](StringRef names, const Tensor &tensor) {
    SmallVector<int64_t> strides(sizes.size());
    int64_t stride = 1;
    for (size_t d = names.size(); d-- > 0; stride *= tensor.shape[d])
      strides[loops[names[d]]] = stride;
    return strides;
  };
  SmallVector<int64_t> strides[] = {stridesOf(letters[0], lhs),
                                    stridesOf(letters[1], rhs),
                                    stridesOf(letters[2], result)};
  forEachIndex(sizes, [&](ArrayRef<int64_t> loop) {
    int64_t at[] = {0, 0, 0};
    for (size_t i = 0; i < loop.size(); ++i)
      for (int tensor = 0; tensor < 3; ++tensor)
        at[tensor] += loop[i] * strides[tensor][i];
    result.values[at[2]] += lhs.values[at[0]] * rhs.values[at[1]];
  });
  return true;
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

namespace {

/// The positions, scores and dropout factors of an attention. If the query
/// tensor has four dimensions, each group of heads has one member.
template <typename OpTy> struct Scores {
  Scores(OpTy op, Evaluation &e)
      : op(op), e(e), query(e[op.getQuery()]), key(e[op.getKey()]),
        value(e[op.getValue()]), batch(query.shape[0]), queries(query.shape[1]),
        keys(key.shape[1]), groups(query.shape[2]),
        members(query.rank() == 5 ? query.shape[3] : 1), head(query.last()),
        scale(op.getScale().convertToDouble()),
        dropout(op.getDropout().convertToDouble()),
        step(op.getStep() ? int64_t(e[op.getStep()].values[0]) : 0) {
    for (auto [i, offset] : llvm::enumerate(op.getOffsets()))
      offsets[i] = e[offset].values[0];
    int64_t local[] = {queries, keys, groups, members};
    ArrayRef<int64_t> global =
        op.getGlobalShape() ? *op.getGlobalShape() : ArrayRef<int64_t>(local);
    llvm::copy(global, globalShape);
  }

  int64_t row(int64_t b, int64_t i, int64_t g, int64_t r) const {
    return ((b * queries + i) * groups + g) * members + r;
  }
  int64_t keyRow(int64_t b, int64_t j, int64_t g) const {
    return (b * keys + j) * groups + g;
  }
  /// Whether query i attends to key j (local indices): the key lies within the
  /// global sequence, if causal, not after the query, within the window, and is
  /// not hidden by the mask.
  bool sees(int64_t b, int64_t i, int64_t g, int64_t r, int64_t j) const {
    int64_t at = j + offsets[2], from = i + offsets[1];
    if (at >= globalShape[1] || (op.getCausal() && at > from))
      return false;
    if (op.getWindow() && std::abs(at - from) >= int64_t(*op.getWindow()))
      return false;
    if (!op.getMask())
      return true;
    double element = maskAt(b, i, g, r, at);
    return addsMask() ? element > -1e30 : element != 0;
  }
  bool addsMask() const {
    return op.getMask() && op.getMask().getType().getElementType().isF32();
  }
  /// The mask's element for the key at global position `at`.
  double maskAt(int64_t b, int64_t i, int64_t g, int64_t r, int64_t at) const {
    const Tensor &mask = e[op.getMask()];
    SmallVector<int64_t> index{b, i, g, r, at};
    if (mask.rank() == 4)
      index.erase(&index[3]);
    for (auto [position, size] : llvm::zip(index, mask.shape))
      position = size == 1 ? 0 : position;
    return mask.at(index);
  }

  double score(int64_t b, int64_t i, int64_t g, int64_t r, int64_t j) const {
    int64_t row = this->row(b, i, g, r), keyRow = this->keyRow(b, j, g);
    double sum = 0;
    for (int64_t d = 0; d < head; ++d)
      sum += query.values[row * head + d] * key.values[keyRow * head + d];
    return scale * sum + (addsMask() ? maskAt(b, i, g, r, j + offsets[2]) : 0);
  }
  /// The factor of a probability: 0 if dropout drops it, else 1 / (1 - rate).
  double keep(int64_t b, int64_t i, int64_t g, int64_t r, int64_t j) const {
    if (dropout == 0)
      return 1;
    const auto &[s, t, n, m] = globalShape;
    int64_t linear = (b + offsets[0]) * n + g + offsets[3];
    linear = (linear * m + r + offsets[4]) * s + i + offsets[1];
    linear = linear * t + j + offsets[2];
    bool dropped = isDropped(linear, step, op.getOpName().value_or(""),
                             op.getSeed(), dropout);
    return dropped ? 0 : 1 / (1 - dropout);
  }
  /// Calls body(b, i, g, r) for every row.
  template <typename Body> void forEachRow(Body body) const {
    forEachIndex({batch, queries, groups, members},
                 [&](ArrayRef<int64_t> x) { body(x[0], x[1], x[2], x[3]); });
  }

  mutable OpTy op; // its accessors are not const
  Evaluation &e;
  const Tensor &query, &key, &value;
  int64_t batch, queries, keys, groups, members, head;
  double scale, dropout;
  int64_t step;
  int64_t offsets[5] = {};     ///< along b, s, t, n, r
  int64_t globalShape[4] = {}; ///< sizes of s, t, n, r
};

} // namespace

static bool evaluateAttention(AttentionOp op, Evaluation &e) {
  Scores<AttentionOp> s(op, e);
  Tensor &output = e.result(0), &lse = e.result(1);
  s.forEachRow([&](int64_t b, int64_t i, int64_t g, int64_t r) {
    int64_t row = s.row(b, i, g, r);
    double maximum = -INFINITY, sum = 0;
    for (int64_t j = 0; j < s.keys; ++j)
      if (s.sees(b, i, g, r, j))
        maximum = std::max(maximum, s.score(b, i, g, r, j));
    for (int64_t j = 0; j < s.keys; ++j)
      if (s.sees(b, i, g, r, j))
        sum += std::exp(s.score(b, i, g, r, j) - maximum);
    lse.values[row] = maximum + std::log(sum);
    for (int64_t j = 0; j < s.keys; ++j) {
      if (!s.sees(b, i, g, r, j))
        continue;
      int64_t keyRow = s.keyRow(b, j, g);
      double p = std::exp(s.score(b, i, g, r, j) - lse.values[row]) *
                 s.keep(b, i, g, r, j);
      for (int64_t d = 0; d < s.head; ++d)
        output.values[row * s.head + d] +=
            p * s.value.values[keyRow * s.head + d];
    }
  });
  return true;
}

// With p the probabilities, f the dropout factors and o = (p f) v:
//
// dv = (p f)^T do, dp = f (do v^T), ds = p (dp - sum(p dp)), dq = scale ds k,
// dk = scale ds^T q. The sum over the keys is do . o.
static bool evaluateAttentionGrad(AttentionGradOp op, Evaluation &e) {
  Scores<AttentionGradOp> s(op, e);
  const Tensor &output = e[op.getOutput()], &lse = e[op.getLse()],
               &grad = e[op.getOutputGrad()];
  Tensor &dq = e.result(0), &dk = e.result(1), &dv = e.result(2);
  s.forEachRow([&](int64_t b, int64_t i, int64_t g, int64_t r) {
    int64_t row = s.row(b, i, g, r), head = s.head;
    double delta = 0;
    for (int64_t d = 0; d < head; ++d)
      delta += grad.values[row * head + d] * output.values[row * head + d];
    for (int64_t j = 0; j < s.keys; ++j) {
      if (!s.sees(b, i, g, r, j))
        continue;
      int64_t keyRow = s.keyRow(b, j, g);
      double p = std::exp(s.score(b, i, g, r, j) - lse.values[row]);
      double keep = s.keep(b, i, g, r, j), dp = 0;
      for (int64_t d = 0; d < head; ++d) {
        dv.values[keyRow * head + d] += p * keep * grad.values[row * head + d];
        dp += grad.values[row * head + d] * s.value.values[keyRow * head + d];
      }
      double ds = s.scale * p * (keep * dp - delta);
      for (int64_t d = 0; d < head; ++d) {
        dq.values[row * head + d] += ds * s.key.values[keyRow * head + d];
        dk.values[keyRow * head + d] += ds * s.query.values[row * head + d];
      }
    }
  });
  return true;
}

bool heddle::evaluateProduct(Evaluation &e) {
  return llvm::TypeSwitch<Operation *, bool>(e.op)
      .Case([&](ContractOp op) { return evaluateContract(op, e); })
      .Case([&](AttentionOp op) { return evaluateAttention(op, e); })
      .Case([&](AttentionGradOp op) { return evaluateAttentionGrad(op, e); })
      .Default(false);
}
