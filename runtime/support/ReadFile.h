//===- ReadFile.h - The content of a file -----------------------*- C++ -*-===//

#ifndef HEDDLE_RT_SUPPORT_READFILE_H
#define HEDDLE_RT_SUPPORT_READFILE_H

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

namespace heddle::runtime {

/// Returns the content of a file. Returns nullopt and sets errno if there is no
/// such file, or if it cannot be read, as a folder.
inline std::optional<std::string> readFile(const std::filesystem::path &file) {
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  stream.peek(); // finds what cannot be read; an iterator would throw
  if (stream.fail()) {
    errno = errno ? errno : EIO;
    return std::nullopt;
  }
  std::ostringstream content;
  content << stream.rdbuf();
  return std::move(content).str();
}

} // namespace heddle::runtime

#endif // HEDDLE_RT_SUPPORT_READFILE_H
