//===- State.cpp - Memory, streams and graphs of the emulated GPU ---------===//

#include "State.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <thread>

using namespace heddle;
using namespace heddle::emulated;

/// Bytes on both sides of an allocation that nobody may write.
static constexpr size_t kBorder = 256;
static constexpr unsigned char kBorderByte = 0xA5;
static constexpr size_t kPage = 4096, kHugePage = size_t(2) << 20;

Gpu &Gpu::get() {
  static auto *gpu = new Gpu(); // never freed: threads may outlive main
  return *gpu;
}

void emulated::setMachine(const Machine &machine) {
  std::lock_guard lock(Gpu::get().mutex);
  Gpu::get().machine = machine;
}
void emulated::provideKernels(std::unique_ptr<GpuEmulator> kernels) {
  std::lock_guard lock(Gpu::get().mutex);
  Gpu::get().provided.push_back(std::move(kernels));
  // Another program has other kernels of the same names.
  Gpu::get().forgetChecks();
}
void emulated::setOrder(uint64_t seed) {
  std::lock_guard lock(Gpu::get().mutex);
  Gpu::get().random.seed(seed);
}
std::string emulated::takeFault() {
  std::lock_guard lock(Gpu::get().mutex);
  return std::exchange(Gpu::get().fault, "");
}
Counts emulated::takeCounts() {
  std::lock_guard lock(Gpu::get().mutex);
  return std::exchange(Gpu::get().counts, {});
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Maps memory that begins at a multiple of `page`, which its size is, too.
/// Returns null if there is none.
static void *map(size_t bytes, size_t page) {
  void *mapped = mmap(nullptr, bytes + page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED)
    return nullptr;
  auto begin = reinterpret_cast<uint64_t>(mapped);
  uint64_t start = (begin + page - 1) / page * page;
  if (start > begin)
    munmap(mapped, start - begin);
  munmap(reinterpret_cast<void *>(start + bytes), begin + page - start);
  if (page == kHugePage)
    madvise(reinterpret_cast<void *>(start), bytes, MADV_HUGEPAGE);
  return reinterpret_cast<void *>(start);
}

Result Gpu::allocate(uint64_t &address, size_t bytes) {
  if (bytes == 0)
    return kInvalidValue;
  if (used + bytes > machine.memoryBytes)
    return kNoMemory;
  Allocation allocation;
  allocation.bytes = bytes;
  // Opening and closing memory takes time for each page.
  size_t page = bytes < kHugePage ? kPage : kHugePage;
  allocation.mapped = (bytes + 3 * kBorder + page - 1) / page * page;
  allocation.start = map(allocation.mapped, page);
  if (!allocation.start)
    return kNoMemory;
  std::memset(allocation.start, kBorderByte, allocation.mapped);
  // Aligned to 16 bytes and no more.
  address = reinterpret_cast<uint64_t>(allocation.start) + kBorder + 16;
  // Nobody may count on zeros.
  std::memset(reinterpret_cast<void *>(address), 0xFF, bytes);
  if (open == 0)
    mprotect(allocation.start, allocation.mapped, PROT_NONE);
  allocations[address] = allocation;
  used += bytes;
  return 0;
}

std::string Gpu::checkBorders(uint64_t address, const Allocation &allocation) {
  auto *begin = static_cast<unsigned char *>(allocation.start);
  auto *data = reinterpret_cast<unsigned char *>(address);
  for (auto *byte = begin; byte < begin + allocation.mapped; ++byte)
    if ((byte < data || byte >= data + allocation.bytes) &&
        *byte != kBorderByte)
      return "something wrote " + std::to_string(byte - data) +
             " bytes from the start of an allocation of " +
             std::to_string(allocation.bytes);
  return "";
}

Result Gpu::release(uint64_t address) {
  auto found = allocations.find(address);
  if (found == allocations.end())
    return report("cuMemFree of an address that was not allocated");
  Result result = drain(nullptr);
  {
    Access access(*this, address);
    if (std::string message = checkBorders(address, found->second);
        !message.empty())
      result = report(message);
  }
  munmap(found->second.start, found->second.mapped);
  used -= found->second.bytes;
  allocations.erase(found);
  return result;
}

GpuBuffer Gpu::find(uint64_t address) const {
  auto next = allocations.upper_bound(address);
  if (next == allocations.begin())
    return {nullptr, 0, 1};
  auto &[start, allocation] = *std::prev(next);
  if (address >= start + allocation.bytes)
    return {nullptr, 0, 1};
  return {reinterpret_cast<void *>(start), allocation.bytes, 1};
}

std::string Gpu::check(uint64_t address, size_t bytes, const char *what) const {
  GpuBuffer buffer = find(address);
  auto start = reinterpret_cast<uint64_t>(buffer.data);
  if (buffer.bytes > 0 && address + bytes <= start + buffer.bytes)
    return "";
  return std::string(what) + " of " + std::to_string(bytes) +
         " bytes is not within one allocation of the GPU's memory" +
         (buffer.bytes == 0 ? " (stale pointer, or one of the host)" : "");
}

void Gpu::protect(bool isOpen, uint64_t address) {
  int rights = isOpen ? PROT_READ | PROT_WRITE : PROT_NONE;
  if (address) {
    const Allocation &own = std::prev(allocations.upper_bound(address))->second;
    mprotect(own.start, own.mapped, rights);
    return;
  }
  for (auto &[start, allocation] : allocations)
    mprotect(allocation.start, allocation.mapped, rights);
}

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

Result Gpu::report(std::string message) {
  if (fault.empty()) {
    fault = std::move(message);
    if (std::getenv("HEDDLE_EMULATED_GPU_LOG"))
      llvm::errs() << "emulated GPU: " << fault << "\n";
  }
  return kLaunchFailed;
}

StreamState *Gpu::addStream() {
  auto *stream = new StreamState();
  stream->rank = random();
  streams.insert(stream);
  return stream;
}

StreamState *Gpu::chooseStream(const std::vector<StreamState *> &ready) {
  constexpr uint64_t kPeriod = 64; // in operations, about
  if (random() % kPeriod == 0) {
    isRanked = !isRanked;
    for (StreamState *stream : streams)
      stream->rank = random();
  }
  if (!isRanked)
    return ready[random() % ready.size()];
  return *llvm::max_element(
      ready, [](StreamState *a, StreamState *b) { return a->rank < b->rank; });
}

void Gpu::issue(StreamState *stream, Operation operation) {
  if (stream->capture)
    stream->capture->lists[stream].push_back(std::move(operation));
  else
    stream->queue.push_back(std::move(operation));
}

bool Operation::canGoOn() const {
  return kind == Kind::Wait ? record->isDone : !isDue || isDue();
}

Result Gpu::drain(StreamState *target) {
  Access access(*this);
  auto isDone = [&] {
    if (target)
      return target->queue.empty();
    return llvm::all_of(streams,
                        [](StreamState *each) { return each->queue.empty(); });
  };
  while (!isDone() && fault.empty()) {
    std::vector<StreamState *> ready;
    for (StreamState *stream : streams)
      if (!stream->queue.empty() && stream->queue.front().canGoOn())
        ready.push_back(stream);
    if (ready.empty()) {
      if (llvm::none_of(streams, [](StreamState *each) {
            return !each->queue.empty() && each->queue.front().isDue;
          }))
        return report("streams wait for each other");
      mutex.unlock();
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      mutex.lock();
      continue;
    }
    // The order of a set of pointers differs from run to run; the choice does
    // too, which any right program bears.
    StreamState *stream = chooseStream(ready);
    Operation operation = std::move(stream->queue.front());
    stream->queue.pop_front();
    if (stream->isBranch && stream->queue.empty()) {
      streams.erase(stream);
      delete stream;
    }
    if (operation.kind == Operation::Kind::Record) {
      operation.record->isDone = true;
      operation.record->time = clock;
    }
    if (operation.kind == Operation::Kind::Work)
      if (std::string message = operation.work(); !message.empty())
        return report(message);
    mutex.unlock();
    std::this_thread::yield();
    mutex.lock();
  }
  if (!fault.empty()) {
    for (StreamState *stream : streams)
      stream->queue.clear();
    return kLaunchFailed;
  }
  return 0;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

GpuEmulator *Gpu::findEmulator(const std::string &kernel, std::string &log) {
  if (auto load = std::exchange(loadKernels, nullptr))
    if (std::unique_ptr<GpuEmulator> loaded = load())
      provided.push_back(std::move(loaded));
  for (auto &each : llvm::reverse(provided))
    if (each->hasKernel(kernel))
      return each.get();
  if (!library) {
    auto compiled = GpuEmulator::compileFile(HEDDLE_CUDA_KERNELS_IR);
    if (!compiled) {
      log = llvm::toString(compiled.takeError());
      return nullptr;
    }
    library = std::move(*compiled);
  }
  return library->hasKernel(kernel) ? library.get() : nullptr;
}

bool Gpu::isFlowOver(const std::vector<uint64_t> &parameters) const {
  std::vector<uint64_t> numbers;
  for (uint64_t address : parameters) {
    if (!check(address, sizeof(uint64_t), "a number").empty())
      return true; // the launch reports it
    std::memcpy(&numbers.emplace_back(), reinterpret_cast<void *>(address),
                sizeof(uint64_t));
  }
  auto now = std::chrono::steady_clock::now().time_since_epoch();
  return uint64_t(std::chrono::nanoseconds(now).count()) >= numbers[0] ||
         numbers[1];
}

std::string Gpu::launch(const FunctionState &function, unsigned grid,
                        unsigned block,
                        const std::vector<uint64_t> &parameters) {
  const GpuKernel &kernel = function.emulator->getKernel(function.name);
  std::vector<GpuBuffer> buffers;
  std::vector<uint64_t> words = parameters;
  if (kernel.isTable) {
    words.resize(kernel.isNumber.size());
    size_t bytes = words.size() * sizeof(uint64_t);
    if (std::string message = check(parameters[0], bytes, "a table");
        !message.empty())
      return function.name + ": " + message;
    auto *table = reinterpret_cast<void *>(parameters[0]);
    std::memcpy(words.data(), table, bytes);
    buffers.push_back({table, bytes, sizeof(uint64_t)});
  }
  for (size_t i = 0; i < words.size(); ++i) {
    if (kernel.isNumber[i] || words[i] == 0)
      continue;
    // A kernel of the artifact says how many bytes it touches; one of the
    // library may touch its whole allocation.
    size_t bytes = kernel.bytes.empty() ? 1 : kernel.bytes[i];
    if (std::string message = check(words[i], bytes, "a buffer");
        !message.empty())
      return function.name + ": parameter " + std::to_string(i) + ": " +
             message;
    GpuBuffer buffer{reinterpret_cast<void *>(words[i]), bytes, 1};
    if (kernel.bytes.empty()) {
      buffer = find(words[i]);
      // Pointers that a table holds are of the other ranks.
      for (auto &[address, allocation] : allocations)
        if (function.name == "heddle_reduce")
          buffers.push_back(
              {reinterpret_cast<void *>(address), allocation.bytes, 2});
      buffer.elementBytes = 2;
    }
    buffers.push_back(buffer);
  }
  bool isFirst = checked.insert(function.name).second;
  llvm::Error error =
      function.emulator->launch(function.name, grid, block, parameters,
                                isFirst ? llvm::ArrayRef<GpuBuffer>(buffers)
                                        : llvm::ArrayRef<GpuBuffer>());
  return error ? llvm::toString(std::move(error)) : "";
}
