//===- UnitTimes.cpp - Times of computations before their order -----------===//

#include "UnitTimes.h"
#include "PhasePipelines.h"
#include "dialects/Comm/Comm.h"
#include "dialects/Heddle/Heddle.h"
#include "dialects/Rt/Rt.h"
#include "heddle/Lower/Passes.h"
#include "heddle/Schedule/Passes.h"
#include "heddle/Simulate/CostModel.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace heddle;

namespace {
/// A computation, with the properties by which its call is recognized.
struct Computation {
  Operation *op; ///< in the module that is ordered
  ServesAttr serves;
  bool isKernel;

  bool becomes(rt::DeviceCallOpInterface call) const {
    return serves == call.getServes() &&
           isKernel == isa<rt::LaunchOp>(call.getOperation());
  }
};
using Computations = llvm::StringMap<SmallVector<Computation>>;
} // namespace

/// Returns the computations of each function of a copy, in their order.
/// `originals` are the ops that were copied.
static Computations
getComputations(ModuleOp copy,
                const llvm::DenseMap<Operation *, Operation *> &originals) {
  Computations computations;
  for (auto function : copy.getOps<func::FuncOp>()) {
    if (function.isExternal() || function->hasAttr(kKernelAttrName) ||
        !function.getBody().hasOneBlock())
      continue;
    for (Operation &op : function.getBody().front())
      if (Operation *original = originals.lookup(&op);
          original && !op.hasTrait<comm::Collective>() &&
          !op.hasTrait<OpTrait::ConstantLike>())
        computations[function.getName()].push_back(
            {original, getServes(&op), isa<func::CallOp>(op)});
  }
  return computations;
}

/// Gives each computation the time of its call. Computations and calls stand in
/// the same order. A computation may have no call, because views take no time.
/// A call may have no computation, because some calls copy.
static void attach(rt::ProgramOp program, ArrayRef<Computation> computations,
                   CostModel &model) {
  Builder builder(program.getContext());
  for (const Computation &computation : computations)
    computation.op->setDiscardableAttr(kSecondsAttrName,
                                       builder.getF64FloatAttr(0));
  program->walk([&](rt::DeviceCallOpInterface call) {
    if (call.isCommunication())
      return;
    auto *found =
        llvm::find_if(computations, [&](const Computation &computation) {
          return computation.becomes(call);
        });
    if (found == computations.end())
      return;
    if (FailureOr<double> seconds = model.getSeconds(call); succeeded(seconds))
      found->op->setDiscardableAttr(kSecondsAttrName,
                                    builder.getF64FloatAttr(*seconds));
    computations = computations.drop_front(found + 1 - computations.begin());
  });
}

LogicalResult heddle::attachUnitTimes(ModuleOp module,
                                      const CompileOptions &options) {
  if (!options.makeCostModel)
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
  Computations computations = getComputations(*copy, originals);
  PassManager lower(module.getContext(), ModuleOp::getOperationName());
  buildExecutablePipeline(lower);
  if (failed(lower.run(*copy)))
    return failure();
  std::unique_ptr<CostModel> model = options.makeCostModel(*copy);
  if (!model)
    return success();
  for (auto program : copy->getOps<rt::ProgramOp>())
    if (auto known = computations.find(program.getSymName());
        known != computations.end())
      attach(program, known->second, *model);
  return success();
}
