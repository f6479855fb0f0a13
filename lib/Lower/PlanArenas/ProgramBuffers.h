//===- ProgramBuffers.h - A place for every tensor of a program -*- C++ -*-===//
//
// Decides the place of each tensor of a program function. Does not change the
// IR.
//
// Sharing, in the order in which it is tried:
//  1. Views (reshapes, leading slices, unstack) lie in their operand.
//  2. A load lies in its variable if no store to it comes before the load's
//     last use; else it is copied.
//  3. The last value stored to a variable is computed straight into it if no
//     older value is read after that op; else it is copied there.
//  4. What the program returns is computed straight into the result.
//  5. The operands of a stack are computed straight into their parts of it.
//  6. An op that can work in place does so if its operand dies there.
// The remaining tensors get places in the arena (OffsetAssignment.h).
//
// A collective in flight uses its operand and its result at all positions from
// its comm.start to its comm.wait. Two uses that have no position in common are
// ordered by the events of these two ops, whatever streams they are on: so
// buffers share bytes only if events order their uses.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_LOWER_PLANARENAS_PROGRAMBUFFERS_H
#define HEDDLE_LIB_LOWER_PLANARENAS_PROGRAMBUFFERS_H

#include "dialects/Rt/Rt.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {

/// The places of an op's tensor results (a unit for any other result).
inline constexpr llvm::StringLiteral kPlacesAttrName = "rt.places";
/// On a function: the bytes of its arena, and the lower bound for any arena of
/// these buffers.
inline constexpr llvm::StringLiteral kArenaAttrName = "rt.arena";
inline constexpr llvm::StringLiteral kArenaBoundAttrName = "rt.arena_bound";

/// Offsets in the arena are multiples of this number.
inline constexpr int64_t kBufferAlignment = 64;

struct ProgramBuffers {
  llvm::DenseMap<mlir::Value, rt::BufferAttr> places;
  int64_t arenaBytes = 0;
  int64_t arenaBound = 0;
};

struct PlacementOptions {
  bool inPlace = true;        ///< 3 to 6 of the list above
  mlir::SymbolTable &symbols; ///< of the module
  /// Names the rt.constant for a constant tensor.
  llvm::function_ref<mlir::FlatSymbolRefAttr(mlir::Location,
                                             mlir::ElementsAttr)>
      getConstant;
};

/// Checks, and emits, that the function is a row of ops that programs can run,
/// on tensors that the runtime can hold: what `placeBuffers` takes.
mlir::LogicalResult verifyProgramForm(mlir::func::FuncOp program);

/// Fails, with an error, on an op that programs cannot run.
mlir::FailureOr<ProgramBuffers> placeBuffers(mlir::func::FuncOp program,
                                             const PlacementOptions &options);

/// The byte offset of a view within its operand; nullopt if the op is no view.
std::optional<int64_t> getViewOffset(mlir::OpResult result);

} // namespace heddle

#endif // HEDDLE_LIB_LOWER_PLANARENAS_PROGRAMBUFFERS_H
