//===- LocalOp.cpp - Communication inside of an op ------------------------===//

#include "LocalOp.h"
#include "heddle/Shard/Passes.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace heddle;

bool heddle::hasExchange(const OpClass &made, const FactorAxes &axes) {
  const ShardingRule &rule = made.rule;
  for (auto [f, factor] : llvm::enumerate(rule.factors)) {
    if (axes[f].empty())
      continue;
    if (factor.kind == FactorKind::Combine)
      return true;
    auto isWindow = [&](Value value, const TensorFactors &dims) {
      auto type = dyn_cast<RankedTensorType>(value.getType());
      if (!type)
        return false;
      for (auto [dim, size] : llvm::zip(dims, type.getShape()))
        if (dim.size() == 1 && dim.front() == f && size != factor.size)
          return true;
      return false;
    };
    for (auto [operand, dims] :
         llvm::zip(made.op()->getOperands(), rule.operands))
      if (isWindow(operand, dims))
        return true;
  }
  return rule.meet && !axes[rule.meet->first].empty() &&
         axes[rule.meet->first] == axes[rule.meet->second];
}

/// Returns a module with a function that contains the op alone. The arguments
/// and results have the shardings that the op needs and gives.
static OwningOpRef<ModuleOp> isolate(const OpClass &made,
                                     const FactorAxes &axes, MeshRef mesh) {
  Operation *op = made.op();
  MLIRContext *context = op->getContext();
  Location loc = UnknownLoc::get(context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  OpBuilder builder = OpBuilder::atBlockBegin(module->getBody());
  builder.create<MeshOp>(loc, mesh.symbol.getValue(), mesh.mesh);
  auto function = builder.create<func::FuncOp>(
      loc, "op",
      FunctionType::get(context, op->getOperandTypes(), op->getResultTypes()));
  Block *body = function.addEntryBlock();
  builder.setInsertionPointToStart(body);
  Operation *copy = builder.clone(*op);
  copy->setOperands(body->getArguments());
  copy->removeAttr(kPinAttrName);
  writeFactorAxes(copy, made.rule, axes);
  builder.create<func::ReturnOp>(loc, copy->getResults());
  for (auto [i, type] : llvm::enumerate(op->getOperandTypes()))
    if (isa<RankedTensorType>(type))
      function.setArgAttr(
          i, kShardingAttrName,
          getOperandSharding(made.rule, axes, i, mesh).withoutPartial());
  for (auto [i, type] : llvm::enumerate(op->getResultTypes()))
    if (isa<RankedTensorType>(type))
      function.setResultAttr(i, kShardingAttrName,
                             getResultSharding(made.rule, axes, i, mesh));
  return module;
}

LogicalResult heddle::forEachLocalOp(const OpClass &made,
                                     const FactorAxes &axes, MeshRef mesh,
                                     function_ref<void(Operation *)> body) {
  // A region may read values from outside, which a function cannot.
  if (made.op()->getNumRegions() != 0 &&
      llvm::any_of(made.op()->getRegions(), [&](Region &region) {
        return region
            .walk([&](Operation *inner) {
              for (Value operand : inner->getOperands())
                if (!made.op()->isAncestor(
                        operand.getParentBlock()->getParentOp()))
                  return WalkResult::interrupt();
              return WalkResult::advance();
            })
            .wasInterrupted();
      }))
    return failure();
  ScopedDiagnosticHandler silence(made.op()->getContext(),
                                  [](Diagnostic &) { return success(); });
  OwningOpRef<ModuleOp> module = isolate(made, axes, mesh);
  PassManager passes(module->getContext());
  passes.enableVerifier(false);
  passes.addPass(createLocalizePass());
  if (failed(passes.run(*module)))
    return failure();
  for (auto function : module->getOps<func::FuncOp>())
    function.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (isa<func::FuncOp>(op))
        return WalkResult::advance();
      body(op);
      return isa<WorkOpInterface>(op) ? WalkResult::skip()
                                      : WalkResult::advance();
    });
  return success();
}
