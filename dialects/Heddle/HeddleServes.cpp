//===- HeddleServes.cpp - Names that survive the lowering -----------------===//
//
// Between the passes that merge and rewrite ops, `#heddle.serves` is kept in
// locations, as the metadata of a FusedLoc. Every rewrite passes locations on.
// CSE and the merging of equal kernels ignore them, so ops that serve different
// operators can still be merged. At the end of a phase, `#heddle.serves` is an
// attribute, because the module's text shows no locations.
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
  // A rewrite may have put the location into another one, as in a FusedLoc.
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
  case VariableRole::Buffer:
    return DataKind::Parameter;
  case VariableRole::Gradient:
    return DataKind::Gradient;
  case VariableRole::OptimizerState:
  case VariableRole::Counter:
  case VariableRole::Loss:
  case VariableRole::Setting:
    return DataKind::State;
  }
  llvm_unreachable("a role without a kind");
}

ServesAttr heddle::getServes(VariableOp variable) {
  return ServesAttr::get(variable.getContext(), getKind(variable.getRole()),
                         variable.getSymNameAttr());
}

Location heddle::withServes(Location loc, ServesAttr serves) {
  // Remove the metadata that the location has.
  if (auto holder = dyn_cast<FusedLocWith<ServesAttr>>(loc))
    loc = FusedLoc::get(holder.getLocations(), {}, loc.getContext());
  return serves ? FusedLoc::get({loc}, serves, loc.getContext()) : loc;
}
