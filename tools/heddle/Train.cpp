//===- Train.cpp - heddle train -------------------------------------------===//

#include "../common/Launch.h"
#include "../common/NewFolders.h"
#include "../common/Run.h"
#include "Commands.h"
#include "artifact/TemporaryFolder.h"
#include "model/Model.h"
#include "plan/PlanModel.h"

namespace fs = std::filesystem;
using namespace heddle;
using namespace heddle::tools;

namespace {
struct TrainCommandFlags {
  CompileFlags compile;
  /// The options that `compile` has too.
  std::vector<CLI::Option *> compileOptions;
  TrainFlags train;
  int processes = 1;
};
} // namespace

static int runTrainCommand(TrainCommandFlags &flags) {
  auto job = runtime::jobFromEnvironment();
  if (!job.ok())
    return reportError(job.message());
  bool launches = flags.processes > 1 && !*job;
  ModelFlags &model = flags.compile.model;
  runtime::TrainOptions &options = flags.train.options;
  std::optional<ModelKind> kind;
  if (!model.isParametric()) {
    kind = classifyModel(model.path);
    if (!kind)
      return exitFailure;
  }
  if (options.output.empty())
    options.output = defaultRunFolder(model.path);
  // Process 0 compiles. The others wait for it in `runTrain`.
  if (*job && (*job)->process != 0)
    return runTrain("", flags.train);
  resumeAfterFailure(flags.train);
  if (launches) { // process 0 uses these, and says so
    flags.compile.profile.clear();
    flags.compile.usesPrediction = false;
  } else if (kind != ModelKind::Artifact && options.resume &&
             flags.compile.plan == autoPlan) {
    if (int code = usePlanOfRun(flags.compile, options.output,
                                kind == ModelKind::Module);
        code != exitSuccess)
      return code;
  }
  // Report errors in the options, the data and the run's folder before
  // compiling. The folder is last: a mistake in an option would be met again
  // after choosing another folder.
  flags.compile.runsHere = true;
  flags.compile.hasShapeOfData = runtime::isBatchData(options.data);
  if (kind == ModelKind::Artifact) {
    if (!checkNotCompiled(flags.compileOptions, model.path))
      return exitUsage;
  } else if (int code = readPlanFlags(flags.compile); code != exitSuccess) {
    return code;
  }
  if (std::string problem = checkTrainFlags(flags.train); !problem.empty())
    return reportUsage(problem);
  if (launches) {
    LaunchFlags launched;
    launched.processes = flags.processes;
    launched.command = ownCommand();
    return launch(launched);
  }
  if (kind == ModelKind::Artifact)
    return runTrain(model.path, flags.train);

  // The batch determines the shape to compile for. An .mlir file already has a
  // shape.
  TrainingOptions &training = flags.compile.options.training;
  if (runtime::isBatchData(options.data) && kind != ModelKind::Module) {
    auto batches = runtime::listBatches(options.data);
    if (!batches.ok())
      return reportError(batches.message());
    auto shape = readTokenShape(batches->front());
    if (!shape.ok())
      return reportError(shape.message());
    if (!model.batch)
      model.batch = std::max<int64_t>(1, shape->rows / training.microBatches);
    if (!model.sequence)
      model.sequence = shape->sequence;
  }
  training.totalSteps = options.steps;
  std::optional<TemporaryFolder> temporary;
  fs::path artifact;
  if (!flags.compile.stopAfter.empty()) {
    // Only the IR is printed, no artifact is written.
  } else if (!flags.train.writesCheckpoints()) {
    temporary.emplace();
    if (temporary->path().empty())
      return reportError(cannotMakeTemporary);
    artifact = temporary->path() / "model.heddle";
  } else {
    artifact = options.output / "model.heddle";
  }
  NewFolders folders(flags.train);
  if (flags.compile.stopAfter.empty())
    if (std::string problem = makeTrainFolders(flags.train); !problem.empty())
      return folders.end(reportError(problem));
  bool compiled = false;
  int result = compileModel(flags.compile, artifact, compiled);
  return folders.end(compiled ? runTrain(artifact, flags.train) : result);
}

void tools::addTrainCommand(CLI::App &app, int &result) {
  CLI::App *command =
      app.add_subcommand("train", "Compile a model, if need be, and train it");
  auto flags = std::make_shared<TrainCommandFlags>();
  addModelFlags(*command, flags->compile.model);
  addPlanFlags(*command, flags->compile);
  addTrainingFlags(*command, flags->compile);
  addOutputFlags(*command, flags->compile);
  flags->compileOptions = compilerOptions(*command);
  addTrainFlags(*command, flags->train);
  command
      ->add_option("--processes", flags->processes,
                   "Spread the devices over so many processes on this machine "
                   "(see launch)")
      ->capture_default_str()
      ->check(between(1, 1024));
  addEmulatePresets(*command, flags->train.session);
  command->callback([flags, &result] { result = runTrainCommand(*flags); });
}
