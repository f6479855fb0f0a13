//===- Evaluate.cpp - heddle evaluate -------------------------------------===//

#include "../common/Run.h"
#include "Commands.h"
#include "artifact/TemporaryFolder.h"
#include "model/Model.h"

namespace fs = std::filesystem;
using namespace heddle;
using namespace heddle::tools;

namespace {
struct EvaluateCommandFlags {
  CompileFlags compile;
  /// The options that `heddle compile` has too.
  std::vector<CLI::Option *> compileOptions;
  EvaluateFlags evaluate;
};
} // namespace

static int runEvaluateCommand(EvaluateCommandFlags &flags) {
  ModelFlags &model = flags.compile.model;
  std::optional<ModelKind> kind;
  if (!model.isParametric()) {
    kind = classifyModel(model.path);
    if (!kind)
      return exitFailure;
  }
  if (kind == ModelKind::Artifact)
    return checkNotCompiled(flags.compileOptions, model.path)
               ? runEvaluate(model.path, flags.evaluate)
               : exitUsage;

  // The batch determines the shape to compile for. An .mlir file already has a
  // shape.
  if (kind != ModelKind::Module) {
    auto shape = readTokenShape(flags.evaluate.data);
    if (!shape.ok())
      return reportError(shape.message());
    if (!model.batch)
      model.batch = shape->rows;
    if (!model.sequence)
      model.sequence = shape->sequence;
  }
  TrainingOptions &training = flags.compile.options.training;
  training.train = false;
  training.gradients = flags.evaluate.options.gradients;
  training.evaluate = true;
  flags.compile.runsHere = true;

  TemporaryFolder temporary;
  if (temporary.path().empty())
    return reportError(cannotMakeTemporary);
  fs::path artifact = temporary.path() / "model.heddle";
  bool compiled = false;
  int result = compileModel(flags.compile, artifact, compiled);
  return compiled ? runEvaluate(artifact, flags.evaluate) : result;
}

void tools::addEvaluateCommand(CLI::App &app, int &result) {
  CLI::App *command = app.add_subcommand(
      "evaluate",
      "Loss, logits and gradients of one batch, to compare with another "
      "framework");
  auto flags = std::make_shared<EvaluateCommandFlags>();
  addModelFlags(*command, flags->compile.model);
  addPlanFlags(*command, flags->compile);
  addOutputFlags(*command, flags->compile);
  flags->compileOptions = compilerOptions(*command);
  addEvaluateFlags(*command, flags->evaluate);
  addEmulatePresets(*command, flags->evaluate.session);
  command->callback([flags, &result] { result = runEvaluateCommand(*flags); });
}
