//===- Windows.h - Rows of neighbours ---------------------------*- C++ -*-===//
//
// Halo exchange. If a device's part of a result needs rows outside of its part
// of an operand (a convolution, a pooling, a pad), the device fetches them from
// the devices that hold them. Sizes need not divide, and the rows may come from
// any device.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SHARD_RULES_WINDOWS_H
#define HEDDLE_LIB_SHARD_RULES_WINDOWS_H

#include "dialects/Interfaces/Interfaces.h"

namespace heddle {

/// The rows of a dimension that each device reads: device k reads `length` rows
/// from row `first` + k * `step` on.
struct Window {
  int64_t first = 0;
  int64_t step = 0;
  int64_t length = 0;
};

/// Returns the rows of this device's window in dimension `dim` of the tensor
/// whose local part is `local`. `factor` splits the dimension, whose global
/// size is `size`. Rows outside of [0, size) are zeros or finite numbers of the
/// operand. Each distance between devices takes one comm.permute, with no more
/// rows than some device needs from there. If each window touches fewer parts
/// than there are distances, each touched part takes one comm.permute instead.
mlir::Value fetchWindow(mlir::Value local, int64_t dim, int64_t size,
                        const Window &window, Localizer &localizer,
                        unsigned factor);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_RULES_WINDOWS_H
