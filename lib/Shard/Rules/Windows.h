//===- Windows.h - Rows of neighbours ---------------------------*- C++ -*-===//
//
// An op whose part of the result reads rows beyond its part of an operand (a
// convolution, a pooling, a pad) fetches them from the devices that hold them:
// halo exchange. Nothing here assumes that the sizes divide, or that the rows
// are those of the next device only.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SHARD_RULES_WINDOWS_H
#define HEDDLE_LIB_SHARD_RULES_WINDOWS_H

#include "dialects/Interfaces/Interfaces.h"

namespace heddle {

/// The rows of a dimension that each of n devices reads: device k those from
/// `first` + k * `step` on, `length` of them.
struct Window {
  int64_t first = 0;
  int64_t step = 0;
  int64_t length = 0;
};

/// `local` with `window.length` rows in dimension `dim`: those of the window of
/// this device. The dimension, of global size `size`, is split as the factor
/// is. Rows outside of [0, size) hold anything finite that the operand holds,
/// or zeros. Each hop to a device at one distance is one comm.permute, of no
/// more rows than some device needs from there; where that would be more hops
/// than parts that a window shows, each of these is one.
mlir::Value fetchWindow(mlir::Value local, int64_t dim, int64_t size,
                        const Window &window, Localizer &localizer,
                        unsigned factor);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_RULES_WINDOWS_H
