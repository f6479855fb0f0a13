//===- Profile.cpp - heddle profile ---------------------------------------===//

#include "../common/CheckOutput.h"
#include "Commands.h"
#include "artifact/ProfileRuns.h"
#include "artifact/TemporaryFolder.h"
#include "model/Model.h"

#include "heddle/Plan/Plan.h"
#include "heddle/Profile/Measure.h"
#include "heddle/Simulate/MeshAxes.h"
#include "heddle/Simulate/Simulate.h"
#include "heddle_rt/atomic_file.h"

#include "llvm/TargetParser/Host.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::tools;

namespace fs = std::filesystem;

namespace {
struct ProfileFlags : CompileFlags {
  std::string entry, output;
  RunsOptions runs;
  int cores = 0;
  MeasureOptions measure;
  bool noBeside = false;
  bool hasLinks = false; ///< the links of the cluster are this machine's
};

/// Measuring programs that are compiled once and run twice, with other work in
/// between. So a disturbance of the machine that lasts for one of these times
/// leaves the runs of the other.
class Measuring {
public:
  Measuring(const ProfileFlags &flags, OwningOpRef<ModuleOp> module,
            const fs::path &artifact)
      : flags(flags), module(std::move(module)), artifact(artifact) {}

  ModuleOp getModule() const { return *module; }

  llvm::Error compile() {
    OwningOpRef<ModuleOp> copy = module->clone();
    // The programs have their plan already.
    CompileOptions options;
    options.targetCpu = flags.options.targetCpu;
    if (failed(compileToArtifact(*copy, options, artifact.string())))
      return llvm::createStringError(
          "cannot compile the programs that measure");
    return llvm::Error::success();
  }

  /// Makes the first or second half of the runs.
  llvm::Error run(bool isSecond) {
    RunsOptions half = flags.runs;
    half.runs = (half.runs + (isSecond ? 0 : 1)) / 2;
    half.seconds /= 2;
    half.least = 2;
    if (half.runs == 0)
      return llvm::Error::success();
    fs::path file = artifact;
    file.replace_extension(".json");
    auto known = runTables(artifact, file, half);
    if (!known.ok())
      return llvm::createStringError(std::string(known.message()));
    cores = *known;
    llvm::Expected<RunTrace> later = loadRunTrace(file.string());
    if (!later)
      return later.takeError();
    return trace.append(*later);
  }

  /// Returns the trace of the runs so far that nothing has disturbed.
  RunTrace getTrace() const {
    RunTrace quiet = trace;
    dropDisturbedRuns(quiet);
    return quiet;
  }
  int64_t getCores() const { return cores; }

private:
  const ProfileFlags &flags;
  OwningOpRef<ModuleOp> module;
  const fs::path artifact;
  RunTrace trace;
  int64_t cores = 1;
};
} // namespace

/// Returns the names of the programs that an entry point calls.
static llvm::Expected<std::vector<std::string>> getPrograms(ModuleOp module,
                                                            StringRef entry) {
  llvm::Expected<std::vector<CallList>> lists = getEntry(module, entry);
  if (!lists)
    return lists.takeError();
  std::vector<std::string> names;
  for (const CallList &list : *lists)
    for (ProgramCall call : list.calls)
      if (call.program && !llvm::is_contained(names, call.program.getSymName()))
        names.push_back(call.program.getSymName().str());
  return names;
}

/// Returns the module's mesh on the cluster of the options; without one, on
/// equal devices.
static llvm::Expected<MeshTopology> getTopology(ModuleOp module,
                                                const ProfileFlags &flags) {
  if (!flags.options.cluster.isNone()) {
    llvm::Expected<const Cluster &> cluster = flags.options.cluster.load();
    if (!cluster)
      return cluster.takeError();
    return makeTopology(module, *cluster);
  }
  int64_t devices = 1;
  for (auto op : module.getOps<MeshOp>())
    devices = op.getMesh().getNumDevices();
  return makeTopology(module, makeUniformCluster(devices));
}

/// Measures the programs of a module of phase `executable`.
static llvm::Expected<MachineProfile> measurePrograms(ModuleOp module,
                                                      const ProfileFlags &flags,
                                                      const fs::path &folder) {
  auto names = getPrograms(module, flags.entry);
  if (!names)
    return names.takeError();
  auto topology = getTopology(module, flags);
  if (!topology)
    return topology.takeError();
  MachineProfile profile;
  profile.kind = llvm::sys::getHostCPUName().str();
  profile.ranks = topology->getNumDevices();
  Measuring alone(flags, module.clone(), folder / "alone.heddle");
  if (llvm::Error error =
          makeAloneProgram(alone.getModule(), *names, flags.measure))
    return std::move(error);
  auto runAlone = [&](bool isSecond) -> llvm::Error {
    llvm::errs() << "alone: one call after another\n";
    if (llvm::Error error = alone.run(isSecond))
      return error;
    profile.cores = alone.getCores();
    addAloneTimes(profile, alone.getModule(), alone.getTrace(), *topology,
                  flags.hasLinks);
    return llvm::Error::success();
  };
  if (llvm::Error error = alone.compile())
    return std::move(error);
  if (llvm::Error error = runAlone(false))
    return std::move(error);

  Measuring beside(flags, module.clone(), folder / "beside.heddle");
  bool communicates = false;
  if (!flags.noBeside) {
    // Its messages are as many as the times so far need.
    llvm::Expected<bool> made =
        makeBesideProgram(beside.getModule(), *names, profile);
    if (!made)
      return made.takeError();
    communicates = *made;
  }
  auto runBeside = [&](bool isSecond) -> llvm::Error {
    llvm::errs() << "beside communication\n";
    return beside.run(isSecond);
  };
  if (communicates) {
    if (llvm::Error error = beside.compile())
      return std::move(error);
    if (llvm::Error error = runBeside(false))
      return std::move(error);
  }
  if (llvm::Error error = runAlone(true))
    return std::move(error);
  if (communicates) {
    if (llvm::Error error = runBeside(true))
      return std::move(error);
    addBesideTimes(profile, beside.getModule(), beside.getTrace());
  }
  return profile;
}

/// Returns the number of stages that the options ask for; 1 or less: there is
/// no pipeline.
static int64_t getNumStages(const CompileOptions &options) {
  if (options.planText.empty())
    return options.mesh.pipeline;
  // The text has been checked before.
  return llvm::cantFail(parsePlan(options.planText, options.planPath))
      .numStages;
}

static int profileModel(ProfileFlags &flags) {
  flags.runsHere = true;
  if (std::string problem = checkOutput("-o", flags.output); !problem.empty())
    return reportError(problem);
  if (int code = resolvePlan(flags); code != exitSuccess)
    return code;
  if (int64_t stages = getNumStages(flags.options); stages > 1)
    return reportError(
        "expected programs that all ranks run, got a pipeline of " +
        std::to_string(stages) +
        " stages: profile the model by a plan without pp, and "
        "simulate the pipeline with that profile");
  Profile profile;
  std::error_code failure;
  if (fs::exists(flags.output, failure)) {
    llvm::Expected<Profile> known = loadProfile(flags.output);
    if (!known)
      return reportError("-o " + flags.output +
                         " exists, and is extended only if it is a profile: " +
                         llvm::toString(known.takeError()));
    profile = std::move(*known);
  }
  Compiler compiler;
  FailureOr<OwningOpRef<ModuleOp>> module = loadModel(compiler, flags.model);
  if (failed(module))
    return exitFailure;
  if (!isModel(**module) && !checkNoTrainingOptions(flags))
    return exitUsage;
  if (failed(runPhases(**module, flags.options, Phase::Executable)))
    return exitFailure;
  TemporaryFolder folder;
  if (folder.path().empty())
    return reportError(cannotMakeTemporary);
  flags.runs.session.coresPerDevice = flags.cores;
  llvm::Expected<MachineProfile> measured =
      measurePrograms(**module, flags, folder.path());
  if (!measured)
    return reportError(llvm::toString(measured.takeError()));
  size_t operators = measured->operators.size(), messages = 0;
  for (const auto &[key, times] : measured->collectives)
    messages += times.size();
  profile.add(std::move(*measured));
  runtime::Status status =
      runtime::writeFileAtomically(flags.output, writeProfile(profile));
  if (!status.ok())
    return reportError(std::string(status.message()));
  llvm::outs() << "wrote " << operators << " calls and " << messages
               << " messages to " << flags.output << "\n";
  llvm::outs().flush();
  return exitSuccess;
}

void tools::addProfileCommand(CLI::App &app, int &result) {
  CLI::App *command = app.add_subcommand(
      "profile", "Measure the calls of a program on this machine, for heddle "
                 "simulate --profile");
  auto flags = std::make_shared<ProfileFlags>();
  addModelFlags(*command, flags->model);
  addPlanFlags(*command, *flags);
  addTrainingFlags(*command, *flags);
  addProgramFlags(*command, *flags);
  addVerificationFlag(*command, *flags);
  command
      ->add_flag("--links", flags->hasLinks,
                 "The links of --cluster are this machine's: wherever a "
                 "cluster has the same links, collectives are simulated by "
                 "what is measured (default: the measured times are the least "
                 "that collectives take)")
      ->needs("--cluster");
  command
      ->add_option("--entry", flags->entry,
                   "What to measure: step, evaluate, or the name of a program "
                   "(default: step, or the only program)")
      ->check(notEmpty("a program's name"));
  command
      ->add_option("--runs", flags->runs.runs,
                   "Runs of each program that measures")
      ->check(between(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--cores", flags->cores,
                   "Cores of each device (default: all cores, shared equally)")
      ->check(between(0, 4096));
  command->add_flag("--no-beside", flags->noBeside,
                    "Do not measure how communication slows down computation");
  command
      ->add_option("-o,--output", flags->output,
                   "Profile (JSON) to write; one that exists is extended")
      ->required()
      ->check(notEmpty("a file"));
  command->callback([flags, &result] { result = profileModel(*flags); });
}
