//===- SessionState.h - State of a session and its devices ------*- C++ -*-===//

#ifndef HEDDLE_RT_SESSION_SESSIONSTATE_H
#define HEDDLE_RT_SESSION_SESSIONSTATE_H

#include "device/Device.h"
#include "heddle_rt/session.h"
#include "session/Layout.h"
#include "session/Region.h"
#include "session/Team.h"

#include <deque>
#include <memory>
#include <vector>

namespace heddle::runtime {

/// A tensor's layout, and the address of each device's block.
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
  Region variables, arena, borders; ///< borders: arguments and results
  std::vector<int64_t> coordinates;
  std::vector<uint8_t *> variablePointers;
  std::vector<std::vector<uint8_t *>> argumentPointers, resultPointers;
  std::vector<heddle_rt_frame> frames; ///< by program
};

/// The state of a session. The devices' threads share it: see Team.
struct SessionState {
  ~SessionState();

  Manifest manifest;
  SessionOptions options;
  uint64_t seed = 0;
  int cores = 1;
  void *library = nullptr; ///< handle from dlopen
  std::vector<PlacedTensor> variables;
  std::vector<LoadedProgram> programs;
  std::deque<DeviceState> devices; ///< a deque keeps their addresses
  Status broken;                   ///< if set, no device can be used
  Team team;

  /// Loads the shared object and finds every program in it.
  Status openLibrary(const std::filesystem::path &directory);
  /// Assigns every tensor its address on every device. Touches no memory.
  Status place();
  /// Runs a job on all devices and returns the first error. The job's data must
  /// lie in this state, not on a stack, because a device that hangs may use it
  /// after the caller has returned.
  using Job = Status (*)(SessionState &state, int32_t device);
  Status runOnDevices(Job newJob);
  Status gatherError(bool allReturned);

  Status touchMemory();
  Status initializeVariables();
  Status runProgram(size_t program);

private:
  Job job = nullptr;
  size_t currentProgram = 0;
};

/// Copies elements [first, first + count) between a global tensor in host
/// memory and the devices' blocks.
void scatter(const PlacedTensor &tensor, int64_t first, int64_t count,
             ConstBytes from);
void gather(const PlacedTensor &tensor, int64_t first, int64_t count, Bytes to);

/// Sets the elements of `tensor` that `device` holds to their initial values.
void initializeBlock(const PlacedTensor &tensor, const VariableInfo &variable,
                     uint64_t seed, int32_t device, ThreadPool &pool);

} // namespace heddle::runtime

#endif // HEDDLE_RT_SESSION_SESSIONSTATE_H
