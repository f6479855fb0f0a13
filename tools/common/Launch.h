//===- Launch.h - Starting the processes of a job ---------------*- C++ -*-===//

#ifndef HEDDLE_TOOLS_COMMON_LAUNCH_H
#define HEDDLE_TOOLS_COMMON_LAUNCH_H

#include "CommandLine.h"

#include <filesystem>
#include <string>
#include <vector>

namespace heddle::tools {

struct LaunchFlags {
  int processes = 1; ///< on this machine, or on each of `hosts`
  int retries = 0;
  /// If not empty, prints the command lines for these hosts instead.
  std::vector<std::string> hosts;
  int port = 29500;           ///< on the first host
  std::filesystem::path logs; ///< folder for the output of other processes
  std::vector<std::string> command;
};

/// Adds `launch` to a program. It stores its exit code in `result`.
void addLaunchCommand(CLI::App &app, int &result);

/// Starts the processes on this machine and waits for them. Process 0 keeps the
/// standard output. When one fails, the others have some time to stop by
/// themselves. Starts all again at most `retries` times; commands that train
/// then resume. Returns the exit code of the process that failed first, or
/// exitSuccess.
int launch(const LaunchFlags &flags);

/// Returns the words of this process's own command line, the program's path
/// first.
std::vector<std::string> ownCommand();

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_COMMON_LAUNCH_H
