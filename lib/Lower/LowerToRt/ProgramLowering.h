//===- ProgramLowering.h - One function as calls of the runtime -*- C++ -*-===//
//
// Lowers every op to its call of the runtime, at the places that
// heddle-plan-arenas wrote. The functions that a loop calls become the loop's
// regions: their arguments, results and arena lie in buffers of the program.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_LOWER_LOWERTORT_PROGRAMLOWERING_H
#define HEDDLE_LIB_LOWER_LOWERTORT_PROGRAMLOWERING_H

#include "dialects/Comm/Comm.h"
#include "dialects/Rt/Rt.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

namespace heddle {

/// The buffers of the calling program that are the arguments, results and arena
/// of a called function.
struct ProgramMemory {
  mlir::SmallVector<rt::BufferAttr> arguments, results;
  rt::BufferAttr arena;

  /// Returns the program's buffer for a buffer of the called function. Null,
  /// with an error, if there is none.
  rt::BufferAttr
  find(rt::BufferAttr buffer,
       llvm::function_ref<mlir::InFlightDiagnostic()> emitError) const;
};

/// Builds the runtime calls of one function. Errors are emitted.
class ProgramLowering {
public:
  /// Lowers a program function into the body of `program`.
  ProgramLowering(mlir::func::FuncOp function, rt::ProgramOp program);

  mlir::LogicalResult run();

private:
  /// Lowers a function that a loop in `caller` calls.
  ProgramLowering(mlir::func::FuncOp function, mlir::Block *body,
                  const ProgramMemory &memory, const ProgramLowering *caller);

  mlir::LogicalResult lowerOps();
  mlir::LogicalResult lower(mlir::Operation *op);
  template <typename Op>
  mlir::LogicalResult
  lowerContract(Op op, std::optional<ProductEpilogue> epilogue = std::nullopt,
                mlir::Value extra = nullptr);
  mlir::LogicalResult lowerCall(mlir::func::CallOp op);
  mlir::LogicalResult lowerLoop(WhileOp loop);
  mlir::LogicalResult lowerCallee(WhileOp loop, mlir::FlatSymbolRefAttr callee,
                                  mlir::Region &region,
                                  mlir::ValueRange arguments,
                                  mlir::ValueRange results);

  // Defined in LowerCommunication.cpp.
  mlir::LogicalResult lowerCollective(mlir::Operation *op, rt::BufferAttr out,
                                      int32_t stream);
  mlir::LogicalResult lowerSlice(comm::SliceOp op);
  void lowerStart(comm::StartOp op);
  mlir::Value lowerAxisIndex(mlir::FlatSymbolRefAttr mesh, AxisListAttr axes);
  void lowerTransfer(mlir::Operation *op);

  /// Returns the planned place of a tensor. If none was planned, emits an
  /// error, sets `failedPlace` and returns any buffer.
  rt::BufferAttr place(mlir::Value value);
  /// Returns the place to which a returned value must be copied.
  rt::BufferAttr placeResult(mlir::OpOperand &returned);
  /// Returns the program's buffer for a buffer of this function. If there is
  /// none, emits an error, sets `failedPlace` and returns `buffer`.
  rt::BufferAttr findInProgram(mlir::Operation *op, rt::BufferAttr buffer);
  mlir::Value index(mlir::Value value) { return indices.lookup(value); }
  mlir::SmallVector<mlir::Value> indexRange(mlir::ValueRange values) {
    return llvm::map_to_vector(values, [&](mlir::Value v) { return index(v); });
  }
  mlir::Value constant(int64_t value) {
    return builder.create<mlir::arith::ConstantIndexOp>(loc, value);
  }
  /// Builds a copy unless both buffers are the same place.
  void copy(rt::BufferAttr from, rt::BufferAttr to, ServesAttr serves);
  mlir::IntegerAttr stream(int32_t number) {
    return builder.getI32IntegerAttr(number);
  }
  /// Returns the operators that the call made of `op` serves. If `op` has no
  /// name, uses the names of its function and of the op's kind.
  ServesAttr servesOf(mlir::Operation *op);
  /// Returns the operators that a copy of the value serves.
  ServesAttr servesOfValue(mlir::Value value);

  mlir::func::FuncOp function;
  rt::ProgramOp program;
  mlir::OpBuilder builder;
  mlir::Location loc = function.getLoc();
  /// The places of this function in the calling program. Set only for a
  /// function that a loop calls.
  std::optional<ProgramMemory> memory;
  const ProgramLowering *caller = nullptr;
  mlir::SymbolTableCollection symbols;
  mlir::IRMapping indices;
  int32_t events = 0;
  llvm::DenseMap<mlir::Operation *, int32_t> eventOfStart;
  bool failedPlace = false;
};

} // namespace heddle

#endif // HEDDLE_LIB_LOWER_LOWERTORT_PROGRAMLOWERING_H
