//===- CommunicationRemarks.h - Groups remarks that are alike ---*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_EXPLAIN_COMMUNICATIONREMARKS_H
#define HEDDLE_LIB_SHARD_EXPLAIN_COMMUNICATIONREMARKS_H

#include "heddle/Cost/CollectiveCost.h"
#include "heddle/Sharding/FactorShardings.h"

namespace heddle {

/// Formats axes: `{"dp", "tp"}`.
std::string describeAxes(llvm::ArrayRef<mlir::StringAttr> axes);
/// Formats a sharding: `[{"dp"}, {}], partial sum {"tp"}`.
std::string describeSharding(ShardingAttr sharding);
/// Formats a cost: `2048 bytes in 0.01 ms`.
std::string describeCost(const CollectiveCost &cost);
/// Returns the name of the op for messages, with its kind if a plan can name
/// it: `'h.0.mlp.c_fc' (heddle.contract)`, `variable 'wte.weight'`,
/// `'math.exp'`.
std::string describeOperator(mlir::Operation *op);

/// A remark on a transfer, with notes on how to avoid it.
struct CommunicationRemark {
  struct Note {
    mlir::Location location;
    std::string text;
    /// The operators or variables for which the text has entries of a plan.
    llvm::SmallVector<std::string, 1> names = {};
  };
  mlir::Location location;
  /// The op that communicates, as `text` names it.
  std::string subject;
  std::string text;
  CollectiveCost cost;
  llvm::SmallVector<Note> notes = {};
};

/// Collects the remarks on one function and merges those of many layers.
/// Remarks whose texts and notes differ only in the numbers within names
/// (`h.0.mlp.c_fc` and `h.1.mlp.c_fc`) form a group. Only the first of a group
/// is emitted, with the group's size and the sum of its bytes. Its notes have
/// one entry of a plan for the whole group (`h.*.mlp.c_fc`) if the glob matches
/// no other name of the module.
class CommunicationRemarks {
public:
  /// Drops remarks on transfers of fewer than `leastBytes`; with -1, drops all.
  CommunicationRemarks(int64_t leastBytes, llvm::StringRef cluster)
      : leastBytes(leastBytes), cluster(cluster) {}

  bool dropsAll() const { return leastBytes < 0; }
  bool isWanted(const CollectiveCost &cost) const {
    return !dropsAll() && cost.bytes >= leastBytes;
  }
  void add(CommunicationRemark remark);
  /// Emits one remark for each group, in the order in which the groups began.
  void emit(mlir::ModuleOp module) const;

private:
  int64_t leastBytes;
  std::string cluster;
  llvm::SmallVector<llvm::SmallVector<CommunicationRemark, 1>> groups;
  llvm::StringMap<size_t> groupOf;
};

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_EXPLAIN_COMMUNICATIONREMARKS_H
