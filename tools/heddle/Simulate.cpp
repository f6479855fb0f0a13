//===- Simulate.cpp - heddle simulate -------------------------------------===//

#include "../common/Run.h"
#include "Commands.h"
#include "Model.h"

#include "heddle/Lower/Passes.h"
#include "heddle/Simulate/Report.h"
#include "heddle_rt/atomic_file.h"

#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::tools;

namespace {
struct SimulateFlags : CompileFlags {
  std::string entry, trace;
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
                       ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  writeChromeTrace(stream, simulation, module);
  runtime::Status status =
      runtime::writeFileAtomically(flags.trace, stream.str());
  if (!status.ok())
    reportError(status.message());
  return status.ok();
}

static int simulateModel(SimulateFlags &flags) {
  if (!resolvePlan(flags))
    return exitFailure;
  llvm::Expected<const Cluster &> cluster = flags.options.cluster.load();
  if (!cluster)
    return reportError(llvm::toString(cluster.takeError()));
  Compiler compiler;
  FailureOr<OwningOpRef<ModuleOp>> module = loadModel(compiler, flags.model);
  if (failed(module))
    return exitFailure;
  if (!isModel(**module) && !checkNoTrainingOptions(flags))
    return exitUsage;
  if (failed(makePrograms(**module, flags)))
    return exitFailure;
  llvm::Expected<std::vector<CallList>> lists = getEntry(**module, flags.entry);
  if (!lists)
    return reportError("--entry: " + llvm::toString(lists.takeError()));
  RooflineCostModel model(**module, *cluster);
  FailureOr<Simulation> simulation =
      simulate(**module, *lists, *cluster, model, flags.simulation);
  if (failed(simulation))
    return exitFailure;
  if (!flags.trace.empty() && !writeTrace(flags, *simulation, **module))
    return exitFailure;
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
  command->add_flag("--json", flags->json,
                    "Print one JSON object, with all collectives");
  command->callback([flags, &result] { result = simulateModel(*flags); });
}
