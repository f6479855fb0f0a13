//===- Windows.h - Rows of neighbours ---------------------------*- C++ -*-===//
//
// Halo exchange. A device whose part of a result reads rows beyond its part of
// an operand (a convolution, a pooling, a pad) fetches them from the devices
// that hold them. The sizes need not divide, and the rows may come from any
// device.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SHARD_RULES_WINDOWS_H
#define HEDDLE_LIB_SHARD_RULES_WINDOWS_H

#include "dialects/Interfaces/Interfaces.h"

namespace heddle {

/// The rows of a dimension that each of n devices reads: device k reads
/// `length` rows from `first` + k * `step` on.
struct Window {
  int64_t first = 0;
  int64_t step = 0;
  int64_t length = 0;
};

/// Returns `local` with the rows of this device's window in dimension `dim`.
/// The dimension, of global size `size`, is split as the factor is. Rows
/// outside of [0, size) are zeros or any finite content of the operand's rows.
/// Each distance between devices takes one comm.permute, of no more rows than
/// some device needs from there. If a window shows fewer parts than there are
/// distances, each part that it shows takes one comm.permute instead.
mlir::Value fetchWindow(mlir::Value local, int64_t dim, int64_t size,
                        const Window &window, Localizer &localizer,
                        unsigned factor);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_RULES_WINDOWS_H
