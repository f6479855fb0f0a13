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

/// The functions that training and evaluation call, by their roles. A function
/// that the module lacks is null.
struct Programs {
  func::FuncOp step, accumulate, update, evaluate, gradients;

  /// Finds the functions. Emits an error if two have the same role.
  LogicalResult find(ModuleOp module);

  func::FuncOp &get(ProgramRole role) {
    switch (role) {
    case ProgramRole::Step:
      return step;
    case ProgramRole::Accumulate:
      return accumulate;
    case ProgramRole::Update:
      return update;
    case ProgramRole::Evaluate:
      return evaluate;
    case ProgramRole::Gradients:
      return gradients;
    }
    llvm_unreachable("unknown role");
  }

  SmallVector<func::FuncOp> all() const {
    SmallVector<func::FuncOp> programs;
    for (func::FuncOp program : {step, accumulate, update, evaluate, gradients})
      if (program)
        programs.push_back(program);
    return programs;
  }
};

/// A role that one result of a program must have, and that result's type. A
/// null type stands for any number of results of any type.
struct ExpectedRole {
  PortRoleAttr role;
  Type type;
};

} // namespace

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

LogicalResult Programs::find(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>()) {
    auto role = function->getAttrOfType<ProgramRoleAttr>(kRoleAttrName);
    if (!role)
      continue;
    func::FuncOp &found = get(role.getValue());
    if (found)
      return function.emitOpError()
             << "expected one function of role " << role << ", got @"
             << found.getName() << " and @" << function.getName();
    found = function;
  }
  return success();
}

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

/// Checks that the results of a program have the expected roles, in any order.
static LogicalResult verifyResults(func::FuncOp program,
                                   ArrayRef<ExpectedRole> expected) {
  if (!program)
    return success();
  SmallVector<bool> found(expected.size());
  for (auto [i, type] : llvm::enumerate(program.getResultTypes())) {
    auto role = program.getResultAttrOfType<PortRoleAttr>(i, kRoleAttrName);
    const auto *known = llvm::find_if(
        expected, [&](const ExpectedRole &e) { return e.role == role; });
    if (known == expected.end() ||
        (found[known - expected.begin()] && known->type)) {
      InFlightDiagnostic diag = program.emitOpError()
                                << "expected " << kRoleAttrName << " of result "
                                << i << " to be one of ";
      llvm::interleaveComma(expected, diag,
                            [&](const ExpectedRole &e) { diag << e.role; });
      diag << ", each once, got ";
      if (role)
        diag << role;
      else
        diag << "none";
      return diag;
    }
    found[known - expected.begin()] = true;
    if (known->type && type != known->type)
      return program.emitOpError()
             << "expected the result of role " << role << " to be "
             << known->type << ", got " << type;
  }
  for (auto [wanted, isFound] : llvm::zip(expected, found))
    if (wanted.type && !isFound)
      return program.emitOpError()
             << "expected a result of role " << wanted.role << ", got none";
  return success();
}

static LogicalResult verifyResults(ModuleOp module, Programs programs) {
  MLIRContext *context = module.getContext();
  auto scalar = RankedTensorType::get({}, Float32Type::get(context));
  auto one = [&](PortRole role) {
    return ExpectedRole{PortRoleAttr::get(context, role), scalar};
  };
  ExpectedRole outputs = {PortRoleAttr::get(context, PortRole::Output), Type()};
  ExpectedRole ofStep[] = {one(PortRole::Loss), one(PortRole::GradientNorm),
                           one(PortRole::LearningRate)};
  ExpectedRole ofEvaluate[] = {one(PortRole::LossSum),
                               one(PortRole::LabelCount), outputs};
  SmallVector<ExpectedRole> ofGradients = {one(PortRole::Loss), outputs};
  for (auto variable : module.getOps<VariableOp>())
    if (variable.getRole() == VariableRole::Parameter)
      ofGradients.push_back({PortRoleAttr::get(context, PortRole::Gradient,
                                               variable.getSymNameAttr()),
                             variable.getTensorType()});
  return success(succeeded(verifyResults(programs.step, ofStep)) &&
                 succeeded(verifyResults(programs.accumulate, {})) &&
                 succeeded(verifyResults(programs.update, ofStep)) &&
                 succeeded(verifyResults(programs.evaluate, ofEvaluate)) &&
                 succeeded(verifyResults(programs.gradients, ofGradients)));
}

/// Checks the roles of a program's arguments. Only @accumulate takes the number
/// of a micro-batch.
static LogicalResult verifyArguments(func::FuncOp program,
                                     bool takesMicroBatch) {
  if (!program)
    return success();
  auto number =
      RankedTensorType::get({}, IntegerType::get(program.getContext(), 64));
  for (auto [i, type] : llvm::enumerate(program.getArgumentTypes())) {
    auto role = program.getArgAttrOfType<PortRoleAttr>(i, kRoleAttrName);
    bool isData = role && (role.getRole() == PortRole::Features ||
                           role.getRole() == PortRole::Labels);
    bool isNumber = role && role.getRole() == PortRole::MicroBatch;
    if (!isData && !(isNumber && takesMicroBatch)) {
      InFlightDiagnostic diag =
          program.emitOpError()
          << "expected " << kRoleAttrName << " of argument " << i << " to be "
          << (takesMicroBatch ? "features, labels or micro_batch"
                              : "features or labels")
          << ", got ";
      if (role)
        diag << role;
      else
        diag << "none";
      return diag;
    }
    if (isNumber && type != number)
      return program.emitOpError() << "expected the number of the micro-batch "
                                      "to be "
                                   << number << ", got " << type;
  }
  return success();
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
    Programs programs;
    if (failed(programs.find(module)) ||
        failed(verifyWhichPrograms(module, symbols, programs)))
      return failure();
    for (func::FuncOp program : programs.all())
      if (failed(verifyForm(program)))
        return failure();
    if (programs.update && programs.update.getNumArguments())
      return programs.update.emitOpError() << "expected no arguments, got "
                                           << programs.update.getNumArguments();
    if (failed(verifyArguments(programs.step, false)) ||
        failed(verifyArguments(programs.accumulate, true)) ||
        failed(verifyArguments(programs.evaluate, false)) ||
        failed(verifyArguments(programs.gradients, false)) ||
        failed(verifyResults(module, programs)) ||
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
