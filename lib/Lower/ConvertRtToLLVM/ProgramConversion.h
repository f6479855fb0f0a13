//===- ProgramConversion.h - One rt program as a function -------*- C++ -*-===//
//
// Appends a call of the runtime for each op of an rt.program, in order.
// RuntimeCalls.h builds the parts of such a function.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_LOWER_CONVERTRTTOLLVM_PROGRAMCONVERSION_H
#define HEDDLE_LIB_LOWER_CONVERTRTTOLLVM_PROGRAMCONVERSION_H

#include "RuntimeCalls.h"

namespace heddle {

/// Converts one program. After an error is emitted, `failed` is set.
class ProgramConversion {
public:
  ProgramConversion(RuntimeModule &runtime, rt::ProgramOp program,
                    mlir::LLVM::LLVMFuncOp function)
      : runtime(runtime), program(program), f(runtime, function) {}

  mlir::LogicalResult run();

private:
  void convertOps(mlir::Region &region);
  void convertOp(mlir::Operation *op);

  // Compute: ConvertCompute.cpp.
  void convert(rt::LaunchOp op);
  void convert(rt::MatmulOp op);
  void convert(rt::AttentionOp op);
  void convert(rt::AttentionGradOp op);
  template <typename Op>
  void convertAttention(Op op, llvm::StringRef function,
                        mlir::ValueRange tensors);
  void convert(rt::EmbeddingGradOp op);
  void convert(rt::RotaryTableOp op);

  // Communication: ConvertCommunication.cpp.
  void convert(rt::AllReduceOp op);
  void convert(rt::AllGatherOp op);
  void convert(rt::ReduceScatterOp op);
  void convert(rt::AllToAllOp op);
  void convert(rt::BroadcastOp op);
  void convert(rt::PermuteOp op);
  void convert(rt::SendOp op);
  void convert(rt::RecvOp op);
  template <typename Op> void convertTransfer(Op op, llvm::StringRef function);

  // Memory, control and index arithmetic: ConvertRtToLLVM.cpp.
  void convert(rt::CopyOp op);
  void convert(rt::FillZeroOp op);
  void convert(rt::WhileOp op);
  void convert(rt::RecordOp op);
  void convert(rt::WaitOp op);
  void convert(rt::CoordinateOp op);
  void convertArith(mlir::Operation *op);

  mlir::Value address(mlir::Operation *op, rt::BufferAttr buffer) {
    mlir::Value pointer = f.addressOf(op, buffer);
    failed |= !pointer;
    return pointer ? pointer : f.null();
  }
  mlir::Value stream(mlir::Operation *op) {
    return f.i32(op->getAttrOfType<mlir::IntegerAttr>("stream").getInt());
  }
  mlir::Value type(rt::BufferAttr buffer) {
    return f.i32(
        rt::getRuntimeType(buffer.getType().getElementType()).value_or(-1));
  }
  mlir::Value index(mlir::Value value) { return indices.lookup(value); }
  /// Returns the operands that all collectives start with: stream, group.
  template <typename Op> mlir::SmallVector<mlir::Value> onGroup(Op op) {
    return {stream(op), f.i32(runtime.getGroup(op.getAxes()))};
  }

  RuntimeModule &runtime;
  rt::ProgramOp program;
  RuntimeFunction f;
  mlir::DenseMap<mlir::Value, mlir::Value> indices;
  bool failed = false;
};

} // namespace heddle

#endif // HEDDLE_LIB_LOWER_CONVERTRTTOLLVM_PROGRAMCONVERSION_H
