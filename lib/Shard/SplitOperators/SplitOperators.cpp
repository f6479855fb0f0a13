//===- SplitOperators.cpp - Runs large operators slice by slice -----------===//

#include "FunctionSplitter.h"
#include "heddle/Shard/Passes.h"

namespace heddle {
#define GEN_PASS_DEF_SPLITOPERATORSPASS
#include "heddle/Shard/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

/// Returns the `state` of one slice of an optimizer state: the same slice of
/// its parameter. Null if the parameter is not cut alike.
static StateAttr getSliceOfState(const Slices &slices, StateAttr state,
                                 const Cut &cut, int64_t slice) {
  StringAttr parameter = state.getParameter().getAttr();
  auto known = slices.getVariables().find(parameter);
  if (known == slices.getVariables().end() || known->second.cut != cut)
    return {};
  return StateAttr::get(state.getContext(), state.getKind(),
                        FlatSymbolRefAttr::get(getSliceName(parameter, slice)));
}

/// Replaces a variable by one variable a slice.
static LogicalResult splitVariable(ModuleOp module, const Slices &slices,
                                   const Slices::Variable &variable) {
  VariableOp whole = variable.op;
  const Cut &cut = variable.cut;
  OpBuilder builder(whole);
  for (int64_t slice = 0; slice < cut.slices; ++slice) {
    StringAttr name = getSliceName(whole.getSymNameAttr(), slice);
    if (Operation *taken = module.lookupSymbol(name))
      return taken->emitError()
             << "expected the symbol @" << name.getValue()
             << " to be free for a slice of @" << whole.getSymName();
    auto part = cast<VariableOp>(builder.clone(*whole));
    part.setSymNameAttr(name);
    part.setTypeAttr(
        TypeAttr::get(getSliceType(whole.getTensorType(), cut, slice)));
    part.setSliceAttr(SliceAttr::get(builder.getContext(),
                                     whole.getSymNameAttr(), cut.dim,
                                     cut.getOffset(slice), cut.size));
    if (StateAttr state = whole.getStateAttr())
      part.setStateAttr(getSliceOfState(slices, state, cut, slice));
    if (variable.sharded && slice >= *variable.sharded)
      part->removeAttr(kStorageAxesAttrName);
  }
  whole.erase();
  return success();
}

namespace {
struct SplitOperatorsPass
    : heddle::impl::SplitOperatorsPassBase<SplitOperatorsPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    Slices slices;
    if (failed(slices.find(module)))
      return signalPassFailure();
    if (slices.getVariables().empty())
      return;
    SmallVector<Operation *> replaced;
    for (auto function : module.getOps<func::FuncOp>())
      if (!function.isExternal() &&
          failed(FunctionSplitter(function, slices, replaced).run()))
        return signalPassFailure();
    for (Operation *op : llvm::reverse(replaced))
      op->erase();
    for (auto &[name, variable] : slices.getVariables())
      if (failed(splitVariable(module, slices, variable)))
        return signalPassFailure();
    // A state that stays whole belongs to no slice of a parameter that was cut.
    for (auto variable : module.getOps<VariableOp>())
      if (StateAttr state = variable.getStateAttr();
          state && slices.getVariables().count(state.getParameter().getAttr()))
        variable.removeStateAttr();
  }
};
} // namespace
