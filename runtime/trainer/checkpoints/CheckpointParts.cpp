//===- CheckpointParts.cpp - Checkpoints that processes share -------------===//

#include "CheckpointParts.h"

#include "../VariableIO.h"

#include "heddle/Support/JsonText.h"
#include "heddle_rt/checkpoint.h"
#include "heddle_rt/checksum.h"
#include "heddle_rt/safetensors.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>

namespace fs = std::filesystem;
using namespace heddle::runtime;
using nlohmann::json;

/// The elements of a block that the host holds at a time.
static constexpr int64_t elementsAtOnce = int64_t(1) << 20;

std::string heddle::runtime::checksumText(uint64_t checksum) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(checksum));
  return text;
}

bool heddle::runtime::hasParts(const fs::path &directory) {
  std::error_code failure;
  return fs::exists(directory / partsFile, failure);
}

static int64_t elementsOf(const std::vector<int64_t> &shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t(1),
                         std::multiplies<>());
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

/// Writes the blocks of this process and returns the entry of its file.
static Expected<json> writeOwnPart(const Session &session,
                                   const fs::path &directory) {
  const Manifest &manifest = session.manifest();
  std::vector<OwnedBlock> blocks = session.ownedBlocks();
  std::erase_if(blocks, [&](const OwnedBlock &block) {
    return isSumOfStep(manifest.tensors[block.tensor].role);
  });
  char name[40];
  std::snprintf(name, sizeof name, "part-%05d.safetensors",
                session.job()->process());
  std::vector<safetensors::TensorInfo> infos;
  for (const OwnedBlock &block : blocks) {
    const WholeTensor &tensor = manifest.tensors[block.tensor];
    std::optional<safetensors::DType> type = safetensorsType(tensor.type);
    if (!type)
      return error("variable '" + tensor.name + "': type " +
                   std::string(heddle::runtime::name(tensor.type)) +
                   " has no representation in safetensors");
    infos.push_back({std::to_string(infos.size()), *type, block.shape});
  }
  auto writer =
      safetensors::FileWriter::create((directory / name).string(), infos, {});
  if (!writer.ok())
    return writer.status();
  json parts = json::array();
  std::vector<std::byte> buffer;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const WholeTensor &tensor = manifest.tensors[blocks[i].tensor];
    int64_t elements = elementsOf(blocks[i].shape);
    Checksum checksum;
    for (int64_t first = 0; first < elements; first += elementsAtOnce) {
      int64_t count = std::min(elementsAtOnce, elements - first);
      buffer.resize(static_cast<size_t>(count) * byteSize(tensor.type));
      HEDDLE_RT_RETURN_IF_ERROR(
          session.readBlock(blocks[i], first, count, buffer));
      checksum.update(buffer);
      HEDDLE_RT_RETURN_IF_ERROR(writer->write(i, first, buffer));
    }
    parts.push_back({{"tensor", tensor.name},
                     {"start", blocks[i].start},
                     {"shape", blocks[i].shape},
                     {"checksum", checksumText(checksum.value())}});
  }
  HEDDLE_RT_RETURN_IF_ERROR(writer->commit());
  return json{{"file", name}, {"parts", std::move(parts)}};
}

Expected<std::string> heddle::runtime::writeParts(const Session &session,
                                                  const fs::path &directory) {
  auto entry = writeOwnPart(session, directory);
  // A process that failed tells the others instead of leaving them to wait.
  json mine =
      entry.ok() ? *entry : json{{"error", std::string(entry.message())}};
  std::string text = mine.dump(-1, ' ', false, json::error_handler_t::replace);
  auto all = session.job()->allGather(std::as_bytes(std::span(text)));
  HEDDLE_RT_RETURN_IF_ERROR(all.status());
  json files = json::array();
  for (const std::vector<std::byte> &each : *all) {
    const char *begin = reinterpret_cast<const char *>(each.data());
    files.push_back(json::parse(begin, begin + each.size()));
    if (auto problem = files.back().find("error");
        problem != files.back().end())
      return error(problem->get<std::string>() + " (process " +
                   std::to_string(files.size() - 1) + ")");
  }
  return json{{"version", 1}, {"files", std::move(files)}}.dump(1) + "\n";
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

static Expected<json> readIndex(const fs::path &file) {
  std::ifstream stream(file);
  std::stringstream content;
  content << stream.rdbuf();
  if (!stream)
    return error("cannot read '" + file.string() + "'");
  std::string text = content.str();
  json index;
  if (auto problem = heddle::parseJson(text, index))
    return error(heddle::describePlace(file.string(), text, problem->offset) +
                 ": " + problem->message);
  return index;
}

Expected<std::vector<CheckpointPart>>
heddle::runtime::readCheckpointParts(const fs::path &directory) {
  fs::path file = directory / partsFile;
  auto index = readIndex(file);
  if (!index.ok())
    return std::move(index).status();
  std::vector<CheckpointPart> parts;
  try {
    if (index->at("version") != 1)
      return error("'" + file.string() + "': expected version 1");
    for (const json &entry : index->at("files")) {
      std::string name = entry.at("file");
      if (fs::path(name).has_parent_path())
        return error("'" + file.string() +
                     "': expected a file in the same folder, got '" + name +
                     "'");
      for (const json &part : entry.at("parts"))
        parts.push_back({name, part.at("tensor"), part.at("start"),
                         part.at("shape"), part.at("checksum")});
    }
  } catch (const json::exception &problem) {
    return error("'" + file.string() + "': " + problem.what());
  }
  return parts;
}

namespace {

/// A part and its data.
struct Part : CheckpointPart {
  const safetensors::Tensor *data;
};

/// All parts of a checkpoint.
struct PartSet {
  std::map<std::string, safetensors::Reader> files;
  std::vector<Part> parts;

  static Expected<PartSet> open(const fs::path &directory);
};

} // namespace

Expected<PartSet> PartSet::open(const fs::path &directory) {
  auto listed = readCheckpointParts(directory);
  if (!listed.ok())
    return std::move(listed).status();
  PartSet set;
  std::map<std::string, size_t> next; // by file
  for (CheckpointPart &part : *listed) {
    auto file = set.files.find(part.file);
    if (file == set.files.end()) {
      auto reader = safetensors::Reader::open((directory / part.file).string());
      if (!reader.ok())
        return std::move(reader).status();
      file = set.files.emplace(part.file, std::move(*reader)).first;
    }
    size_t number = next[part.file]++;
    const safetensors::Tensor *data = file->second.find(std::to_string(number));
    if (!data || data->shape != part.shape ||
        part.start.size() != part.shape.size())
      return error("'" + (directory / part.file).string() + "': tensor '" +
                   std::to_string(number) + "': expected a part of '" +
                   part.tensor + "' of shape " +
                   safetensors::shapeToString(part.shape));
    set.parts.push_back({std::move(part), data});
  }
  return set;
}

static Status verify(const Part &part) {
  return checksumText(checksumOf(part.data->data)) == part.checksum
             ? Status::success()
             : error("file '" + part.file + "': variable '" + part.tensor +
                     "': the file is damaged: its checksum differs");
}

Status heddle::runtime::verifyParts(const fs::path &directory) {
  auto set = PartSet::open(directory);
  if (!set.ok())
    return std::move(set).status();
  for (const Part &part : set->parts)
    HEDDLE_RT_RETURN_IF_ERROR(verify(part));
  return Status::success();
}

/// Writes a part to the session, run by run: a run is contiguous in the whole
/// tensor too.
static Status writePart(Session &session, size_t tensor, const Part &part) {
  const WholeTensor &info = session.manifest().tensors[tensor];
  size_t width = byteSize(info.type);
  // The dimensions after the last one that is cut, and the rows of that one,
  // are contiguous.
  size_t dim = info.shape.size();
  int64_t inner = 1;
  while (dim > 0 && part.shape[dim - 1] == info.shape[dim - 1])
    inner *= part.shape[--dim];
  int64_t run = inner, first = 0, outerStride = inner;
  if (dim > 0) {
    --dim;
    run *= part.shape[dim];
    first = part.start[dim] * inner;
    outerStride *= info.shape[dim];
  }
  int64_t elements = elementsOf(part.shape);
  for (int64_t done = 0; done < elements; done += run) {
    int64_t position = first, rest = done / run, stride = outerStride;
    for (size_t i = dim; i-- > 0;) {
      position += (part.start[i] + rest % part.shape[i]) * stride;
      rest /= part.shape[i];
      stride *= info.shape[i];
    }
    HEDDLE_RT_RETURN_IF_ERROR(session.writeTensor(
        tensor, position, run,
        part.data->data.subspan(static_cast<size_t>(done) * width,
                                static_cast<size_t>(run) * width)));
  }
  return Status::success();
}

Status heddle::runtime::readParts(Session &session, const fs::path &directory,
                                  const std::vector<size_t> &tensors) {
  auto set = PartSet::open(directory);
  if (!set.ok())
    return std::move(set).status();
  const Manifest &manifest = session.manifest();
  std::vector<bool> wanted(manifest.tensors.size());
  for (size_t tensor : tensors)
    wanted[tensor] = true;
  std::vector<int64_t> found(manifest.tensors.size());
  std::vector<std::pair<const Part *, size_t>> used; // with its tensor
  for (const Part &part : set->parts) {
    auto tensor = manifest.findTensor(part.tensor);
    if (!tensor || !wanted[*tensor])
      continue;
    auto fail = [&](const std::string &what) {
      return error("variable '" + part.tensor + "': " + what +
                   "; was it written by another model or optimizer?");
    };
    const WholeTensor &info = manifest.tensors[*tensor];
    if (safetensorsType(info.type) != part.data->dtype)
      return fail("expected type " + std::string(name(info.type)) + ", got " +
                  std::string(safetensors::name(part.data->dtype)));
    bool fits = part.shape.size() == info.shape.size();
    for (size_t i = 0; fits && i < part.shape.size(); ++i)
      fits = part.start[i] >= 0 && part.shape[i] >= 0 &&
             part.start[i] <= info.shape[i] - part.shape[i];
    if (!fits)
      return fail("expected a part of shape " +
                  safetensors::shapeToString(info.shape) + ", got " +
                  safetensors::shapeToString(part.shape));
    found[*tensor] += elementsOf(part.shape);
    used.emplace_back(&part, *tensor);
  }
  for (size_t i : tensors)
    if (found[i] != manifest.tensors[i].elements())
      return error("variable '" + manifest.tensors[i].name + "': expected " +
                   std::to_string(manifest.tensors[i].elements()) +
                   " elements in all parts, got " + std::to_string(found[i]) +
                   "; was it written by another model or optimizer?");
  for (auto [part, tensor] : used) {
    if (!session.holdsPart(tensor, part->start, part->shape))
      continue;
    HEDDLE_RT_RETURN_IF_ERROR(verify(*part));
    HEDDLE_RT_RETURN_IF_ERROR(writePart(session, tensor, *part));
  }
  return Status::success();
}
