//===- Call.h - Calling one program of an artifact --------------*- C++ -*-===//

#ifndef HEDDLE_TOOLS_COMMON_CALL_H
#define HEDDLE_TOOLS_COMMON_CALL_H

#include "Run.h"

namespace heddle::tools {

struct CallFlags {
  std::string program; ///< empty: the only program, or `main`
  std::filesystem::path inputs, output;
  int cores = 0;
};

void addCallFlags(CLI::App &app, CallFlags &flags);

/// Runs a program once on all devices of an artifact, with arguments from a
/// safetensors file. Returns the exit code. Arguments and results are named by
/// `heddle.name` in the module or, without it, `argument0`, `result0`.
int runCall(const std::filesystem::path &artifact, const CallFlags &flags);

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_COMMON_CALL_H
