//===- SlotPeaks.cpp - What the slots of a pipeline hold ------------------===//
//
// A value lies in its slot from the entry that writes it to its last reader. A
// value is in flight until the last reader other than a pass for weights. From
// then on, only the pass for weights needs it. Entries count in order of issue.
//
//===----------------------------------------------------------------------===//

#include "SlotPeaks.h"
#include "dialects/Heddle/Heddle.h"
#include <algorithm>

using namespace mlir;
using namespace heddle;

namespace {
struct SlotValue {
  int64_t bytes = 0;
  size_t writer = 0;
  size_t lastOther = 0, lastForWeights = 0; ///< readers; 0: none
};
} // namespace

static bool isForWeights(rt::ProgramOp program) {
  auto part = program->getAttrOfType<StageProgramAttr>(kStageProgramAttrName);
  return part && part.getWork() == StageWork::BackwardWeights;
}

void heddle::fillSlotPeaks(const CallList &list, MemoryUse &memory) {
  std::vector<SlotValue> values;
  std::vector<int64_t> current(list.slots.size(), -1); // value of each slot
  for (auto [i, call] : llvm::enumerate(list.calls)) {
    auto read = [&](int64_t slot, bool byWeights) {
      if (slot < 0 || current[slot] < 0)
        return;
      SlotValue &value = values[current[slot]];
      (byWeights ? value.lastForWeights : value.lastOther) = i;
    };
    auto write = [&](int64_t slot) {
      if (slot < 0)
        return;
      current[slot] = int64_t(values.size());
      values.push_back({list.slots[slot], i, i, 0});
    };
    if (call.transfer) {
      rt::Accesses accesses =
          rt::DeviceCallOpInterface(call.transfer).getAccesses();
      for (const rt::Access &access : accesses) {
        if (access.writes)
          write(access.buffer.getIndex());
        else
          read(access.buffer.getIndex(), /*byWeights=*/false);
      }
      continue;
    }
    for (int64_t slot : call.argumentSlots)
      read(slot, isForWeights(call.program));
    for (int64_t slot : call.resultSlots)
      write(slot);
  }
  std::vector<int64_t> inFlight(list.calls.size() + 1), forWeights = inFlight;
  for (const SlotValue &value : values) {
    inFlight[value.writer] += value.bytes;
    inFlight[value.lastOther + 1] -= value.bytes;
    if (value.lastForWeights > value.lastOther) {
      forWeights[value.lastOther + 1] += value.bytes;
      forWeights[value.lastForWeights + 1] -= value.bytes;
    }
  }
  auto getPeak = [](llvm::ArrayRef<int64_t> changes) {
    int64_t bytes = 0, most = 0;
    for (int64_t change : changes)
      most = std::max(most, bytes += change);
    return most;
  };
  memory.inFlight = getPeak(inFlight);
  memory.forWeights = getPeak(forWeights);
}
