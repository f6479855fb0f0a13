//===- PlanOperatorsTool.cpp - heddle-plan-operators ----------------------===//
//
// Prints the decisions of planOperators for a module, or the prediction of
// predictStep for a plan. Tests reach these functions only by this tool. Users
// have `heddle plan`.
//
// Usage: heddle-plan-operators MODULE (--mesh dp=2,tp=4 | --plan FILE)
//          [--cluster C] [--memory BYTES] [--work N] [--predict] [-o FILE]
//
//===----------------------------------------------------------------------===//

#include "heddle/Cost/Cluster.h"
#include "heddle/InitAll.h"
#include "heddle/Planner/Operators.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>

using namespace mlir;
using namespace heddle;
namespace cl = llvm::cl;

static cl::opt<std::string> input(cl::Positional, cl::Required);
static cl::opt<std::string> meshText("mesh"), planFile("plan"),
    clusterName("cluster"), output("o");
static cl::opt<long long> memory("memory", cl::init(-1));
static cl::opt<unsigned long long> workLimit("work", cl::init(20'000'000));
static cl::opt<bool> predictOnly("predict"), explains("explain"),
    fixesStorage("fix-storage");

static void print(const StepPrediction &step) {
  llvm::outs() << llvm::format(
      "predicted: %.3f ms = compute %.3f + exposed %.3f (communication %.3f)\n",
      1e3 * step.getSeconds(), 1e3 * step.computeSeconds,
      1e3 * step.exposedSeconds, 1e3 * step.communicationSeconds);
  llvm::outs() << llvm::format(
      "memory: parameters %lld, gradients %lld, optimizer %lld, activations "
      "%lld\n",
      (long long)step.memory.parameters, (long long)step.memory.gradients,
      (long long)step.memory.optimizerState,
      (long long)step.memory.activations);
}

static void print(const StrategyCost &cost) {
  llvm::outs() << cost.strategy
               << llvm::format(" %.3f ms %lld bytes", 1e3 * cost.seconds,
                               (long long)cost.bytes);
}

/// Reads "dp=2,tp=4" as the mesh of a plan without entries.
static llvm::Expected<Plan> readBase() {
  if (!planFile.empty())
    return readPlanFile(planFile);
  Plan plan;
  SmallVector<StringRef> parts;
  StringRef(meshText).split(parts, ',', -1, false);
  for (StringRef part : parts) {
    auto [name, size] = part.split('=');
    int64_t number = 0;
    if (size.getAsInteger(10, number) || number < 1)
      return llvm::createStringError("--mesh: expected NAME=SIZE, got '" +
                                     part.str() + "'");
    plan.mesh.push_back({name.str(), number});
  }
  return plan;
}

static int fail(llvm::Error error) {
  llvm::errs() << "error: " << llvm::toString(std::move(error)) << "\n";
  return 1;
}

int main(int argc, char **argv) {
  cl::ParseCommandLineOptions(argc, argv);
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  OwningOpRef<ModuleOp> module =
      parseSourceFile<ModuleOp>(StringRef(input), &context);
  if (!module)
    return 1;
  llvm::Expected<Plan> base = readBase();
  if (!base)
    return fail(base.takeError());
  Cluster cluster = makeUniformCluster(base->getNumDevices());
  if (!clusterName.empty()) {
    llvm::Expected<Cluster> loaded = loadCluster(clusterName);
    if (!loaded)
      return fail(loaded.takeError());
    cluster = *loaded;
  }
  std::vector<int64_t> sizes;
  for (const PlanAxis &axis : base->mesh)
    sizes.push_back(axis.size);
  llvm::Expected<MeshTopology> topology = MeshTopology::create(cluster, sizes);
  if (!topology)
    return fail(topology.takeError());
  if (predictOnly) {
    FailureOr<StepPrediction> step = predictStep(*module, *base, *topology);
    if (failed(step))
      return 1;
    print(*step);
    return 0;
  }
  OperatorsOptions options;
  options.base = *base;
  if (memory >= 0)
    options.memoryLimit = memory;
  options.workLimit = workLimit;
  options.decidesStorage = !fixesStorage;
  auto start = std::chrono::steady_clock::now();
  FailureOr<OperatorsResult> result =
      planOperators(*module, *topology, options);
  if (failed(result))
    return 1;
  double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  llvm::errs() << llvm::format("planned in %.2f s\n", seconds);
  llvm::outs() << (result->isFeasible ? "feasible" : "infeasible") << ", "
               << (result->isOptimal ? "optimal" : "not proven") << ", nodes "
               << result->numNodes << ", edges " << result->numEdges << "\n";
  llvm::outs() << llvm::format(
      "cost: %.3f ms, lower bound %.3f ms, gap %.4f, %lld bytes\n",
      1e3 * result->seconds, 1e3 * result->lowerBound, result->gap,
      (long long)result->bytes);
  print(result->prediction);
  if (explains)
    for (const OperatorChoice &choice : result->choices) {
      llvm::outs() << choice.glob << " (" << choice.count << "): ";
      print(choice.chosen);
      if (choice.runnerUp) {
        llvm::outs() << "; next ";
        print(*choice.runnerUp);
      }
      llvm::outs() << "\n";
    }
  if (output.empty()) {
    llvm::outs() << writePlan(result->plan);
    return 0;
  }
  std::error_code code;
  llvm::raw_fd_ostream file(output, code);
  if (code)
    return fail(llvm::errorCodeToError(code));
  file << writePlan(result->plan);
  return 0;
}
