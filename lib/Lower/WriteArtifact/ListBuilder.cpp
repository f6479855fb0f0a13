//===- ListBuilder.cpp - Slots and waits of one device's entries ----------===//

#include "ListBuilder.h"
#include "llvm/ADT/STLExtras.h"
#include <map>
#include <set>

using namespace mlir;
using namespace heddle;

void ListBuilder::add(TableEntry entry,
                      ArrayRef<std::pair<unsigned, TableValue>> readsOf,
                      ArrayRef<std::pair<unsigned, TableValue>> writesOf,
                      llvm::function_ref<int64_t(TableValue)> getBytes) {
  auto index = unsigned(entries.size());
  std::vector<Use> &read = reads.emplace_back(),
                   &written = writes.emplace_back();
  for (auto [place, value] : readsOf) {
    unsigned life = lifeOf.at(value);
    read.push_back({place, life});
    lives[life].readers.push_back(index);
  }
  for (auto [place, value] : writesOf) {
    lifeOf[value] = unsigned(lives.size());
    written.push_back({place, unsigned(lives.size())});
    lives.push_back({getBytes(value), index, {}, 0});
  }
  entries.push_back(std::move(entry));
}

/// Gives each value a slot of its size. A slot is reused after the last read of
/// its value. The slot that has been free for longest is reused first, which
/// keeps waits short.
void ListBuilder::assignSlots() {
  struct Slot {
    unsigned index, freeFrom;
  };
  std::map<int64_t, std::vector<Slot>> bySize;
  for (unsigned entry = 0; entry < entries.size(); ++entry)
    for (const Use &use : writes[entry]) {
      Life &life = lives[use.life];
      std::vector<Slot> &slots = bySize[life.bytes];
      auto oldest = llvm::min_element(
          slots, [](Slot a, Slot b) { return a.freeFrom < b.freeFrom; });
      if (oldest == slots.end() || oldest->freeFrom > entry) {
        slots.push_back({unsigned(table.slots.size()), 0});
        table.slots.push_back({life.bytes, device});
        oldest = std::prev(slots.end());
      }
      life.slot = oldest->index;
      oldest->freeFrom = life.getEnd() + 1;
    }
  auto place = [&](TableEntry &entry, const Use &use, bool isResult) {
    unsigned slot = lives[use.life].slot;
    if (entry.kind != TableEntry::Kind::Call)
      entry.slot = slot;
    else
      (isResult ? entry.results
                : entry.arguments)[use.place] = {TablePlace::Kind::Slot, slot};
  };
  for (auto [i, entry] : llvm::enumerate(entries)) {
    for (const Use &use : reads[i])
      place(entry, use, false);
    for (const Use &use : writes[i])
      place(entry, use, true);
  }
}

/// Makes each entry wait for entries of other streams that use its slots: a
/// reader waits for the writer, and a writer waits for the readers of the
/// slot's previous value.
void ListBuilder::addWaits() {
  struct State {
    std::optional<unsigned> writer;
    std::vector<unsigned> readers;
  };
  std::vector<State> states(table.slots.size());
  std::map<std::pair<int32_t, int32_t>, unsigned> waited; // last + 1
  for (unsigned i = 0; i < entries.size(); ++i) {
    TableEntry &entry = entries[i];
    std::set<unsigned, std::greater<>> needed;
    for (const Use &use : reads[i]) {
      State &state = states[lives[use.life].slot];
      needed.insert(*state.writer);
      state.readers.push_back(i);
    }
    for (const Use &use : writes[i]) {
      State &state = states[lives[use.life].slot];
      if (state.writer)
        needed.insert(*state.writer);
      needed.insert(state.readers.begin(), state.readers.end());
      state = {i, {}};
    }
    // A wait for an entry also waits for all earlier entries of the entry's
    // stream.
    for (unsigned other : needed) {
      int32_t of = entries[other].stream;
      unsigned &known = waited[{entry.stream, of}];
      if (of == entry.stream || other < known)
        continue;
      entry.after.push_back(other);
      known = other + 1;
    }
  }
}

std::vector<TableEntry> ListBuilder::finish() {
  assignSlots();
  addWaits();
  return std::move(entries);
}
