//===- BufferSharing.h - Tensors that share memory --------------*- C++ -*-===//
//
// Decides which tensors of a straight-line program share memory. A *content* is
// the bytes of one tensor, with a closed interval of positions: from the op
// that writes them to the last op that reads them. An op that runs in the
// background also reads and writes during an interval of positions: it is
// ordered with all ops at positions before and behind its interval. A *group*
// is memory that holds several contents, each at an offset. Two contents of a
// group may overlap in bytes if
//  - they hold the same values (views; a slice and its stack), or
//  - their intervals do not meet, or
//  - they meet at the one op that reads the first and writes the second, and
//    this op can work in place (`mayOverwrite`).
//
// A group lies in the arena, or in a given memory (of a variable, argument or
// result), which limits its extent. The class works on numbers, not on IR.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_LOWER_PLANARENAS_BUFFERSHARING_H
#define HEDDLE_LIB_LOWER_PLANARENAS_BUFFERSHARING_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>
#include <functional>

namespace heddle {

class BufferSharing {
public:
  /// `mayOverwrite(read, written)` returns whether the op that writes `written`
  /// and is the last to read `read` can work in place. It is asked only if both
  /// contents start at the same byte and have the same size.
  explicit BufferSharing(std::function<bool(int, int)> mayOverwrite)
      : mayOverwrite(std::move(mayOverwrite)) {}

  /// Adds a content in a group of its own and returns its number. The content
  /// is never live if last < first.
  int add(int64_t bytes, int64_t first, int64_t last);
  /// Records that the op that writes the content runs in the background, from
  /// the content's first position to position `ready`.
  void setReady(int content, int64_t ready) { contents[content].ready = ready; }
  /// Puts the content's group into a given memory of the content's size.
  void pin(int content, int memory);

  void extend(int content, int64_t last);
  /// Records that the content has the values of `other`, starting at byte
  /// `offset` of `other`. The contents may lie anywhere.
  void setValues(int content, int other, int64_t offset = 0);
  /// Records that the content has the values of the parts, one after the other.
  void setValues(int content, llvm::ArrayRef<int> parts);
  /// Merges the groups of a and b so that b lies `offset` bytes after a. If
  /// that is impossible, changes nothing and returns false.
  bool tryPlace(int a, int b, int64_t offset);

  int64_t getFirst(int content) const { return contents[content].first; }
  int64_t getLast(int content) const { return contents[content].last; }
  int64_t getBytes(int content) const { return contents[content].bytes; }
  int getGroup(int content) const { return contents[content].group; }
  /// Returns the content's offset within its group, which starts at 0.
  int64_t getOffset(int content) const;
  /// Returns whether both contents are in one group and have a byte in common.
  bool overlap(int a, int b) const;
  llvm::ArrayRef<int> getMembers(int group) const {
    return groups[group].members;
  }
  /// Returns the given memory in which the group lies, or -1 for the arena.
  int getMemory(int group) const { return groups[group].memory; }
  int64_t getBytesOfGroup(int group) const {
    return groups[group].high - groups[group].low;
  }
  /// Returns the first and last position at which a content of the group is
  /// live.
  std::pair<int64_t, int64_t> getLife(int group) const;
  size_t getNumGroups() const { return groups.size(); }

private:
  /// A run of bytes whose values were computed in content `origin`.
  struct Values {
    int64_t bytes;
    int origin;
    int64_t offset; ///< within the origin
  };
  struct Content {
    int64_t bytes, first, last;
    int64_t ready; ///< the position at which it is written
    int group;
    int64_t offset; ///< from the group's origin, may be negative
    llvm::SmallVector<Values, 1> values;
  };
  struct Group {
    llvm::SmallVector<int, 2> members;
    int64_t low = 0, high = 0; ///< extent, relative to the group's origin
    int memory = -1;           ///< the given memory, or -1
    int64_t memoryLow = 0, memoryHigh = 0;
  };

  /// Returns whether byte i of x has the same value as byte i + shift of y, for
  /// all bytes that both have.
  static bool sameValues(const Content &x, const Content &y, int64_t shift);
  static void append(llvm::SmallVectorImpl<Values> &list, Values values);
  bool conflict(int a, int b, int64_t shiftOfB) const;

  std::function<bool(int, int)> mayOverwrite;
  llvm::SmallVector<Content> contents;
  llvm::SmallVector<Group> groups;
};

} // namespace heddle

#endif // HEDDLE_LIB_LOWER_PLANARENAS_BUFFERSHARING_H
