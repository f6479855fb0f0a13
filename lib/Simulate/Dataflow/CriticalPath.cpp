//===- CriticalPath.cpp - The longest chain of calls ----------------------===//

#include "CriticalPath.h"
#include "Accesses.h"

using namespace mlir;
using namespace heddle;

double heddle::getCriticalPath(ArrayRef<rt::DeviceCallOpInterface> calls,
                               ArrayRef<double> seconds) {
  // For each byte, the end of the chain that leads to its value.
  std::map<std::tuple<uint32_t, const void *, int64_t>, ByteMap<double>>
      memories;
  double longest = 0;
  for (auto [op, time] : llvm::zip(calls, seconds)) {
    rt::DeviceCallOpInterface call = op;
    double start = 0;
    rt::Accesses accesses = call.getAccesses();
    auto memoryOf = [&](rt::BufferAttr buffer) -> ByteMap<double> & {
      return memories[{static_cast<uint32_t>(buffer.getSpace()),
                       buffer.getSymbol().getAsOpaquePointer(),
                       buffer.getIndex()}];
    };
    for (const rt::Access &access : accesses)
      if (!access.writes || readsWhatItWrites(call))
        memoryOf(access.buffer).forEach(access.buffer, [&](double end) {
          start = std::max(start, end);
        });
    longest = std::max(longest, start + time);
    for (const rt::Access &access : accesses)
      if (access.writes)
        memoryOf(access.buffer)
            .replace(access.buffer, start + time, [](double) {});
  }
  return longest;
}
