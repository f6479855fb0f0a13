//===- StatedFactors.h - What ops and variables state -----------*- C++ -*-===//
//
// Reads a program that propagate-shardings has annotated: every op states its
// factors, and every variable its storage.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SHARDING_STATEDFACTORS_H
#define HEDDLE_SHARDING_STATEDFACTORS_H

#include "dialects/Heddle/Heddle.h"
#include "heddle/Sharding/PartialSums.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"

namespace heddle {

/// The rules and factors of the ops of a function.
using OpFactors =
    llvm::DenseMap<mlir::Operation *, std::pair<ShardingRule, FactorAxes>>;

/// Reads the factors of every op that is partitioned. Errors: those of
/// readFactorAxes, of all ops.
mlir::FailureOr<OpFactors> readOpFactors(mlir::func::FuncOp function,
                                         MeshAttr mesh);

/// Returns the storage of the variable that a load or store accesses; null if
/// the variable has none.
ShardingAttr getStorage(mlir::Operation *access,
                        mlir::SymbolTableCollection &tables);

/// Returns the load whose value `op` turns into one of fewer bytes, element by
/// element, as a cast does. Null if `op` is no such op.
LoadOp getNarrowedLoad(mlir::Operation *op);

/// Returns the block's partial sums under the factors of its ops and the
/// storages of the variables that it accesses.
PartialSums getStatedPartialSums(mlir::Block &block, MeshRef mesh,
                                 const OpFactors &factors,
                                 mlir::SymbolTableCollection &tables);

} // namespace heddle

#endif // HEDDLE_SHARDING_STATEDFACTORS_H
