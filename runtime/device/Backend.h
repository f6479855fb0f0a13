//===- Backend.h - Devices of one kind --------------------------*- C++ -*-===//

#ifndef HEDDLE_RT_DEVICE_BACKEND_H
#define HEDDLE_RT_DEVICE_BACKEND_H

#include "communicators/Network.h"
#include "device/CallTimes.h"
#include "device/Device.h"
#include "heddle_rt/job.h"
#include "heddle_rt/kernel_times.h"
#include "heddle_rt/manifest.h"
#include "heddle_rt/status.h"
#include "heddle_rt/stream_order.h"

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::runtime {

struct DeviceOptions {
  /// The mesh, with one rank for each of its elements, and its groups.
  std::vector<MeshAxis> mesh;
  std::vector<GroupInfo> groups;
  std::vector<int32_t> ranks; ///< those of this process
  /// The processes that have the other ranks; null: this one has all of them.
  std::shared_ptr<Job> job = {};
  /// By stream: bytes in which a rank stages sums across processes.
  std::vector<int64_t> staging = {};
  int coresPerDevice = 1;
  int streams = 1;
  StreamOrder streamOrder;
  std::chrono::milliseconds collectiveTimeout{120'000};
  /// Collectives and transfers are as slow as on this network; null: none.
  std::shared_ptr<Network> network;
  /// Devices compute nothing and move no data: calls sleep for these times.
  /// Null: they compute.
  std::shared_ptr<const CallTimes> callTimes = {};
  /// What the artifact has for these devices, and the artifact's folder. Null
  /// if there is no artifact.
  const CodeInfo *code = nullptr;
  std::filesystem::path directory = {};
  /// `heddle_attentions` of the artifact's library; null: it has none.
  const heddle_rt_attention_call *attentions = nullptr;
  /// `heddle_products` of the artifact's library; null: it has none.
  const heddle_rt_matmul_desc *const *products = nullptr;
};

/// Makes devices of one kind.
class Backend {
public:
  virtual ~Backend();

  /// An error if this machine cannot run the code: it lacks a feature of the
  /// CPU, or the device.
  virtual Status checkTarget(const CodeInfo &code) const = 0;
  /// An error if this machine cannot serve so many devices.
  virtual Status checkDevices(int64_t devices) const = 0;
  /// An error if the devices, each with all of these parts, need more memory
  /// than there is.
  virtual Status checkMemory(int64_t devices,
                             std::span<const MemoryPart> parts) const = 0;
  /// The default number of the host's cores for each of `devices` devices.
  virtual int defaultCores(int64_t devices) const = 0;

  /// Makes the devices of the ranks of this process, with communicators that
  /// join them with each other and with the ranks of other processes. Throws
  /// std::system_error if the system refuses a thread.
  virtual Expected<std::vector<std::unique_ptr<heddle_rt_device>>>
  makeDevices(const DeviceOptions &options) const = 0;

  /// Does the work of timeKernels() of heddle_rt/kernel_times.h for the code of
  /// an artifact, which lies in a folder. An error if the devices have no
  /// kernels of their own.
  virtual Expected<KernelTimes>
  timeKernels(const CodeInfo &code,
              const std::filesystem::path &directory) const;
};

/// The kinds of devices that artifacts are compiled for.
constexpr std::string_view cpuKind = "cpu", cudaKind = "cuda";

/// The backend of a kind of devices; null if this build has none.
const Backend *findBackend(std::string_view kind);

/// Returns the name and compute capability of the GPU that programs for GPUs
/// would use; empty: there is none, or this build has no backend for it.
std::string findGpu();

} // namespace heddle::runtime

#endif // HEDDLE_RT_DEVICE_BACKEND_H
