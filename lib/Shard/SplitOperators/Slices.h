//===- Slices.h - Finds the values that come in slices ----------*- C++ -*-===//
//
// Finds the variables and values that heddle-split-operators cuts into slices.
// Changes no IR.
//
// Example: heddle.contract "c_fc" [bsh, hf -> bsf] %x, %w with
// heddle.split<"h", 4, sharded 4>. The factor h runs over dimension 0 of the
// variable from which %w is loaded, so the variable is cut along it. From there
// the cut spreads to values and variables of the same shape, such as the
// gradient and the optimizer's state. It spreads through elementwise ops, loads
// and stores. The product [bsh, bsf -> hf], which makes the gradient, has the
// attribute, too. %x and the other results of products stay whole.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SHARD_SPLITOPERATORS_SLICES_H
#define HEDDLE_LIB_SHARD_SPLITOPERATORS_SLICES_H

#include "heddle/Sharding/FactorShardings.h"
#include "llvm/ADT/MapVector.h"

namespace heddle {

/// A dimension cut into slices of nearly equal size, the larger ones first.
struct Cut {
  int64_t dim = 0;
  int64_t size = 0;
  int64_t slices = 1;

  int64_t getSize(int64_t slice) const {
    return size / slices + (slice < size % slices);
  }
  int64_t getOffset(int64_t slice) const {
    return slice * (size / slices) + std::min(slice, size % slices);
  }
  bool operator==(const Cut &) const = default;
};

/// Returns the type of a slice of a tensor.
mlir::RankedTensorType getSliceType(mlir::Type type, const Cut &cut,
                                    int64_t slice);

/// Returns whether the op has no name and makes a tensor from scalar operands
/// or from none. A slice of such a tensor can be made anywhere.
bool isFreeTensor(mlir::Operation *op);

/// The variables and values that come in slices.
class Slices {
public:
  /// Finds all cuts. Emits an error if
  /// - an op with heddle.split lacks the named factor, or the factor is smaller
  ///   than the number of slices;
  /// - no op of an operator runs the factor over a parameter that it loads;
  /// - two ops cut a variable in different ways, or a variable that would be
  ///   cut is already a slice;
  /// - an op with heddle.split, or a load or store of a cut variable, is in
  ///   control flow or in a function of several blocks.
  mlir::LogicalResult find(mlir::ModuleOp module);

  std::optional<Cut> getCut(mlir::Value value) const;
  /// Returns the cut of the op's only result, or of the variable that a store
  /// writes.
  std::optional<Cut> getCutOfResult(mlir::Operation *op) const;

  struct Variable {
    VariableOp op;
    Cut cut;
    /// The number of slices that keep the variable's own storage axes; nullopt:
    /// all.
    std::optional<int64_t> sharded;
    mlir::Operation *cause; ///< the op that asked for the cut
  };
  const llvm::MapVector<mlir::StringAttr, Variable> &getVariables() const {
    return variables;
  }

private:
  mlir::LogicalResult readOp(mlir::Operation *op, SplitAttr split);
  mlir::LogicalResult cut(VariableOp variable, const Cut &cut,
                          std::optional<int64_t> sharded,
                          mlir::Operation *cause);
  void mark(mlir::Value value, const Cut &cut);
  mlir::LogicalResult spread(mlir::Value value);
  /// Spreads a cut to the variable that `access` loads or stores, and from
  /// there to the variable's other accesses.
  mlir::LogicalResult spreadToVariable(mlir::Operation *access, const Cut &cut);

  llvm::MapVector<mlir::StringAttr, Variable> variables;
  llvm::DenseMap<mlir::Value, Cut> values;
  llvm::SmallVector<mlir::Value> worklist;
  llvm::DenseMap<mlir::StringAttr, llvm::SmallVector<mlir::Operation *>>
      accesses;
  mlir::ModuleOp module;
  /// Names of operators for which a variable was found.
  llvm::DenseSet<llvm::StringRef> served;
};

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_SPLITOPERATORS_SLICES_H
