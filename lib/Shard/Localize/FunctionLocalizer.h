//===- FunctionLocalizer.h - Localizes one function -------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_LOCALIZE_FUNCTIONLOCALIZER_H
#define HEDDLE_LIB_SHARD_LOCALIZE_FUNCTIONLOCALIZER_H

#include "../Explain/CommunicationRemarks.h"
#include "LocalizeReshard.h"
#include "Padding.h"
#include "dialects/Heddle/Heddle.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {

/// Localizes one function. Creates local ops beside the global ones and erases
/// the global ones at the end.
class FunctionLocalizer {
public:
  /// An op that exchanges `leastBytes` or more with other devices while it
  /// computes gets a remark; with -1, no op does.
  FunctionLocalizer(mlir::func::FuncOp function, MeshRef mesh,
                    ReshardSequences &sequences, int64_t leastBytes)
      : function(function), positions(function, mesh), mesh(mesh),
        sequences(sequences), builder(function.getContext()),
        remarks(leastBytes, sequences.getTopology().getCluster().name) {}

  mlir::LogicalResult run();

private:
  friend class OpLocalizer;
  mlir::LogicalResult addArguments();
  mlir::LogicalResult localize(mlir::Operation *op);
  void localizeLoad(LoadOp load);
  mlir::LogicalResult localizeStore(StoreOp store);
  mlir::LogicalResult localizeReshard(ReshardOp reshard);
  ShardingAttr withPassedSums(mlir::Operation *op, const ShardingRule &rule,
                              ShardingAttr own);
  mlir::LogicalResult localizeByRule(mlir::Operation *op);
  mlir::LogicalResult
  localizeCaptured(mlir::Operation *op,
                   llvm::iterator_range<mlir::Block::iterator> made);
  mlir::LogicalResult localizeReturn(mlir::func::ReturnOp op);
  mlir::LogicalResult localizeCall(mlir::func::CallOp call);
  mlir::LogicalResult localizeControlFlow(mlir::Operation *op);
  mlir::LogicalResult
  localizeRegion(mlir::Region &region, mlir::Region &local,
                 const llvm::DenseMap<mlir::Value, ShardingAttr> &carried);
  void finish();

  void set(mlir::Value global, mlir::Value local, ShardingAttr sharding,
           PaddingOfDims padding) {
    locals[global] = local;
    shardings[global] = sharding;
    paddings[global] = std::move(padding);
  }
  mlir::Value mask(mlir::Value local, ShardingAttr sharding,
                   mlir::RankedTensorType global, llvm::ArrayRef<int64_t> dims,
                   PaddingValue value);
  /// Checks that the value is split as `op` needs it. The types alone do not
  /// tell: two shardings may give local types of equal sizes. Only an op that
  /// passes partial sums on (`mayBePartial`) may get a partial sum.
  mlir::LogicalResult expectDims(mlir::Operation *op, mlir::Value value,
                                 ShardingAttr needed,
                                 bool mayBePartial = false);
  /// As expectDims, for an operand that control flow passes on.
  mlir::LogicalResult expectCarried(mlir::OpOperand &operand) {
    auto known = carriedBy.find(&operand);
    return known == carriedBy.end()
               ? mlir::success()
               : expectDims(operand.getOwner(), operand.get(), known->second);
  }
  PaddingOfDims unknown(mlir::RankedTensorType type,
                        ShardingAttr sharding) const;
  ShardingAttr storageOf(mlir::FlatSymbolRefAttr variable);

  mlir::func::FuncOp function;
  DevicePositions positions;
  MeshRef mesh;
  ReshardSequences &sequences;
  mlir::SymbolTableCollection tables;
  mlir::OpBuilder builder;
  CommunicationRemarks remarks;
  llvm::SmallVector<mlir::Operation *> originals;
  llvm::DenseMap<mlir::Value, mlir::Value> locals;
  llvm::DenseMap<mlir::Value, ShardingAttr> shardings;
  llvm::DenseMap<mlir::Value, PaddingOfDims> paddings;
  /// The shardings in which control flow needs the operands that it passes on.
  llvm::DenseMap<mlir::OpOperand *, ShardingAttr> carriedBy;
};

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_LOCALIZE_FUNCTIONLOCALIZER_H
