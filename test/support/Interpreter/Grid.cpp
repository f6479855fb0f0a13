//===- Grid.cpp - Many devices' programs in lockstep ----------------------===//

#include "Grid.h"
#include "Collectives.h"
#include "Evaluation.h"
#include "Execution.h"
#include <cmath>

using namespace mlir;
using namespace heddle;

FailureOr<std::vector<std::vector<Tensor>>>
heddle::interpretGrid(func::FuncOp function, MeshAttr mesh,
                      ArrayRef<std::vector<Tensor>> arguments,
                      MutableArrayRef<Variables> variables,
                      const InterpreterOptions &options) {
  int64_t devices = mesh.getNumDevices();
  if ((int64_t)arguments.size() != devices ||
      (int64_t)variables.size() != devices)
    return function.emitError()
           << "expected arguments and variables of " << devices << " devices";
  return Execution(mesh, variables, options).run(function, arguments);
}

/// Calls body(global index, local index) for each element of a device's part.
/// For an element of the padding, the global index lies beyond the end.
template <typename Body>
static void forEachInPart(ArrayRef<int64_t> shape, ShardingAttr sharding,
                          MeshAttr mesh, int64_t device, Body body) {
  SmallVector<int64_t> local, begin;
  for (auto [size, dim] : llvm::zip(shape, sharding.getDims())) {
    local.push_back(llvm::divideCeil(size, mesh.getSize(dim.getAxes())));
    begin.push_back(local.back() * getMemberIndex(mesh, device, dim.getAxes()));
  }
  forEachIndex(local, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> global(index);
    for (auto [g, b] : llvm::zip(global, begin))
      g += b;
    body(ArrayRef<int64_t>(global), index);
  });
}

static bool isWithin(ArrayRef<int64_t> index, ArrayRef<int64_t> shape) {
  for (auto [i, size] : llvm::zip(index, shape))
    if (i >= size)
      return false;
  return true;
}

std::vector<Tensor> heddle::shardTensor(const Tensor &tensor,
                                        ShardingAttr sharding, MeshAttr mesh,
                                        double padding) {
  std::vector<Tensor> parts;
  for (int64_t device = 0; device < mesh.getNumDevices(); ++device) {
    // If the sharding is partial, the first device of each group holds the
    // values and the others hold zeros.
    bool isEmpty = getMemberIndex(mesh, device, sharding.getPartialAxes()) != 0;
    SmallVector<int64_t> local;
    for (auto [size, dim] : llvm::zip(tensor.shape, sharding.getDims()))
      local.push_back(llvm::divideCeil(size, mesh.getSize(dim.getAxes())));
    Tensor part(local, padding);
    forEachInPart(tensor.shape, sharding, mesh, device,
                  [&](ArrayRef<int64_t> global, ArrayRef<int64_t> index) {
                    if (isWithin(global, tensor.shape))
                      part.at(index) = isEmpty ? 0 : tensor.at(global);
                  });
    parts.push_back(std::move(part));
  }
  return parts;
}

llvm::Expected<Tensor> heddle::unshardTensor(ArrayRef<Tensor> parts,
                                             ShardingAttr sharding,
                                             MeshAttr mesh,
                                             ArrayRef<int64_t> shape,
                                             double tolerance) {
  if (sharding.getPartialKind() != ReductionKind::Sum)
    return llvm::createStringError("expected a sharding that is no partial "
                                   "maximum");
  Tensor sum(shape, 0);
  double largest = 0, difference = 0;
  bool differs = false;
  int64_t summands = mesh.getSize(sharding.getPartialAxes());
  for (int64_t summand = 0; summand < summands; ++summand) {
    Tensor whole(shape, NAN);
    for (auto [device, part] : llvm::enumerate(parts)) {
      if (getMemberIndex(mesh, device, sharding.getPartialAxes()) != summand)
        continue;
      forEachInPart(
          shape, sharding, mesh, device,
          [&, &part = part](ArrayRef<int64_t> global, ArrayRef<int64_t> index) {
            if (!isWithin(global, shape))
              return;
            double &value = whole.at(global);
            double mine = part.at(index);
            if (std::isnan(value))
              value = mine;
            largest = std::max(largest, std::abs(value));
            differs |= std::isnan(mine);
            difference = std::max(difference, std::abs(value - mine));
          });
    }
    for (auto [total, value] : llvm::zip(sum.values, whole.values))
      total += value;
  }
  if (differs || difference > tolerance * largest)
    return llvm::createStringError("devices that should hold the same differ");
  return sum;
}
