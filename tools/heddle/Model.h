//===- Model.h - Models and compilations from the command line --*- C++ -*-===//
//
// Loading and compiling models, with the flags for it. Shared by `compile`,
// `train`, `evaluate` and `info`.
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

namespace heddle::tools {

/// Kinds of the argument MODEL.
enum class ModelKind { Folder, Config, Module, Artifact };

/// Looks at the file system. Prints an error and returns nullopt if the path is
/// of no kind.
std::optional<ModelKind> classifyModel(const std::filesystem::path &path);

/// The model to compile: a path, or the sizes of a parametric GPT.
struct ModelFlags {
  std::string path;
  GptShape gpt;
  std::optional<int64_t> batch, sequence;
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
  /// Value of `--remarks[=BYTES]`. A text, because CLI11 takes the value 0 of
  /// an integer flag as "off".
  std::string remarks;
  /// Value of `--start-collectives[=ORDER]`.
  std::string startCollectives;
  std::string stopAfter;
  /// Whether this machine will run the program, too.
  bool runsHere = false;
  std::string printTo; ///< Where to, with --stop-after; "": standard output.
  /// The options that decide the training step.
  std::vector<CLI::Option *> trainingOptions;
};

/// The compiler's context: dialects, and diagnostics that show the source line.
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
/// Reads "earliest", "latest" or "random:SEED"; nullopt for any other text.
std::optional<StartCollectivesPassOptions>
parseStartOrder(llvm::StringRef text);
/// Adds the flags for a plan file or for the mesh of a standard plan.
void addPlanFlags(CLI::App &app, CompileFlags &flags);
/// Adds the flags of a training step and its optimizer.
void addTrainingFlags(CLI::App &app, CompileFlags &flags);
/// Adds `--target-cpu`, `--stop-after` and what else decides about the output.
void addOutputFlags(CLI::App &app, CompileFlags &flags);

/// Returns the options that a command has so far, except MODEL and --help.
std::vector<CLI::Option *> compilerOptions(CLI::App &app);
/// Prints an error and returns false if the command line gives one of
/// `options`. They had to be given when the artifact `path` was compiled.
bool checkNotCompiled(const std::vector<CLI::Option *> &options,
                      const std::string &path);

/// Imports or parses the model; prints errors.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
loadModel(Compiler &compiler, const ModelFlags &flags);

/// Reads the plan and the mesh of the flags into `flags.options`. Prints an
/// error and returns false if they are invalid.
bool resolvePlan(CompileFlags &flags);

/// Compiles to the artifact folder `output`, or prints the IR after the phase
/// that `--stop-after` names. Returns the exit code; `compiled` becomes true if
/// the artifact was written. With `report`, prints the memory that a device
/// will use.
int compileModel(CompileFlags &flags, const std::filesystem::path &output,
                 bool &compiled, bool report = false);

/// Prints a module to a file, or to standard output for "-" and "". A file is
/// replaced whole or not at all.
bool writeModule(mlir::ModuleOp module, const std::string &path);

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_HEDDLE_MODEL_H
