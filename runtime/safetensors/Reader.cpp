//===- Reader.cpp - Map and validate safetensors files --------------------===//

#include "heddle_rt/safetensors.h"

#include "heddle/Support/JsonText.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace heddle;
using namespace heddle::runtime;
using namespace heddle::runtime::safetensors;
using nlohmann::json;

/// The format's own limit. A larger header is an attack or a broken file.
static constexpr uint64_t maxHeaderBytes = 100'000'000;

//===----------------------------------------------------------------------===//
// Mapping
//===----------------------------------------------------------------------===//

/// A file mapped read-only.
class Reader::Mapping {
public:
  static Expected<std::unique_ptr<Mapping>> open(const std::string &path) {
    auto failure = [&](std::string_view action) {
      int code = errno;
      return error("cannot " + std::string(action) + " '" + path +
                   "': " + std::strerror(code));
    };
    int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
      return failure("open");
    struct Closer {
      int descriptor;
      ~Closer() { ::close(descriptor); }
    } closer{descriptor};
    struct stat status;
    if (::fstat(descriptor, &status) != 0)
      return failure("read");
    if (!S_ISREG(status.st_mode))
      return error("cannot read '" + path + "': it is not a regular file");
    auto mapping = std::make_unique<Mapping>();
    mapping->bytes = static_cast<size_t>(status.st_size);
    if (mapping->bytes > 0) { // mmap refuses an empty range
      void *address = ::mmap(nullptr, mapping->bytes, PROT_READ, MAP_PRIVATE,
                             descriptor, 0);
      if (address == MAP_FAILED)
        return failure("map");
      mapping->address = address;
    }
    return mapping;
  }

  Mapping() = default;
  Mapping(const Mapping &) = delete;
  Mapping &operator=(const Mapping &) = delete;
  ~Mapping() {
    if (address)
      ::munmap(address, bytes);
  }

  std::span<const std::byte> content() const {
    return {static_cast<const std::byte *>(address), bytes};
  }

private:
  void *address = nullptr;
  size_t bytes = 0;
};

Reader::Reader() = default;
Reader::Reader(Reader &&) noexcept = default;
Reader &Reader::operator=(Reader &&) noexcept = default;
Reader::~Reader() = default;

const Tensor *Reader::find(std::string_view name) const {
  auto found = byName.find(std::string(name));
  return found == byName.end() ? nullptr : &all[found->second];
}

//===----------------------------------------------------------------------===//
// Headers
//===----------------------------------------------------------------------===//

/// Parses JSON. An error gives the place in the text, which it calls `source`.
static Expected<json> parse(std::string_view text, std::string_view source) {
  json parsed;
  if (std::optional<JsonProblem> problem = parseJson(text, parsed))
    return error(describePlace(source, text, problem->offset) + ": " +
                 problem->message);
  return parsed;
}

static std::string quote(const std::string &name) { return "'" + name + "'"; }

namespace {
/// A tensor's entry of the header. `begin` and `end` count from the first byte
/// after the header.
struct Entry {
  Tensor tensor;
  uint64_t begin = 0, end = 0;
};
} // namespace

/// Parses one entry of the header. Checks, in this order, that it has:
///  - an object with dtype, shape and data_offsets and no other key;
///  - a known dtype;
///  - dimensions that are non-negative integers;
///  - two offsets, the second not before the first, within `dataBytes`;
///  - as many bytes as its elements need, without overflow.
static Expected<Entry> parseEntry(const std::string &name, const json &value,
                                  uint64_t dataBytes) {
  auto wrong = [&](const std::string &text) {
    return error("tensor " + quote(name) + ": " + text);
  };
  if (!value.is_object())
    return wrong("expected an object, got " + std::string(value.type_name()));
  for (const auto &[key, unused] : value.items())
    if (key != "dtype" && key != "shape" && key != "data_offsets")
      return wrong("expected dtype, shape and data_offsets, got key " +
                   quote(key));
  for (const char *key : {"dtype", "shape", "data_offsets"})
    if (!value.contains(key))
      return wrong("expected a key '" + std::string(key) + "', got none");

  Entry entry;
  Tensor &tensor = entry.tensor;
  tensor.name = name;
  const json &dtype = value["dtype"];
  std::optional<DType> known;
  if (dtype.is_string())
    known = parseDType(dtype.get_ref<const std::string &>());
  if (!known)
    return wrong("expected dtype BOOL, U8, I8, U16, I16, U32, I32, U64, I64, "
                 "F16, BF16, F32 or F64, got " +
                 showJson(dtype));
  tensor.dtype = *known;

  const json &shape = value["shape"];
  if (!shape.is_array())
    return wrong("expected shape to be a list, got " +
                 std::string(shape.type_name()));
  for (const json &size : shape) {
    if (!size.is_number_unsigned() ||
        size.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
      return wrong("expected dimensions to be non-negative integers, got " +
                   showJson(size));
    tensor.shape.push_back(static_cast<int64_t>(size.get<uint64_t>()));
  }

  const json &offsets = value["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 ||
      !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned())
    return wrong("expected data_offsets to be two non-negative integers, got " +
                 showJson(offsets));
  entry.begin = offsets[0].get<uint64_t>();
  entry.end = offsets[1].get<uint64_t>();
  if (entry.begin > entry.end)
    return wrong("expected data_offsets to increase, got " + showJson(offsets));
  if (entry.end > dataBytes)
    return wrong("expected data_offsets within the file's " +
                 std::to_string(dataBytes) + " bytes of data, got " +
                 showJson(offsets));

  std::optional<int64_t> elements = numElements(tensor.shape);
  uint64_t bytes = 0;
  if (!elements || __builtin_mul_overflow(static_cast<uint64_t>(*elements),
                                          byteSize(tensor.dtype), &bytes))
    return wrong("shape " + shapeToString(tensor.shape) + " is too large");
  tensor.elements = *elements;
  if (bytes != entry.end - entry.begin)
    return wrong("expected " + std::to_string(bytes) + " bytes for shape " +
                 shapeToString(tensor.shape) + " of " +
                 std::string(safetensors::name(tensor.dtype)) + ", got " +
                 std::to_string(entry.end - entry.begin));
  return entry;
}

Status Reader::addTensors(std::span<const std::byte> file) {
  if (file.size() < sizeof(uint64_t))
    return error("expected a safetensors file of at least 8 bytes, got " +
                 std::to_string(file.size()));
  uint64_t headerBytes;
  std::memcpy(&headerBytes, file.data(), sizeof(headerBytes));
  uint64_t available = file.size() - sizeof(uint64_t);
  if (headerBytes > maxHeaderBytes)
    return error("expected a header of at most " +
                 std::to_string(maxHeaderBytes) + " bytes, got a length of " +
                 std::to_string(headerBytes) + "; this is no safetensors file");
  if (headerBytes > available)
    return error("expected a header of " + std::to_string(headerBytes) +
                 " bytes, got only " + std::to_string(available) +
                 " after its length; the file is truncated");
  std::string_view text(reinterpret_cast<const char *>(file.data()) +
                            sizeof(uint64_t),
                        headerBytes);
  if (text.empty() || text.front() != '{')
    return error("expected the header to begin with '{'; this is no "
                 "safetensors file");
  Expected<json> header = parse(text, "header");
  if (!header.ok())
    return std::move(header).status();

  std::span<const std::byte> data =
      file.subspan(sizeof(uint64_t) + headerBytes);
  std::vector<Entry> entries;
  for (const auto &[name, value] : header->items()) {
    if (name == "__metadata__") {
      if (!value.is_object())
        return error("expected __metadata__ to be an object, got " +
                     std::string(value.type_name()));
      for (const auto &[key, text] : value.items()) {
        if (!text.is_string())
          return error("expected __metadata__ to hold strings, got " +
                       showJson(text) + " for " + quote(key));
        notes.emplace(key, text.get<std::string>());
      }
      continue;
    }
    Expected<Entry> entry = parseEntry(name, value, data.size());
    if (!entry.ok())
      return entry.status();
    entries.push_back(*std::move(entry));
  }

  // The entries are sorted by position. Each must begin where the one before it
  // ends.
  std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t position = 0;
  const std::string *previous = nullptr;
  for (const Entry &entry : entries) {
    if (entry.begin < position)
      return error("tensor " + quote(entry.tensor.name) +
                   ": its data overlaps with that of " + quote(*previous));
    if (entry.begin > position)
      return error("tensor " + quote(entry.tensor.name) +
                   ": expected its data at offset " + std::to_string(position) +
                   ", got " + std::to_string(entry.begin) +
                   ", which leaves a hole");
    position = entry.end;
    previous = &entry.tensor.name;
  }
  if (position != data.size())
    return error("expected " + std::to_string(position) +
                 " bytes of data after the header, got " +
                 std::to_string(data.size()));

  for (Entry &entry : entries) {
    entry.tensor.data = data.subspan(entry.begin, entry.end - entry.begin);
    if (!byName.emplace(entry.tensor.name, all.size()).second)
      return error("tensor " + quote(entry.tensor.name) +
                   " is in another shard, too");
    all.push_back(std::move(entry.tensor));
  }
  return Status();
}

Status Reader::addFile(const std::string &path) {
  Expected<std::unique_ptr<Mapping>> mapping = Mapping::open(path);
  if (!mapping.ok())
    return mapping.status();
  mappings.push_back(*std::move(mapping));
  return addTensors(mappings.back()->content()).in(path);
}

//===----------------------------------------------------------------------===//
// Shards
//===----------------------------------------------------------------------===//

/// Reads the index, then every shard that it names. Each tensor of the index
/// must be in the shard that the index names, and each tensor of a shard in the
/// index. `metadata.total_size` is not compared, because published indices are
/// known to have it wrong.
Status Reader::addShards(const std::string &indexPath) {
  Expected<std::unique_ptr<Mapping>> mapping = Mapping::open(indexPath);
  if (!mapping.ok())
    return mapping.status();
  std::span<const std::byte> content = (*mapping)->content();
  Expected<json> index =
      parse(std::string_view(reinterpret_cast<const char *>(content.data()),
                             content.size()),
            indexPath);
  if (!index.ok())
    return std::move(index).status();
  auto wrong = [&](const std::string &text) {
    return error(indexPath + ": " + text);
  };
  if (!index->is_object() || !index->contains("weight_map") ||
      !(*index)["weight_map"].is_object())
    return wrong("expected an object with an object 'weight_map'");

  const json &map = (*index)["weight_map"];
  std::set<std::string> files;
  for (const auto &[name, file] : map.items()) {
    if (!file.is_string())
      return wrong("expected a file name for " + quote(name) + ", got " +
                   showJson(file));
    const std::string &text = file.get_ref<const std::string &>();
    if (text.empty() || text == "." || text == ".." ||
        text.find('/') != std::string::npos ||
        text.find('\0') != std::string::npos)
      return wrong("expected the name of a file in the same folder for " +
                   quote(name) + ", got " + showJson(file));
    files.insert(text);
  }

  std::filesystem::path folder = std::filesystem::path(indexPath).parent_path();
  for (const std::string &file : files) {
    size_t first = all.size();
    HEDDLE_RT_RETURN_IF_ERROR(addFile((folder / file).string()));
    for (size_t i = first; i < all.size(); ++i) {
      auto entry = map.find(all[i].name);
      if (entry == map.end())
        return wrong("tensor " + quote(all[i].name) + " of shard " +
                     quote(file) + " is not in the index");
      if (entry->get_ref<const std::string &>() != file)
        return wrong("expected tensor " + quote(all[i].name) + " in shard " +
                     showJson(*entry) + ", got it in " + quote(file));
    }
  }
  for (const auto &[name, file] : map.items())
    if (!find(name))
      return wrong("expected tensor " + quote(name) + " in shard " +
                   showJson(file) + ", which lacks it");
  return Status();
}

Expected<Reader> Reader::open(const std::string &path) {
  namespace fs = std::filesystem;
  Reader reader;
  std::error_code code;
  Status status;
  if (fs::is_directory(path, code)) {
    fs::path folder(path);
    if (fs::exists(folder / singleFile, code))
      status = reader.addFile((folder / singleFile).string());
    else if (fs::exists(folder / indexFile, code))
      status = reader.addShards((folder / indexFile).string());
    else
      status = error("'" + path + "' has neither " + singleFile + " nor " +
                     indexFile +
                     (fs::exists(folder / "pytorch_model.bin", code)
                          ? "; convert pytorch_model.bin to safetensors first"
                          : ""));
  } else if (path.ends_with(".index.json")) {
    status = reader.addShards(path);
  } else {
    status = reader.addFile(path);
  }
  if (!status.ok())
    return status;
  return reader;
}

bool safetensors::hasWeights(const std::string &directory) {
  std::error_code code;
  std::filesystem::path folder(directory);
  return std::filesystem::exists(folder / singleFile, code) ||
         std::filesystem::exists(folder / indexFile, code);
}
