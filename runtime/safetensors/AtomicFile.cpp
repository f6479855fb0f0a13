//===- AtomicFile.cpp - Replace a file whole or not at all ----------------===//

#include "heddle_rt/atomic_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

using namespace heddle::runtime;

static std::string parentFolder(const std::string &path) {
  std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

Status AtomicFile::failure(std::string_view action) const {
  int code = errno;
  return error("cannot " + std::string(action) + " '" + destination +
               "': " + std::strerror(code));
}

Expected<AtomicFile> AtomicFile::create(const std::string &path,
                                        uint64_t size) {
  AtomicFile file;
  std::filesystem::path target = path;
  std::error_code failed;
  // If the path is a link, replace the file that it points to.
  if (std::filesystem::is_symlink(target, failed))
    if (auto pointee = std::filesystem::canonical(target, failed); !failed)
      target = pointee;
  file.destination = target.string();
  if (target.filename().empty())
    return error("cannot write '" + path + "': it names no file");
  std::error_code ignored;
  if (std::filesystem::is_directory(target, ignored))
    return error("cannot write '" + path + "': it is a directory");
  // A rename would replace a device or a pipe instead of writing to it.
  if (std::filesystem::exists(target, ignored) &&
      !std::filesystem::is_regular_file(target, ignored))
    return error("cannot write '" + path + "': it is not a regular file");

  // The name contains the process id and a counter. mkstemp would make a
  // private file instead of one with the user's umask.
  std::string stem = parentFolder(file.destination) + "/." +
                     target.filename().string() + ".tmp." +
                     std::to_string(::getpid()) + ".";
  for (unsigned attempt = 0; attempt < 10000; ++attempt) {
    std::string name = stem + std::to_string(attempt);
    file.descriptor =
        ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file.descriptor >= 0) {
      file.temporary = std::move(name);
      break;
    }
    if (errno != EEXIST)
      return file.failure("create");
  }
  if (file.descriptor < 0)
    return error("cannot create '" + path + "': temporaries '" + stem +
                 "*' are left over; remove them");

  // Not every file system can reserve space. On others, a later write fails.
  if (size > 0 &&
      ::fallocate(file.descriptor, 0, 0, static_cast<off_t>(size)) != 0 &&
      (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
    std::string action =
        "reserve " + std::to_string(size) + " bytes on disk for";
    return file.failure(action);
  }
  return file;
}

AtomicFile::AtomicFile(AtomicFile &&other) noexcept
    : destination(std::move(other.destination)),
      temporary(std::move(other.temporary)), descriptor(other.descriptor) {
  other.temporary.clear();
  other.descriptor = -1;
}

AtomicFile &AtomicFile::operator=(AtomicFile &&other) noexcept {
  if (this != &other) {
    discard();
    destination = std::move(other.destination);
    temporary = std::move(other.temporary);
    descriptor = other.descriptor;
    other.temporary.clear();
    other.descriptor = -1;
  }
  return *this;
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() {
  int code = errno; // the calls below must not overwrite the cause of a failure
  if (descriptor >= 0)
    ::close(descriptor);
  descriptor = -1;
  if (!temporary.empty())
    ::unlink(temporary.c_str());
  temporary.clear();
  errno = code;
}

Status AtomicFile::writeAt(uint64_t offset, std::span<const std::byte> data) {
  if (descriptor < 0)
    return error("cannot write '" + destination + "': it is closed");
  while (!data.empty()) {
    ssize_t written = ::pwrite(descriptor, data.data(), data.size(),
                               static_cast<off_t>(offset));
    if (written < 0) {
      if (errno == EINTR)
        continue;
      return failure("write");
    }
    if (written == 0) {
      errno = ENOSPC;
      return failure("write");
    }
    offset += static_cast<uint64_t>(written);
    data = data.subspan(static_cast<size_t>(written));
  }
  return Status();
}

Status AtomicFile::flush() {
  if (descriptor < 0)
    return temporary.empty()
               ? error("cannot write '" + destination + "': it is closed")
               : Status();
  if (::fsync(descriptor) != 0)
    return failure("write");
  int closed = ::close(descriptor);
  descriptor = -1;
  // Network file systems may report a full disk only here.
  if (closed != 0)
    return failure("write");
  return Status();
}

Status AtomicFile::commit() {
  HEDDLE_RT_RETURN_IF_ERROR(flush());
  if (::rename(temporary.c_str(), destination.c_str()) != 0)
    return failure("replace");
  temporary.clear();
  // The new name is durable once its folder is. Some file systems cannot sync a
  // folder. That is no error, because the file is complete either way.
  int folder = ::open(parentFolder(destination).c_str(),
                      O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    (void)::fsync(folder);
    ::close(folder);
  }
  return Status();
}

Status heddle::runtime::writeFileAtomically(const std::string &path,
                                            std::string_view text) {
  Expected<AtomicFile> file = AtomicFile::create(path, text.size());
  if (!file.ok())
    return file.status();
  HEDDLE_RT_RETURN_IF_ERROR(
      file->writeAt(0, std::as_bytes(std::span(text.data(), text.size()))));
  return file->commit();
}
