//===- MemoryCurve.cpp - Which bytes hold values at which time ------------===//
//
// A value is a run of bytes of the arena from the start of the call that writes
// it. Its life ends with the last call that uses the bytes before another call
// writes them. A call that adds to its result prolongs the value's life.
//
//===----------------------------------------------------------------------===//

#include "MemoryCurve.h"
#include "Accesses.h"

using namespace mlir;
using namespace heddle;

namespace {
class ArenaLives {
public:
  explicit ArenaLives(Simulation &simulation) : simulation(simulation) {}

  void add(CallIndex index) {
    SimulatedCall &call = simulation.calls[index];
    rt::Accesses accesses = call.op.getAccesses();
    for (const rt::Access &access : accesses)
      if (access.buffer.getSpace() == rt::Space::Arena &&
          (!access.writes || readsWhatItWrites(call.op)))
        arena.forEach(access.buffer, [&](LiveValue &life) {
          life.end = std::max(life.end, call.end);
        });
    for (const rt::Access &access : accesses)
      if (access.buffer.getSpace() == rt::Space::Arena && access.writes &&
          !readsWhatItWrites(call.op))
        arena.replace(access.buffer, {index, 0, call.start, call.end},
                      [&](LiveValue life) {
                        // A call that works in place ends the life of its
                        // operand as its own result's begins.
                        life.end = std::min(life.end, call.start);
                        lives.push_back(life);
                      });
  }

  std::vector<LiveValue> take() {
    arena.clear([&](LiveValue life) { lives.push_back(life); });
    llvm::erase_if(lives, [](const LiveValue &life) {
      return life.end <= life.start || life.bytes == 0;
    });
    return std::move(lives);
  }

private:
  Simulation &simulation;
  ByteMap<LiveValue> arena;
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

void heddle::fillMemoryCurve(Simulation &simulation) {
  MemoryUse &memory = simulation.memory;
  int64_t base = memory.plan.total() - memory.plan.arena;
  for (unsigned list = 0; list < simulation.lists.size(); ++list) {
    ArenaLives arena(simulation);
    for (auto [index, call] : llvm::enumerate(simulation.calls))
      if (call.list == list)
        arena.add(index);
    std::vector<LiveValue> lives = arena.take();
    std::map<double, int64_t> changes = {{0.0, 0}};
    for (const LiveValue &life : lives) {
      changes[life.start] += life.bytes;
      changes[life.end] -= life.bytes;
    }
    std::vector<std::pair<double, int64_t>> curve;
    int64_t bytes = base, peak = -1;
    double peakTime = 0;
    for (auto [time, change] : changes) {
      bytes += change;
      curve.emplace_back(time, bytes);
      if (bytes > peak) {
        peak = bytes;
        peakTime = time;
      }
    }
    if (peak <= memory.peak)
      continue;
    memory.curve = std::move(curve);
    memory.peak = peak;
    memory.peakTime = peakTime;
    llvm::erase_if(lives, [&](const LiveValue &life) {
      return peakTime < life.start || peakTime >= life.end;
    });
    memory.aliveAtPeak = joinParts(lives);
  }
}
