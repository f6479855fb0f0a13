//===- Layout.cpp - Blocks of a global tensor on devices ------------------===//

#include "session/state/Layout.h"
#include "communicators/Communicator.h"

namespace heddle::runtime {

Layout::Layout(const TensorInfo &info, const std::vector<MeshAxis> &mesh,
               const RankSet &ranks)
    : bytes(byteSize(info.type)) {
  size_t rank = info.shape.size();
  std::vector<int64_t> parts(rank, 1), local(rank), blockStride(rank);
  for (size_t i = 0; i < rank; ++i) {
    for (int32_t axis : info.sharding[i])
      parts[i] *= mesh[size_t(axis)].size;
    local[i] = (info.shape[i] + parts[i] - 1) / parts[i];
    elements *= info.shape[i];
    localSize *= local[i];
  }
  int64_t numBlocks = 1;
  for (size_t i = rank; i-- > 0;) {
    blockStride[i] = numBlocks;
    numBlocks *= parts[i];
  }
  // Every block contains the whole dimensions after the last one that is cut.
  size_t last = rank;
  while (last > 0 && parts[last - 1] == 1)
    inner *= info.shape[--last];
  if (last > 0) {
    --last;
    split = info.shape[last];
    localSplit = local[last];
    lastBlockStride = blockStride[last];
  }
  int64_t localStride = localSplit * inner;
  std::vector<Dimension> reversed;
  for (size_t i = last; i-- > 0;) {
    reversed.push_back({info.shape[i], local[i], blockStride[i], localStride});
    localStride *= local[i];
  }
  outerDimensions.assign(reversed.rbegin(), reversed.rend());

  globalShape = info.shape;
  storedShape = local;
  blockStrides = blockStride;

  int64_t devices = 1;
  for (const MeshAxis &axis : mesh)
    devices *= axis.size;
  holdersOf.resize(size_t(numBlocks));
  for (int64_t device = 0; device < devices; ++device) {
    std::vector<int64_t> coordinates = coordinatesOf(mesh, int32_t(device));
    int64_t block = 0;
    for (size_t i = 0; i < rank; ++i) {
      int64_t part = 0;
      for (int32_t axis : info.sharding[i])
        part = part * mesh[size_t(axis)].size + coordinates[size_t(axis)];
      block += part * blockStride[i];
    }
    blocks.push_back(block);
    if (ranks.contains(coordinates))
      holdersOf[size_t(block)].push_back(int32_t(device));
  }
}

std::vector<int64_t> Layout::startOf(int64_t block) const {
  std::vector<int64_t> start;
  for (size_t i = 0; i < globalShape.size(); ++i) {
    int64_t part = block / blockStrides[i];
    block %= blockStrides[i];
    start.push_back(std::min(part * storedShape[i], globalShape[i]));
  }
  return start;
}

std::vector<int64_t> Layout::shapeOf(int64_t block) const {
  std::vector<int64_t> shape = startOf(block);
  for (size_t i = 0; i < shape.size(); ++i)
    shape[i] = std::min(storedShape[i], globalShape[i] - shape[i]);
  return shape;
}

} // namespace heddle::runtime
