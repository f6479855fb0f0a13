//===- atomic_file.h - Replace a file whole or not at all -------*- C++ -*-===//
//
// Writes a file beside its destination under a temporary name. When the file is
// complete, fsync(2) and then rename(2) put it in the destination's place. A
// failure before the rename (for example a full disk) removes the temporary
// file and leaves the destination unchanged. If the destination is a link, the
// file that it points to is replaced. A destination that is no regular file (a
// device, a pipe) is refused.
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

/// A file under construction. Movable, not copyable; one thread at a time.
class AtomicFile {
public:
  /// Creates a temporary file in the folder of `path`. If `size` > 0, tries to
  /// reserve that many bytes, so that a full disk fails here and not in a later
  /// write. File systems that cannot reserve bytes are accepted.
  static Expected<AtomicFile> create(const std::string &path,
                                     uint64_t size = 0);

  AtomicFile(AtomicFile &&other) noexcept;
  AtomicFile &operator=(AtomicFile &&other) noexcept;
  ~AtomicFile(); ///< discards the temporary file unless it was committed

  /// Writes all of `data` at `offset` bytes from the start.
  Status writeAt(uint64_t offset, std::span<const std::byte> data);
  /// Makes the content durable and closes the temporary file; later writes
  /// fail. To replace a set of files together, flush all, then commit all.
  Status flush();
  /// Flushes the file if needed, then puts it in the destination's place.
  Status commit();
  /// Removes the temporary file.
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
