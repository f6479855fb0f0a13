//===- Pipelines.h - A compilation from model to artifact -------*- C++ -*-===//
//
// The phases of a compilation in order, and the one function that runs them.
// Every phase is a pipeline of passes that heddle-opt knows by name too
// (heddle-autodiff-pipeline, -shard-, -localize-, -kernels-, -executable-,
// -llvm-). A module carries its phase as the attribute `heddle.phase`, and its
// plan as `heddle.plan`. A module printed after any phase can be edited and
// given to `heddle compile` again, which goes on from that phase.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PIPELINES_PIPELINES_H
#define HEDDLE_PIPELINES_PIPELINES_H

#include "heddle/Autodiff/Passes.h"
#include "heddle/Cost/ClusterChoice.h"
#include "heddle/Plan/DefaultPlan.h"
#include "heddle/Schedule/Passes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include <cstdint>
#include <optional>
#include <string>

namespace heddle {

/// The phases after import. Each names the state of the module after it.
enum class Phase {
  Autodiff,   ///< training step over global tensors
  Sharded,    ///< plan applied, shardings propagated, reshards explicit
  Localized,  ///< one device's program with collectives
  Kernels,    ///< library calls and outlined kernels, still on tensors
  Executable, ///< rt programs with arenas; kernels are structured ops still
  LLVM,       ///< LLVM dialect
};

/// "autodiff", "sharded", ...; nullopt if there is no such phase.
std::optional<Phase> parsePhase(llvm::StringRef name);
llvm::StringRef stringifyPhase(Phase phase);
/// All names, for --help.
llvm::SmallVector<llvm::StringRef> getPhaseNames();

/// What the training step does: the options of heddle-build-training-step,
/// whose description has the formulas, and the type of the products.
struct TrainingOptions : BuildTrainingStepPassOptions {
  bool bf16 = false; ///< bf16 compute, f32 master weights
};

struct CompileOptions {
  TrainingOptions training;
  /// A plan as JSON text; empty for the standard plan of the fields below.
  std::string planText;
  std::string planPath; ///< where the text came from, for messages
  DefaultMesh mesh;
  int64_t zeroLevel = 0; ///< 0..3, over the data-parallel axis
  /// The cluster that communication is weighed on: "dgx-a100:16", or a JSON
  /// file's path. None: all devices are equally near.
  ClusterChoice cluster;
  /// Remarks on reshards and on exchanges within ops in which a device sends at
  /// least so many bytes; -1: none.
  int64_t remarkBytes = -1;
  /// Lets every collective run beside the computations, for tests of schedules.
  std::optional<StartCollectivesPassOptions> startCollectives;
  /// "native", an LLVM CPU name (x86-64-v3, x86-64-v4), or "cpu,+feature,...".
  std::string targetCpu = "native";
  /// "address" or "thread": kernels are instrumented for that sanitizer and run
  /// only in processes that have it (a heddle-run of that preset). Or empty.
  std::string sanitize;
  /// Emits a remark on each op: how its value is split, which op each axis
  /// comes from, and where two ops want the value split differently.
  bool explainShardings = false;
  /// Devices that the program will run on; 0 if the plan decides.
  int64_t devices = 0;
};

/// Whether the module is an imported model: it has variables and a function
/// @forward, so a training step can be built. The function alone does not tell,
/// because a program of another compiler may have that name too.
bool isModel(mlir::ModuleOp module);

/// Runs the phases after the module's own (an imported one has none) up to and
/// including `last`. Errors are emitted as diagnostics on the module's context;
/// a plan or mesh for a program that has one already is an error.
mlir::LogicalResult runPhases(mlir::ModuleOp module,
                              const CompileOptions &options, Phase last);

/// Compiles a module, imported or in any phase, into the artifact directory
/// `path`, which is replaced atomically if it is an artifact already. The
/// module is consumed: afterwards it is in the LLVM phase.
mlir::LogicalResult compileToArtifact(mlir::ModuleOp module,
                                      const CompileOptions &options,
                                      llvm::StringRef path);

struct PartitionOptions {
  /// A plan as JSON text; empty for a module that declares its mesh.
  std::string planText;
  std::string planPath; ///< where the text came from, for messages
  /// Number of available devices; 0 for any.
  int64_t devices = 0;
  /// The cluster that communication is weighed on: "dgx-a100:16", or a JSON
  /// file's path. None: all devices are equally near.
  ClusterChoice cluster;
};

/// Turns a global program into the program of one device, in the localized
/// phase. Ops may be of any dialect that has sharding rules. Shardings start
/// from the plan and from `heddle.sharding` of function arguments and results.
/// compileToArtifact goes on from there, once all ops are ones that Heddle
/// lowers.
mlir::LogicalResult partition(mlir::ModuleOp module,
                              const PartitionOptions &options = {});

/// Registers the pipelines of the phases with heddle-opt.
void registerPipelines();

} // namespace heddle

#endif // HEDDLE_PIPELINES_PIPELINES_H
