//===- HeddleServes.cpp - Names that survive the lowering -----------------===//
//
// Between the passes that merge and rewrite ops, `#heddle.serves` travels in
// locations, as the metadata of a FusedLoc: every rewrite passes locations on,
// and common subexpressions and equal kernels are found whatever they serve.
// Where a phase ends it is an attribute, for the text shows no locations.
//
//===----------------------------------------------------------------------===//

#include "dialects/Heddle/Heddle.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace heddle;

LogicalResult ServesAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 DataKind, ArrayRef<StringAttr> names) {
  if (names.empty())
    return emitError() << "expected the name of an operator";
  llvm::SmallDenseSet<StringAttr, 8> seen;
  for (StringAttr name : names) {
    if (name.empty())
      return emitError() << "expected the name of an operator, got \"\"";
    if (!seen.insert(name).second)
      return emitError() << "expected each name once, got " << name << " twice";
  }
  return success();
}

ServesAttr ServesAttr::getUnion(DataKind kind, ArrayRef<ServesAttr> parts) {
  ServesAttr first;
  bool isOne = true;
  for (ServesAttr part : parts) {
    isOne &= !part || !first || part.getNames() == first.getNames();
    first = first ? first : part;
  }
  if (!first)
    return {};
  if (isOne)
    return first.getKind() == kind
               ? first
               : get(first.getContext(), kind, first.getNames());
  llvm::SmallSetVector<StringAttr, 8> names;
  for (ServesAttr part : parts)
    if (part)
      names.insert(part.getNames().begin(), part.getNames().end());
  return get(first.getContext(), kind, names.getArrayRef());
}

ServesAttr heddle::getServes(Operation *op) {
  if (auto serves = op->getAttrOfType<ServesAttr>(kServesAttrName))
    return serves;
  // Found at once but where a rewrite has put the location into another.
  auto holder = dyn_cast<FusedLocWith<ServesAttr>>(op->getLoc());
  if (!holder)
    holder = op->getLoc()->findInstanceOf<FusedLocWith<ServesAttr>>();
  if (holder)
    return holder.getMetadata();
  if (StringRef name = getOpName(op); !name.empty())
    return ServesAttr::get(op->getContext(), DataKind::Activation,
                           StringAttr::get(op->getContext(), name));
  return {};
}

static DataKind getKind(VariableRole role) {
  switch (role) {
  case VariableRole::Parameter:
    return DataKind::Parameter;
  case VariableRole::Gradient:
    return DataKind::Gradient;
  case VariableRole::OptimizerState:
  case VariableRole::Counter:
  case VariableRole::Loss:
    return DataKind::State;
  }
  llvm_unreachable("a role without a kind");
}

ServesAttr heddle::getServes(VariableOp variable) {
  return ServesAttr::get(variable.getContext(), getKind(variable.getRole()),
                         variable.getSymNameAttr());
}

Location heddle::withServes(Location loc, ServesAttr serves) {
  // What the location held before goes.
  if (auto holder = dyn_cast<FusedLocWith<ServesAttr>>(loc))
    loc = FusedLoc::get(holder.getLocations(), {}, loc.getContext());
  return serves ? FusedLoc::get({loc}, serves, loc.getContext()) : loc;
}
