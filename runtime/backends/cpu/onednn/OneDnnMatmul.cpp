//===- OneDnnMatmul.cpp - Matrix products of one device by oneDNN ---------===//
//
// oneDNN is called single-threaded from the device's own cores. A product is
// cut into tiles by its sizes alone, so the bits do not depend on the number of
// cores. oneDNN's primitives for the tiles' shapes are kept with the
// descriptor, so a call only sets pointers.
//
//===----------------------------------------------------------------------===//

#include "backends/cpu/kernels/MatmulLibrary.h"
#include "backends/cpu/onednn/MatmulPlan.h"
#include "backends/cpu/threads/ThreadPool.h"
#include "heddle_rt/manifest.h"
#include "support/Message.h"
#include "support/Sanitizer.h"

#include <atomic>
#include <cstring>
#include <dlfcn.h>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

namespace heddle::runtime {

namespace {

/// Limits oneDNN's OpenMP to the calling thread. Debian's oneDNN would
/// otherwise start OpenMP threads on every call, in addition to the device's
/// own threads.
class OpenMP {
public:
  OpenMP()
      : setThreads(reinterpret_cast<void (*)(int)>(
            dlsym(RTLD_DEFAULT, "omp_set_num_threads"))) {}
  void workAlone() const {
    if (setThreads)
      setThreads(1);
  }

private:
  void (*setThreads)(int);
};

/// A lock around the creation of primitives, for ThreadSanitizer. oneDNN caches
/// primitives for the whole process, so devices share them. ThreadSanitizer
/// does not see the locks of oneDNN's cache: without this lock, it reports a
/// race when one device reads a primitive that another one made. The lock costs
/// nothing, because oneDNN makes devices that prepare the same product wait for
/// each other anyway.
std::mutex &primitiveCache() {
  static std::mutex mutex;
  return mutex;
}

/// Multiplies two small matrices of `type`.
void multiplyOnce(DType type, const dnnl::engine &engine,
                  MatmulPacking packing) {
  constexpr int64_t size = 64, stride = 2 * size; // strided, as tiles are
  heddle_rt_matmul_desc desc = {};
  desc.m = desc.n = desc.k = size;
  desc.a_row_stride = desc.b_row_stride = desc.c_row_stride = stride;
  desc.a_column_stride = desc.b_column_stride = 1;
  desc.a_type = desc.b_type = desc.c_type = type;
  desc.bias_type = -1;
  auto plan = [&] {
    std::lock_guard lock(primitiveCache());
    return MatmulPlan::make(desc, engine, /*workers=*/1, packing);
  }();
  if (!plan.ok())
    return; // a program's first product reports it
  MatmulWorker worker(engine);
  plan->reserve(worker);
  std::vector<float> a(size * stride), b(size * stride), c(size * stride);
  for (int64_t task = 0; task < plan->tasks(); ++task)
    plan->runTask(task, 0, worker, a.data(), b.data(), c.data(), nullptr);
}

/// For ThreadSanitizer. When oneDNN first executes a product in a process, it
/// builds kernels under locks that ThreadSanitizer does not see. This function
/// makes it build them before any other thread executes products. It does so on
/// a thread of its own, because `workAlone` changes an OpenMP setting of the
/// calling thread, and the caller's setting must stay as it is.
void warmUp(const OpenMP &openMP, const dnnl::engine &engine,
            MatmulPacking packing) {
  static std::once_flag once;
  std::call_once(once, [&] {
    std::thread([&] {
      openMP.workAlone();
      try {
        for (DType type : {HEDDLE_RT_F32, HEDDLE_RT_BF16})
          multiplyOnce(type, engine, packing);
      } catch (const dnnl::error &) {
        // A program's first product reports it.
      }
    }).join();
  });
}

class OneDnnMatmul final : public MatmulLibrary {
public:
  explicit OneDnnMatmul(ThreadPool &pool)
      : pool(pool), engine(dnnl::engine::kind::cpu, 0) {
    if (std::string_view(sanitizer) == "thread")
      warmUp(openMP, engine, packing);
    for (int i = 0; i < pool.size(); ++i)
      workers.emplace_back(engine);
  }

  Status run(const heddle_rt_matmul_desc &desc, const void *a, const void *b,
             void *c, const void *bias) override;
  size_t scratchBytes() const override;

private:
  Expected<const MatmulPlan *> find(const heddle_rt_matmul_desc &desc);

  ThreadPool &pool;
  OpenMP openMP;
  MatmulPacking packing = matmulPackingFromEnvironment();
  dnnl::engine engine;
  std::vector<MatmulWorker> workers;
  /// A descriptor and its plan; equal descriptors share one plan.
  struct Entry {
    heddle_rt_matmul_desc desc;
    const MatmulPlan *plan;
  };
  std::unordered_map<const heddle_rt_matmul_desc *, Entry> byAddress;
  std::vector<Entry> byContent;
  std::vector<std::unique_ptr<MatmulPlan>> plans;
};

bool sameBytes(const heddle_rt_matmul_desc &a, const heddle_rt_matmul_desc &b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

Expected<const MatmulPlan *>
OneDnnMatmul::find(const heddle_rt_matmul_desc &desc) {
  auto known = byAddress.find(&desc);
  // A different descriptor may lie at the address of an earlier one.
  if (known != byAddress.end() && sameBytes(known->second.desc, desc))
    return known->second.plan;
  for (const Entry &entry : byContent)
    if (sameBytes(entry.desc, desc)) {
      byAddress[&desc] = entry;
      return entry.plan;
    }
  openMP.workAlone();
  Expected<MatmulPlan> plan = [&] {
    std::lock_guard lock(primitiveCache());
    return MatmulPlan::make(desc, engine, pool.size(), packing);
  }();
  HEDDLE_RT_RETURN_IF_ERROR(plan.status());
  plans.push_back(std::make_unique<MatmulPlan>(std::move(*plan)));
  for (MatmulWorker &worker : workers)
    plans.back()->reserve(worker);
  byContent.push_back({desc, plans.back().get()});
  byAddress[&desc] = byContent.back();
  return static_cast<const MatmulPlan *>(plans.back().get());
}

Status OneDnnMatmul::run(const heddle_rt_matmul_desc &desc, const void *a,
                         const void *b, void *c, const void *bias) {
  Expected<const MatmulPlan *> found = find(desc);
  HEDDLE_RT_RETURN_IF_ERROR(found.status());
  const MatmulPlan &plan = **found;
  // An exception must not leave a pool's thread.
  std::atomic<bool> failed{false};
  pool.run(plan.tasks(), [&](int64_t task, int worker) {
    try {
      openMP.workAlone();
      plan.runTask(task, worker, workers[size_t(worker)], a, b, c, bias);
    } catch (const std::exception &) {
      failed.store(true, std::memory_order_relaxed);
    }
  });
  if (failed)
    return errorOf("oneDNN could not execute a product of ", desc.m, " x ",
                   desc.n, " x ", desc.k);
  return Status::success();
}

size_t OneDnnMatmul::scratchBytes() const {
  size_t bytes = 0;
  for (const MatmulWorker &worker : workers)
    bytes += worker.scratchpad.capacity() + worker.packed.capacity() +
             sizeof(float) * (worker.a.capacity() + worker.b.capacity() +
                              worker.c.capacity() + worker.bias.capacity());
  return bytes;
}

std::unique_ptr<MatmulLibrary> makeOneDnnMatmul(ThreadPool &pool) {
  return std::make_unique<OneDnnMatmul>(pool);
}

} // namespace

} // namespace heddle::runtime

extern "C" const heddle::runtime::OneDnnTable heddle_onednn_table = {
    {heddle::runtime::OneDnnTable::current}, heddle::runtime::makeOneDnnMatmul};
