//===- Transfer.cpp - Between the host's tensors and the devices' blocks --===//

#include "session/SessionState.h"

namespace heddle::runtime {

Status SessionState::scatter(const PlacedTensor &tensor, int64_t first,
                             int64_t count, ConstBytes from) {
  const Layout &layout = tensor.layout;
  int64_t bytes = int64_t(layout.elementBytes());
  Status status;
  layout.forEachRun(
      first, count,
      [&](int64_t block, int64_t offset, int64_t global, int64_t length) {
        for (int32_t device : layout.holders(block))
          if (status.ok())
            status = devices[size_t(device)].device->copyToDevice(
                tensor.buffers[size_t(device)] + offset * bytes,
                from.data() + (global - first) * bytes, size_t(length * bytes));
      });
  return status;
}

Status SessionState::gather(const PlacedTensor &tensor, int64_t first,
                            int64_t count, Bytes to) const {
  const Layout &layout = tensor.layout;
  int64_t bytes = int64_t(layout.elementBytes());
  Status status;
  layout.forEachRun(
      first, count,
      [&](int64_t block, int64_t offset, int64_t global, int64_t length) {
        int32_t device = layout.holders(block).front();
        if (status.ok())
          status = devices[size_t(device)].device->copyToHost(
              to.data() + (global - first) * bytes,
              tensor.buffers[size_t(device)] + offset * bytes,
              size_t(length * bytes));
      });
  return status;
}

} // namespace heddle::runtime
