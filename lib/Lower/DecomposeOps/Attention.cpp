//===- Attention.cpp - Attention as loops, for GPUs -----------------------===//
//
// CPUs call a library for attention. On a GPU a team of threads computes the
// output of one query, and keeps the scores of that query alone:
//
//   s[j] = scale sum_d q[d] k[j, d], masked;  p = dropout(softmax(s))
//   o[d] = sum_j p[j] v[j, d]
//
// The gradients compute the probabilities again from lse. That of a query runs
// over the keys, those of a key and its value over the queries of one head.
//
//===----------------------------------------------------------------------===//

#include "Decomposer.h"
#include "Philox.h"
#include "heddle/Lower/StreamId.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Builds the ops of one attention. Loops are named b, i (query), j (key), g
/// (group), r (member of the group, perhaps absent) and d.
template <typename Op> class Attention {
public:
  Attention(Op op, Decomposer &d)
      : op(op), d(d), f32(d.builder.getF32Type()),
        hasMembers(op.getQuery().getType().getRank() == 5) {
    ArrayRef<int64_t> q = op.getQuery().getType().getShape();
    sizes = {{'b', q[0]},
             {'i', q[1]},
             {'j', op.getKey().getType().getDimSize(1)},
             {'g', q[2]},
             {'r', hasMembers ? q[3] : 1},
             {'d', q.back()}};
    if (auto shape = op.getGlobalShape())
      for (auto [letter, size] : llvm::zip(StringRef("ijgr"), *shape))
        global[letter] = size;
  }

  /// Returns the letters without r if the queries have no such dimension.
  std::string letters(StringRef text) const {
    std::string result;
    for (char letter : text)
      if (letter != 'r' || hasMembers)
        result += letter;
    return result;
  }
  RankedTensorType type(StringRef text, Type element) const {
    SmallVector<int64_t> shape;
    for (char letter : letters(text))
      shape.push_back(sizes.at(letter));
    return RankedTensorType::get(shape, element);
  }
  Operand operand(Value value, StringRef of, StringRef loops) const {
    std::string all = letters(loops);
    SmallVector<int64_t> positions;
    for (char letter : letters(of))
      positions.push_back(all.find(letter));
    return {value, d.dims(all.size(), positions)};
  }

  /// Returns sum over `reduced` of factor * x * y, in f32.
  Value product(StringRef result, StringRef reduced, Value x, StringRef ofX,
                Value y, StringRef ofY) {
    std::string loops = (result + reduced).str();
    SmallVector<int64_t> extents;
    for (char letter : letters(reduced))
      extents.push_back(sizes.at(letter));
    return d.reduce(
        type(result, f32), extents,
        {operand(x, ofX, loops), operand(y, ofY, loops)}, ReductionKind::Sum,
        [&](Body &b, ValueRange v, Value sum) {
          return b.add(sum, b.mul(b.convert(v[0], f32), b.convert(v[1], f32)));
        });
  }
  Value map(StringRef result, ArrayRef<Operand> operands,
            Decomposer::MapBody body) {
    return d.map(type(result, f32), operands, body);
  }

  /// Returns the global position along a loop of the result `loops`.
  Value position(Body &b, StringRef loops, char letter) {
    size_t at = letters(loops).find(letter);
    Type i64 = b.getI64Type();
    Value index = at == std::string::npos ? b.integer(i64, 0)
                                          : b.toInteger(b.index(at), i64);
    if (op.getOffsets().empty())
      return index;
    size_t number = StringRef("bijgr").find(letter);
    return b.create<arith::AddIOp>(index,
                                   b.toInteger(op.getOffsets()[number], i64));
  }
  /// Returns whether the query sees the key.
  Value isVisible(Body &b, StringRef loops) {
    Value key = position(b, loops, 'j');
    int64_t keys = global.count('j') ? global.at('j') : sizes.at('j');
    Value visible;
    if (keys != sizes.at('j') || !op.getOffsets().empty())
      visible = b.create<arith::CmpIOp>(arith::CmpIPredicate::slt, key,
                                        b.integer(b.getI64Type(), keys));
    if (op.getCausal()) {
      Value seen = b.create<arith::CmpIOp>(arith::CmpIPredicate::sle, key,
                                           position(b, loops, 'i'));
      visible =
          visible ? b.create<arith::AndIOp>(visible, seen).getResult() : seen;
    }
    return visible;
  }
  /// Returns x / (1 - rate) where the probability is kept, else 0.
  Value drop(Body &b, StringRef loops, Value x, Value step) {
    auto rate = float(op.getDropout().convertToDouble());
    if (rate == 0)
      return x;
    Type i64 = b.getI64Type();
    Value index = position(b, loops, 'b');
    for (char letter : StringRef("grij")) {
      int64_t size =
          global.count(letter) ? global.at(letter) : sizes.at(letter);
      index = b.create<arith::AddIOp>(
          b.create<arith::MulIOp>(index, b.integer(i64, size)),
          position(b, loops, letter));
    }
    Value two = b.integer(i64, 2);
    std::array<Value, 4> words =
        philox(b, b.create<arith::ShRUIOp>(index, two), step,
               getStreamId(*op.getOpName()), op.getSeed());
    Value number = b.create<arith::AndIOp>(index, b.integer(i64, 3));
    Value word = words[0];
    for (int64_t i : {1, 2, 3}) {
      Value isWord = b.create<arith::CmpIOp>(arith::CmpIPredicate::eq, number,
                                             b.integer(i64, i));
      word = b.create<arith::SelectOp>(isWord, words[i], word);
    }
    Value limit = b.integer(i64, int64_t(double(rate) * 4294967296.0));
    Value keep =
        b.create<arith::CmpIOp>(arith::CmpIPredicate::uge, word, limit);
    return b.create<arith::SelectOp>(keep, b.mul(x, 1.0 / (1.0 - rate)),
                                     b.constant(f32, 0.0));
  }
  /// Returns the operand of the step number, if the op drops anything.
  SmallVector<Operand> step(StringRef loops) {
    if (op.getDropout().convertToDouble() == 0)
      return {};
    auto type = op.getStep().getType();
    SmallVector<AffineExpr> zeros(type.getRank(),
                                  d.builder.getAffineConstantExpr(0));
    return {{op.getStep(), AffineMap::get(letters(loops).size(), 0, zeros,
                                          d.builder.getContext())}};
  }
  Value round(StringRef result, Value value, double factor) {
    Type element = op.getQuery().getType().getElementType();
    return d.map(type(result, element), {operand(value, result, result)},
                 [&](Body &b, ValueRange v) {
                   Value x = factor == 1 ? v[0] : b.mul(v[0], factor);
                   return b.convert(x, element);
                 });
  }

  Op op;
  Decomposer &d;
  Type f32;
  bool hasMembers;
  std::map<char, int64_t> sizes, global;
};

void decompose(AttentionOp op, Decomposer &d) {
  Attention<AttentionOp> a(op, d);
  double scale = op.getScale().convertToDouble();
  Value products =
      a.product("bigrj", "d", op.getQuery(), "bigrd", op.getKey(), "bjgd");
  Value scores =
      a.map("bigrj", {a.operand(products, "bigrj", "bigrj")},
            [&](Body &b, ValueRange v) {
              Value score = b.mul(v[0], scale);
              if (Value visible = a.isVisible(b, "bigrj"))
                return b
                    .create<arith::SelectOp>(visible, score,
                                             b.constant(a.f32, -kInfinity))
                    .getResult();
              return score;
            });
  Value largest =
      d.reduce(a.type("bigr", a.f32), {a.sizes.at('j')},
               {a.operand(scores, "bigrj", "bigrj")}, ReductionKind::Max,
               [&](Body &b, ValueRange v, Value most) -> Value {
                 return b.create<arith::MaximumFOp>(most, v[0]);
               });
  // A query that sees no key has the maximum -inf, which is subtracted as 0.
  Value maximum = a.map(
      "bigr", {a.operand(largest, "bigr", "bigr")},
      [&](Body &b, ValueRange v) -> Value {
        Value none = b.create<arith::CmpFOp>(arith::CmpFPredicate::OEQ, v[0],
                                             b.constant(a.f32, -kInfinity));
        return b.create<arith::SelectOp>(none, b.constant(a.f32, 0), v[0]);
      });
  Value exponentials =
      a.map("bigrj",
            {a.operand(scores, "bigrj", "bigrj"),
             a.operand(maximum, "bigr", "bigrj")},
            [&](Body &b, ValueRange v) { return b.exp(b.sub(v[0], v[1])); });
  Value sum =
      d.reduce(a.type("bigr", a.f32), {a.sizes.at('j')},
               {a.operand(exponentials, "bigrj", "bigrj")}, ReductionKind::Sum,
               [&](Body &b, ValueRange v, Value s) { return b.add(s, v[0]); });
  Value lse = a.map(
      "bigr",
      {a.operand(sum, "bigr", "bigr"), a.operand(maximum, "bigr", "bigr")},
      [&](Body &b, ValueRange v) {
        return b.add(b.create<math::LogOp>(v[0]), v[1]);
      });
  Value inverse = a.map(
      "bigr", {a.operand(sum, "bigr", "bigr")},
      [&](Body &b, ValueRange v) -> Value {
        Value none = b.create<arith::CmpFOp>(arith::CmpFPredicate::OEQ, v[0],
                                             b.constant(a.f32, 0));
        return b.create<arith::SelectOp>(none, b.constant(a.f32, 0),
                                         b.div(b.constant(a.f32, 1), v[0]));
      });
  Value kept = exponentials;
  if (SmallVector<Operand> step = a.step("bigrj"); !step.empty()) {
    step.insert(step.begin(), a.operand(exponentials, "bigrj", "bigrj"));
    kept = a.map("bigrj", step, [&](Body &b, ValueRange v) {
      return a.drop(b, "bigrj", v[0], v[1]);
    });
  }
  Value weighted =
      a.product("bigrd", "j", kept, "bigrj", op.getValue(), "bjgd");
  Type element = op.getQuery().getType().getElementType();
  Value output = d.map(a.type("bigrd", element),
                       {a.operand(weighted, "bigrd", "bigrd"),
                        a.operand(inverse, "bigr", "bigrd")},
                       [&](Body &b, ValueRange v) {
                         return b.convert(b.mul(v[0], v[1]), element);
                       });
  op.replaceAllUsesWith(ValueRange{output, lse});
}

/// Returns the probabilities (with dropout) and the gradients of the scores,
/// both over `loops`.
std::pair<Value, Value> probabilities(Attention<AttentionGradOp> &a,
                                      StringRef loops, Value delta) {
  AttentionGradOp op = a.op;
  double scale = op.getScale().convertToDouble();
  Value products =
      a.product(loops, "d", op.getQuery(), "bigrd", op.getKey(), "bjgd");
  Value slopes =
      a.product(loops, "d", op.getOutputGrad(), "bigrd", op.getValue(), "bjgd");
  auto probability = [&](Body &b, Value product, Value lse) {
    Value p = b.exp(b.sub(b.mul(product, scale), lse));
    if (Value visible = a.isVisible(b, loops))
      return b.create<arith::SelectOp>(visible, p, b.constant(a.f32, 0))
          .getResult();
    return p;
  };
  SmallVector<Operand> operands{a.operand(products, loops, loops),
                                a.operand(op.getLse(), "bigr", loops)};
  SmallVector<Operand> step = a.step(loops);
  llvm::append_range(operands, step);
  Value kept = a.map(loops, operands, [&](Body &b, ValueRange v) {
    return a.drop(b, loops, probability(b, v[0], v[1]), v.back());
  });
  operands = {a.operand(products, loops, loops),
              a.operand(op.getLse(), "bigr", loops),
              a.operand(slopes, loops, loops), a.operand(delta, "bigr", loops)};
  llvm::append_range(operands, step);
  Value gradients = a.map(loops, operands, [&](Body &b, ValueRange v) {
    Value slope = a.drop(b, loops, v[2], v.back());
    return b.mul(probability(b, v[0], v[1]), b.sub(slope, v[3]));
  });
  return {kept, gradients};
}

void decompose(AttentionGradOp op, Decomposer &d) {
  Attention<AttentionGradOp> a(op, d);
  double scale = op.getScale().convertToDouble();
  Value delta = a.product("bigr", "d", op.getOutput(), "bigrd",
                          op.getOutputGrad(), "bigrd");
  Value ofScores = probabilities(a, "bigrj", delta).second;
  Value query = a.product("bigrd", "j", ofScores, "bigrj", op.getKey(), "bjgd");
  // For each member of a group apart, so that a row is one head's queries.
  auto [kept, ofKeys] = probabilities(a, "bjgri", delta);
  Value key = a.product("bjgrd", "i", ofKeys, "bjgri", op.getQuery(), "bigrd");
  Value value =
      a.product("bjgrd", "i", kept, "bjgri", op.getOutputGrad(), "bigrd");
  if (a.hasMembers) {
    int64_t members = 3;
    key = d.reduceDims(key, members, ReductionKind::Sum, a.type("bjgd", a.f32));
    value =
        d.reduceDims(value, members, ReductionKind::Sum, a.type("bjgd", a.f32));
  }
  op.replaceAllUsesWith(ValueRange{a.round("bigrd", query, scale),
                                   a.round("bjgd", key, scale),
                                   a.round("bjgd", value, 1)});
}

} // namespace

bool lower::decomposeAttention(Operation *op, OpBuilder &builder) {
  if (!isa<AttentionOp, AttentionGradOp>(op) || !KernelTarget::of(op).isGpu)
    return false;
  Decomposer d(builder, op->getLoc());
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case<AttentionOp, AttentionGradOp>([&](auto typed) {
        // Masks and windows are left to the library's kernels.
        if (typed.getMask() || typed.getWindow())
          return false;
        decompose(typed, d);
        return true;
      });
}
