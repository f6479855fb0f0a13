//===- Session.cpp - Loads an artifact and runs its programs --------------===//

#include "heddle_rt/session.h"
#include "heddle_rt/checksum.h"
#include "session/Report.h"
#include "support/Message.h"
#include "support/ReadFile.h"

#include <algorithm>
#include <system_error>

namespace heddle::runtime {

struct Session::Impl {
  std::shared_ptr<SessionState> state;

  Expected<size_t> findVariable(std::string_view name) const;
  Expected<size_t> findTable(std::string_view name) const;
  Status checkRange(size_t variable, int64_t first, int64_t count,
                    size_t bytes) const;
};

Session::Session(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}

Session::~Session() { impl->state->team.stop(); }

/// Returns a checksum of the files' contents. A file that cannot be read counts
/// as empty: loading it reports the error.
static uint64_t
getFingerprint(std::initializer_list<std::filesystem::path> files) {
  Checksum sum;
  for (const std::filesystem::path &file : files)
    if (std::optional<std::string> content = readFile(file))
      sum.update(std::as_bytes(std::span(*content)));
  return sum.value();
}

Expected<std::unique_ptr<Session>>
Session::load(const std::filesystem::path &directory,
              const SessionOptions &options) {
  Expected<Manifest> manifest = readManifest(directory / "manifest.json");
  HEDDLE_RT_RETURN_IF_ERROR(manifest.status());
  const CodeInfo *code = nullptr;
  const Backend *backend = nullptr;
  std::string kinds;
  for (const CodeInfo &each : manifest->code) {
    backend = options.backend ? options.backend : findBackend(each.kind);
    code = &each;
    if (backend)
      break;
    kinds += concat(kinds.empty() ? "" : ", ", each.kind);
  }
  if (!backend)
    return errorOf(
        "the model was compiled for devices of kind ",
        kinds.empty() ? "none" : kinds,
        ", none of which this runtime serves: compile it for ", cpuKind,
        findBackend(cudaKind) ? concat(" or ", cudaKind)
                              : ", or use a build with a backend for GPUs");
  HEDDLE_RT_RETURN_IF_ERROR(backend->checkTarget(*code));
  for (const TableInfo &table : manifest->tables)
    HEDDLE_RT_RETURN_IF_ERROR(
        verifyTable(*manifest, table).in(directory.string()));
  auto state = std::make_shared<SessionState>();
  state->directory = directory;
  size_t codeIndex = size_t(code - manifest->code.data());
  state->manifest = std::move(*manifest);
  state->code = &state->manifest.code[codeIndex];
  state->options = options;
  if (!options.streamOrder) {
    Expected<StreamOrder> order = streamOrderFromEnvironment();
    HEDDLE_RT_RETURN_IF_ERROR(order.status());
    state->options.streamOrder = *order;
  }
  state->backend = backend;
  state->fingerprint = getFingerprint({directory / "manifest.json",
                                       directory / state->code->library,
                                       directory / state->code->ptx});
  // First, because the groups of very many ranks take long to compute.
  if (options.localRanks.empty() && !options.job)
    HEDDLE_RT_RETURN_IF_ERROR(
        backend->checkDevices(state->manifest.numDevices()));
  HEDDLE_RT_RETURN_IF_ERROR(state->chooseRanks());
  auto devices = int64_t(state->options.localRanks.size());
  HEDDLE_RT_RETURN_IF_ERROR(backend->checkDevices(devices));
  state->seed = options.seed.value_or(state->manifest.seed);
  state->cores = options.coresPerDevice;
  if (state->cores < 1)
    state->cores = backend->defaultCores(
        devices * (options.job ? options.job->processesOnHost() : 1));
  if (options.network) {
    if (devices != state->manifest.numDevices())
      return errorOf("expected all ranks in one process to emulate a network");
    auto network =
        Network::create(*options.network, state->manifest.numDevices());
    HEDDLE_RT_RETURN_IF_ERROR(network.status());
    state->network = *network;
  } else if (options.emulateCompute) {
    return error("expected a network whose devices to emulate, got none");
  }
  HEDDLE_RT_RETURN_IF_ERROR(state->openLibrary(directory));
  // Starting a thread throws if the system refuses one.
  auto startThreads = [&](auto &&start) -> Status {
    try {
      return start();
    } catch (const std::system_error &problem) {
      return errorOf("cannot start the threads of ", devices, " devices with ",
                     state->cores, " cores each: ", problem.what());
    }
  };
  HEDDLE_RT_RETURN_IF_ERROR(startThreads([&] { return state->place(); }));
  auto impl = std::make_unique<Impl>();
  impl->state = state;
  std::unique_ptr<Session> session(new Session(std::move(impl)));
  HEDDLE_RT_RETURN_IF_ERROR(startThreads([&] {
    state->team.start(int32_t(devices), state);
    return Status::success();
  }));
  HEDDLE_RT_RETURN_IF_ERROR(state->touchMemory());
  if (options.initializeVariables && !options.emulateCompute)
    HEDDLE_RT_RETURN_IF_ERROR(session->initializeVariables());
  return session;
}

Status checkDevices(int64_t devices) {
  return findBackend(cpuKind)->checkDevices(devices);
}

const Manifest &Session::manifest() const { return impl->state->manifest; }
int Session::numDevices() const { return int(impl->state->devices.size()); }
int Session::coresPerDevice() const { return impl->state->cores; }
uint64_t Session::seed() const { return impl->state->seed; }
uint64_t Session::fingerprint() const { return impl->state->fingerprint; }
Job *Session::job() const { return impl->state->options.job.get(); }
std::vector<std::pair<int64_t, int64_t>>
Session::localRows(size_t table, size_t input) const {
  return impl->state->localRows(impl->state->tables[table].inputs[input]);
}
std::vector<OwnedBlock> Session::ownedBlocks() const {
  return impl->state->ownedBlocks();
}
Status Session::readBlock(const OwnedBlock &block, int64_t first, int64_t count,
                          Bytes to) const {
  return impl->state->readBlock(block, first, count, to);
}
bool Session::holdsPart(size_t tensor, std::span<const int64_t> start,
                        std::span<const int64_t> shape) const {
  return impl->state->holdsPart(tensor, start, shape);
}
bool Session::emulatesCompute() const {
  return impl->state->options.emulateCompute;
}

std::string Session::unusedGpu() const {
  const Manifest &manifest = impl->state->manifest;
  bool isForCpus = std::ranges::all_of(
      manifest.code, [](const CodeInfo &code) { return code.kind == cpuKind; });
  return isForCpus && !impl->state->options.backend ? findGpu() : "";
}

Status Session::initializeVariables() {
  return impl->state->initializeVariables();
}

Expected<size_t> Session::Impl::findVariable(std::string_view name) const {
  if (std::optional<size_t> found = state->manifest.findVariable(name))
    return *found;
  return errorOf("the model has no variable ", name);
}

Expected<size_t> Session::Impl::findTable(std::string_view name) const {
  if (std::optional<size_t> found = state->manifest.findTable(name))
    return *found;
  std::string names;
  for (const TableInfo &table : state->manifest.tables)
    names += concat(names.empty() ? "" : ", ", table.name);
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
  return impl->state->gather(impl->state->variables[variable], first, count,
                             to);
}

Status Session::writeElements(size_t variable, int64_t first, int64_t count,
                              ConstBytes from) {
  HEDDLE_RT_RETURN_IF_ERROR(
      impl->checkRange(variable, first, count, from.size()));
  return impl->state->scatter(impl->state->variables[variable], first, count,
                              from);
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

/// Returns an error unless a caller's buffer has the size of so many tensors.
static Status checkBuffer(const TableInfo &table, std::string_view what,
                          const PortInfo &port, int64_t copies, size_t bytes) {
  size_t expected = port.bytes() * size_t(copies);
  if (bytes == expected)
    return Status::success();
  return errorOf("program ", table.name, ": expected ", expected, " bytes for ",
                 what, " ", port.name, ", got ", bytes);
}

static Status checkCount(const TableInfo &table, std::string_view what,
                         size_t expected, size_t got) {
  if (got == expected)
    return Status::success();
  return errorOf("program ", table.name, ": expected ", expected, " ", what,
                 "s, got ", got);
}

/// Returns an error unless the caller's buffers have the sizes of a table's
/// inputs and outputs.
static Status checkBuffers(const LoadedTable &loaded,
                           std::span<const ConstBytes> inputs,
                           std::span<const Bytes> outputs) {
  const TableInfo &table = *loaded.info;
  HEDDLE_RT_RETURN_IF_ERROR(
      checkCount(table, "argument", table.inputs.size(), inputs.size()));
  HEDDLE_RT_RETURN_IF_ERROR(
      checkCount(table, "result", table.outputs.size(), outputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i)
    HEDDLE_RT_RETURN_IF_ERROR(checkBuffer(table, "argument", table.inputs[i],
                                          table.microBatches,
                                          inputs[i].size()));
  for (size_t i = 0; i < outputs.size(); ++i)
    if (!outputs[i].empty())
      HEDDLE_RT_RETURN_IF_ERROR(checkBuffer(table, "result", table.outputs[i],
                                            loaded.copiesOf(i),
                                            outputs[i].size()));
  return Status::success();
}

/// Copies the inputs of a run to the devices.
static Status scatterInputs(SessionState &state, const LoadedTable &loaded,
                            std::span<const ConstBytes> inputs, int64_t run) {
  const TableInfo &table = *loaded.info;
  int64_t count = table.microBatches, first = run % loaded.numRuns() * count;
  for (size_t i = 0; i < inputs.size(); ++i) {
    size_t bytes = table.inputs[i].bytes();
    for (int64_t copy = 0; copy < count; ++copy)
      HEDDLE_RT_RETURN_IF_ERROR(state.scatter(
          loaded.inputs[i], 0, table.inputs[i].elements(),
          inputs[i].subspan(size_t(copy) * bytes, bytes), first + copy));
  }
  return Status::success();
}

/// Copies the outputs of a run to the host.
static Status gatherOutputs(SessionState &state, const LoadedTable &loaded,
                            std::span<const Bytes> outputs, int64_t run) {
  const TableInfo &table = *loaded.info;
  for (size_t i = 0; i < outputs.size(); ++i) {
    size_t bytes = table.outputs[i].bytes();
    int64_t count = loaded.copiesOf(i), first = run % loaded.numRuns() * count;
    for (int64_t copy = 0; !outputs[i].empty() && copy < count; ++copy)
      HEDDLE_RT_RETURN_IF_ERROR(state.gather(
          loaded.outputs[i], 0, table.outputs[i].elements(),
          outputs[i].subspan(size_t(copy) * bytes, bytes), first + copy));
  }
  return Status::success();
}

Status Session::run(size_t index, std::span<const ConstBytes> inputs,
                    std::span<const Bytes> outputs) {
  SessionState &state = *impl->state;
  if (index < state.tables.size() && !state.tables[index].info->hasBarrier)
    return runMany(
        index, 1, inputs, outputs, [](int64_t) { return Expected<bool>(true); },
        [](int64_t) { return Status::success(); });
  if (index >= state.tables.size())
    return errorOf("expected a program below ", state.tables.size(), ", got ",
                   index);
  LoadedTable &loaded = state.tables[index];
  HEDDLE_RT_RETURN_IF_ERROR(checkBuffers(loaded, inputs, outputs));
  HEDDLE_RT_RETURN_IF_ERROR(state.broken);
  HEDDLE_RT_RETURN_IF_ERROR(scatterInputs(state, loaded, inputs, 0));
  HEDDLE_RT_RETURN_IF_ERROR(state.runTable(index));
  return gatherOutputs(state, loaded, outputs, 0);
}

Status Session::runMany(size_t index, int64_t count,
                        std::span<const ConstBytes> inputs,
                        std::span<const Bytes> outputs,
                        const std::function<Expected<bool>(int64_t)> &prepare,
                        const std::function<Status(int64_t)> &finish) {
  SessionState &state = *impl->state;
  if (index >= state.tables.size() || state.tables[index].info->hasBarrier)
    return errorOf("expected a program without a barrier, got ", index);
  LoadedTable &loaded = state.tables[index];
  HEDDLE_RT_RETURN_IF_ERROR(checkBuffers(loaded, inputs, outputs));
  HEDDLE_RT_RETURN_IF_ERROR(state.broken);
  return state.runSequence(
      index, count,
      [&](int64_t run) -> Expected<bool> {
        Expected<bool> follows = prepare(run);
        if (follows.ok() && *follows)
          HEDDLE_RT_RETURN_IF_ERROR(scatterInputs(state, loaded, inputs, run));
        return follows;
      },
      [&](int64_t run) -> Status {
        HEDDLE_RT_RETURN_IF_ERROR(gatherOutputs(state, loaded, outputs, run));
        return finish(run);
      });
}

Status Session::run(std::string_view table,
                    std::initializer_list<ConstBytes> inputs,
                    std::initializer_list<Bytes> outputs) {
  Expected<size_t> found = impl->findTable(table);
  HEDDLE_RT_RETURN_IF_ERROR(found.status());
  return run(*found, std::span(inputs.begin(), inputs.size()),
             std::span(outputs.begin(), outputs.size()));
}

Status Session::run(std::string_view table,
                    const std::vector<ConstBytes> &inputs,
                    const std::vector<Bytes> &outputs) {
  Expected<size_t> found = impl->findTable(table);
  HEDDLE_RT_RETURN_IF_ERROR(found.status());
  return run(*found, std::span(inputs), std::span(outputs));
}

std::vector<DeviceMemory> Session::memory() const {
  return reportMemory(*impl->state);
}

Status Session::checkReplicas() const {
  return heddle::runtime::checkReplicas(*impl->state);
}

std::vector<DeviceTimes> Session::times() const {
  std::vector<DeviceTimes> times;
  const std::optional<int64_t> &run = impl->state->finishedRun;
  for (const DeviceState &device : impl->state->devices)
    times.push_back(run ? device.timesOfRuns[*run % 2] : device.device->times);
  return times;
}

void Session::resetTimes() {
  for (DeviceState &device : impl->state->devices)
    device.device->times = DeviceTimes();
}

void Session::startTrace(size_t runs) {
  SessionState &state = *impl->state;
  state.trace =
      std::make_unique<Trace>(state.devices.size(), state.tables.size(), runs);
}

Status Session::writeTrace(const std::filesystem::path &file) const {
  const SessionState &state = *impl->state;
  if (!state.trace)
    return error("expected a trace that was started");
  return state.trace->write(state, file);
}

} // namespace heddle::runtime
