//===- ForwardSlices.cpp - heddle-forward-slices --------------------------===//

#include "../InlineCalls/WriteOut.h"
#include "heddle/Lower/Passes.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/RegionUtils.h"
#include <map>

namespace heddle {
#define GEN_PASS_DEF_FORWARDSLICESPASS
#include "heddle/Lower/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

/// Writes constant offsets and steps of a slice as attributes. Returns the new
/// op, which `arguments` and the slice build, or `op` if nothing is constant.
template <typename Slice, typename... Arguments>
static Slice makeStatic(RewriterBase &rewriter, Slice op,
                        Arguments... arguments) {
  SmallVector<OpFoldResult> offsets = op.getMixedOffsets(),
                            strides = op.getMixedStrides();
  bool isKnown = succeeded(foldDynamicIndexList(offsets, true));
  isKnown |= succeeded(foldDynamicStrideList(strides));
  if (!isKnown)
    return op;
  rewriter.setInsertionPoint(op);
  auto known = rewriter.create<Slice>(op.getLoc(), arguments..., offsets,
                                      op.getMixedSizes(), strides);
  known->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  rewriter.replaceOp(op, known);
  return known;
}

/// Returns whether offsets, sizes and steps are all known, and all steps are
/// positive.
static bool isStatic(OffsetSizeAndStrideOpInterface slice) {
  return !ShapedType::isDynamicShape(slice.getStaticOffsets()) &&
         !ShapedType::isDynamicShape(slice.getStaticSizes()) &&
         llvm::all_of(slice.getStaticStrides(), [](int64_t step) {
           return !ShapedType::isDynamic(step) && step > 0;
         });
}

static bool areEqual(OffsetSizeAndStrideOpInterface a,
                     OffsetSizeAndStrideOpInterface b) {
  return a.getStaticOffsets() == b.getStaticOffsets() &&
         a.getStaticSizes() == b.getStaticSizes() &&
         a.getStaticStrides() == b.getStaticStrides();
}

/// Returns whether two slices of one shape are disjoint along a dimension: one
/// slice ends before the other begins.
static bool areDisjoint(OffsetSizeAndStrideOpInterface a,
                        OffsetSizeAndStrideOpInterface b) {
  auto getLast = [](OffsetSizeAndStrideOpInterface slice, size_t dim) {
    return slice.getStaticOffset(dim) +
           (slice.getStaticSize(dim) - 1) * slice.getStaticStride(dim);
  };
  for (size_t dim = 0, rank = a.getStaticSizes().size(); dim < rank; ++dim)
    if (getLast(a, dim) < b.getStaticOffset(dim) ||
        getLast(b, dim) < a.getStaticOffset(dim))
      return true;
  return false;
}

/// Reads a slice directly from the value that was inserted there. Insertions
/// disjoint from the slice are skipped: the slice then reads the tensor from
/// before them.
static void forward(RewriterBase &rewriter, tensor::ExtractSliceOp op) {
  if (!isStatic(op))
    return;
  Value source = op.getSource();
  while (auto insert = source.getDefiningOp<tensor::InsertSliceOp>()) {
    if (!isStatic(insert))
      break;
    if (areEqual(op, insert) && insert.getSourceType() == op.getType())
      return rewriter.replaceOp(op, insert.getSource());
    if (!areDisjoint(op, insert))
      break;
    source = insert.getDest();
  }
  if (source != op.getSource())
    rewriter.modifyOpInPlace(op, [&] { op.getSourceMutable().assign(source); });
}

/// Returns the one dimension of a result along which a slice is only a part, or
/// none if there is not exactly one or if the slice is not contiguous there.
static std::optional<int64_t> getPartialDim(tensor::InsertSliceOp op) {
  RankedTensorType type = op.getType();
  std::optional<int64_t> partial;
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    int64_t size = op.getStaticSize(dim), offset = op.getStaticOffset(dim);
    if (op.getStaticStride(dim) != 1 || size == 0 ||
        offset + size > type.getDimSize(dim))
      return std::nullopt;
    if (size == type.getDimSize(dim))
      continue;
    if (partial)
      return std::nullopt;
    partial = dim;
  }
  return partial;
}

/// Replaces the last of several insertions by a concatenation if together they
/// cover the whole tensor, each a range of one dimension. Of two insertions at
/// the same place, the later one counts. Does nothing if another op reads the
/// tensor between two insertions: a buffer that is read whole after each
/// insertion would be copied each time.
static void concatenate(RewriterBase &rewriter, tensor::InsertSliceOp last) {
  RankedTensorType type = last.getType();
  if (!type.hasStaticShape())
    return;
  std::optional<int64_t> dim;
  std::map<int64_t, Value> parts; // by offset
  int64_t covered = 0;
  for (auto insert = last; insert;
       insert = insert.getDest().getDefiningOp<tensor::InsertSliceOp>()) {
    if (!isStatic(insert) ||
        insert.getSourceType().getRank() != type.getRank() ||
        (insert != last && !insert->hasOneUse()))
      return;
    std::optional<int64_t> partial = getPartialDim(insert);
    if (!partial || (dim && *dim != *partial))
      return;
    dim = partial;
    int64_t offset = insert.getStaticOffset(*dim),
            size = insert.getStaticSize(*dim);
    auto getSize = [&](Value part) {
      return cast<RankedTensorType>(part.getType()).getDimSize(*dim);
    };
    auto next = parts.lower_bound(offset);
    if (next != parts.end() && next->first == offset &&
        getSize(next->second) == size)
      continue; // overwritten
    if (next != parts.end() && next->first < offset + size)
      return;
    if (next != parts.begin()) {
      auto previous = std::prev(next);
      if (previous->first + getSize(previous->second) > offset)
        return;
    }
    parts.emplace(offset, insert.getSource());
    covered += size;
    if (covered < type.getDimSize(*dim))
      continue;
    SmallVector<Value> inputs;
    for (auto [unused, part] : parts)
      inputs.push_back(part);
    rewriter.setInsertionPoint(last);
    auto all =
        rewriter.create<tensor::ConcatOp>(last.getLoc(), type, *dim, inputs);
    all->setDiscardableAttrs(last->getDiscardableAttrDictionary());
    rewriter.replaceOp(last, all);
    return;
  }
}

namespace {
struct ForwardSlicesPass
    : heddle::impl::ForwardSlicesPassBase<ForwardSlicesPass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<SmallVector<func::FuncOp>> programs =
        lower::getPrograms(getOperation());
    if (failed(programs))
      return signalPassFailure();
    IRRewriter rewriter(&getContext());
    for (func::FuncOp program : *programs) {
      program.walk([&](Operation *op) {
        if (auto extract = dyn_cast<tensor::ExtractSliceOp>(op))
          forward(rewriter, makeStatic(rewriter, extract, extract.getType(),
                                       extract.getSource()));
        else if (auto insert = dyn_cast<tensor::InsertSliceOp>(op))
          makeStatic(rewriter, insert, insert.getSource(), insert.getDest());
      });
      SmallVector<tensor::InsertSliceOp> inserts;
      program.walk([&](tensor::InsertSliceOp op) { inserts.push_back(op); });
      // Starts from the last insertion. Earlier insertions that only it reads
      // are then unused.
      for (tensor::InsertSliceOp op : llvm::reverse(inserts)) {
        if (op->use_empty())
          rewriter.eraseOp(op);
        else
          concatenate(rewriter, op);
      }
      (void)runRegionDCE(rewriter, program->getRegions());
    }
  }
};
} // namespace
