//===- ResolvePlan.cpp - The plan that flags ask for ----------------------===//

#include "PlanModel.h"
#include "model/Model.h"

#include "../../common/Run.h"

#include "heddle/Plan/Plan.h"
#include "heddle/Profile/ProfiledCostModel.h"
#include "heddle/Simulate/MeshAxes.h"

#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::tools;

/// Returns false, with an error, if this machine will run the program but
/// cannot run so many devices. Called before the slow compilation.
static bool canRun(const CompileFlags &flags, int64_t devices) {
  if (!flags.runsHere || !flags.stopAfter.empty())
    return true;
  runtime::Status status = runtime::checkDevices(devices);
  if (!status.ok())
    reportError(status.message());
  return status.ok();
}

void tools::printCoverage(llvm::raw_ostream &out, size_t measured, size_t calls,
                          const std::string &profile) {
  out << "times of " << measured << " of " << calls
      << " different calls are from '" << profile << "'";
  if (measured < calls)
    out << ", others by its roofline";
  out << "\n";
  if (2 * measured < calls)
    llvm::errs() << "heddle: warning: --profile: " << profile
                 << ": most calls were not measured; measure those of this "
                    "program: heddle profile with this MODEL and its --plan "
                    "or --mesh, --batch, --seq and --overlap, -o "
                 << profile << "\n";
}

/// Returns the model of measured times, or null if the mesh does not fit on the
/// cluster.
static std::unique_ptr<CostModel>
makeCostModel(ModuleOp module, const Cluster &cluster,
              const MachineProfile &times,
              std::shared_ptr<CallCoverage> coverage) {
  llvm::Expected<MeshTopology> topology = makeTopology(module, cluster);
  if (!topology) {
    llvm::consumeError(topology.takeError());
    return nullptr;
  }
  return std::make_unique<ProfiledCostModel>(module, std::move(*topology),
                                             times, std::move(coverage));
}

/// Applies the profile of --profile, if it is given, to the options. The
/// cluster gets the rates of the profile only with `--overlap auto`: without
/// the scheduler, a program must not depend on the profile. Prints errors.
static bool useProfile(CompileFlags &flags) {
  if (flags.profile.empty())
    return true;
  llvm::Expected<Profile> profile = loadProfile(flags.profile);
  if (!profile) {
    reportError("--profile: " + llvm::toString(profile.takeError()));
    return false;
  }
  llvm::Expected<const Cluster &> cluster = flags.options.cluster.load();
  if (!cluster) {
    reportError(llvm::toString(cluster.takeError()));
    return false;
  }
  if (!cluster->groups.empty()) {
    reportError("--profile: " + flags.profile +
                ": expected a cluster of one kind of device, of which a "
                "profile is, got '" +
                cluster->name + "'");
    return false;
  }
  const MachineProfile *machine = profile->find(cluster->getNumDevices());
  if (!machine) {
    reportError("--profile: " + flags.profile +
                ": expected measurements, got none");
    return false;
  }
  if (std::string host = llvm::sys::getHostCPUName().str();
      machine->kind != host && machine->kind != cluster->device.kind)
    llvm::errs() << "heddle: warning: --profile: " << flags.profile
                 << ": the times are those of a '" << machine->kind
                 << "', and this machine is a '" << host
                 << "': measure this one with heddle profile, or name that "
                    "processor as device.kind of the --cluster\n";
  flags.coverage = std::make_shared<CallCoverage>();
  flags.options.makeCostModel =
      [times = std::make_shared<const MachineProfile>(*machine),
       cluster = *cluster, coverage = flags.coverage](ModuleOp module) {
        return makeCostModel(module, cluster, *times, coverage);
      };
  if (flags.options.overlap == Overlap::Auto)
    flags.options.cluster = ClusterChoice(applyProfile(*cluster, *machine));
  return true;
}

/// Completes the flags from the plan's prediction: the properties of the step
/// that the flags do not state. Says what it takes.
static void usePrediction(CompileFlags &flags, const Plan &plan) {
  if (!flags.usesPrediction || !plan.prediction)
    return;
  const PlanPrediction &prediction = *plan.prediction;
  TrainingOptions &training = flags.options.training;
  ModelFlags &model = flags.model;
  std::string taken;
  auto take = [&](const char *option, const std::string &value) {
    taken += std::string(" --") + option + (value.empty() ? "" : " ") + value;
  };
  int64_t microBatches = prediction.microBatches;
  if (!isStated(flags, "--micro-batches") &&
      training.microBatches != microBatches) {
    training.microBatches = microBatches;
    take("micro-batches", std::to_string(microBatches));
  }
  // An .mlir file has its batch and sequence.
  bool hasShape = flags.hasShapeOfData || isModuleFile(model.path);
  if (!hasShape && !model.batch) {
    model.batch = std::max<int64_t>(1, prediction.rows / training.microBatches);
    take("batch", std::to_string(*model.batch));
  }
  if (!hasShape && !model.sequence && prediction.sequence > 0) {
    model.sequence = prediction.sequence;
    model.sequenceOrigin =
        "(of the prediction of the plan '" + flags.plan +
        "', which may be of another model: give --seq, or plan again)";
    take("seq", std::to_string(*model.sequence));
  }
  if (!isStated(flags, "--bf16") && training.bf16 != prediction.bf16) {
    training.bf16 = prediction.bf16;
    take("bf16", "");
  }
  constexpr std::pair<StringLiteral, OptimizerKind> kOptimizers[] = {
      {"adamw", OptimizerKind::AdamW},
      {"adam", OptimizerKind::Adam},
      {"sgd", OptimizerKind::SGD}};
  for (const auto &[name, optimizer] : kOptimizers)
    if (!isStated(flags, "--optimizer") && name == prediction.optimizer &&
        training.optimizer != optimizer) {
      training.optimizer = optimizer;
      take("optimizer", name.str());
    }
  if (!taken.empty())
    llvm::errs() << "heddle: by the prediction of the plan '" << flags.plan
                 << "':" << taken << "\n";
}

/// Returns exitUsage, with an error, if --mesh or --devices asks for more
/// devices than the cluster has, which is loaded.
static int checkClusterHas(const CompileFlags &flags, int64_t devices) {
  const CompileOptions &options = flags.options;
  if (options.cluster.isNone())
    return exitSuccess;
  const Cluster &cluster = llvm::cantFail(options.cluster.load());
  if (devices <= cluster.getNumDevices())
    return exitSuccess;
  return reportUsage(options.mesh.option + ": expected a mesh of at most " +
                     std::to_string(cluster.getNumDevices()) +
                     " devices, which the cluster '" + cluster.name +
                     "' has, got " + std::to_string(devices));
}

/// Restricts the chosen cluster, if any, to the devices of the mesh or plan.
static void keepUsedDevices(CompileOptions &options, int64_t devices) {
  if (!options.cluster.isNone())
    options.cluster.keepFirst(devices);
}

/// Reads the flags of readPlanFlags() for the first time.
static int readPlan(CompileFlags &flags) {
  if (int code = checkModelFlags(flags.model); code != exitSuccess)
    return code;
  CompileOptions &options = flags.options;
  options.training.seed = flags.model.seed;
  options.devices = flags.devices;
  if (!flags.remarks.empty())
    options.remarkBytes = static_cast<int64_t>(std::stod(flags.remarks));
  if (!flags.startCollectives.empty())
    options.startCollectives = parseStartOrder(flags.startCollectives);
  if (!options.cluster.isNone())
    if (llvm::Error problem = options.cluster.load().takeError()) {
      reportError(llvm::toString(std::move(problem)));
      return exitFailure;
    }
  if (!useProfile(flags))
    return exitFailure;
  if (flags.plan == autoPlan)
    return exitSuccess;
  if (!flags.plan.empty()) {
    auto text = llvm::MemoryBuffer::getFile(flags.plan);
    if (!text) {
      reportError("plan '" + flags.plan + "': " + text.getError().message());
      return exitFailure;
    }
    options.planText = (*text)->getBuffer().str();
    options.planPath = flags.plan;
    // Report errors in the plan's text before the model is loaded.
    llvm::Expected<Plan> plan = parsePlan(options.planText, flags.plan);
    if (!plan) {
      reportError(llvm::toString(plan.takeError()));
      return exitFailure;
    }
    usePrediction(flags, *plan);
    keepUsedDevices(options, plan->getNumDevices());
    return canRun(flags, plan->getNumDevices()) ? exitSuccess : exitFailure;
  }
  if (!flags.mesh.empty()) {
    llvm::Expected<DefaultMesh> mesh = parseDefaultMesh(flags.mesh);
    if (!mesh)
      return reportUsage("--mesh: " + llvm::toString(mesh.takeError()));
    if (flags.context)
      mesh->attention = *flags.context;
    mesh->sequence = options.mesh.sequence;
    mesh->schedule = options.mesh.schedule;
    mesh->chunks = options.mesh.chunks;
    mesh->barrier = options.mesh.barrier;
    mesh->option = "--mesh";
    options.mesh = *mesh;
    int64_t devices = mesh->getNumDevices();
    if (devices <= kMaxPlanDevices && flags.devices != 0 &&
        flags.devices != devices)
      return reportUsage(
          "--mesh " + flags.mesh + " has " + std::to_string(devices) +
          " devices, but --devices is " + std::to_string(flags.devices));
  } else if (flags.devices != 0) {
    options.mesh.data = {flags.devices};
    options.mesh.option = "--devices";
  }
  if (options.mesh.getNumDevices() > kMaxPlanDevices)
    return reportUsage("expected at most " + std::to_string(kMaxPlanDevices) +
                       " devices, got " +
                       (flags.mesh.empty()
                            ? "--devices " + std::to_string(flags.devices)
                            : "--mesh " + flags.mesh));
  if (options.mesh.sequence && options.mesh.tensor == std::vector<int64_t>{1})
    return reportUsage(
        "--sequence splits over the tensor parallel devices: expected "
        "--mesh with tp=N of at least 2, got --mesh " +
        flags.mesh);
  if (flags.context && !options.mesh.statesContext)
    return reportUsage(
        "--context says how attention sees a sequence that is split "
        "over cp: expected --mesh with cp=N, got --mesh " +
        flags.mesh);
  bool statesSchedule =
      llvm::any_of(flags.pipelineOptions, [](const CLI::Option *option) {
        return option->count() > 0;
      });
  if (statesSchedule && options.mesh.pipeline == 1)
    return reportUsage(
        "--pipeline, --chunks and --pipeline-barrier are about stages "
        "over pp: expected --mesh with pp=N of at least 2, got --mesh " +
        flags.mesh);
  // dp=1 in the mesh states that one data parallel device is wanted. A mesh
  // without dp does not: dp may have been forgotten.
  bool dataParallel =
      flags.mesh.empty() ? flags.devices != 0 : options.mesh.statesData;
  if (options.zeroLevel > 0 && !dataParallel)
    return reportUsage(
        "--zero " + std::to_string(options.zeroLevel) +
        " shards over the data parallel devices: expected --mesh with "
        "dp=N, or --devices N, got " +
        (flags.mesh.empty() ? "one device" : "--mesh " + flags.mesh));
  int64_t devices = options.mesh.getNumDevices();
  if (int code = checkClusterHas(flags, devices); code != exitSuccess)
    return code;
  keepUsedDevices(options, devices);
  return canRun(flags, devices) ? exitSuccess : exitFailure;
}

int tools::resolvePlan(CompileFlags &flags) {
  if (int code = readPlanFlags(flags);
      code != exitSuccess || flags.plan != autoPlan)
    return code;
  if (int code = planAutomatically(flags); code != exitSuccess)
    return code;
  llvm::Expected<Plan> plan =
      parsePlan(flags.options.planText, flags.options.planPath);
  if (!plan) {
    reportError(llvm::toString(plan.takeError()));
    return exitFailure;
  }
  keepUsedDevices(flags.options, plan->getNumDevices());
  return canRun(flags, plan->getNumDevices()) ? exitSuccess : exitFailure;
}

int tools::readPlanFlags(CompileFlags &flags) {
  if (flags.planIsRead)
    return exitSuccess;
  int code = readPlan(flags);
  flags.planIsRead = code == exitSuccess;
  return code;
}

/// Sets the rows of a micro-batch to those with which a step of the plan's
/// micro-batches has the rows that `--plan auto` was asked for, or those of the
/// prediction.
static bool setRows(CompileFlags &flags, const PlanPrediction &prediction,
                    const std::string &path) {
  std::optional<int64_t> &batch = flags.model.batch;
  int64_t microBatches = flags.options.training.microBatches;
  if (batch && isStated(flags, "--micro-batches"))
    return true; // of a micro-batch
  int64_t rows = batch.value_or(prediction.rows);
  if (rows % microBatches != 0) {
    reportError("--batch: expected rows of a step that the " +
                std::to_string(microBatches) + " micro-batches of the plan '" +
                path + "' divide, got " + std::to_string(rows));
    return false;
  }
  batch = rows / microBatches;
  return true;
}

int tools::usePlanOfRun(CompileFlags &flags, const std::filesystem::path &run,
                        bool hasFixedRows) {
  std::string path = (run / "model.heddle" / "plan.json").string();
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    if (std::filesystem::exists(run, ignored))
      llvm::errs() << "heddle: warning: --plan auto: the run that is resumed "
                      "has no plan ("
                   << path << "), so one is chosen anew\n";
    return exitSuccess;
  }
  llvm::Expected<Plan> plan = readPlanFile(path);
  if (!plan) {
    reportError(llvm::toString(plan.takeError()));
    return exitFailure;
  }
  llvm::errs() << "heddle: plan: that of the run, " << path
               << " (another one: --plan FILE, from heddle plan)\n";
  flags.plan = path;
  // What the plan states already would invalidate its prediction.
  CompileOptions &options = flags.options;
  if (options.overlap == plan->overlap)
    options.overlap.reset();
  if (options.recompute == plan->recompute)
    options.recompute.reset();
  if (options.subBatches == plan->subBatches)
    options.subBatches = 0;
  if (!plan->prediction)
    return exitSuccess;
  if (!isStated(flags, "--micro-batches"))
    options.training.microBatches = plan->prediction->microBatches;
  if (hasFixedRows)
    flags.model.batch.reset(); // the file has its batch
  else if (!setRows(flags, *plan->prediction, path))
    return exitUsage;
  return exitSuccess;
}
