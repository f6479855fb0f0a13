//===- SessionState.cpp - Loading a session and running its devices -------===//

#include "session/state/SessionState.h"
#include "session/state/CallNames.h"
#include "session/state/IssueRun.h"
#include "support/Message.h"
#include "support/Sanitizer.h"

#include <algorithm>
#include <dlfcn.h>
#include <fstream>
#include <link.h>

namespace heddle::runtime {

SessionState::~SessionState() {
  // The devices' traces point into the library, so the devices go first.
  devices.clear();
  if (library)
    dlclose(library);
}

/// Returns an error if a library's file was cut short. The loader would map as
/// many bytes as the header states, and touching the missing ones would end the
/// process. Linkers put the section headers at the end, so a file that contains
/// them is complete.
static Status checkWhole(const std::filesystem::path &file) {
  std::ifstream stream(file, std::ios::binary | std::ios::ate);
  if (!stream)
    return Status::success(); // the loader reports it
  auto size = uint64_t(stream.tellg());
  ElfW(Ehdr) header{};
  stream.seekg(0);
  if (!stream.read(reinterpret_cast<char *>(&header), sizeof header) ||
      header.e_shoff > size ||
      uint64_t(header.e_shnum) * header.e_shentsize > size - header.e_shoff)
    return errorOf("cannot load the program: ", file.string(),
                   ": the file is cut short (", size,
                   " bytes): compile the model again");
  return Status::success();
}

/// Returns an error if a program's function was compiled for another frame than
/// the manifest describes. It would read beyond the frame's lists.
static Status checkFrame(void *library, const std::string &file,
                         const ProgramInfo &program, const Manifest &manifest) {
  auto *expected = static_cast<const heddle_rt_frame_sizes *>(
      dlsym(library, (program.symbol + ".frame").c_str()));
  if (!expected)
    return Status::success();
  auto check = [&](std::string_view what, int64_t wanted, int64_t got) {
    return wanted == got
               ? Status::success()
               : errorOf("program ", program.name, " in ", file, ": expected ",
                         wanted, " ", what, " in the manifest, got ", got,
                         " (compile the model again)");
  };
  HEDDLE_RT_RETURN_IF_ERROR(check("variables", expected->variables,
                                  int64_t(manifest.variables.size())));
  HEDDLE_RT_RETURN_IF_ERROR(check("arguments", expected->arguments,
                                  int64_t(program.arguments.size())));
  HEDDLE_RT_RETURN_IF_ERROR(
      check("results", expected->results, int64_t(program.results.size())));
  return check("bytes of its arena", expected->arena_bytes, program.arenaBytes);
}

Status SessionState::openLibrary(const std::filesystem::path &directory) {
  if (!code->sanitizer.empty() && code->sanitizer != sanitizer)
    return errorOf("the model was compiled with --sanitize=", code->sanitizer,
                   ": expected a runtime that is built with this sanitizer, "
                   "got one ",
                   *sanitizer ? "with -fsanitize=" : "with none", sanitizer,
                   " (compile the model without it, or build the preset asan "
                   "or tsan)");
  // The program looks up the runtime's functions among the global symbols of
  // the process. If this library was opened with local symbols (as by Python's
  // ctypes), make them global.
  Dl_info self;
  if (dladdr(reinterpret_cast<void *>(&heddle_rt_launch), &self))
    if (void *handle =
            dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL))
      dlclose(handle);
  std::filesystem::path file =
      std::filesystem::absolute(directory / code->library);
  HEDDLE_RT_RETURN_IF_ERROR(checkWhole(file));
  library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *why = dlerror();
    return errorOf("cannot load the program: ", why ? why : file.c_str());
  }
  for (const ProgramInfo &info : manifest.programs) {
    void *symbol = dlsym(library, info.symbol.c_str());
    if (!symbol)
      return errorOf(file.string(), ": expected the symbol ", info.symbol,
                     " of program ", info.name, ", found none");
    HEDDLE_RT_RETURN_IF_ERROR(
        checkFrame(library, file.string(), info, manifest));
    programs.push_back({&info, reinterpret_cast<heddle_rt_program_fn>(symbol)});
  }
  if (options.emulateCompute)
    callTimes = std::make_shared<CallTimes>(
        options.network->device, static_cast<const heddle_rt_kernel_work *>(
                                     dlsym(library, "heddle_kernel_work")));
  return Status::success();
}

/// Describes a call: " (for h.0.mlp.c_proj, activation, in program 'step')".
/// Empty if the library does not say what its calls serve.
std::string SessionState::describeCall(const DeviceState &device,
                                       CallPlace place) const {
  if (currentTable >= device.entries.size() || place.entry < 0)
    return "";
  const auto &entries = device.entries[currentTable];
  if (size_t(place.entry) >= entries.size() ||
      !entries[size_t(place.entry)].program)
    return "";
  const std::string &program = entries[size_t(place.entry)].program->info->name;
  CallNames names(static_cast<const char *>(dlsym(library, "heddle_calls")));
  // The number of calls in a loop is not known, so its calls have no names.
  const nlohmann::json *item = names.find(program, place.call, 0);
  std::string served = item ? joinOperators(*item) : "";
  if (served.empty())
    return "";
  if (auto kind = item->find("kind"); kind != item->end() && kind->is_string())
    served += ", " + kind->get<std::string>();
  return concat(" (for ", served, ", in program '", program, "')");
}

/// Records the error that came first. It is the cause of the others.
Status SessionState::gatherError(bool allReturned) {
  const DeviceState *first = nullptr;
  std::string hung;
  for (size_t index = 0; index < devices.size(); ++index) {
    if (!allReturned && !team.isFinished(int32_t(index))) {
      hung += concat(hung.empty() ? "" : ", ", index);
      continue; // its thread may still write to the device
    }
    const heddle_rt_device &device = *devices[index].device;
    if (device.hasFailed() &&
        (!first || device.errorTime() < first->device->errorTime()))
      first = &devices[index];
  }
  if (first)
    broken = errorOf("device ", first->device->rank, ": ",
                     first->device->error().message(),
                     describeCall(*first, first->device->errorPlace()));
  if (!hung.empty())
    broken = errorOf(broken.message(), broken.ok() ? "" : "; ", "device ", hung,
                     " does not return");
  return broken;
}

Status SessionState::beginOnDevices(Job newJob) {
  if (!broken.ok())
    return broken;
  job = newJob;
  auto work = [](void *context, int32_t index) {
    auto &state = *static_cast<SessionState *>(context);
    heddle_rt_device &device = *state.devices[size_t(index)].device;
    Status status;
    try {
      status = state.job(state, state.devices[size_t(index)]);
    } catch (const std::exception &exception) {
      status = Status::error(exception.what());
    }
    if (!status.ok())
      device.fail(std::move(status));
    return !device.hasFailed();
  };
  team.begin(work, this);
  return Status::success();
}

Status SessionState::awaitDevices() {
  // Other devices notice a failure only after their own timeout, and then need
  // time to return.
  return gatherError(team.wait(options.collectiveTimeout * 2 +
                               std::chrono::milliseconds(2000)));
}

Status SessionState::touchMemory() {
  return runOnDevices([](SessionState &state, DeviceState &device) -> Status {
    for (Region *region :
         {device.variables.get(), device.borders.get(), device.arena.get()})
      if (!state.options.emulateCompute) // else not touched: it is zero
        HEDDLE_RT_RETURN_IF_ERROR(region->clear());
    // Forbids reads between the end of a buffer and the start of the next.
    auto forbidGaps = [&](Region &region, const PlacedTensor &tensor,
                          int64_t copies) {
      uint8_t *buffer = tensor.buffers[size_t(device.device->rank)];
      size_t bytes = tensor.layout.localBytes();
      for (int64_t copy = 0; buffer && copy < copies; ++copy)
        region.forbid(buffer + size_t(copy) * tensor.copyBytes() + bytes,
                      tensor.copyBytes() - bytes);
    };
    for (const PlacedTensor &variable : state.variables)
      forbidGaps(*device.variables, variable, 1);
    int64_t mostMicroBatches = 0;
    for (const LoadedTable &table : state.tables) {
      int64_t count = table.info->microBatches, runs = table.numRuns();
      mostMicroBatches = std::max(mostMicroBatches, count);
      for (const PlacedTensor &input : table.inputs)
        forbidGaps(*device.borders, input, runs * count);
      for (size_t i = 0; i < table.outputs.size(); ++i)
        forbidGaps(*device.borders, table.outputs[i], runs * table.copiesOf(i));
    }
    for (int64_t number = 0; device.microBatches && number < mostMicroBatches;
         ++number)
      HEDDLE_RT_RETURN_IF_ERROR(device.device->copyToDevice(
          device.microBatches + size_t(number) * bufferAlignment, &number,
          sizeof number));
    return Status::success();
  });
}

Status SessionState::initializeVariables() {
  return runOnDevices([](SessionState &state, DeviceState &device) -> Status {
    for (size_t i = 0; i < state.variables.size(); ++i)
      if (device.variablePointers[i])
        HEDDLE_RT_RETURN_IF_ERROR(initializeBlock(state.variables[i],
                                                  state.manifest.variables[i],
                                                  state.seed, *device.device));
    return Status::success();
  });
}

Status SessionState::runEntries(DeviceState &rank, size_t table, int64_t run) {
  heddle_rt_device &device = *rank.device;
  auto index = size_t(deviceOfRank[size_t(device.rank)]);
  if (trace)
    trace->beginRun(*this, index, table);
  int64_t begin = nanoseconds();
  device.place.entry = -1;
  bool isSecond = run % tables[table].numRuns() == 1;
  // The two lists differ in addresses, so a device may record both.
  Status status =
      issueRun(device, isSecond ? tables.size() + table : table,
               (isSecond ? rank.secondEntries : rank.entries)[table]);
  // Entries have only issued their calls. After a failure, too, those that
  // were issued still use the device's memory.
  Status ended = device.synchronize();
  int64_t end = nanoseconds();
  device.times.total += double(end - begin) * 1e-9;
  if (trace)
    trace->setTimes(int32_t(index), table, begin, end);
  return device.hasFailed() || status.ok() ? ended : status;
}

Status SessionState::runTable(size_t table) {
  currentTable = table;
  return runOnDevices([](SessionState &state, DeviceState &rank) {
    return state.runEntries(rank, state.currentTable, 0);
  });
}

} // namespace heddle::runtime
