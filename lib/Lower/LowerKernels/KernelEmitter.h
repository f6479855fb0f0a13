//===- KernelEmitter.h - Writes the loops of a kernel -----------*- C++ -*-===//
//
// Turns a KernelPlan into an llvm.func for a CPU. Its memory accesses and
// branches are ops of the LLVM dialect; its scalar arithmetic stays arith and
// math.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_LOWER_LOWERKERNELS_KERNELEMITTER_H
#define HEDDLE_LIB_LOWER_LOWERKERNELS_KERNELEMITTER_H

#include "BodyEmitter.h"

namespace heddle::lower {

class KernelEmitter : BodyEmitter {
public:
  KernelEmitter(const KernelPlan &plan, mlir::Location loc,
                mlir::OpBuilder &builder);

  /// Builds the function next to the kernel, with the kernel's name.
  mlir::FailureOr<mlir::LLVM::LLVMFuncOp> emit();

private:
  /// The state of one nest while it is emitted for a row.
  struct NestState;

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
  mlir::Value emitMath(mlir::Operation *op, mlir::ValueRange operands) override;
  /// Emits a call of libm, which programs are linked with.
  mlir::Value callLibrary(llvm::StringRef name, mlir::Type type,
                          mlir::ValueRange operands);

  mlir::ArrayAttr accessGroups;
  mlir::LLVM::AccessGroupAttr accessGroup;
  mlir::Block *entry = nullptr;
};

} // namespace heddle::lower

#endif // HEDDLE_LIB_LOWER_LOWERKERNELS_KERNELEMITTER_H
