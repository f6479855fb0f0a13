//===- Collectives.cpp - One collective on all devices --------------------===//

#include "Collectives.h"
#include "Evaluation.h"
#include "dialects/Comm/Comm.h"

using namespace mlir;
using namespace heddle;

/// The device's coordinate along each axis; the last axis is the fastest.
static SmallVector<int64_t> coordinatesOf(MeshAttr mesh, int64_t device) {
  SmallVector<int64_t> coordinates(mesh.getAxes().size());
  for (size_t i = mesh.getAxes().size(); i-- > 0;) {
    coordinates[i] = device % mesh.getAxes()[i].getSize();
    device /= mesh.getAxes()[i].getSize();
  }
  return coordinates;
}

static size_t positionOf(MeshAttr mesh, StringAttr axis) {
  for (auto [i, known] : llvm::enumerate(mesh.getAxes()))
    if (known.getName() == axis)
      return i;
  return 0; // the verifier has checked the axes
}

int64_t heddle::getMemberIndex(MeshAttr mesh, int64_t device,
                               ArrayRef<StringAttr> axes) {
  SmallVector<int64_t> coordinates = coordinatesOf(mesh, device);
  int64_t index = 0;
  for (StringAttr axis : axes)
    index =
        index * mesh.getAxisSize(axis) + coordinates[positionOf(mesh, axis)];
  return index;
}

SmallVector<int64_t> heddle::getMembers(MeshAttr mesh, int64_t device,
                                        ArrayRef<StringAttr> axes) {
  SmallVector<int64_t> members(mesh.getSize(axes), -1);
  SmallVector<int64_t> mine = coordinatesOf(mesh, device);
  for (int64_t other = 0; other < mesh.getNumDevices(); ++other) {
    SmallVector<int64_t> theirs = coordinatesOf(mesh, other);
    bool same = true;
    for (auto [i, axis] : llvm::enumerate(mesh.getAxes()))
      same &= mine[i] == theirs[i] || llvm::is_contained(axes, axis.getName());
    if (same)
      members[getMemberIndex(mesh, other, axes)] = other;
  }
  return members;
}

static SmallVector<int64_t> shapeOf(Value value) {
  return SmallVector<int64_t>(
      cast<RankedTensorType>(value.getType()).getShape());
}

/// Returns the elements [begin, begin + size) along a dimension, with zeros
/// beyond the tensor's end.
static Tensor slice(const Tensor &x, int64_t dim, int64_t begin, int64_t size) {
  SmallVector<int64_t> shape = x.shape;
  shape[dim] = size;
  Tensor result(shape);
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> from(index);
    from[dim] += begin;
    if (from[dim] < x.shape[dim])
      result.at(index) = x.at(from);
  });
  return result;
}

/// Copies `part` into `whole` at the position `begin` of the dimension. Drops
/// elements that lie beyond the end of `whole`.
static void place(Tensor &whole, const Tensor &part, int64_t dim,
                  int64_t begin) {
  forEachIndex(part.shape, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> to(index);
    to[dim] += begin;
    if (to[dim] < whole.shape[dim])
      whole.at(to) = part.at(index);
  });
}

FailureOr<Tensor> heddle::evaluateCollective(
    Operation *op, MeshAttr mesh, int64_t device,
    llvm::function_ref<const Tensor &(int64_t)> operandOf) {
  auto reduce = [&](AxisListAttr axes, ReductionKind kind) {
    SmallVector<int64_t> members = getMembers(mesh, device, axes.getAxes());
    Tensor sum = operandOf(members.front());
    for (int64_t member : llvm::drop_begin(members))
      for (auto [a, b] : llvm::zip(sum.values, operandOf(member).values))
        a = kind == ReductionKind::Sum ? a + b : std::max(a, b);
    return sum;
  };
  auto part = [&](const Tensor &whole, AxisListAttr axes, int64_t dim,
                  Value result) {
    int64_t size = shapeOf(result)[dim];
    return slice(whole, dim,
                 size * getMemberIndex(mesh, device, axes.getAxes()), size);
  };
  return llvm::TypeSwitch<Operation *, FailureOr<Tensor>>(op)
      .Case([&](comm::AxisIndexOp op) {
        return Tensor({}, std::vector<double>{double(getMemberIndex(
                              mesh, device, op.getAxes().getAxes()))});
      })
      .Case([&](comm::AllReduceOp op) {
        return reduce(op.getAxes(), op.getKind());
      })
      .Case([&](comm::ReduceScatterOp op) {
        return part(reduce(op.getAxes(), op.getKind()), op.getAxes(),
                    op.getDim(), op.getResult());
      })
      .Case([&](comm::SliceOp op) {
        return part(operandOf(device), op.getAxes(), op.getDim(),
                    op.getResult());
      })
      .Case([&](comm::AllGatherOp op) {
        Tensor whole(shapeOf(op.getResult()));
        int64_t size = shapeOf(op.getInput())[op.getDim()];
        for (auto [i, member] :
             llvm::enumerate(getMembers(mesh, device, op.getAxes().getAxes())))
          place(whole, operandOf(member), op.getDim(), size * i);
        return whole;
      })
      .Case([&](comm::AllToAllOp op) {
        Tensor result(shapeOf(op.getResult()));
        int64_t size = shapeOf(op.getInput())[op.getConcatDim()];
        for (auto [i, member] :
             llvm::enumerate(getMembers(mesh, device, op.getAxes().getAxes())))
          place(result,
                part(operandOf(member), op.getAxes(), op.getSplitDim(),
                     op.getResult()),
                op.getConcatDim(), size * i);
        return result;
      })
      .Case([&](comm::BroadcastOp op) {
        return operandOf(
            getMembers(mesh, device, op.getAxes().getAxes())[op.getRoot()]);
      })
      .Case([&](comm::PermuteOp op) {
        SmallVector<int64_t> members =
            getMembers(mesh, device, op.getAxes().getAxes());
        int64_t source = op.getSources()[getMemberIndex(
            mesh, device, op.getAxes().getAxes())];
        return source < 0 ? Tensor(shapeOf(op.getResult()))
                          : operandOf(members[source]);
      })
      .Default([](Operation *) { return failure(); });
}
