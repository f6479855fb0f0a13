//===- ShardingExplainer.h - Explains shardings -----------------*- C++ -*-===//
//
// Writes remarks from the origins of axes that Propagation records. For each
// value, the remarks name the origin of each of its axes, and the ops that want
// another sharding of the value.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SHARD_EXPLAIN_SHARDINGEXPLAINER_H
#define HEDDLE_LIB_SHARD_EXPLAIN_SHARDINGEXPLAINER_H

#include "heddle/Sharding/ReshardSequence.h"
#include "heddle/Sharding/ShardingAssignment.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {

/// Returns the name of an op for messages: `"h.0.mlp.c_fc"`, or `'math.tanh'
/// (line 12)`.
std::string describeOp(mlir::Operation *op);

class ShardingExplainer {
public:
  ShardingExplainer(const ShardingAssignment &assignment, MeshRef mesh)
      : graph(assignment.graph), seeds(assignment.seeds), mesh(mesh) {}

  /// Emits a remark on each op of the function that has tensor results, and on
  /// the function for its arguments.
  void explain(mlir::func::FuncOp function) const;

  /// Emits a remark on each op that wants another sharding of an operand, if
  /// the op and the operand both claim one axis. The remark names the origins
  /// of both claims and the bytes that a device sends to reshard the operand.
  void reportConflicts(ReshardSequences &sequences) const;

private:
  /// The origin of an element's axis: the element that had the axis first, and
  /// the op that passed it on last, if any did.
  struct Source {
    Propagation::Element seed;
    std::optional<unsigned> through;
  };
  using SourceKey = std::pair<unsigned, mlir::StringAttr>;
  static SourceKey keyOf(Propagation::Element element, mlir::StringAttr axis) {
    return {2 * element.index + element.isNode, axis};
  }
  Source findSource(Propagation::Element element, mlir::StringAttr axis) const;
  std::string describe(Propagation::Element element,
                       llvm::ArrayRef<Axes> dims) const;
  std::string describeOrigin(Propagation::Element element,
                             mlir::StringAttr axis) const;
  std::string nameOf(Propagation::Element element, mlir::StringAttr axis) const;
  void reportOperand(unsigned node, mlir::OpOperand &operand,
                     ReshardSequences &sequences) const;

  const Propagation &graph;
  const llvm::DenseMap<std::pair<unsigned, mlir::StringAttr>, Seed> &seeds;
  MeshRef mesh;
  /// The sources found so far. Neighbours share most of their way to a source.
  mutable llvm::DenseMap<SourceKey, Source> sources;
};

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_EXPLAIN_SHARDINGEXPLAINER_H
