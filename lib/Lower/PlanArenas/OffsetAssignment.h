//===- OffsetAssignment.h - Places of buffers in an arena -------*- C++ -*-===//
//
// The arena problem. Each buffer has a size and a closed interval of positions
// at which it is live. Two buffers that are live at one position must not
// overlap in the arena, and the arena shall be small. (Dynamic storage
// allocation, NP-hard; known as offset assignment of tensor memory.)
//
// Knows no IR.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_LOWER_PLANARENAS_OFFSETASSIGNMENT_H
#define HEDDLE_LIB_LOWER_PLANARENAS_OFFSETASSIGNMENT_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>

namespace heddle {

struct LiveBuffer {
  int64_t bytes;
  int64_t first, last; ///< live at first, last and all positions between
};

struct OffsetAssignment {
  llvm::SmallVector<int64_t> offsets; ///< in bytes, one a buffer
  int64_t peak = 0;                   ///< bytes of the arena
};

/// A lower bound of the arena: the most bytes live at one position, with sizes
/// rounded up to `alignment`.
int64_t getMaxLiveBytes(llvm::ArrayRef<LiveBuffer> buffers, int64_t alignment);

/// Places the buffers one after the other, each into the smallest gap that is
/// free throughout its life, else on top. Tries several orders (by size, by
/// size times life, by life, by start) and returns the best; stops early at the
/// lower bound. Offsets are multiples of `alignment`.
OffsetAssignment assignOffsets(llvm::ArrayRef<LiveBuffer> buffers,
                               int64_t alignment);

} // namespace heddle

#endif // HEDDLE_LIB_LOWER_PLANARENAS_OFFSETASSIGNMENT_H
