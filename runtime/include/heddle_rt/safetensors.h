//===- safetensors.h - Read and write safetensors files ---------*- C++ -*-===//
//
// Reads and writes the file format of Hugging Face's model weights. A file has
// 8 bytes of header length (little endian), a JSON header {name: {dtype, shape,
// data_offsets}}, then the tensors' bytes, row-major, little endian, without
// gaps. A model is one file or a folder. The folder holds either
// `model.safetensors`, or several files, called shards, and a
// `model.safetensors.index.json` that names each tensor's shard. Format:
// https://github.com/huggingface/safetensors (its README).
//
// The reader maps files into memory and checks all headers before it gives
// access to a tensor. Files must not be truncated while they are mapped. Our
// own writer replaces files and never writes into an existing one.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_SAFETENSORS_H
#define HEDDLE_RT_SAFETENSORS_H

#include "heddle_rt/atomic_file.h"
#include "heddle_rt/status.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace heddle::runtime::safetensors {

/// The files of a folder that holds a model: all tensors, or the shards' index.
inline constexpr const char *singleFile = "model.safetensors";
inline constexpr const char *indexFile = "model.safetensors.index.json";

//===----------------------------------------------------------------------===//
// Element types
//===----------------------------------------------------------------------===//

enum class DType {
  Bool, ///< one byte, 0 or 1
  U8,
  I8,
  U16,
  I16,
  U32,
  I32,
  U64,
  I64,
  F16,
  BF16,
  F32,
  F64
};

/// Returns the bytes of one element.
uint64_t byteSize(DType dtype);
/// Returns the spelling in files, e.g. "F32".
std::string_view name(DType dtype);
std::optional<DType> parseDType(std::string_view name);
bool isFloat(DType dtype);

/// Returns the number of elements of a shape, or nothing if a dimension is
/// negative or the number does not fit in 63 bits.
std::optional<int64_t> numElements(std::span<const int64_t> shape);

/// Returns text such as "[2, 3]", for messages.
std::string shapeToString(std::span<const int64_t> shape);

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// A tensor of an open file. `data` points into the mapped file, which lives as
/// long as the Reader. It may be unaligned for its element type.
struct Tensor {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape; ///< empty for a scalar
  int64_t elements = 1;
  std::span<const std::byte> data;

  /// Converts elements [first, first + out.size()), in row-major order, to f32.
  /// Values of F64 and integers beyond 2^24 are rounded to nearest; all others
  /// are exact. Fails if the range exceeds the tensor.
  Status readF32(int64_t first, std::span<float> out) const;
  /// Converts elements to i64 likewise. Fails on floating-point types, and on
  /// values of U64 that i64 cannot hold.
  Status readI64(int64_t first, std::span<int64_t> out) const;
};

/// An open safetensors file or folder. Movable, not copyable; const access is
/// safe from several threads.
class Reader {
public:
  /// Opens a .safetensors file, a .safetensors.index.json, or a folder that
  /// holds `model.safetensors` or `model.safetensors.index.json`.
  static Expected<Reader> open(const std::string &path);

  Reader(Reader &&) noexcept;
  Reader &operator=(Reader &&) noexcept;
  ~Reader();

  /// Returns the tensors in the order of their positions, shard after shard.
  std::span<const Tensor> tensors() const { return all; }
  /// Returns the tensor of this name, or null if there is none.
  const Tensor *find(std::string_view name) const;
  /// Returns the `__metadata__` of all files. If several shards have the same
  /// key, the value of the first shard counts.
  const std::map<std::string, std::string> &metadata() const { return notes; }

private:
  class Mapping;
  Reader();
  Status addFile(const std::string &path);
  Status addShards(const std::string &indexPath);
  Status addTensors(std::span<const std::byte> file);

  std::vector<std::unique_ptr<Mapping>> mappings;
  std::vector<Tensor> all;
  std::unordered_map<std::string, size_t> byName;
  std::map<std::string, std::string> notes;
};

/// Returns true if `directory` holds weights that Reader::open would try to
/// open.
bool hasWeights(const std::string &directory);

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

struct TensorInfo {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
};

using Metadata = std::map<std::string, std::string>;
/// Returns the metadata that the Python library transformers expects.
inline Metadata pytorchMetadata() { return {{"format", "pt"}}; }

/// Writes one file: first the header, then each tensor in pieces of any size
/// and in any order. So only one piece need be in memory. The file is replaced
/// whole or not at all, as by AtomicFile.
class FileWriter {
public:
  static Expected<FileWriter> create(const std::string &path,
                                     std::vector<TensorInfo> tensors,
                                     const Metadata &metadata);

  /// Writes `data`, whole elements in the tensor's own type, from element
  /// `first` of tensor number `tensor` (its index in the list given to
  /// `create`). Fails on elements outside of the tensor and on elements that
  /// were written before.
  Status write(size_t tensor, int64_t first, std::span<const std::byte> data);
  /// Puts the finished file in its place. Fails if bytes of a tensor were never
  /// written.
  Status commit();
  /// Checks the file and makes it durable, but leaves the old file in place.
  /// For sets of files that are replaced together.
  Status flush();

private:
  FileWriter(AtomicFile file) : file(std::move(file)) {}

  AtomicFile file;
  std::vector<TensorInfo> infos;
  std::vector<uint64_t> begins;       ///< offset of each tensor in the file
  std::map<uint64_t, uint64_t> holes; ///< unwritten [begin, end)
};

/// Writes a model folder: `model.safetensors` if everything fits in one shard,
/// otherwise `model-00001-of-0000N.safetensors` ... and their index. No file is
/// replaced before all of them are complete on disk.
class DirectoryWriter {
public:
  /// Creates `directory` if it does not exist. A tensor larger than
  /// `maxShardBytes` gets a shard of its own.
  static Expected<DirectoryWriter>
  create(const std::string &directory, std::vector<TensorInfo> tensors,
         const Metadata &metadata, uint64_t maxShardBytes = 5'000'000'000);

  /// As FileWriter::write; `tensor` is the index over all shards.
  Status write(size_t tensor, int64_t first, std::span<const std::byte> data);
  /// Finishes all files. Then removes files of an earlier model that are now
  /// stale: the entry file of the other kind of folder (one file or an index),
  /// and shards that the earlier index names.
  Status commit();

private:
  DirectoryWriter() = default;

  std::string directory;
  std::vector<FileWriter> shards;
  std::vector<std::string> shardNames;
  std::vector<std::pair<size_t, size_t>> places; ///< shard, index in the shard
  std::string index;                             ///< JSON; empty for one shard
};

} // namespace heddle::runtime::safetensors

#endif // HEDDLE_RT_SAFETENSORS_H
