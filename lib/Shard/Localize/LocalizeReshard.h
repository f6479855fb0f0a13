//===- LocalizeReshard.h - Reshards as collectives --------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_LOCALIZE_LOCALIZERESHARD_H
#define HEDDLE_LIB_SHARD_LOCALIZE_LOCALIZERESHARD_H

#include "Padding.h"
#include "heddle/Sharding/FactorShardings.h"
#include "heddle/Sharding/ReshardSequence.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {

/// The device's position on the mesh, as index computations at the function's
/// start. Each is made once.
class DevicePositions {
public:
  DevicePositions(mlir::func::FuncOp function, MeshRef mesh)
      : function(function), mesh(mesh) {}

  /// This device's index among those over the axes; 0 for none.
  mlir::Value getIndex(llvm::ArrayRef<mlir::StringAttr> axes);
  /// The global index of this device's first element along a dimension of the
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
/// value's padding, and becomes the result's.
mlir::FailureOr<mlir::Value>
buildReshard(mlir::OpBuilder &builder, DevicePositions &positions, MeshRef mesh,
             ReshardSequences &sequences, ReshardOp reshard, mlir::Value local,
             PaddingOfDims &padding);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_LOCALIZE_LOCALIZERESHARD_H
