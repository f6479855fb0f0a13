//===- HeddleShardingRules.cpp - The factors of the model's ops -----------===//
//
// Each rule mirrors the formula in its op's description. HeddleLocalize.cpp
// localizes the ops that depend on global positions.
//
//===----------------------------------------------------------------------===//

#include "dialects/Heddle/Heddle.h"
#include "dialects/Heddle/Shape.h"

using namespace mlir;
using namespace heddle;

namespace {
/// Builds a rule from strings with one character for each dimension, such as
/// "bsh". '.' is a dimension that no factor runs over. Every other character is
/// a factor, which is added to the rule when it first occurs.
class RuleBuilder {
public:
  /// `sums` lists the letters of factors that are sums, `replicated` those of
  /// factors that must stay whole. Upper-case letters are factors without a
  /// name.
  explicit RuleBuilder(Operation *op, StringRef sums = "",
                       StringRef replicated = "")
      : op(op), sums(sums), replicated(replicated) {
    rule.operands.resize(op->getNumOperands());
    rule.results.resize(op->getNumResults());
    rule.keepsFinite = true;
  }

  RuleBuilder &operand(unsigned index, StringRef letters) {
    rule.operands[index] = spell(letters, shapeOf(op->getOperand(index)));
    return *this;
  }
  RuleBuilder &result(unsigned index, StringRef letters) {
    rule.results[index] = spell(letters, shapeOf(op->getResult(index)));
    return *this;
  }
  RuleBuilder &linear(ArrayRef<unsigned> operands,
                      ArrayRef<unsigned> results = {}) {
    rule.linear.push_back({SmallVector<unsigned, 2>(operands),
                           SmallVector<unsigned, 1>(results)});
    return *this;
  }
  Factor &factor(char letter) { return rule.factors[indices.at(letter)]; }
  void meet(char first, char second) {
    rule.meet = {indices.at(first), indices.at(second)};
  }
  ShardingRule take() { return std::move(rule); }

private:
  TensorFactors spell(StringRef letters, ArrayRef<int64_t> shape) {
    TensorFactors dims;
    for (auto [letter, size] : llvm::zip(letters, shape)) {
      if (letter == '.') {
        dims.emplace_back();
        continue;
      }
      auto [known, isNew] = indices.try_emplace(letter, rule.factors.size());
      if (isNew) {
        FactorKind kind = StringRef(sums).contains(letter) ? FactorKind::Sum
                          : StringRef(replicated).contains(letter)
                              ? FactorKind::Replicate
                              : FactorKind::Parallel;
        rule.addFactor(llvm::isUpper(letter) ? "" : StringRef(&letter, 1), size,
                       kind);
      }
      dims.push_back({known->second});
    }
    return dims;
  }

  Operation *op;
  std::string sums, replicated;
  llvm::SmallDenseMap<char, unsigned> indices;
  ShardingRule rule;
};
} // namespace

/// The letters of `rank` leading dimensions: b, s, and then unnamed factors.
static std::string leading(size_t rank) {
  std::string letters = "bs";
  letters.resize(std::min<size_t>(rank, 2));
  for (size_t i = 2; i < rank; ++i)
    letters.push_back('A' + i);
  return letters;
}

/// The letters of `rank` dimensions with unnamed factors: "ABC".
static std::string unnamed(size_t rank) {
  std::string letters;
  for (size_t i = 0; i < rank; ++i)
    letters.push_back('A' + i);
  return letters;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

ShardingRule ContractOp::getShardingRule() {
  ContractionAttr contraction = getContraction();
  ShardingRule rule;
  StringRef result = contraction.getResult().getValue();
  auto spell = [&](StringRef letters, Value tensor) {
    TensorFactors dims;
    for (auto [i, letter] : llvm::enumerate(letters)) {
      StringRef name = letters.substr(i, 1);
      std::optional<unsigned> factor = rule.getFactor(name);
      if (!factor)
        factor = rule.addFactor(name, shapeOf(tensor)[i],
                                result.contains(letter) ? FactorKind::Parallel
                                                        : FactorKind::Sum);
      dims.push_back({*factor});
    }
    return dims;
  };
  rule.operands = {spell(contraction.getLhs().getValue(), getLhs()),
                   spell(contraction.getRhs().getValue(), getRhs())};
  rule.results = {spell(result, getResult())};
  // The accumulator and the bias are added to the product. So the op is linear
  // in them together with lhs, and in them together with rhs.
  rule.linear = {{{0}}, {{1}}};
  auto added = [&](TensorFactors dims) {
    for (LinearGroup &group : rule.linear)
      group.operands.push_back(rule.operands.size());
    rule.operands.push_back(std::move(dims));
  };
  if (std::optional<ArrayRef<int64_t>> along = getBiasAlong();
      along && getBias()) {
    TensorFactors dims;
    for (int64_t dim : *along)
      dims.push_back(rule.results[0][dim]);
    added(dims);
  }
  if (getAccumulate())
    added(rule.results[0]);
  rule.keepsFinite = true;
  return rule;
}

/// Begins the rule of an attention: queries of b s n [r] d, keys and values of
/// b t n d. If s is split, every device needs all keys. If t is split, the
/// devices' outputs are combined. If both are split over the same axes, the
/// devices pass keys and values on in a ring (HeddleAttention.cpp).
template <typename OpTy>
static RuleBuilder attentionRule(OpTy op, StringRef sums) {
  StringRef query = shapeOf(op.getQuery()).size() == 5 ? "bsnrd" : "bsnd";
  RuleBuilder builder(op, sums, "d");
  builder.operand(0, query).operand(1, "btnd").operand(2, "btnd");
  // A mask has all keys on every device.
  if (Value mask = op.getMask()) {
    std::string letters = query.drop_back().str() + ".";
    for (auto [letter, size] : llvm::zip(letters, shapeOf(mask)))
      if (size == 1)
        letter = '.';
    builder.operand(op.getMaskIndex(), letters);
  }
  // The localization masks the padding of t: no query sees it.
  builder.factor('t').masksItself = true;
  builder.factor('t').onlyByPlan = true;
  builder.factor('t').padding = PaddingRule::Zero;
  builder.meet('s', 't');
  return builder;
}

ShardingRule AttentionOp::getShardingRule() {
  StringRef query = shapeOf(getQuery()).size() == 5 ? "bsnrd" : "bsnd";
  RuleBuilder builder = attentionRule(*this, "");
  builder.factor('t').kind = FactorKind::Combine;
  return builder.result(0, query)
      .result(1, query.drop_back())
      .linear({2}, {0})
      .take();
}

ShardingRule AttentionGradOp::getShardingRule() {
  // The gradients of keys and values are sums over the queries s and the
  // members r of a group. The gradients of queries are sums over the keys t.
  StringRef query = shapeOf(getQuery()).size() == 5 ? "bsnrd" : "bsnd";
  return attentionRule(*this, "rst")
      .operand(3, query)
      .operand(4, query.drop_back())
      .operand(5, query)
      .result(0, query)
      .result(1, "btnd")
      .result(2, "btnd")
      .linear({5})
      .take();
}

//===----------------------------------------------------------------------===//
// Normalization
//===----------------------------------------------------------------------===//

/// Begins the rule of a norm: its first operand has the dimensions `rows` and
/// h. If h is split, the localization combines the devices' statistics
/// (HeddleNorms.cpp).
static RuleBuilder normRule(Operation *op, StringRef rows, StringRef sums) {
  RuleBuilder builder(op, sums);
  builder.operand(0, (rows + "h").str());
  builder.factor('h').kind = FactorKind::Combine;
  builder.factor('h').onlyByPlan = true;
  return builder;
}

ShardingRule LayerNormOp::getShardingRule() {
  std::string rows = leading(shapeOf(getX()).size() - 1);
  return normRule(*this, rows, "")
      .operand(1, "h")
      .operand(2, "h")
      .result(0, rows + "h")
      .result(1, rows)
      .result(2, rows)
      .take();
}

ShardingRule LayerNormGradOp::getShardingRule() {
  std::string rows = leading(shapeOf(getX()).size() - 1);
  return normRule(*this, rows, rows)
      .operand(1, "h")
      .operand(2, rows)
      .operand(3, rows)
      .operand(4, rows + "h")
      .result(0, rows + "h")
      .result(1, "h")
      .result(2, "h")
      .linear({4})
      .take();
}

ShardingRule RmsNormOp::getShardingRule() {
  std::string rows = leading(shapeOf(getX()).size() - 1);
  return normRule(*this, rows, "")
      .operand(1, "h")
      .result(0, rows + "h")
      .result(1, rows)
      .take();
}

ShardingRule RmsNormGradOp::getShardingRule() {
  std::string rows = leading(shapeOf(getX()).size() - 1);
  return normRule(*this, rows, rows)
      .operand(1, "h")
      .operand(2, rows)
      .operand(3, rows + "h")
      .result(0, rows + "h")
      .result(1, "h")
      .linear({3})
      .take();
}

//===----------------------------------------------------------------------===//
// Vocabulary
//===----------------------------------------------------------------------===//

ShardingRule EmbeddingOp::getShardingRule() {
  std::string rows = leading(shapeOf(getIds()).size());
  return RuleBuilder(*this, "v")
      .operand(0, "vh")
      .operand(1, rows)
      .result(0, rows + "h")
      .linear({0})
      .take();
}

ShardingRule EmbeddingGradOp::getShardingRule() {
  std::string rows = leading(shapeOf(getIds()).size());
  RuleBuilder builder(*this, rows);
  builder.operand(0, rows).operand(1, rows + "h").result(0, "vh");
  if (getAccumulate())
    builder.operand(2, "vh").linear({1, 2});
  else
    builder.linear({1});
  // No id refers to a row of the table's padding.
  builder.factor('v').padding = PaddingRule::ZeroIfOperandsZero;
  return builder.take();
}

ShardingRule CrossEntropyOp::getShardingRule() {
  std::string rows = leading(shapeOf(getTargets()).size());
  RuleBuilder builder(*this);
  builder.operand(0, rows + "v")
      .operand(1, rows)
      .result(0, rows)
      .result(1, rows);
  builder.factor('v').kind = FactorKind::Combine;
  return builder.take();
}

ShardingRule CrossEntropyGradOp::getShardingRule() {
  std::string rows = leading(shapeOf(getTargets()).size());
  RuleBuilder builder(*this);
  builder.operand(0, rows + "v")
      .operand(1, rows)
      .operand(2, rows)
      .operand(3, rows)
      .result(0, rows + "v")
      .linear({3});
  // The localization masks the padding of the logits, so that exp gives zero.
  builder.factor('v').padding = PaddingRule::Zero;
  return builder.take();
}

ShardingRule LogSumExpOp::getShardingRule() {
  std::string rows = leading(shapeOf(getResult()).size());
  RuleBuilder builder(*this);
  builder.operand(0, rows + "v").result(0, rows);
  builder.factor('v').kind = FactorKind::Combine;
  return builder.take();
}

ShardingRule PickOp::getShardingRule() {
  std::string rows = leading(shapeOf(getIds()).size());
  return RuleBuilder(*this, "v")
      .operand(0, rows + "v")
      .operand(1, rows)
      .result(0, rows)
      .linear({0})
      .take();
}

//===----------------------------------------------------------------------===//
// Shapes and reductions
//===----------------------------------------------------------------------===//

ShardingRule ReduceOp::getShardingRule() {
  std::string all = unnamed(shapeOf(getX()).size()), kept, reduced;
  for (auto [i, letter] : llvm::enumerate(all))
    (llvm::is_contained(getOver(), (int64_t)i) ? reduced : kept)
        .push_back(letter);
  bool isSum = getKind() == ReductionKind::Sum;
  RuleBuilder builder(*this, isSum ? reduced : "");
  builder.operand(0, all).result(0, kept);
  if (isSum) {
    builder.linear({0});
  } else {
    for (char letter : reduced)
      builder.factor(letter).kind = FactorKind::Max;
  }
  ShardingRule rule = builder.take();
  rule.defersPartialSums = isSum;
  return rule;
}

ShardingRule heddle::BroadcastOp::getShardingRule() {
  std::string all = unnamed(shapeOf(getResult()).size()), mine;
  for (int64_t dim : getAlong())
    mine.push_back(all[dim]);
  ShardingRule rule =
      RuleBuilder(*this).result(0, all).operand(0, mine).linear({0}).take();
  rule.defersPartialSums = true;
  return rule;
}

ShardingRule UnstackOp::getShardingRule() {
  std::string slice = unnamed(shapeOf(getX()).size() - 1);
  RuleBuilder builder(*this, "", "c");
  builder.operand(0, "c" + slice).linear({0});
  for (unsigned i = 0; i < getNumResults(); ++i)
    builder.result(i, slice);
  ShardingRule rule = builder.take();
  rule.defersPartialSums = true;
  return rule;
}

ShardingRule StackOp::getShardingRule() {
  std::string slice = unnamed(shapeOf(getResult()).size() - 1);
  RuleBuilder builder(*this, "", "c");
  builder.result(0, "c" + slice);
  SmallVector<unsigned> all;
  for (unsigned i = 0; i < getNumOperands(); ++i) {
    builder.operand(i, slice);
    all.push_back(i);
  }
  builder.linear(all);
  ShardingRule rule = builder.take();
  rule.defersPartialSums = true;
  return rule;
}

//===----------------------------------------------------------------------===//
// Elementwise and positional
//===----------------------------------------------------------------------===//

static ShardingRule activationRule(Operation *op) {
  ShardingRule rule = ShardingRule::elementwise(op);
  rule.preservesZeroPadding = true;
  rule.keepsFinite = true;
  return rule;
}

/// The rule of f'(x) * y_grad, which is linear in y_grad.
static ShardingRule activationGradRule(Operation *op) {
  ShardingRule rule = activationRule(op);
  rule.linear = {{{1}}};
  return rule;
}

ShardingRule GeluOp::getShardingRule() { return activationRule(*this); }
ShardingRule GeluGradOp::getShardingRule() { return activationGradRule(*this); }
ShardingRule SiluOp::getShardingRule() { return activationRule(*this); }
ShardingRule SiluGradOp::getShardingRule() { return activationGradRule(*this); }

ShardingRule DropoutOp::getShardingRule() {
  ShardingRule rule = ShardingRule::elementwise(*this);
  rule.linear = {{{0}}};
  rule.keepsFinite = true;
  rule.defersPartialSums = true;
  return rule;
}

ShardingRule RotaryTableOp::getShardingRule() {
  return RuleBuilder(*this).result(0, "s.").result(1, "s.").take();
}

ShardingRule RotaryOp::getShardingRule() {
  size_t rank = shapeOf(getX()).size();
  std::string x = rank == 5   ? "bsnrd"
                  : rank == 4 ? "bsnd"
                              : leading(rank - 1) + "d";
  ShardingRule rule = RuleBuilder(*this, "", "d")
                          .operand(0, x)
                          .operand(1, "s.")
                          .operand(2, "s.")
                          .result(0, x)
                          .linear({0})
                          .take();
  rule.defersPartialSums = true;
  return rule;
}

ShardingRule MaskPaddingOp::getShardingRule() {
  return ShardingRule::elementwise(*this);
}

//===----------------------------------------------------------------------===//
// Order of computations
//===----------------------------------------------------------------------===//

// Every value has factors of its own, which it shares with its result. The
// tensors of `after` may lie in any way.
ShardingRule BarrierOp::getShardingRule() {
  ShardingRule rule;
  for (Value operand : getOperands()) {
    TensorFactors dims;
    for (int64_t size : shapeOf(operand))
      dims.push_back({rule.addFactor("", size, FactorKind::Parallel)});
    rule.operands.push_back(std::move(dims));
  }
  for (unsigned i = 0; i < getNumResults(); ++i) {
    rule.results.push_back(rule.operands[i]);
    rule.linear.push_back({{i}, {i}});
  }
  rule.keepsFinite = true;
  rule.defersPartialSums = true;
  return rule;
}
