//===- LayoutGeometry.h - Parts of a tensor in a layout ---------*- C++ -*-===//

#ifndef HEDDLE_LIB_COST_RESHARDING_LAYOUTGEOMETRY_H
#define HEDDLE_LIB_COST_RESHARDING_LAYOUTGEOMETRY_H

#include "heddle/Cost/Resharding.h"

namespace heddle {

/// getSplittingAxes returns the axes that split a dimension. getUsedAxes
/// returns these and the axes over which the value is partial.
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

  /// Returns the number of parts into which the axes split a dimension.
  int64_t countParts(llvm::ArrayRef<unsigned> axes) const;
  /// Returns the rows of a part, padding included.
  int64_t getPartSize(size_t dim, llvm::ArrayRef<unsigned> axes) const;
  /// Returns the number of parts that are not padding only.
  int64_t countFilledParts(size_t dim, llvm::ArrayRef<unsigned> axes) const;
  /// Returns whether each part over `outer` and `inner` lies within one part
  /// over `outer`, so that a local slice can cut it out. Counterexample: 10
  /// rows over 2 x 2 devices have parts of 5 and 5 rows over the first axis,
  /// but of 3, 3, 3 and 1 over both. The second of these holds rows 3 to 5, and
  /// the first half ends with row 4. The whole dimension (no `outer`) can
  /// always be cut.
  bool doPartsNest(size_t dim, llvm::ArrayRef<unsigned> outer,
                   llvm::ArrayRef<unsigned> inner) const;
  std::vector<int64_t> getLocalShape(const TensorLayout &layout) const;
  /// Returns for each dimension whether some device holds padding.
  std::vector<bool> getPaddedDims(const TensorLayout &layout) const;
  /// Returns the bytes of a device's part, padding included.
  int64_t getLocalBytes(const TensorLayout &layout) const;

private:
  std::vector<int64_t> axisSizes, shape;
  int64_t elementBytes;
};

} // namespace heddle

#endif // HEDDLE_LIB_COST_RESHARDING_LAYOUTGEOMETRY_H
