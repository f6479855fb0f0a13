//===- Artifact.h - The directory that the runtime loads --------*- C++ -*-===//
//
// A compiled model is a directory: `manifest.json` (docs/artifact.md),
// `program.so`, for GPUs `program.ptx`, and a copy of the plan, `plan.json`.
// Loading it needs no LLVM.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LOWER_ARTIFACT_H
#define HEDDLE_LOWER_ARTIFACT_H

#include "mlir/IR/BuiltinOps.h"
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace heddle {

/// The CPU that code is generated for.
struct NativeTarget {
  std::string triple;
  std::string cpu;
  std::string features; ///< LLVM's form, "+avx2,-fma"
  /// Instruction sets that a CPU must have to run the code: LLVM's names,
  /// sorted.
  std::vector<std::string> requiredFeatures;

  /// Parses "native" (this machine's features, by cpuid) or "CPU[,+F,-F…]" with
  /// a CPU that LLVM knows for this machine's architecture (x86-64-v3). An
  /// error is emitted at `loc`.
  static mlir::FailureOr<NativeTarget> parse(mlir::Location loc,
                                             llvm::StringRef text);
};

/// Bytes of memory on one device, as far as known at compile time. Scratch
/// memory of library calls belongs to the runtime and is not included.
struct DeviceMemoryPlan {
  int64_t parameters = 0, optimizerState = 0, gradients = 0, counters = 0;
  int64_t arena = 0; ///< of the largest program; all programs share the memory
  int64_t argumentsAndResults = 0;
  /// Values between the programs of a pipeline: activations of micro-batches in
  /// flight, and their gradients.
  int64_t slots = 0;
  int64_t total() const {
    return parameters + optimizerState + gradients + counters + arena +
           argumentsAndResults + slots;
  }
};

/// Returns the memory plans of a module that holds rt.program ops or their
/// exports, by coordinate along the pipeline's axis. A module without a
/// pipeline has one plan, of all devices.
std::vector<DeviceMemoryPlan> getDeviceMemoryPlans(mlir::ModuleOp module);

/// Returns the plan of the devices with the most memory.
DeviceMemoryPlan getDeviceMemoryPlan(mlir::ModuleOp module);

/// The sanitizer whose checks are compiled into the kernels. The process that
/// loads them must be linked with the same sanitizer's runtime library.
enum class Sanitizer { None, Address, Thread };

/// Parses "", "address" or "thread". An error is emitted at `loc`.
mlir::FailureOr<Sanitizer> parseSanitizer(mlir::Location loc,
                                          llvm::StringRef text);

struct ArtifactOptions {
  std::string targetCpu = "native";
  Sanitizer sanitizer = Sanitizer::None;
  /// Whether kernels are optimized and vectorized.
  bool optimizesKernels = true;
  /// Number of threads that generate code; 0: one per core of the machine.
  unsigned threads = 0;
  uint64_t seed = 0;
  /// JSON text of the plan; empty for none.
  std::string planJson;
};

/// The module's attribute that says who computes attention on the GPU: "cudnn",
/// "kernel" or "auto" (the default).
inline constexpr llvm::StringLiteral kGpuAttentionAttrName = "rt.gpu_attention";

/// Returns whether the module's kernels are for a GPU.
bool isForGpu(mlir::ModuleOp module);
/// Returns the GPU that the kernels are made for, such as "sm_80".
llvm::StringRef getTargetGpu(mlir::ModuleOp module);
/// Emits an error at `loc` if kernels cannot be made for this GPU.
mlir::LogicalResult checkTargetGpu(mlir::Location loc, llvm::StringRef chip);

/// Returns the PTX of the module's kernels for its GPU.
mlir::FailureOr<std::string> emitPtx(mlir::ModuleOp module);

/// Emits an error at `loc` if `path` exists and is neither an artifact nor an
/// empty directory, because `writeArtifact` would not replace it. Call it
/// before long work.
mlir::LogicalResult checkArtifactPath(mlir::Location loc, llvm::StringRef path);

/// Returns the manifest of a module after heddle-convert-rt-to-llvm, as JSON
/// text.
mlir::FailureOr<std::string> getManifest(mlir::ModuleOp module,
                                         const NativeTarget &target,
                                         const ArtifactOptions &options);

/// Returns the object code of the module's functions of the LLVM dialect, as
/// one or more ELF files. Kernels (functions with `heddle.blocks`) are compiled
/// in parallel, as `options` say. Program functions only call the runtime and
/// are not optimized.
mlir::FailureOr<std::vector<std::string>>
emitObjects(mlir::ModuleOp module, const NativeTarget &target,
            const ArtifactOptions &options);

/// Links objects to a shared library, with the first of ld.lld-19, ld.lld, cc
/// and clang-19 that is in PATH. lld takes longer to start than to link: it is
/// started by the constructor, and waits for the objects.
class LibraryLinker {
public:
  explicit LibraryLinker(std::string output);
  /// Ends a linker that got no objects.
  ~LibraryLinker();
  LibraryLinker(const LibraryLinker &) = delete;
  LibraryLinker &operator=(const LibraryLinker &) = delete;

  /// Writes the output, whose folder exists now. Called at most once.
  mlir::LogicalResult link(mlir::Location loc,
                           llvm::ArrayRef<std::string> objects);

private:
  struct Process;
  std::string output;
  std::unique_ptr<Process> process; ///< null if none waits for objects
};

/// Writes an artifact, completely or not at all: writes a directory beside
/// `path`, then renames it. An existing `path` is replaced only if it is an
/// artifact or empty. The linker starts with the construction, which may stand
/// before the compilation.
class ArtifactWriter {
public:
  explicit ArtifactWriter(llvm::StringRef path);

  llvm::StringRef getPath() const { return path; }

  /// Writes the artifact of a module after heddle-convert-rt-to-llvm. Called at
  /// most once.
  mlir::LogicalResult write(mlir::ModuleOp module,
                            const ArtifactOptions &options);

private:
  std::string path;
  std::string folder; ///< is renamed to `path` at the end
  LibraryLinker linker;
};

/// Writes an artifact with a writer of its own.
mlir::LogicalResult writeArtifact(mlir::ModuleOp module, llvm::StringRef path,
                                  const ArtifactOptions &options);

} // namespace heddle

#endif // HEDDLE_LOWER_ARTIFACT_H
