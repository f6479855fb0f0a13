//===- session.h - Loads an artifact and runs its programs ------*- C++ -*-===//
//
// A session is one loaded artifact: the devices of this process (threads),
// their memory, the compiled programs and the tables that call them. Callers
// see global tensors only; the session scatters them to the devices and
// assembles them again.
//
//   auto session = Session::load("gpt2.heddle");
//   if (!session.ok())
//     return report(session.message());
//   float loss;
//   Status status =
//       (*session)->run("step", {bytesOf(tokens), bytesOf(targets)},
//                       {writableBytesOf(loss), {}, {}}); // just the loss
//
// The processes of a job make the same calls in the same order. Each passes
// whole tensors as inputs and gets whole tensors as outputs. It uses the parts
// of the inputs that belong to its own ranks.
//
// A session is used by one thread at a time. After a device has failed, every
// later call that needs the devices returns that failure: load a new session
// and resume from a checkpoint.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_SESSION_H
#define HEDDLE_RT_SESSION_H

#include "heddle_rt/job.h"
#include "heddle_rt/manifest.h"
#include "heddle_rt/network.h"
#include "heddle_rt/status.h"
#include "heddle_rt/stream_order.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace heddle::runtime {

class Backend;

struct SessionOptions {
  /// Cores of each device. 0: the machine's cores divided by the devices, but
  /// at least 1.
  int coresPerDevice = 0;
  /// Replaces the manifest's seed.
  std::optional<uint64_t> seed;
  /// The ranks of this process; empty: all of them. Its session allocates,
  /// initializes and runs only what these ranks own. Without a job, no group of
  /// collectives may join them with other ranks.
  std::vector<int32_t> localRanks;
  /// The processes that run the artifact together; null: this process alone.
  /// Each process has the same number of consecutive ranks, which replace
  /// `localRanks`.
  std::shared_ptr<Job> job;
  /// Longest time that a collective waits for a peer. After it, the collective
  /// fails and names the peer.
  std::chrono::milliseconds collectiveTimeout{120'000};
  /// False: variables start as zeros, because a checkpoint will fill them.
  bool initializeVariables = true;
  /// If set, collectives and transfers take at least as long as on this
  /// network. Device k of the mesh is device k of the network.
  std::optional<NetworkInfo> network;
  /// Computes nothing: launches and library calls sleep for as long as a device
  /// of `network` would take, and collectives move no data. So variables and
  /// results mean nothing. Needs `network`.
  bool emulateCompute = false;
  /// Replaces the order that the environment variable HEDDLE_RT_STREAM_ORDER
  /// names ("earliest", "latest" or "random:SEED").
  std::optional<StreamOrder> streamOrder;
  /// Replaces the backend that serves the artifact, for tests. Must outlive the
  /// session.
  const Backend *backend = nullptr;
};

/// Dense row-major host memory of a whole global tensor. Type and shape are the
/// manifest's; the session checks the number of bytes.
using ConstBytes = std::span<const std::byte>;
using Bytes = std::span<std::byte>;

/// The bytes of a scalar or of a contiguous container.
template <typename T> ConstBytes bytesOf(const T &object) {
  if constexpr (std::is_arithmetic_v<T>)
    return std::as_bytes(std::span<const T>(&object, 1));
  else
    return std::as_bytes(std::span(object));
}
template <typename T> Bytes writableBytesOf(T &object) {
  if constexpr (std::is_arithmetic_v<T>)
    return std::as_writable_bytes(std::span<T>(&object, 1));
  else
    return std::as_writable_bytes(std::span(object));
}

/// A part of a whole tensor (Manifest::tensors) that ranks hold as one block.
/// The part begins at `start` and has the sizes `shape`.
struct OwnedBlock {
  size_t tensor = 0, variable = 0;
  int64_t block = 0; ///< of the variable's layout
  std::vector<int64_t> start, shape;
};

/// The memory of one device, in bytes.
struct DeviceMemory {
  size_t parameters = 0, optimizerState = 0, gradients = 0, counters = 0;
  size_t arena = 0; ///< shared by all programs: as large as the largest needs
  size_t argumentsAndResults = 0;
  size_t scratch = 0; ///< memory of library calls (attention, products)
  size_t total() const {
    return parameters + optimizerState + gradients + counters + arena +
           argumentsAndResults + scratch;
  }
};

/// Kinds of work. The time of each kind is measured.
enum class WorkKind { Matmul, Attention, Kernel, Collective, Copy };
constexpr size_t numWorkKinds = 5;
std::string_view name(WorkKind kind);

/// Seconds that a device's programs spent on each kind of work since the last
/// reset. `total` is the time from the call of a program to the end of its last
/// call. Calls of different streams overlap, so the kinds may sum to more.
struct DeviceTimes {
  std::array<double, numWorkKinds> seconds{};
  std::array<int64_t, numWorkKinds> calls{};
  double total = 0;

  DeviceTimes &operator+=(const DeviceTimes &other) {
    for (size_t kind = 0; kind < numWorkKinds; ++kind) {
      seconds[kind] += other.seconds[kind];
      calls[kind] += other.calls[kind];
    }
    total += other.total;
    return *this;
  }
};

/// Returns an error if this machine has too few cores for the devices: a core
/// serves at most 64. `Session::load` checks this too.
Status checkDevices(int64_t devices);

class Session {
public:
  /// Loads `manifest.json` and the shared object of an artifact directory,
  /// starts the devices, and allocates and initializes their memory. Refuses an
  /// artifact of another version, or one that needs a feature which this CPU
  /// lacks.
  static Expected<std::unique_ptr<Session>>
  load(const std::filesystem::path &directory,
       const SessionOptions &options = {});
  ~Session();
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  const Manifest &manifest() const;
  int numDevices() const;
  int coresPerDevice() const;
  uint64_t seed() const;
  /// A checksum of the artifact's manifest and code. Programs with the same
  /// fingerprint compute the same bits on the same machine.
  uint64_t fingerprint() const;
  /// The job of SessionOptions; null if there is none.
  Job *job() const;
  /// Returns the ranges [first, last) of rows of dimension 0 of an input's
  /// tensor that ranks of this process have.
  std::vector<std::pair<int64_t, int64_t>> localRows(size_t table,
                                                     size_t input) const;
  /// Returns true if nothing is computed: SessionOptions::emulateCompute.
  bool emulatesCompute() const;
  /// Returns the name of a GPU of this machine if the model was compiled for
  /// CPUs alone and could run on it; empty otherwise.
  std::string unusedGpu() const;

  /// Sets every variable to its initializer. The value of element i, counted in
  /// the global tensor, depends on (seed, name, i) alone.
  Status initializeVariables();

  /// Read and write variables as global tensors, with elements in row-major
  /// order. A range [first, first + count) of elements lets callers stream
  /// large variables. Reading takes the first of several replicas. Writing
  /// fills all replicas and never touches padding, which is zero.
  Status readVariable(size_t variable, Bytes to) const;
  Status writeVariable(size_t variable, ConstBytes from);
  Status readElements(size_t variable, int64_t first, int64_t count,
                      Bytes to) const;
  Status writeElements(size_t variable, int64_t first, int64_t count,
                       ConstBytes from);
  /// Read and write rows [first, first + count) of dimension 0.
  Status readRows(size_t variable, int64_t first, int64_t count,
                  Bytes to) const;
  Status writeRows(size_t variable, int64_t first, int64_t count,
                   ConstBytes from);
  /// Read and write elements of a whole tensor (manifest().tensors), which may
  /// be several variables (slices).
  Status readTensor(size_t tensor, int64_t first, int64_t count,
                    Bytes to) const;
  Status writeTensor(size_t tensor, int64_t first, int64_t count,
                     ConstBytes from);
  /// Returns the parts of variables that this process writes to checkpoints.
  /// Each block is owned by one of the ranks that hold it.
  std::vector<OwnedBlock> ownedBlocks() const;
  /// Reads elements [first, first + count) of an owned block.
  Status readBlock(const OwnedBlock &block, int64_t first, int64_t count,
                   Bytes to) const;
  /// Returns true if a rank of this process holds elements of a part of a whole
  /// tensor.
  bool holdsPart(size_t tensor, std::span<const int64_t> start,
                 std::span<const int64_t> shape) const;
  /// Read and write a variable or a whole tensor by name.
  Status readVariable(std::string_view name, Bytes to) const;
  Status writeVariable(std::string_view name, ConstBytes from);
  /// Checks byte by byte that the replicas of every variable are equal and that
  /// its padding is zero. An error names the variable, the devices and the
  /// element.
  Status checkReplicas() const;

  /// Runs a table on all devices. Scatters the inputs by the manifest's
  /// sharding and assembles the outputs; both are in the manifest's order. An
  /// input has the tensors of all micro-batches, one after another. So has an
  /// output that is made for each micro-batch. An output with an empty span is
  /// not copied. Allocates nothing.
  Status run(size_t table, std::span<const ConstBytes> inputs,
             std::span<const Bytes> outputs);
  Status run(std::string_view table, std::initializer_list<ConstBytes> inputs,
             std::initializer_list<Bytes> outputs);
  Status run(std::string_view table, const std::vector<ConstBytes> &inputs,
             const std::vector<Bytes> &outputs);

  /// Runs a table without a barrier (TableInfo::hasBarrier) up to `count`
  /// times: a rank begins the next run when it has ended its part of this one.
  /// Calls prepare(i) before it reads the inputs of run i. If prepare(i)
  /// returns false, no run follows. Calls finish(i) when `outputs` hold the
  /// results of run i, and times() returns the times of run i. Run i + 1 is
  /// under way then.
  Status runMany(size_t table, int64_t count,
                 std::span<const ConstBytes> inputs,
                 std::span<const Bytes> outputs,
                 const std::function<Expected<bool>(int64_t)> &prepare,
                 const std::function<Status(int64_t)> &finish);

  /// Return one entry for each device.
  std::vector<DeviceMemory> memory() const;
  std::vector<DeviceTimes> times() const;
  void resetTimes();

  /// Records every call in the last `runs` runs of each table from now on. The
  /// first of these runs allocate memory.
  void startTrace(size_t runs);
  /// Writes the recorded calls as Chrome trace JSON (chrome://tracing,
  /// Perfetto; docs/trace.md).
  Status writeTrace(const std::filesystem::path &file) const;

private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_SESSION_H
