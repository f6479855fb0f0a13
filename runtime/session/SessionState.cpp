//===- SessionState.cpp - Loading and placing -----------------------------===//

#include "session/SessionState.h"
#include "support/Message.h"
#include "support/Sanitizer.h"

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

Status SessionState::openLibrary(const std::filesystem::path &directory) {
  if (!manifest.sanitizer.empty() && manifest.sanitizer != sanitizer)
    return errorOf(
        "the model was compiled with --sanitize=", manifest.sanitizer,
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
      std::filesystem::absolute(directory / manifest.library);
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
    programs.push_back(
        {&info, reinterpret_cast<heddle_rt_program_fn>(symbol), {}, {}});
  }
  return Status::success();
}

Status SessionState::place() {
  size_t numDevices = size_t(manifest.numDevices());
  auto placed = [&](const TensorInfo &info) {
    return PlacedTensor{&info, Layout(info, manifest.mesh),
                        std::vector<uint8_t *>(numDevices)};
  };
  for (const VariableInfo &info : manifest.variables)
    variables.push_back(placed(info));
  int streams = 1;
  size_t variableBytes = 0, borderBytes = 0, arenaBytes = 0;
  for (const PlacedTensor &variable : variables)
    variableBytes += alignBuffer(variable.layout.localBytes());
  for (LoadedProgram &program : programs) {
    for (const TensorInfo &info : program.info->arguments)
      program.arguments.push_back(placed(info));
    for (const TensorInfo &info : program.info->results)
      program.results.push_back(placed(info));
    for (auto *list : {&program.arguments, &program.results})
      for (const PlacedTensor &tensor : *list)
        borderBytes += alignBuffer(tensor.layout.localBytes());
    arenaBytes = std::max(arenaBytes, size_t(program.info->arenaBytes));
    streams = std::max(streams, program.info->streams);
  }
  HEDDLE_RT_RETURN_IF_ERROR(backend->checkMemory(
      manifest.numDevices(),
      double(variableBytes) + double(borderBytes) + double(arenaBytes)));
  Expected<std::vector<std::unique_ptr<heddle_rt_device>>> made =
      backend->makeDevices({manifest.mesh, manifest.groups, cores, streams,
                            *options.streamOrder, options.collectiveTimeout,
                            network});
  HEDDLE_RT_RETURN_IF_ERROR(made.status());
  for (size_t index = 0; index < numDevices; ++index) {
    DeviceState &state = devices.emplace_back();
    state.device = std::move((*made)[index]);
    state.coordinates = coordinatesOf(manifest.mesh, int32_t(index));
    for (auto [region, bytes] :
         {std::pair{&state.variables, variableBytes},
          std::pair{&state.borders, borderBytes},
          std::pair{&state.arena, alignBuffer(arenaBytes)}}) {
      Expected<std::unique_ptr<Region>> memory = state.device->allocate(bytes);
      HEDDLE_RT_RETURN_IF_ERROR(memory.status());
      *region = std::move(*memory);
    }
    auto assign = [index](uint8_t *&next, PlacedTensor &tensor,
                          std::vector<uint8_t *> &pointers) {
      tensor.buffers[index] = next;
      pointers.push_back(next);
      next += alignBuffer(tensor.layout.localBytes());
    };
    uint8_t *next = state.variables->data();
    for (PlacedTensor &variable : variables)
      assign(next, variable, state.variablePointers);
    next = state.borders->data();
    state.argumentPointers.resize(programs.size());
    state.resultPointers.resize(programs.size());
    for (size_t i = 0; i < programs.size(); ++i) {
      for (PlacedTensor &tensor : programs[i].arguments)
        assign(next, tensor, state.argumentPointers[i]);
      for (PlacedTensor &tensor : programs[i].results)
        assign(next, tensor, state.resultPointers[i]);
    }
    for (size_t i = 0; i < programs.size(); ++i)
      state.frames.push_back(
          {state.arena->data(), state.variablePointers.data(),
           state.argumentPointers[i].data(), state.resultPointers[i].data(),
           state.coordinates.data()});
  }
  return Status::success();
}

/// Records the error that came first. It is the cause of the others.
Status SessionState::gatherError(bool allReturned) {
  const heddle_rt_device *first = nullptr;
  std::string hung;
  for (size_t index = 0; index < devices.size(); ++index) {
    if (!allReturned && !team.isFinished(int32_t(index))) {
      hung += concat(hung.empty() ? "" : ", ", index);
      continue; // its thread may still write to the device
    }
    const heddle_rt_device &device = *devices[index].device;
    if (device.hasFailed() &&
        (!first || device.errorTime() < first->errorTime()))
      first = &device;
  }
  if (first)
    broken = errorOf("device ", first->rank, ": ", first->error().message());
  if (!hung.empty())
    broken = errorOf(broken.message(), broken.ok() ? "" : "; ", "device ", hung,
                     " does not return");
  return broken;
}

Status SessionState::runOnDevices(Job newJob) {
  if (!broken.ok())
    return broken;
  job = newJob;
  auto work = [](void *context, int32_t index) {
    auto &state = *static_cast<SessionState *>(context);
    heddle_rt_device &device = *state.devices[size_t(index)].device;
    Status status;
    try {
      status = state.job(state, index);
    } catch (const std::exception &exception) {
      status = Status::error(exception.what());
    }
    if (!status.ok())
      device.fail(std::move(status));
    return !device.hasFailed();
  };
  // Other devices notice a failure only after their own timeout, and then need
  // time to return.
  bool all =
      team.run(options.collectiveTimeout * 2 + std::chrono::milliseconds(2000),
               work, this);
  return gatherError(all);
}

Status SessionState::touchMemory() {
  return runOnDevices([](SessionState &state, int32_t index) -> Status {
    DeviceState &device = state.devices[size_t(index)];
    for (Region *region :
         {device.variables.get(), device.borders.get(), device.arena.get()})
      HEDDLE_RT_RETURN_IF_ERROR(region->clear());
    // Forbids reads between the end of a buffer and the start of the next.
    auto forbidGaps = [&](Region &region,
                          const std::vector<PlacedTensor> &tensors) {
      for (const PlacedTensor &tensor : tensors) {
        size_t bytes = tensor.layout.localBytes();
        region.forbid(tensor.buffers[size_t(index)] + bytes,
                      alignBuffer(bytes) - bytes);
      }
    };
    forbidGaps(*device.variables, state.variables);
    for (const LoadedProgram &program : state.programs) {
      forbidGaps(*device.borders, program.arguments);
      forbidGaps(*device.borders, program.results);
    }
    return Status::success();
  });
}

Status SessionState::initializeVariables() {
  return runOnDevices([](SessionState &state, int32_t index) -> Status {
    for (size_t i = 0; i < state.variables.size(); ++i)
      HEDDLE_RT_RETURN_IF_ERROR(
          initializeBlock(state.variables[i], state.manifest.variables[i],
                          state.seed, *state.devices[size_t(index)].device));
    return Status::success();
  });
}

Status SessionState::runProgram(size_t program) {
  currentProgram = program;
  return runOnDevices([](SessionState &state, int32_t index) {
    size_t program = state.currentProgram;
    DeviceState &deviceState = state.devices[size_t(index)];
    heddle_rt_device &device = *deviceState.device;
    int64_t begin = nanoseconds();
    heddle_rt_status status =
        state.programs[program].function(&device, &deviceState.frames[program]);
    // The program has only issued its calls. After a failure, too, those that
    // it has issued still use the device's memory.
    Status ended = device.synchronize();
    device.times.total += double(nanoseconds() - begin) * 1e-9;
    if (!ended.ok())
      return ended;
    if (status == 0 || device.hasFailed())
      return Status::success(); // the device has recorded the error
    return errorOf("program ", state.programs[program].info->name,
                   " returned status ", status, " without a message");
  });
}

} // namespace heddle::runtime
