//===- Writer.cpp - Write safetensors files piece by piece ----------------===//

#include "heddle_rt/safetensors.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

using namespace heddle::runtime;
using namespace heddle::runtime::safetensors;
using nlohmann::json;

/// Returns the bytes of a tensor, or nothing if the number overflows.
static std::optional<uint64_t> numBytes(const TensorInfo &info) {
  std::optional<int64_t> elements = numElements(info.shape);
  uint64_t bytes = 0;
  if (!elements || __builtin_mul_overflow(static_cast<uint64_t>(*elements),
                                          byteSize(info.dtype), &bytes))
    return std::nullopt;
  return bytes;
}

/// Returns an error for reserved or repeated names and for shapes that
/// overflow.
static Status checkInfos(const std::vector<TensorInfo> &infos) {
  std::set<std::string_view> names;
  for (const TensorInfo &info : infos) {
    if (info.name == "__metadata__" || !names.insert(info.name).second)
      return error("expected each tensor to have a name of its own, got '" +
                   info.name + "'");
    if (!numBytes(info))
      return error("tensor '" + info.name + "': shape " +
                   shapeToString(info.shape) + " is too large");
  }
  return Status();
}

//===----------------------------------------------------------------------===//
// FileWriter
//===----------------------------------------------------------------------===//

Expected<FileWriter> FileWriter::create(const std::string &path,
                                        std::vector<TensorInfo> infos,
                                        const Metadata &metadata) {
  HEDDLE_RT_RETURN_IF_ERROR(checkInfos(infos));
  // Tensors of wide elements come first, so every tensor is aligned for its
  // type.
  std::vector<size_t> order(infos.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(byteSize(infos[b].dtype), a) <
           std::pair(byteSize(infos[a].dtype), b);
  });

  json header = json::object();
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  std::vector<uint64_t> begins(infos.size());
  uint64_t position = 0;
  for (size_t i : order) {
    const TensorInfo &info = infos[i];
    begins[i] = position;
    if (__builtin_add_overflow(position, *numBytes(info), &position) ||
        position > static_cast<uint64_t>(INT64_MAX) / 2)
      return error("cannot write '" + path + "': the tensors are too large");
    header[info.name] = {{"dtype", std::string(safetensors::name(info.dtype))},
                         {"shape", info.shape},
                         {"data_offsets", {begins[i], position}}};
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception &) { // a name that is not UTF-8
    return error("cannot write '" + path + "': a name is not valid UTF-8");
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');

  uint64_t headerBytes = text.size();
  uint64_t start = sizeof(headerBytes) + headerBytes;
  Expected<AtomicFile> file = AtomicFile::create(path, start + position);
  if (!file.ok())
    return file.status();
  FileWriter writer(*std::move(file));
  char length[sizeof(headerBytes)];
  std::memcpy(length, &headerBytes, sizeof(length));
  text.insert(0, length, sizeof(length));
  HEDDLE_RT_RETURN_IF_ERROR(
      writer.file.writeAt(0, std::as_bytes(std::span(text))));
  for (uint64_t &begin : begins)
    begin += start;
  writer.infos = std::move(infos);
  writer.begins = std::move(begins);
  if (position > 0)
    writer.holes.emplace(start, start + position);
  return writer;
}

Status FileWriter::write(size_t tensor, int64_t first,
                         std::span<const std::byte> data) {
  if (tensor >= infos.size())
    return error("expected one of the file's " + std::to_string(infos.size()) +
                 " tensors, got number " + std::to_string(tensor));
  const TensorInfo &info = infos[tensor];
  uint64_t size = byteSize(info.dtype), total = *numBytes(info);
  if (first < 0 || static_cast<uint64_t>(first) > total / size ||
      data.size() % size != 0 ||
      data.size() > total - static_cast<uint64_t>(first) * size)
    return error("tensor '" + info.name +
                 "': expected whole elements within "
                 "its " +
                 std::to_string(total / size) + ", got " +
                 std::to_string(data.size()) + " bytes from element " +
                 std::to_string(first));
  if (data.empty())
    return Status();

  uint64_t begin = begins[tensor] + static_cast<uint64_t>(first) * size;
  uint64_t end = begin + data.size();
  auto hole = holes.upper_bound(begin);
  if (hole == holes.begin() || std::prev(hole)->second < end)
    return error("tensor '" + info.name + "': elements from " +
                 std::to_string(first) + " were written before");
  --hole;
  HEDDLE_RT_RETURN_IF_ERROR(file.writeAt(begin, data));
  auto [holeBegin, holeEnd] = *hole;
  holes.erase(hole);
  if (holeBegin < begin)
    holes.emplace(holeBegin, begin);
  if (end < holeEnd)
    holes.emplace(end, holeEnd);
  return Status();
}

Status FileWriter::flush() {
  if (!holes.empty()) {
    uint64_t missing = holes.begin()->first;
    for (size_t i = 0; i < infos.size(); ++i)
      if (begins[i] <= missing && missing < begins[i] + *numBytes(infos[i]))
        return error("cannot finish '" + file.path() + "': tensor '" +
                     infos[i].name + "' was not written whole");
  }
  return file.flush();
}

Status FileWriter::commit() {
  HEDDLE_RT_RETURN_IF_ERROR(flush());
  return file.commit();
}

//===----------------------------------------------------------------------===//
// DirectoryWriter
//===----------------------------------------------------------------------===//

static std::string shardName(size_t index, size_t count) {
  char text[64];
  std::snprintf(text, sizeof(text), "model-%05zu-of-%05zu.safetensors",
                index + 1, count);
  return text;
}

Expected<DirectoryWriter> DirectoryWriter::create(const std::string &directory,
                                                  std::vector<TensorInfo> infos,
                                                  const Metadata &metadata,
                                                  uint64_t maxShardBytes) {
  HEDDLE_RT_RETURN_IF_ERROR(checkInfos(infos));
  std::error_code code;
  std::filesystem::create_directories(directory, code);
  if (code)
    return error("cannot create '" + directory + "': " + code.message());

  DirectoryWriter writer;
  writer.directory = directory;
  std::vector<std::vector<TensorInfo>> groups;
  uint64_t filled = 0, total = 0;
  for (const TensorInfo &info : infos) {
    uint64_t bytes = *numBytes(info);
    if (groups.empty() || (filled > 0 && (bytes > maxShardBytes ||
                                          filled > maxShardBytes - bytes))) {
      groups.emplace_back();
      filled = 0;
    }
    filled += bytes;
    total += bytes;
    writer.places.emplace_back(groups.size() - 1, groups.back().size());
    groups.back().push_back(info);
  }
  if (groups.empty())
    groups.emplace_back();

  json map = json::object();
  for (size_t i = 0; i < groups.size(); ++i) {
    std::string name =
        groups.size() == 1 ? singleFile : shardName(i, groups.size());
    for (const TensorInfo &info : groups[i])
      map[info.name] = name;
    Expected<FileWriter> shard =
        FileWriter::create((std::filesystem::path(directory) / name).string(),
                           std::move(groups[i]), metadata);
    if (!shard.ok())
      return shard.status();
    writer.shards.push_back(*std::move(shard));
    writer.shardNames.push_back(std::move(name));
  }
  if (writer.shards.size() > 1) {
    json index = {{"metadata", {{"total_size", total}}},
                  {"weight_map", std::move(map)}};
    writer.index = index.dump(2) + "\n";
  }
  return writer;
}

Status DirectoryWriter::write(size_t tensor, int64_t first,
                              std::span<const std::byte> data) {
  if (tensor >= places.size())
    return error("expected one of the model's " +
                 std::to_string(places.size()) + " tensors, got number " +
                 std::to_string(tensor));
  auto [shard, index] = places[tensor];
  return shards[shard].write(index, first, data);
}

/// Returns the names of the shards in the index at `path`. If the index cannot
/// be read, returns none.
static std::set<std::string> shardsOf(const std::filesystem::path &path) {
  std::set<std::string> names;
  std::FILE *file = std::fopen(path.c_str(), "rb");
  if (!file)
    return names;
  json index = json::parse(file, nullptr, /*allow_exceptions=*/false);
  std::fclose(file);
  if (index.is_object() && index.contains("weight_map"))
    for (const json &name : index["weight_map"])
      if (name.is_string())
        names.insert(name.get<std::string>());
  return names;
}

Status DirectoryWriter::commit() {
  std::filesystem::path folder(directory);
  std::string indexPath = (folder / indexFile).string();
  std::optional<AtomicFile> indexWriter;
  if (!index.empty()) {
    Expected<AtomicFile> file = AtomicFile::create(indexPath, index.size());
    if (!file.ok())
      return file.status();
    indexWriter.emplace(*std::move(file));
    HEDDLE_RT_RETURN_IF_ERROR(
        indexWriter->writeAt(0, std::as_bytes(std::span(index))));
    HEDDLE_RT_RETURN_IF_ERROR(indexWriter->flush());
  }
  for (FileWriter &shard : shards)
    HEDDLE_RT_RETURN_IF_ERROR(shard.flush());

  // All files are complete on disk. From here on, files are only renamed and
  // removed.
  std::set<std::string> stale = shardsOf(indexPath);
  for (FileWriter &shard : shards)
    HEDDLE_RT_RETURN_IF_ERROR(shard.commit());
  if (indexWriter)
    HEDDLE_RT_RETURN_IF_ERROR(indexWriter->commit());

  // Readers prefer the single file, so that of an earlier model must go.
  std::error_code ignored;
  std::filesystem::remove(
      indexWriter ? (folder / singleFile).string() : indexPath, ignored);
  for (const std::string &name : shardNames)
    stale.erase(name);
  for (const std::string &name : stale)
    if (name.starts_with("model-") && name.ends_with(".safetensors") &&
        name.find('/') == std::string::npos)
      std::filesystem::remove(folder / name, ignored);
  return Status();
}
