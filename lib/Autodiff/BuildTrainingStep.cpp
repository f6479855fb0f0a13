//===- BuildTrainingStep.cpp - Programs of training from @forward ---------===//

#include "ForwardResults.h"
#include "Optimizer.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/Autodiff/Autodiff.h"
#include "heddle/Autodiff/Passes.h"
#include "heddle/Autodiff/StateNames.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace heddle {
#define GEN_PASS_DEF_BUILDTRAININGSTEPPASS
#include "heddle/Autodiff/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

/// The variables that hold the sum of the losses over a step's micro-batches,
/// and the number of tokens in that sum.
static constexpr StringLiteral kLossSumName = "loss_sum", kCountName = "count";

/// Gives a program its role, and the role's name.
static void setRole(func::FuncOp function, ProgramRole role) {
  function.setName(stringifyProgramRole(role));
  function->setAttr(kRoleAttrName,
                    ProgramRoleAttr::get(function.getContext(), role));
}

namespace {

/// A result of a program, and its attributes.
struct Result {
  Value value;
  DictionaryAttr attrs;
};

/// A copy of @forward that becomes one of the programs.
struct Program {
  func::FuncOp function;
  OpBuilder builder; ///< before the return
  ForwardResults results;

  Program(func::FuncOp forward, const ForwardResults &results, ProgramRole role,
          SymbolTable &symbols)
      : function(forward.clone()), builder(forward.getContext()),
        results(results) {
    setRole(function, role);
    symbols.insert(function);
    builder.setInsertionPoint(body().getTerminator());
  }

  Block &body() { return function.getBody().front(); }
  Location loc() { return function.getLoc(); }
  // Building gradients may replace these.
  Value lossSum() {
    return body().getTerminator()->getOperand(results.lossSum);
  }
  Value count() {
    return body().getTerminator()->getOperand(results.labelCount);
  }

  /// Returns the first load of the variable: its value when the program begins.
  Value findLoad(VariableOp variable) {
    for (LoadOp load : body().getOps<LoadOp>())
      if (load.getVariable() == variable.getSymName())
        return load;
    return nullptr;
  }
};

class StepBuilder {
public:
  StepBuilder(ModuleOp module, func::FuncOp forward, ForwardResults results,
              const TrainingStepOptions &options)
      : forward(forward), results(std::move(results)), table(module),
        options(options) {
    for (VariableOp variable : module.getOps<VariableOp>())
      if (variable.getRole() == VariableRole::Parameter)
        parameters.push_back(variable);
  }

  LogicalResult buildStep();
  LogicalResult buildAccumulate();
  LogicalResult buildUpdateProgram();
  void buildEvaluate();
  LogicalResult buildGradientsProgram();

private:
  /// Returns the gradient of every parameter, where the sum of the losses has
  /// the gradient `seed`. Null for a gradient that is zero.
  FailureOr<SmallVector<Value>> differentiate(Program &program, Value seed);
  /// Returns the gradients of the mean loss: the sum of the losses divided by
  /// `count`.
  FailureOr<SmallVector<Value>> differentiateMean(Program &program,
                                                  Value count);
  /// Builds max(count, 1), so that a batch of ignored tokens has the loss 0.
  Value atLeastOne(OpBuilder &builder, Location loc, Value count);
  void configureDropout(Program &program);
  /// Makes each micro-batch of a step draw random numbers of its own: counts
  /// micro-batches instead of steps. The number of the micro-batch is a new
  /// argument. Does nothing if the program reads no number of steps.
  void countMicroBatches(Program &program);

  func::FuncOp forward;
  ForwardResults results;
  VariableTable table;
  const TrainingStepOptions &options;
  SmallVector<VariableOp> parameters;
};

} // namespace

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// Erases the stores of a program that leaves the model as it is.
static void removeStores(func::FuncOp function) {
  function.walk([](StoreOp store) { store.erase(); });
}

/// Erases unused ops.
static void eraseDeadOps(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

static Result makeResult(StringRef name, PortRole role, Value value) {
  MLIRContext *context = value.getContext();
  return {value, getPortAttrs(context, name, PortRoleAttr::get(context, role))};
}

/// Returns the results of a step.
static SmallVector<Result> makeStepResults(Value loss, UpdateResults updated) {
  return {makeResult("loss", PortRole::Loss, loss),
          makeResult("grad_norm", PortRole::GradientNorm, updated.gradNorm),
          makeResult("learning_rate", PortRole::LearningRate,
                     updated.learningRate)};
}

/// Replaces the results of a program.
static void setResults(func::FuncOp function, ArrayRef<Result> results) {
  Block &body = function.getBody().front();
  SmallVector<Value> values;
  SmallVector<DictionaryAttr> attrs;
  for (const Result &result : results) {
    values.push_back(result.value);
    attrs.push_back(result.attrs);
  }
  body.getTerminator()->setOperands(values);
  function.setFunctionType(FunctionType::get(function.getContext(),
                                             function.getArgumentTypes(),
                                             TypeRange(ValueRange(values))));
  function.setResAttrsAttr(ArrayAttr());
  function.setAllResultAttrs(attrs);
  eraseDeadOps(body);
}

//===----------------------------------------------------------------------===//
// Dropout
//===----------------------------------------------------------------------===//

static void removeDropout(func::FuncOp function) {
  function.walk([](Operation *op) {
    if (auto dropout = dyn_cast<DropoutOp>(op)) {
      dropout.getResult().replaceAllUsesWith(dropout.getX());
      dropout.erase();
    } else if (auto attention = dyn_cast<AttentionOp>(op)) {
      attention.setDropout(APFloat(0.0));
      attention.getStepMutable().clear();
    }
  });
}

void StepBuilder::configureDropout(Program &program) {
  if (!options.dropout)
    return removeDropout(program.function);
  program.function.walk([&](Operation *op) {
    if (auto dropout = dyn_cast<DropoutOp>(op))
      dropout.setSeed(options.seed);
    else if (auto attention = dyn_cast<AttentionOp>(op))
      attention.setSeed(options.seed);
  });
}

void StepBuilder::countMicroBatches(Program &program) {
  SmallVector<LoadOp> steps;
  for (LoadOp load : program.body().getOps<LoadOp>())
    if (auto variable =
            table.getSymbols().lookup<VariableOp>(load.getVariable());
        variable && variable.getRole() == VariableRole::Counter)
      steps.push_back(load);
  if (steps.empty())
    return;
  OpBuilder &b = program.builder;
  Location loc = program.loc();
  func::FuncOp function = program.function;
  auto type = RankedTensorType::get({}, b.getI64Type());
  unsigned position = function.getNumArguments();
  function.insertArgument(
      position, type,
      getPortAttrs(b.getContext(), stringifyPortRole(PortRole::MicroBatch),
                   PortRoleAttr::get(b.getContext(), PortRole::MicroBatch)),
      loc);
  Value index = function.getArgument(position);
  for (LoadOp step : steps) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointAfter(step);
    Value count = createSplat(b, loc, type, options.microBatches);
    Value first = b.create<arith::MulIOp>(loc, step, count);
    Value number = b.create<arith::AddIOp>(loc, first, index);
    step.getResult().replaceAllUsesExcept(number, first.getDefiningOp());
  }
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

Value StepBuilder::atLeastOne(OpBuilder &builder, Location loc, Value count) {
  return builder.create<arith::MaximumFOp>(
      loc, count, createSplat(builder, loc, count.getType(), 1));
}

FailureOr<SmallVector<Value>> StepBuilder::differentiate(Program &program,
                                                         Value seed) {
  llvm::StringMap<unsigned> indices;
  for (auto [i, variable] : llvm::enumerate(parameters))
    indices[variable.getSymName()] = i;
  SmallVector<Value> loads;
  SmallVector<unsigned> owners;
  WalkResult nested = program.function.walk([&](LoadOp load) {
    if (load->getParentOp() == program.function ||
        !indices.contains(load.getVariable()))
      return WalkResult::advance();
    load.emitOpError() << "expected a parameter to be loaded outside of loops "
                          "and branches";
    return WalkResult::interrupt();
  });
  if (nested.wasInterrupted())
    return failure();
  for (LoadOp load : program.body().getOps<LoadOp>())
    if (auto it = indices.find(load.getVariable()); it != indices.end()) {
      loads.push_back(load);
      owners.push_back(it->second);
    }
  FailureOr<SmallVector<Value>> ofLoads = buildGradients(
      program.builder, program.body(), Seed{program.lossSum(), seed}, loads);
  if (failed(ofLoads))
    return failure();
  SmallVector<Value> gradients(parameters.size());
  for (auto [owner, gradient] : llvm::zip(owners, *ofLoads))
    gradients[owner] = addGradients(program.builder, parameters[owner].getLoc(),
                                    gradients[owner], gradient);
  return gradients;
}

FailureOr<SmallVector<Value>> StepBuilder::differentiateMean(Program &program,
                                                             Value count) {
  OpBuilder &b = program.builder;
  Value one = createSplat(b, program.loc(), count.getType(), 1);
  return differentiate(program,
                       b.create<arith::DivFOp>(program.loc(), one, count));
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

LogicalResult StepBuilder::buildStep() {
  Program program(forward, results, ProgramRole::Step, table.getSymbols());
  configureDropout(program);
  OpBuilder &b = program.builder;
  Location loc = program.loc();
  Value count = atLeastOne(b, loc, program.count());
  FailureOr<SmallVector<Value>> gradients = differentiateMean(program, count);
  if (failed(gradients))
    return failure();

  SmallVector<ParameterGradient> updates;
  for (auto [variable, gradient] : llvm::zip(parameters, *gradients))
    if (gradient)
      updates.push_back({variable, program.findLoad(variable), gradient});
  FailureOr<UpdateResults> updated =
      buildUpdate(b, loc, table, updates, /*scale=*/Value(), options);
  if (failed(updated))
    return failure();
  Value loss = b.create<arith::DivFOp>(loc, program.lossSum(), count);
  setResults(program.function, makeStepResults(loss, *updated));
  return success();
}

LogicalResult StepBuilder::buildAccumulate() {
  Program program(forward, results, ProgramRole::Accumulate,
                  table.getSymbols());
  configureDropout(program);
  countMicroBatches(program);
  OpBuilder &b = program.builder;
  Location loc = program.loc();

  Value seed = createSplat(b, loc, program.lossSum().getType(), 1);
  FailureOr<SmallVector<Value>> gradients = differentiate(program, seed);
  if (failed(gradients))
    return failure();
  auto accumulate = [&](FailureOr<VariableOp> variable, Value value) {
    if (failed(variable))
      return failure();
    OpBuilder::InsertionGuard guard(b);
    // Adds right after the value is computed, so that it does not live longer.
    b.setInsertionPointAfterValue(value);
    Location at = value.getLoc();
    // Later passes decide how the variable is stored: as a partial sum, like
    // the value, or reduced and perhaps sharded.
    Value sum =
        b.create<arith::AddFOp>(at, loadVariable(b, at, *variable), value);
    storeVariable(b, at, *variable, sum);
    return success();
  };
  for (auto [parameter, gradient] : llvm::zip(parameters, *gradients))
    if (gradient &&
        failed(accumulate(
            table.getOrCreateState(StateKind::Gradient, parameter), gradient)))
      return failure();
  auto scalar = cast<RankedTensorType>(program.lossSum().getType());
  if (failed(accumulate(
          table.getOrCreate(kLossSumName, scalar, VariableRole::Loss),
          program.lossSum())) ||
      failed(
          accumulate(table.getOrCreate(kCountName, scalar, VariableRole::Loss),
                     program.count())))
    return failure();
  setResults(program.function, {});
  return success();
}

LogicalResult StepBuilder::buildUpdateProgram() {
  OpBuilder b(forward.getContext());
  Location loc = forward.getLoc();
  auto function = func::FuncOp::create(loc, "", b.getFunctionType({}, {}));
  setRole(function, ProgramRole::Update);
  table.getSymbols().insert(function);
  b.setInsertionPointToStart(function.addEntryBlock());

  auto scalar = RankedTensorType::get({}, b.getF32Type());
  SmallVector<VariableOp> accumulated;
  for (StringRef name : {kLossSumName, kCountName}) {
    FailureOr<VariableOp> variable =
        table.getOrCreate(name, scalar, VariableRole::Loss);
    if (failed(variable))
      return failure();
    accumulated.push_back(*variable);
  }
  Value lossSum = loadVariable(b, loc, accumulated[0]);
  Value count = atLeastOne(b, loc, loadVariable(b, loc, accumulated[1]));
  Value scale = b.create<arith::DivFOp>(
      loc, createSplat(b, loc, count.getType(), 1), count);
  Value loss = b.create<arith::DivFOp>(loc, lossSum, count);

  SmallVector<ParameterGradient> updates;
  for (VariableOp parameter : parameters) {
    VariableOp gradient = table.lookupState(StateKind::Gradient, parameter);
    if (!gradient)
      continue; // the loss does not depend on it
    accumulated.push_back(gradient);
    Location at = parameter.getLoc();
    updates.push_back({parameter, loadVariable(b, at, parameter),
                       loadVariable(b, at, gradient)});
  }
  FailureOr<UpdateResults> updated =
      buildUpdate(b, loc, table, updates, scale, options);
  if (failed(updated))
    return failure();
  for (VariableOp variable : accumulated)
    storeVariable(b, loc, variable,
                  createSplat(b, loc, variable.getTensorType(), 0));

  b.create<func::ReturnOp>(loc);
  setResults(function, makeStepResults(loss, *updated));
  return success();
}

void StepBuilder::buildEvaluate() {
  Program program(forward, results, ProgramRole::Evaluate, table.getSymbols());
  removeDropout(program.function);
  removeStores(program.function);
  eraseDeadOps(program.body());
}

LogicalResult StepBuilder::buildGradientsProgram() {
  Program program(forward, results, ProgramRole::Gradients, table.getSymbols());
  removeDropout(program.function);
  removeStores(program.function);
  OpBuilder &b = program.builder;
  Location loc = program.loc();
  Value count = atLeastOne(b, loc, program.count());
  FailureOr<SmallVector<Value>> gradients = differentiateMean(program, count);
  if (failed(gradients))
    return failure();
  Value loss = b.create<arith::DivFOp>(loc, program.lossSum(), count);
  SmallVector<Result> values = {makeResult("loss", PortRole::Loss, loss)};
  for (unsigned i : results.outputs)
    values.push_back({program.body().getTerminator()->getOperand(i),
                      forward.getResultAttrDict(i)});
  for (auto [variable, gradient] : llvm::zip(parameters, *gradients)) {
    if (!gradient)
      gradient = createSplat(b, loc, variable.getTensorType(), 0);
    auto role = PortRoleAttr::get(b.getContext(), PortRole::Gradient,
                                  variable.getSymNameAttr());
    values.push_back(
        {gradient,
         getPortAttrs(b.getContext(),
                      getStateName(StateKind::Gradient, variable.getSymName()),
                      role)});
  }
  setResults(program.function, values);
  return success();
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {

struct BuildTrainingStepPass
    : heddle::impl::BuildTrainingStepPassBase<BuildTrainingStepPass> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(build()))
      signalPassFailure();
  }

  LogicalResult build() {
    ModuleOp module = getOperation();
    TrainingStepOptions options = getOptions();
    if (failed(verifyOptions(options, module.getLoc())))
      return failure();
    auto forward = module.lookupSymbol<func::FuncOp>("forward");
    if (!forward)
      return module.emitError() << "expected a function @forward";
    FailureOr<ForwardResults> results = verifyForward(forward);
    SymbolTable symbols(module);
    if (failed(results) || failed(verifyStores(forward, symbols)) ||
        failed(verifyGroups(module, symbols)) || failed(verifyModule(module)))
      return failure();
    StepBuilder builder(module, forward, *results, options);
    if (options.train && options.microBatches == 1 &&
        failed(builder.buildStep()))
      return failure();
    if (options.train && options.microBatches > 1) {
      if (failed(builder.buildAccumulate()) ||
          failed(builder.buildUpdateProgram()))
        return failure();
      module->setAttr(
          kMicroBatchesAttrName,
          OpBuilder(module).getI64IntegerAttr(options.microBatches));
    }
    if (options.evaluate)
      builder.buildEvaluate();
    if (options.gradients && failed(builder.buildGradientsProgram()))
      return failure();
    forward.erase();
    for (VariableOp variable : module.getOps<VariableOp>())
      variable->removeAttr(kGroupAttrName);
    return success();
  }

  TrainingStepOptions getOptions() const {
    TrainingStepOptions o;
    o.optimizer = optimizer;
    o.learningRate = learningRate;
    o.beta1 = beta1;
    o.beta2 = beta2;
    o.epsilon = epsilon;
    o.weightDecay = weightDecay;
    o.momentum = momentum;
    o.clip = clip;
    o.schedule = schedule;
    o.warmupSteps = warmupSteps;
    o.totalSteps = totalSteps;
    o.finalRatio = finalRatio;
    o.microBatches = microBatches;
    o.dropout = dropout;
    o.seed = seed;
    o.train = train;
    o.evaluate = evaluate;
    o.gradients = gradients;
    return o;
  }
};

} // namespace
