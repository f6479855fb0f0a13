//===- Artifact.h - The directory that the runtime loads --------*- C++ -*-===//
//
// A compiled model is a directory: `manifest.json` (docs/artifact.md),
// `program.so` and a copy of the plan, `plan.json`. It depends on no LLVM.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LOWER_ARTIFACT_H
#define HEDDLE_LOWER_ARTIFACT_H

#include "mlir/IR/BuiltinOps.h"
#include <cstdint>
#include <string>
#include <vector>

namespace heddle {

/// The CPU that code is made for.
struct NativeTarget {
  std::string triple;
  std::string cpu;
  std::string features; ///< LLVM's form, "+avx2,-fma"
  /// What a CPU must have to run the code: LLVM's names of instruction sets,
  /// sorted.
  std::vector<std::string> requiredFeatures;

  /// From "native" (this machine's features, by cpuid), or "CPU[,+F,-F…]" with
  /// a CPU that LLVM knows for this machine's architecture (x86-64-v3). An
  /// error is emitted at `loc`.
  static mlir::FailureOr<NativeTarget> parse(mlir::Location loc,
                                             llvm::StringRef text);
};

/// Bytes of one device, known at compile time. Scratch memory of library calls
/// is the runtime's and not in here.
struct DeviceMemoryPlan {
  int64_t parameters = 0, optimizerState = 0, gradients = 0, counters = 0;
  int64_t arena = 0; ///< shared by the programs: the largest
  int64_t argumentsAndResults = 0;
  int64_t total() const {
    return parameters + optimizerState + gradients + counters + arena +
           argumentsAndResults;
  }
};

/// Of a module with rt programs or their exports; every device's is the same.
DeviceMemoryPlan getDeviceMemoryPlan(mlir::ModuleOp module);

/// What generated kernels are checked for while they run. The process that runs
/// them must have the same sanitizer's runtime library linked in.
enum class Sanitizer { None, Address, Thread };

/// From "", "address" or "thread". An error is emitted at `loc`.
mlir::FailureOr<Sanitizer> parseSanitizer(mlir::Location loc,
                                          llvm::StringRef text);

struct ArtifactOptions {
  std::string targetCpu = "native";
  Sanitizer sanitizer = Sanitizer::None;
  /// Threads that generate code; 0: as many as the machine has cores.
  unsigned threads = 0;
  uint64_t seed = 0;
  /// JSON text of the plan; empty for none.
  std::string planJson;
};

/// An error, emitted at `loc`, if `path` exists and is no artifact (nor an
/// empty directory): it would not be replaced. To be called before long work.
mlir::LogicalResult checkArtifactPath(mlir::Location loc, llvm::StringRef path);

/// The manifest of a module after heddle-convert-rt-to-llvm, as JSON text.
mlir::FailureOr<std::string> getManifest(mlir::ModuleOp module,
                                         const NativeTarget &target,
                                         const ArtifactOptions &options);

/// Object code of the module's functions of the LLVM dialect, one or more ELF
/// files. Kernels (`heddle.blocks`) are optimized and vectorized in parallel;
/// program functions, which only call, are not. `sanitizer` instruments
/// kernels.
mlir::FailureOr<std::vector<std::string>>
emitObjects(mlir::ModuleOp module, const NativeTarget &target,
            unsigned threads = 0, Sanitizer sanitizer = Sanitizer::None);

/// Links objects to a shared library, with the first of ld.lld-19, ld.lld, cc
/// and clang-19 that is in PATH.
mlir::LogicalResult linkSharedLibrary(mlir::Location loc,
                                      llvm::ArrayRef<std::string> objects,
                                      llvm::StringRef output);

/// Writes the artifact of a module after heddle-convert-rt-to-llvm, complete or
/// not at all: into a directory beside `path`, which then takes its place. What
/// stands at `path` is replaced only if it is an artifact or empty.
mlir::LogicalResult writeArtifact(mlir::ModuleOp module, llvm::StringRef path,
                                  const ArtifactOptions &options);

} // namespace heddle

#endif // HEDDLE_LOWER_ARTIFACT_H
