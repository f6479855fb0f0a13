//===- ListBuilder.h - The entries of one device ----------------*- C++ -*-===//

#ifndef HEDDLE_LIB_LOWER_WRITEARTIFACT_LISTBUILDER_H
#define HEDDLE_LIB_LOWER_WRITEARTIFACT_LISTBUILDER_H

#include "heddle/Lower/Tables.h"
#include "llvm/ADT/DenseMap.h"

namespace heddle {

/// A value of one micro-batch that one part of the pipeline makes and other
/// parts read: the name of its ports, and the micro-batch.
using TableValue = std::pair<llvm::StringRef, int64_t>;

/// Writes the entries of one device of a pipeline, the slots for the values
/// between them, and the waits that the slots need.
class ListBuilder {
public:
  ListBuilder(EntryTable &table, int64_t device)
      : table(table), device(device) {}

  /// Adds an entry that reads and writes values. Slots follow at the end.
  void add(TableEntry entry,
           llvm::ArrayRef<std::pair<unsigned, TableValue>> reads,
           llvm::ArrayRef<std::pair<unsigned, TableValue>> writes,
           llvm::function_ref<int64_t(TableValue)> getBytes);
  std::vector<TableEntry> finish();

private:
  /// A value in memory: the entry that writes it and those that read it.
  struct Life {
    int64_t bytes = 0;
    unsigned writer = 0;
    std::vector<unsigned> readers;
    unsigned slot = 0;
    unsigned getEnd() const {
      return readers.empty() ? writer : readers.back();
    }
  };
  struct Use {
    unsigned place; ///< the index of the argument or result
    unsigned life;  ///< the value's index in `lives`
  };

  void assignSlots();
  void addWaits();

  EntryTable &table;
  int64_t device;
  std::vector<TableEntry> entries;
  std::vector<std::vector<Use>> reads, writes; ///< by entry
  std::vector<Life> lives;
  llvm::DenseMap<TableValue, unsigned> lifeOf; ///< indices in `lives`
};

} // namespace heddle

#endif // HEDDLE_LIB_LOWER_WRITEARTIFACT_LISTBUILDER_H
