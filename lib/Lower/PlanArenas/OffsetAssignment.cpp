//===- OffsetAssignment.cpp - Best fit over live intervals ----------------===//

#include "OffsetAssignment.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <numeric>

using namespace heddle;
using llvm::ArrayRef;
using llvm::SmallVector;

int64_t heddle::getMaxLiveBytes(ArrayRef<LiveBuffer> buffers,
                                int64_t alignment) {
  // Changes of the number of live bytes: a buffer adds its size at `first` and
  // subtracts it after `last`.
  SmallVector<std::pair<int64_t, int64_t>> changes;
  for (const LiveBuffer &buffer : buffers) {
    int64_t bytes = llvm::alignTo(buffer.bytes, alignment);
    changes.push_back({buffer.first, bytes});
    changes.push_back({buffer.last + 1, -bytes});
  }
  // At one position, negative changes come first.
  llvm::sort(changes);
  int64_t live = 0, most = 0;
  for (auto [position, bytes] : changes)
    most = std::max(most, live += bytes);
  return most;
}

namespace {
/// The buffers placed so far, by the positions at which they live and by their
/// offsets. There is one list per block of positions, so that a query for a
/// short life visits few buffers. A query for a long life visits each buffer
/// once, by offset.
class PlacedBuffers {
public:
  PlacedBuffers(ArrayRef<LiveBuffer> buffers, int64_t alignment)
      : buffers(buffers), alignment(alignment), offsets(buffers.size(), -1),
        seen(buffers.size(), -1) {
    int64_t end = 0;
    start = buffers.empty() ? 0 : buffers[0].first;
    for (const LiveBuffer &buffer : buffers) {
      start = std::min(start, buffer.first);
      end = std::max(end, buffer.last);
    }
    blocks.resize((end - start) / blockSize + 1);
  }

  /// Places a buffer into the smallest gap and returns the end of its bytes.
  int64_t place(int index) {
    const LiveBuffer &buffer = buffers[index];
    int64_t bytes = llvm::alignTo(buffer.bytes, alignment);
    findNeighbours(index);
    int64_t top = 0, best = -1, bestGap = INT64_MAX;
    for (auto [from, to] : neighbours) {
      if (int64_t gap = from - top; gap >= bytes && gap < bestGap) {
        best = top;
        bestGap = gap;
      }
      top = std::max(top, to);
    }
    int64_t offset = offsets[index] = best >= 0 ? best : top;
    for (int64_t b = blockOf(buffer.first); b <= blockOf(buffer.last); ++b)
      blocks[b].push_back(index);
    Placed added{offset, offset + bytes, buffer.first, buffer.last};
    byOffset.insert(llvm::upper_bound(byOffset, added,
                                      [](const Placed &x, const Placed &y) {
                                        return std::pair(x.from, x.to) <
                                               std::pair(y.from, y.to);
                                      }),
                    added);
    return added.to;
  }

  SmallVector<int64_t> takeOffsets() { return std::move(offsets); }

private:
  struct Placed {
    int64_t from, to;    ///< bytes
    int64_t first, last; ///< positions
  };

  /// Finds the bytes of the buffers that live together with a buffer, by
  /// offset.
  void findNeighbours(int index) {
    const LiveBuffer &buffer = buffers[index];
    neighbours.clear();
    size_t visits = 0;
    for (int64_t b = blockOf(buffer.first); b <= blockOf(buffer.last); ++b)
      visits += blocks[b].size();
    if (visits >= byOffset.size()) {
      for (const Placed &other : byOffset)
        if (other.first <= buffer.last && buffer.first <= other.last)
          neighbours.push_back({other.from, other.to});
      return;
    }
    for (int64_t b = blockOf(buffer.first); b <= blockOf(buffer.last); ++b)
      for (int other : blocks[b])
        if (seen[other] != index && buffers[other].first <= buffer.last &&
            buffer.first <= buffers[other].last) {
          seen[other] = index;
          neighbours.push_back(
              {offsets[other],
               offsets[other] + static_cast<int64_t>(llvm::alignTo(
                                    buffers[other].bytes, alignment))});
        }
    llvm::sort(neighbours);
  }

  static constexpr int64_t blockSize = 32;
  int64_t blockOf(int64_t position) const {
    return (position - start) / blockSize;
  }

  ArrayRef<LiveBuffer> buffers;
  int64_t alignment, start = 0;
  SmallVector<int64_t> offsets;
  SmallVector<int> seen; ///< the last buffer whose search met this one
  SmallVector<SmallVector<int, 8>> blocks;
  SmallVector<Placed> byOffset;
  SmallVector<std::pair<int64_t, int64_t>> neighbours;
};
} // namespace

OffsetAssignment heddle::assignOffsets(ArrayRef<LiveBuffer> buffers,
                                       int64_t alignment) {
  int64_t bound = getMaxLiveBytes(buffers, alignment);
  auto life = [&](int i) { return buffers[i].last - buffers[i].first + 1; };
  auto bySize = [&](int i, int j) {
    return buffers[i].bytes > buffers[j].bytes;
  };
  auto byArea = [&](int i, int j) {
    return double(buffers[i].bytes) * life(i) >
           double(buffers[j].bytes) * life(j);
  };
  auto byLife = [&](int i, int j) { return life(i) > life(j); };
  auto byStart = [&](int i, int j) {
    return buffers[i].first < buffers[j].first;
  };
  llvm::function_ref<bool(int, int)> orders[] = {bySize, byArea, byLife,
                                                 byStart};

  OffsetAssignment best;
  SmallVector<int> order(buffers.size());
  for (llvm::function_ref<bool(int, int)> before : orders) {
    std::iota(order.begin(), order.end(), 0);
    llvm::sort(order, [&](int i, int j) {
      return before(i, j) || (!before(j, i) && i < j);
    });
    PlacedBuffers placed(buffers, alignment);
    int64_t peak = 0;
    for (int index : order) {
      peak = std::max(peak, placed.place(index));
      if (!best.offsets.empty() && peak >= best.peak)
        break;
    }
    if (best.offsets.empty() || peak < best.peak)
      best = {placed.takeOffsets(), peak};
    if (best.peak == bound)
      break;
  }
  return best;
}
