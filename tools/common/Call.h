//===- Call.h - Calling one program of an artifact --------------*- C++ -*-===//

#ifndef HEDDLE_TOOLS_COMMON_CALL_H
#define HEDDLE_TOOLS_COMMON_CALL_H

#include "Run.h"

namespace heddle::tools {

struct CallFlags {
  std::string program; ///< empty: the only program, or the one named `main`
  std::filesystem::path inputs, output;
  int cores = 0;
  EmulateFlags emulate;
};

void addCallFlags(CLI::App &app, CallFlags &flags);

/// Runs a program once on all devices of an artifact, with arguments from a
/// safetensors file. Returns the exit code. An argument or result has the name
/// that `heddle.name` gives it in the module; without that attribute it is
/// named `argument0`, `result0` and so on.
int runCall(const std::filesystem::path &artifact, const CallFlags &flags);

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_COMMON_CALL_H
