//===- Layout.h - Blocks of a global tensor on devices ----------*- C++ -*-===//
//
// A layout cuts a global tensor into blocks. Example: a tensor [8, 6] over dp =
// 2 on dimension 0 and tp = 4 on dimension 1 has blocks of [4, 2], because
// ceil(6 / 4) = 2. Block (i, j) holds the rows from 4i and the columns from 2j
// on. Block (i, 3) lies outside of the tensor, so it is padding. Devices that
// differ only in other axes hold replicas of a block.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_SESSION_LAYOUT_H
#define HEDDLE_RT_SESSION_LAYOUT_H

#include "heddle_rt/manifest.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace heddle::runtime {

class Layout {
public:
  /// `ranks` are those that have the tensor.
  Layout(const TensorInfo &info, const std::vector<MeshAxis> &mesh,
         const RankSet &ranks = {});

  int64_t globalElements() const { return elements; }
  int64_t localElements() const { return localSize; }
  size_t elementBytes() const { return bytes; }
  size_t localBytes() const { return size_t(localSize) * bytes; }

  /// Return the block that a device would hold, and the devices that hold a
  /// block: those with the same coordinates that have the tensor.
  int64_t blockOf(int64_t device) const { return blocks[size_t(device)]; }
  const std::vector<int32_t> &holders(int64_t block) const {
    return holdersOf[size_t(block)];
  }
  int64_t numBlocks() const { return int64_t(holdersOf.size()); }
  /// Returns the shape in which every block is stored, padding included.
  const std::vector<int64_t> &localShape() const { return storedShape; }
  /// Return the first element of a block, by dimension, and the shape of the
  /// block without padding.
  std::vector<int64_t> startOf(int64_t block) const;
  std::vector<int64_t> shapeOf(int64_t block) const;

  /// Cuts the global elements [first, first + count), in row-major order, into
  /// runs that are contiguous in one block too. Calls body(block, offset in the
  /// block, offset in the tensor, length) for each run.
  template <typename Body>
  void forEachRun(int64_t first, int64_t count, Body &&body) const {
    for (int64_t position = first, end = first + count; position < end;) {
      int64_t line = position / inner, within = position % inner;
      int64_t index = line % split, outer = line / split;
      int64_t part = index / localSplit;
      int64_t runEnd =
          (outer * split + std::min(split, (part + 1) * localSplit)) * inner;
      int64_t length = std::min(end, runEnd) - position;
      int64_t block = part * lastBlockStride;
      int64_t offset = (index - part * localSplit) * inner + within;
      for (size_t i = outerDimensions.size(); i-- > 0;) {
        const Dimension &dimension = outerDimensions[i];
        int64_t coordinate = outer % dimension.size;
        outer /= dimension.size;
        block += coordinate / dimension.local * dimension.blockStride;
        offset += coordinate % dimension.local * dimension.localStride;
      }
      body(block, offset, position, length);
      position += length;
    }
  }

private:
  struct Dimension {
    int64_t size, local, blockStride, localStride;
  };
  int64_t elements = 1, localSize = 1;
  size_t bytes;
  // Size of the last dimension that is cut, in the tensor (`split`) and in a
  // block (`localSplit`). One of its rows has `inner` elements.
  int64_t split = 1, localSplit = 1, lastBlockStride = 0, inner = 1;
  std::vector<Dimension> outerDimensions;
  std::vector<int64_t> globalShape, storedShape, blockStrides;
  std::vector<int64_t> blocks;
  std::vector<std::vector<int32_t>> holdersOf;
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_SESSION_LAYOUT_H
