//===- ContractionLayout.cpp - A contraction as products in loops ---------===//

#include "ContractionLayout.h"
#include "dialects/Rt/Rt.h"
#include "heddle_rt/abi.h"

using namespace mlir;
using namespace heddle;

namespace {
/// One letter of a contraction, or several merged: its size, and its stride in
/// each tensor (0 in a tensor without it).
struct Letter {
  int64_t size = 1;
  int64_t a = 0, b = 0, c = 0, bias = 0;

  bool isRow() const { return a && !b && c; }
  bool isColumn() const { return !a && b && c; }
  bool isSum() const { return a && b && !c; }
};
} // namespace

/// Returns whether, in every tensor, a step of `outer` is one whole run of
/// `inner`.
static bool canMerge(const Letter &outer, const Letter &inner) {
  for (auto stride : {&Letter::a, &Letter::b, &Letter::c, &Letter::bias})
    if (outer.*stride != inner.*stride * inner.size)
      return false;
  return true;
}

static void mergeFactors(SmallVectorImpl<Letter> &factors) {
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < factors.size() && !changed; ++i)
      for (size_t j = 0; j < factors.size() && !changed; ++j)
        if (i != j && canMerge(factors[i], factors[j])) {
          factors[j].size *= factors[i].size;
          factors.erase(factors.begin() + i);
          changed = true;
        }
  }
}

static SmallVector<Letter> collectFactors(ContractionAttr contraction,
                                          ArrayRef<int64_t> lhs,
                                          ArrayRef<int64_t> rhs,
                                          ArrayRef<int64_t> result,
                                          ArrayRef<int64_t> biasAlong) {
  // The map keeps the order of first occurrence, so the outcome is
  // deterministic.
  llvm::MapVector<char, Letter> byLetter;
  auto add = [&](StringAttr letters, ArrayRef<int64_t> shape,
                 int64_t Letter::*stride) {
    for (auto [letter, size, step] :
         llvm::zip(letters.getValue(), shape, rt::getDenseStrides(shape))) {
      Letter &factor = byLetter[letter];
      factor.size = size;
      factor.*stride = step;
    }
  };
  add(contraction.getResult(), result, &Letter::c);
  add(contraction.getLhs(), lhs, &Letter::a);
  add(contraction.getRhs(), rhs, &Letter::b);
  SmallVector<int64_t> biasShape;
  for (int64_t dim : biasAlong)
    biasShape.push_back(result[dim]);
  for (auto [dim, step] : llvm::zip(biasAlong, rt::getDenseStrides(biasShape)))
    byLetter[contraction.getResult().getValue()[dim]].bias = step;
  SmallVector<Letter> factors;
  for (auto &[letter, factor] : byLetter)
    if (factor.size > 1)
      factors.push_back(factor);
  return factors;
}

namespace {
/// Chooses m and k for a given n. All other letters become loops.
class ProductBuilder {
public:
  ProductBuilder(ArrayRef<Letter> factors, const Letter *n)
      : factors(factors), n(n) {}

  std::optional<ProductLayout> build() {
    std::optional<ProductLayout> best;
    for (const Letter *m : candidates(&Letter::isRow))
      for (const Letter *k : candidates(&Letter::isSum)) {
        std::optional<ProductLayout> layout = tryBuild(m, k);
        if (layout && (!best || iterations(*layout) < iterations(*best)))
          best = layout;
      }
    return best;
  }

private:
  /// Returns the letters of a kind, and null for the choice of no letter.
  SmallVector<const Letter *> candidates(bool (Letter::*kind)() const) {
    SmallVector<const Letter *> list;
    for (const Letter &factor : factors)
      if ((factor.*kind)())
        list.push_back(&factor);
    list.push_back(nullptr);
    return list;
  }

  static int64_t iterations(const ProductLayout &layout) {
    int64_t product = 1;
    for (const ProductLayout::Loop &loop : layout.loops)
      product *= loop.extent;
    return product;
  }

  std::optional<ProductLayout> tryBuild(const Letter *m, const Letter *k) {
    // In the library, one of an operand's two strides must be 1, and all rows
    // of C have the same bias.
    if (m && k && m->a != 1 && k->a != 1)
      return std::nullopt;
    if (n && k && n->b != 1 && k->b != 1)
      return std::nullopt;
    if (m && m->bias)
      return std::nullopt;
    ProductLayout layout;
    layout.m = m ? m->size : 1;
    layout.n = n ? n->size : 1;
    layout.k = k ? k->size : 1;
    setStrides(layout.aStrides, m ? m->a : 0, k ? k->a : 0, layout.m, layout.k);
    setStrides(layout.bStrides, k ? k->b : 0, n ? n->b : 0, layout.k, layout.n);
    layout.cRowStride = m ? m->c : layout.n;
    // Summed letters become the innermost loops, so that C stays in the cache.
    for (bool sums : {false, true})
      for (const Letter &factor : factors)
        if (&factor != m && &factor != n && &factor != k &&
            factor.isSum() == sums)
          layout.loops.push_back(
              {factor.size, factor.a, factor.b, factor.c, factor.bias});
    if (layout.loops.size() > HEDDLE_RT_MATMUL_MAX_LOOPS)
      return std::nullopt;
    return layout;
  }

  /// Sets both strides. A stride of 0 means that the extent is 1. Then any
  /// stride is correct.
  static void setStrides(int64_t (&strides)[2], int64_t row, int64_t column,
                         int64_t rows, int64_t columns) {
    if (!row)
      row = column == 1 ? columns : 1;
    if (!column)
      column = row == 1 ? rows : 1;
    strides[0] = row;
    strides[1] = column;
  }

  ArrayRef<Letter> factors;
  const Letter *n;
};
} // namespace

std::optional<ProductLayout>
heddle::getProductLayout(ContractionAttr contraction, RankedTensorType lhs,
                         RankedTensorType rhs, RankedTensorType result,
                         std::optional<ArrayRef<int64_t>> biasAlong,
                         std::string &why) {
  SmallVector<Letter> factors = collectFactors(
      contraction, lhs.getShape(), rhs.getShape(), result.getShape(),
      biasAlong.value_or(ArrayRef<int64_t>()));
  mergeFactors(factors);

  const Letter *inner =
      llvm::find_if(factors, [](const Letter &f) { return f.c == 1; });
  if (inner == factors.end())
    inner = nullptr;
  bool swapped = inner && inner->isRow();
  if (swapped)
    for (Letter &factor : factors)
      std::swap(factor.a, factor.b);
  // If the inner dimension is a batch letter, there is no n: every product has
  // one column.
  const Letter *n = inner && inner->isColumn() ? inner : nullptr;
  if (biasAlong && n && n->bias != 1) {
    why = "the bias does not run along the result's inner dimension";
    return std::nullopt;
  }
  std::optional<ProductLayout> layout = ProductBuilder(factors, n).build();
  if (!layout) {
    why = ("more than " + Twine(int(HEDDLE_RT_MATMUL_MAX_LOOPS)) +
           " factors remain besides m, n and k, or no operand has a "
           "contiguous dimension among them")
              .str();
    return std::nullopt;
  }
  layout->swapped = swapped;
  return layout;
}

std::optional<SumsLayout> heddle::getSumsLayout(ContractionAttr contraction,
                                                RankedTensorType lhs,
                                                RankedTensorType rhs,
                                                RankedTensorType result,
                                                bool ofLhs, std::string &why) {
  StringRef letters =
      (ofLhs ? contraction.getLhs() : contraction.getRhs()).getValue();
  SmallVector<int64_t> along;
  int64_t elements = 1;
  for (char letter : letters)
    if (size_t dim = contraction.getResult().getValue().find(letter);
        dim != StringRef::npos) {
      along.push_back(int64_t(dim));
      elements *= result.getDimSize(dim);
    }
  std::optional<ProductLayout> layout =
      getProductLayout(contraction, lhs, rhs, result, std::nullopt, why);
  if (!layout)
    return std::nullopt;
  // A is rhs if the two are swapped.
  if (ofLhs != layout->swapped) {
    if (layout->loops.empty() && layout->m == elements)
      return SumsLayout{*layout, /*ofA=*/true};
    why = "the sums of the product's rows are those of several products";
    return std::nullopt;
  }
  why = "the sums do not have the order of the result's columns";
  if (!llvm::is_sorted(along))
    return std::nullopt;
  layout = getProductLayout(contraction, lhs, rhs, result, along, why);
  if (!layout || ofLhs != layout->swapped)
    return std::nullopt;
  int64_t covered = layout->n;
  for (const ProductLayout::Loop &loop : layout->loops) {
    if (loop.c == 0 || loop.bias == 0) {
      why = "several products add to the same result";
      return std::nullopt;
    }
    covered *= loop.extent;
  }
  if (covered != elements)
    return std::nullopt;
  return SumsLayout{*layout, /*ofA=*/false};
}
