//===- Call.h - Calling one program of an artifact --------------*- C++ -*-===//

#ifndef HEDDLE_TOOLS_COMMON_CALL_H
#define HEDDLE_TOOLS_COMMON_CALL_H

#include "Run.h"

namespace heddle::tools {

struct CallFlags {
  std::string program; ///< empty: the only one, or main
  std::filesystem::path inputs, output;
  int cores = 0;
};

void addCallFlags(CLI::App &app, CallFlags &flags);

/// Runs a program of an artifact once on all its devices, with arguments from
/// a safetensors file; the exit code. Arguments and results go by their names
/// (`heddle.name` in the module) or, without one, by `argument0`,
/// `result0`.
int runCall(const std::filesystem::path &artifact, const CallFlags &flags);

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_COMMON_CALL_H
