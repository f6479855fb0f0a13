//===- JobErrors.cpp - Errors that all processes of a job find ------------===//

#include "JobErrors.h"

#include <cstdlib>
#include <set>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace heddle;
using namespace heddle::tools;

/// The environment variable with the file of errors: its descriptor, and its
/// identity, because a program in between may have closed the file and opened
/// another one with the same descriptor.
static constexpr const char *variable = "HEDDLE_JOB_ERRORS";

/// The beginning of the error of a process that finds no process 0.
static constexpr std::string_view cannotJoin = "cannot join the job";

/// Returns the value of the variable for an open file.
static std::string describeFile(int file) {
  struct stat status {};
  if (::fstat(file, &status) != 0)
    return "";
  return std::to_string(file) + " " + std::to_string(status.st_dev) + " " +
         std::to_string(status.st_ino);
}

/// Returns the file of errors, or -1 if there is none.
static int getFile() {
  const char *value = std::getenv(variable);
  if (!value)
    return -1;
  int file = std::atoi(value);
  return describeFile(file) == value ? file : -1;
}

static std::string getRank() {
  const char *rank = std::getenv("RANK");
  return rank ? rank : "0";
}

/// Returns the beginning of the errors of a process, by its number.
static std::string getPrefix(const std::string &rank) {
  return "process " + rank + ": ";
}

//===----------------------------------------------------------------------===//
// In the processes
//===----------------------------------------------------------------------===//

bool tools::leavesErrors() { return getFile() >= 0 && getRank() != "0"; }

bool tools::recordError(std::string_view message) {
  int file = getFile();
  if (file < 0)
    return false;
  std::string rank = getRank(), prefix = getPrefix(rank);
  if (message.substr(0, prefix.size()) == prefix)
    message.remove_prefix(prefix.size());
  // The file is only appended to, so one write is one record.
  std::string record = rank + ' ' + std::string(message) + '\0';
  bool isWritten = ::write(file, record.data(), record.size()) ==
                   static_cast<ssize_t>(record.size());
  return isWritten && rank != "0";
}

//===----------------------------------------------------------------------===//
// In the launcher
//===----------------------------------------------------------------------===//

JobErrors::JobErrors() : file(::memfd_create("errors", MFD_CLOEXEC)) {
  // Linux does not lock the offset that processes share in such a file. Without
  // O_APPEND, of two records written at the same time one is lost.
  if (file >= 0)
    ::fcntl(file, F_SETFL, O_APPEND);
}

JobErrors::~JobErrors() {
  if (file >= 0)
    ::close(file);
}

void JobErrors::inherit(bool records) const {
  if (file < 0 || !records) {
    ::unsetenv(variable);
    return;
  }
  ::fcntl(file, F_SETFD, 0);
  ::setenv(variable, describeFile(file).c_str(), 1);
}

std::vector<std::string> JobErrors::takeOthers(bool hasFirstFailed) const {
  std::string text;
  char part[4096];
  for (ssize_t size = 0;
       (size = ::pread(file, part, sizeof part, off_t(text.size()))) > 0;)
    text.append(part, size_t(size));
  std::set<std::string> printed;
  std::vector<std::pair<std::string, std::string>> records;
  for (size_t at = 0, end = 0; (end = text.find('\0', at)) != std::string::npos;
       at = end + 1) {
    size_t space = text.find(' ', at);
    std::string rank = text.substr(at, space - at),
                message = text.substr(space + 1, end - space - 1);
    if (rank == "0")
      printed.insert(message);
    else
      records.emplace_back(rank, message);
  }
  std::vector<std::string> others;
  for (const auto &[rank, message] : records)
    if (!(hasFirstFailed && message.rfind(cannotJoin, 0) == 0) &&
        printed.insert(message).second)
      others.push_back(getPrefix(rank) + message);
  return others;
}
