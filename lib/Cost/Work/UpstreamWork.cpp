//===- UpstreamWork.cpp - FLOPs and bytes of upstream ops -----------------===//

#include "heddle/Cost/Work.h"
#include "heddle/Support/Bytes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

static constexpr int64_t kTranscendental = 10;

static Work streaming(Operation *op, int64_t flops) {
  Work work;
  work.flops = flops;
  for (Type type : op->getOperandTypes())
    work.bytesRead += getBytes(type);
  for (Type type : op->getResultTypes())
    work.bytesWritten += getBytes(type);
  return work;
}

/// Returns the FLOPs of an op on one element. Integers count as floats do.
/// Casts, selections, logic, shifts, and changes of sign count as none.
static int64_t flopsOfElement(Operation *op) {
  if (isa<math::AbsFOp, math::AbsIOp, math::CopySignOp>(op))
    return 0;
  if (isa<math::FmaOp>(op))
    return 2;
  if (isa<math::MathDialect>(op->getDialect()))
    return kTranscendental;
  return isa<arith::ArithDialect>(op->getDialect()) &&
         !isa<CastOpInterface, arith::ConstantOp, arith::SelectOp,
              arith::AndIOp, arith::OrIOp, arith::XOrIOp, arith::ShLIOp,
              arith::ShRSIOp, arith::ShRUIOp>(op);
}

/// Returns the FLOPs of one iteration of a body. Index arithmetic counts as
/// none.
static int64_t flopsOfBody(Block &body) {
  int64_t flops = 0;
  body.walk([&](Operation *op) {
    if (op->getNumResults() > 0 && op->getNumOperands() > 0 &&
        !isa<IndexType>(op->getResult(0).getType()) &&
        !isa<IndexType>(op->getOperand(0).getType()))
      flops += flopsOfElement(op);
  });
  return flops;
}

static int64_t elementsOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.hasStaticShape() ? tensor.getNumElements() : 0;
}

namespace {

template <typename OpTy>
struct ElementwiseWork
    : WorkOpInterface::ExternalModel<ElementwiseWork<OpTy>, OpTy> {
  Work getWork(Operation *op) const {
    Type type = op->getResult(0).getType();
    if (isa<arith::ConstantOp>(op) || !isa<RankedTensorType>(type))
      return {}; // index arithmetic
    return streaming(op, elementsOf(type) * flopsOfElement(op));
  }
};

/// Reshapes, which move nothing.
template <typename OpTy>
struct NoWork : WorkOpInterface::ExternalModel<NoWork<OpTy>, OpTy> {
  Work getWork(Operation *op) const { return {}; }
};

/// An op that moves all elements of its operand 0 (`bySource`) or of its
/// result. Each of these is read and written once, and no other element is
/// touched.
template <typename OpTy, bool bySource>
struct MovingWork
    : WorkOpInterface::ExternalModel<MovingWork<OpTy, bySource>, OpTy> {
  Work getWork(Operation *op) const {
    int64_t moved = getBytes(bySource ? op->getOperand(0).getType()
                                      : op->getResult(0).getType());
    return {0, moved, moved};
  }
};

/// An op that moves rows, and reads a tensor of indices that names them.
template <typename OpTy, bool bySource>
struct IndexedWork
    : WorkOpInterface::ExternalModel<IndexedWork<OpTy, bySource>, OpTy> {
  Work getWork(Operation *op) const {
    int64_t moved = getBytes(bySource ? op->getOperand(0).getType()
                                      : op->getResult(0).getType());
    auto indices = cast<OpTy>(op).getIndices();
    return {0, moved + getBytes(indices.getType()), moved};
  }
};

/// An op that makes a tensor from scalars, or computes each element from its
/// indices.
template <typename OpTy>
struct MakingWork : WorkOpInterface::ExternalModel<MakingWork<OpTy>, OpTy> {
  Work getWork(Operation *op) const {
    Type type = op->getResult(0).getType();
    int64_t flops = 0;
    if (op->getNumRegions() == 1)
      flops = elementsOf(type) * flopsOfBody(op->getRegion(0).front());
    return {flops, 0, getBytes(type)};
  }
};

/// A structured op: the FLOPs of its body times the number of iterations. A
/// destination counts as read only if the body reads it.
template <typename OpTy>
struct LinalgWork : WorkOpInterface::ExternalModel<LinalgWork<OpTy>, OpTy> {
  Work getWork(Operation *op) const {
    auto structured = cast<linalg::LinalgOp>(op);
    int64_t points = 1;
    for (int64_t size : structured.getStaticLoopRanges())
      points *= std::max<int64_t>(size, 0);
    Work work;
    work.flops = points * flopsOfBody(*structured.getBlock());
    for (OpOperand &operand : op->getOpOperands())
      if (structured.payloadUsesValueFromOperand(&operand))
        work.bytesRead += getBytes(operand.get().getType());
    for (Type type : op->getResultTypes())
      work.bytesWritten += getBytes(type);
    return work;
  }
};

/// Counts maximum, difference, exponential, sum and quotient, as
/// heddle.cross_entropy does.
struct SoftmaxWork
    : WorkOpInterface::ExternalModel<SoftmaxWork, linalg::SoftmaxOp> {
  Work getWork(Operation *op) const {
    Type input = op->getOperand(0).getType();
    return {(kTranscendental + 4) * elementsOf(input), getBytes(input),
            getBytes(input)};
  }
};

template <template <typename> class Model, typename... Ops>
void attach(MLIRContext *context) {
  (Ops::template attachInterface<Model<Ops>>(*context), ...);
}

template <typename OpTy> using SourceMoved = MovingWork<OpTy, true>;
template <typename OpTy> using ResultMoved = MovingWork<OpTy, false>;
template <typename OpTy> using SourceIndexed = IndexedWork<OpTy, true>;
template <typename OpTy> using ResultIndexed = IndexedWork<OpTy, false>;

} // namespace

void heddle::registerWorkModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, arith::ArithDialect *) {
    attach<ElementwiseWork,
#define GET_OP_LIST
#include "mlir/Dialect/Arith/IR/ArithOps.cpp.inc"
           >(context);
  });
  registry.addExtension(+[](MLIRContext *context, math::MathDialect *) {
    attach<ElementwiseWork,
#define GET_OP_LIST
#include "mlir/Dialect/Math/IR/MathOps.cpp.inc"
           >(context);
  });
  registry.addExtension(+[](MLIRContext *context, tensor::TensorDialect *) {
    attach<NoWork, tensor::ExpandShapeOp, tensor::CollapseShapeOp,
           tensor::CastOp, tensor::EmptyOp>(context);
    attach<ResultMoved, tensor::ExtractSliceOp, tensor::ConcatOp,
           tensor::PadOp>(context);
    attach<SourceMoved, tensor::InsertSliceOp>(context);
    attach<ResultIndexed, tensor::GatherOp>(context);
    attach<SourceIndexed, tensor::ScatterOp>(context);
    attach<MakingWork, tensor::SplatOp, tensor::GenerateOp,
           tensor::FromElementsOp>(context);
  });
  registry.addExtension(+[](MLIRContext *context, linalg::LinalgDialect *) {
    attach<LinalgWork,
#define GET_OP_LIST
#include "mlir/Dialect/Linalg/IR/LinalgStructuredOps.cpp.inc"
           >(context);
    linalg::SoftmaxOp::attachInterface<SoftmaxWork>(*context);
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
