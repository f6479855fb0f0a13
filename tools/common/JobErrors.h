//===- JobErrors.h - Errors that all processes of a job find ----*- C++ -*-===//
//
// All processes of a job have the same command line and files, so all of them
// find the same mistakes. Process 0 prints its errors at once. The others leave
// theirs to `launch`, which prints those that process 0 has not printed.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_COMMON_JOBERRORS_H
#define HEDDLE_TOOLS_COMMON_JOBERRORS_H

#include <string>
#include <string_view>
#include <vector>

namespace heddle::tools {

/// The errors of the processes that one launcher starts, in a file in memory.
class JobErrors {
public:
  JobErrors();
  ~JobErrors();
  JobErrors(const JobErrors &) = delete;
  JobErrors &operator=(const JobErrors &) = delete;

  /// Makes the program that replaces this process, a child, record its errors.
  /// Without `records`, it prints all of them.
  void inherit(bool records) const;

  /// Returns the errors that process 0 has not printed, as "process 1:
  /// MESSAGE", each message once. If process 0 has failed by itself, leaves out
  /// that others could not join it.
  std::vector<std::string> takeOthers(bool hasFirstFailed) const;

private:
  int file = -1;
};

/// Records an error of this process if a launcher asks for it. Returns whether
/// the launcher prints it, so that this process must not.
bool recordError(std::string_view message);

/// Returns whether a launcher prints the errors of this process.
bool leavesErrors();

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_COMMON_JOBERRORS_H
