//===- atomic_file.h - Replace a file whole or not at all -------*- C++ -*-===//
//
// A file that is written beside its destination under a temporary name. When it
// is complete, it takes the destination's place by rename(2), after fsync(2). A
// failure before that (a full disk above all) leaves the destination as it was
// and removes the temporary. If the destination is a link, the file that it
// points to is replaced. A destination that is no regular file (a device, a
// pipe) is refused.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_ATOMIC_FILE_H
#define HEDDLE_RT_ATOMIC_FILE_H

#include "heddle_rt/status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace heddle::runtime {

/// Movable, not copyable; one thread at a time.
class AtomicFile {
public:
  /// Opens a temporary in the folder of `path`. If `size` > 0, reserves that
  /// many bytes on the disk where the file system can, so that a full disk
  /// shows now rather than later.
  static Expected<AtomicFile> create(const std::string &path,
                                     uint64_t size = 0);

  AtomicFile(AtomicFile &&other) noexcept;
  AtomicFile &operator=(AtomicFile &&other) noexcept;
  ~AtomicFile(); ///< discards the temporary if it was not committed

  /// Writes all of `data` at `offset` bytes from the start.
  Status writeAt(uint64_t offset, std::span<const std::byte> data);
  /// Makes the content durable and closes the temporary: nothing can be written
  /// any more. To replace a set of files together, flush all, then commit all.
  Status flush();
  /// Flushes the file, unless that was done, and puts it in its place.
  Status commit();
  /// Removes the temporary.
  void discard();

  const std::string &path() const { return destination; }

private:
  AtomicFile() = default;
  Status failure(std::string_view action) const;

  std::string destination, temporary;
  int descriptor = -1;
};

/// Replaces the file at `path` by `text`.
Status writeFileAtomically(const std::string &path, std::string_view text);

} // namespace heddle::runtime

#endif // HEDDLE_RT_ATOMIC_FILE_H
