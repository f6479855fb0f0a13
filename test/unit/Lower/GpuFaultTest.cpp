//===- GpuFaultTest.cpp - Faults on a GPU are found -----------------------===//
//
// Plants faults between the runtime and the emulated GPU, and looks for the
// report of each. Also what a machine may lack.
//
//===----------------------------------------------------------------------===//

#include "GpuTraining.h"
#include <map>
#include <mutex>

using namespace heddle;
namespace cuda = heddle::runtime::cuda;

namespace {

/// A program is compiled once, and the members plant one fault after another.
class GpuFaultTest : public GpuTraining {
protected:
  void findNoGpu();
  void findTooLittleMemory();
  void findRowTooFar();
  void findStalePointer();
};

CompileOptions forGpu() {
  CompileOptions options;
  options.targetGpu = "sm_80";
  return options;
}

/// The state of the planted functions.
struct Planted {
  int64_t calls = 0;
  cuda::Address freed = 0;
} planted;

void GpuFaultTest::findNoGpu() {
  emulated::Machine machine;
  machine.gpus = 0;
  emulated::setMachine(machine);
  run(true);
  EXPECT_NE(message.find("expected an NVIDIA GPU, the driver finds none: check "
                         "CUDA_VISIBLE_DEVICES"),
            std::string::npos)
      << message;
  machine.gpus = 1;
  machine.driverVersion = 11040;
  emulated::setMachine(machine);
  run(true);
  EXPECT_NE(message.find("expected an NVIDIA driver for CUDA 12.0 or newer, "
                         "got one for CUDA 11.4"),
            std::string::npos)
      << message;
  machine = {};
  machine.major = 7;
  emulated::setMachine(machine);
  run(true);
  EXPECT_NE(message.find("the model was compiled for sm_80 and newer GPUs, "
                         "this machine has an emulated GPU (sm_70)"),
            std::string::npos)
      << message;
  emulated::setMachine({});
}

/// Too little memory is found before any is taken.
void GpuFaultTest::findTooLittleMemory() {
  auto enough = loadOn(emulatedGpu());
  ASSERT_TRUE(enough.ok()) << enough.message();
  double needed = double((*enough)->memory().front().total());
  enough = heddle::runtime::error("closed");
  emulated::Machine machine;
  machine.memoryBytes = 1 << 20;
  emulated::setMachine(machine);
  cuda::Libraries gpu = emulatedGpu();
  planted = {};
  gpu.driver.memAlloc = [](cuda::Address *address, size_t bytes) {
    ++planted.calls;
    return emulated::getDriver().memAlloc(address, bytes);
  };
  run(true, gpu);
  emulated::setMachine({});
  // The numbers are the plan's.
  const std::string before = ": 1 rank(s) that each need ";
  size_t at = message.find(before);
  ASSERT_NE(at, std::string::npos) << message;
  double told = std::atof(message.c_str() + at + before.size());
  EXPECT_NEAR(told, needed / double(1 << 20), 0.005) << message;
  EXPECT_NE(message.find("expected at most 1.00 MiB of memory, the free part "
                         "of the 1.00 MiB of an emulated GPU"),
            std::string::npos)
      << message;
  EXPECT_EQ(planted.calls, 0);
}

//===----------------------------------------------------------------------===//
// Between the runtime and the GPU
//===----------------------------------------------------------------------===//

/// Expects that the run ended with an error, and returns the report of the
/// emulated GPU.
std::string faultOf(const std::string &message) {
  std::string fault = emulated::takeFault();
  EXPECT_NE(message, ""); // the run does not end well
  return fault;
}

void GpuFaultTest::findRowTooFar() {
  cuda::Libraries gpu = emulatedGpu();
  // One block more than the kernel has rows for.
  gpu.driver.launchKernel = [](cuda::Function function, unsigned x, unsigned y,
                               unsigned z, unsigned bx, unsigned by,
                               unsigned bz, unsigned shared, cuda::Stream s,
                               void **parameters, void **extra) {
    return emulated::getDriver().launchKernel(function, x + 1, y, z, bx, by, bz,
                                              shared, s, parameters, extra);
  };
  run(true, gpu);
  std::string fault = faultOf(message);
  // A kernel of one block writes its only row twice.
  EXPECT_TRUE(fault.find("bytes out of bounds") != std::string::npos ||
              fault.find("thread 0 of block 1 writes what thread 0 of block 0 "
                         "wrote") != std::string::npos)
      << fault;
}

void GpuFaultTest::findStalePointer() {
  cuda::Libraries gpu = emulatedGpu();
  planted = {};
  gpu.driver.memAlloc = [](cuda::Address *address, size_t bytes) {
    cuda::Result result = emulated::getDriver().memAlloc(address, bytes);
    planted.freed = planted.freed ? planted.freed : *address;
    return result;
  };
  // The variables go before the graph is repeated.
  gpu.driver.graphLaunch = [](cuda::GraphExec graph, cuda::Stream stream) {
    if (++planted.calls == 2)
      emulated::getDriver().memFree(planted.freed);
    return emulated::getDriver().graphLaunch(graph, stream);
  };
  run(true, gpu);
  EXPECT_EQ(planted.calls, 2);
  std::string fault = faultOf(message);
  EXPECT_NE(fault.find("stale pointer"), std::string::npos) << fault;
}

TEST_F(GpuFaultTest, OneDevice) {
  ASSERT_TRUE(compile("gpt2", forGpu()));
  findNoGpu();
  findTooLittleMemory();
  findRowTooFar();
  findStalePointer();
}

//===----------------------------------------------------------------------===//
// One event
//===----------------------------------------------------------------------===//

/// The calls of all ranks that order work on the GPU, in the order in which
/// they were issued.
struct Issued {
  enum Kind { Work, Record, Wait };
  struct Call {
    Kind kind;
    int stream; ///< by number, in the order in which streams were created
    cuda::Event event;
  };
  std::mutex mutex; ///< each rank has a thread
  std::map<cuda::Stream, int> streams;
  std::vector<Call> calls;
  /// One wait that is dropped, as the number of its stream and of the wait
  /// among those of the stream.
  std::pair<int, int> dropped{-1, -1};
  std::map<int, int> waits; ///< counted, by stream

  /// Returns whether the call is the one that is dropped.
  bool add(Kind kind, cuda::Stream stream, cuda::Event event = {}) {
    std::lock_guard lock(mutex);
    int number = streams.try_emplace(stream, int(streams.size())).first->second;
    calls.push_back({kind, number, event});
    return kind == Wait && std::pair(number, waits[number]++) == dropped;
  }
} issued;

/// By work: the amount of work of each stream that is done before, and itself.
using Clocks = std::vector<std::map<int, int>>;

/// Returns what the calls order if one wait is dropped.
Clocks orderOf(const std::vector<Issued::Call> &calls,
               std::pair<int, int> dropped) {
  Clocks result;
  std::map<int, std::map<int, int>> streams;
  std::map<cuda::Event, std::map<int, int>> events;
  std::map<int, int> waits;
  for (const Issued::Call &call : calls) {
    std::map<int, int> &clock = streams[call.stream];
    if (call.kind == Issued::Work) {
      ++clock[call.stream];
      result.push_back(clock);
    } else if (call.kind == Issued::Record) {
      events[call.event] = clock;
    } else if (std::pair(call.stream, waits[call.stream]++) != dropped) {
      for (auto [stream, count] : events[call.event])
        clock[stream] = std::max(clock[stream], count);
    }
  }
  return result;
}

/// Issues all work as the emulated GPU does, and tells `issued`.
cuda::Libraries orderedGpu(cuda::Libraries gpu) {
  gpu.driver.streamCreate = [](cuda::Stream *stream, unsigned flags) {
    cuda::Result result = emulated::getDriver().streamCreate(stream, flags);
    std::lock_guard lock(issued.mutex);
    issued.streams.try_emplace(*stream, int(issued.streams.size()));
    return result;
  };
  gpu.driver.launchKernel = [](cuda::Function function, unsigned x, unsigned y,
                               unsigned z, unsigned bx, unsigned by,
                               unsigned bz, unsigned shared, cuda::Stream s,
                               void **parameters, void **extra) {
    issued.add(Issued::Work, s);
    return emulated::getDriver().launchKernel(function, x, y, z, bx, by, bz,
                                              shared, s, parameters, extra);
  };
  gpu.driver.memcpyDtoDAsync = [](cuda::Address to, cuda::Address from,
                                  size_t bytes, cuda::Stream stream) {
    issued.add(Issued::Work, stream);
    return emulated::getDriver().memcpyDtoDAsync(to, from, bytes, stream);
  };
  gpu.driver.memsetD8Async = [](cuda::Address to, unsigned char value,
                                size_t bytes, cuda::Stream stream) {
    issued.add(Issued::Work, stream);
    return emulated::getDriver().memsetD8Async(to, value, bytes, stream);
  };
  gpu.driver.eventRecord = [](cuda::Event event, cuda::Stream stream) {
    issued.add(Issued::Record, stream, event);
    return emulated::getDriver().eventRecord(event, stream);
  };
  gpu.driver.streamWaitEvent = [](cuda::Stream stream, cuda::Event event,
                                  unsigned flags) {
    if (issued.add(Issued::Wait, stream, event))
      return cuda::kSuccess;
    return emulated::getDriver().streamWaitEvent(stream, event, flags);
  };
  gpu.loadProducts =
      [](int) -> heddle::runtime::Expected<cuda::blas::CublasLt> {
    cuda::blas::CublasLt functions = emulated::getCublasLt();
    functions.matmul =
        [](cuda::blas::Handle handle, cuda::blas::MatmulDesc desc,
           const void *alpha, const void *a, cuda::blas::Layout aLayout,
           const void *b, cuda::blas::Layout bLayout, const void *beta,
           const void *c, cuda::blas::Layout cLayout, void *d,
           cuda::blas::Layout dLayout, const cuda::blas::Algorithm *algorithm,
           void *workspace, size_t workspaceBytes, cuda::Stream stream) {
          issued.add(Issued::Work, stream);
          return emulated::getCublasLt().matmul(
              handle, desc, alpha, a, aLayout, b, bLayout, beta, c, cLayout, d,
              dLayout, algorithm, workspace, workspaceBytes, stream);
        };
    return functions;
  };
  return gpu;
}

/// Each wait that no other event implies is needed: without it alone, some
/// order of the streams gives other losses.
TEST_F(GpuFaultTest, DroppedEvent) {
  CompileOptions options = forGpu();
  options.mesh.data = {2};
  ASSERT_TRUE(compile("gpt2", options));
  auto trainWithout = [&](std::pair<int, int> dropped) {
    issued.streams.clear();
    issued.calls.clear();
    issued.waits.clear();
    issued.dropped = dropped;
    return run(true, orderedGpu(emulatedGpu()));
  };
  std::vector<float> expected = trainWithout({-1, -1});
  ASSERT_EQ(message, "");
  const std::vector<Issued::Call> calls = issued.calls;
  const std::map<int, int> waits = issued.waits;
  const Clocks order = orderOf(calls, {-1, -1});
  std::vector<std::pair<int, int>> needed;
  size_t implied = 0;
  for (auto [stream, count] : waits)
    // No loss shows the update of the last step.
    for (int i = 0; i < count / kSteps * (kSteps - 1); ++i)
      if (orderOf(calls, {stream, i}) == order)
        ++implied;
      else
        needed.push_back({stream, i});
  // Both ranks have three such waits in each step, and one that is implied.
  ASSERT_EQ(needed.size(), 12u);
  EXPECT_EQ(implied, 4u);
  auto isFound = [&](std::pair<int, int> dropped) {
    for (uint64_t seed = 0; seed < 40; ++seed) {
      emulated::setOrder(seed);
      std::vector<float> losses = trainWithout(dropped);
      if (!emulated::takeFault().empty() || losses != expected)
        return true;
    }
    return false;
  };
  // One wait of each rank is enough for every run of the tests.
  bool all = std::getenv("HEDDLE_LONG_TESTS");
  for (size_t i = 0; i < needed.size(); ++i)
    if (all || i == 5 || i == 10)
      EXPECT_TRUE(isFound(needed[i]))
          << "stream " << needed[i].first << ", wait " << needed[i].second;
}

//===----------------------------------------------------------------------===//
// In a pipeline
//===----------------------------------------------------------------------===//

/// The events that order a pipeline's streams.
enum class Order {
  None,
  Sent,  ///< a receive waits until the message is in the GPU's memory
  Read,  ///< a send waits until its memory was read
  Within ///< one of a rank's streams waits for another
};

/// Follows the calls of all ranks, and drops the waits for one kind of event.
struct DroppedWaits {
  std::mutex mutex; ///< each stream of transfers has a thread
  Order dropped = Order::None;
  int64_t only = 0; ///< drops one of them, by number from 1; 0: all
  int64_t count = 0;
  /// Memory by address. A message fills an allocation of its own.
  std::map<cuda::Address, size_t> memory;
  /// The order that the next event behind a copy of a message stands for.
  std::map<cuda::Stream, Order> copies;
  std::map<cuda::Event, Order> events;
} waits;

cuda::Libraries watchedGpu(cuda::Libraries gpu) {
  gpu.driver.memAlloc = [](cuda::Address *address, size_t bytes) {
    cuda::Result result = emulated::getDriver().memAlloc(address, bytes);
    std::lock_guard lock(waits.mutex);
    waits.memory[*address] = bytes;
    return result;
  };
  gpu.driver.memcpyDtoDAsync = [](cuda::Address to, cuda::Address from,
                                  size_t bytes, cuda::Stream stream) {
    {
      std::lock_guard lock(waits.mutex);
      auto isMessage = [&](cuda::Address address) {
        auto found = waits.memory.find(address);
        return found != waits.memory.end() && found->second == bytes;
      };
      if (isMessage(to))
        waits.copies[stream] = Order::Sent;
      else if (isMessage(from))
        waits.copies[stream] = Order::Read;
    }
    return emulated::getDriver().memcpyDtoDAsync(to, from, bytes, stream);
  };
  gpu.driver.eventRecord = [](cuda::Event event, cuda::Stream stream) {
    {
      std::lock_guard lock(waits.mutex);
      auto copied = waits.copies.extract(stream);
      waits.events[event] = copied ? copied.mapped() : Order::Within;
    }
    return emulated::getDriver().eventRecord(event, stream);
  };
  gpu.driver.streamWaitEvent = [](cuda::Stream stream, cuda::Event event,
                                  unsigned flags) {
    {
      std::lock_guard lock(waits.mutex);
      if (waits.events[event] == waits.dropped) {
        if (++waits.count == waits.only || waits.only == 0)
          return cuda::kSuccess;
      }
    }
    return emulated::getDriver().streamWaitEvent(stream, event, flags);
  };
  return gpu;
}

/// Two stages on one GPU. Activations and their gradients go through messages,
/// whose memory is used again by later micro-batches.
TEST_F(GpuFaultTest, DroppedEventOfPipeline) {
  CompileOptions options = forGpu();
  options.mesh.pipeline = 2;
  options.training.microBatches = 4;
  ASSERT_TRUE(compile("gpt2", options));
  std::vector<float> expected = run(true);
  ASSERT_EQ(message, "");
  cuda::Libraries gpu = watchedGpu(emulatedGpu());
  /// Returns whether one of some orders of streams shows that waits are
  /// missing.
  auto isFound = [&](Order dropped, int64_t only) {
    for (uint64_t seed = 0; seed < (dropped == Order::None ? 2 : 30); ++seed) {
      emulated::setOrder(seed);
      waits.dropped = dropped;
      waits.only = only;
      waits.count = 0;
      waits.memory.clear();
      waits.copies.clear();
      waits.events.clear();
      std::vector<float> losses = run(true, gpu);
      EXPECT_EQ(waits.count > 0, dropped != Order::None);
      if (!emulated::takeFault().empty() || losses != expected)
        return true;
    }
    return false;
  };
  EXPECT_FALSE(isFound(Order::None, 0));
  EXPECT_TRUE(isFound(Order::Sent, 0));
  // Other events may imply a single one of these.
  EXPECT_TRUE(isFound(Order::Read, 0));
  EXPECT_TRUE(isFound(Order::Within, 0));
}

TEST_F(GpuFaultTest, Products) {
  CompileOptions options = forGpu();
  options.training.bf16 = true; // f32 has no epilogues
  ASSERT_TRUE(compile("gpt2", options));
  using Loaded = heddle::runtime::Expected<cuda::blas::CublasLt>;
  cuda::Libraries gpu = emulatedGpu();
  gpu.loadProducts = [](int) -> Loaded {
    cuda::blas::CublasLt functions = emulated::getCublasLt();
    functions.layoutCreate = [](cuda::blas::Layout *layout, int type,
                                uint64_t rows, uint64_t columns, int64_t) {
      return emulated::getCublasLt().layoutCreate(layout, type, rows, columns,
                                                  int64_t(rows) - 1);
    };
    return functions;
  };
  run(true, gpu);
  std::string fault = faultOf(message);
  EXPECT_NE(fault.find("leading dimension"), std::string::npos) << fault;

  // A leading dimension that the library cannot refuse, because it is longer
  // than the rows: the matrix ends behind its memory, or the numbers differ.
  gpu.loadProducts = [](int) -> Loaded {
    cuda::blas::CublasLt functions = emulated::getCublasLt();
    functions.layoutCreate = [](cuda::blas::Layout *layout, int type,
                                uint64_t rows, uint64_t columns,
                                int64_t leading) {
      return emulated::getCublasLt().layoutCreate(layout, type, rows, columns,
                                                  leading + 100000);
    };
    return functions;
  };
  run(true, gpu);
  fault = faultOf(message);
  EXPECT_NE(fault.find("is not within one allocation"), std::string::npos)
      << fault;

  gpu.loadProducts = [](int) -> Loaded {
    cuda::blas::CublasLt functions = emulated::getCublasLt();
    functions.descSet = [](cuda::blas::MatmulDesc desc, int attribute,
                           const void *value, size_t bytes) {
      static const uint32_t unknown = 12345;
      return emulated::getCublasLt().descSet(
          desc, attribute,
          attribute == cuda::blas::kEpilogue ? &unknown : value, bytes);
    };
    return functions;
  };
  run(true, gpu);
  fault = faultOf(message);
  EXPECT_NE(fault.find("an epilogue that the library lacks: 12345"),
            std::string::npos)
      << fault;

  // gelu's input with rows that begin anywhere.
  gpu.loadProducts = [](int) -> Loaded {
    cuda::blas::CublasLt functions = emulated::getCublasLt();
    functions.descSet = [](cuda::blas::MatmulDesc desc, int attribute,
                           const void *value, size_t bytes) {
      static const int64_t odd = 1001;
      return emulated::getCublasLt().descSet(
          desc, attribute, attribute == cuda::blas::kAuxLeading ? &odd : value,
          bytes);
    };
    return functions;
  };
  run(true, gpu);
  fault = faultOf(message);
  EXPECT_NE(fault.find("the auxiliary leading dimension 1001"),
            std::string::npos)
      << fault;

  gpu.loadProducts = [](int) -> Loaded {
    return heddle::runtime::Status::error("cannot find cuBLASLt");
  };
  // That is told before anything is allocated.
  gpu.driver.memAlloc = [](cuda::Address *, size_t) {
    ADD_FAILURE() << "memory is allocated";
    return cuda::kOutOfMemory;
  };
  run(true, gpu);
  EXPECT_EQ(message, "cannot find cuBLASLt");
}

} // namespace
