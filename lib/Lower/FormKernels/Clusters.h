//===- Clusters.h - Which ops make a kernel ---------------------*- C++ -*-===//
//
// A partition of the ops of a program function. Pure data and decisions: the IR
// is only read.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_LOWER_FORMKERNELS_CLUSTERS_H
#define HEDDLE_LIB_LOWER_FORMKERNELS_CLUSTERS_H

#include "dialects/Heddle/Heddle.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace heddle::lower {

/// Ops that take no time and are repeated in every kernel that uses them.
bool isFree(mlir::Operation *op);
/// Ops that kernels are made of.
bool isClusterable(mlir::Operation *op);

/// One op that stays in the program, or the ops of one kernel.
struct Cluster {
  llvm::SmallVector<unsigned> ops; ///< positions in the function, ascending
  bool isKernel = false;
  /// The longest list of leading dimensions that may be rows.
  llvm::SmallVector<int64_t> rows;
  /// heddle.reduce_blocks fixes how many dimensions are rows and their block.
  std::optional<int64_t> rowDims, block;
  int64_t work = 0; ///< iterations of all ops
};

class Clusters {
public:
  /// Every op alone.
  explicit Clusters(mlir::Block &body);

  /// Merges along edges from producers to consumers, in program order.
  void fuseProducers();
  /// Merges readers of one tensor that stand near each other.
  void fuseSiblings();

  /// The clusters in an order in which each comes after all it depends on,
  /// otherwise as in the program.
  llvm::SmallVector<const Cluster *> getOrder() const;
  mlir::Operation *getOp(unsigned position) const { return ops[position]; }

private:
  bool tryMerge(unsigned a, unsigned b);
  /// The rows of a merger, or nothing if the two cannot share them.
  std::optional<Cluster> combine(const Cluster &a, const Cluster &b) const;
  /// How many leading dimensions one op passes to another row by row.
  int64_t sharedRowDims(mlir::Operation *from, mlir::Operation *to) const;
  /// Whether a path leads from a to b, which comes after it, through other
  /// clusters. Marks the clusters between the two that depend on a.
  bool hasDetour(unsigned a, unsigned b);
  /// Gives the merger of a and b, after hasDetour, its place in the order: what
  /// stands between them and is marked goes after it, the rest before. (The
  /// incremental topological order of Pearce and Kelly, 2006.)
  void place(unsigned merged, unsigned a, unsigned b);
  void addOrderEdges();

  llvm::SmallVector<mlir::Operation *> ops;
  llvm::DenseMap<mlir::Operation *, unsigned> position;
  llvm::SmallVector<llvm::SmallVector<unsigned>> predecessors; ///< of ops
  std::vector<Cluster> clusters;
  llvm::SmallVector<unsigned> clusterOf; ///< by op

  /// A topological order of the clusters, kept as they are merged, so that
  /// paths are looked for between their ends alone. Places of clusters that
  /// were merged away stay empty.
  static constexpr unsigned kNone = ~0u;
  llvm::SmallVector<unsigned> clusterAt, placeOf;
  llvm::SmallVector<unsigned> marks; ///< by cluster: equals epoch if marked
  unsigned epoch = 0;
};

} // namespace heddle::lower

#endif // HEDDLE_LIB_LOWER_FORMKERNELS_CLUSTERS_H
