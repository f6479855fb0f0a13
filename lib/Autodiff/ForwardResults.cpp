//===- ForwardResults.cpp - The form of @forward --------------------------===//

#include "ForwardResults.h"
#include "dialects/Heddle/Heddle.h"

using namespace mlir;
using namespace heddle;

static bool isFloatScalar(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getRank() == 0 && tensor.getElementType().isF32();
}

FailureOr<ForwardResults> heddle::verifyForward(func::FuncOp forward) {
  if (forward.isExternal() || !llvm::hasSingleElement(forward.getBody()))
    return forward.emitError() << "expected @forward to have one block";
  auto emit = [&](StringRef kind, unsigned i, StringRef expected,
                  PortRoleAttr got) {
    InFlightDiagnostic diag = forward.emitError()
                              << "expected " << kRoleAttrName << " of " << kind
                              << ' ' << i << " of @forward to be " << expected
                              << ", got ";
    if (got)
      diag << stringifyPortRole(got.getRole());
    else
      diag << "none";
    return failure();
  };
  for (unsigned i = 0; i < forward.getNumArguments(); ++i) {
    auto role = forward.getArgAttrOfType<PortRoleAttr>(i, kRoleAttrName);
    if (!role || (role.getRole() != PortRole::Features &&
                  role.getRole() != PortRole::Labels))
      return emit("argument", i, "features or labels", role);
  }
  std::optional<unsigned> lossSum, labelCount;
  ForwardResults results;
  for (auto [i, type] : llvm::enumerate(forward.getResultTypes())) {
    auto attribute =
        forward.getResultAttrOfType<PortRoleAttr>(i, kRoleAttrName);
    std::optional<PortRole> role;
    if (attribute)
      role = attribute.getRole();
    if (role == PortRole::Output) {
      results.outputs.push_back(i);
      continue;
    }
    if (role != PortRole::LossSum && role != PortRole::LabelCount)
      return emit("result", i, "loss_sum, label_count or output", attribute);
    std::optional<unsigned> &found =
        role == PortRole::LossSum ? lossSum : labelCount;
    if (found)
      return forward.emitError()
             << "expected one result of @forward of the role "
             << stringifyPortRole(*role) << ", got results " << *found
             << " and " << i;
    if (!isFloatScalar(type))
      return forward.emitError()
             << "expected result " << i << " of @forward, its "
             << stringifyPortRole(*role) << ", to be tensor<f32>, got " << type;
    found = i;
  }
  if (!lossSum || !labelCount)
    return forward.emitError()
           << "expected @forward to return the sum of the losses and the "
              "number of labels (heddle.role loss_sum and label_count), got no "
           << (lossSum ? "label_count" : "loss_sum");
  results.lossSum = *lossSum;
  results.labelCount = *labelCount;
  return results;
}

LogicalResult heddle::verifyStores(func::FuncOp forward,
                                   const SymbolTable &symbols) {
  WalkResult result = forward.walk([&](StoreOp store) {
    auto variable = symbols.lookup<VariableOp>(store.getVariable());
    if (variable && variable.getRole() == VariableRole::Buffer)
      return WalkResult::advance();
    store.emitOpError()
        << "expected @forward to store variables of role buffer alone, got @"
        << store.getVariable();
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

LogicalResult heddle::verifyModule(ModuleOp module) {
  for (unsigned role = 0; role <= getMaxEnumValForProgramRole(); ++role) {
    StringRef name = stringifyProgramRole(static_cast<ProgramRole>(role));
    if (auto taken = module.lookupSymbol<func::FuncOp>(name))
      return taken.emitError()
             << "expected a module with @forward alone, got @" << name;
  }
  for (VariableOp variable : module.getOps<VariableOp>())
    if (variable.getRole() == VariableRole::Parameter &&
        !variable.getTensorType().getElementType().isF32())
      return variable.emitError()
             << "expected a parameter of f32, got " << variable.getTensorType();
  return success();
}
