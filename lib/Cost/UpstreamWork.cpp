//===- UpstreamWork.cpp - FLOPs and bytes of upstream ops -----------------===//

#include "heddle/Cost/Work.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

static constexpr int64_t kTranscendental = 10;

static int64_t bytesOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape() ||
      !tensor.getElementType().isIntOrFloat())
    return 0;
  return tensor.getNumElements() *
         ((int64_t(tensor.getElementTypeBitWidth()) + 7) / 8);
}

static Work streaming(Operation *op, int64_t flops) {
  Work work;
  work.flops = flops;
  for (Type type : op->getOperandTypes())
    work.bytesRead += bytesOf(type);
  for (Type type : op->getResultTypes())
    work.bytesWritten += bytesOf(type);
  return work;
}

/// The FLOPs of an op on one element.
static int64_t flopsOfElement(Operation *op) {
  if (isa<math::AbsFOp, math::CopySignOp>(op))
    return 0;
  if (isa<math::FmaOp>(op))
    return 2;
  if (isa<math::MathDialect>(op->getDialect()))
    return kTranscendental;
  return isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp,
             arith::NegFOp, arith::MaximumFOp, arith::MinimumFOp,
             arith::MaxNumFOp, arith::MinNumFOp, arith::AddIOp, arith::SubIOp,
             arith::MulIOp, arith::CmpFOp, arith::CmpIOp>(op);
}

namespace {

template <typename OpTy>
struct ElementwiseWork
    : WorkOpInterface::ExternalModel<ElementwiseWork<OpTy>, OpTy> {
  Work getWork(Operation *op) const {
    auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
    if (!type)
      return {}; // index arithmetic
    return streaming(op, type.getNumElements() * flopsOfElement(op));
  }
};

/// Constants and reshapes.
template <typename OpTy>
struct NoWork : WorkOpInterface::ExternalModel<NoWork<OpTy>, OpTy> {
  Work getWork(Operation *op) const { return {}; }
};

/// What is moved is read and written; the rest of an operand is not touched.
template <typename OpTy, bool bySource>
struct MovingWork
    : WorkOpInterface::ExternalModel<MovingWork<OpTy, bySource>, OpTy> {
  Work getWork(Operation *op) const {
    int64_t moved = bytesOf(bySource ? op->getOperand(0).getType()
                                     : op->getResult(0).getType());
    return {0, moved, moved};
  }
};

/// The body's FLOPs at every point of the iteration space. A destination that
/// the body does not read is not read.
template <typename OpTy>
struct LinalgWork : WorkOpInterface::ExternalModel<LinalgWork<OpTy>, OpTy> {
  Work getWork(Operation *op) const {
    auto structured = cast<linalg::LinalgOp>(op);
    int64_t points = 1;
    for (int64_t size : structured.getStaticLoopRanges())
      points *= std::max<int64_t>(size, 0);
    int64_t flops = 0;
    for (Operation &inner : structured.getBlock()->without_terminator())
      if (inner.getNumResults() == 1 &&
          isa<FloatType>(inner.getResult(0).getType()))
        flops += flopsOfElement(&inner);
    Work work;
    work.flops = points * flops;
    for (OpOperand &operand : op->getOpOperands())
      if (structured.payloadUsesValueFromOperand(&operand))
        work.bytesRead += bytesOf(operand.get().getType());
    for (Type type : op->getResultTypes())
      work.bytesWritten += bytesOf(type);
    return work;
  }
};

template <template <typename> class Model, typename... Ops>
void attach(MLIRContext *context) {
  (Ops::template attachInterface<Model<Ops>>(*context), ...);
}

template <typename OpTy> using SourceMoved = MovingWork<OpTy, true>;
template <typename OpTy> using ResultMoved = MovingWork<OpTy, false>;

} // namespace

void heddle::registerWorkModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, arith::ArithDialect *) {
    attach<ElementwiseWork, arith::AddFOp, arith::SubFOp, arith::MulFOp,
           arith::DivFOp, arith::NegFOp, arith::MaximumFOp, arith::MinimumFOp,
           arith::MaxNumFOp, arith::MinNumFOp, arith::AddIOp, arith::SubIOp,
           arith::MulIOp, arith::AndIOp, arith::OrIOp, arith::CmpFOp,
           arith::CmpIOp, arith::SelectOp, arith::ExtFOp, arith::TruncFOp,
           arith::SIToFPOp, arith::UIToFPOp, arith::FPToSIOp, arith::ExtSIOp,
           arith::ExtUIOp>(context);
    attach<NoWork, arith::ConstantOp>(context);
  });
  registry.addExtension(+[](MLIRContext *context, math::MathDialect *) {
    attach<ElementwiseWork, math::ExpOp, math::Exp2Op, math::ExpM1Op,
           math::LogOp, math::Log2Op, math::Log10Op, math::Log1pOp,
           math::SqrtOp, math::RsqrtOp, math::TanhOp, math::SinOp, math::CosOp,
           math::AtanOp, math::ErfOp, math::AbsFOp, math::PowFOp, math::FmaOp,
           math::CopySignOp>(context);
  });
  registry.addExtension(+[](MLIRContext *context, tensor::TensorDialect *) {
    attach<NoWork, tensor::ExpandShapeOp, tensor::CollapseShapeOp,
           tensor::CastOp, tensor::EmptyOp>(context);
    attach<ResultMoved, tensor::ExtractSliceOp, tensor::ConcatOp, tensor::PadOp,
           tensor::SplatOp>(context);
    attach<SourceMoved, tensor::InsertSliceOp>(context);
  });
  registry.addExtension(+[](MLIRContext *context, linalg::LinalgDialect *) {
    attach<LinalgWork, linalg::GenericOp, linalg::TransposeOp, linalg::FillOp,
           linalg::BroadcastOp, linalg::MatmulOp, linalg::BatchMatmulOp>(
        context);
  });
}

Work heddle::getTotalWork(Region &region) {
  Work total;
  region.walk([&](WorkOpInterface op) {
    Work work = op.getWork();
    total.flops += work.flops;
    total.bytesRead += work.bytesRead;
    total.bytesWritten += work.bytesWritten;
  });
  return total;
}
