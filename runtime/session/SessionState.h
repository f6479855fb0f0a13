//===- SessionState.h - What a session owns -----------------------*- C++
//-*-===//

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

namespace heddle::rt {

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
  Region variables, arena, borders; ///< borders: arguments and results
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
  uint64_t seed = 0;
  int cores = 1;
  void *library = nullptr; ///< of dlopen
  std::vector<PlacedTensor> variables;
  std::vector<LoadedProgram> programs;
  std::deque<DeviceState> devices; ///< their addresses stay
  Status broken; ///< why no device can be used any more
  Team team;

  /// Loads the shared object and finds every program.
  Status openLibrary(const std::filesystem::path &directory);
  /// Places all tensors; touches no memory.
  Status place();
  /// Runs job(device) -> Status on all devices and gathers the first error.
  template <typename Job> Status runOnDevices(Job &&job);
  Status gatherError(bool allReturned);

  Status initializeVariables();
};

/// Copies between a global tensor in host memory, elements [first, first +
/// count), and the devices' blocks.
void scatter(const PlacedTensor &tensor, int64_t first, int64_t count,
             ConstBytes from);
void gather(const PlacedTensor &tensor, int64_t first, int64_t count, Bytes to);

/// Writes the elements of `tensor` that `device` holds to their initial values.
void initializeBlock(const PlacedTensor &tensor, const Initializer &init,
                     uint64_t seed, int32_t device, ThreadPool &pool);

template <typename Job> Status SessionState::runOnDevices(Job &&job) {
  if (!broken.ok())
    return broken;
  // A thread that hangs may call the job later, when this frame is gone; but it
  // has called it already, so only what the job refers to must live on, and
  // that is this state.
  auto work = [&job, this](int32_t index) {
    heddle_rt_device &device = *devices[size_t(index)].device;
    Status status;
    try {
      status = job(index);
    } catch (const std::exception &exception) {
      status = Status::error(exception.what());
    }
    if (!status.ok())
      device.fail(std::move(status));
    return device.error.ok();
  };
  // Peers need their own timeout to notice, and a little more to return.
  bool all = team.run(
      options.collectiveTimeout * 2 + std::chrono::milliseconds(2000), work);
  return gatherError(all);
}

} // namespace heddle::rt

#endif // HEDDLE_RT_SESSION_SESSIONSTATE_H
