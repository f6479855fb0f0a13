//===- LoopBuilder.h - Builds loops and memory accesses ---------*- C++ -*-===//

#ifndef HEDDLE_LIB_LOWER_LOWERKERNELS_LOOPBUILDER_H
#define HEDDLE_LIB_LOWER_LOWERKERNELS_LOOPBUILDER_H

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
  /// Converts an element from its type in memory to the compute type.
  mlir::Value toCompute(mlir::Value value, const ElementType &type);
  /// Converts an element from its compute type to the type in memory.
  mlir::Value toMemory(mlir::Value value, const ElementType &type);

  using LoopBody = llvm::function_ref<llvm::SmallVector<mlir::Value>(
      mlir::Value index, mlir::ValueRange carried)>;
  /// Builds `for index in [begin, end): carried = body(index, carried)`. If
  /// `mayBeEmpty` is false, the loop must have an iteration.
  llvm::SmallVector<mlir::Value> loop(mlir::Value begin, mlir::Value end,
                                      bool mayBeEmpty, mlir::ValueRange init,
                                      mlir::LLVM::LoopAnnotationAttr annotation,
                                      LoopBody body);

  /// Whether the processor rounds f32 to bf16 by an instruction of its own.
  bool roundsToBF16 = false;
};

} // namespace heddle::lower

#endif // HEDDLE_LIB_LOWER_LOWERKERNELS_LOOPBUILDER_H
