//===- Profile.cpp - heddle profile ---------------------------------------===//

#include "../common/CheckOutput.h"
#include "Commands.h"
#include "artifact/ProfileRuns.h"
#include "artifact/TemporaryFolder.h"
#include "model/Model.h"

#include "heddle/Profile/Measure.h"
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

/// The tools that both ways of measuring need, and a folder for them.
struct Measuring {
  const ProfileFlags &flags;
  const fs::path folder;
};
} // namespace

/// Compiles the programs of a module, runs them, and reads the trace. Sets
/// `cores` to the cores of a device.
static llvm::Expected<RunTrace>
runPrograms(ModuleOp module, const Measuring &measuring, int64_t &cores) {
  OwningOpRef<ModuleOp> copy = module.clone();
  // The programs have their plan already.
  CompileOptions options;
  options.targetCpu = measuring.flags.options.targetCpu;
  fs::path artifact = measuring.folder / "measure.heddle",
           file = measuring.folder / "trace.json";
  if (failed(compileToArtifact(*copy, options, artifact.string())))
    return llvm::createStringError("cannot compile the programs that measure");
  auto known = runTables(artifact, file, measuring.flags.runs);
  if (!known.ok())
    return llvm::createStringError(std::string(known.message()));
  cores = *known;
  return loadRunTrace(file.string());
}

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

/// Returns the module's mesh on the cluster.
static llvm::Expected<MeshTopology> getTopology(ModuleOp module,
                                                const Cluster &cluster) {
  SmallVector<int64_t> sizes;
  for (auto op : module.getOps<MeshOp>())
    for (MeshAxisAttr axis : op.getMesh().getAxes())
      sizes.push_back(axis.getSize());
  return MeshTopology::create(cluster, sizes);
}

/// Measures the programs of a module of phase `executable`.
static llvm::Expected<MachineProfile>
measurePrograms(ModuleOp module, const Measuring &measuring) {
  const ProfileFlags &flags = measuring.flags;
  auto names = getPrograms(module, flags.entry);
  if (!names)
    return names.takeError();
  int64_t devices = 1;
  for (auto op : module.getOps<MeshOp>())
    devices = op.getMesh().getNumDevices();
  Cluster cluster = makeUniformCluster(devices);
  if (!flags.options.cluster.isNone()) {
    llvm::Expected<const Cluster &> chosen = flags.options.cluster.load();
    if (!chosen)
      return chosen.takeError();
    cluster = *chosen;
  }
  llvm::Expected<MeshTopology> topology = getTopology(module, cluster);
  if (!topology)
    return topology.takeError();

  MachineProfile profile;
  profile.kind = llvm::sys::getHostCPUName().str();
  profile.ranks = devices;
  llvm::errs() << "alone: one call after another\n";
  OwningOpRef<ModuleOp> alone = module.clone();
  if (llvm::Error error = makeAloneProgram(*alone, *names, flags.measure))
    return std::move(error);
  llvm::Expected<RunTrace> trace =
      runPrograms(*alone, measuring, profile.cores);
  if (!trace)
    return trace.takeError();
  addAloneTimes(profile, *alone, *trace, *topology, flags.hasLinks);
  if (flags.noBeside)
    return profile;

  OwningOpRef<ModuleOp> beside = module.clone();
  llvm::Expected<bool> communicates =
      makeBesideProgram(*beside, *names, profile);
  if (!communicates)
    return communicates.takeError();
  if (!*communicates)
    return profile;
  llvm::errs() << "beside communication\n";
  trace = runPrograms(*beside, measuring, profile.cores);
  if (!trace)
    return trace.takeError();
  addBesideTimes(profile, *beside, *trace);
  return profile;
}

static int profileModel(ProfileFlags &flags) {
  flags.runsHere = true;
  if (std::string problem = checkOutput("-o", flags.output); !problem.empty())
    return reportError(problem);
  if (int code = resolvePlan(flags); code != exitSuccess)
    return code;
  Profile profile;
  std::error_code failure;
  if (fs::exists(flags.output, failure)) {
    llvm::Expected<Profile> known = loadProfile(flags.output);
    if (!known)
      return reportError(llvm::toString(known.takeError()));
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
  Measuring measuring{flags, folder.path()};
  llvm::Expected<MachineProfile> measured =
      measurePrograms(**module, measuring);
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
