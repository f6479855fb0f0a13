//===- ProgramLowering.h - One function as calls of the runtime -*- C++ -*-===//
//
// Every op becomes its call of the runtime, with the places that
// heddle-plan-arenas wrote. The functions that a loop calls become the loop's
// regions: their arguments, results and arena are places of the program.
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

/// The places, in the program, of a called function's arguments, results and
/// arena.
struct ProgramMemory {
  mlir::SmallVector<rt::BufferAttr> arguments, results;
  rt::BufferAttr arena;

  /// Null, with an error, if there is no such place.
  rt::BufferAttr
  find(rt::BufferAttr buffer,
       llvm::function_ref<mlir::InFlightDiagnostic()> emitError) const;
};

/// Writes the calls of one function. Errors are emitted.
class ProgramLowering {
public:
  /// Lowers a program function into the body of `program`.
  ProgramLowering(mlir::func::FuncOp function, rt::ProgramOp program);

  mlir::LogicalResult run();

private:
  /// Lowers a function that a loop of `caller` calls.
  ProgramLowering(mlir::func::FuncOp function, mlir::Block *body,
                  const ProgramMemory &memory, const ProgramLowering *caller);

  mlir::LogicalResult lowerOps();
  mlir::LogicalResult lower(mlir::Operation *op);
  mlir::LogicalResult lowerContract(ContractOp op);
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

  /// The place of a tensor; null, with an error, if none was planned.
  rt::BufferAttr place(mlir::Value value);
  /// The place where a returned value has to be.
  rt::BufferAttr placeResult(mlir::OpOperand &returned);
  /// The buffer as a place of the program; any buffer, with an error, if there
  /// is none.
  rt::BufferAttr findInProgram(mlir::Operation *op, rt::BufferAttr buffer);
  mlir::Value index(mlir::Value value) { return indices.lookup(value); }
  mlir::SmallVector<mlir::Value> indexRange(mlir::ValueRange values) {
    return llvm::map_to_vector(values, [&](mlir::Value v) { return index(v); });
  }
  mlir::Value constant(int64_t value) {
    return builder.create<mlir::arith::ConstantIndexOp>(loc, value);
  }
  /// Copies unless both are the same place.
  void copy(rt::BufferAttr from, rt::BufferAttr to, ServesAttr serves);
  mlir::IntegerAttr stream(int32_t number) {
    return builder.getI32IntegerAttr(number);
  }
  /// What a call serves that is made of the op. An op that no name has reached
  /// is named by its function and itself.
  ServesAttr servesOf(mlir::Operation *op);
  /// What the copy of a value serves.
  ServesAttr servesOfValue(mlir::Value value);

  mlir::func::FuncOp function;
  rt::ProgramOp program;
  mlir::OpBuilder builder;
  mlir::Location loc = function.getLoc();
  /// Set for a function that a loop calls: its places in the loop's program.
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
