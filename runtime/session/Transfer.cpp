//===- Transfer.cpp - Between the host's tensors and the devices' blocks --===//

#include "session/SessionState.h"
#include "support/Message.h"

namespace heddle::runtime {

Status SessionState::scatter(const PlacedTensor &tensor, int64_t first,
                             int64_t count, ConstBytes from, int64_t copy) {
  const Layout &layout = tensor.layout;
  int64_t bytes = int64_t(layout.elementBytes());
  int64_t start = copy * int64_t(tensor.copyBytes());
  Status status;
  layout.forEachRun(
      first, count,
      [&](int64_t block, int64_t offset, int64_t global, int64_t length) {
        for (int32_t rank : layout.holders(block))
          if (uint8_t *buffer = tensor.buffers[size_t(rank)];
              buffer && status.ok())
            status = deviceOf(rank).copyToDevice(
                buffer + start + offset * bytes,
                from.data() + (global - first) * bytes, size_t(length * bytes));
      });
  return status;
}

Status SessionState::gather(const PlacedTensor &tensor, int64_t first,
                            int64_t count, Bytes to, int64_t copy) const {
  const Layout &layout = tensor.layout;
  int64_t bytes = int64_t(layout.elementBytes());
  int64_t start = copy * int64_t(tensor.copyBytes());
  Status status;
  layout.forEachRun(
      first, count,
      [&](int64_t block, int64_t offset, int64_t global, int64_t length) {
        if (!status.ok())
          return;
        for (int32_t rank : layout.holders(block))
          if (uint8_t *buffer = tensor.buffers[size_t(rank)]) {
            status = deviceOf(rank).copyToHost(
                to.data() + (global - first) * bytes,
                buffer + start + offset * bytes, size_t(length * bytes));
            return;
          }
        status = errorOf(tensor.info->name,
                         ": no rank of this process has "
                         "element ",
                         global);
      });
  return status;
}

} // namespace heddle::runtime
