//===- manifest.h - The manifest of an artifact -----------------*- C++ -*-===//
//
// `manifest.json` as data structures. An artifact is a directory that holds
// this file and the shared objects that it names; see docs/artifact.md.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_MANIFEST_H
#define HEDDLE_RT_MANIFEST_H

#include "heddle_rt/status.h"
#include "heddle_rt/table.h"
#include "heddle_rt/tensors.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::runtime {

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
  int32_t streams = 1; ///< streams used: 0 .. streams - 1
  int32_t events = 0;  ///< events recorded: 0 .. events - 1
  /// By stream: bytes of a rank's staging memory for sums across processes.
  /// Streams beyond the end of the list need none. See heddle_rt/staging.h.
  std::vector<int64_t> staging;
  size_t ranks = 0; ///< index of a rank set
  std::vector<PortInfo> arguments, results;
  /// By result: the arguments whose memory the result may take. The program has
  /// read them before it writes the result.
  std::vector<std::vector<size_t>> inPlace;
};

/// A kernel of a GPU. A launch names it by its index.
struct KernelInfo {
  struct Parameter {
    bool isBuffer = false; ///< an address in the device's memory; else an i64
    int64_t bytes = 0;     ///< of the buffer that the kernel may touch
  };
  std::string symbol;
  int64_t grid = 1, block = 1; ///< blocks; threads of a block
  int64_t sharedBytes = 0;
  /// The kernel takes one parameter: the address of a table that holds the
  /// values of `parameters`.
  bool isTable = false;
  std::vector<Parameter> parameters;
  int64_t workBytes = -1; ///< that a launch must read and write; -1: not known
};

/// A shared object that holds all programs for one kind of device.
struct CodeInfo {
  std::string kind;    ///< of device: "cpu" or "cuda"
  std::string library; ///< file name inside the directory
  std::string triple;
  std::vector<std::string> features; ///< of the CPU, LLVM's names without "+"
  std::string sanitizer; ///< of the kernels: "address", "thread" or ""
  // The following fields are for the kind "cuda" only.
  std::string chip; ///< the oldest GPU that runs the kernels: "sm_80"
  std::string ptx;  ///< file name of the kernels' text inside the directory
  /// Who computes attention: "cudnn", "kernel", or "auto".
  std::string attention = "auto";
  std::vector<KernelInfo> kernels;
};

struct Manifest {
  int64_t version = 0, abi = 0;
  std::vector<CodeInfo> code; ///< at most one for each kind
  std::vector<MeshAxis> mesh;
  std::vector<RankSet> rankSets; ///< the first one has all ranks
  std::vector<GroupInfo> groups;
  std::vector<VariableInfo> variables;
  std::vector<WholeTensor> tensors; ///< formed by `variables`, in their order
  std::vector<ProgramInfo> programs;
  std::vector<TableInfo> tables;
  uint64_t seed = 0;
  /// The compiler's fingerprint of the program, for traces; may be empty.
  std::string programHash;
  std::string model = "{}"; ///< JSON text, free form
  std::string plan = "{}";  ///< JSON text, free form

  int64_t numDevices() const;
  /// The streams and the events of a device that its programs and tables use.
  int32_t numStreams() const;
  int32_t numProgramEvents() const;
  /// By stream: the most staging memory that a program needs.
  std::vector<int64_t> staging() const;
  std::optional<size_t> findVariable(std::string_view name) const;
  std::optional<size_t> findTensor(std::string_view name) const;
  std::optional<size_t> findProgram(std::string_view name) const;
  std::optional<size_t> findTable(std::string_view name) const;
  std::optional<size_t> findTable(TableRole role) const;
};

/// Reads and checks `manifest.json`. An error names the field, e.g.
/// `variables[3].shape[1]: expected a positive integer, got string`.
Expected<Manifest> readManifest(const std::filesystem::path &file);
/// Parses the text of a manifest. Errors name `origin` as its source.
Expected<Manifest> parseManifest(std::string_view text,
                                 std::string_view origin);

} // namespace heddle::runtime

#endif // HEDDLE_RT_MANIFEST_H
