//===- manifest.h - The manifest of an artifact -----------------*- C++ -*-===//
//
// `manifest.json` as data structures. An artifact is a directory that holds
// this file and the shared object that it names; see docs/artifact.md.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_MANIFEST_H
#define HEDDLE_RT_MANIFEST_H

#include "heddle_rt/abi.h"
#include "heddle_rt/roles.h"
#include "heddle_rt/status.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::runtime {

using DType = heddle_rt_dtype;

/// Returns the bytes of one element.
size_t byteSize(DType type);
/// Returns the manifest's spelling: "f32", "bf16", "f16", "f64", "i1", "i8",
/// "i32", "i64".
std::string_view name(DType type);
std::optional<DType> parseDType(std::string_view name);

struct MeshAxis {
  std::string name;
  int64_t size;
};

/// Indices of the mesh axes that split each dimension, major to minor. A
/// dimension of size s over n devices is cut into parts of ceil(s / n);
/// elements beyond its end are padding.
using Sharding = std::vector<std::vector<int32_t>>;

/// A tensor of the whole program, and its sharding over the devices.
struct TensorInfo {
  std::string name;
  DType type;
  std::vector<int64_t> shape; ///< global
  Sharding sharding;          ///< one entry a dimension

  int64_t elements() const;
  size_t bytes() const { return size_t(elements()) * byteSize(type); }
};

struct Initializer {
  enum class Kind { Zeros, Ones, Constant, Normal } kind = Kind::Zeros;
  double value = 0;         ///< Constant
  double mean = 0, std = 1; ///< Normal
};

/// A tensor of the model's own checkpoint format. Its variable has the same
/// elements in the same order, perhaps in another shape.
struct CheckpointTensor {
  std::string name;
  std::vector<int64_t> shape;
};

/// States that a variable holds a part of the tensor `of`: rows [offset, offset
/// + own size) of dimension `dim`. That dimension has `size` rows in the
/// tensor.
struct SliceInfo {
  std::string of;
  int64_t dim = 0, offset = 0, size = 1;
};

struct VariableInfo : TensorInfo {
  VariableRole role = VariableRole::Parameter;
  Initializer init;
  /// For a slice, the checkpoint tensor of the whole tensor.
  std::optional<CheckpointTensor> checkpoint;
  std::optional<SliceInfo> slice;

  /// Returns the name of the whole tensor. Initial values depend on it.
  const std::string &wholeName() const { return slice ? slice->of : name; }
  std::vector<int64_t> wholeShape() const;
};

/// A tensor of the model or of its training state. It is one variable, or
/// several slices if the plan cuts it. Checkpoints and exports hold whole
/// tensors, so they do not depend on the plan.
struct WholeTensor {
  std::string name;
  DType type;
  std::vector<int64_t> shape;
  VariableRole role = VariableRole::Parameter;
  std::optional<CheckpointTensor> checkpoint;
  int64_t dim = 0;           ///< the dimension that is cut into slices
  std::vector<size_t> parts; ///< indices of the variables, ordered by offset

  int64_t elements() const;
};

struct ProgramInfo {
  std::string name;
  std::string symbol;
  int64_t arenaBytes = 0;
  std::vector<TensorInfo> arguments, results;
};

struct Manifest {
  int64_t version = 0, abi = 0;
  std::string triple;
  std::vector<std::string> features; ///< CPU features, LLVM's names without "+"
  std::string sanitizer; ///< of the kernels: "address", "thread" or ""
  std::string library;   ///< file name inside the directory
  std::vector<MeshAxis> mesh;
  std::vector<std::vector<int32_t>> groups; ///< mesh axes of each group
  std::vector<VariableInfo> variables;
  std::vector<WholeTensor> tensors; ///< formed by `variables`, in their order
  std::vector<ProgramInfo> programs;
  uint64_t seed = 0;
  std::string model = "{}"; ///< JSON text, free form
  std::string plan = "{}";  ///< JSON text, free form

  int64_t numDevices() const;
  std::optional<size_t> findVariable(std::string_view name) const;
  std::optional<size_t> findTensor(std::string_view name) const;
  std::optional<size_t> findProgram(std::string_view name) const;
};

/// Reads and checks `manifest.json`. An error names the field, e.g.
/// `variables[3].shape[1]: expected a positive integer, got string`.
Expected<Manifest> readManifest(const std::filesystem::path &file);
/// Parses the text of a manifest. Errors name `origin` as its source.
Expected<Manifest> parseManifest(std::string_view text,
                                 std::string_view origin);

} // namespace heddle::runtime

#endif // HEDDLE_RT_MANIFEST_H
