//===- job.h - The processes that run one artifact --------------*- C++ -*-===//
//
// A job is a number of processes, on one machine or many, that run one artifact
// together. Each process has some of the ranks. Whoever starts the processes
// sets their numbers in the environment: `heddle launch`, torchrun, srun or
// mpirun (see `jobFromEnvironment`).
//
// Process 0 listens at the job's address until all processes have joined, and
// no longer. Each connection must first prove that it knows the job's key;
// nothing else that it sends is interpreted. The connections then stay: they
// carry signs of life and the first failure of any process. Data travels over
// Gloo, whose connections are opened when all processes have joined.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_JOB_H
#define HEDDLE_RT_JOB_H

#include "heddle_rt/status.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace heddle::runtime {

class Transport;

struct JobOptions {
  int32_t process = 0, processes = 1;
  /// Where process 0 listens.
  std::string address = "127.0.0.1";
  int port = 0;
  /// If not empty, process 0 takes any free port of `address` and writes it to
  /// this file, which the others read. It removes the file when all have
  /// joined.
  std::filesystem::path file;
  /// Descriptor of a socket on which process 0 listens already; -1: none.
  int listener = -1;
  std::string key; ///< the shared secret
  /// Time to wait for all processes to join.
  std::chrono::milliseconds joinTimeout{600'000};
  /// A process that gives no sign of life for this time is taken to hang.
  std::chrono::milliseconds hangTimeout{60'000};
};

/// Returns the job that the environment describes, or nothing if it names one
/// process or none. Reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT
/// (torchrun, `heddle launch`); otherwise srun's SLURM_PROCID and
/// SLURM_STEP_NUM_TASKS or OpenMPI's OMPI_COMM_WORLD_RANK and
/// OMPI_COMM_WORLD_SIZE, with MASTER_ADDR and MASTER_PORT. HEDDLE_JOB_FILE
/// names a shared file in place of the port, HEDDLE_JOB_KEY the shared secret.
Expected<std::optional<JobOptions>> jobFromEnvironment();

/// The membership of this process in a job. Any thread may call it, but
/// the functions from `exchange` to `any` and `leave` are called by one thread
/// at a time, and by all processes in the same order.
class Job {
public:
  /// Waits until all processes have joined. From then on this process ignores
  /// SIGPIPE, unless it handles it.
  static Expected<std::shared_ptr<Job>> join(const JobOptions &options);
  /// If `leave` was not called, the other processes see the destruction as a
  /// failure.
  ~Job();
  Job(const Job &) = delete;
  Job &operator=(const Job &) = delete;

  int32_t process() const;
  int32_t processes() const;
  /// Returns the number of processes on the host of this one.
  int32_t processesOnHost() const;
  /// Messages between the processes.
  Transport &transport() const;

  /// Says which ranks each process has, for messages: `count` consecutive ones.
  void setRanksPerProcess(int64_t count);

  /// Sends out[p] to each process p and receives in[p] from it. Both processes
  /// know the size of the message. Entries of this process are ignored.
  Status exchange(const std::vector<std::span<const std::byte>> &out,
                  const std::vector<std::span<std::byte>> &in);
  /// Gives every process the bytes of all, by process.
  Expected<std::vector<std::vector<std::byte>>>
  allGather(std::span<const std::byte> mine);
  /// Gives every process the text of process 0.
  Expected<std::string> fromFirst(std::string_view text);
  /// Returns true if any process passes true.
  Expected<bool> any(bool mine);

  /// Tells all processes that this one has failed. Returns the failure that
  /// came first in the job, which is the same for all.
  Status fail(const Status &why);
  /// Returns the job's first failure. Waits for it for some time, because a
  /// broken connection may be noticed before its cause is known.
  Status awaitFailure(std::chrono::milliseconds time) const;

  /// Calls `callback` once when the job fails, or at once if it has failed.
  /// Returns a number for `forget`, after which no call is under way.
  uint64_t onFailure(std::function<void(const Status &)> callback);
  void forget(uint64_t number);

  /// Leaves the job when all processes do, or after a failure.
  void leave();

private:
  struct Impl;
  explicit Job(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_JOB_H
