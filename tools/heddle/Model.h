//===- Model.h - Models and compilations from the command line --*- C++ -*-===//
//
// What `compile`, `train`, `evaluate` and `info` share: the flags that say
// which model is compiled and how, and doing it.
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

/// What the MODEL of a command line is.
enum class ModelKind { Folder, Config, Module, Artifact };

/// Looks at the file system; fails, and says so, if it is none of them.
std::optional<ModelKind> classifyModel(const std::filesystem::path &path);

/// Which model: a path, or the sizes of a parametric GPT.
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
  std::string remarks; ///< Bytes, of a flag: one of integers takes 0 for "off".
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
/// The flags of a plan or a standard one.
void addPlanFlags(CLI::App &app, CompileFlags &flags);
/// The flags of a training step and its optimizer.
void addTrainingFlags(CLI::App &app, CompileFlags &flags);
/// `--target-cpu` and `--stop-after`.
void addOutputFlags(CLI::App &app, CompileFlags &flags);

/// The options that a command has so far, but for MODEL and --help.
std::vector<CLI::Option *> compilerOptions(CLI::App &app);
/// An error, printed, if the command line gives one of `options`, which are
/// decided when a model is compiled, for the artifact `path`.
bool checkNotCompiled(const std::vector<CLI::Option *> &options,
                      const std::string &path);

/// Imports or parses the model. Errors are printed.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
loadModel(Compiler &compiler, const ModelFlags &flags);

/// Reads the plan and the mesh of the flags into `flags.options`; false, with
/// the error printed, if they make no sense.
bool resolvePlan(CompileFlags &flags);

/// Compiles to the artifact folder `output`, or prints the IR after the phase
/// that `--stop-after` names. The exit code; `compiled` says whether there is
/// an artifact now. With `report`, prints what a device will hold.
int compileModel(CompileFlags &flags, const std::filesystem::path &output,
                 bool &compiled, bool report = false);

/// Prints a module, to a file or, for "-" and "", to standard output. A file is
/// replaced whole or not at all.
bool writeModule(mlir::ModuleOp module, const std::string &path);

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_HEDDLE_MODEL_H
