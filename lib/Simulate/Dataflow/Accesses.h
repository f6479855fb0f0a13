//===- Accesses.h - Facts about runs of bytes -------------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SIMULATE_DATAFLOW_ACCESSES_H
#define HEDDLE_LIB_SIMULATE_DATAFLOW_ACCESSES_H

#include "heddle/Simulate/Simulate.h"
#include <map>

namespace heddle {

/// Returns true if bytes that the call writes depend on their old value, or
/// keep it: products that accumulate, and copies that write a part of their
/// destination.
bool readsWhatItWrites(rt::DeviceCallOpInterface call);

/// Returns the slot of a list that a buffer of one of its calls lies in, or
/// nullopt if it lies in no slot. `entry` is the entry that the call belongs
/// to.
std::optional<int64_t> getSlot(const ProgramCall &entry, rt::BufferAttr buffer);

/// A fact about each byte of one memory, such as the last call that wrote it.
/// Bytes that were never replaced have none. If `Fact` has a member `bytes`, it
/// is set to the length of the run that the fact holds for.
template <typename Fact> class ByteMap {
public:
  /// Calls visit(fact) for the facts of the bytes of `buffer`.
  template <typename Visit> void forEach(rt::BufferAttr buffer, Visit &&visit) {
    auto [first, last] = split(buffer);
    for (auto run = first; run != last; ++run)
      visit(run->second.fact);
  }

  /// Gives the bytes of `buffer` a new fact. Calls dropped(fact) for the old
  /// ones.
  template <typename Dropped>
  void replace(rt::BufferAttr buffer, Fact fact, Dropped &&dropped) {
    if (buffer.getBytes() == 0)
      return;
    auto [first, last] = split(buffer);
    for (auto run = first; run != last; ++run)
      drop(*run, dropped);
    runs.erase(first, last);
    int64_t begin = buffer.getOffset();
    runs[begin] = {begin + buffer.getBytes(), fact};
  }

  /// Calls dropped(fact) for all facts, and removes them.
  template <typename Dropped> void clear(Dropped &&dropped) {
    for (auto &run : runs)
      drop(run, dropped);
    runs.clear();
  }

private:
  struct Run {
    int64_t end;
    Fact fact;
  };
  using Runs = std::map<int64_t, Run>; ///< by first byte

  template <typename Dropped>
  static void drop(const std::pair<const int64_t, Run> &run,
                   Dropped &&dropped) {
    Fact fact = run.second.fact;
    if constexpr (requires { fact.bytes; })
      fact.bytes = run.second.end - run.first;
    dropped(fact);
  }
  void splitAt(int64_t offset) {
    auto next = runs.upper_bound(offset);
    if (next == runs.begin())
      return;
    auto &[begin, run] = *std::prev(next);
    if (begin == offset || run.end <= offset)
      return;
    runs.emplace_hint(next, offset, run);
    run.end = offset;
  }
  std::pair<typename Runs::iterator, typename Runs::iterator>
  split(rt::BufferAttr buffer) {
    int64_t begin = buffer.getOffset(), end = begin + buffer.getBytes();
    splitAt(begin);
    splitAt(end);
    return {runs.lower_bound(begin), runs.lower_bound(end)};
  }

  Runs runs;
};

} // namespace heddle

#endif // HEDDLE_LIB_SIMULATE_DATAFLOW_ACCESSES_H
