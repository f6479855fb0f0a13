//===- KernelEmitter.h - Writes the loops of a kernel -----------*- C++ -*-===//
//
// Turns a KernelPlan into an llvm.func. Its memory accesses and branches are
// ops of the LLVM dialect; its scalar arithmetic stays arith and math.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_LOWER_LOWERKERNELS_KERNELEMITTER_H
#define HEDDLE_LIB_LOWER_LOWERKERNELS_KERNELEMITTER_H

#include "../KernelPlan/KernelPlan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace heddle::lower {

/// An element's type in memory and the type in which it is computed. bf16 and
/// f16 are computed as f32; i1 takes a byte.
struct ElementType {
  explicit ElementType(mlir::Type type);
  mlir::Type element, memory, compute;
};

/// Builds loops and memory accesses at an insertion point.
class LoopBuilder : public mlir::ImplicitLocOpBuilder {
public:
  using ImplicitLocOpBuilder::ImplicitLocOpBuilder;

  mlir::Value i64(int64_t value);
  mlir::Value addI(mlir::Value a, mlir::Value b);
  mlir::Value mulI(mlir::Value a, int64_t b);
  /// Returns pointer + index, counted in elements as they lie in memory.
  mlir::Value address(mlir::Value pointer, mlir::Value index,
                      const ElementType &type);
  mlir::Value load(mlir::Value address, const ElementType &type,
                   mlir::ArrayAttr groups);
  void store(mlir::Value value, mlir::Value address, const ElementType &type,
             mlir::ArrayAttr groups);

  using LoopBody = llvm::function_ref<llvm::SmallVector<mlir::Value>(
      mlir::Value index, mlir::ValueRange carried)>;
  /// Builds `for index in [begin, end): carried = body(index, carried)`. If
  /// `mayBeEmpty` is false, the loop must have an iteration.
  llvm::SmallVector<mlir::Value> loop(mlir::Value begin, mlir::Value end,
                                      bool mayBeEmpty, mlir::ValueRange init,
                                      mlir::LLVM::LoopAnnotationAttr annotation,
                                      LoopBody body);
};

class KernelEmitter {
public:
  KernelEmitter(const KernelPlan &plan, mlir::Location loc,
                mlir::OpBuilder &builder);

  /// Builds the function next to the kernel, with the kernel's name.
  mlir::FailureOr<mlir::LLVM::LLVMFuncOp> emit();

private:
  /// The state of one nest while it is emitted for a row.
  struct NestState;
  struct Location {
    mlir::Value pointer; ///< at the current row
    llvm::SmallVector<int64_t> loops;
  };

  mlir::LLVM::LoopAnnotationAttr keepOuterLoop();
  void emitEntry(mlir::Value buffers);
  void allocateScratch(mlir::Value value);
  void emitRow(mlir::Value block);
  void initAccumulators(bool ofBlock);
  void fillRow(const Statement &statement, unsigned result);
  void emitNest(const Nest &nest);
  void emitDepth(NestState &state, size_t depth);
  void emitInnermost(NestState &state);
  void emitLoads(NestState &state, size_t depth);
  void emitScalars(const Nest &nest);
  /// Clones a body and returns the values that it yields.
  llvm::SmallVector<mlir::Value>
  cloneBody(const Statement &statement, mlir::ValueRange arguments,
            llvm::function_ref<mlir::Value(int64_t)> loopIndex,
            mlir::ArrayAttr groups);
  mlir::Value cloneOp(mlir::Operation *op, mlir::IRMapping &mapping);
  /// Emits the constant in its compute type.
  mlir::Value emitConstant(mlir::arith::ConstantOp op);
  /// Emits a call of libm, which programs are linked with.
  mlir::Value callLibrary(llvm::StringRef name, mlir::Type type,
                          mlir::ValueRange operands);
  mlir::Value extract(mlir::tensor::ExtractOp op, mlir::IRMapping &mapping,
                      mlir::ArrayAttr groups);
  mlir::Value combineBlocks(ReduceBlocksOp op, mlir::Value x,
                            mlir::Value accumulator);
  mlir::Value mapScalar(mlir::Value value, mlir::IRMapping &mapping);

  Location locate(const Access &access);
  bool isInMemory(mlir::Value value) const;
  mlir::Value rowOffset(const Access &access);
  mlir::Value unitIndex(size_t dim);
  mlir::TypedAttr initialValue(const Statement &statement,
                               unsigned result) const;
  /// Returns the type of a value's elements in memory. Scratch holds the
  /// compute type.
  ElementType memoryType(mlir::Value value) const;
  mlir::LogicalResult fail(mlir::Operation *op, llvm::Twine message);

  const KernelPlan &plan;
  LoopBuilder b;
  mlir::ArrayAttr accessGroups;
  mlir::LLVM::AccessGroupAttr accessGroup;
  llvm::DenseMap<mlir::Value, mlir::Value> base;      ///< tensor: pointer
  llvm::DenseMap<mlir::Value, mlir::Value> scalars;   ///< indices, constants
  llvm::DenseMap<mlir::Value, mlir::Value> rowValues; ///< once per row
  mlir::Value block, unit;
  llvm::SmallVector<mlir::Value> unitIndices;
  mlir::Value chunkEnd; ///< column mode: rows in this chunk
  mlir::Block *entry = nullptr;
  bool failedOnce = false;
};

} // namespace heddle::lower

#endif // HEDDLE_LIB_LOWER_LOWERKERNELS_KERNELEMITTER_H
