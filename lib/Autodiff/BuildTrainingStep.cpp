//===- BuildTrainingStep.cpp - Programs of training from @forward ---------===//

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

/// The results of @forward, in order.
enum ForwardResult { kLossSum, kCount, kLogits, kNumForwardResults };

namespace {

/// A copy of @forward that becomes one of the programs.
struct Program {
  func::FuncOp function;
  OpBuilder builder; ///< before the return
  Value lossSum, count, logits;

  Program(func::FuncOp forward, StringRef name, SymbolTable &symbols)
      : function(forward.clone()), builder(forward.getContext()) {
    function.setName(name);
    symbols.insert(function);
    Operation *terminator = function.getBody().front().getTerminator();
    builder.setInsertionPoint(terminator);
    lossSum = terminator->getOperand(kLossSum);
    count = terminator->getOperand(kCount);
    logits = terminator->getOperand(kLogits);
  }

  Block &body() { return function.getBody().front(); }
  Location loc() { return function.getLoc(); }

  /// Returns the first load of the variable: its value when the program begins.
  Value findLoad(VariableOp variable) {
    for (LoadOp load : body().getOps<LoadOp>())
      if (load.getVariable() == variable.getSymName())
        return load;
    return nullptr;
  }

  /// Replaces the results of the function and names them.
  void setResults(ArrayRef<std::pair<std::string, Value>> results);
};

class StepBuilder {
public:
  StepBuilder(ModuleOp module, func::FuncOp forward,
              const TrainingStepOptions &options)
      : forward(forward), table(module), options(options) {
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

  func::FuncOp forward;
  VariableTable table;
  const TrainingStepOptions &options;
  SmallVector<VariableOp> parameters;
};

} // namespace

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

static LogicalResult verifyForward(func::FuncOp forward) {
  auto isScalar = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.getRank() == 0 && tensor.getElementType().isF32();
  };
  FunctionType type = forward.getFunctionType();
  if (forward.isExternal() || !llvm::hasSingleElement(forward.getBody()))
    return forward.emitError() << "expected @forward to have one block";
  if (type.getNumResults() != kNumForwardResults ||
      !isScalar(type.getResult(kLossSum)) || !isScalar(type.getResult(kCount)))
    return forward.emitError()
           << "expected @forward to return the sum of the losses and the count "
              "of tokens, both tensor<f32>, and the logits, got "
           << type;
  return success();
}

/// Erases unused ops.
static void eraseDeadOps(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

void Program::setResults(ArrayRef<std::pair<std::string, Value>> results) {
  SmallVector<Value> values;
  SmallVector<DictionaryAttr> attrs;
  for (const auto &[name, value] : results) {
    values.push_back(value);
    attrs.push_back(builder.getDictionaryAttr(
        builder.getNamedAttr(kNameAttrName, builder.getStringAttr(name))));
  }
  body().getTerminator()->setOperands(values);
  function.setFunctionType(builder.getFunctionType(
      function.getArgumentTypes(), TypeRange(ValueRange(values))));
  function.setResAttrsAttr(ArrayAttr());
  function.setAllResultAttrs(attrs);
  eraseDeadOps(body());
}

/// Names the arguments tokens and targets.
static void nameArguments(func::FuncOp forward) {
  StringRef names[] = {"tokens", "targets"};
  for (unsigned i = 0; i < forward.getNumArguments() && i < 2; ++i)
    if (!forward.getArgAttr(i, kNameAttrName))
      forward.setArgAttr(i, kNameAttrName,
                         StringAttr::get(forward.getContext(), names[i]));
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
  for (LoadOp load : program.body().getOps<LoadOp>())
    if (auto it = indices.find(load.getVariable()); it != indices.end()) {
      loads.push_back(load);
      owners.push_back(it->second);
    }
  FailureOr<SmallVector<Value>> ofLoads = buildGradients(
      program.builder, program.body(), Seed{program.lossSum, seed}, loads);
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
  Program program(forward, "step", table.getSymbols());
  configureDropout(program);
  OpBuilder &b = program.builder;
  Location loc = program.loc();
  Value count = atLeastOne(b, loc, program.count);
  FailureOr<SmallVector<Value>> gradients = differentiateMean(program, count);
  if (failed(gradients))
    return failure();

  SmallVector<ParameterGradient> updates;
  for (auto [variable, gradient] : llvm::zip(parameters, *gradients))
    if (gradient)
      updates.push_back({variable, program.findLoad(variable), gradient});
  FailureOr<UpdateResults> results =
      buildUpdate(b, loc, table, updates, /*scale=*/Value(), options);
  if (failed(results))
    return failure();
  Value loss = b.create<arith::DivFOp>(loc, program.lossSum, count);
  program.setResults({{"loss", loss},
                      {"grad_norm", results->gradNorm},
                      {"learning_rate", results->learningRate}});
  return success();
}

LogicalResult StepBuilder::buildAccumulate() {
  Program program(forward, "accumulate", table.getSymbols());
  configureDropout(program);
  OpBuilder &b = program.builder;
  Location loc = program.loc();

  // Each micro-batch draws random numbers of its own.
  auto counterType = RankedTensorType::get({}, b.getI64Type());
  for (LoadOp step : llvm::to_vector(program.body().getOps<LoadOp>())) {
    if (step.getVariable() != "steps")
      continue;
    FailureOr<VariableOp> variable =
        table.getOrCreate("micro_batch", counterType, VariableRole::Counter);
    if (failed(variable))
      return failure();
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointAfter(step);
    Value index = loadVariable(b, loc, *variable);
    Value count = createSplat(b, loc, counterType, options.microBatches);
    Value first = b.create<arith::MulIOp>(loc, step, count);
    Value number = b.create<arith::AddIOp>(loc, first, index);
    step.getResult().replaceAllUsesExcept(number, first.getDefiningOp());
  }

  Value seed = createSplat(b, loc, program.lossSum.getType(), 1);
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
  auto scalar = cast<RankedTensorType>(program.lossSum.getType());
  if (failed(accumulate(
          table.getOrCreate(kLossSumName, scalar, VariableRole::Loss),
          program.lossSum)) ||
      failed(
          accumulate(table.getOrCreate(kCountName, scalar, VariableRole::Loss),
                     program.count)))
    return failure();
  if (auto variable = table.getSymbols().lookup<VariableOp>("micro_batch")) {
    Value next = b.create<arith::AddIOp>(loc, loadVariable(b, loc, variable),
                                         createSplat(b, loc, counterType, 1));
    storeVariable(b, loc, variable, next);
  }
  program.setResults({});
  return success();
}

LogicalResult StepBuilder::buildUpdateProgram() {
  OpBuilder b(forward.getContext());
  Location loc = forward.getLoc();
  auto function =
      func::FuncOp::create(loc, "update", b.getFunctionType({}, {}));
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
  FailureOr<UpdateResults> results =
      buildUpdate(b, loc, table, updates, scale, options);
  if (failed(results))
    return failure();
  if (auto variable = table.getSymbols().lookup<VariableOp>("micro_batch"))
    accumulated.push_back(variable);
  for (VariableOp variable : accumulated)
    storeVariable(b, loc, variable,
                  createSplat(b, loc, variable.getTensorType(), 0));

  Value values[] = {loss, results->gradNorm, results->learningRate};
  b.create<func::ReturnOp>(loc, values);
  function.setFunctionType(
      b.getFunctionType({}, TypeRange(ValueRange(values))));
  StringRef names[] = {"loss", "grad_norm", "learning_rate"};
  for (auto [i, name] : llvm::enumerate(names))
    function.setResultAttr(i, kNameAttrName, b.getStringAttr(name));
  return success();
}

void StepBuilder::buildEvaluate() {
  Program program(forward, "evaluate", table.getSymbols());
  removeDropout(program.function);
  // Removing a dropout may have changed the returned values.
  Operation *terminator = program.body().getTerminator();
  program.setResults({{"loss_sum", terminator->getOperand(kLossSum)},
                      {"count", terminator->getOperand(kCount)},
                      {"logits", terminator->getOperand(kLogits)}});
}

LogicalResult StepBuilder::buildGradientsProgram() {
  Program program(forward, "gradients", table.getSymbols());
  removeDropout(program.function);
  OpBuilder &b = program.builder;
  Location loc = program.loc();
  Value count = atLeastOne(b, loc, program.count);
  FailureOr<SmallVector<Value>> gradients = differentiateMean(program, count);
  if (failed(gradients))
    return failure();
  Value loss = b.create<arith::DivFOp>(loc, program.lossSum, count);
  Value logits = program.body().getTerminator()->getOperand(kLogits);
  SmallVector<std::pair<std::string, Value>> results = {{"loss", loss},
                                                        {"logits", logits}};
  for (auto [variable, gradient] : llvm::zip(parameters, *gradients)) {
    if (!gradient)
      gradient = createSplat(b, loc, variable.getTensorType(), 0);
    results.emplace_back(
        getStateName(StateKind::Gradient, variable.getSymName()), gradient);
  }
  program.setResults(results);
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
    if (failed(verifyForward(forward)))
      return failure();
    for (StringRef name :
         {"step", "accumulate", "update", "evaluate", "gradients"})
      if (auto taken = module.lookupSymbol<func::FuncOp>(name))
        return taken.emitError()
               << "expected a module with @forward alone, got @" << name;
    for (VariableOp variable : module.getOps<VariableOp>())
      if (variable.getRole() == VariableRole::Parameter &&
          !variable.getTensorType().getElementType().isF32())
        return variable.emitError() << "expected a parameter of f32, got "
                                    << variable.getTensorType();
    nameArguments(forward);

    StepBuilder builder(module, forward, options);
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
