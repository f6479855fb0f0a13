//===- CommunicationRemarks.h - Remarks that are alike, once ----*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_EXPLAIN_COMMUNICATIONREMARKS_H
#define HEDDLE_LIB_SHARD_EXPLAIN_COMMUNICATIONREMARKS_H

#include "heddle/Cost/CollectiveCost.h"
#include "heddle/Sharding/FactorShardings.h"

namespace heddle {

/// `{"dp", "tp"}`
std::string describeAxes(llvm::ArrayRef<mlir::StringAttr> axes);
/// `[{"dp"}, {}], partial sum {"tp"}`
std::string describeSharding(ShardingAttr sharding);
/// `2048 bytes in 0.01 ms`
std::string describeCost(const CollectiveCost &cost);
/// What a plan calls the op, or what it is: `'h.0.mlp.c_fc'
/// (heddle.contract)`, `variable 'wte.weight'`, `'math.exp'`.
std::string describeOperator(mlir::Operation *op);

/// What is sent, and what would avoid it.
struct CommunicationRemark {
  struct Note {
    mlir::Location location;
    std::string text;
    /// The operators or variables that the text gives a plan's entries of.
    llvm::SmallVector<std::string, 1> names = {};
  };
  mlir::Location location;
  /// The op that communicates, as the text names it.
  std::string subject;
  std::string text;
  CollectiveCost cost;
  llvm::SmallVector<Note> notes = {};
};

/// Remarks on one function. What is alike in many layers is said once: of the
/// remarks whose texts and notes differ in the numbers within names alone
/// (`h.0.mlp.c_fc` and `h.1.mlp.c_fc`) the first is emitted, with their number
/// and the sum of what they send. Its notes give a plan's entries for all of
/// them (`h.*.mlp.c_fc`) where such a glob matches no other name of the module.
class CommunicationRemarks {
public:
  /// Remarks on what sends less than `leastBytes` are dropped; -1: all are.
  CommunicationRemarks(int64_t leastBytes, llvm::StringRef cluster)
      : leastBytes(leastBytes), cluster(cluster) {}

  bool isWanted(const CollectiveCost &cost) const {
    return leastBytes >= 0 && cost.bytes >= leastBytes;
  }
  void add(CommunicationRemark remark);
  /// Emits what was added, in the order of each one's first.
  void emit(mlir::ModuleOp module) const;

private:
  int64_t leastBytes;
  std::string cluster;
  llvm::SmallVector<llvm::SmallVector<CommunicationRemark, 1>> groups;
  llvm::StringMap<size_t> groupOf;
};

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_EXPLAIN_COMMUNICATIONREMARKS_H
