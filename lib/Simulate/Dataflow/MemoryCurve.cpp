//===- MemoryCurve.cpp - Which bytes hold values at which time ------------===//
//
// A value is a run of bytes of the arena, or of a slot of a pipeline's table,
// from the start of the call that writes it. Its life ends with the last call
// that uses the bytes before another call writes them. A call that adds to its
// result prolongs the value's life.
//
//===----------------------------------------------------------------------===//

#include "MemoryCurve.h"
#include "Accesses.h"
#include "SlotPeaks.h"

using namespace mlir;
using namespace heddle;

namespace {
class Lives {
public:
  Lives(const Simulation &simulation, const CallList &list)
      : simulation(simulation), list(list) {}

  void add(CallIndex index) {
    const SimulatedCall &call = simulation.calls[index];
    rt::DeviceCallOpInterface op = call.op;
    rt::Accesses accesses = op.getAccesses();
    bool keeps = readsWhatItWrites(op);
    for (const rt::Access &access : accesses)
      if (ByteMap<LiveValue> *memory = find(call, access.buffer);
          memory && (!access.writes || keeps))
        memory->forEach(access.buffer, [&](LiveValue &life) {
          life.end = std::max(life.end, call.end);
        });
    for (const rt::Access &access : accesses)
      if (ByteMap<LiveValue> *memory = find(call, access.buffer);
          memory && access.writes && !keeps)
        memory->replace(access.buffer, {index, 0, call.start, call.end},
                        [&](LiveValue life) {
                          // If a call works in place, its operand's life ends
                          // when its result's begins.
                          life.end = std::min(life.end, call.start);
                          lives.push_back(life);
                        });
  }

  std::vector<LiveValue> take() {
    for (auto &[place, memory] : memories)
      memory.clear([&](LiveValue life) { lives.push_back(life); });
    llvm::erase_if(lives, [](const LiveValue &life) {
      return life.end <= life.start || life.bytes == 0;
    });
    return std::move(lives);
  }

private:
  static constexpr int64_t kArena = -1;

  /// Returns the memory that a buffer lies in; null if it is allocated for the
  /// whole step.
  ByteMap<LiveValue> *find(const SimulatedCall &call, rt::BufferAttr buffer) {
    if (buffer.getSpace() == rt::Space::Arena)
      return &memories[kArena];
    std::optional<int64_t> slot = getSlot(list.calls[call.entry], buffer);
    return slot ? &memories[*slot] : nullptr;
  }

  const Simulation &simulation;
  const CallList &list;
  std::map<int64_t, ByteMap<LiveValue>> memories; ///< by slot
  std::vector<LiveValue> lives;
};
} // namespace

/// Adds up the parts of each value, which a later write may have split.
static std::vector<LiveValue> joinParts(ArrayRef<LiveValue> parts) {
  std::vector<LiveValue> values;
  llvm::DenseMap<CallIndex, size_t> known;
  for (const LiveValue &part : parts) {
    auto [place, isNew] = known.try_emplace(part.writer, values.size());
    if (isNew)
      values.push_back(part);
    else
      values[place->second].bytes += part.bytes;
  }
  llvm::sort(values, [](const LiveValue &a, const LiveValue &b) {
    return std::tie(b.bytes, a.writer) < std::tie(a.bytes, b.writer);
  });
  return values;
}

/// Fills the memory of a list, whose calls are given.
static void fillMemoryCurve(const Simulation &simulation, const CallList &list,
                            ArrayRef<CallIndex> calls, MemoryUse &memory) {
  Lives all(simulation, list);
  for (CallIndex call : calls)
    all.add(call);
  std::vector<LiveValue> lives = all.take();
  std::map<double, int64_t> changes = {{0.0, 0}};
  for (const LiveValue &life : lives) {
    changes[life.start] += life.bytes;
    changes[life.end] -= life.bytes;
  }
  int64_t bytes = memory.plan.total() - memory.plan.arena - memory.plan.slots;
  memory.peak = -1;
  for (auto [time, change] : changes) {
    bytes += change;
    memory.curve.emplace_back(time, bytes);
    if (bytes > memory.peak) {
      memory.peak = bytes;
      memory.peakTime = time;
    }
  }
  llvm::erase_if(lives, [&](const LiveValue &life) {
    return memory.peakTime < life.start || memory.peakTime >= life.end;
  });
  memory.aliveAtPeak = joinParts(lives);
}

void heddle::fillMemoryCurves(Simulation &simulation) {
  std::vector<std::vector<CallIndex>> calls(simulation.lists.size());
  for (auto [index, call] : llvm::enumerate(simulation.calls))
    calls[call.list].push_back(index);
  for (unsigned list = 0; list < simulation.lists.size(); ++list)
    fillMemoryCurve(simulation, simulation.lists[list], calls[list],
                    simulation.memories[list]);
  for (auto [list, memory] : llvm::zip(simulation.lists, simulation.memories))
    fillSlotPeaks(list, memory);
  // Devices of several kinds have different capacities.
  auto getExcess = [](const MemoryUse &memory) {
    return std::pair(memory.plan.total() - memory.capacity, memory.peak);
  };
  simulation.memory = *llvm::max_element(
      simulation.memories, [&](const MemoryUse &a, const MemoryUse &b) {
        return getExcess(a) < getExcess(b);
      });
}
