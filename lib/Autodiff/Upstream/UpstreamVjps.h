//===- UpstreamVjps.h - Models of upstream dialects -------------*- C++ -*-===//

#ifndef HEDDLE_LIB_AUTODIFF_UPSTREAMVJPS_H
#define HEDDLE_LIB_AUTODIFF_UPSTREAMVJPS_H

#include "dialects/Interfaces/Interfaces.h"
#include "mlir/IR/DialectRegistry.h"

namespace heddle {

/// The arguments of buildVjp, and shortcuts for building ops on tensors and
/// scalars.
struct VjpContext {
  mlir::OpBuilder &builder;
  mlir::Location loc;
  llvm::ArrayRef<mlir::Value> grads; ///< gradients of the results
  llvm::ArrayRef<bool> wanted;
  llvm::MutableArrayRef<mlir::Value> operandGrads;

  template <typename OpTy, typename... Args> mlir::Value make(Args &&...args) {
    return builder.create<OpTy>(loc, std::forward<Args>(args)...);
  }
  mlir::Value splat(mlir::Type type, double value);
  mlir::Value zero(mlir::Type type) { return splat(type, 0); }
  /// Builds the sum of all elements, as a tensor without dimensions.
  mlir::Value sumOfAll(mlir::Value x);
};

/// A model of DifferentiableOpInterface that implements buildVjp by `build`.
template <typename OpTy, mlir::LogicalResult (*build)(OpTy, VjpContext &)>
struct VjpModel
    : DifferentiableOpInterface::ExternalModel<VjpModel<OpTy, build>, OpTy> {
  mlir::LogicalResult
  buildVjp(mlir::Operation *op, mlir::OpBuilder &builder,
           llvm::ArrayRef<mlir::Value> grads, llvm::ArrayRef<bool> wanted,
           llvm::MutableArrayRef<mlir::Value> operandGrads) const {
    VjpContext context{builder, op->getLoc(), grads, wanted, operandGrads};
    return build(llvm::cast<OpTy>(op), context);
  }
};

template <typename OpTy, mlir::LogicalResult (*build)(OpTy, VjpContext &)>
void attachVjp(mlir::MLIRContext *context) {
  OpTy::template attachInterface<VjpModel<OpTy, build>>(*context);
}

void registerArithVjps(mlir::DialectRegistry &registry);
void registerMathVjps(mlir::DialectRegistry &registry);
void registerTensorVjps(mlir::DialectRegistry &registry);
void registerLinalgVjps(mlir::DialectRegistry &registry);

} // namespace heddle

#endif // HEDDLE_LIB_AUTODIFF_UPSTREAMVJPS_H
