//===- Simulate.cpp - heddle simulate -------------------------------------===//

#include "../common/CheckOutput.h"
#include "../common/Run.h"
#include "Commands.h"
#include "model/Model.h"

#include "heddle/Lower/Passes.h"
#include "heddle/Profile/ProfiledCostModel.h"
#include "heddle/Simulate/Compare.h"
#include "heddle/Simulate/MeshAxes.h"
#include "heddle/Simulate/Report.h"
#include "heddle_rt/atomic_file.h"

#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::tools;

namespace {
struct SimulateFlags : CompileFlags {
  std::string entry, trace, compare;
  SimulateOptions simulation;
  bool json = false;
};
} // namespace

/// Compiles the module to rt programs. Checks them if the user wrote them.
static LogicalResult makePrograms(ModuleOp module, SimulateFlags &flags) {
  if (!module.getOps<rt::ExportOp>().empty())
    return module.emitError("expected a program up to the phase 'executable': "
                            "this one has been lowered further");
  if (failed(runPhases(module, flags.options, Phase::Executable)))
    return failure();
  PassManager passes(module.getContext());
  passes.addPass(createVerifyExecutablePass());
  return passes.run(module);
}

static bool writeTrace(const SimulateFlags &flags, const Simulation &simulation,
                       const Cluster &cluster, ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  writeChromeTrace(stream, simulation, cluster, module);
  runtime::Status status =
      runtime::writeFileAtomically(flags.trace, stream.str());
  if (!status.ok())
    reportError(status.message());
  return status.ok();
}

/// Prints the simulation beside the trace of a run.
static int compareWithRun(const SimulateFlags &flags,
                          const Simulation &simulation, ModuleOp module) {
  llvm::Expected<RunTrace> trace = loadRunTrace(flags.compare);
  if (!trace)
    return reportError("--compare: " + llvm::toString(trace.takeError()));
  if (trace->program.empty())
    llvm::errs() << "heddle: warning: --compare: " << flags.compare
                 << ": the trace has no fingerprint of its program (an older "
                    "version wrote it or its artifact): it may be of another "
                    "model, batch or sequence\n";
  llvm::Expected<Comparison> comparison = compare(simulation, module, *trace);
  if (!comparison)
    return reportError("--compare: " + flags.compare + ": " +
                       llvm::toString(comparison.takeError()));
  if (flags.json)
    writeComparisonJson(llvm::outs(), *comparison);
  else
    printComparison(llvm::outs(), *comparison);
  llvm::outs().flush();
  return exitSuccess;
}

/// Returns the model of the calls' times: the cluster's roofline, or the
/// profile that is read into `profile`. Prints an error and returns null if
/// there is no such profile.
static std::unique_ptr<CostModel> makeModel(const SimulateFlags &flags,
                                            ModuleOp module,
                                            const Cluster &cluster,
                                            Profile &profile) {
  if (flags.profile.empty())
    return std::make_unique<RooflineCostModel>(module, cluster);
  llvm::Expected<Profile> read = loadProfile(flags.profile);
  if (!read) {
    reportError("--profile: " + llvm::toString(read.takeError()));
    return nullptr;
  }
  profile = std::move(*read);
  llvm::Expected<MeshTopology> topology = makeTopology(module, cluster);
  if (!topology) {
    reportError(llvm::toString(topology.takeError()));
    return nullptr;
  }
  const MachineProfile *machine = profile.find(topology->getNumDevices());
  if (!machine) {
    reportError("--profile: " + flags.profile +
                ": expected measurements, got none");
    return nullptr;
  }
  return std::make_unique<ProfiledCostModel>(module, std::move(*topology),
                                             *machine);
}

static int simulateModel(SimulateFlags &flags) {
  if (!flags.trace.empty())
    if (std::string problem = checkOutput("--trace", flags.trace);
        !problem.empty())
      return reportError(problem);
  // A profile would change the cluster that the program is compiled for.
  llvm::Expected<Cluster> cluster =
      loadCluster(flags.options.cluster.getName());
  if (!cluster)
    return reportError(llvm::toString(cluster.takeError()));
  if (int code = resolvePlan(flags); code != exitSuccess)
    return code;
  Compiler compiler;
  FailureOr<OwningOpRef<ModuleOp>> module = loadModel(compiler, flags.model);
  if (failed(module))
    return exitFailure;
  if (!isModel(**module) && !checkNoTrainingOptions(flags))
    return exitUsage;
  if (failed(makePrograms(**module, flags)))
    return exitFailure;
  llvm::Expected<MeshTopology> topology = makeTopology(**module, *cluster);
  if (!topology)
    return reportError(llvm::toString(topology.takeError()));
  *cluster = cluster->getFirst(topology->getNumDevices());
  llvm::Expected<std::vector<CallList>> lists = getEntry(**module, flags.entry);
  if (!lists)
    return reportError("--entry: " + llvm::toString(lists.takeError()));
  Profile profile;
  std::unique_ptr<CostModel> model =
      makeModel(flags, **module, *cluster, profile);
  if (!model)
    return exitFailure;
  FailureOr<Simulation> simulation =
      simulate(**module, *lists, *cluster, *model, flags.simulation);
  if (failed(simulation))
    return exitFailure;
  if (!flags.profile.empty()) {
    auto &profiled = static_cast<ProfiledCostModel &>(*model);
    printCoverage(flags.json ? llvm::nulls() : llvm::outs(),
                  profiled.getNumMeasured(), profiled.getNumCalls(),
                  flags.profile);
  }
  if (!flags.trace.empty() &&
      !writeTrace(flags, *simulation, *cluster, **module))
    return exitFailure;
  if (!flags.compare.empty())
    return compareWithRun(flags, *simulation, **module);
  if (flags.json)
    writeSimulationJson(llvm::outs(), *simulation, *cluster);
  else
    printSimulation(llvm::outs(), *simulation, *cluster);
  llvm::outs().flush();
  return exitSuccess;
}

void tools::addSimulateCommand(CLI::App &app, int &result) {
  CLI::App *command = app.add_subcommand(
      "simulate", "Predict the time of a training step on a cluster, and what "
                  "communication it waits for");
  auto flags = std::make_shared<SimulateFlags>();
  addModelFlags(*command, flags->model);
  addPlanFlags(*command, *flags);
  addTrainingFlags(*command, *flags);
  addProgramFlags(*command, *flags);
  addVerificationFlag(*command, *flags);
  command->get_option("--cluster")
      ->required()
      ->description("The cluster to simulate: a JSON file, or one of " +
                    listPresets());
  command
      ->add_option("--entry", flags->entry,
                   "What to simulate: step, evaluate, or the name of a "
                   "program (default: step, or the only program)")
      ->check(notEmpty("a program's name"));
  command
      ->add_option("--loop-iterations", flags->simulation.loopIterations,
                   "Iterations of a loop whose number is known only at run "
                   "time")
      ->check(wholeUpTo(1 << 30))
      ->capture_default_str();
  command
      ->add_option("--trace", flags->trace,
                   "Also write a trace for Perfetto and chrome://tracing")
      ->check(notEmpty("a file"));
  command->get_option("--profile")
      ->description("Take the times of calls from what heddle profile "
                    "measured");
  command
      ->add_option("--compare", flags->compare,
                   "Print the simulated times beside those of a real run: the "
                   "file that `heddle train --trace` wrote")
      ->check(notEmpty("a trace"));
  command->add_flag("--json", flags->json,
                    "Print one JSON object, with all collectives");
  command->callback([flags, &result] { result = simulateModel(*flags); });
}
