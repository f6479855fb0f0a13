//===- Manifest.cpp - Reads manifest.json ---------------------------------===//

#include "heddle_rt/manifest.h"
#include "heddle/Support/JsonText.h"
#include "heddle_rt/staging.h"
#include "manifest/ManifestReader.h"
#include "support/Message.h"
#include "support/ReadFile.h"

#include <algorithm>

namespace heddle::runtime {

int64_t TensorInfo::elements() const { return product(shape); }

int64_t WholeTensor::elements() const { return product(shape); }

std::vector<int64_t> VariableInfo::wholeShape() const {
  std::vector<int64_t> whole = shape;
  if (slice)
    whole[size_t(slice->dim)] = slice->size;
  return whole;
}

int64_t Manifest::numDevices() const {
  int64_t count = 1;
  for (const MeshAxis &axis : mesh)
    count *= axis.size;
  return count;
}

std::optional<size_t> Manifest::findVariable(std::string_view name) const {
  return findByName(variables, name);
}

std::optional<size_t> Manifest::findTensor(std::string_view name) const {
  return findByName(tensors, name);
}

std::optional<size_t> Manifest::findProgram(std::string_view name) const {
  return findByName(programs, name);
}

std::optional<size_t> Manifest::findTable(std::string_view name) const {
  return findByName(tables, name);
}

std::optional<size_t> Manifest::findTable(TableRole role) const {
  auto found = std::ranges::find(tables, role, &TableInfo::role);
  if (found == tables.end())
    return std::nullopt;
  return size_t(found - tables.begin());
}

int32_t Manifest::numStreams() const {
  int32_t count = 1;
  for (const ProgramInfo &program : programs)
    count = std::max(count, program.streams);
  for (const TableInfo &table : tables)
    for (const TableList &list : table.lists)
      for (const TableEntry &entry : list.entries)
        if (entry.kind != TableEntry::Kind::Call)
          count = std::max(count, entry.stream + 1);
  return count;
}

int32_t Manifest::numProgramEvents() const {
  int32_t count = 0;
  for (const ProgramInfo &program : programs)
    count = std::max(count, program.events);
  return count;
}

std::vector<int64_t> Manifest::staging() const {
  std::vector<int64_t> most;
  for (const ProgramInfo &program : programs) {
    most.resize(std::max(most.size(), program.staging.size()));
    for (size_t i = 0; i < program.staging.size(); ++i)
      most[i] = std::max(most[i], program.staging[i]);
  }
  return most;
}

int64_t localBytes(const TensorInfo &tensor,
                   const std::vector<MeshAxis> &mesh) {
  auto bytes = int64_t(byteSize(tensor.type));
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    int64_t parts = 1;
    for (int32_t axis : tensor.sharding[i])
      parts *= mesh[size_t(axis)].size;
    bytes *= (tensor.shape[i] + parts - 1) / parts;
  }
  return bytes;
}

bool AxisCoordinates::contains(int64_t coordinate) const {
  return std::ranges::binary_search(values, coordinate);
}

bool RankSet::contains(std::span<const int64_t> coordinates) const {
  return std::ranges::all_of(where, [&](const AxisCoordinates &condition) {
    return condition.contains(coordinates[size_t(condition.axis)]);
  });
}

/// A file that asks for more devices than this is damaged.
static constexpr int64_t maxDevices = 1 << 16;
/// A program that asks for more events than this is damaged.
static constexpr int64_t maxEvents = 1 << 20;
/// A program that asks for more bytes of staging than this is damaged: no
/// collective of so many devices needs them.
static constexpr int64_t maxStaging =
    std::max(stagingOfWholeInputs(maxDevices, wholeInputBytes),
             stagingOfSlice(maxDevices, arrivingBytes));

CodeInfo ManifestReader::code(const Json &object, const std::string &path) {
  CodeInfo info;
  info.kind = string(object, path, "kind");
  info.library = string(object, path, "library");
  if (info.library.empty() || info.library.find('/') != std::string::npos)
    fail(join(path, "library"), "a file name without a folder",
         concat("\"", info.library, "\""));
  info.triple = string(object, path, "triple");
  if (member(object, path, "sanitizer", false))
    info.sanitizer = string(object, path, "sanitizer");
  each(object, path, "features", [&](const Json &value, const std::string &at) {
    if (!value.is_string())
      return fail(at, "a string", describe(value));
    info.features.push_back(value.get<std::string>());
  });
  if (info.kind == "cuda")
    gpuCode(object, path, info);
  return info;
}

void ManifestReader::gpuCode(const Json &object, const std::string &path,
                             CodeInfo &info) {
  info.chip = string(object, path, "chip");
  info.ptx = string(object, path, "ptx");
  if (info.ptx.empty() || info.ptx.find('/') != std::string::npos)
    fail(join(path, "ptx"), "a file name without a folder",
         concat("\"", info.ptx, "\""));
  if (member(object, path, "attention", false)) {
    info.attention = string(object, path, "attention");
    if (info.attention != "auto" && info.attention != "cudnn" &&
        info.attention != "kernel")
      fail(join(path, "attention"), "\"auto\", \"cudnn\" or \"kernel\"",
           concat("\"", info.attention, "\""));
  }
  eachObject(object, path, "kernels",
             [&](const Json &kernel, const std::string &at) {
               info.kernels.push_back(this->kernel(kernel, at));
             });
}

KernelInfo ManifestReader::kernel(const Json &object, const std::string &path) {
  // The limits of all chips that CUDA serves.
  constexpr int64_t mostBlocks = 0x7fffffff, mostThreads = 1024,
                    mostShared = 48 << 10;
  auto number = [&](const char *key, int64_t least, int64_t most) {
    int64_t value = integer(object, path, key, least);
    if (status.ok() && value > most)
      fail(join(path, key), concat("at most ", most), concat(value));
    return value;
  };
  KernelInfo info;
  info.symbol = string(object, path, "symbol");
  info.grid = number("grid", 1, mostBlocks);
  info.block = number("block", 1, mostThreads);
  info.sharedBytes = number("shared_bytes", 0, mostShared);
  if (member(object, path, "work_bytes", false))
    info.workBytes = integer(object, path, "work_bytes", 0);
  if (const Json *table = member(object, path, "table", false)) {
    if (table->is_boolean())
      info.isTable = table->get<bool>();
    else
      fail(join(path, "table"), "true or false", describe(*table));
  }
  each(object, path, "parameters",
       [&](const Json &value, const std::string &at) {
         if (value.is_string() && value.get<std::string>() == "number")
           return info.parameters.push_back({});
         if (!value.is_object())
           return fail(at, "\"number\" or {\"buffer\": BYTES}",
                       describe(value));
         info.parameters.push_back({true, integer(value, at, "buffer", 0)});
       });
  return info;
}

void ManifestReader::readMesh(const Json &root) {
  int64_t devices = 1;
  eachObject(root, "", "mesh", [&](const Json &axis, const std::string &at) {
    manifest.mesh.push_back(
        {string(axis, at, "name"), integer(axis, at, "size", 1)});
    if (manifest.mesh.back().size > maxDevices / devices)
      fail(join(at, "size"), concat("at most ", maxDevices, " devices"),
           concat(manifest.mesh.back().size));
    else
      devices *= manifest.mesh.back().size;
  });
  checkUnique(manifest.mesh, "mesh");
}

/// Reads the arguments whose memory a result may take.
void ManifestReader::inPlace(const Json &result, const std::string &path,
                             const ProgramInfo &program,
                             std::vector<size_t> &arguments) {
  if (!member(result, path, "in_place", false))
    return;
  each(result, path, "in_place", [&](const Json &value, const std::string &at) {
    auto index = size_t(toInteger(value, at, 0));
    if (status.ok() && index >= program.arguments.size())
      fail(at, concat("an argument below ", program.arguments.size()),
           concat(index));
    arguments.push_back(index);
  });
}

ProgramInfo ManifestReader::program(const Json &object,
                                    const std::string &path) {
  ProgramInfo info;
  info.name = string(object, path, "name");
  info.symbol = string(object, path, "symbol");
  info.arenaBytes = integer(object, path, "arena_bytes", 0);
  auto number = [&](const char *key, int64_t least, int64_t most) {
    int64_t value = member(object, path, key, false)
                        ? integer(object, path, key, least)
                        : least;
    if (value > most)
      fail(join(path, key), concat("at most ", most, " ", key), concat(value));
    return int32_t(std::min(value, most));
  };
  info.streams = number("streams", 1, maxStreams);
  info.events = number("events", 0, maxEvents);
  if (member(object, path, "staging", false))
    each(object, path, "staging",
         [&](const Json &value, const std::string &at) {
           int64_t bytes = toInteger(value, at, 0);
           if (bytes > maxStaging)
             fail(at, concat("at most ", maxStaging, " bytes"), concat(bytes));
           info.staging.push_back(bytes);
         });
  if (status.ok() && info.staging.size() > size_t(info.streams))
    fail(join(path, "staging"), concat("at most ", info.streams, " streams"),
         concat(info.staging.size()));
  info.ranks = ranks(object, path);
  for (auto [key, ports] : {std::pair{"arguments", &info.arguments},
                            std::pair{"results", &info.results}})
    eachObject(object, path, key,
               [&](const Json &element, const std::string &at) {
                 port(element, at, ports->emplace_back());
               });
  info.inPlace.resize(info.results.size());
  size_t result = 0;
  eachObject(object, path, "results",
             [&](const Json &element, const std::string &at) {
               inPlace(element, at, info, info.inPlace[result++]);
             });
  return info;
}

void ManifestReader::read(const Json &root) {
  manifest.version = integer(root, "", "version", 0);
  if (status.ok() && manifest.version != 2)
    fail("version", "2, which this runtime reads (compile the model again)",
         concat(manifest.version));
  manifest.abi = integer(root, "", "abi", 0);
  if (status.ok() && manifest.abi != HEDDLE_RT_ABI_VERSION)
    fail("abi",
         concat(HEDDLE_RT_ABI_VERSION,
                ", which this runtime has (compile the model again)"),
         concat(manifest.abi));
  eachObject(root, "", "code", [&](const Json &object, const std::string &at) {
    CodeInfo info = code(object, at);
    for (const CodeInfo &other : manifest.code)
      if (other.kind == info.kind)
        fail(join(at, "kind"), "each kind once",
             concat("\"", info.kind, "\" again"));
    manifest.code.push_back(std::move(info));
  });
  readMesh(root);
  eachObject(root, "", "rank_sets",
             [&](const Json &object, const std::string &at) {
               manifest.rankSets.push_back(rankSet(object, at));
             });
  if (status.ok() &&
      (manifest.rankSets.empty() || !manifest.rankSets[0].where.empty()))
    fail("rank_sets", "the set of all ranks, {\"where\": {}}, first",
         manifest.rankSets.empty() ? "none" : "another");
  eachObject(root, "", "groups",
             [&](const Json &object, const std::string &at) {
               manifest.groups.push_back(group(object, at));
             });
  readVariables(root);
  eachObject(root, "", "programs",
             [&](const Json &object, const std::string &at) {
               manifest.programs.push_back(program(object, at));
             });
  checkUnique(manifest.programs, "programs");
  readTables(root);
  manifest.seed = uint64_t(integer(root, "", "seed", 0));
  if (member(root, "", "program_hash", false))
    manifest.programHash = string(root, "", "program_hash");
  if (const Json *model = member(root, "", "model", false))
    manifest.model = model->dump();
  if (const Json *plan = member(root, "", "plan", false))
    manifest.plan = plan->dump();
}

Expected<Manifest> parseManifest(std::string_view text,
                                 std::string_view origin) {
  Json root;
  if (std::optional<JsonProblem> problem = parseJson(text, root))
    return errorOf(
        describePlace(origin, text, problem->offset), ": ", problem->message,
        problem->offset < text.size() ? "" : " (the file may be cut short)");
  if (!root.is_object())
    return errorOf(origin, ": expected an object, got ", root.type_name());
  ManifestReader reader;
  reader.read(root);
  if (!reader.status.ok())
    return std::move(reader.status).in(origin);
  return std::move(reader.manifest);
}

Expected<Manifest> readManifest(const std::filesystem::path &file) {
  std::optional<std::string> text = readFile(file);
  if (!text)
    return errorOf("cannot read ", file.string(),
                   ": expected the manifest of a compiled model");
  return parseManifest(*text, file.string());
}

} // namespace heddle::runtime
