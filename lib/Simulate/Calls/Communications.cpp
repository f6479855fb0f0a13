//===- Communications.cpp - Collectives and transfers of programs ---------===//

#include "heddle/Simulate/Communications.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle;

/// Returns the index of a mesh's axis, which it has: the verifiers of rt ops
/// have checked that.
static unsigned getAxis(MeshAttr mesh, StringAttr name) {
  for (auto [i, axis] : llvm::enumerate(mesh.getAxes()))
    if (axis.getName() == name)
      return i;
  llvm_unreachable("an axis of the mesh");
}

Communication heddle::getCommunication(rt::DeviceCallOpInterface call,
                                       const MeshTopology &topology,
                                       MeshAttr mesh) {
  using Kind = CommunicationKind;
  Communication result{Kind::Transfer, {}, 0, {}};
  auto fill = [&](auto op, Kind kind, rt::BufferAttr buffer) {
    result.kind = kind;
    for (StringAttr axis : op.getAxes().getAxes())
      result.axes.push_back(getAxis(mesh, axis));
    result.bytes = buffer.getBytes();
  };
  llvm::TypeSwitch<Operation *>(call)
      .Case([&](rt::AllReduceOp op) { fill(op, Kind::AllReduce, op.getIn()); })
      .Case([&](rt::AllGatherOp op) { fill(op, Kind::AllGather, op.getIn()); })
      .Case([&](rt::ReduceScatterOp op) {
        fill(op, Kind::ReduceScatter, op.getOut());
      })
      .Case([&](rt::AllToAllOp op) {
        fill(op, Kind::AllToAll, op.getIn());
        int64_t members = 1;
        for (unsigned axis : result.axes)
          members *= topology.getAxisSizes()[axis];
        // The operand or the result has the padding of a size that the members
        // do not divide.
        result.bytes = llvm::divideCeil(
            std::max(result.bytes, op.getOut().getBytes()), members);
      })
      .Case([&](rt::BroadcastOp op) { fill(op, Kind::Broadcast, op.getIn()); })
      .Case([&](rt::PermuteOp op) {
        fill(op, Kind::Permute, op.getIn());
        llvm::append_range(result.sources, op.getSources());
      })
      .Case<rt::SendOp, rt::RecvOp>(
          [&](auto op) { fill(op, Kind::Transfer, op.getBuffer()); });
  return result;
}

/// Returns the value of index arithmetic on `device`, or nullopt.
static std::optional<int64_t> evaluate(Value value,
                                       const MeshTopology &topology,
                                       MeshAttr mesh, int64_t device) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return std::nullopt;
  if (auto coordinate = dyn_cast<rt::CoordinateOp>(op))
    return topology.getCoordinate(device,
                                  getAxis(mesh, coordinate.getAxisAttr()));
  SmallVector<Attribute> operands;
  for (Value operand : op->getOperands()) {
    std::optional<int64_t> known = evaluate(operand, topology, mesh, device);
    if (!known)
      return std::nullopt;
    operands.push_back(IntegerAttr::get(operand.getType(), *known));
  }
  SmallVector<OpFoldResult> results;
  if (failed(op->fold(operands, results)) || results.size() != 1)
    return std::nullopt;
  auto attribute = dyn_cast<Attribute>(results.front());
  // An op that is the identity, such as x + 0, folds to its operand.
  if (!attribute)
    return evaluate(cast<Value>(results.front()), topology, mesh, device);
  auto number = dyn_cast<IntegerAttr>(attribute);
  return number ? std::optional(number.getInt()) : std::nullopt;
}

std::optional<int64_t> heddle::getPeer(rt::DeviceCallOpInterface transfer,
                                       const Communication &communication,
                                       const MeshTopology &topology,
                                       MeshAttr mesh, int64_t device) {
  Operation *op = transfer;
  Value operand = isa<rt::SendOp>(op) ? cast<rt::SendOp>(op).getPeer()
                                      : cast<rt::RecvOp>(op).getPeer();
  std::optional<int64_t> member = evaluate(operand, topology, mesh, device);
  if (!member)
    return std::nullopt;
  // Members are numbered by their coordinates, the last axis fastest.
  int64_t peer = device, rest = *member, stride = 1;
  SmallVector<int64_t> strides(topology.getAxisSizes().size());
  for (size_t axis = strides.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= topology.getAxisSizes()[axis];
  }
  for (unsigned axis : llvm::reverse(communication.axes)) {
    int64_t size = topology.getAxisSizes()[axis];
    peer +=
        (rest % size - topology.getCoordinate(device, axis)) * strides[axis];
    rest /= size;
  }
  return peer;
}
