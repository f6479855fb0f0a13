//===- Session.cpp - Loads an artifact and runs its programs --------------===//

#include "heddle_rt/session.h"
#include "session/CpuFeatures.h"
#include "session/Report.h"

#include <algorithm>
#include <system_error>
#include <thread>

namespace heddle::runtime {

struct Session::Impl {
  std::shared_ptr<SessionState> state;

  Expected<size_t> findVariable(std::string_view name) const;
  Expected<size_t> findProgram(std::string_view name) const;
  Status checkRange(size_t variable, int64_t first, int64_t count,
                    size_t bytes) const;
};

Session::Session(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}

Session::~Session() { impl->state->team.stop(); }

Expected<std::unique_ptr<Session>>
Session::load(const std::filesystem::path &directory,
              const SessionOptions &options) {
  Expected<Manifest> manifest = readManifest(directory / "manifest.json");
  HEDDLE_RT_RETURN_IF_ERROR(manifest.status());
  HEDDLE_RT_RETURN_IF_ERROR(checkCpu(manifest->triple, manifest->features));
  HEDDLE_RT_RETURN_IF_ERROR(checkDevices(manifest->numDevices()));
  auto state = std::make_shared<SessionState>();
  state->manifest = std::move(*manifest);
  state->options = options;
  state->seed = options.seed.value_or(state->manifest.seed);
  state->cores = options.coresPerDevice;
  if (state->cores < 1)
    state->cores =
        std::max(1, int(int64_t(std::thread::hardware_concurrency()) /
                        state->manifest.numDevices()));
  HEDDLE_RT_RETURN_IF_ERROR(state->openLibrary(directory));
  // Starting a thread throws if the system refuses one.
  auto startThreads = [&](auto &&start) -> Status {
    try {
      return start();
    } catch (const std::system_error &problem) {
      return errorOf("cannot start the threads of ",
                     state->manifest.numDevices(), " devices with ",
                     state->cores, " cores each: ", problem.what());
    }
  };
  HEDDLE_RT_RETURN_IF_ERROR(startThreads([&] { return state->place(); }));
  auto impl = std::make_unique<Impl>();
  impl->state = state;
  std::unique_ptr<Session> session(new Session(std::move(impl)));
  HEDDLE_RT_RETURN_IF_ERROR(startThreads([&] {
    state->team.start(int32_t(state->manifest.numDevices()), state);
    return Status::success();
  }));
  HEDDLE_RT_RETURN_IF_ERROR(state->touchMemory());
  if (options.initializeVariables)
    HEDDLE_RT_RETURN_IF_ERROR(session->initializeVariables());
  return session;
}

const Manifest &Session::manifest() const { return impl->state->manifest; }
int Session::numDevices() const { return int(impl->state->devices.size()); }
int Session::coresPerDevice() const { return impl->state->cores; }
uint64_t Session::seed() const { return impl->state->seed; }

Status Session::initializeVariables() {
  return impl->state->initializeVariables();
}

Expected<size_t> Session::Impl::findVariable(std::string_view name) const {
  if (std::optional<size_t> found = state->manifest.findVariable(name))
    return *found;
  return errorOf("the model has no variable ", name);
}

Expected<size_t> Session::Impl::findProgram(std::string_view name) const {
  if (std::optional<size_t> found = state->manifest.findProgram(name))
    return *found;
  std::string names;
  for (const ProgramInfo &program : state->manifest.programs)
    names += concat(names.empty() ? "" : ", ", program.name);
  return errorOf("the artifact has no program ", name, ", expected one of ",
                 names);
}

Status Session::Impl::checkRange(size_t variable, int64_t first, int64_t count,
                                 size_t bytes) const {
  if (variable >= state->variables.size())
    return errorOf("expected a variable below ", state->variables.size(),
                   ", got ", variable);
  const PlacedTensor &tensor = state->variables[variable];
  int64_t elements = tensor.layout.globalElements();
  if (first < 0 || count < 0 || first > elements || count > elements - first)
    return errorOf(tensor.info->name, ": expected elements within [0, ",
                   elements, "), got ", count, " from ", first);
  size_t expected = size_t(count) * tensor.layout.elementBytes();
  if (bytes != expected)
    return errorOf(tensor.info->name, ": expected a host buffer of ", expected,
                   " bytes, got ", bytes);
  return Status::success();
}

Status Session::readElements(size_t variable, int64_t first, int64_t count,
                             Bytes to) const {
  HEDDLE_RT_RETURN_IF_ERROR(
      impl->checkRange(variable, first, count, to.size()));
  gather(impl->state->variables[variable], first, count, to);
  return Status::success();
}

Status Session::writeElements(size_t variable, int64_t first, int64_t count,
                              ConstBytes from) {
  HEDDLE_RT_RETURN_IF_ERROR(
      impl->checkRange(variable, first, count, from.size()));
  scatter(impl->state->variables[variable], first, count, from);
  return Status::success();
}

/// Returns the number of elements of a row of dimension 0. A scalar is one row.
static int64_t rowElements(const Manifest &manifest, size_t variable) {
  if (variable >= manifest.variables.size() ||
      manifest.variables[variable].shape.empty())
    return 1;
  const VariableInfo &info = manifest.variables[variable];
  return info.elements() / info.shape.front();
}

Status Session::readRows(size_t variable, int64_t first, int64_t count,
                         Bytes to) const {
  int64_t row = rowElements(manifest(), variable);
  return readElements(variable, first * row, count * row, to);
}

Status Session::writeRows(size_t variable, int64_t first, int64_t count,
                          ConstBytes from) {
  int64_t row = rowElements(manifest(), variable);
  return writeElements(variable, first * row, count * row, from);
}

Status Session::readVariable(size_t variable, Bytes to) const {
  HEDDLE_RT_RETURN_IF_ERROR(impl->checkRange(variable, 0, 0, 0));
  return readElements(variable, 0, manifest().variables[variable].elements(),
                      to);
}

Status Session::writeVariable(size_t variable, ConstBytes from) {
  HEDDLE_RT_RETURN_IF_ERROR(impl->checkRange(variable, 0, 0, 0));
  return writeElements(variable, 0, manifest().variables[variable].elements(),
                       from);
}

Status Session::readVariable(std::string_view name, Bytes to) const {
  if (std::optional<size_t> tensor = manifest().findTensor(name))
    return readTensor(*tensor, 0, manifest().tensors[*tensor].elements(), to);
  Expected<size_t> found = impl->findVariable(name);
  HEDDLE_RT_RETURN_IF_ERROR(found.status());
  return readVariable(*found, to);
}

Status Session::writeVariable(std::string_view name, ConstBytes from) {
  if (std::optional<size_t> tensor = manifest().findTensor(name))
    return writeTensor(*tensor, 0, manifest().tensors[*tensor].elements(),
                       from);
  Expected<size_t> found = impl->findVariable(name);
  HEDDLE_RT_RETURN_IF_ERROR(found.status());
  return writeVariable(*found, from);
}

/// Returns an error unless the caller's buffers have the manifest's sizes.
template <typename Spans>
static Status checkBorder(std::string_view what, const ProgramInfo &program,
                          const std::vector<TensorInfo> &tensors,
                          const Spans &spans, bool mayBeEmpty) {
  if (spans.size() != tensors.size())
    return errorOf("program ", program.name, ": expected ", tensors.size(), " ",
                   what, "s, got ", spans.size());
  for (size_t i = 0; i < tensors.size(); ++i)
    if (spans[i].size() != tensors[i].bytes() &&
        !(mayBeEmpty && spans[i].empty()))
      return errorOf("program ", program.name, ": expected ",
                     tensors[i].bytes(), " bytes for ", what, " ",
                     tensors[i].name, ", got ", spans[i].size());
  return Status::success();
}

Status Session::run(size_t program, std::span<const ConstBytes> arguments,
                    std::span<const Bytes> results) {
  SessionState &state = *impl->state;
  if (program >= state.programs.size())
    return errorOf("expected a program below ", state.programs.size(), ", got ",
                   program);
  LoadedProgram &loaded = state.programs[program];
  HEDDLE_RT_RETURN_IF_ERROR(checkBorder("argument", *loaded.info,
                                        loaded.info->arguments, arguments,
                                        /*mayBeEmpty=*/false));
  HEDDLE_RT_RETURN_IF_ERROR(checkBorder("result", *loaded.info,
                                        loaded.info->results, results,
                                        /*mayBeEmpty=*/true));
  HEDDLE_RT_RETURN_IF_ERROR(state.broken);
  for (size_t i = 0; i < arguments.size(); ++i)
    scatter(loaded.arguments[i], 0, loaded.info->arguments[i].elements(),
            arguments[i]);
  HEDDLE_RT_RETURN_IF_ERROR(state.runProgram(program));
  for (size_t i = 0; i < results.size(); ++i)
    if (!results[i].empty())
      gather(loaded.results[i], 0, loaded.info->results[i].elements(),
             results[i]);
  return Status::success();
}

Status Session::run(std::string_view program,
                    std::initializer_list<ConstBytes> arguments,
                    std::initializer_list<Bytes> results) {
  Expected<size_t> found = impl->findProgram(program);
  HEDDLE_RT_RETURN_IF_ERROR(found.status());
  return run(*found, std::span(arguments.begin(), arguments.size()),
             std::span(results.begin(), results.size()));
}

Status Session::run(std::string_view program,
                    const std::vector<ConstBytes> &arguments,
                    const std::vector<Bytes> &results) {
  Expected<size_t> found = impl->findProgram(program);
  HEDDLE_RT_RETURN_IF_ERROR(found.status());
  return run(*found, std::span(arguments), std::span(results));
}

std::vector<DeviceMemory> Session::memory() const {
  return reportMemory(*impl->state);
}

Status Session::checkReplicas() const {
  return heddle::runtime::checkReplicas(*impl->state);
}

std::vector<DeviceTimes> Session::times() const {
  std::vector<DeviceTimes> times;
  for (const DeviceState &device : impl->state->devices)
    times.push_back(device.device->times);
  return times;
}

void Session::resetTimes() {
  for (DeviceState &device : impl->state->devices)
    device.device->times = DeviceTimes();
}

Status Session::startTrace(size_t maxEvents) {
  return heddle::runtime::startTrace(*impl->state, maxEvents);
}

Status Session::writeTrace(const std::filesystem::path &file) {
  return heddle::runtime::writeTrace(*impl->state, file);
}

} // namespace heddle::runtime
