//===- Clusters.h - Partitions ops into kernels -----------------*- C++ -*-===//
//
// A partition of the ops of a program function into kernels. It decides and
// holds data; the IR is only read.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_LOWER_FORMKERNELS_CLUSTERS_H
#define HEDDLE_LIB_LOWER_FORMKERNELS_CLUSTERS_H

#include "dialects/Heddle/Heddle.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace heddle::lower {

/// Whether the op takes no time, so that every kernel that uses it repeats it.
bool isFree(mlir::Operation *op);
/// Whether the op can be a part of a kernel.
bool isClusterable(mlir::Operation *op);

/// One op that stays in the program, or the ops of one kernel.
struct Cluster {
  llvm::SmallVector<unsigned> ops; ///< positions in the function, ascending
  bool isKernel = false;
  /// The longest list of leading dimensions that may be rows.
  llvm::SmallVector<int64_t> rows;
  /// The row dimensions and block of heddle.reduce_blocks, if the cluster has
  /// one.
  std::optional<int64_t> rowDims, block;
  int64_t work = 0; ///< iterations of all ops
};

class Clusters {
public:
  /// Starts with every op in a cluster of its own.
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
  /// The cluster of both, or nothing if the two share no rows.
  std::optional<Cluster> combine(const Cluster &a, const Cluster &b) const;
  /// How many leading dimensions one op passes to another row by row.
  int64_t sharedRowDims(mlir::Operation *from, mlir::Operation *to) const;
  /// Whether a path leads from a to b, which comes after it, through other
  /// clusters. Marks the clusters between the two that depend on a.
  bool hasDetour(unsigned a, unsigned b);
  /// Gives the merged cluster of a and b its place in the order, after
  /// hasDetour. The marked clusters between the two move behind it, the others
  /// before. (The incremental topological order of Pearce and Kelly, 2006.)
  void place(unsigned merged, unsigned a, unsigned b);
  void addOrderEdges();

  llvm::SmallVector<mlir::Operation *> ops;
  llvm::DenseMap<mlir::Operation *, unsigned> position;
  llvm::SmallVector<llvm::SmallVector<unsigned>> predecessors; ///< of ops
  std::vector<Cluster> clusters;
  llvm::SmallVector<unsigned> clusterOf; ///< by op

  /// A topological order of the clusters. It is kept up to date as clusters
  /// merge, so that a search for a path only visits the places between its
  /// ends. The places of clusters that were merged away stay empty.
  static constexpr unsigned kNone = ~0u;
  llvm::SmallVector<unsigned> clusterAt, placeOf;
  llvm::SmallVector<unsigned> marks; ///< by cluster: equals epoch if marked
  unsigned epoch = 0;
};

} // namespace heddle::lower

#endif // HEDDLE_LIB_LOWER_FORMKERNELS_CLUSTERS_H
