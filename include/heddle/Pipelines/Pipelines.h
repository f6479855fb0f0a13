//===- Pipelines.h - A compilation from model to artifact -------*- C++ -*-===//
//
// The phases of a compilation in order, and the function that runs them. Every
// phase is a pipeline of passes, which heddle-opt can run by name
// (heddle-autodiff-pipeline, -shard-, -localize-, -kernels-, -executable-,
// -llvm-). A module carries its phase as the attribute `heddle.phase`, and its
// plan as `heddle.plan`. A module printed after any phase can be edited and
// given to `heddle compile`, which continues after that phase.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PIPELINES_PIPELINES_H
#define HEDDLE_PIPELINES_PIPELINES_H

#include "heddle/Autodiff/Passes.h"
#include "heddle/Cost/ClusterChoice.h"
#include "heddle/Plan/DefaultPlan.h"
#include "heddle/Plan/Schedules.h"
#include "heddle/Schedule/Passes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace heddle {

class ArtifactWriter;
class CostModel;

/// The phases after import. Each names the state of the module after it.
enum class Phase {
  Autodiff,   ///< training step over global tensors
  Sharded,    ///< plan applied, shardings propagated, reshards explicit
  Localized,  ///< one device's program with collectives
  Kernels,    ///< library calls and outlined kernels, still on tensors
  Scheduled,  ///< the order of the program chosen, collectives in flight
  Executable, ///< rt programs with arenas; kernels are still structured ops
  LLVM,       ///< LLVM dialect
};

/// Returns the phase named "autodiff", "sharded", ...; nullopt for another
/// name.
std::optional<Phase> parsePhase(llvm::StringRef name);
llvm::StringRef stringifyPhase(Phase phase);
/// Returns the names of all phases, for --help.
llvm::SmallVector<llvm::StringRef> getPhaseNames();

/// The options of heddle-build-training-step, whose description has the
/// formulas, and the type in which products are computed.
struct TrainingOptions : BuildTrainingStepPassOptions {
  bool bf16 = false; ///< bf16 compute, f32 master weights
};

/// When a program is verified: after each pass, to find a pass that makes it
/// invalid; after each phase; or after the last phase only, if it is compiled
/// to be compared with others.
enum class Verification { EachPass, EachPhase, LastPhase };

struct CompileOptions {
  TrainingOptions training;
  /// A plan as JSON text. If empty, the standard plan of the fields below.
  std::string planText;
  std::string planPath; ///< where the text came from, for messages
  DefaultMesh mesh;
  int64_t zeroLevel = 0; ///< 0..3, over the data-parallel axis
  /// The number of parts in which the batch runs; 0: as the plan or its
  /// schedule says, or whole.
  int64_t subBatches = 0;
  /// The cluster for which communication costs are computed: "dgx-a100:16", or
  /// the path of a JSON file. If none, all devices are equally near.
  ClusterChoice cluster;
  /// Emits a remark on each reshard, and each exchange within an op, in which a
  /// device sends at least this many bytes. -1: no remarks.
  int64_t remarkBytes = -1;
  /// The schedule, and the recomputation of the forward pass. If none: as the
  /// plan says.
  std::optional<Overlap> overlap;
  std::optional<RecomputeMode> recompute;
  /// Plan::recomputeBytes; 0: as the plan says.
  int64_t recomputeBytes = 0;
  /// The number of row chunks of products beside a gather or scatter along
  /// another dimension (heddle-chunk-exchanges); 1: products stay whole. If
  /// none: as the plan says, or whole.
  std::optional<int64_t> exchangeChunks;
  /// Whether products and the exchanges of their rows run in steps of a ring
  /// (heddle-ring-exchanges). If none: as the plan says. `false` forbids it.
  std::optional<bool> exchangeRing;
  /// Whether sums are scattered where this makes the work after them faster
  /// (heddle-scatter-sums). If none: as the plan says. `false` forbids it.
  std::optional<bool> scatterSums;
  /// Makes the cost model of a program of phase `executable`, by which the
  /// schedule `auto` chooses sub-batches and recomputation. If empty, or if it
  /// returns null, the cost model is the cluster's roofline.
  std::function<std::unique_ptr<CostModel>(mlir::ModuleOp)> makeCostModel;
  /// If set, every collective runs beside the computations, for tests of
  /// schedules.
  std::optional<StartCollectivesPassOptions> startCollectives;
  /// "native", an LLVM CPU name (x86-64-v3, x86-64-v4), or "cpu,+feature,...".
  std::string targetCpu = "native";
  /// The GPU to compile for, such as "sm_80"; empty: a CPU.
  std::string targetGpu;
  /// The threads of a GPU that share a row: "auto", or for tests "thread",
  /// "warp" or "block".
  std::string gpuRows = "auto";
  /// Who computes attention on a GPU: "cudnn", "kernel" (plain kernels of the
  /// runtime), or "auto" (cuDNN what it serves); empty: what an earlier phase
  /// decided, or "auto".
  std::string gpuAttention;
  /// "address" or "thread": instruments kernels for that sanitizer. They run
  /// only in processes that are linked with it (heddle-run of that preset).
  /// Empty: none.
  std::string sanitize;
  /// Whether the kernels for a CPU are optimized. Otherwise a small model
  /// compiles in a fraction of the time, and its steps take longer.
  bool optimizesKernels = true;
  /// Emits a remark on each op: how its value is split, which op each axis
  /// comes from, and where two ops want different splits of the value.
  bool explainShardings = false;
  /// Number of devices on which the program will run; 0 if the plan decides.
  int64_t devices = 0;
  /// If recomputeBytes is that of a program with more layers: the ratio of
  /// their numbers.
  double recomputeDepth = 1;
  /// Of the two choices between which a program with more layers mixes, takes
  /// the one that exceeds recomputeBytes.
  bool recomputeExceeds = false;
  /// Whether the schedule `auto` chooses what the other options and the plan
  /// leave open (ChooseSchedule.h).
  bool choosesSchedule = true;
  /// Whether it is an error if the variables alone exceed the memory of the
  /// cluster's devices. Otherwise it is a warning.
  bool refusesTooLarge = false;
  /// When the program is verified.
  Verification verification = Verification::EachPhase;
};

/// Returns whether the module is an imported model: it has variables and a
/// function @forward, so a training step can be built. @forward alone is not
/// enough, because a program of another compiler may have such a function.
bool isModel(mlir::ModuleOp module);

/// Runs the phases after the module's own phase (an imported one starts with
/// the first) up to and including `last`. Errors are emitted as diagnostics on
/// the module's context. A plan or mesh for a module that has one already is an
/// error.
mlir::LogicalResult runPhases(mlir::ModuleOp module,
                              const CompileOptions &options, Phase last);

/// Compiles a module, imported or in any phase, into the artifact directory
/// `path`, which is replaced atomically if it is an artifact already. Leaves
/// the module in the LLVM phase.
mlir::LogicalResult compileToArtifact(mlir::ModuleOp module,
                                      const CompileOptions &options,
                                      llvm::StringRef path);

/// The same, with a writer whose linker has started already.
mlir::LogicalResult compileToArtifact(mlir::ModuleOp module,
                                      const CompileOptions &options,
                                      ArtifactWriter &writer);

struct PartitionOptions {
  /// A plan as JSON text. Empty for a module that declares its mesh.
  std::string planText;
  std::string planPath; ///< where the text came from, for messages
  /// Number of available devices; 0 for any.
  int64_t devices = 0;
  /// The cluster for which communication costs are computed: "dgx-a100:16", or
  /// the path of a JSON file. If none, all devices are equally near.
  ClusterChoice cluster;
};

/// Turns a global program into the program of one device, in the localized
/// phase. Ops may be of any dialect that has sharding rules. Shardings start
/// from the plan and from `heddle.sharding` of function arguments and results.
/// If Heddle can lower all ops, compileToArtifact accepts the result.
mlir::LogicalResult partition(mlir::ModuleOp module,
                              const PartitionOptions &options = {});

/// Registers the pipelines of the phases with heddle-opt.
void registerPipelines();

} // namespace heddle

#endif // HEDDLE_PIPELINES_PIPELINES_H
