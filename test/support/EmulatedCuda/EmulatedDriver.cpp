//===- EmulatedDriver.cpp - The driver's functions ------------------------===//

#include "State.h"

#include <algorithm>
#include <cstring>
#include <string_view>

using namespace heddle;
using namespace heddle::emulated;
namespace cuda = heddle::runtime::cuda;

namespace {

template <typename State, typename Handle> State *state(Handle handle) {
  return reinterpret_cast<State *>(handle);
}
StreamState *streamOf(cuda::Stream handle) {
  static StreamState unnamed; // the stream without a name is always idle
  return handle ? state<StreamState>(handle) : &unnamed;
}
std::unique_lock<std::mutex> lockGpu() {
  return std::unique_lock(Gpu::get().mutex);
}
/// Calls that a thread must not make while it records a stream.
bool isRecording() {
  for (StreamState *stream : Gpu::get().streams)
    if (stream->capture && stream->capture->origin == stream)
      return true;
  return false;
}

} // namespace

extern "C" {

Result cuGetErrorString(Result result, const char **text) {
  switch (result) {
  case kInvalidValue:
    *text = "invalid argument";
    break;
  case kNoMemory:
    *text = "out of memory";
    break;
  case kLaunchFailed:
    *text = "unspecified launch failure";
    break;
  default:
    *text = "emulated error";
  }
  return 0;
}
Result cuInit(unsigned) { return Gpu::get().machine.gpus ? 0 : kNoDevice; }
Result cuDriverGetVersion(int *version) {
  *version = Gpu::get().machine.driverVersion;
  return 0;
}
Result cuDeviceGetCount(int *count) {
  *count = Gpu::get().machine.gpus;
  return 0;
}
Result cuDeviceGet(int *device, int number) {
  *device = number;
  return number < Gpu::get().machine.gpus ? 0 : kInvalidValue;
}
Result cuDeviceGetName(char *name, int bytes, int) {
  std::snprintf(name, size_t(bytes), "an emulated GPU");
  return 0;
}
Result cuDeviceGetAttribute(int *value, int attribute, int) {
  const Machine &machine = Gpu::get().machine;
  if (attribute != 75 && attribute != 76)
    return kInvalidValue;
  *value = attribute == 75 ? machine.major : machine.minor;
  return 0;
}
Result cuDevicePrimaryCtxRetain(cuda::Context *context, int) {
  *context = reinterpret_cast<cuda::Context>(&Gpu::get());
  return 0;
}
Result cuDevicePrimaryCtxRelease_v2(int) { return 0; }

static thread_local bool hasContext = false;
Result cuCtxSetCurrent(cuda::Context context) {
  hasContext = context;
  return 0;
}

Result cuMemGetInfo_v2(size_t *free, size_t *total) {
  auto lock = lockGpu();
  Gpu &gpu = Gpu::get();
  *total = gpu.machine.memoryBytes;
  *free = *total - std::min(*total, gpu.usedBytes());
  return 0;
}
Result cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  auto lock = lockGpu();
  if (!hasContext)
    return kInvalidContext;
  return isRecording() ? kCaptureUnsupported
                       : Gpu::get().allocate(*address, bytes);
}
Result cuMemFree_v2(uint64_t address) {
  auto lock = lockGpu();
  return Gpu::get().release(address);
}
Result cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) {
  auto lock = lockGpu();
  Gpu &gpu = Gpu::get();
  if (isRecording())
    return kCaptureUnsupported;
  if (std::string text = gpu.check(to, bytes, "a copy"); !text.empty())
    return gpu.report(text);
  Access access(gpu, to);
  std::memcpy(reinterpret_cast<void *>(to), from, bytes);
  return 0;
}
Result cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) {
  auto lock = lockGpu();
  Gpu &gpu = Gpu::get();
  if (std::string text = gpu.check(from, bytes, "a copy"); !text.empty())
    return gpu.report(text);
  Access access(gpu, from);
  std::memcpy(to, reinterpret_cast<void *>(from), bytes);
  return 0;
}
Result cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes,
                            cuda::Stream stream) {
  auto lock = lockGpu();
  Gpu &gpu = Gpu::get();
  if (!hasContext)
    return kInvalidContext;
  ++gpu.counts.launches;
  gpu.issue(streamOf(stream),
            {Operation::Kind::Work,
             [=, &gpu]() -> std::string {
               for (uint64_t place : {to, from})
                 if (std::string text = gpu.check(place, bytes, "a copy");
                     !text.empty())
                   return text;
               std::memmove(reinterpret_cast<void *>(to),
                            reinterpret_cast<void *>(from), bytes);
               return "";
             },
             nullptr});
  return 0;
}
Result cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes,
                       cuda::Stream stream) {
  auto lock = lockGpu();
  Gpu &gpu = Gpu::get();
  ++gpu.counts.launches;
  gpu.issue(streamOf(stream),
            {Operation::Kind::Work,
             [=, &gpu] {
               std::string text = gpu.check(to, bytes, "a fill");
               if (text.empty())
                 std::memset(reinterpret_cast<void *>(to), value, bytes);
               return text;
             },
             nullptr});
  return 0;
}

Result cuStreamCreate(cuda::Stream *stream, unsigned) {
  auto lock = lockGpu();
  *stream = reinterpret_cast<cuda::Stream>(Gpu::get().addStream());
  return 0;
}
Result cuStreamDestroy_v2(cuda::Stream stream) {
  auto lock = lockGpu();
  auto *own = streamOf(stream);
  Result result = Gpu::get().drain(own);
  Gpu::get().streams.erase(own);
  delete own;
  return result;
}
Result cuStreamSynchronize(cuda::Stream stream) {
  auto lock = lockGpu();
  return streamOf(stream)->capture ? kCaptureUnsupported
                                   : Gpu::get().drain(streamOf(stream));
}

Result cuEventCreate(cuda::Event *event, unsigned) {
  *event = reinterpret_cast<cuda::Event>(new EventState());
  return 0;
}
Result cuEventDestroy_v2(cuda::Event event) {
  auto lock = lockGpu();
  delete state<EventState>(event);
  return 0;
}
Result cuEventRecord(cuda::Event event, cuda::Stream stream) {
  auto lock = lockGpu();
  if (!hasContext)
    return kInvalidContext;
  auto record = std::make_shared<Record>();
  record->capture = streamOf(stream)->capture;
  state<EventState>(event)->last = record;
  state<EventState>(event)->stream = streamOf(stream);
  Gpu::get().issue(streamOf(stream),
                   {Operation::Kind::Record, nullptr, record});
  return 0;
}
Result cuStreamWaitEvent(cuda::Stream stream, cuda::Event event, unsigned) {
  auto lock = lockGpu();
  if (!hasContext)
    return kInvalidContext;
  std::shared_ptr<Record> record = state<EventState>(event)->last;
  if (!record)
    return 0;
  StreamState *own = streamOf(stream);
  if (record->capture && !own->capture) {
    own->capture = record->capture;
    own->capture->order.push_back(own);
  }
  if (own->capture != record->capture)
    return kCaptureIsolation;
  Gpu::get().issue(own, {Operation::Kind::Wait, nullptr, record});
  return 0;
}

Result cuEventSynchronize(cuda::Event event) {
  auto lock = lockGpu();
  const EventState &own = *state<EventState>(event);
  if (!own.last || own.last->isDone)
    return 0;
  return own.last->capture ? kCaptureUnsupported : Gpu::get().drain(own.stream);
}
Result cuEventElapsedTime(float *milliseconds, cuda::Event start,
                          cuda::Event end) {
  auto lock = lockGpu();
  std::shared_ptr<Record> from = state<EventState>(start)->last,
                          to = state<EventState>(end)->last;
  if (!from || !to || !from->isDone || !to->isDone)
    return kInvalidHandle;
  *milliseconds = float((to->time - from->time) / 1000);
  return 0;
}

Result cuModuleLoadDataEx(cuda::Module *module, const void *image,
                          unsigned options, int *names, void **values) {
  auto lock = lockGpu();
  auto made = std::make_unique<ModuleState>();
  std::string text = static_cast<const char *>(image), log;
  // .visible .entry NAME( PARAMETERS ) DIRECTIVES {
  constexpr std::string_view entry = ".visible .entry ";
  for (size_t at = 0; (at = text.find(entry, at)) != std::string::npos;) {
    at += entry.size();
    size_t open = text.find('(', at), close = text.find(')', open),
           body = text.find('{', close);
    FunctionState function;
    function.name = text.substr(at, open - at);
    std::string parameters = text.substr(open, close - open);
    std::string directives = text.substr(close, body - close);
    for (size_t each = 0;
         (each = parameters.find(".param .u64", each)) != std::string::npos;
         ++each)
      ++function.parameters;
    if (size_t place = directives.find(".reqntid "); place != std::string::npos)
      function.threads = unsigned(std::atoi(directives.c_str() + place + 9));
    at = body;
    function.emulator = Gpu::get().findEmulator(function.name, log);
    if (!function.emulator) {
      log = "no emulation of the kernel " + function.name + " " + log;
      for (unsigned i = 0; i < options; ++i)
        if (names[i] == cuda::kJitErrorLog)
          std::strncpy(static_cast<char *>(values[i]), log.c_str(), 1000);
      return kInvalidImage;
    }
    made->functions[function.name] = function;
  }
  if (!text.starts_with("//"))
    return kInvalidImage;
  *module = reinterpret_cast<cuda::Module>(made.release());
  return 0;
}
Result cuModuleUnload(cuda::Module module) {
  auto lock = lockGpu();
  Gpu::get().drain(nullptr);
  delete state<ModuleState>(module);
  return 0;
}
Result cuModuleGetFunction(cuda::Function *function, cuda::Module module,
                           const char *name) {
  auto &functions = state<ModuleState>(module)->functions;
  auto found = functions.find(name);
  if (found == functions.end())
    return kNotFound;
  *function = reinterpret_cast<cuda::Function>(&found->second);
  return 0;
}
Result cuLaunchKernel(cuda::Function handle, unsigned gridX, unsigned gridY,
                      unsigned gridZ, unsigned blockX, unsigned blockY,
                      unsigned blockZ, unsigned sharedBytes,
                      cuda::Stream stream, void **parameters, void **) {
  auto lock = lockGpu();
  Gpu &gpu = Gpu::get();
  const auto &function = *state<FunctionState>(handle);
  if (!hasContext)
    return kInvalidContext;
  if (gridX == 0 || gridY != 1 || gridZ != 1 || blockX == 0 || blockX > 1024 ||
      blockY != 1 || blockZ != 1 || sharedBytes != 0 ||
      (function.threads && function.threads != blockX))
    return kInvalidValue;
  std::vector<uint64_t> words;
  for (size_t i = 0; i < function.parameters; ++i)
    words.push_back(*static_cast<const uint64_t *>(parameters[i]));
  ++gpu.counts.launches;
  Operation operation{Operation::Kind::Work,
                      [&gpu, function, gridX, blockX, words] {
                        return gpu.launch(function, gridX, blockX, words);
                      },
                      nullptr};
  // Other streams go on while this kernel waits.
  if (function.name == "heddle_end_flow")
    operation.isDue = [&gpu, words] { return gpu.isFlowOver(words); };
  gpu.issue(streamOf(stream), std::move(operation));
  return 0;
}

Result cuStreamBeginCapture_v2(cuda::Stream stream, int) {
  auto lock = lockGpu();
  StreamState *own = streamOf(stream);
  if (own->capture)
    return kInvalidValue;
  own->capture = new Capture{own, {own}, {}};
  return 0;
}
Result cuStreamEndCapture(cuda::Stream stream, cuda::Graph *graph) {
  auto lock = lockGpu();
  StreamState *own = streamOf(stream);
  std::unique_ptr<Capture> capture(own->capture);
  if (!capture || capture->origin != own)
    return kInvalidValue;
  std::set<Record *> awaited;
  for (auto &[each, list] : capture->lists)
    for (Operation &operation : list)
      if (operation.kind == Operation::Kind::Wait)
        awaited.insert(operation.record.get());
  Result result = 0;
  auto made = std::make_unique<GraphState>();
  for (StreamState *each : capture->order) {
    each->capture = nullptr;
    std::vector<Operation> &list = capture->lists[each];
    // The last work of a stream that joined must be awaited.
    if (each != own &&
        (list.empty() || list.back().kind != Operation::Kind::Record ||
         !awaited.contains(list.back().record.get())))
      result = kCaptureUnjoined;
    made->push_back(std::move(list));
  }
  // Records of a recording are none of the GPU.
  for (std::vector<Operation> &list : *made)
    for (Operation &operation : list)
      if (operation.record)
        operation.record->capture = nullptr;
  *graph = result ? nullptr : reinterpret_cast<cuda::Graph>(made.release());
  return result;
}
Result cuGraphInstantiateWithFlags(cuda::GraphExec *exec, cuda::Graph graph,
                                   unsigned long long) {
  *exec = reinterpret_cast<cuda::GraphExec>(
      new GraphState(*state<GraphState>(graph)));
  return 0;
}
Result cuGraphLaunch(cuda::GraphExec exec, cuda::Stream stream) {
  auto lock = lockGpu();
  Gpu &gpu = Gpu::get();
  ++gpu.counts.graphLaunches;
  StreamState *own = streamOf(stream);
  auto start = std::make_shared<Record>();
  gpu.issue(own, {Operation::Kind::Record, nullptr, start});
  std::map<Record *, std::shared_ptr<Record>> records;
  for (const std::vector<Operation> &list : *state<GraphState>(exec)) {
    StreamState *branch = gpu.addStream();
    branch->isBranch = true;
    gpu.issue(branch, {Operation::Kind::Wait, nullptr, start});
    for (Operation operation : list) {
      if (operation.record) {
        auto &fresh = records[operation.record.get()];
        if (!fresh)
          fresh = std::make_shared<Record>();
        operation.record = fresh;
      }
      gpu.issue(branch, std::move(operation));
    }
    auto end = std::make_shared<Record>();
    gpu.issue(branch, {Operation::Kind::Record, nullptr, end});
    gpu.issue(own, {Operation::Kind::Wait, nullptr, end});
  }
  return 0;
}
Result cuGraphExecDestroy(cuda::GraphExec exec) {
  auto lock = lockGpu();
  delete state<GraphState>(exec);
  return 0;
}
Result cuGraphDestroy(cuda::Graph graph) {
  auto lock = lockGpu();
  delete state<GraphState>(graph);
  return 0;
}

} // extern "C"

cuda::Driver emulated::getDriver() {
  cuda::Driver driver;
#define X(member, symbol, parameters) driver.member = &::symbol;
  HEDDLE_CUDA_DRIVER_FUNCTIONS(X)
#undef X
  return driver;
}
