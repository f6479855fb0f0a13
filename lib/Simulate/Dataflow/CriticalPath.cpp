//===- CriticalPath.cpp - The longest chain of calls ----------------------===//

#include "CriticalPath.h"
#include "Accesses.h"

using namespace mlir;
using namespace heddle;

double heddle::getCriticalPath(ArrayRef<PathCall> calls,
                               ArrayRef<size_t> order) {
  // For each byte, the end of the chain that leads to its value. The key of a
  // memory has its list, space, symbol, and index or slot.
  using Key = std::tuple<unsigned, uint32_t, const void *, int64_t>;
  static constexpr uint32_t kSlots = ~0u;
  std::map<Key, ByteMap<double>> memories;
  std::vector<double> ends(calls.size()); ///< of the chains of sends
  double longest = 0;
  for (size_t index : order) {
    const PathCall &path = calls[index];
    rt::DeviceCallOpInterface call = path.op;
    double start = path.send < 0 ? 0 : ends[path.send];
    rt::Accesses accesses = call.getAccesses();
    auto memoryOf = [&](rt::BufferAttr buffer) -> ByteMap<double> & {
      if (std::optional<int64_t> slot = getSlot(*path.entry, buffer))
        return memories[{path.list, kSlots, nullptr, *slot}];
      return memories[{path.list, static_cast<uint32_t>(buffer.getSpace()),
                       buffer.getSymbol().getAsOpaquePointer(),
                       buffer.getIndex()}];
    };
    for (const rt::Access &access : accesses)
      if (!access.writes || readsWhatItWrites(call))
        memoryOf(access.buffer).forEach(access.buffer, [&](double end) {
          start = std::max(start, end);
        });
    ends[index] = start + path.seconds;
    longest = std::max(longest, ends[index]);
    for (const rt::Access &access : accesses)
      if (access.writes)
        memoryOf(access.buffer).replace(access.buffer, ends[index], [](double) {
        });
  }
  return longest;
}
