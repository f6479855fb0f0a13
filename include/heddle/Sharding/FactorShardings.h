//===- FactorShardings.h - From axes of factors to shardings ----*- C++ -*-===//
//
// Translates an op's assignment of mesh axes to its factors into the sharding
// that every operand must have and every result gets. These functions look at
// no other op and change no IR.
//
// Example: heddle.contract [bsf, fh -> bsh] with b over dp and f over tp needs
// operands [{dp}, {}, {tp}] and [{tp}, {}], and makes [{dp}, {}, {}] with a
// partial sum over tp.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SHARDING_FACTORSHARDINGS_H
#define HEDDLE_SHARDING_FACTORSHARDINGS_H

#include "dialects/Heddle/Heddle.h"
#include "heddle/Support/Bytes.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

/// Mesh axes, major to minor.
using Axes = llvm::SmallVector<mlir::StringAttr, 2>;
/// The axes of every dimension of a tensor.
using DimensionAxes = llvm::SmallVector<Axes, 4>;
/// The axes of every factor of a rule.
using FactorAxes = llvm::SmallVector<Axes>;

/// A mesh, and the symbol by which shardings refer to it.
struct MeshRef {
  mlir::FlatSymbolRefAttr symbol;
  MeshAttr mesh;

  explicit operator bool() const { return bool(mesh); }
  int64_t getSize(llvm::ArrayRef<mlir::StringAttr> axes) const {
    return mesh.getSize(axes);
  }
};

/// Returns the module's first mesh; empty if it has none.
MeshRef getMesh(mlir::ModuleOp module);

/// Returns the rule of an op, completed so that every dimension of every tensor
/// has an entry. An op that lacks the interface or has dynamic shapes gets a
/// rule without factors: every device repeats the op.
ShardingRule getRule(mlir::Operation *op);

/// Returns the load that makes a value, directly or through elementwise ops of
/// one operand, such as casts. Null if there is none.
LoadOp findLoad(mlir::Value value);

/// Returns the key of a factor in `heddle.factors`: its name, or its index.
std::string getFactorKey(const ShardingRule &rule, unsigned factor);

/// An axis that splits two factors, or one factor twice.
struct SharedAxis {
  mlir::StringAttr axis;
  unsigned first, second;
};
/// Returns the first axis that occurs twice, if there is one. The two factors
/// of the rule's `meet` may have the same list of axes, but may not share only
/// some of them.
std::optional<SharedAxis> findSharedAxis(const ShardingRule &rule,
                                         const FactorAxes &axes);

/// Checks the axes of an op's factors. Errors, on the op: an axis that the mesh
/// lacks, an axis that occurs twice, a factor that must not be split.
mlir::LogicalResult verifyFactorAxes(mlir::Operation *op,
                                     const ShardingRule &rule,
                                     const FactorAxes &axes, MeshAttr mesh);

/// Returns the factor with this key in `heddle.factors`: its name, or its index
/// if it has no name.
std::optional<unsigned> findFactor(const ShardingRule &rule,
                                   llvm::StringRef key);

/// Reads `heddle.factors` of the op; without it, nothing is split. Errors, on
/// the op: a factor that the rule lacks, and the errors of verifyFactorAxes.
mlir::FailureOr<FactorAxes>
readFactorAxes(mlir::Operation *op, const ShardingRule &rule, MeshAttr mesh);
/// Returns the split factors as an attribute; null if none is split.
FactorShardingAttr makeFactorsAttr(mlir::MLIRContext *context,
                                   const ShardingRule &rule,
                                   llvm::ArrayRef<Axes> axes);
/// Sets `heddle.factors` to the split factors; removes it if none is split.
void writeFactorAxes(mlir::Operation *op, const ShardingRule &rule,
                     llvm::ArrayRef<Axes> axes);

/// Returns whether the split of every dimension can be written as a sharding.
/// For a dimension that merges factors (f0, f1), the axes must divide the
/// sizes, and f1 may be split only if f0 is split into single elements.
/// Example: of (2, 4), f1 over 2 devices alone gives the first one rows 0, 1, 4
/// and 5.
bool isRepresentable(const ShardingRule &rule, const FactorAxes &axes,
                     MeshAttr mesh);

/// Returns the axes of a dimension, given the axes of all factors.
Axes getDimensionAxes(const DimensionFactors &dim, const FactorAxes &axes);
/// Distributes the axes of a dimension over its factors, as far as they divide.
/// Returns one list for each factor of `dim`.
llvm::SmallVector<Axes, 1> distributeAxes(const DimensionFactors &dim,
                                          const ShardingRule &rule,
                                          llvm::ArrayRef<mlir::StringAttr> axes,
                                          MeshAttr mesh);

ShardingAttr makeSharding(MeshRef mesh, llvm::ArrayRef<Axes> dims,
                          llvm::ArrayRef<mlir::StringAttr> partial = {},
                          ReductionKind kind = ReductionKind::Sum);
DimensionAxes getDimensions(ShardingAttr sharding);

/// Returns the sharding that operand `index` must have. It is partial only if
/// the op adds the operand to a partial sum (the accumulator of an
/// embedding_grad).
ShardingAttr getOperandSharding(const ShardingRule &rule,
                                const FactorAxes &axes, unsigned index,
                                MeshRef mesh);
/// Returns the sharding of result `index`, if only accumulators are partial
/// operands.
ShardingAttr getResultSharding(const ShardingRule &rule, const FactorAxes &axes,
                               unsigned index, MeshRef mesh);

} // namespace heddle

#endif // HEDDLE_SHARDING_FACTORSHARDINGS_H
