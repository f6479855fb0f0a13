//===- SessionState.h - State of a session and its devices ------*- C++ -*-===//

#ifndef HEDDLE_RT_SESSION_SESSIONSTATE_H
#define HEDDLE_RT_SESSION_SESSIONSTATE_H

#include "device/Backend.h"
#include "heddle_rt/session.h"
#include "session/Layout.h"
#include "session/Team.h"

#include <deque>
#include <memory>
#include <vector>

namespace heddle::runtime {

/// A tensor's layout and where each device holds its block.
struct PlacedTensor {
  const TensorInfo *info;
  Layout layout;
  std::vector<uint8_t *> buffers; ///< by device
};

struct LoadedProgram {
  const ProgramInfo *info;
  heddle_rt_program_fn function;
  std::vector<PlacedTensor> arguments, results;
};

/// One device's memory and frames.
struct DeviceState {
  std::unique_ptr<heddle_rt_device> device;
  /// Memory; `borders` holds arguments and results.
  std::unique_ptr<Region> variables, arena, borders;
  std::vector<int64_t> coordinates;
  std::vector<uint8_t *> variablePointers;
  std::vector<std::vector<uint8_t *>> argumentPointers, resultPointers;
  std::vector<heddle_rt_frame> frames; ///< by program
};

/// Shared with the devices' threads: see Team.
struct SessionState {
  ~SessionState();

  Manifest manifest;
  SessionOptions options;
  const Backend *backend = nullptr;
  uint64_t seed = 0;
  int cores = 1;
  void *library = nullptr; ///< of dlopen
  std::vector<PlacedTensor> variables;
  std::vector<LoadedProgram> programs;
  std::deque<DeviceState> devices; ///< their addresses stay
  Status broken;                   ///< why no device can be used any more
  Team team;

  /// Loads the shared object and finds every program.
  Status openLibrary(const std::filesystem::path &directory);
  /// Places all tensors; touches no memory.
  Status place();
  /// Runs a job on all devices and returns the first error. The job's data lies
  /// in this state, not on a stack: a device that hangs may still use it when
  /// the caller is gone.
  using Job = Status (*)(SessionState &state, int32_t device);
  Status runOnDevices(Job newJob);
  Status gatherError(bool allReturned);

  Status touchMemory();
  Status initializeVariables();
  Status runProgram(size_t program);

  /// Copies elements [first, first + count) between a global tensor in host
  /// memory and the devices' blocks.
  Status scatter(const PlacedTensor &tensor, int64_t first, int64_t count,
                 ConstBytes from);
  Status gather(const PlacedTensor &tensor, int64_t first, int64_t count,
                Bytes to) const;

private:
  Job job = nullptr;
  size_t currentProgram = 0;
};

/// Sets the elements of `tensor` that `device` holds to their initial values.
Status initializeBlock(const PlacedTensor &tensor, const VariableInfo &variable,
                       uint64_t seed, heddle_rt_device &device);

} // namespace heddle::runtime

#endif // HEDDLE_RT_SESSION_SESSIONSTATE_H
