//===- Slices.h - Finds the values that come in slices ----------*- C++ -*-===//
//
// The decision behind heddle-split-operators, apart from any change of IR.
//
// Example: heddle.contract "c_fc" [bsh, hf -> bsf] %x, %w with
// heddle.split<"h", 4, sharded 4>. The factor h runs over dimension 0 of the
// variable that %w is loaded from, so the variable is cut along it, and with it
// all that is computed from it element by element and stored: its gradient, the
// optimizer's state. The gradient is made by the product [bsh, bsf -> hf],
// which has the attribute, too. %x and the products' other results stay whole.
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

/// The type of a slice of a tensor.
mlir::RankedTensorType getSliceType(mlir::Type type, const Cut &cut,
                                    int64_t slice);

/// Whether the op makes a tensor of nothing or of scalars, so that a slice of
/// it can be made anywhere.
bool isFreeTensor(mlir::Operation *op);

/// The variables and values that come in slices.
class Slices {
public:
  /// Errors, on an op: a factor that it lacks, that runs over no variable, or
  /// over a variable that another op cuts otherwise; a size below the number of
  /// slices.
  mlir::LogicalResult find(mlir::ModuleOp module);

  std::optional<Cut> getCut(mlir::Value value) const;
  /// The cut of the op's only result, or of the value that a store writes.
  std::optional<Cut> getCutOfResult(mlir::Operation *op) const;

  struct Variable {
    VariableOp op;
    Cut cut;
    /// Slices that keep the variable's own storage; nullopt: all of them.
    std::optional<int64_t> sharded;
    mlir::Operation *cause; ///< the op that asked for it
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
  /// Spreads a cut to the variable of a load or store, and to its other
  /// accesses.
  mlir::LogicalResult spreadToVariable(mlir::Operation *access, const Cut &cut);

  llvm::MapVector<mlir::StringAttr, Variable> variables;
  llvm::DenseMap<mlir::Value, Cut> values;
  llvm::SmallVector<mlir::Value> worklist;
  llvm::DenseMap<mlir::StringAttr, llvm::SmallVector<mlir::Operation *>>
      accesses;
  mlir::ModuleOp module;
  /// Operators for which a variable was found.
  llvm::DenseSet<llvm::StringRef> served;
};

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_SPLITOPERATORS_SLICES_H
