//===- Optimizer.cpp - Clipping, schedule, update -------------------------===//

#include "Optimizer.h"
#include "heddle/Autodiff/Autodiff.h"
#include "heddle/Autodiff/StateNames.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/Format.h"
#include <cmath>
#include <numbers>

using namespace mlir;
using namespace heddle;

LogicalResult heddle::verifyOptions(const TrainingStepOptions &options,
                                    Location loc) {
  auto expect = [&](bool good, StringRef name, StringRef range,
                    double value) -> LogicalResult {
    if (good)
      return success();
    std::string text;
    llvm::raw_string_ostream(text) << llvm::format("%g", value);
    return emitError(loc) << "expected " << name << " " << range << ", got "
                          << text;
  };
  auto isPart = [](double x) { return x >= 0 && x < 1; };
  auto isSize = [](double x) { return x >= 0 && std::isfinite(x); };
  const TrainingStepOptions &o = options;
  if (failed(expect(isSize(o.learningRate), "learning-rate", "of at least 0",
                    o.learningRate)) ||
      failed(expect(isPart(o.beta1), "beta1", "in [0, 1)", o.beta1)) ||
      failed(expect(isPart(o.beta2), "beta2", "in [0, 1)", o.beta2)) ||
      failed(
          expect(isSize(o.epsilon), "epsilon", "of at least 0", o.epsilon)) ||
      failed(expect(isSize(o.weightDecay), "weight-decay", "of at least 0",
                    o.weightDecay)) ||
      failed(expect(isPart(o.momentum), "momentum", "in [0, 1)", o.momentum)) ||
      failed(expect(isSize(o.clip), "clip", "of at least 0", o.clip)) ||
      failed(expect(o.warmupSteps >= 0, "warmup-steps", "of at least 0",
                    o.warmupSteps)) ||
      failed(expect(o.finalRatio >= 0 && o.finalRatio <= 1, "final-ratio",
                    "in [0, 1]", o.finalRatio)) ||
      failed(expect(o.microBatches >= 1, "micro-batches", "of at least 1",
                    o.microBatches)))
    return failure();
  if (o.schedule == ScheduleKind::Cosine &&
      (o.totalSteps < 1 || o.totalSteps < o.warmupSteps))
    return emitError(loc) << "expected total-steps (--steps) of a cosine "
                             "schedule of at least "
                          << std::max<int64_t>(o.warmupSteps, 1)
                          << ", for warmup-steps (--warmup) " << o.warmupSteps
                          << ", got " << o.totalSteps;
  return success();
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

GroupAttr heddle::getGroup(VariableOp parameter) {
  return parameter->getAttrOfType<GroupAttr>(kGroupAttrName);
}

LogicalResult heddle::verifyGroups(ModuleOp module,
                                   const SymbolTable &symbols) {
  auto type = RankedTensorType::get({}, Float64Type::get(module.getContext()));
  for (VariableOp variable : module.getOps<VariableOp>()) {
    GroupAttr group = getGroup(variable);
    if (!group)
      continue;
    if (variable.getRole() != VariableRole::Parameter)
      return variable.emitOpError()
             << "expected " << kGroupAttrName << " on parameters alone, got it "
             << "on role " << stringifyVariableRole(variable.getRole());
    auto rate = symbols.lookup<VariableOp>(group.getLearningRate().getAttr());
    if (!rate || rate.getRole() != VariableRole::Setting ||
        rate.getTensorType() != type)
      return variable.emitOpError()
             << "expected the learning rate of its group, "
             << group.getLearningRate()
             << ", to be a variable of role setting and type " << type;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Variables
//===----------------------------------------------------------------------===//

VariableTable::VariableTable(ModuleOp module)
    : module(module), symbols(module) {
  for (VariableOp variable : module.getOps<VariableOp>())
    last = variable;
}

FailureOr<VariableOp> VariableTable::getOrCreate(StringRef name,
                                                 RankedTensorType type,
                                                 VariableRole role,
                                                 StateAttr state) {
  if (Operation *known = symbols.lookup(name)) {
    auto variable = dyn_cast<VariableOp>(known);
    if (variable && variable.getTensorType() == type &&
        variable.getRole() == role &&
        (!variable.getStateAttr() || variable.getStateAttr() == state)) {
      if (state)
        variable.setStateAttr(state);
      return variable;
    }
    return known->emitError()
           << "expected @" << name << " to be a variable of type " << type
           << " and role " << stringifyVariableRole(role)
           << ", as the training step needs it";
  }
  OpBuilder builder(module.getContext());
  if (last)
    builder.setInsertionPointAfter(last);
  else
    builder.setInsertionPointToStart(module.getBody());
  auto variable = builder.create<VariableOp>(
      module.getLoc(), name, type, role,
      InitAttr::get(module.getContext(), InitKind::Zeros, FloatAttr()),
      ShardingAttr(), CheckpointAttr(), SliceAttr(), state);
  symbols.insert(variable, Block::iterator(variable));
  return last = variable;
}

FailureOr<VariableOp> VariableTable::getOrCreateState(StateKind kind,
                                                      VariableOp parameter) {
  auto state = StateAttr::get(parameter.getContext(), kind,
                              FlatSymbolRefAttr::get(parameter));
  FailureOr<VariableOp> variable =
      getOrCreate(getStateName(kind, parameter.getSymName()),
                  parameter.getTensorType(), state.getRole(), state);
  // The ranks that have a parameter have its state.
  if (Attribute ranks = parameter->getAttr(kRanksAttrName);
      ranks && succeeded(variable))
    (*variable)->setAttr(kRanksAttrName, ranks);
  return variable;
}

VariableOp VariableTable::lookupState(StateKind kind,
                                      VariableOp parameter) const {
  return symbols.lookup<VariableOp>(getStateName(kind, parameter.getSymName()));
}

Value heddle::loadVariable(OpBuilder &builder, Location loc,
                           VariableOp variable) {
  return builder.create<LoadOp>(loc, variable.getTensorType(),
                                FlatSymbolRefAttr::get(variable));
}

void heddle::storeVariable(OpBuilder &builder, Location loc,
                           VariableOp variable, Value value) {
  builder.create<StoreOp>(loc, value, FlatSymbolRefAttr::get(variable));
}

//===----------------------------------------------------------------------===//
// Arithmetic on tensors of one type
//===----------------------------------------------------------------------===//

namespace {

/// Short names for elementwise ops. A number stands for a tensor filled with
/// it.
class Arithmetic {
public:
  Arithmetic(OpBuilder &builder, Location loc, RankedTensorType type)
      : builder(builder), loc(loc), type(type) {}

  Value constant(double value) const {
    return createSplat(builder, loc, type, value);
  }
  Value add(Value a, Value b) const {
    return builder.create<arith::AddFOp>(loc, a, b);
  }
  Value sub(Value a, Value b) const {
    return builder.create<arith::SubFOp>(loc, a, b);
  }
  Value mul(Value a, Value b) const {
    return builder.create<arith::MulFOp>(loc, a, b);
  }
  Value mul(Value a, double b) const { return mul(a, constant(b)); }
  Value div(Value a, Value b) const {
    return builder.create<arith::DivFOp>(loc, a, b);
  }
  Value min(Value a, Value b) const {
    return builder.create<arith::MinimumFOp>(loc, a, b);
  }
  Value sqrt(Value a) const { return builder.create<math::SqrtOp>(loc, a); }
  Value exp(Value a) const { return builder.create<math::ExpOp>(loc, a); }
  Value cos(Value a) const { return builder.create<math::CosOp>(loc, a); }
  Value selectLess(Value a, Value b, Value yes, Value no) const {
    Value less =
        builder.create<arith::CmpFOp>(loc, arith::CmpFPredicate::OLT, a, b);
    return builder.create<arith::SelectOp>(loc, less, yes, no);
  }
  /// Broadcasts a scalar.
  Value repeat(Value scalar) const {
    return builder.create<BroadcastOp>(
        loc, type, scalar, builder.getDenseI64ArrayAttr({}), StringAttr());
  }

private:
  OpBuilder &builder;
  Location loc;
  RankedTensorType type;
};

} // namespace

static RankedTensorType scalarType(Type element) {
  return RankedTensorType::get({}, element);
}

/// Builds the learning rate after `t` completed steps; both are tensor<f64>.
static Value buildLearningRate(const Arithmetic &s, Value t,
                               const TrainingStepOptions &o) {
  Value rate = s.constant(o.learningRate);
  if (o.schedule == ScheduleKind::Cosine) {
    double length = std::max<int64_t>(o.totalSteps - o.warmupSteps, 1);
    Value done = s.div(s.sub(t, s.constant(o.warmupSteps)), s.constant(length));
    Value wave = s.cos(s.mul(s.min(done, s.constant(1)), std::numbers::pi));
    double floor = o.learningRate * o.finalRatio;
    double half = (o.learningRate - floor) / 2;
    rate = s.add(s.mul(s.add(s.constant(1), wave), half), s.constant(floor));
  }
  if (o.warmupSteps > 0) {
    Value rising = s.div(s.mul(s.add(t, s.constant(1)), o.learningRate),
                         s.constant(o.warmupSteps));
    rate = s.selectLess(t, s.constant(o.warmupSteps), rising, rate);
  }
  return rate;
}

/// Builds the 2-norm of all gradients together; null if there are none.
static Value buildNorm(OpBuilder &builder, Location loc,
                       ArrayRef<ParameterGradient> gradients) {
  auto scalar = scalarType(builder.getF32Type());
  Value sum;
  for (const ParameterGradient &g : gradients) {
    auto type = cast<RankedTensorType>(g.gradient.getType());
    Value square = builder.create<arith::MulFOp>(loc, g.gradient, g.gradient);
    if (type.getRank() > 0)
      square = builder.create<ReduceOp>(
          loc, scalar,
          ReductionKindAttr::get(builder.getContext(), ReductionKind::Sum),
          square,
          builder.getDenseI64ArrayAttr(
              llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()))),
          StringAttr());
    sum = sum ? builder.create<arith::AddFOp>(loc, sum, square) : square;
  }
  return sum ? builder.create<math::SqrtOp>(loc, sum) : sum;
}

//===----------------------------------------------------------------------===//
// Optimizers
//===----------------------------------------------------------------------===//

namespace {

/// Values that the updates of a group of parameters share, as tensor<f32>.
struct Shared {
  Value gradientScale; ///< null for 1
  Value learningRate;
  double weightDecay = 0;
  Value decay;          ///< AdamW: 1 - lr * weight decay; null for 1
  Value stepSize;       ///< AdamW: lr / (1 - beta1^n)
  Value rootCorrection; ///< AdamW: 1 / sqrt(1 - beta2^n)
};

} // namespace

/// Returns whether weight decay applies to a variable. A group decays all of
/// its parameters. Without groups, parameters of one dimension in a checkpoint
/// are left out: biases and weights of norms. (A factored bias may have more
/// dimensions in the program.)
static bool isDecayed(VariableOp variable) {
  if (getGroup(variable))
    return true;
  if (CheckpointAttr checkpoint = variable.getCheckpointAttr())
    return checkpoint.getShape().size() >= 2;
  return variable.getTensorType().getRank() >= 2;
}

/// Emits the update of AdamW or of Adam. In Adam, the decay is part of the
/// gradient.
static LogicalResult updateAdamW(OpBuilder &builder, Location loc,
                                 VariableTable &table,
                                 const ParameterGradient &p,
                                 const Shared &shared,
                                 const TrainingStepOptions &o) {
  VariableOp variable = p.variable;
  RankedTensorType type = variable.getTensorType();
  FailureOr<VariableOp> mean =
      table.getOrCreateState(StateKind::AdamWMean, variable);
  FailureOr<VariableOp> square =
      table.getOrCreateState(StateKind::AdamWSquare, variable);
  if (failed(mean) || failed(square))
    return failure();

  Arithmetic t(builder, loc, type);
  Value g = p.gradient, x = p.parameter;
  if (shared.gradientScale)
    g = t.mul(g, t.repeat(shared.gradientScale));
  if (o.optimizer == OptimizerKind::Adam && shared.weightDecay > 0 &&
      isDecayed(variable))
    g = t.add(g, t.mul(x, shared.weightDecay));
  Value m = loadVariable(builder, loc, *mean);
  Value v = loadVariable(builder, loc, *square);
  m = t.add(m, t.mul(t.sub(g, m), 1 - o.beta1));
  v = t.add(t.mul(v, o.beta2), t.mul(t.mul(g, g), 1 - o.beta2));
  Value root = t.mul(t.sqrt(v), t.repeat(shared.rootCorrection));
  Value direction = t.div(m, t.add(root, t.constant(o.epsilon)));
  if (shared.decay && isDecayed(variable))
    x = t.mul(x, t.repeat(shared.decay));
  x = t.sub(x, t.mul(direction, t.repeat(shared.stepSize)));
  storeVariable(builder, loc, *mean, m);
  storeVariable(builder, loc, *square, v);
  storeVariable(builder, loc, variable, x);
  return success();
}

static LogicalResult updateSGD(OpBuilder &builder, Location loc,
                               VariableTable &table, const ParameterGradient &p,
                               const Shared &shared,
                               const TrainingStepOptions &o) {
  VariableOp variable = p.variable;
  RankedTensorType type = variable.getTensorType();
  Arithmetic t(builder, loc, type);
  Value g = p.gradient, x = p.parameter;
  if (shared.gradientScale)
    g = t.mul(g, t.repeat(shared.gradientScale));
  if (shared.weightDecay > 0 && isDecayed(variable))
    g = t.add(g, t.mul(x, shared.weightDecay));
  if (o.momentum > 0) {
    FailureOr<VariableOp> momentum =
        table.getOrCreateState(StateKind::SGDMomentum, variable);
    if (failed(momentum))
      return failure();
    g = t.add(t.mul(loadVariable(builder, loc, *momentum), o.momentum), g);
    storeVariable(builder, loc, *momentum, g);
  }
  x = t.sub(x, t.mul(g, t.repeat(shared.learningRate)));
  storeVariable(builder, loc, variable, x);
  return success();
}

namespace {

/// Builds the values that groups of parameters share, from the step counter.
/// Scalars are f64, because 1 - 0.999^n in f32 would lose three digits at the
/// first steps.
class SharedBuilder {
public:
  SharedBuilder(OpBuilder &builder, Location loc, Value count, Value next,
                const TrainingStepOptions &options)
      : builder(builder), loc(loc),
        f64(builder, loc, scalarType(builder.getF64Type())), t(toF64(count)),
        n(toF64(next)), options(options) {}

  /// Builds the values of the parameters without a group.
  Shared build() {
    return build(buildLearningRate(f64, t, options), options.weightDecay);
  }
  /// Builds the values of a group.
  Shared build(GroupAttr group) {
    Value rate = builder.create<LoadOp>(loc, scalarType(builder.getF64Type()),
                                        group.getLearningRate());
    return build(rate, group.getDecay().getValueAsDouble());
  }

private:
  Shared build(Value rate, double weightDecay) {
    Shared shared;
    shared.learningRate = narrow(rate);
    shared.weightDecay = weightDecay;
    if (options.optimizer == OptimizerKind::SGD)
      return shared;
    shared.stepSize = narrow(f64.div(rate, correction(options.beta1)));
    shared.rootCorrection =
        narrow(f64.div(f64.constant(1), f64.sqrt(correction(options.beta2))));
    if (weightDecay > 0 && options.optimizer == OptimizerKind::AdamW)
      shared.decay =
          narrow(f64.sub(f64.constant(1), f64.mul(rate, weightDecay)));
    return shared;
  }
  /// Builds 1 - beta^n.
  Value correction(double beta) {
    if (beta == 0)
      return f64.constant(1);
    return f64.sub(f64.constant(1), f64.exp(f64.mul(n, std::log(beta))));
  }
  Value toF64(Value integer) {
    return builder.create<arith::SIToFPOp>(
        loc, scalarType(builder.getF64Type()), integer);
  }
  Value narrow(Value wide) {
    return builder.create<arith::TruncFOp>(
        loc, scalarType(builder.getF32Type()), wide);
  }

  OpBuilder &builder;
  Location loc;
  Arithmetic f64;
  Value t, n; ///< the completed steps, without and with this one
  const TrainingStepOptions &options;
};

} // namespace

FailureOr<UpdateResults>
heddle::buildUpdate(OpBuilder &builder, Location loc, VariableTable &table,
                    ArrayRef<ParameterGradient> gradients, Value scale,
                    const TrainingStepOptions &o) {
  auto countType = scalarType(builder.getI64Type());
  Arithmetic f32(builder, loc, scalarType(builder.getF32Type()));
  FailureOr<VariableOp> counter =
      table.getOrCreate("steps", countType, VariableRole::Counter);
  if (failed(counter))
    return failure();
  Value count = loadVariable(builder, loc, *counter);
  Value next = builder.create<arith::AddIOp>(
      loc, count, createSplat(builder, loc, countType, 1));
  SharedBuilder sharedBuilder(builder, loc, count, next, o);
  // In the order of the parameters.
  llvm::MapVector<GroupAttr, Shared> groups;
  for (const ParameterGradient &gradient : gradients)
    if (GroupAttr group = getGroup(gradient.variable); !groups.count(group))
      groups[group] =
          group ? sharedBuilder.build(group) : sharedBuilder.build();
  if (groups.empty())
    groups[GroupAttr()] = sharedBuilder.build();

  Value norm = buildNorm(builder, loc, gradients);
  if (!norm)
    norm = f32.constant(0);
  if (scale)
    norm = f32.mul(norm, scale);
  Value gradientScale = scale;
  if (o.clip > 0) {
    Value ratio =
        f32.div(f32.constant(o.clip), f32.add(norm, f32.constant(1e-6)));
    Value clip = f32.min(ratio, f32.constant(1));
    gradientScale = scale ? f32.mul(scale, clip) : clip;
  }

  for (const ParameterGradient &gradient : gradients) {
    Location at = gradient.gradient.getLoc();
    Shared shared = groups[getGroup(gradient.variable)];
    shared.gradientScale = gradientScale;
    bool sgd = o.optimizer == OptimizerKind::SGD;
    if (failed(sgd ? updateSGD(builder, at, table, gradient, shared, o)
                   : updateAdamW(builder, at, table, gradient, shared, o)))
      return failure();
  }
  storeVariable(builder, loc, *counter, next);
  return UpdateResults{norm, groups.front().second.learningRate};
}
