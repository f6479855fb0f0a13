//===- ModelBuilder.cpp - Named layers of a forward program ---------------===//

#include "ModelBuilder.h"

#include "dialects/Heddle/Shape.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace heddle;

const llvm::StringLiteral heddle::supportedActivations =
    "gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, relu, silu or swish";

std::optional<Activation> heddle::parseActivation(StringRef name) {
  // gelu_new, gelu_fast and gelu_pytorch_tanh are three names of one formula.
  return llvm::StringSwitch<std::optional<Activation>>(name)
      .Case("gelu", Activation::Gelu)
      .Cases("gelu_new", "gelu_fast", "gelu_pytorch_tanh", Activation::GeluTanh)
      .Case("relu", Activation::Relu)
      .Cases("silu", "swish", Activation::Silu)
      .Default(std::nullopt);
}

static DictionaryAttr getPort(MLIRContext *context, StringRef name,
                              PortRole role) {
  return getPortAttrs(context, name, PortRoleAttr::get(context, role));
}

ModelBuilder::ModelBuilder(MLIRContext &context, StringRef family,
                           StringRef prefix, int64_t batch, int64_t sequence,
                           int64_t seed)
    : builder(&context), batch(batch), sequence(sequence), prefix(prefix),
      seed(seed) {
  context.loadDialect<HeddleDialect, arith::ArithDialect, func::FuncDialect>();
  Location loc = at(family);
  module = ModuleOp::create(loc);
  (*module)->setAttr(kModelAttrName, builder.getStringAttr(family));
  builder.setInsertionPointToEnd(module->getBody());
  Type ids = RankedTensorType::get({batch, sequence}, builder.getI32Type());
  // The result types are set once the logits are built.
  forward = builder.create<func::FuncOp>(
      loc, "forward", builder.getFunctionType({ids, ids}, {}));
  DictionaryAttr arguments[] = {getPort(&context, "tokens", PortRole::Features),
                                getPort(&context, "targets", PortRole::Labels)};
  forward.setAllArgAttrs(arguments);
  builder.setInsertionPointToEnd(forward.addEntryBlock());
}

Location ModelBuilder::at(StringRef name) {
  return NameLoc::get(builder.getStringAttr(name));
}

InitAttr ModelBuilder::zeros() {
  return InitAttr::get(builder.getContext(), InitKind::Zeros, FloatAttr());
}

InitAttr ModelBuilder::ones() {
  return InitAttr::get(builder.getContext(), InitKind::Ones, FloatAttr());
}

InitAttr ModelBuilder::normal(double standardDeviation) {
  return InitAttr::get(builder.getContext(), InitKind::Normal,
                       builder.getF64FloatAttr(standardDeviation));
}

RankedTensorType ModelBuilder::f32(ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, builder.getF32Type());
}

Value ModelBuilder::named(StringRef name, Operation *op) {
  setOpName(op, builder.getStringAttr(name));
  return op->getResult(0);
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

Value ModelBuilder::load(const Parameter &parameter) {
  Location loc = at(parameter.name);
  RankedTensorType type = f32(parameter.shape);
  if (declared.insert(parameter.name).second) {
    ArrayRef<int64_t> fileShape = parameter.checkpointShape.empty()
                                      ? ArrayRef(parameter.shape)
                                      : ArrayRef(parameter.checkpointShape);
    std::string fileName = (parameter.hasPrefix ? prefix : "") + parameter.name;
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(forward);
    builder.create<VariableOp>(
        loc, parameter.name, type, VariableRole::Parameter, parameter.init,
        ShardingAttr(),
        CheckpointAttr::get(builder.getContext(),
                            builder.getStringAttr(fileName), fileShape),
        SliceAttr(), StateAttr());
  }
  return builder.create<LoadOp>(loc, type, parameter.name);
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

Value ModelBuilder::linear(StringRef name, StringRef letters, Value x,
                           const Parameter &weight) {
  Value w = load(weight);
  auto [operands, result] = letters.split(" -> ");
  auto [lhs, rhs] = operands.split(", ");
  SmallVector<int64_t> shape;
  for (char letter : result) {
    size_t inLhs = lhs.find(letter);
    shape.push_back(inLhs != StringRef::npos ? shapeOf(x)[inLhs]
                                             : shapeOf(w)[rhs.find(letter)]);
  }
  auto contraction = ContractionAttr::get(
      builder.getContext(), builder.getStringAttr(lhs),
      builder.getStringAttr(rhs), builder.getStringAttr(result));
  return builder.create<ContractOp>(at(name), f32(shape), x, w, contraction,
                                    ContractPass::Forward,
                                    builder.getStringAttr(name));
}

Value ModelBuilder::addBias(StringRef name, Value x, const Parameter &bias,
                            ArrayRef<int64_t> along) {
  std::string biasName = (name + ".bias").str();
  Value repeated =
      builder.create<BroadcastOp>(at(biasName), x.getType(), load(bias), along,
                                  builder.getStringAttr(biasName));
  return add(biasName, x, repeated);
}

Value ModelBuilder::embedding(StringRef name, const Parameter &table,
                              Value ids) {
  Value rows = load(table);
  SmallVector<int64_t> shape(shapeOf(ids));
  shape.push_back(table.shape.back());
  return builder.create<EmbeddingOp>(at(name), f32(shape), rows, ids, Value(),
                                     builder.getStringAttr(name));
}

Value ModelBuilder::layerNorm(StringRef name, Value x, double epsilon) {
  ArrayRef<int64_t> shape = shapeOf(x);
  Value weight = load({(name + ".weight").str(), {shape.back()}, ones()});
  Value bias = load({(name + ".bias").str(), {shape.back()}, zeros()});
  Type stats = f32(shape.drop_back());
  return builder
      .create<LayerNormOp>(at(name), x.getType(), stats, stats, x, weight, bias,
                           llvm::APFloat(epsilon), builder.getStringAttr(name))
      .getY();
}

Value ModelBuilder::rmsNorm(StringRef name, Value x, double epsilon) {
  ArrayRef<int64_t> shape = shapeOf(x);
  Value weight = load({(name + ".weight").str(), {shape.back()}, ones()});
  return builder
      .create<RmsNormOp>(at(name), x.getType(), f32(shape.drop_back()), x,
                         weight, llvm::APFloat(epsilon),
                         builder.getStringAttr(name))
      .getY();
}

Value ModelBuilder::activate(StringRef name, Activation activation, Value x) {
  Location loc = at(name);
  StringAttr opName = builder.getStringAttr(name);
  switch (activation) {
  case Activation::Gelu:
  case Activation::GeluTanh: {
    auto form = activation == Activation::Gelu ? GeluApproximation::None
                                               : GeluApproximation::Tanh;
    return builder.create<GeluOp>(
        loc, x, GeluApproximationAttr::get(builder.getContext(), form), opName);
  }
  case Activation::Silu:
    return builder.create<SiluOp>(loc, x, opName);
  case Activation::Relu: {
    Value zero = builder.create<arith::ConstantOp>(
        loc, builder.getZeroAttr(x.getType()));
    return named(name, builder.create<arith::MaximumFOp>(loc, x, zero));
  }
  }
  llvm_unreachable("all activations are handled");
}

Value ModelBuilder::step() {
  if (stepValue)
    return stepValue;
  auto type = RankedTensorType::get({}, builder.getI64Type());
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(forward);
  builder.create<VariableOp>(at("steps"), "steps", type, VariableRole::Counter,
                             zeros(), ShardingAttr(), CheckpointAttr(),
                             SliceAttr(), StateAttr());
  builder.setInsertionPointToStart(&forward.front());
  stepValue = builder.create<LoadOp>(at("steps"), type, "steps");
  return stepValue;
}

Value ModelBuilder::dropout(StringRef name, Value x, double rate) {
  if (rate == 0)
    return x;
  return builder.create<DropoutOp>(
      at(name), x.getType(), x, step(), ValueRange(), llvm::APFloat(rate), seed,
      DenseI64ArrayAttr(), builder.getStringAttr(name));
}

Value ModelBuilder::attention(StringRef name, Value q, Value k, Value v,
                              double scale, double dropoutRate) {
  return builder
      .create<AttentionOp>(at(name), q.getType(), f32(shapeOf(q).drop_back()),
                           q, k, v, dropoutRate == 0 ? Value() : step(),
                           /*mask=*/Value(), ValueRange(), llvm::APFloat(scale),
                           /*causal=*/true, /*window=*/IntegerAttr(),
                           llvm::APFloat(dropoutRate), seed,
                           DenseI64ArrayAttr(), builder.getStringAttr(name))
      .getOutput();
}

Value ModelBuilder::add(StringRef name, Value a, Value b) {
  return named(name, builder.create<arith::AddFOp>(at(name), a, b));
}

Value ModelBuilder::multiply(StringRef name, Value a, Value b) {
  return named(name, builder.create<arith::MulFOp>(at(name), a, b));
}

//===----------------------------------------------------------------------===//
// Loss
//===----------------------------------------------------------------------===//

OwningOpRef<ModuleOp> ModelBuilder::finish(Value logits) {
  constexpr int64_t ignored = -100;
  StringRef name = "loss";
  Location loc = at(name);
  StringAttr opName = builder.getStringAttr(name);
  Value targets = forward.getArgument(1);
  Type rows = f32({batch, sequence}), scalar = f32({});
  Value losses = builder
                     .create<CrossEntropyOp>(loc, rows, rows, logits, targets,
                                             ignored, opName)
                     .getLoss();
  int64_t all[] = {0, 1};
  Value sum = builder.create<ReduceOp>(loc, scalar, ReductionKind::Sum, losses,
                                       all, opName);

  StringRef countName = "loss.count";
  Location countLoc = at(countName);
  Value label = builder.create<arith::ConstantOp>(
      countLoc, DenseElementsAttr::get(cast<ShapedType>(targets.getType()),
                                       builder.getI32IntegerAttr(ignored)));
  Value counts =
      named(countName, builder.create<arith::CmpIOp>(
                           countLoc, arith::CmpIPredicate::ne, targets, label));
  Value ones =
      named(countName, builder.create<arith::UIToFPOp>(countLoc, rows, counts));
  Value count =
      builder.create<ReduceOp>(countLoc, scalar, ReductionKind::Sum, ones, all,
                               builder.getStringAttr(countName));

  SmallVector<Value> results = {sum, count, logits};
  builder.create<func::ReturnOp>(loc, results);
  forward.setFunctionType(builder.getFunctionType(
      forward.getArgumentTypes(), TypeRange(ValueRange(results))));
  MLIRContext *context = builder.getContext();
  DictionaryAttr ports[] = {getPort(context, "loss_sum", PortRole::LossSum),
                            getPort(context, "count", PortRole::LabelCount),
                            getPort(context, "logits", PortRole::Output)};
  forward.setAllResultAttrs(ports);
  return std::move(module);
}
