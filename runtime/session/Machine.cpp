//===- Machine.cpp - The devices that this machine can run ----------------===//

#include "session/Machine.h"
#include "heddle_rt/session.h"
#include "support/Message.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sys/sysinfo.h>
#include <thread>

namespace heddle::runtime {

/// Devices wait for each other in every collective, and those that share a core
/// take turns on it. More devices than this would hardly progress.
static constexpr int64_t kMaxDevicesPerCore = 64;

Status checkDevices(int64_t devices) {
  int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  int64_t most = cores * kMaxDevicesPerCore;
  if (devices <= most)
    return Status::success();
  return errorOf("expected at most ", most, " devices on this machine, ",
                 kMaxDevicesPerCore, " for each of its ", cores, " cores, got ",
                 devices, ": choose a smaller mesh, or compile only");
}

/// Returns the bytes of memory and swap, or the limit of the process's
/// container if that is lower.
static double machineBytes() {
  struct sysinfo info {};
  if (::sysinfo(&info) != 0)
    return INFINITY;
  double bytes =
      (double(info.totalram) + double(info.totalswap)) * double(info.mem_unit);
  double limit = 0;
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> limit) // fails on "max"
    bytes = std::min(bytes, limit);
  return bytes;
}

Status checkMemory(int64_t devices, double bytesPerDevice) {
  double total = double(devices) * bytesPerDevice, most = machineBytes();
  if (total <= most)
    return Status::success();
  char numbers[2][32];
  std::snprintf(numbers[0], sizeof numbers[0], "%.1f", most / double(1 << 30));
  std::snprintf(numbers[1], sizeof numbers[1], "%.1f",
                bytesPerDevice / double(1 << 30));
  return errorOf("expected at most ", numbers[0],
                 " GiB of memory, which this machine has, got ", devices,
                 " device(s) with ", numbers[1],
                 " GiB each: choose a smaller model, batch or mesh");
}

} // namespace heddle::runtime
