//===- LocalizeReshard.cpp - Reshards as collectives ----------------------===//

#include "LocalizeReshard.h"
#include "dialects/Comm/Comm.h"
#include "heddle/Support/Zeros.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

//===----------------------------------------------------------------------===//
// DevicePositions
//===----------------------------------------------------------------------===//

Value DevicePositions::getIndex(ArrayRef<StringAttr> axes) {
  return getScaled(AxisListAttr::get(function.getContext(), axes), 1);
}

Value DevicePositions::getOffset(ArrayRef<StringAttr> axes, int64_t size) {
  return getScaled(AxisListAttr::get(function.getContext(), axes),
                   llvm::divideCeil(size, mesh.getSize(axes)));
}

Value DevicePositions::getScaled(AxisListAttr axes, int64_t scale) {
  auto [known, isNew] = offsets.try_emplace({axes, scale});
  if (!isNew)
    return known->second;
  OpBuilder builder(function.getContext());
  builder.setInsertionPointToStart(&function.getBody().front());
  Location loc = function.getLoc();
  if (mesh.getSize(axes.getAxes()) == 1)
    return offsets[{axes, scale}] =
               builder.create<arith::ConstantIndexOp>(loc, 0);
  Value &index = indices[axes];
  if (!index)
    index = builder.create<comm::AxisIndexOp>(loc, builder.getIndexType(),
                                              mesh.symbol, axes);
  if (scale == 1)
    return offsets[{axes, scale}] = index;
  builder.setInsertionPointAfterValue(index);
  Value factor = builder.create<arith::ConstantIndexOp>(loc, scale);
  return offsets[{axes, scale}] =
             builder.create<arith::MulIOp>(loc, index, factor);
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

namespace {
class StepBuilder {
public:
  StepBuilder(OpBuilder &builder, DevicePositions &positions, MeshRef mesh,
              ReshardOp reshard)
      : builder(builder), positions(positions), mesh(mesh),
        loc(reshard.getLoc()) {}

  Value build(const ReshardStep &step, ReductionKind kind, Value value);

private:
  /// Sets the value to zero on all devices except the first one along the axes.
  /// On the others, the offset of a padding mask lies beyond the end, so that
  /// it masks every row. Zero padding stays zero.
  Value keepFirst(ArrayRef<StringAttr> axes, Value value);

  OpBuilder &builder;
  DevicePositions &positions;
  MeshRef mesh;
  Location loc;
};
} // namespace

Value StepBuilder::keepFirst(ArrayRef<StringAttr> axes, Value value) {
  if (isZeros(value))
    return value;
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getRank() == 0) {
    auto row = RankedTensorType::get({1}, type.getElementType());
    Value expanded = builder.create<tensor::ExpandShapeOp>(
        loc, row, value, ArrayRef<ReassociationIndices>());
    return builder.create<tensor::CollapseShapeOp>(
        loc, type, keepFirst(axes, expanded), ArrayRef<ReassociationIndices>());
  }
  int64_t size = type.getDimSize(0);
  // The offset of a dimension of which each device has `size` rows. The mask
  // ends it after the first device's rows.
  Value offset = positions.getOffset(axes, size * mesh.getSize(axes));
  return builder.create<MaskPaddingOp>(
      loc, type, value, ValueRange{offset}, ArrayRef<int64_t>{0},
      ArrayRef<int64_t>{size}, PaddingValue::Zero);
}

Value StepBuilder::build(const ReshardStep &step, ReductionKind kind,
                         Value value) {
  auto axes = AxisListAttr::get(builder.getContext(), step.axes);
  RankedTensorType type = step.type;
  switch (step.kind) {
  case ReshardingStep::Slice:
    return builder.create<comm::SliceOp>(
        loc, type, value, mesh.symbol.getValue(), axes, step.dim);
  case ReshardingStep::ReduceScatter:
    return builder.create<comm::ReduceScatterOp>(
        loc, type, value, mesh.symbol.getValue(), axes, kind, step.dim);
  case ReshardingStep::AllReduce:
    return builder.create<comm::AllReduceOp>(
        loc, type, value, mesh.symbol.getValue(), axes, kind);
  case ReshardingStep::AllToAll:
    return builder.create<comm::AllToAllOp>(loc, type, value,
                                            mesh.symbol.getValue(), axes,
                                            step.dim, step.concatDim);
  case ReshardingStep::AllGather:
    return builder.create<comm::AllGatherOp>(
        loc, type, value, mesh.symbol.getValue(), axes, step.dim);
  case ReshardingStep::Permute:
    return builder.create<comm::PermuteOp>(
        loc, type, value, mesh.symbol.getValue(), axes, step.sources);
  case ReshardingStep::KeepFirst:
    return keepFirst(step.axes, value);
  }
  return value;
}

FailureOr<Value> heddle::buildReshard(OpBuilder &builder,
                                      DevicePositions &positions, MeshRef mesh,
                                      ReshardSequences &sequences,
                                      ReshardOp reshard, Value local,
                                      PaddingOfDims &padding) {
  auto global = cast<RankedTensorType>(reshard.getType());
  for (ShardingAttr sharding : {reshard.getFrom(), reshard.getTo()})
    for (const Axes &axes : getDimensions(sharding))
      for (StringAttr axis : axes)
        if (!mesh.mesh.getAxisSize(axis))
          return reshard.emitOpError()
                 << "expected an axis of " << mesh.mesh << ", got " << axis;
  StepBuilder stepBuilder(builder, positions, mesh, reshard);
  // Padding that the steps add is zero. Padding that exists moves with the
  // rows.
  padding.resize(global.getRank(), Padding::Zero);
  for (auto [state, size, dim] :
       llvm::zip(padding, global.getShape(), reshard.getFrom().getDims()))
    if (!isPadded(size, dim.getAxes(), mesh.mesh))
      state = Padding::Zero;
  ReductionKind kind = reshard.getFrom().getPartialKind();
  for (const ReshardStep &step :
       sequences.plan(global, reshard.getFrom(), reshard.getTo())) {
    local = stepBuilder.build(step, kind, local);
    kind = step.partialKind;
    for (auto [dim, state] : llvm::enumerate(padding)) {
      if (!step.isPadded[dim])
        state = Padding::Zero;
      else if (step.kind == ReshardingStep::Permute)
        // A device that gets no rows may hold any data: the padding of another
        // dimension, or rows of the tensor.
        state = Padding::Unknown;
    }
  }
  return local;
}
