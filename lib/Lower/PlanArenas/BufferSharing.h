//===- BufferSharing.h - Tensors that share memory --------------*- C++ -*-===//
//
// Decides which tensors of a straight-line program share memory. A *content* is
// the bytes of one tensor with a closed interval of positions, from the op that
// writes them to the last op that reads them. An op that runs in the background
// reads and writes during an interval of positions, too: whatever happens at a
// position before it, or behind it, is ordered. A *group* is memory in which
// several contents lie, each at an offset. Two contents whose bytes overlap may
// be in one group if
//  - they hold the same values (views; a part and the stack it is a part of),
//  or
//  - their intervals do not meet, or
//  - they meet at the one op that reads the first and writes the second, and
//    this op can work in place (`mayOverwrite`).
//
// A group lies in the arena, or in a given memory (of a variable, argument or
// result), which limits its extent.
//
// Knows no IR.
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
  /// `mayOverwrite(read, written)`: both contents start at the same byte and
  /// have the same size; the op that writes `written` is the last to read
  /// `read`.
  explicit BufferSharing(std::function<bool(int, int)> mayOverwrite)
      : mayOverwrite(std::move(mayOverwrite)) {}

  /// Adds a content in a group of its own. It is never live if last < first.
  int add(int64_t bytes, int64_t first, int64_t last);
  /// Says that the op that writes the content runs in the background, from the
  /// content's first position to this one.
  void setReady(int content, int64_t ready) { contents[content].ready = ready; }
  /// Puts the content's group into a given memory of the content's size.
  void pin(int content, int memory);

  void extend(int content, int64_t last);
  /// Says that the content has the values of another, from byte `offset` on,
  /// wherever the two lie.
  void setValues(int content, int other, int64_t offset = 0);
  /// Says that the content has the values of the parts, one after another.
  void setValues(int content, llvm::ArrayRef<int> parts);
  /// Moves b's group so that b lies `offset` bytes after a. False, and nothing
  /// changes, if that is impossible.
  bool tryPlace(int a, int b, int64_t offset);

  int64_t getFirst(int content) const { return contents[content].first; }
  int64_t getLast(int content) const { return contents[content].last; }
  int64_t getBytes(int content) const { return contents[content].bytes; }
  int getGroup(int content) const { return contents[content].group; }
  /// The offset within the group, whose lowest content has offset 0.
  int64_t getOffset(int content) const;
  /// Whether both are in one group and have a byte in common.
  bool overlap(int a, int b) const;
  llvm::ArrayRef<int> getMembers(int group) const {
    return groups[group].members;
  }
  /// The given memory that the group lies in; -1 if it lies in the arena.
  int getMemory(int group) const { return groups[group].memory; }
  int64_t getBytesOfGroup(int group) const {
    return groups[group].high - groups[group].low;
  }
  /// The first and last position at which a content of the group is live.
  std::pair<int64_t, int64_t> getLife(int group) const;
  size_t getNumGroups() const { return groups.size(); }

private:
  /// A run of bytes whose values were first made in content `origin`.
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
    int64_t low = 0, high = 0; ///< extent from the origin
    int memory = -1;           ///< its extent is the pinned content's
    int64_t memoryLow = 0, memoryHigh = 0;
  };

  /// Whether byte i of x has the value of byte i + shift of y, for all bytes
  /// that both have.
  static bool sameValues(const Content &x, const Content &y, int64_t shift);
  static void append(llvm::SmallVectorImpl<Values> &list, Values values);
  bool conflict(int a, int b, int64_t shiftOfB) const;

  std::function<bool(int, int)> mayOverwrite;
  llvm::SmallVector<Content> contents;
  llvm::SmallVector<Group> groups;
};

} // namespace heddle

#endif // HEDDLE_LIB_LOWER_PLANARENAS_BUFFERSHARING_H
