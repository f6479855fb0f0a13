//===- Flags.cpp - The options of models and their compilation ------------===//

#include "Model.h"

#include "../../common/Run.h"

#include "heddle/Cost/Cluster.h"
#include "heddle/Stages/StageSchedule.h"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>

using namespace mlir;
using namespace heddle;
using namespace heddle::tools;

/// Adds an option whose value is one of the names in `choices`.
template <typename T>
static CLI::Option *addChoice(CLI::App &app, const char *name, T &value,
                              const std::map<std::string, T> &choices,
                              const char *text) {
  std::vector<std::string> names;
  names.reserve(choices.size());
  for (auto &[choice, meaning] : choices)
    names.push_back(choice);
  return app
      .add_option_function<std::string>(
          name,
          [&value, choices](const std::string &choice) {
            value = choices.at(choice);
          },
          text)
      ->check(oneOf(names));
}

void tools::addModelFlags(CLI::App &app, ModelFlags &flags) {
  app.add_option("MODEL", flags.path,
                 "A Hugging Face model's folder, its config.json, an .mlir "
                 "file (from `heddle import`, or a program of another "
                 "compiler), or what `heddle compile` wrote; for `heddle "
                 "compile` also -, an .mlir file on standard input");
  const char *group = "Parametric GPT-2, instead of a MODEL";
  auto size = [&](const char *name, int64_t &value, const char *text) {
    return app.add_option(name, value, text)->check(positive())->group(group);
  };
  CLI::Option *layers = size("--layers", flags.gpt.layers, "Layers");
  CLI::Option *hidden = size("--hidden", flags.gpt.hidden, "Hidden size");
  CLI::Option *heads = size("--heads", flags.gpt.heads, "Attention heads");
  CLI::Option *vocabulary =
      size("--vocab", flags.gpt.vocabulary, "Vocabulary (256 for bytes)");
  layers->needs(hidden)->needs(heads)->needs(vocabulary);
  for (CLI::Option *option : {hidden, heads, vocabulary})
    option->needs(layers);

  app.add_option(
         "--batch", flags.batch,
         "Rows of a micro-batch, of all devices together (default: those of "
         "an .mlir file; for train and evaluate those of a batch in "
         "--data; otherwise those of the plan's prediction, or 1)")
      ->check(positive());
  app.add_option(
         "--seq", flags.sequence,
         "Tokens in a row (default: those of an .mlir file; for train and "
         "evaluate those of a batch in --data; otherwise those of the "
         "plan's prediction, or 1024, or the model's maximum if that is "
         "less)")
      ->check(positive());
  app.add_option("--dropout", flags.dropout,
                 "Replaces every dropout rate of the model's config")
      ->check(between(0.0, 0.999));
  app.add_option("--seed", flags.seed,
                 "Selects initialization, data order and dropout")
      // Programs hold the seed as a signed number.
      ->check(wholeUpTo(std::numeric_limits<int64_t>::max()))
      ->capture_default_str();
}

std::string tools::listPresets() {
  std::string presets;
  for (const std::string &preset : getClusterPresets())
    presets += (presets.empty() ? "" : ", ") + preset;
  return presets;
}

void tools::addEmulatePresets(CLI::App &app, SessionFlags &flags) {
  CLI::Option *option = app.get_option("--emulate");
  option->description(option->get_description() + ", or one of " +
                      listPresets());
  flags.emulate.readNetwork = [](const std::string &presetOrPath)
      -> runtime::Expected<runtime::NetworkInfo> {
    llvm::Expected<Cluster> cluster = loadCluster(presetOrPath);
    if (!cluster)
      return runtime::error(llvm::toString(cluster.takeError()));
    return runtime::parseNetwork(writeCluster(*cluster), presetOrPath);
  };
}

void tools::addPlanFlags(CLI::App &app, CompileFlags &flags) {
  const char *group = "Distribution";
  CLI::Option *plan = app.add_option("--plan", flags.plan,
                                     "Plan (JSON), or auto to choose one for "
                                     "the --cluster (see heddle plan)")
                          ->check(notEmpty("a plan's file"))
                          ->group(group);
  app.add_option("--devices", flags.devices,
                 "Number of devices; without a plan or mesh, data parallel")
      ->check(positive())
      ->group(group);
  CLI::Option *mesh =
      app.add_option("--mesh", flags.mesh,
                     "Pipeline, data, context and tensor parallelism, for "
                     "example pp=2,dp=2,tp=4, instead of a plan; with "
                     "dp=2x4, --zero shards within groups of 4")
          ->check(notEmpty("pp=N,dp=N,cp=N,tp=N with positive numbers"))
          ->group(group);
  CLI::Option *zero =
      app.add_option("--zero", flags.options.zeroLevel,
                     "ZeRO level over the data parallel devices: 1 shards the "
                     "optimizer's state, 2 also gradients, 3 also parameters")
          ->check(between(0, 3))
          ->group(group);
  std::map<std::string, std::optional<ContextParallelism>> contexts;
  for (ContextParallelism kind : kContextKinds)
    contexts[getContextName(kind).str()] = kind;
  CLI::Option *context = addChoice<std::optional<ContextParallelism>>(
      app, "--context", flags.context, contexts,
      "How attention sees a sequence split over cp: keys and values gathered, "
      "going round (default), or heads exchanged with the sequence");
  context->needs(mesh)->group(group);
  CLI::Option *sequence =
      app.add_flag("--sequence", flags.options.mesh.sequence,
                   "Split norms and what lies between tensor parallel products "
                   "along the sequence over tp")
          ->needs(mesh)
          ->group(group);
  std::map<std::string, PipelineSchedule> schedules;
  for (unsigned i = 0; i <= getMaxEnumValForPipelineSchedule(); ++i) {
    auto schedule = static_cast<PipelineSchedule>(i);
    schedules[getScheduleName(schedule).str()] = schedule;
  }
  CLI::Option *pipeline =
      addChoice<PipelineSchedule>(
          app, "--pipeline", flags.options.mesh.schedule, schedules,
          "The order in which the stages over pp work on micro-batches "
          "(default: 1f1b)")
          ->needs(mesh)
          ->group(group);
  CLI::Option *chunks =
      app.add_option("--chunks", flags.options.mesh.chunks,
                     "Stages on each device along pp (default: 2 for "
                     "interleaved and zb-v, otherwise 1)")
          ->check(positive())
          ->needs(mesh)
          ->group(group);
  CLI::Option *barrier =
      addChoice<PipelineBarrier>(
          app, "--pipeline-barrier", flags.options.mesh.barrier,
          {{"step", PipelineBarrier::Step}, {"none", PipelineBarrier::None}},
          "Where the stages over pp wait for each other: at the end of each "
          "step (default), or only for what they send, which excludes --clip")
          ->needs(mesh)
          ->group(group);
  flags.pipelineOptions = {pipeline, chunks, barrier};
  for (CLI::Option *option : flags.pipelineOptions)
    plan->excludes(option);
  app.add_option("--sub-batches", flags.options.subBatches,
                 "Run the batch in so many parts, so that the communication of "
                 "one can run beside the computation of another (default: as "
                 "the plan says, or whole)")
      ->check(between(1, kMaxSubBatches))
      ->group(group);
  plan->excludes(mesh)->excludes(zero)->excludes(context)->excludes(sequence);
  app.add_option("--cluster", flags.options.cluster,
                 "What communication is weighed on: a JSON file, or one of " +
                     listPresets() + " (default: all devices are equally near)")
      ->check(notEmpty("a cluster's file or preset"))
      ->group(group);
  app.add_flag("--remarks{1048576}", flags.remarks,
               "Say what devices send each other, and what would avoid it: "
               "tensors moved between shardings, and what ops exchange as they "
               "compute, of which a device sends BYTES or more (1 MiB)")
      ->check(number("a number of bytes", "BYTES",
                     [](double bytes) {
                       return bytes >= 0 && bytes <= double(int64_t(1) << 53) &&
                              bytes == std::floor(bytes);
                     }))
      ->option_text("[=BYTES]")
      ->group(group);
}

void tools::addTrainingFlags(CLI::App &app, CompileFlags &flags) {
  flags.usesPrediction = true;
  const char *group = "Training step";
  TrainingOptions &options = flags.options.training;
  app.add_option("--micro-batches", options.microBatches,
                 "Micro-batches whose gradients are summed in one step")
      ->check(between(1, 1 << 20)) // with more, a step would never end
      ->capture_default_str()
      ->group(group);
  addChoice<OptimizerKind>(app, "--optimizer", options.optimizer,
                           {{"adamw", OptimizerKind::AdamW},
                            {"adam", OptimizerKind::Adam},
                            {"sgd", OptimizerKind::SGD}},
                           "Optimizer (default: adamw)")
      ->group(group);
  app.add_option("--lr", options.learningRate, "Learning rate")
      ->check(notNegative())
      ->capture_default_str()
      ->group(group);
  addChoice<ScheduleKind>(
      app, "--schedule", options.schedule,
      {{"constant", ScheduleKind::Constant}, {"cosine", ScheduleKind::Cosine}},
      "Learning rate after the warm-up (default: constant)")
      ->group(group);
  app.add_option("--warmup", options.warmupSteps,
                 "Steps in which the learning rate rises linearly")
      ->check(notNegative())
      ->capture_default_str()
      ->group(group);
  app.add_option("--final-ratio", options.finalRatio,
                 "Learning rate at the cosine's end, relative to --lr")
      ->check(between(0.0, 1.0))
      ->capture_default_str()
      ->group(group);
  app.add_option("--weight-decay", options.weightDecay,
                 "Decoupled weight decay, not of biases and norms")
      ->check(notNegative())
      ->capture_default_str()
      ->group(group);
  app.add_option_function<std::vector<double>>(
         "--betas",
         [&options](const std::vector<double> &betas) {
           options.beta1 = betas[0];
           options.beta2 = betas[1];
         },
         "AdamW's decay rates, two numbers below 1 (0.9,0.999)")
      ->expected(2)
      ->delimiter(',')
      ->check(between(0.0, 0.9999999))
      ->group(group);
  app.add_option("--epsilon", options.epsilon, "AdamW's epsilon")
      ->check(positive())
      ->capture_default_str()
      ->group(group);
  app.add_option("--momentum", options.momentum, "SGD's momentum")
      ->check(between(0.0, 1.0))
      ->capture_default_str()
      ->group(group);
  app.add_option("--clip", options.clip,
                 "Largest global norm of the gradient (0: no clipping)")
      ->check(notNegative())
      ->capture_default_str()
      ->group(group);
  app.add_flag_callback(
         "--no-dropout", [&options] { options.dropout = false; },
         "Train without dropout")
      ->group(group);
  flags.trainingOptions = app.get_options(
      [&](const CLI::Option *option) { return option->get_group() == group; });
}

std::vector<CLI::Option *> tools::compilerOptions(CLI::App &app) {
  return app.get_options([&app](const CLI::Option *option) {
    return option != app.get_help_ptr() && !option->get_positional();
  });
}

bool tools::checkNotCompiled(const std::vector<CLI::Option *> &options,
                             const std::string &path) {
  for (const CLI::Option *option : options)
    if (option->count() > 0) {
      reportError("'" + path + "' is compiled already, which decided " +
                  option->get_name() + ": give it to heddle compile");
      return false;
    }
  return true;
}

std::optional<StartCollectivesPassOptions>
tools::parseStartOrder(StringRef text) {
  StartCollectivesPassOptions options;
  if (text.consume_front("random:")) {
    options.order = StartOrder::Random;
    if (text.getAsInteger(10, options.seed))
      return std::nullopt;
  } else if (text == "latest") {
    options.order = StartOrder::Latest;
  } else if (text != "earliest") {
    return std::nullopt;
  }
  return options;
}

/// Adds a flag that can be absent, true or, by `=false`, false.
static void addFlag(CLI::App &app, const std::string &name,
                    std::optional<bool> &flag, const std::string &help) {
  app.add_flag_function(
      name, [&flag](int64_t value) { flag = value > 0; }, help);
}

void tools::addProgramFlags(CLI::App &app, CompileFlags &flags) {
  flags.trainingOptions.push_back(
      app.add_flag("--bf16", flags.options.training.bf16,
                   "Compute in bf16 with f32 master weights"));
  std::map<std::string, std::optional<Overlap>> schedules;
  for (const NamedSchedule &schedule : getNamedSchedules())
    schedules[schedule.name.str()] = schedule.overlap;
  addChoice<std::optional<Overlap>>(
      app, "--overlap", flags.options.overlap, schedules,
      "The schedule, which says what runs beside communication (docs/plan.md; "
      "default: as the plan says, or none)");
  std::map<std::string, std::optional<RecomputeMode>> modes;
  for (const auto &[mode, name] : kRecomputeModes)
    modes[name.str()] = mode;
  addChoice<std::optional<RecomputeMode>>(
      app, "--recompute", flags.options.recompute, modes,
      "What the backward pass computes again instead of keeping it in memory: "
      "layers, or as much as needs no communication (default: as the plan or "
      "--overlap says, or none)");
  app.add_option("--exchange-chunks", flags.options.exchangeChunks,
                 "Row chunks of products beside a gather or scatter along the "
                 "sequence (default: as the plan says, or 1, or what --overlap "
                 "auto finds)")
      ->check(CLI::Range(int64_t(1), kMaxExchangeChunks));
  addFlag(app, "--exchange-ring", flags.options.exchangeRing,
          "Products beside an exchange of their rows in steps of a ring: "
          "a member's rows are multiplied while the next member's are on "
          "their way; =false forbids it (default: as the plan says, or "
          "what --overlap auto finds)");
  addFlag(app, "--scatter-sums", flags.options.scatterSums,
          "Scatter sums over devices, compute on parts what follows them "
          "cheaply, and gather it, where that gains; =false forbids it "
          "(default: as the plan says, or what --overlap auto finds)");
  app.add_option("--profile", flags.profile,
                 "Take the times of calls from what heddle profile measured, "
                 "where --overlap auto weighs them")
      ->check(notEmpty("a profile"))
      ->needs("--cluster");
  app.add_flag(
         "--start-collectives{earliest}", flags.startCollectives,
         "For tests of schedules: start every collective early and wait "
         "for it late (earliest), do both late (latest), or both anywhere "
         "(random:SEED)")
      ->check(CLI::Validator(
          [](std::string &text) {
            return parseStartOrder(text)
                       ? std::string()
                       : "expected earliest, latest or random:SEED, got '" +
                             text + "'";
          },
          "ORDER"))
      ->option_text("[=ORDER]")
      ->excludes("--overlap");
}

void tools::addVerificationFlag(CLI::App &app, CompileFlags &flags) {
  app.add_flag_callback(
      "--verify-each-pass",
      [&flags] { flags.options.verification = Verification::EachPass; },
      "Verify the program after each pass, to find a pass that makes it "
      "invalid (also by the environment: HEDDLE_VERIFY_EACH_PASS=1)");
  if (const char *each = std::getenv("HEDDLE_VERIFY_EACH_PASS");
      each && llvm::StringRef(each) == "1")
    flags.options.verification = Verification::EachPass;
}

void tools::addOutputFlags(CLI::App &app, CompileFlags &flags) {
  addProgramFlags(app, flags);
  addVerificationFlag(app, flags);
  app.add_option("--target-cpu", flags.options.targetCpu,
                 "CPU to compile for: native, a name of LLVM's (x86-64-v3), or "
                 "name,+feature,-feature")
      ->capture_default_str();
  app.add_flag("!--quick-kernels", flags.options.optimizesKernels,
               "Compile the kernels for a CPU without optimizing them: a small "
               "model compiles in a third of the time, and its steps take "
               "longer. For tests and short trials (also by the environment: "
               "HEDDLE_OPTIMIZE_KERNELS=0)");
  // Not CLI11's environment name of the flag: the flag would then count as
  // given for commands that take a compiled artifact.
  const char *optimizes = std::getenv("HEDDLE_OPTIMIZE_KERNELS");
  if (optimizes && llvm::StringRef(optimizes) == "0")
    flags.options.optimizesKernels = false;
  app.add_option("--target-gpu", flags.options.targetGpu,
                 "NVIDIA GPU to compile for, instead of a CPU: sm_80 (which "
                 "newer GPUs also run) to sm_90a")
      ->check(notEmpty("a GPU such as sm_80"));
  app.add_option("--gpu-rows", flags.options.gpuRows,
                 "Threads of a GPU that share a row, for tests: thread, warp "
                 "or block (default: by the row's length)")
      ->check(oneOf({"auto", "thread", "warp", "block"}));
  app.add_option("--gpu-attention", flags.options.gpuAttention,
                 "Who computes attention on a GPU: cudnn, kernel (plain "
                 "kernels of the runtime), or auto, which is cuDNN where it is "
                 "installed and serves the attention (default: auto)")
      ->check(oneOf({"auto", "cudnn", "kernel"}));
  app.add_flag("--explain-shardings", flags.options.explainShardings,
               "Say of each value how it is split, which op that comes from, "
               "and where two ops want it differently");
  std::vector<std::string> phases = {"import"};
  for (StringRef phase : getPhaseNames())
    phases.push_back(phase.str());
  app.add_option("--stop-after", flags.stopAfter,
                 "Print the program after this phase and stop")
      ->check(oneOf(phases));
}
