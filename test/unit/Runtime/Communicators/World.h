//===- World.h - Backends of the conformance suite --------------*- C++ -*-===//
//
// To join the conformance suite, a backend of communication implements World,
// which starts the ranks and runs a function on each. Members of a job are
// usually processes. Here they are threads of one process, which share nothing
// but that: they connect and exchange messages as processes do.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_RUNTIME_WORLD_H
#define HEDDLE_TEST_RUNTIME_WORLD_H

#include "backends/cpu/communicators/ProcessCommunicator.h"
#include "backends/cpu/threads/ThreadPool.h"
#include "communicators/EmulatedLinks.h"
#include "processes/GlooTransport.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <unistd.h>

namespace heddle::runtime {

class World {
public:
  virtual ~World() = default;
  virtual void
  run(const std::function<void(int32_t rank, Communicator &)> &body) = 0;
};

struct WorldOptions {
  std::vector<MeshAxis> mesh;
  std::vector<std::vector<int32_t>> groups;
  std::chrono::milliseconds timeout{60'000};
  int cores = 1;
  std::shared_ptr<Network> network{}; ///< if set, its links are emulated
};

class ThreadWorld final : public World {
public:
  explicit ThreadWorld(const WorldOptions &options) {
    int64_t ranks = 1;
    for (const MeshAxis &axis : options.mesh)
      ranks *= axis.size;
    std::vector<std::vector<ThreadPool *>> pointers;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      pools.push_back(std::make_unique<ThreadPool>(options.cores, false));
      pointers.push_back({pools.back().get()});
    }
    std::vector<GroupInfo> groups;
    for (const std::vector<int32_t> &axes : options.groups)
      groups.push_back({axes, {}});
    communicators = makeThreadCommunicators(options.mesh, groups, pointers,
                                            {options.timeout, /*spin=*/false});
    if (options.network)
      communicators = emulateLinks(std::move(communicators), options.mesh,
                                   groups, options.network, options.timeout);
  }

  void run(const std::function<void(int32_t, Communicator &)> &body) override {
    std::vector<std::thread> threads;
    threads.reserve(communicators.size());
    for (size_t rank = 0; rank < communicators.size(); ++rank)
      threads.emplace_back(
          [&, rank] { body(int32_t(rank), *communicators[rank].front()); });
    for (std::thread &thread : threads)
      thread.join();
  }

private:
  std::vector<std::unique_ptr<ThreadPool>> pools;
  /// By rank and stream.
  std::vector<std::vector<std::unique_ptr<Communicator>>> communicators;
};

/// Joins `processes` members of a job, each on a thread of its own.
inline std::vector<std::shared_ptr<Job>>
joinAll(int32_t processes, const JobOptions &common = {}) {
  Expected<Socket> listener = listenAt("127.0.0.1", 0);
  std::vector<std::shared_ptr<Job>> jobs{size_t(processes)};
  std::vector<std::thread> threads;
  for (int32_t i = 0; i < processes; ++i)
    threads.emplace_back([&, i] {
      JobOptions options = common;
      options.process = i;
      options.processes = processes;
      options.port = portOf(*listener);
      options.listener = i == 0 ? ::dup(listener->descriptor()) : -1;
      options.key = "a secret";
      auto job = Job::join(options);
      EXPECT_TRUE(job.ok()) << job.message();
      if (job.ok())
        jobs[size_t(i)] = std::move(*job);
    });
  for (std::thread &thread : threads)
    thread.join();
  return jobs;
}

/// Makes all members leave.
inline void leaveAll(std::vector<std::shared_ptr<Job>> &jobs) {
  std::vector<std::thread> threads;
  for (std::shared_ptr<Job> &job : jobs)
    threads.emplace_back([&job] { job->leave(); });
  for (std::thread &thread : threads)
    thread.join();
}

class ProcessWorld final : public World {
public:
  ProcessWorld(const WorldOptions &options, int32_t processes) {
    int64_t ranks = 1;
    for (const MeshAxis &axis : options.mesh)
      ranks *= axis.size;
    std::vector<GroupInfo> groups;
    for (const std::vector<int32_t> &axes : options.groups)
      groups.push_back({axes, {}});
    jobs = joinAll(processes);
    for (int32_t process = 0; process < processes; ++process) {
      std::vector<std::vector<ThreadPool *>> pointers;
      for (int64_t rank = 0; rank < ranks / processes; ++rank) {
        pools.push_back(std::make_unique<ThreadPool>(options.cores, false));
        pointers.push_back({pools.back().get()});
      }
      // So little that sums of some tests have many pieces.
      const std::vector<int64_t> staging{int64_t(96) << 10};
      auto made = makeProcessCommunicators(options.mesh, groups, pointers,
                                           jobs[size_t(process)], staging,
                                           {options.timeout, /*spin=*/false});
      EXPECT_TRUE(made.ok()) << made.message();
      for (auto &ofRank : *made)
        communicators.push_back(std::move(ofRank));
    }
  }
  ~ProcessWorld() override {
    communicators.clear();
    leaveAll(jobs);
  }

  void run(const std::function<void(int32_t, Communicator &)> &body) override {
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < communicators.size(); ++rank)
      threads.emplace_back(
          [&, rank] { body(int32_t(rank), *communicators[rank].front()); });
    for (std::thread &thread : threads)
      thread.join();
  }

private:
  std::vector<std::unique_ptr<ThreadPool>> pools;
  std::vector<std::shared_ptr<Job>> jobs;
  /// By rank and stream.
  std::vector<std::vector<std::unique_ptr<Communicator>>> communicators;
};

struct WorldKind {
  const char *name;
  std::unique_ptr<World> (*make)(const WorldOptions &options);
};

/// Every backend that must pass the conformance suite. Defined in
/// HostWorlds.cpp and, for another program, in GpuWorld.cpp.
std::vector<WorldKind> communicatorBackends();

class CommunicatorSuite : public testing::TestWithParam<WorldKind> {
protected:
  std::unique_ptr<World> world(const WorldOptions &options) {
    return GetParam().make(options);
  }
  /// Makes a world of four ranks in one group.
  std::unique_ptr<World> four(int cores = 1) {
    return world({{{"x", 4}}, {{0}}, std::chrono::seconds(60), cores});
  }
};

} // namespace heddle::runtime

#endif // HEDDLE_TEST_RUNTIME_WORLD_H
