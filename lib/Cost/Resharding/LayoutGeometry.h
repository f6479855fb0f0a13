//===- LayoutGeometry.h - Parts of a tensor in a layout ---------*- C++ -*-===//

#ifndef HEDDLE_LIB_COST_RESHARDING_LAYOUTGEOMETRY_H
#define HEDDLE_LIB_COST_RESHARDING_LAYOUTGEOMETRY_H

#include "heddle/Cost/Resharding.h"

namespace heddle {

/// The axes that split a dimension, and with them those of a partial sum.
AxisMask getSplittingAxes(const TensorLayout &layout);
AxisMask getUsedAxes(const TensorLayout &layout);

/// The sizes of one tensor's parts on one mesh, for every layout.
class LayoutGeometry {
public:
  LayoutGeometry(llvm::ArrayRef<int64_t> axisSizes,
                 llvm::ArrayRef<int64_t> shape, int64_t elementBytes)
      : axisSizes(axisSizes.vec()), shape(shape.vec()),
        elementBytes(elementBytes) {}

  size_t getRank() const { return shape.size(); }

  /// The number of parts that the axes make of a dimension.
  int64_t countParts(llvm::ArrayRef<unsigned> axes) const;
  /// The rows of a part, padding included.
  int64_t getPartSize(size_t dim, llvm::ArrayRef<unsigned> axes) const;
  /// The number of parts that are not padding only.
  int64_t countFilledParts(size_t dim, llvm::ArrayRef<unsigned> axes) const;
  /// Whether each part over `outer` is cut into its parts over `outer` and
  /// `inner` by a local slice. 10 rows over 2 x 2 devices are 5 and 5 over the
  /// first axis, but 3, 3, 3 and 1 over both: row 5 is in another half then, so
  /// that these parts do not nest. The whole dimension (no `outer`) can always
  /// be cut.
  bool doPartsNest(size_t dim, llvm::ArrayRef<unsigned> outer,
                   llvm::ArrayRef<unsigned> inner) const;
  std::vector<int64_t> getLocalShape(const TensorLayout &layout) const;
  /// For each dimension, whether some device holds rows beyond the end.
  std::vector<bool> getPaddedDims(const TensorLayout &layout) const;
  /// The bytes that a device holds.
  int64_t getLocalBytes(const TensorLayout &layout) const;

private:
  std::vector<int64_t> axisSizes, shape;
  int64_t elementBytes;
};

} // namespace heddle

#endif // HEDDLE_LIB_COST_RESHARDING_LAYOUTGEOMETRY_H
