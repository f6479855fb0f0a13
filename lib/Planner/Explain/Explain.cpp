//===- Explain.cpp - Explains a plan and its costs ------------------------===//

#include "heddle/Planner/Explain.h"
#include "Lines.h"
#include "dialects/Heddle/HeddleDialect.h"
#include "heddle/Cost/Roofline.h"
#include "heddle/Plan/Plan.h"
#include "heddle/Sharding/FactorShardings.h"
#include "heddle/Simulate/CallWork.h"
#include "heddle/Simulate/Communications.h"
#include "heddle/Simulate/MeshAxes.h"
#include "heddle/Simulate/Report.h"
#include "heddle/Stages/CutNames.h"
#include "mlir/IR/Diagnostics.h"
#include <algorithm>
#include <map>
#include <set>

using namespace mlir;
using namespace heddle;

const OperatorChoice *PlanExplanation::findChoice(StringRef name) const {
  for (const OperatorChoice &choice : choices) {
    if (choice.isVariable)
      continue;
    SmallVector<StringRef> lines;
    StringRef(choice.glob).split(lines, ", ");
    if (llvm::is_contained(lines, name) ||
        llvm::is_contained(choice.names, name))
      return &choice;
  }
  return nullptr;
}

namespace {

/// Adds up the calls of a simulation by the operators that they serve.
class UseCounter {
public:
  UseCounter(ModuleOp module, const Cluster &cluster,
             const MeshTopology &topology, MeshAttr mesh)
      : module(module), cluster(cluster), topology(topology), mesh(mesh),
        devices(module, cluster), works(module),
        hasStages(llvm::any_of(mesh.getAxes(), [](MeshAxisAttr axis) {
          return axis.getName() == kPipelineAxis;
        })) {}

  void add(const SimulatedCall &call);
  std::vector<OperatorUse> take();

private:
  std::string getName(rt::DeviceCallOpInterface call) const;

  ModuleOp module;
  const Cluster &cluster;
  const MeshTopology &topology;
  MeshAttr mesh;
  RankDevices devices;
  CallWork works;
  bool hasStages; ///< Without, an operator may be named as what crosses them.
  std::map<std::string, OperatorUse> entries;
};

} // namespace

/// Returns the name in the model of what the call serves.
std::string UseCounter::getName(rt::DeviceCallOpInterface call) const {
  ArrayRef<StringAttr> names = call.getServes().getNames();
  StringRef served = names.empty() ? "" : names.front().getValue();
  if (served.empty())
    return "work without a name";
  if (!hasStages)
    return served.str();
  // Devices give each other the gradients of shared parameters, and terms of
  // the sum over all gradients with what is made of them. Any other such name
  // is an operator's own.
  StringRef given = getGiven(served);
  if (isSumOverStages(given))
    return "gradient norm over stages";
  if (isNeededByReport(given))
    return "values between stages";
  if (!given.empty())
    return ModuleOp(module).lookupSymbol<VariableOp>(given) ? given.str()
                                                            : served.str();
  // A transfer of a value between stages counts for the operator that computes
  // the value.
  StringRef maker = getMakerOfCut(served);
  return maker.empty() ? "values between stages" : maker.str();
}

void UseCounter::add(const SimulatedCall &call) {
  rt::DeviceCallOpInterface op = call.op;
  std::string name = getName(op);
  OperatorUse &use = entries[name];
  use.name = name;
  double times = double(call.repeat), seconds = (call.end - call.begun) * times;
  if (call.communicates) {
    use.communicating += seconds;
    use.exposed += call.exposed * times;
    use.bytesSent += call.bytes * call.repeat;
    AxisMask axes = getAxisMask(getCommunication(op, topology, mesh).axes);
    int level = topology.getOutermostLevel(axes);
    use.parts[level < 0 ? "links" : "links of " + cluster.levels[level].name] +=
        call.exposed * times;
    return;
  }
  use.computing += seconds;
  Work work = works.getWork(op);
  const ClusterDevice &device = devices.getOf(op);
  double peak =
      getProductRate(CallWork::getComputeType(op), device).value_or(0);
  double flops = peak > 0 ? double(work.flops) / peak : 0;
  double bytes =
      double(work.bytesRead + work.bytesWritten) / device.getMemoryRate();
  use.parts["launches"] += device.launch * times;
  use.parts[flops >= bytes ? "compute" : "memory bandwidth"] +=
      std::max(flops, bytes) * times;
}

std::vector<OperatorUse> UseCounter::take() {
  std::vector<OperatorUse> uses;
  for (auto &[name, use] : entries)
    uses.push_back(std::move(use));
  return uses;
}

/// Compiles and simulates the program with its plan.
static LogicalResult simulateUses(ModuleOp module,
                                  const CompileOptions &options,
                                  const Cluster &cluster,
                                  PlanExplanation &result) {
  if (failed(runPhases(module, options, Phase::Executable)))
    return failure();
  llvm::Expected<std::vector<CallList>> lists = getEntry(module, "");
  if (!lists)
    return module.emitError(llvm::toString(lists.takeError()));
  RooflineCostModel model(module, cluster);
  FailureOr<Simulation> simulation = simulate(module, *lists, cluster, model);
  if (failed(simulation))
    return failure();
  result.devices = simulation->devices;
  result.seconds = simulation->seconds;
  result.exposed = simulation->exposed;
  result.bound = simulation->bounds.get();
  result.boundName = simulation->bounds.getName(cluster);
  for (auto [list, memory] : llvm::zip(simulation->lists, simulation->memories))
    result.memory.push_back({getRankNames(list), memory.plan, memory.capacity});
  result.mixed = simulation->mixed;

  MeshAttr mesh = getMesh(module).mesh;
  SmallVector<int64_t> sizes;
  for (MeshAxisAttr axis : mesh.getAxes())
    sizes.push_back(axis.getSize());
  llvm::Expected<MeshTopology> topology = MeshTopology::create(cluster, sizes);
  if (!topology)
    return module.emitError(llvm::toString(topology.takeError()));
  UseCounter counter(module, cluster, *topology, mesh);
  for (const SimulatedCall &call : simulation->calls)
    counter.add(call);
  result.usesOfNames = counter.take();
  return success();
}

/// Returns the operators that the plan runs in slices, in the program's order.
static std::vector<SlicedOperator> findSliced(ModuleOp step, const Plan &plan) {
  std::vector<SlicedOperator> sliced;
  std::set<std::string> seen;
  step.walk([&](ShardingRuleOpInterface op) {
    const PlanSplit *split = findPlanSplit(plan.splits, getOpName(op));
    if (!split || !op.getShardingRule().getFactor(split->factor))
      return;
    std::string name = getOpName(op).str();
    if (seen.insert(name).second)
      sliced.push_back({name, split->factor, split->slices,
                        split->sharded.value_or(split->slices)});
  });
  return sliced;
}

/// Estimates the cost of the plan's choices and of their alternatives. If there
/// is no estimate, gives the choices without costs, and a reason instead of an
/// error.
static void estimateChoices(ModuleOp step, const CompileOptions &options,
                            const Cluster &cluster, PlanExplanation &result) {
  llvm::Expected<Plan> plan = parsePlan(options.planText, options.planPath);
  if (!plan) {
    result.whyNoCosts = llvm::toString(plan.takeError());
    return;
  }
  result.slicedOfNames = findSliced(step, *plan);
  ScopedDiagnosticHandler silent(step.getContext(), [&](Diagnostic &message) {
    if (message.getSeverity() == DiagnosticSeverity::Error &&
        result.whyNoCosts.empty())
      result.whyNoCosts = message.str();
    return success();
  });
  FailureOr<std::vector<OperatorChoice>> choices =
      explainOperators(step, *plan, cluster, options.training.microBatches);
  if (succeeded(choices)) {
    result.choices = std::move(*choices);
    return;
  }
  if (result.whyNoCosts.empty())
    result.whyNoCosts = "no reason is known";
  if (auto splits = listSplits(step, *plan, cluster); succeeded(splits))
    result.choices = std::move(*splits);
}

FailureOr<PlanExplanation> heddle::explainPlan(ModuleOp module,
                                               const CompileOptions &options,
                                               const Cluster &cluster) {
  PlanExplanation result;
  result.cluster = cluster.name;
  result.capacity = cluster.device.memory;
  OwningOpRef<ModuleOp> step(module.clone());
  if (failed(runPhases(*step, options, Phase::Autodiff)))
    return failure();
  OwningOpRef<ModuleOp> compiled(step->clone());
  if (failed(simulateUses(*compiled, options, cluster, result)))
    return failure();
  estimateChoices(*step, options, cluster, result);
  LineNames lines = nameLines({&result});
  for (OperatorChoice &choice : result.choices)
    nameLine(choice, lines);
  result.uses = groupUses(result, lines);
  result.sliced = groupSliced(result, lines);
  return result;
}
