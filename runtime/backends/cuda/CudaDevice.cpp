//===- CudaDevice.cpp - A rank on a GPU -----------------------------------===//

#include "backends/cuda/CudaDevice.h"
#include "support/Message.h"

#include <algorithm>
#include <system_error>
#include <thread>

namespace heddle::runtime::cuda {

static Address addressOf(const void *pointer) {
  return reinterpret_cast<Address>(pointer);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// One allocation of the GPU's memory. The driver aligns it to 256 bytes.
class CudaRegion final : public Region {
public:
  explicit CudaRegion(CudaDevice &device) : device(device) {}
  ~CudaRegion() override {
    if (!base || !device.gpu().use().ok())
      return;
    std::erase(device.regions, std::pair(addressOf(base), bytes));
    device.gpu().driver().memFree(addressOf(base));
  }

  Status allocate(size_t wanted) {
    if (wanted == 0)
      return Status::success();
    HEDDLE_RT_RETURN_IF_ERROR(device.gpu().use());
    Address address = 0;
    HEDDLE_RT_RETURN_IF_ERROR(
        device
            .check(device.gpu().driver().memAlloc(&address, wanted),
                   "cuMemAlloc")
            .in(concat(wanted, " bytes")));
    base = reinterpret_cast<uint8_t *>(address);
    bytes = wanted;
    device.regions.emplace_back(address, bytes);
    return Status::success();
  }

  Status clear() override {
    if (!base)
      return Status::success();
    HEDDLE_RT_RETURN_IF_ERROR(device.gpu().use());
    const Driver &driver = device.gpu().driver();
    // On a stream of the device, because our streams do not wait for the
    // default stream.
    HEDDLE_RT_RETURN_IF_ERROR(device.check(
        driver.memsetD8Async(addressOf(base), 0, bytes, device.stream(0)),
        "cuMemsetD8Async"));
    return device.check(driver.streamSynchronize(device.stream(0)),
                        "cuStreamSynchronize");
  }

private:
  CudaDevice &device;
  size_t bytes = 0;
};

Expected<std::unique_ptr<Region>> CudaDevice::allocate(size_t bytes) {
  auto region = std::make_unique<CudaRegion>(*this);
  HEDDLE_RT_RETURN_IF_ERROR(region->allocate(bytes));
  return std::unique_ptr<Region>(std::move(region));
}

Status CudaDevice::copyToDevice(void *to, const void *from, size_t bytes) {
  if (bytes == 0)
    return Status::success();
  HEDDLE_RT_RETURN_IF_ERROR(card->use());
  HEDDLE_RT_RETURN_IF_ERROR(check(
      card->driver().memcpyHtoD(addressOf(to), from, bytes), "cuMemcpyHtoD"));
  // The copy of pageable memory may still be under way when the call returns.
  return check(card->driver().streamSynchronize(nullptr),
               "cuStreamSynchronize");
}

Status CudaDevice::copyToHost(void *to, const void *from, size_t bytes) {
  if (bytes == 0)
    return Status::success();
  HEDDLE_RT_RETURN_IF_ERROR(card->use());
  return check(card->driver().memcpyDtoH(to, addressOf(from), bytes),
               "cuMemcpyDtoH");
}

Expected<Address> CudaDevice::reserve(size_t bytes) {
  Address address = 0;
  HEDDLE_RT_RETURN_IF_ERROR(
      check(card->driver().memAlloc(&address, bytes), "cuMemAlloc")
          .in(concat(bytes, " bytes of scratch memory")));
  std::lock_guard lock(mutex);
  reserved.push_back(address);
  reservedBytes += bytes;
  return address;
}

size_t CudaDevice::scratchBytes() const {
  std::lock_guard lock(mutex);
  return reservedBytes;
}

void CudaDevice::expectUploads(const CodeInfo &code, size_t libraryBytes) {
  uploadBytes = libraryBytes;
  for (const KernelInfo &kernel : code.kernels)
    if (kernel.isTable)
      uploadBytes += kernel.parameters.size() * sizeof(uint64_t);
}

std::vector<MemoryPart> CudaDevice::workspaces() const {
  return {{"cuBLASLt's workspace", double(products.workspaceBytes())},
          {"sums in f32", double(products.sumBytes())},
          {"cuDNN's workspace", double(attentions.workspaceBytes())},
          {"constants", double(uploadBytes)}};
}

Expected<const void *> CudaDevice::upload(const void *from, size_t bytes) {
  std::lock_guard lock(copying);
  return uploadLocked(from, bytes);
}

Expected<const void *> CudaDevice::uploadLocked(const void *from,
                                                size_t bytes) {
  Address &copy = uploads[std::string(static_cast<const char *>(from), bytes)];
  if (!copy) {
    Expected<Address> memory = reserve(std::max<size_t>(bytes, 1));
    HEDDLE_RT_RETURN_IF_ERROR(memory.status());
    HEDDLE_RT_RETURN_IF_ERROR(
        copyToDevice(reinterpret_cast<void *>(*memory), from, bytes));
    copy = *memory;
  }
  return reinterpret_cast<const void *>(copy);
}

Expected<const void *> CudaDevice::onDevice(const void *pointer, size_t bytes) {
  Address address = addressOf(pointer);
  for (auto [start, size] : regions)
    if (address >= start && address < start + size)
      return pointer;
  std::lock_guard lock(copying);
  Address &copy = constants[{pointer, bytes}];
  if (!copy) {
    Expected<const void *> made = uploadLocked(pointer, bytes);
    HEDDLE_RT_RETURN_IF_ERROR(made.status());
    copy = addressOf(*made);
  }
  return reinterpret_cast<const void *>(copy);
}

//===----------------------------------------------------------------------===//
// The device
//===----------------------------------------------------------------------===//

CudaDevice::CudaDevice(int32_t rank, std::shared_ptr<Card> card,
                       std::shared_ptr<const std::vector<LoadedKernel>> kernels,
                       int hostThreads)
    : heddle_rt_device(rank), card(std::move(card)),
      kernels(std::move(kernels)), hostThreads(hostThreads), products(*this),
      attentions(*this) {}

CudaDevice::~CudaDevice() {
  communicators.clear(); // they use this device
  if (!card->use().ok())
    return;
  const Driver &driver = card->driver();
  for (auto &[table, runs] : tables)
    if (runs.graph)
      driver.graphExecDestroy(runs.graph);
  for (const std::vector<Event> *list : {&events, &captureEvents})
    for (Event event : *list)
      if (event)
        driver.eventDestroy(event);
  for (Address address : reserved)
    driver.memFree(address);
  for (Stream each : streams)
    driver.streamDestroy(each);
}

Status CudaDevice::start(int count) {
  HEDDLE_RT_RETURN_IF_ERROR(card->use());
  for (int i = 0; i < count; ++i) {
    Stream created = nullptr;
    HEDDLE_RT_RETURN_IF_ERROR(
        check(card->driver().streamCreate(&created, kStreamNonBlocking),
              "cuStreamCreate"));
    streams.push_back(created);
  }
  return Status::success();
}

Status CudaDevice::prepareAttention(AttentionChoice choice,
                                    const heddle_rt_attention_call *calls) {
  HEDDLE_RT_RETURN_IF_ERROR(card->use());
  attentions.choice = choice;
  return attentions.prepare(calls);
}

Status CudaDevice::checkStream(int32_t number) const {
  return number >= 0 && size_t(number) < streams.size()
             ? Status::success()
             : errorOf("expected a stream below ", streams.size(), ", got ",
                       number);
}

Status CudaDevice::runOnHost(
    int64_t count, int64_t grain,
    const std::function<Status(int64_t begin, int64_t end)> &body) {
  std::atomic<int64_t> next = 0;
  std::mutex mutex;
  Status first;
  auto work = [&] {
    for (int64_t begin; (begin = next.fetch_add(grain)) < count;)
      if (Status status = body(begin, std::min(begin + grain, count));
          !status.ok()) {
        std::lock_guard lock(mutex);
        if (first.ok())
          first = std::move(status);
      }
  };
  std::vector<std::thread> helpers;
  try {
    for (int64_t i = 1; i < hostThreads && i * grain < count; ++i)
      helpers.emplace_back(work);
  } catch (const std::system_error &) {
    // The system refuses a thread: the threads that have started do the work.
  }
  work();
  for (std::thread &helper : helpers)
    helper.join();
  return first;
}

//===----------------------------------------------------------------------===//
// Kernels of the artifact, products, and order
//===----------------------------------------------------------------------===//

Status CudaDevice::launch(int32_t, heddle_rt_kernel_fn, std::span<void *const>,
                          std::span<const int64_t>, int64_t, int64_t) {
  return Status::error(
      "expected a program for GPUs, got one whose kernels are a "
      "CPU's: compile the model with --target-gpu");
}

Status CudaDevice::launchKernel(int32_t stream, int32_t kernel,
                                std::span<const uint64_t> parameters) {
  HEDDLE_RT_RETURN_IF_ERROR(checkStream(stream));
  if (kernel < 0 || size_t(kernel) >= kernels->size())
    return errorOf("expected a kernel below ", kernels->size(), ", got ",
                   kernel);
  const LoadedKernel &loaded = (*kernels)[size_t(kernel)];
  const KernelInfo &info = *loaded.info;
  if (parameters.size() != info.parameters.size())
    return errorOf("kernel ", info.symbol, ": expected ",
                   info.parameters.size(), " parameters, got ",
                   parameters.size());
  std::vector<uint64_t> words(parameters.begin(), parameters.end());
  std::vector<void *> pointers;
  for (size_t i = 0; i < words.size(); ++i) {
    const KernelInfo::Parameter &parameter = info.parameters[i];
    if (parameter.isBuffer) {
      Expected<const void *> address = onDevice(
          reinterpret_cast<const void *>(words[i]), size_t(parameter.bytes));
      HEDDLE_RT_RETURN_IF_ERROR(address.status());
      words[i] = addressOf(*address);
    }
    pointers.push_back(&words[i]);
  }
  uint64_t table = 0;
  if (info.isTable) {
    // Each run of a table of entry points passes the same addresses, so the
    // first run uploads them.
    Expected<const void *> address =
        upload(words.data(), words.size() * sizeof(uint64_t));
    HEDDLE_RT_RETURN_IF_ERROR(address.status());
    table = addressOf(*address);
    pointers = {&table};
  }
  return check(card->driver().launchKernel(
                   loaded.function, unsigned(info.grid), 1, 1,
                   unsigned(info.block), 1, 1, /*sharedMemBytes=*/0,
                   streams[size_t(stream)], pointers.data(), nullptr),
               "cuLaunchKernel")
      .in(concat("kernel ", info.symbol));
}

Status CudaDevice::matmul(int32_t stream, const heddle_rt_matmul_desc &desc,
                          const void *a, const void *b, void *c,
                          const void *bias) {
  HEDDLE_RT_RETURN_IF_ERROR(checkStream(stream));
  return products.run(stream, desc, {a, b, c, bias});
}

Status CudaDevice::fusedMatmul(int32_t stream,
                               const heddle_rt_matmul_desc &desc,
                               heddle_rt_epilogue epilogue, const void *a,
                               const void *b, void *c, const void *bias,
                               void *extra) {
  HEDDLE_RT_RETURN_IF_ERROR(checkStream(stream));
  return products.run(stream, desc, {a, b, c, bias, extra, epilogue});
}

Event CudaDevice::findEvent(int32_t event) const {
  std::lock_guard lock(mutex);
  return event >= 0 && size_t(event) < events.size() ? events[size_t(event)]
                                                     : nullptr;
}

Status CudaDevice::recordEvent(int32_t stream, int32_t event) {
  HEDDLE_RT_RETURN_IF_ERROR(checkStream(stream));
  if (event < 0)
    return errorOf("expected an event of at least 0, got ", event);
  Event own = findEvent(event);
  if (!own) {
    HEDDLE_RT_RETURN_IF_ERROR(
        check(card->driver().eventCreate(&own, kEventDisableTiming),
              "cuEventCreate"));
    std::lock_guard lock(mutex);
    if (size_t(event) >= events.size())
      events.resize(size_t(event) + 1);
    events[size_t(event)] = own;
  }
  return check(card->driver().eventRecord(own, streams[size_t(stream)]),
               "cuEventRecord");
}

Status CudaDevice::waitEvent(int32_t stream, int32_t event) {
  HEDDLE_RT_RETURN_IF_ERROR(checkStream(stream));
  Event own = findEvent(event);
  return own ? check(card->driver().streamWaitEvent(streams[size_t(stream)],
                                                    own, 0),
                     "cuStreamWaitEvent")
             : Status::success();
}

Status CudaDevice::synchronize() {
  HEDDLE_RT_RETURN_IF_ERROR(card->use());
  if (capturing) {
    // A call of the run failed: what was recorded is dropped.
    Graph graph = nullptr;
    card->driver().streamEndCapture(streams[0], &graph);
    if (graph)
      card->driver().graphDestroy(graph);
    capturing.reset();
  }
  for (Stream each : streams)
    if (Status status = check(card->driver().streamSynchronize(each),
                              "cuStreamSynchronize");
        !status.ok())
      fail(std::move(status));
  return error();
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

Expected<bool> CudaDevice::beginRun(size_t table) {
  HEDDLE_RT_RETURN_IF_ERROR(card->use());
  if (hasPeers || trace)
    return false;
  Runs &runs = tables[table];
  ++runs.count;
  if (runs.graph) {
    HEDDLE_RT_RETURN_IF_ERROR(check(
        card->driver().graphLaunch(runs.graph, streams[0]), "cuGraphLaunch"));
    return true;
  }
  // The first run chooses algorithms and uploads constants, which a recording
  // cannot do.
  if (runs.count == 2) {
    // First, so that synchronize() ends a recording that fails to begin.
    capturing = table;
    HEDDLE_RT_RETURN_IF_ERROR(beginCapture());
  }
  return false;
}

Status CudaDevice::beginCapture() {
  const Driver &driver = card->driver();
  while (captureEvents.size() < streams.size()) {
    Event event = nullptr;
    HEDDLE_RT_RETURN_IF_ERROR(check(
        driver.eventCreate(&event, kEventDisableTiming), "cuEventCreate"));
    captureEvents.push_back(event);
  }
  HEDDLE_RT_RETURN_IF_ERROR(
      check(driver.streamBeginCapture(streams[0], kCaptureThreadLocal),
            "cuStreamBeginCapture"));
  // The other streams join the recording, as they would wait for an event.
  HEDDLE_RT_RETURN_IF_ERROR(
      check(driver.eventRecord(captureEvents[0], streams[0]), "cuEventRecord"));
  for (size_t i = 1; i < streams.size(); ++i)
    HEDDLE_RT_RETURN_IF_ERROR(
        check(driver.streamWaitEvent(streams[i], captureEvents[0], 0),
              "cuStreamWaitEvent"));
  // Events of earlier runs do not belong to the recording, and they are over.
  for (Event &event : events)
    if (event) {
      HEDDLE_RT_RETURN_IF_ERROR(
          check(driver.eventDestroy(event), "cuEventDestroy"));
      event = nullptr;
    }
  return Status::success();
}

Status CudaDevice::endRun() {
  if (products.choices)
    products.choices->write();
  if (!capturing)
    return Status::success();
  Runs &runs = tables[*capturing];
  const Driver &driver = card->driver();
  for (size_t i = 1; i < streams.size(); ++i) {
    HEDDLE_RT_RETURN_IF_ERROR(check(
        driver.eventRecord(captureEvents[i], streams[i]), "cuEventRecord"));
    HEDDLE_RT_RETURN_IF_ERROR(
        check(driver.streamWaitEvent(streams[0], captureEvents[i], 0),
              "cuStreamWaitEvent"));
  }
  Graph graph = nullptr;
  Status ended =
      check(driver.streamEndCapture(streams[0], &graph), "cuStreamEndCapture");
  capturing.reset();
  HEDDLE_RT_RETURN_IF_ERROR(ended);
  Status made = check(driver.graphInstantiate(&runs.graph, graph, 0),
                      "cuGraphInstantiateWithFlags");
  driver.graphDestroy(graph);
  HEDDLE_RT_RETURN_IF_ERROR(made);
  // Recorded events mean nothing to later calls.
  for (Event &event : events)
    if (event) {
      driver.eventDestroy(event);
      event = nullptr;
    }
  return check(driver.graphLaunch(runs.graph, streams[0]), "cuGraphLaunch");
}

} // namespace heddle::runtime::cuda
