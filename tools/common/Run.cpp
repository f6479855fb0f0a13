//===- Run.cpp - Running artifacts from the command line ------------------===//

#include "Run.h"
#include "NewFolders.h"
#include "RunSession.h"

#include "heddle_rt/checkpoint.h"
#include "heddle_rt/safetensors.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <functional>
#include <optional>
#include <utility>

#include <unistd.h>

namespace fs = std::filesystem;
using namespace heddle;
using namespace heddle::tools;

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

/// Replaces a run's folder by its newest checkpoint. Refuses a folder that has
/// no checkpoint.
static CLI::Validator toCheckpoint() {
  return CLI::Validator(
      [](std::string &text) {
        std::vector<fs::path> checkpoints =
            runtime::listCheckpoints(runtime::checkpointFolder(text));
        if (!checkpoints.empty())
          text = checkpoints.back().string();
        auto has = [&](const char *name) {
          std::error_code ignored;
          return fs::exists(fs::path(text) / name, ignored);
        };
        if (!has(".") || has("state.json"))
          return std::string();
        if (has("model.safetensors") || has("model.safetensors.index.json"))
          return "'" + text +
                 "' has weights but no checkpoint, as an export or a model's "
                 "folder: give it as --weights";
        return "'" + text +
               "': expected a checkpoint (a folder with state.json), or the "
               "folder of a run that has checkpoints, found neither";
      },
      "");
}

void tools::addTrainFlags(CLI::App &app, TrainFlags &flags) {
  runtime::TrainOptions &options = flags.options;
  app.add_option("--data", options.data,
                 "Text, trained byte by byte, or a file of uint16 or uint32 "
                 "tokens (.bin, as nanoGPT writes it); or one batch as "
                 "`evaluate` takes it (.safetensors), the same every step; or "
                 "a folder of batches, one for each step, by name")
      ->required();
  app.add_option_function<std::string>(
         "--token-type",
         [&options](const std::string &name) {
           options.format = runtime::tokenFormatNamed(name);
         },
         "Type of the data's tokens (default: byte; for .bin uint16, or uint32 "
         "if the vocabulary is beyond 65536)")
      ->check(oneOf({"byte", "uint16", "uint32"}));
  app.add_option("--held-out", options.heldOutFraction,
                 "Fraction of the data, at its end, that is never trained on; "
                 "of a folder, whole batches")
      ->capture_default_str()
      ->check(between(0, 1));
  app.add_option("--steps", options.steps,
                 "Optimizer steps in all, those before a resume included; with "
                 "--from, 0 writes that checkpoint as this plan stores it")
      ->required()
      ->check(notNegative());
  app.add_option("--eval-every", options.evaluateEach,
                 "Steps between evaluations on the held-out data (0: at the "
                 "end only)")
      ->capture_default_str()
      ->check(notNegative());
  app.add_option("--eval-windows", options.evaluateWindows,
                 "Windows of the held-out data to evaluate; of a folder, whole "
                 "batches (0: all)")
      ->capture_default_str()
      ->check(notNegative());
  app.add_option(
         "-o,--output", options.output,
         "Folder of the run and its checkpoints (default, in the working "
         "directory: NAME.run for a model or artifact NAME, NAME.mlir or "
         "NAME.heddle, and heddle.run for a model without a name)")
      ->check(notEmpty("a folder"));
  app.add_option("--checkpoint-every", options.checkpointEach,
                 "Steps between checkpoints (0: at the end only)")
      ->capture_default_str()
      ->check(notNegative());
  app.add_option("--keep", options.keepCheckpoints,
                 "Checkpoints to keep, the newest (0: all)")
      ->capture_default_str()
      ->check(notNegative());
  app.add_flag("--no-checkpoints", flags.noCheckpoints,
               "Write none, not even when interrupted");
  CLI::Option *resume = app.add_flag(
      "--resume", options.resume,
      "Continue the run in --output, or its default, from its newest "
      "checkpoint; ends with the same bits as one that was never interrupted");
  app.add_flag("--fall-back", options.fallBack,
               "If the newest checkpoint is damaged, resume from the newest "
               "intact one")
      ->needs(resume);
  CLI::Option *from = app.add_option(
      "--from", options.from,
      "Start a new run from this checkpoint, or the newest one of this run's "
      "folder; another plan or number of devices may have written it");
  from->check(folder())->transform(toCheckpoint())->excludes(resume);
  CLI::Option *exportTo = app.add_option(
      "--export", options.exportTo,
      "Write the trained weights here as model.safetensors and config.json, "
      "as Hugging Face names them");
  exportTo->check(notEmpty("a folder"));
  app.add_flag("--check-replicas", options.checkReplicas,
               "At every checkpoint, compare the copies of each variable that "
               "several devices hold");
  app.add_flag("--json", flags.json, "Print one JSON object a step");
  addSessionFlags(app, flags.session)->excludes(resume)->excludes(exportTo);
  from->excludes(app.get_option("--weights"));
}

void tools::addEvaluateFlags(CLI::App &app, EvaluateFlags &flags) {
  app.add_option("--data", flags.data,
                 "Batch (safetensors): `tokens` and optionally `targets`, i32 "
                 "or i64 of shape B x S, a target of -100 is ignored. Without "
                 "targets each token's target is the next token and the last "
                 "of a row is ignored, which is what Hugging Face's models "
                 "compute for labels = input_ids")
      ->required();
  app.add_flag("--gradients", flags.options.gradients,
               "Also the gradient of the mean loss by every parameter");
  CLI::Option *output = app.add_option(
      "-o,--output", flags.options.output,
      "Write `loss`, `logits` and `grad.NAME` here (safetensors; NAME as in "
      "the model's checkpoint)");
  output->check(notEmpty("a file to write"));
  CLI::Option *checkpoint =
      app.add_option("--checkpoint", flags.checkpoint,
                     "Take the parameters from this checkpoint, or the newest "
                     "one of this run's folder");
  checkpoint->check(folder())->transform(toCheckpoint());
  app.add_flag("--json", flags.json, "Print the result as a JSON object");
  addSessionFlags(app, flags.session)->excludes(output);
  checkpoint->excludes(app.get_option("--weights"));
}

fs::path tools::defaultRunFolder(const fs::path &model) {
  fs::path path = model;
  if (!path.has_filename()) // ends in a slash: "gpt2/"
    path = path.parent_path();
  fs::path stem = path.filename() == "config.json"
                      ? fs::absolute(path).parent_path().filename()
                      : path.stem();
  return stem.empty() || stem == "." ? "heddle.run" : stem.string() + ".run";
}

/// Reads a batch. If the file may be a text, the error says how to evaluate on
/// one.
static auto readBatchOf(const fs::path &path) {
  auto batch = runtime::readBatch(path);
  std::error_code ignored;
  if (!batch.ok() && path.extension() != ".safetensors" &&
      fs::is_regular_file(path, ignored))
    batch = runtime::error(
        "--data: expected a batch (.safetensors, with `tokens`), got '" +
        path.string() +
        "'; for the held-out loss on a text: heddle train MODEL --data TEXT "
        "--steps 0 --no-checkpoints (with --from RUN, of a run's newest "
        "checkpoint)");
  return batch;
}

runtime::Expected<TokenShape> tools::readTokenShape(const fs::path &path) {
  auto batch = readBatchOf(path);
  if (!batch.ok())
    return std::move(batch).status();
  std::string context = "batch '" + path.string() + "': ";
  const runtime::BatchTensor *tokens = batch->find("tokens");
  if (!tokens)
    return runtime::error(context + "expected a tensor 'tokens'");
  if (tokens->shape.size() != 2 || tokens->data.empty())
    return runtime::error(
        context + "tensor 'tokens': expected shape [batch, sequence], got " +
        runtime::safetensors::shapeToString(tokens->shape));
  return TokenShape{tokens->shape[0], tokens->shape[1]};
}

std::string tools::checkTrainFlags(const TrainFlags &flags) {
  std::error_code failure;
  if (!fs::exists(flags.options.data, failure))
    return "token file '" + flags.options.data.string() +
           "': no such file or directory";
  runtime::SessionOptions unused;
  if (runtime::Status status = flags.session.emulate.apply(unused);
      !status.ok())
    return std::string(status.message());
  if (!flags.writesCheckpoints())
    return flags.options.resume
               ? "--resume needs the checkpoints that --no-checkpoints refuses"
               : "";
  fs::path folder = runtime::checkpointFolder(flags.options.output);
  bool found = !runtime::listCheckpoints(folder).empty();
  if (flags.options.resume && !found)
    return "cannot resume: no checkpoint in '" + folder.string() + "'";
  if (!flags.options.resume && found) {
    if (runtime::Status status =
            runtime::RunLock::checkFree(flags.options.output);
        !status.ok())
      return std::string(status.message());
    return "'" + flags.options.output.string() +
           "' already holds a run with checkpoints; continue it with --resume, "
           "or choose another folder with --output";
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Files and folders
//===----------------------------------------------------------------------===//

/// Makes a folder to write to. Returns an error text that contains `purpose`,
/// or an empty text.
static std::string makeFolder(const fs::path &folder, const char *purpose) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure)
    return "cannot make the folder '" + folder.string() + "'" + purpose + ": " +
           failure.message();
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    return "cannot write to the folder '" + folder.string() + "'" + purpose +
           ": " + std::strerror(errno);
  return "";
}

/// The lock of the run's folder, which this process holds until it ends.
static std::optional<runtime::RunLock> &runLock() {
  static std::optional<runtime::RunLock> lock;
  return lock;
}

bool tools::holdsRunFolder() { return runLock().has_value(); }

/// Locks a run's folder. Returns an error text, or an empty text.
static std::string lockFolder(const fs::path &folder) {
  std::optional<runtime::RunLock> &lock = runLock();
  if (lock)
    return "";
  auto taken = runtime::RunLock::take(folder);
  if (!taken.ok())
    return std::string(taken.message());
  lock.emplace(std::move(*taken));
  return "";
}

std::string tools::makeTrainFolders(const TrainFlags &flags) {
  if (flags.writesCheckpoints()) {
    if (std::string problem = makeFolder(flags.options.output, "");
        !problem.empty())
      return problem;
    if (std::string problem = lockFolder(flags.options.output);
        !problem.empty())
      return problem;
  }
  return flags.options.exportTo.empty()
             ? ""
             : makeFolder(flags.options.exportTo, " for the export");
}

//===----------------------------------------------------------------------===//
// Train
//===----------------------------------------------------------------------===//

// A signal handler can only use variables with static lifetime.
static volatile std::sig_atomic_t interruptedBySignal = 0;
static struct sigaction actionOfInterrupt, actionOfTerminate;

/// Makes the first signal stop the run after the current step. The second
/// signal then has the effect that it had before: it ends the process, perhaps
/// by a handler that cleans up first.
static void stopOnSignals() {
  struct sigaction action {};
  action.sa_handler = [](int number) {
    interruptedBySignal = 1;
    ::sigaction(number,
                number == SIGINT ? &actionOfInterrupt : &actionOfTerminate,
                nullptr);
  };
  ::sigaction(SIGINT, &action, &actionOfInterrupt);
  ::sigaction(SIGTERM, &action, &actionOfTerminate);
  // A write beyond the file size limit then fails. By default it would end the
  // process.
  action.sa_handler = SIG_IGN;
  action.sa_flags = 0;
  ::sigaction(SIGXFSZ, &action, nullptr);
  // A write to a closed pipe then fails too, and the run ends with a
  // checkpoint.
  ::sigaction(SIGPIPE, &action, nullptr);
}

void tools::resumeAfterFailure(TrainFlags &flags) {
  const char *attempt = std::getenv("HEDDLE_JOB_ATTEMPT");
  if (!attempt || std::strcmp(attempt, "0") == 0 || !flags.writesCheckpoints())
    return;
  fs::path folder = runtime::checkpointFolder(flags.options.output);
  if (!runtime::listCheckpoints(folder).empty())
    flags.options.resume = flags.options.fallBack = true;
}

/// Trains, in a job that has been joined.
static int trainSession(fs::path artifact, TrainFlags flags,
                        const runtime::SessionOptions &sessionOptions) {
  runtime::Job *job = sessionOptions.job.get();
  runtime::TrainOptions &options = flags.options;
  bool isFirst = !job || job->process() == 0;
  if (job) {
    auto path = job->fromFirst(artifact.string());
    if (!path.ok())
      return reportError(job, path.message());
    artifact = *path;
  }
  bool initialize = !options.resume && options.from.empty();
  auto session =
      openSession(artifact, flags.session, initialize, sessionOptions);
  if (!session.ok())
    return reportError(job, session.message());
  // Only now: an artifact that cannot be loaded should leave no folder.
  if (isFirst)
    if (std::string problem = makeTrainFolders(flags); !problem.empty())
      return reportError(job, problem);
  if (!flags.writesCheckpoints())
    options.output.clear();
  if (initialize)
    options.weights = weightsFor(**session, flags.session);
  else
    options.weights = flags.session.weights; // of a run that is resumed

  runtime::Expected<runtime::TrainOutcome> outcome = runtime::TrainOutcome();
  {
    std::unique_ptr<runtime::TrainObserver> progress =
        !isFirst
            ? runtime::createSilence()
            : runtime::createProgress(flags.json
                                          ? runtime::ProgressStyle::JSON
                                          : runtime::defaultProgressStyle());
    outcome = runtime::train(**session, options, *progress, [] {
      return interruptedBySignal != 0 || std::ferror(stdout) != 0;
    });
  } // the progress line ends here
  if (!outcome.ok())
    return reportError(job, outcome.message());
  if (isFirst)
    if (runtime::Status status = finishSession(
            **session, flags.session,
            std::to_string(outcome->timedSteps) +
                " training step(s) together, without evaluations and "
                "checkpoints",
            outcome->times);
        !status.ok())
      return reportError(job, status.message());
  if (job)
    job->leave();
  if (std::ferror(stdout))
    return reportError("cannot write to standard output; stopped after step " +
                       std::to_string(outcome->step));
  if (!outcome->interrupted)
    return exitSuccess;
  if (isFirst)
    std::fprintf(
        stderr, "%s: interrupted after step %lld%s\n",
        program_invocation_short_name, static_cast<long long>(outcome->step),
        options.output.empty() ? "" : "; --resume continues from here");
  return exitInterrupted;
}

int tools::runTrain(const fs::path &artifact, const TrainFlags &given) {
  TrainFlags flags = given;
  resumeAfterFailure(flags);
  if (std::string problem = checkTrainFlags(flags); !problem.empty())
    return reportUsage(problem);
  stopOnSignals();
  runtime::SessionOptions options;
  if (runtime::Status status = joinJob(flags.session.hangTimeout, options);
      !status.ok())
    return reportError(status.message());
  NewFolders folders(flags);
  bool isFirst = !options.job || options.job->process() == 0;
  int code = trainSession(artifact, std::move(flags), options);
  return isFirst ? folders.end(code) : code;
}

//===----------------------------------------------------------------------===//
// Evaluate
//===----------------------------------------------------------------------===//

int tools::runEvaluate(const fs::path &artifact, const EvaluateFlags &flags) {
  auto batch = readBatchOf(flags.data);
  if (!batch.ok())
    return reportError(batch.message());
  runtime::SessionOptions options;
  if (runtime::Status joined = joinJob(flags.session.hangTimeout, options);
      !joined.ok())
    return reportError(joined.message());
  runtime::Job *job = options.job.get();
  auto session =
      openSession(artifact, flags.session, flags.checkpoint.empty(), options);
  if (!session.ok())
    return reportError(job, session.message());

  runtime::Status status;
  if (!flags.checkpoint.empty())
    status = runtime::loadCheckpoint(**session, flags.checkpoint,
                                     runtime::CheckpointUse::Evaluate);
  else if (fs::path weights = weightsFor(**session, flags.session);
           !weights.empty())
    status = runtime::loadWeights(**session, weights);
  if (!status.ok())
    return reportError(job, status.message());

  auto result = runtime::evaluate(**session, *batch, flags.options);
  if (!result.ok())
    return reportError(job, result.message());
  if (runtime::Status finished = finishSession(
          **session, flags.session, "one batch", (*session)->times());
      !finished.ok())
    return reportError(job, finished.message());
  if (job)
    job->leave();
  if (job && job->process() != 0)
    return exitSuccess;
  if (flags.json)
    std::printf(
        "%s\n",
        nlohmann::ordered_json{{"loss", static_cast<float>(result->loss)},
                               {"labels", result->labels}}
            .dump()
            .c_str());
  else if (flags.session.emulate.compute)
    std::printf("no loss: computation is emulated\n");
  else
    std::printf("loss %.6f over %lld labels\n", result->loss,
                static_cast<long long>(result->labels));
  return exitSuccess;
}
