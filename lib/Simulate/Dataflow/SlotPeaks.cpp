//===- SlotPeaks.cpp - What the slots of a pipeline hold ------------------===//
//
// A value lies in its slot from the entry that writes it to its last reader. It
// is in flight until the last reader other than a pass for weights. If a pass
// for weights reads it, it is in flight at least until the backward pass for
// inputs of the same micro-batch. After that, only the pass for weights needs
// it. Positions in the order of issue serve as times.
//
//===----------------------------------------------------------------------===//

#include "SlotPeaks.h"
#include "dialects/Heddle/Heddle.h"
#include <algorithm>
#include <map>
#include <optional>

using namespace mlir;
using namespace heddle;

namespace {
struct SlotValue {
  int64_t bytes = 0;
  size_t writer = 0;
  size_t lastOther = 0, lastForWeights = 0; ///< readers; 0: none
};
} // namespace

void heddle::fillSlotPeaks(const CallList &list, MemoryUse &memory) {
  std::vector<SlotValue> values;
  std::vector<int64_t> current(list.slots.size(), -1); // value of each slot
  // By stage and micro-batch: the latest entry with a forward pass or with a
  // backward pass for inputs.
  std::map<std::pair<int64_t, int64_t>, size_t> backward;
  for (auto [i, call] : llvm::enumerate(list.calls)) {
    auto find = [&](int64_t slot) {
      return slot < 0 || current[slot] < 0 ? nullptr : &values[current[slot]];
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
        else if (SlotValue *value = find(access.buffer.getIndex()))
          value->lastOther = i;
      }
      continue;
    }
    auto part =
        call.program->getAttrOfType<StageProgramAttr>(kStageProgramAttrName);
    std::optional<StageWork> work;
    std::pair<int64_t, int64_t> key;
    if (part) {
      work = part.getWork();
      key = {part.getStage(), call.microBatch};
    }
    for (int64_t slot : call.argumentSlots) {
      SlotValue *value = find(slot);
      if (value && work == StageWork::BackwardWeights) {
        value->lastForWeights = i;
        value->lastOther = std::max(value->lastOther, backward[key]);
      } else if (value) {
        value->lastOther = i;
      }
    }
    if (work == StageWork::Forward || work == StageWork::Backward)
      backward[key] = i;
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
