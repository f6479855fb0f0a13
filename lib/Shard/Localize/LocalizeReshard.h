//===- LocalizeReshard.h - Reshards as collectives --------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_LOCALIZE_LOCALIZERESHARD_H
#define HEDDLE_LIB_SHARD_LOCALIZE_LOCALIZERESHARD_H

#include "Padding.h"
#include "heddle/Sharding/FactorShardings.h"
#include "heddle/Sharding/ReshardSequence.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {

/// Computes the device's position on the mesh, by ops at the function's start.
/// Each position is computed once.
class DevicePositions {
public:
  DevicePositions(mlir::func::FuncOp function, MeshRef mesh)
      : function(function), mesh(mesh) {}

  /// Returns this device's index among the devices along the axes; 0 if there
  /// are no axes.
  mlir::Value getIndex(llvm::ArrayRef<mlir::StringAttr> axes);
  /// Returns the global index of this device's first row of a dimension of
  /// global size `size`.
  mlir::Value getOffset(llvm::ArrayRef<mlir::StringAttr> axes, int64_t size);

private:
  mlir::Value getScaled(AxisListAttr axes, int64_t scale);

  mlir::func::FuncOp function;
  MeshRef mesh;
  llvm::DenseMap<AxisListAttr, mlir::Value> indices;
  llvm::DenseMap<std::pair<AxisListAttr, int64_t>, mlir::Value> offsets;
};

/// Builds the cheapest steps of a reshard on a local value. `padding` is the
/// padding of `local`, and becomes that of the result.
mlir::FailureOr<mlir::Value>
buildReshard(mlir::OpBuilder &builder, DevicePositions &positions, MeshRef mesh,
             ReshardSequences &sequences, ReshardOp reshard, mlir::Value local,
             PaddingOfDims &padding);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_LOCALIZE_LOCALIZERESHARD_H
