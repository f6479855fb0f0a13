//===- UnitTimes.cpp - Times of computations before their order -----------===//

#include "UnitTimes.h"
#include "PhasePipelines.h"
#include "dialects/Comm/Comm.h"
#include "dialects/Heddle/Heddle.h"
#include "dialects/Rt/Rt.h"
#include "heddle/Lower/Passes.h"
#include "heddle/Schedule/Passes.h"
#include "heddle/Sharding/CollectiveCosts.h"
#include "heddle/Sharding/ReshardSequence.h"
#include "heddle/Simulate/Communications.h"
#include "heddle/Simulate/CostModel.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace heddle;

namespace {
/// An op that becomes a call, with the properties by which the call is
/// recognized.
struct TimedOp {
  Operation *op; ///< in the module that is ordered
  ServesAttr serves;
  bool isKernel;

  bool becomes(rt::DeviceCallOpInterface call) const {
    return serves == call.getServes() &&
           isKernel == isa<rt::LaunchOp>(call.getOperation()) &&
           (!call.isCommunication() ||
            getCollectiveAxes(op) == call->getAttr("axes"));
  }
};

/// The ops of a function that become calls, in their order.
struct TimedOps {
  SmallVector<TimedOp> computations, collectives;
};

/// Attaches the predictions of a cost model to the ops of a module.
class TimeWriter {
public:
  TimeWriter(CostModel &model, const MeshTopology &topology, MeshAttr mesh)
      : model(model), topology(topology), mesh(mesh) {}

  /// Gives each op of a function the times of its call in `program`.
  void attach(rt::ProgramOp program, const TimedOps &ops);

private:
  void attachToComputation(Operation *op, rt::DeviceCallOpInterface call);
  void attachToCollective(Operation *op, rt::DeviceCallOpInterface call);

  CostModel &model;
  const MeshTopology &topology;
  MeshAttr mesh;
};
} // namespace

/// Returns the ops of each function of a copy that become calls. `originals`
/// are the ops that were copied.
static llvm::StringMap<TimedOps>
getTimedOps(ModuleOp copy,
            const llvm::DenseMap<Operation *, Operation *> &originals) {
  llvm::StringMap<TimedOps> timed;
  for (auto function : copy.getOps<func::FuncOp>()) {
    if (function.isExternal() || function->hasAttr(kKernelAttrName) ||
        !function.getBody().hasOneBlock())
      continue;
    TimedOps &ops = timed[function.getName()];
    for (Operation &op : function.getBody().front())
      if (Operation *original = originals.lookup(&op);
          original && !op.hasTrait<OpTrait::ConstantLike>()) {
        bool communicates = op.hasTrait<comm::Collective>();
        (communicates ? ops.collectives : ops.computations)
            .push_back({original, getServes(&op), isa<func::CallOp>(op)});
      }
  }
  return timed;
}

static void setNumber(Operation *op, StringRef name, double number) {
  op->setDiscardableAttr(name,
                         Builder(op->getContext()).getF64FloatAttr(number));
}

void TimeWriter::attachToComputation(Operation *op,
                                     rt::DeviceCallOpInterface call) {
  if (FailureOr<double> seconds = model.getSeconds(call); succeeded(seconds))
    setNumber(op, kSecondsAttrName, *seconds);
  setNumber(op, kSlowdownAttrName, model.getSlowdown(call));
}

void TimeWriter::attachToCollective(Operation *op,
                                    rt::DeviceCallOpInterface call) {
  double onLinks = getCollectiveCost(op, mesh, topology).seconds;
  Communication communication = getCommunication(call, topology, mesh);
  double seconds = model.getSeconds(communication, onLinks);
  if (onLinks > 0)
    setNumber(op, kLinkFactorAttrName, seconds / onLinks);
  setNumber(op, kLoadAttrName, model.getLoad(communication, seconds));
}

/// Ops and calls stand in the same order. An op may have no call, because views
/// take no time. A call may have no op, because some calls copy.
void TimeWriter::attach(rt::ProgramOp program, const TimedOps &ops) {
  ArrayRef<TimedOp> computations = ops.computations;
  ArrayRef<TimedOp> collectives = ops.collectives;
  for (const TimedOp &computation : computations)
    setNumber(computation.op, kSecondsAttrName, 0);
  program->walk([&](rt::DeviceCallOpInterface call) {
    bool communicates = call.isCommunication();
    ArrayRef<TimedOp> &left = communicates ? collectives : computations;
    auto *found = llvm::find_if(
        left, [&](const TimedOp &timed) { return timed.becomes(call); });
    if (found == left.end())
      return;
    if (communicates)
      attachToCollective(found->op, call);
    else
      attachToComputation(found->op, call);
    left = left.drop_front(found + 1 - left.begin());
  });
}

LogicalResult heddle::attachUnitTimes(ModuleOp module,
                                      const CompileOptions &options) {
  MeshRef mesh = getMesh(module);
  if (!options.makeCostModel || !mesh)
    return success();
  // Drops warnings and remarks: the module itself goes through the same passes
  // later, which then emit them. An error ends the compilation here.
  ScopedDiagnosticHandler onlyErrors(
      module.getContext(), [](Diagnostic &diagnostic) {
        return success(diagnostic.getSeverity() != DiagnosticSeverity::Error);
      });
  IRMapping mapping;
  OwningOpRef<ModuleOp> copy(cast<ModuleOp>(module->clone(mapping)));
  llvm::DenseMap<Operation *, Operation *> originals;
  for (auto [original, copied] : mapping.getOperationMap())
    originals[copied] = original;
  PassManager shorten(module.getContext(), ModuleOp::getOperationName());
  shorten.addPass(createShortenLivesPass());
  if (failed(shorten.run(*copy)))
    return failure();
  llvm::StringMap<TimedOps> timed = getTimedOps(*copy, originals);
  PassManager lower(module.getContext(), ModuleOp::getOperationName());
  buildExecutablePipeline(lower);
  if (failed(lower.run(*copy)))
    return failure();
  std::unique_ptr<CostModel> model = options.makeCostModel(*copy);
  if (!model)
    return success();
  auto sequences = ReshardSequences::create(module, mesh, options.cluster);
  if (failed(sequences))
    return failure();
  TimeWriter writer(*model, sequences->getTopology(), mesh.mesh);
  for (auto program : copy->getOps<rt::ProgramOp>())
    if (auto known = timed.find(program.getSymName()); known != timed.end())
      writer.attach(program, known->second);
  return success();
}
