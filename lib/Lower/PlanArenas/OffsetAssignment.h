//===- OffsetAssignment.h - Places of buffers in an arena -------*- C++ -*-===//
//
// Assigns places in an arena. Each buffer has a size and a closed interval of
// positions at which it is live. Two buffers that are live at one position must
// not overlap, and the arena should be small. (This is dynamic storage
// allocation, NP-hard; also known as offset assignment of tensor memory.) Works
// on numbers, not on IR.
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

/// Returns a lower bound of the arena: the most bytes live at one position,
/// with sizes rounded up to `alignment`.
int64_t getMaxLiveBytes(llvm::ArrayRef<LiveBuffer> buffers, int64_t alignment);

/// Places the buffers one by one, each into the smallest gap that is free
/// throughout its life, or else on top. Tries several orders (by size, by size
/// times life, by life, by start) and returns the smallest arena. Stops early
/// at the lower bound. Offsets are multiples of `alignment`.
OffsetAssignment assignOffsets(llvm::ArrayRef<LiveBuffer> buffers,
                               int64_t alignment);

} // namespace heddle

#endif // HEDDLE_LIB_LOWER_PLANARENAS_OFFSETASSIGNMENT_H
