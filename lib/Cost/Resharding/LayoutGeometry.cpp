//===- LayoutGeometry.cpp - Parts of a tensor in a layout -----------------===//

#include "LayoutGeometry.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace heddle;
using llvm::ArrayRef;

AxisMask heddle::getSplittingAxes(const TensorLayout &layout) {
  AxisMask mask = 0;
  for (const std::vector<unsigned> &dim : layout.dims)
    for (unsigned axis : dim)
      mask |= AxisMask(1) << axis;
  return mask;
}

AxisMask heddle::getUsedAxes(const TensorLayout &layout) {
  return getSplittingAxes(layout) | layout.partial;
}

int64_t LayoutGeometry::countParts(ArrayRef<unsigned> axes) const {
  int64_t parts = 1;
  for (unsigned axis : axes)
    parts *= axisSizes[axis];
  return parts;
}

int64_t LayoutGeometry::getPartSize(size_t dim, ArrayRef<unsigned> axes) const {
  return int64_t(llvm::divideCeil(shape[dim], countParts(axes)));
}

int64_t LayoutGeometry::countFilledParts(size_t dim,
                                         ArrayRef<unsigned> axes) const {
  int64_t size = getPartSize(dim, axes);
  return size == 0 ? 0 : int64_t(llvm::divideCeil(shape[dim], size));
}

bool LayoutGeometry::doPartsNest(size_t dim, ArrayRef<unsigned> outer,
                                 ArrayRef<unsigned> inner) const {
  int64_t outerParts = countParts(outer), innerParts = countParts(inner);
  if (outerParts == 1)
    return true;
  int64_t innerSize =
      int64_t(llvm::divideCeil(shape[dim], outerParts * innerParts));
  return getPartSize(dim, outer) == innerParts * innerSize;
}

std::vector<int64_t>
LayoutGeometry::getLocalShape(const TensorLayout &layout) const {
  std::vector<int64_t> local;
  for (auto [dim, axes] : llvm::enumerate(layout.dims))
    local.push_back(getPartSize(dim, axes));
  return local;
}

std::vector<bool>
LayoutGeometry::getPaddedDims(const TensorLayout &layout) const {
  std::vector<bool> padded;
  for (auto [dim, axes] : llvm::enumerate(layout.dims))
    padded.push_back(getPartSize(dim, axes) * countParts(axes) > shape[dim]);
  return padded;
}

int64_t LayoutGeometry::getLocalBytes(const TensorLayout &layout) const {
  int64_t bytes = elementBytes;
  for (int64_t size : getLocalShape(layout))
    bytes *= size;
  return bytes;
}
