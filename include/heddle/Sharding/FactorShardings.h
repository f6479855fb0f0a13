//===- FactorShardings.h - From axes of factors to shardings ----*- C++ -*-===//
//
// An op's assignment of mesh axes to its factors decides the sharding that
// every operand must have and every result gets. These functions translate
// between the two; they look at no other op and change nothing.
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

/// A mesh and the symbol that shardings name it by.
struct MeshRef {
  mlir::FlatSymbolRefAttr symbol;
  MeshAttr mesh;

  explicit operator bool() const { return bool(mesh); }
  int64_t getSize(llvm::ArrayRef<mlir::StringAttr> axes) const {
    return mesh.getSize(axes);
  }
};

/// The only mesh of the module; empty if it has none.
MeshRef getMesh(mlir::ModuleOp module);

/// The rule of an op. An op without the interface, or whose rule does not cover
/// its operands and results, gets a rule without factors: every device repeats
/// the op.
ShardingRule getRule(mlir::Operation *op);

/// The key of a factor in `heddle.factors`: its name, or its index.
std::string getFactorKey(const ShardingRule &rule, unsigned factor);

/// An axis that two factors (or one factor twice) are split over.
struct SharedAxis {
  mlir::StringAttr axis;
  unsigned first, second;
};
/// The first axis with two places, if there is one. The two factors of the
/// rule's `meet` may have the same list of axes, but not share only some of
/// them.
std::optional<SharedAxis> findSharedAxis(const ShardingRule &rule,
                                         const FactorAxes &axes);

/// Errors, on the op: an axis that the mesh lacks or that occurs twice, a
/// factor that must not be split.
mlir::LogicalResult verifyFactorAxes(mlir::Operation *op,
                                     const ShardingRule &rule,
                                     const FactorAxes &axes, MeshAttr mesh);

/// The factor that `heddle.factors` means by a key: its name, or its index if
/// it has no name.
std::optional<unsigned> findFactor(const ShardingRule &rule,
                                   llvm::StringRef key);

/// Reads `heddle.factors` of the op (none: nothing is split). Errors, on the
/// op: a factor that the rule lacks, and those of verifyFactorAxes.
mlir::FailureOr<FactorAxes>
readFactorAxes(mlir::Operation *op, const ShardingRule &rule, MeshAttr mesh);
/// The factors that are split, as `heddle.factors` states them; null: none.
FactorShardingAttr makeFactorsAttr(mlir::MLIRContext *context,
                                   const ShardingRule &rule,
                                   llvm::ArrayRef<Axes> axes);
/// Sets `heddle.factors` to the factors that are split; none: removes it.
void writeFactorAxes(mlir::Operation *op, const ShardingRule &rule,
                     llvm::ArrayRef<Axes> axes);

/// Whether every dimension's layout is a sharding of that dimension. A merged
/// dimension (f0, f1) is one only if f1 is whole unless f0 is split into single
/// elements, and if nothing is padded.
bool isRepresentable(const ShardingRule &rule, const FactorAxes &axes,
                     MeshAttr mesh);

/// The axes of a dimension, given those of its factors.
Axes getDimensionAxes(const DimensionFactors &dim, const FactorAxes &axes);
/// The axes of the factors of a dimension from those of the dimension, as far
/// as they can be distributed; one list a factor of `dim`.
llvm::SmallVector<Axes, 1> distributeAxes(const DimensionFactors &dim,
                                          const ShardingRule &rule,
                                          llvm::ArrayRef<mlir::StringAttr> axes,
                                          MeshAttr mesh);

ShardingAttr makeSharding(MeshRef mesh, llvm::ArrayRef<Axes> dims,
                          llvm::ArrayRef<mlir::StringAttr> partial = {},
                          ReductionKind kind = ReductionKind::Sum);
DimensionAxes getDimensions(ShardingAttr sharding);

/// The sharding that operand `index` must have. It is partial only for an
/// operand that is added to a partial sum of the op (the accumulator of an
/// embedding_grad).
ShardingAttr getOperandSharding(const ShardingRule &rule,
                                const FactorAxes &axes, unsigned index,
                                MeshRef mesh);
/// The sharding of result `index`, if no operand but accumulators was partial.
ShardingAttr getResultSharding(const ShardingRule &rule, const FactorAxes &axes,
                               unsigned index, MeshRef mesh);

} // namespace heddle

#endif // HEDDLE_SHARDING_FACTORSHARDINGS_H
