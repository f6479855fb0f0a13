//===- VerifyTrainingStep.cpp - Checks the programs of training -----------===//

#include "dialects/Heddle/Heddle.h"
#include "heddle/Autodiff/Passes.h"
#include "heddle/Autodiff/StateNames.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {
#define GEN_PASS_DEF_VERIFYTRAININGSTEPPASS
#include "heddle/Autodiff/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {

/// The functions that training and evaluation call. A function that the module
/// lacks is null.
struct Programs {
  func::FuncOp step, accumulate, update, evaluate, gradients;

  explicit Programs(const SymbolTable &symbols)
      : step(symbols.lookup<func::FuncOp>("step")),
        accumulate(symbols.lookup<func::FuncOp>("accumulate")),
        update(symbols.lookup<func::FuncOp>("update")),
        evaluate(symbols.lookup<func::FuncOp>("evaluate")),
        gradients(symbols.lookup<func::FuncOp>("gradients")) {}

  SmallVector<func::FuncOp> all() const {
    SmallVector<func::FuncOp> programs;
    for (func::FuncOp program : {step, accumulate, update, evaluate, gradients})
      if (program)
        programs.push_back(program);
    return programs;
  }
};

/// A result of a program: its name, and its type if that is known.
struct Result {
  std::string name;
  Type type;
};

} // namespace

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

static LogicalResult verifyWhichPrograms(ModuleOp module,
                                         const SymbolTable &symbols,
                                         Programs programs) {
  if (auto forward = symbols.lookup<func::FuncOp>("forward"))
    return forward.emitOpError()
           << "expected no @forward beside the programs made of it";
  if (bool(programs.accumulate) != bool(programs.update))
    return (programs.accumulate ? programs.accumulate : programs.update)
               .emitOpError()
           << "expected both @accumulate and @update, or none";
  if (programs.step && programs.accumulate)
    return programs.step.emitOpError()
           << "expected @step alone, or @accumulate and @update";
  auto attribute = module->getAttrOfType<IntegerAttr>(kMicroBatchesAttrName);
  int64_t count = attribute ? attribute.getInt() : 1;
  if (programs.accumulate && count < 2)
    return programs.accumulate.emitOpError()
           << "expected " << kMicroBatchesAttrName
           << " of the module to be at least 2, got " << count;
  if (programs.step && count != 1)
    return programs.step.emitOpError()
           << "expected no " << kMicroBatchesAttrName
           << " of the module: one call of @step is a step, got " << count;
  return success();
}

static LogicalResult verifyForm(func::FuncOp program) {
  if (!program.isPublic() || !program.getBody().hasOneBlock())
    return program.emitOpError() << "expected a public function of one block";
  return success();
}

static LogicalResult verifyResults(func::FuncOp program,
                                   ArrayRef<Result> expected) {
  if (!program)
    return success();
  if (program.getNumResults() != expected.size())
    return program.emitOpError() << "expected " << expected.size()
                                 << " results, got " << program.getNumResults();
  for (auto [i, result] : llvm::enumerate(expected)) {
    auto name = program.getResultAttrOfType<StringAttr>(i, kNameAttrName);
    if (!name || name.getValue() != result.name)
      return program.emitOpError()
             << "expected " << kNameAttrName << " of result " << i << " to be '"
             << result.name << "', got '" << (name ? name.getValue() : "")
             << "'";
    Type type = program.getResultTypes()[i];
    if (result.type && type != result.type)
      return program.emitOpError() << "expected " << result.name << " to be "
                                   << result.type << ", got " << type;
  }
  return success();
}

static LogicalResult verifyResults(ModuleOp module, Programs programs) {
  auto scalar =
      RankedTensorType::get({}, Float32Type::get(module.getContext()));
  Result ofStep[] = {
      {"loss", scalar}, {"grad_norm", scalar}, {"learning_rate", scalar}};
  Result ofEvaluate[] = {
      {"loss_sum", scalar}, {"count", scalar}, {"logits", Type()}};
  SmallVector<Result> ofGradients = {{"loss", scalar}, {"logits", Type()}};
  for (auto variable : module.getOps<VariableOp>())
    if (variable.getRole() == VariableRole::Parameter)
      ofGradients.push_back(
          {getStateName(StateKind::Gradient, variable.getSymName()),
           variable.getTensorType()});
  return success(succeeded(verifyResults(programs.step, ofStep)) &&
                 succeeded(verifyResults(programs.accumulate, {})) &&
                 succeeded(verifyResults(programs.update, ofStep)) &&
                 succeeded(verifyResults(programs.evaluate, ofEvaluate)) &&
                 succeeded(verifyResults(programs.gradients, ofGradients)));
}

/// Checks that the program has no dropout. @evaluate and @gradients must not.
static LogicalResult verifyNoDropout(func::FuncOp program) {
  if (!program)
    return success();
  WalkResult walked = program.walk([&](Operation *op) {
    auto attention = dyn_cast<AttentionOp>(op);
    auto gradient = dyn_cast<AttentionGradOp>(op);
    if (!isa<DropoutOp>(op) &&
        !(attention && attention.getDropout().isNonZero()) &&
        !(gradient && gradient.getDropout().isNonZero()))
      return WalkResult::advance();
    op->emitOpError() << "expected no dropout in @" << program.getName();
    return WalkResult::interrupt();
  });
  return failure(walked.wasInterrupted());
}

//===----------------------------------------------------------------------===//
// Variables
//===----------------------------------------------------------------------===//

static LogicalResult verifyState(VariableOp variable,
                                 const SymbolTable &symbols) {
  VariableRole role = variable.getRole();
  if (role != VariableRole::Gradient && role != VariableRole::OptimizerState)
    return success();
  StateAttr state = variable.getStateAttr();
  if (!state)
    return variable.emitOpError()
           << "expected the parameter that it is kept for (state), as role "
           << stringifyVariableRole(role) << " has one";
  auto parameter = symbols.lookup<VariableOp>(state.getParameter().getAttr());
  if (parameter && parameter.getTensorType() != variable.getTensorType())
    return variable.emitOpError()
           << "expected the type of " << state.getParameter() << ", "
           << parameter.getTensorType() << ", got " << variable.getTensorType();
  return success();
}

static llvm::DenseSet<StringAttr> getStored(func::FuncOp program) {
  llvm::DenseSet<StringAttr> names;
  program.walk(
      [&](StoreOp store) { names.insert(store.getVariableAttr().getAttr()); });
  return names;
}

/// Checks that @update zeroes exactly the variables to which @accumulate adds.
static LogicalResult verifySums(ModuleOp module, Programs programs) {
  if (!programs.accumulate)
    return success();
  llvm::DenseSet<StringAttr> added = getStored(programs.accumulate),
                             zeroed = getStored(programs.update);
  for (auto variable : module.getOps<VariableOp>()) {
    StringAttr name = variable.getSymNameAttr();
    if (variable.isSumOfStep() && added.contains(name) != zeroed.contains(name))
      return variable.emitOpError()
             << "expected @accumulate to add to it and @update to zero it, got "
                "a store in @"
             << (added.contains(name) ? "accumulate" : "update") << " alone";
  }
  return success();
}

namespace {
struct VerifyTrainingStepPass
    : heddle::impl::VerifyTrainingStepPassBase<VerifyTrainingStepPass> {
  void runOnOperation() override {
    if (failed(verify()))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }

  LogicalResult verify() {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    Programs programs(symbols);
    if (failed(verifyWhichPrograms(module, symbols, programs)))
      return failure();
    for (func::FuncOp program : programs.all())
      if (failed(verifyForm(program)))
        return failure();
    if (failed(verifyResults(module, programs)) ||
        failed(verifyNoDropout(programs.evaluate)) ||
        failed(verifyNoDropout(programs.gradients)))
      return failure();
    for (auto variable : module.getOps<VariableOp>())
      if (failed(verifyState(variable, symbols)))
        return failure();
    return verifySums(module, programs);
  }
};
} // namespace
