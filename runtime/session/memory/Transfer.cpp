//===- Transfer.cpp - Between the host's tensors and the devices' blocks --===//

#include "session/state/SessionState.h"
#include "support/Message.h"

#include <algorithm>

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

/// The processes compute from the layout alone which process needs which
/// elements. The process of a block's first holder sends the block to all
/// processes without a holder.
Status SessionState::gatherFromProcesses(const PlacedTensor &tensor,
                                         int64_t first, int64_t count, Bytes to,
                                         int64_t copy) const {
  const Layout &layout = tensor.layout;
  auto bytes = int64_t(layout.elementBytes());
  int64_t start = copy * int64_t(tensor.copyBytes());
  auto processes = size_t(options.job->processes());
  auto self = size_t(options.job->process());
  struct Run {
    int64_t position, bytes; ///< in `to`
  };
  std::vector<std::vector<std::byte>> outboxes(processes), inboxes(processes);
  std::vector<std::vector<Run>> expected(processes);
  std::vector<std::vector<bool>> holding(size_t(layout.numBlocks()));
  Status status;
  layout.forEachRun(
      first, count,
      [&](int64_t block, int64_t offset, int64_t global, int64_t length) {
        std::vector<bool> &holds = holding[size_t(block)];
        if (holds.empty()) {
          holds.resize(processes);
          for (int32_t rank : layout.holders(block))
            holds[size_t(processOf(rank))] = true;
        }
        auto owner = size_t(processOf(layout.holders(block).front()));
        Run run{(global - first) * bytes, length * bytes};
        if (!holds[self]) {
          expected[owner].push_back(run);
          return;
        }
        if (!status.ok())
          return;
        int32_t rank = tensor.localHolder(block);
        status = deviceOf(rank).copyToHost(to.data() + run.position,
                                           tensor.buffers[size_t(rank)] +
                                               start + offset * bytes,
                                           size_t(run.bytes));
        for (size_t i = 0; owner == self && i < processes; ++i)
          if (!holds[i])
            outboxes[i].insert(outboxes[i].end(), to.data() + run.position,
                               to.data() + run.position + run.bytes);
      });
  HEDDLE_RT_RETURN_IF_ERROR(status);
  for (size_t i = 0; i < processes; ++i) {
    int64_t size = 0;
    for (const Run &run : expected[i])
      size += run.bytes;
    inboxes[i].resize(size_t(size));
  }
  HEDDLE_RT_RETURN_IF_ERROR(options.job->exchange(
      {outboxes.begin(), outboxes.end()}, {inboxes.begin(), inboxes.end()}));
  for (size_t i = 0; i < processes; ++i) {
    const std::byte *next = inboxes[i].data();
    for (const Run &run : expected[i]) {
      std::copy_n(next, run.bytes, to.data() + run.position);
      next += run.bytes;
    }
  }
  return Status::success();
}

Status SessionState::gather(const PlacedTensor &tensor, int64_t first,
                            int64_t count, Bytes to, int64_t copy) const {
  if (options.job)
    return gatherFromProcesses(tensor, first, count, to, copy);
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
