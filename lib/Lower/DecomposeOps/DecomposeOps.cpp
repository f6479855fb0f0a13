//===- DecomposeOps.cpp - Model ops become structured ops -----------------===//

#include "../PlanArenas/ProgramBuffers.h"
#include "Decomposer.h"
#include "dialects/Comm/Comm.h"
#include "heddle/Lower/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

namespace heddle {
#define GEN_PASS_DEF_DECOMPOSEOPSPASS
#include "heddle/Lower/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

namespace {

/// Emits an error on dynamic shapes and on complex numbers. Loops and places in
/// memory need static sizes, and kernels cannot hold complex numbers.
LogicalResult expectCompilableTypes(Operation *op) {
  for (Type type :
       llvm::concat<const Type>(SmallVector<Type>(op->getOperandTypes()),
                                SmallVector<Type>(op->getResultTypes()))) {
    if (isa<ComplexType>(getElementTypeOrSelf(type)))
      return op->emitOpError()
             << "cannot be compiled: expected floats or integers, got " << type
             << "; keep real and imaginary parts in tensors of their own";
    if (auto tensor = dyn_cast<TensorType>(type)) {
      if (!tensor.hasStaticShape())
        return op->emitOpError()
               << "cannot be compiled: expected static shapes, got " << tensor
               << "; compile the program for the sizes that it runs with";
      if (tensor.getNumElements() == 0)
        return op->emitOpError()
               << "cannot be compiled: expected tensors with an element at "
                  "least, got "
               << tensor;
    }
  }
  return success();
}

/// Emits an error if a slice at a constant offset exceeds its tensor. Nothing
/// checks that at run time.
LogicalResult expectWithin(OffsetSizeAndStrideOpInterface slice,
                           ShapedType whole) {
  for (auto [dim, size] : llvm::enumerate(whole.getShape())) {
    if (slice.isDynamicOffset(dim) || slice.isDynamicSize(dim) ||
        slice.isDynamicStride(dim))
      continue;
    int64_t first = slice.getStaticOffset(dim), last;
    if (llvm::MulOverflow(slice.getStaticSize(dim) - 1,
                          slice.getStaticStride(dim), last) ||
        llvm::AddOverflow(first, last, last))
      last = -1;
    if (std::min(first, last) < 0 || std::max(first, last) >= size)
      return slice->emitOpError()
             << "cannot be compiled: expected places of dimension " << dim
             << " from 0 to " << size - 1 << ", got "
             << slice.getStaticSize(dim) << " from " << first << " by steps of "
             << slice.getStaticStride(dim);
  }
  return success();
}

LogicalResult expectWithin(Operation *op) {
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op))
    return expectWithin(slice, slice.getSourceType());
  if (auto slice = dyn_cast<tensor::InsertSliceOp>(op))
    return expectWithin(slice, slice.getDestType());
  return success();
}

struct DecomposeOps : heddle::impl::DecomposeOpsPassBase<DecomposeOps> {
  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (!func.isExternal() && !func->hasAttr(kKernelAttrName))
        if (failed(decompose(func)))
          return signalPassFailure();
  }

  LogicalResult decompose(func::FuncOp func) {
    IRRewriter rewriter(func.getContext());
    if (failed(decomposeSoftmax(func, rewriter)) ||
        failed(decomposePacks(func, rewriter)))
      return failure();
    SmallVector<Operation *> ops;
    for (Block &block : func.getBody())
      for (Operation &op : block)
        ops.push_back(&op);
    for (Operation *op : ops) {
      if (failed(expectCompilableTypes(op)) || failed(expectWithin(op)))
        return failure();
      rewriter.setInsertionPoint(op);
      if (auto structured = dyn_cast<linalg::LinalgOp>(op);
          structured && !isa<linalg::TransposeOp, linalg::FillOp>(op)) {
        if (failed(normalizeStructured(rewriter, structured)))
          return failure();
        continue;
      }
      if (isa<arith::ConstantOp>(op))
        continue;
      if (decomposeNormalization(op, rewriter) ||
          decomposeVocabulary(op, rewriter) ||
          decomposeElementwise(op, rewriter) || decomposeShape(op, rewriter) ||
          decomposeLookup(op, rewriter))
        rewriter.eraseOp(op);
    }
    materializeConstants(func, rewriter);
    return success();
  }

  /// Decomposes linalg.softmax into upstream's structured ops.
  LogicalResult decomposeSoftmax(func::FuncOp func, RewriterBase &rewriter) {
    for (auto op : llvm::to_vector(func.getOps<linalg::SoftmaxOp>())) {
      if (failed(expectCompilableTypes(op)))
        return failure();
      rewriter.setInsertionPoint(op);
      FailureOr<SmallVector<Value>> results = op.decomposeOperation(rewriter);
      if (failed(results))
        return op->emitOpError() << "has no form with explicit loops";
      rewriter.replaceOp(op, *results);
    }
    return success();
  }

  /// Decomposes packs and unpacks into upstream's pads, slices, reshapes and
  /// transposes.
  LogicalResult decomposePacks(func::FuncOp func, RewriterBase &rewriter) {
    SmallVector<Operation *> ops;
    for (Operation &op : func.getOps())
      if (isa<tensor::PackOp, tensor::UnPackOp>(op))
        ops.push_back(&op);
    for (Operation *op : ops) {
      if (failed(expectCompilableTypes(op)))
        return failure();
      rewriter.setInsertionPoint(op);
      auto pack = dyn_cast<tensor::PackOp>(op);
      if (pack ? failed(linalg::lowerPack(rewriter, pack))
               : failed(
                     linalg::lowerUnPack(rewriter, cast<tensor::UnPackOp>(op))))
        return op->emitOpError() << "has no form with explicit loops";
    }
    return success();
  }

  /// Returns the operators that the uses of `value` serve, counting only uses
  /// for which `isRead` holds.
  static ServesAttr uniteReaders(Value value,
                                 llvm::function_ref<bool(OpOperand &)> isRead) {
    SmallVector<ServesAttr> parts;
    DataKind kind = DataKind::State;
    for (OpOperand &use : value.getUses())
      if (ServesAttr serves = getServes(use.getOwner());
          serves && isRead(use)) {
        parts.push_back(serves);
        kind = std::min(kind, serves.getKind());
      }
    std::reverse(parts.begin(), parts.end());
    return ServesAttr::getUnion(kind, parts);
  }

  /// Replaces constants where nothing folds them. A splat or fill that a
  /// structured op reads is folded into it when kernels are formed. Zeros that
  /// a join reads are written by the join. For every other use (returned,
  /// stored, an operand of a product), builds an op that writes the elements.
  /// For these uses, an undefined tensor (a tensor.empty that a loop fills and
  /// devices exchange) becomes zeros.
  void materializeConstants(func::FuncOp func, OpBuilder &builder) {
    SmallVector<std::pair<Value, TypedAttr>> constants;
    func.walk([&](Operation *op) {
      TypedAttr element;
      if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
        if (auto value = dyn_cast<SplatElementsAttr>(constant.getValue()))
          element = value.getSplatValue<TypedAttr>();
      } else if (auto fill = dyn_cast<linalg::FillOp>(op)) {
        matchPattern(fill.value(), m_Constant(&element));
      } else if (auto empty = dyn_cast<tensor::EmptyOp>(op)) {
        element = cast<TypedAttr>(
            builder.getZeroAttr(empty.getType().getElementType()));
      }
      if (element && op->getNumResults() == 1 &&
          isa<RankedTensorType>(op->getResult(0).getType()))
        constants.push_back({op->getResult(0), element});
    });
    for (auto &[constant, value] : constants) {
      TypedAttr element = value;
      auto isOther = [](OpOperand &use) {
        return !isa<linalg::LinalgOp, ReduceBlocksOp>(use.getOwner()) &&
               !isZeroPart(use);
      };
      if (!llvm::any_of(constant.getUses(), isOther))
        continue;
      builder.setInsertionPointAfterValue(constant);
      Decomposer d(builder, withServes(constant.getLoc(),
                                       uniteReaders(constant, isOther)));
      auto type = cast<RankedTensorType>(constant.getType());
      Value filled = d.map(type, {}, [&](Body &b, ValueRange) -> Value {
        return b.create<arith::ConstantOp>(element);
      });
      constant.replaceUsesWithIf(filled, isOther);
    }
  }
};

} // namespace
