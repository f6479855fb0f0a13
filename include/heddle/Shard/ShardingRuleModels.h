//===- ShardingRuleModels.h - Sharding rules of upstream ops ----*- C++ -*-===//

#ifndef HEDDLE_SHARD_SHARDINGRULEMODELS_H
#define HEDDLE_SHARD_SHARDINGRULEMODELS_H

#include "mlir/IR/DialectRegistry.h"

namespace heddle {

/// Attaches ShardingRuleOpInterface to ops of arith and math (elementwise),
/// tensor and linalg.
void registerShardingRuleModels(mlir::DialectRegistry &registry);

// Parts of registerShardingRuleModels, one for each group of dialects.
void registerArithShardingRuleModels(mlir::DialectRegistry &registry);
void registerSliceShardingRuleModels(mlir::DialectRegistry &registry);
void registerTensorShardingRuleModels(mlir::DialectRegistry &registry);
void registerLinalgShardingRuleModels(mlir::DialectRegistry &registry);

} // namespace heddle

#endif // HEDDLE_SHARD_SHARDINGRULEMODELS_H
