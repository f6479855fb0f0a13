//===- Clusters.h - Partitions ops into kernels -----------------*- C++ -*-===//
//
// Partitions the ops of a program function into kernels. The partition is plain
// data; the IR is only read.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_LOWER_FORMKERNELS_CLUSTERS_H
#define HEDDLE_LIB_LOWER_FORMKERNELS_CLUSTERS_H

#include "../KernelPlan/KernelTarget.h"
#include "dialects/Heddle/Heddle.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace heddle::lower {

/// Returns whether the op takes no time, so that every kernel that uses it
/// repeats it.
bool isFree(mlir::Operation *op);
/// Returns whether the op can be part of a kernel.
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
  int64_t work = 0;  ///< iterations of all ops together
  bool sums = false; ///< an op of the cluster is a reduction
};

class Clusters {
public:
  /// Starts with every op in a cluster of its own.
  Clusters(mlir::Block &body, const KernelTarget &target);

  /// Merges along edges from producers to consumers, in program order.
  void fuseProducers();
  /// Merges readers of one tensor that stand near each other.
  void fuseSiblings();

  /// Returns the clusters in a topological order that is close to the order of
  /// the program.
  llvm::SmallVector<const Cluster *> getOrder() const;
  mlir::Operation *getOp(unsigned position) const { return ops[position]; }

private:
  bool tryMerge(unsigned a, unsigned b);
  /// Returns the merged cluster, or nothing if a and b share no rows.
  std::optional<Cluster> combine(const Cluster &a, const Cluster &b) const;
  /// Returns how many leading dimensions `to` reads row by row from `from`:
  /// INT64_MAX if `to` reads nothing of `from`, -1 if the two cannot share a
  /// kernel.
  int64_t sharedRowDims(mlir::Operation *from, mlir::Operation *to) const;
  /// Returns whether a path leads from a to the later cluster b through other
  /// clusters. Marks the clusters between the two that depend on a.
  bool hasDetour(unsigned a, unsigned b);
  /// Places the merged cluster of a and b in the order, after a call of
  /// hasDetour: behind the unmarked clusters between the two, before the marked
  /// ones. (The incremental topological order of Pearce and Kelly, 2006.)
  void place(unsigned merged, unsigned a, unsigned b);
  void addOrderEdges();

  KernelTarget target;
  llvm::SmallVector<mlir::Operation *> ops;
  llvm::DenseMap<mlir::Operation *, unsigned> position;
  llvm::SmallVector<llvm::SmallVector<unsigned>> predecessors; ///< of ops
  std::vector<Cluster> clusters;
  llvm::SmallVector<unsigned> clusterOf; ///< by op

  /// A topological order of the clusters: the cluster at each place, and the
  /// place of each cluster. Every merge updates it, so a search for a path only
  /// visits the places between its ends. The place of a cluster that was merged
  /// away is kNone.
  static constexpr unsigned kNone = ~0u;
  llvm::SmallVector<unsigned> clusterAt, placeOf;
  llvm::SmallVector<unsigned> marks; ///< by cluster: marked if equal to epoch
  unsigned epoch = 0;
};

} // namespace heddle::lower

#endif // HEDDLE_LIB_LOWER_FORMKERNELS_CLUSTERS_H
