//===- World.h - Backends of the conformance suite --------------*- C++ -*-===//
//
// To join the conformance suite, a backend of communication implements World,
// which starts the ranks and runs a function on each. A World of processes
// (MPI) runs the function on its own rank only.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_RUNTIME_WORLD_H
#define HEDDLE_TEST_RUNTIME_WORLD_H

#include "communicators/ThreadCommunicator.h"
#include "support/ThreadPool.h"

#include <functional>
#include <memory>
#include <thread>
#include <vector>

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
};

class ThreadWorld final : public World {
public:
  explicit ThreadWorld(const WorldOptions &options) {
    int64_t ranks = 1;
    for (const MeshAxis &axis : options.mesh)
      ranks *= axis.size;
    std::vector<ThreadPool *> pointers;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      pools.push_back(std::make_unique<ThreadPool>(options.cores, false));
      pointers.push_back(pools.back().get());
    }
    communicators =
        makeThreadCommunicators(options.mesh, options.groups, pointers,
                                {options.timeout, /*spin=*/false});
  }

  void run(const std::function<void(int32_t, Communicator &)> &body) override {
    std::vector<std::thread> threads;
    threads.reserve(communicators.size());
    for (size_t rank = 0; rank < communicators.size(); ++rank)
      threads.emplace_back(
          [&, rank] { body(int32_t(rank), *communicators[rank]); });
    for (std::thread &thread : threads)
      thread.join();
  }

private:
  std::vector<std::unique_ptr<ThreadPool>> pools;
  std::vector<std::unique_ptr<Communicator>> communicators;
};

struct Backend {
  const char *name;
  std::unique_ptr<World> (*make)(const WorldOptions &options);
};

} // namespace heddle::runtime

#endif // HEDDLE_TEST_RUNTIME_WORLD_H
