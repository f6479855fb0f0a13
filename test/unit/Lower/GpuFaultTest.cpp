//===- GpuFaultTest.cpp - Faults on a GPU are found -----------------------===//
//
// Plants faults between the runtime and the emulated GPU, and looks for the
// report of each. Also what a machine may lack.
//
//===----------------------------------------------------------------------===//

#include "GpuTraining.h"
#include <fstream>
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

TEST_F(GpuFaultTest, DroppedEvent) {
  CompileOptions options = forGpu();
  options.mesh.data = {2};
  ASSERT_TRUE(compile("gpt2", options));
  std::vector<float> expected = run(true);
  ASSERT_EQ(message, "");
  cuda::Libraries gpu = emulatedGpu();
  gpu.driver.streamWaitEvent = [](cuda::Stream, cuda::Event, unsigned) {
    return cuda::kSuccess;
  };
  // Nothing orders the streams: some order of a few shows it.
  bool isFound = false;
  for (uint64_t seed = 0; seed < 4 && !isFound; ++seed) {
    emulated::setOrder(seed);
    std::vector<float> losses = run(true, gpu);
    isFound = losses != expected;
  }
  EXPECT_TRUE(isFound);
  emulated::takeFault();
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
    for (uint64_t seed = 0; seed < (dropped == Order::None ? 4 : 30); ++seed) {
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

//===----------------------------------------------------------------------===//
// In a kernel
//===----------------------------------------------------------------------===//

/// Runs a kernel in which 64 threads reverse 64 numbers through shared memory.
/// `between` stands between the writes and the reads.
std::string reverse(const std::string &between) {
  std::filesystem::path file =
      std::filesystem::temp_directory_path() /
      ("heddle-reverse-" + std::to_string(::getpid()) + ".ll");
  std::ofstream(file) << R"(
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
@reverse.tile = internal addrspace(3) global [64 x float] undef, align 4
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare void @llvm.nvvm.barrier0()
define void @reverse(ptr %data) {
  %thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %from = getelementptr float, ptr %data, i32 %thread
  %value = load float, ptr %from, align 4
  %place = getelementptr float, ptr addrspace(3) @reverse.tile, i32 %thread
  store float %value, ptr addrspace(3) %place, align 4
)" << between << R"(
  %other = sub i32 63, %thread
  %there = getelementptr float, ptr addrspace(3) @reverse.tile, i32 %other
  %result = load float, ptr addrspace(3) %there, align 4
  store float %result, ptr %from, align 4
  ret void
}
)";
  auto emulator = GpuEmulator::compileFile(file.string());
  std::filesystem::remove(file);
  if (!emulator)
    return llvm::toString(emulator.takeError());
  std::vector<float> data(64);
  for (size_t i = 0; i < data.size(); ++i)
    data[i] = float(i);
  uint64_t parameter = reinterpret_cast<uint64_t>(data.data());
  llvm::Error error = (*emulator)->launch(
      "reverse", 1, 64, parameter,
      GpuBuffer{data.data(), data.size() * sizeof(float), 4});
  if (error)
    return llvm::toString(std::move(error));
  for (size_t i = 0; i < data.size(); ++i)
    if (data[i] != float(63 - i))
      return "wrong numbers";
  return "";
}

TEST(GpuKernelFaultTest, Barriers) {
  const std::string barrier = "call void @llvm.nvvm.barrier0()";
  EXPECT_EQ(reverse(barrier), "");
  std::string removed = reverse("");
  EXPECT_NE(removed.find("with no barrier between them"), std::string::npos)
      << removed;
  std::string divergent = reverse("%isLow = icmp ult i32 %thread, 40\n"
                                  "br i1 %isLow, label %low, label %high\n"
                                  "high:\nret void\nlow:\n" +
                                  barrier);
  EXPECT_NE(divergent.find("waits at a barrier that not all threads reach"),
            std::string::npos)
      << divergent;
}

} // namespace
