//===- BodyEmitter.h - Writes the bodies of a kernel's ops ------*- C++ -*-===//
//
// The parts of a kernel's loops that are equal on all kinds of devices: scalar
// bodies, the addresses of accesses, and element types. A subclass emits the
// loops themselves.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_LOWER_LOWERKERNELS_BODYEMITTER_H
#define HEDDLE_LIB_LOWER_LOWERKERNELS_BODYEMITTER_H

#include "../KernelPlan/KernelPlan.h"
#include "LoopBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace heddle::lower {

class BodyEmitter {
protected:
  BodyEmitter(const KernelPlan &plan, mlir::Location loc,
              mlir::OpBuilder &builder)
      : plan(plan), b(loc, builder) {}
  virtual ~BodyEmitter() = default;

  struct Location {
    mlir::Value pointer; ///< at the current row
    llvm::SmallVector<int64_t> loops;
  };

  /// Emits an op of the math dialect in the device's own way, with operands of
  /// the compute type. Returns null if the op can stay as it is.
  virtual mlir::Value emitMath(mlir::Operation *op,
                               mlir::ValueRange operands) = 0;

  /// Clones a body and returns the values that it yields.
  llvm::SmallVector<mlir::Value>
  cloneBody(const Statement &statement, mlir::ValueRange arguments,
            llvm::function_ref<mlir::Value(int64_t)> loopIndex,
            mlir::ArrayAttr groups);
  mlir::Value cloneOp(mlir::Operation *op, mlir::IRMapping &mapping);
  mlir::Value emitMultiplyAdd(mlir::Operation *op, mlir::IRMapping &mapping);
  /// Emits the constant in its compute type.
  mlir::Value emitConstant(mlir::arith::ConstantOp op);
  mlir::Value extract(mlir::tensor::ExtractOp op, mlir::IRMapping &mapping,
                      mlir::ArrayAttr groups);
  mlir::Value combineBlocks(ReduceBlocksOp op, mlir::Value x,
                            mlir::Value accumulator);
  mlir::Value mapScalar(mlir::Value value, mlir::IRMapping &mapping);

  /// Emits the constants of the kernel that bodies use.
  void emitConstants();
  Location locate(const Access &access);
  bool isInMemory(mlir::Value value) const;
  mlir::Value rowOffset(const Access &access);
  mlir::Value unitIndex(size_t dim);
  /// Starts the row with the given number.
  void beginRow(mlir::Value index);
  mlir::TypedAttr initialValue(const Statement &statement,
                               unsigned result) const;
  /// Returns the type of a value's elements in memory. Scratch holds the
  /// compute type.
  ElementType memoryType(mlir::Value value) const;
  /// Returns the elements of a row of scratch, or failure with an error if it
  /// is too long.
  mlir::FailureOr<int64_t> getScratchElements(mlir::Value value);
  mlir::LogicalResult fail(mlir::Operation *op, llvm::Twine message);

  const KernelPlan &plan;
  LoopBuilder b;
  llvm::DenseMap<mlir::Value, mlir::Value> base;      ///< tensor: pointer
  llvm::DenseMap<mlir::Value, mlir::Value> scalars;   ///< indices, constants
  llvm::DenseMap<mlir::Value, mlir::Value> rowValues; ///< once per row
  mlir::Value block, unit;
  llvm::SmallVector<mlir::Value> unitIndices;
  mlir::Value chunkEnd; ///< column mode: rows in this chunk
  bool failedOnce = false;
};

/// The loops of a nest after adjacent loops were joined where every access
/// allows it.
struct JoinedLoops {
  llvm::SmallVector<int64_t> extents;
  llvm::SmallVector<int64_t> lastOf; ///< the last of the loops that each covers

  JoinedLoops(const KernelPlan &plan, const Nest &nest);
  /// Returns the step of each joined loop.
  llvm::SmallVector<int64_t> join(llvm::ArrayRef<int64_t> steps) const;
};

/// Turns the arithmetic of a kernel into ops of the LLVM dialect. Functions of
/// f32 become polynomials.
mlir::LogicalResult lowerScalars(mlir::LLVM::LLVMFuncOp kernel);

/// Returns the work of one launch. Only operands and results count as bytes
/// moved.
mlir::Attribute getWork(mlir::func::FuncOp kernel);

} // namespace heddle::lower

#endif // HEDDLE_LIB_LOWER_LOWERKERNELS_BODYEMITTER_H
