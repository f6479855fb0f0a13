//===- Blocks.cpp - The blocks of variables that a process holds ----------===//

#include "session/state/SessionState.h"
#include "support/Message.h"

#include <algorithm>

namespace heddle::runtime {

std::vector<OwnedBlock> SessionState::ownedBlocks() const {
  std::vector<OwnedBlock> owned;
  for (size_t tensor = 0; tensor < manifest.tensors.size(); ++tensor)
    for (size_t variable : manifest.tensors[tensor].parts) {
      const PlacedTensor &placed = variables[variable];
      for (int64_t i = 0; i < placed.layout.numBlocks(); ++i) {
        const std::vector<int32_t> &holders = placed.layout.holders(i);
        if (holders.empty() || !placed.buffers[size_t(holders.front())])
          continue;
        OwnedBlock block{tensor, variable, i, placed.layout.startOf(i),
                         placed.layout.shapeOf(i)};
        if (std::ranges::find(block.shape, 0) != block.shape.end())
          continue; // only padding
        if (const auto &slice = manifest.variables[variable].slice)
          block.start[size_t(slice->dim)] += slice->offset;
        owned.push_back(std::move(block));
      }
    }
  return owned;
}

Status SessionState::readBlock(const OwnedBlock &block, int64_t first,
                               int64_t count, Bytes to) const {
  const PlacedTensor &placed = variables[block.variable];
  int32_t rank = placed.localHolder(block.block);
  if (rank < 0)
    return errorOf(placed.info->name, ": block ", block.block,
                   " is of another process");
  auto width = int64_t(placed.layout.elementBytes());
  const uint8_t *buffer = placed.buffers[size_t(rank)];
  const std::vector<int64_t> &stored = placed.layout.localShape();
  // Rows of the last dimension are contiguous. Without padding, so is all.
  bool isWhole = stored == block.shape;
  int64_t row = block.shape.empty() ? 1 : block.shape.back();
  for (int64_t position = first, end = first + count; position < end;) {
    int64_t length = isWhole ? end - position
                             : std::min(end - position, row - position % row);
    int64_t offset = position;
    if (!isWhole) {
      offset = 0;
      int64_t rest = position, stride = 1;
      for (size_t dim = stored.size(); dim-- > 0;) {
        offset += rest % block.shape[dim] * stride;
        rest /= block.shape[dim];
        stride *= stored[dim];
      }
    }
    HEDDLE_RT_RETURN_IF_ERROR(deviceOf(rank).copyToHost(
        to.data() + (position - first) * width, buffer + offset * width,
        size_t(length * width)));
    position += length;
  }
  return Status::success();
}

bool SessionState::holdsPart(size_t tensor, std::span<const int64_t> start,
                             std::span<const int64_t> shape) const {
  for (size_t variable : manifest.tensors[tensor].parts) {
    const PlacedTensor &placed = variables[variable];
    const auto &slice = manifest.variables[variable].slice;
    for (int64_t i = 0; i < placed.layout.numBlocks(); ++i) {
      if (placed.localHolder(i) < 0)
        continue;
      std::vector<int64_t> begin = placed.layout.startOf(i);
      std::vector<int64_t> size = placed.layout.shapeOf(i);
      if (slice)
        begin[size_t(slice->dim)] += slice->offset;
      bool overlaps = true;
      for (size_t dim = 0; dim < size.size(); ++dim)
        overlaps &= std::max(begin[dim], start[dim]) <
                    std::min(begin[dim] + size[dim], start[dim] + shape[dim]);
      if (overlaps)
        return true;
    }
  }
  return false;
}

std::vector<std::pair<int64_t, int64_t>>
SessionState::localRows(const PlacedTensor &tensor) const {
  std::vector<std::pair<int64_t, int64_t>> rows;
  for (int64_t i = 0; i < tensor.layout.numBlocks(); ++i) {
    if (tensor.localHolder(i) < 0)
      continue;
    std::vector<int64_t> start = tensor.layout.startOf(i);
    std::vector<int64_t> shape = tensor.layout.shapeOf(i);
    if (start.empty())
      return {{0, 1}};
    if (shape[0] > 0)
      rows.emplace_back(start[0], start[0] + shape[0]);
  }
  std::ranges::sort(rows);
  // Blocks that differ in other dimensions have the same rows.
  std::vector<std::pair<int64_t, int64_t>> merged;
  for (auto [first, last] : rows)
    if (!merged.empty() && first <= merged.back().second)
      merged.back().second = std::max(merged.back().second, last);
    else
      merged.emplace_back(first, last);
  return merged;
}

} // namespace heddle::runtime
