//===- Precision.cpp - arith and tensor in mixed precision ----------------===//

#include "dialects/Interfaces/Interfaces.h"
#include "heddle/Autodiff/Autodiff.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

namespace {
template <typename OpTy>
struct FollowsOperandsModel
    : PrecisionOpInterface::ExternalModel<FollowsOperandsModel<OpTy>, OpTy> {
  Precision getPrecision(Operation *) const {
    return Precision::FollowsOperands;
  }
};
} // namespace

template <typename... Ops>
static void attachFollowsOperands(MLIRContext *context) {
  (Ops::template attachInterface<FollowsOperandsModel<Ops>>(*context), ...);
}

void heddle::registerPrecisionModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, arith::ArithDialect *) {
    attachFollowsOperands<arith::AddFOp, arith::SubFOp, arith::MulFOp,
                          arith::DivFOp, arith::NegFOp, arith::MaximumFOp,
                          arith::MinimumFOp, arith::SelectOp>(context);
  });
  registry.addExtension(+[](MLIRContext *context, tensor::TensorDialect *) {
    attachFollowsOperands<tensor::ExpandShapeOp, tensor::CollapseShapeOp,
                          tensor::ExtractSliceOp, tensor::ConcatOp>(context);
  });
}
