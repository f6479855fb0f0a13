//===- ProgramBuffers.h - A place for every tensor of a program -*- C++ -*-===//
//
// Decides the place of each tensor of a program function. Does not change the
// IR.
//
// Sharing is tried in this order:
//  1. A view (reshape, leading slice, unstack) lies in its operand.
//  2. A load lies in its variable if no store to it comes before the load's
//     last use. Otherwise it is copied.
//  3. The last value stored to a variable is computed in the variable if no
//     older value is read after that op. Otherwise it is copied there.
//  4. A returned value is computed in the result's buffer.
//  5. The operands of a stack, or of a concatenation along the outermost
//     dimension, are computed in their parts of it.
//  6. An op that can work in place does so if its operand dies there.
// All other tensors get places in the arena (OffsetAssignment.h).
//
// A collective in flight uses its operand and its result at all positions from
// its comm.start to its comm.wait. The events of these two ops order it with
// all ops before the start and behind the wait, on any stream. So if two uses
// have no position in common, they are ordered, and their buffers may share
// bytes.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_LOWER_PLANARENAS_PROGRAMBUFFERS_H
#define HEDDLE_LIB_LOWER_PLANARENAS_PROGRAMBUFFERS_H

#include "dialects/Rt/Rt.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {

/// On an op: the places of its tensor results (a unit for any other result).
inline constexpr llvm::StringLiteral kPlacesAttrName = "rt.places";
/// On a function: the bytes of its arena, and the lower bound of an arena for
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
  bool inPlace = true;        ///< if false, only 1 and 2 above
  mlir::SymbolTable &symbols; ///< of the module
  /// Returns the name of the rt.constant for a constant tensor.
  llvm::function_ref<mlir::FlatSymbolRefAttr(mlir::Location,
                                             mlir::ElementsAttr)>
      getConstant;
};

/// Checks that the function is what `placeBuffers` accepts: a sequence of ops
/// that programs can run, on tensors that the runtime can hold. Emits an error
/// otherwise.
mlir::LogicalResult verifyProgramForm(mlir::func::FuncOp program);

/// Decides the places. Emits an error on an op that programs cannot run.
mlir::FailureOr<ProgramBuffers> placeBuffers(mlir::func::FuncOp program,
                                             const PlacementOptions &options);

/// Returns the byte offset of a view within its operand, or nullopt if the op
/// is no view.
std::optional<int64_t> getViewOffset(mlir::OpResult result);

/// Returns whether the op's result is its operands, one after the other in
/// memory.
bool isJoin(mlir::Operation *op);

/// Returns whether the operand is a part of a join that is constant and zero.
/// Such a part has no place of its own, because the join writes it.
bool isZeroPart(mlir::OpOperand &use);

} // namespace heddle

#endif // HEDDLE_LIB_LOWER_PLANARENAS_PROGRAMBUFFERS_H
