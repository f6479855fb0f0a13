//===- Model.h - Models and compilations from the command line --*- C++ -*-===//
//
// Loads and compiles models, and adds the flags that this needs to a command.
// Shared by `compile`, `train`, `evaluate` and `info`.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_MODEL_H
#define HEDDLE_TOOLS_HEDDLE_MODEL_H

#include "heddle/Import/Import.h"
#include "heddle/Pipelines/Pipelines.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/SourceMgr.h"

#include <CLI/CLI.hpp>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace heddle {
class CallCoverage;
} // namespace heddle

namespace heddle::tools {

struct SessionFlags;

/// Kinds of the argument MODEL.
enum class ModelKind { Folder, Config, Module, Artifact };

/// Returns the kind of the file or folder `path`. Prints an error and returns
/// nullopt if it is of no kind. `takesArtifacts` says whether the error offers
/// artifacts.
std::optional<ModelKind> classifyModel(const std::filesystem::path &path,
                                       bool takesArtifacts = true);
/// Returns whether the path is that of an .mlir file, or "-", which stands for
/// one on standard input.
bool isModuleFile(const std::filesystem::path &path);
/// Prints the error that an artifact is given where a MODEL is expected.
void reportCompiled(const std::filesystem::path &artifact);

/// The model to compile: a path, or the sizes of a parametric GPT.
struct ModelFlags {
  std::string path;
  GptShape gpt;
  std::optional<int64_t> batch, sequence;
  /// See ImportOptions.
  std::string sequenceOrigin;
  std::optional<double> dropout;
  uint64_t seed = 0;

  bool isParametric() const { return path.empty(); }
};

struct CompileFlags {
  ModelFlags model;
  CompileOptions options;
  std::string plan;
  int64_t devices = 0;
  std::string mesh;
  std::optional<ContextParallelism> context;
  /// Value of `--remarks[=BYTES]`, as text: CLI11 takes the value 0 of an
  /// integer flag as "off".
  std::string remarks;
  /// Value of `--start-collectives[=ORDER]`.
  std::string startCollectives;
  std::string profile; ///< of heddle profile; empty: none
  /// The calls whose times were taken from the profile. Null: no profile.
  std::shared_ptr<CallCoverage> coverage;
  std::string stopAfter;
  /// True if this machine will also run the program.
  bool runsHere = false;
  /// True after readPlanFlags().
  bool planIsRead = false;
  /// Whether the plan's prediction decides what the options of the step leave
  /// open.
  bool usesPrediction = false;
  /// Whether data decides the rows and positions, and not the prediction.
  bool hasShapeOfData = false;
  std::string printTo; ///< of --stop-after; empty: standard output
  /// The options that choose the training step.
  std::vector<CLI::Option *> trainingOptions;
  /// The options that choose the order of stages. They need a mesh with pp.
  std::vector<CLI::Option *> pipelineOptions;
};

/// The compiler's context, with its dialects and a handler of diagnostics that
/// shows the source line.
class Compiler {
public:
  Compiler();
  mlir::MLIRContext &context() { return *mlirContext; }

private:
  std::unique_ptr<mlir::MLIRContext> mlirContext;
  llvm::SourceMgr sources;
  std::unique_ptr<mlir::ScopedDiagnosticHandler> diagnostics;
};

void addModelFlags(CLI::App &app, ModelFlags &flags);
/// Returns exitUsage, with an error, if the flags name no model, or two.
int checkModelFlags(const ModelFlags &flags);
/// Returns the names of the cluster presets, separated by commas.
std::string listPresets();
/// Makes `--emulate`, which the command has, accept the presets of `--cluster`
/// too.
void addEmulatePresets(CLI::App &app, SessionFlags &flags);

/// Parses "earliest", "latest" or "random:SEED". Returns nullopt for any other
/// text.
std::optional<StartCollectivesPassOptions>
parseStartOrder(llvm::StringRef text);
/// Adds the flags for a plan file or for the mesh of a standard plan.
void addPlanFlags(CLI::App &app, CompileFlags &flags);
/// Adds the flags of a training step and its optimizer. A plan's prediction
/// decides those that are not given.
void addTrainingFlags(CLI::App &app, CompileFlags &flags);
/// Adds the flags that decide the program on every machine: `--bf16` and
/// `--start-collectives`.
void addProgramFlags(CLI::App &app, CompileFlags &flags);
/// Adds `--verify-each-pass`, for every command that runs passes.
void addVerificationFlag(CLI::App &app, CompileFlags &flags);
/// Adds the flags of addProgramFlags() and addVerificationFlag(), and those of
/// native code and of what is printed, such as `--target-cpu` and
/// `--stop-after`.
void addOutputFlags(CLI::App &app, CompileFlags &flags);

/// Returns the options that the command has at this point, except MODEL and
/// --help.
std::vector<CLI::Option *> compilerOptions(CLI::App &app);
/// Returns true if the command line has none of `options`. Otherwise prints an
/// error: `path` is an artifact, and these options only count when it is
/// compiled.
bool checkNotCompiled(const std::vector<CLI::Option *> &options,
                      const std::string &path);

/// Returns false, with an error, if the command line has options of the
/// training step. Called for modules that ignore them: a program that is no
/// model, or a model that already has its training step.
bool checkNoTrainingOptions(const CompileFlags &flags);

/// Returns whether the command line has the option of the training step, such
/// as `--micro-batches`.
bool isStated(const CompileFlags &flags, llvm::StringRef option);

/// Imports or parses the model. Prints errors.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
loadModel(Compiler &compiler, const ModelFlags &flags);

/// Checks the model's flags. Reads the cluster, the profile, and the plan or
/// mesh of the flags into `flags.options`, but chooses no plan for `--plan
/// auto`. With `usesPrediction`, completes the flags of the step from the
/// plan's prediction, and prints what it takes. If the flags are invalid,
/// prints an error and returns the exit code, which is not exitSuccess. Further
/// calls do nothing.
int readPlanFlags(CompileFlags &flags);
/// The same, and chooses the plan for `--plan auto`.
int resolvePlan(CompileFlags &flags);

/// Makes a training with `--plan auto` that resumes `run` use the plan that the
/// run was compiled with, instead of choosing one.
/// Takes from it the micro-batches, and the rows if no `--batch` is given. If
/// the run has no plan, warns and leaves the flags as they are. If the flags
/// contradict the plan, prints an error and returns the exit code, which is not
/// exitSuccess.
int usePlanOfRun(CompileFlags &flags, const std::filesystem::path &run,
                 bool hasFixedRows);

/// Prints how many of a program's calls a profile knows, and warns if these are
/// less than half.
void printCoverage(llvm::raw_ostream &out, size_t measured, size_t calls,
                   const std::string &profile);

/// Compiles to the artifact folder `output`, or prints the IR after the phase
/// that `--stop-after` names. Returns the exit code. Sets `compiled` if it
/// wrote the artifact. With `report`, prints the memory that each device will
/// use.
int compileModel(CompileFlags &flags, const std::filesystem::path &output,
                 bool &compiled, bool report = false);

/// Prints a module to the file `path`, or to standard output if it is "-" or
/// empty. A file is replaced whole or not at all. Prints an error and returns
/// false on failure.
bool writeModule(mlir::ModuleOp module, const std::string &path);

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_HEDDLE_MODEL_H
