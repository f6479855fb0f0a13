//===- Interpreter.cpp - Values, variables and the walk over a function ---===//

#include "Interpreter.h"
#include "Evaluation.h"
#include "Execution.h"
#include "dialects/Heddle/Heddle.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace heddle;

static int64_t product(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

Tensor::Tensor(ArrayRef<int64_t> shape, double value)
    : shape(shape), values(product(shape), value) {}

int64_t Tensor::offset(ArrayRef<int64_t> index) const {
  int64_t offset = 0;
  for (auto [size, i] : llvm::zip(shape, index))
    offset = offset * size + i;
  return offset;
}

static ArrayRef<int64_t> shapeOf(Type type) {
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    return tensor.getShape();
  return {};
}

static void roundTo(Type type, Tensor &tensor) {
  auto element = dyn_cast<FloatType>(getElementTypeOrSelf(type));
  if (!element || element.isF64())
    return;
  for (double &value : tensor.values) {
    APFloat rounded(value);
    bool losesInfo;
    rounded.convert(element.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                    &losesInfo);
    value = rounded.convertToDouble();
  }
}

/// Evaluates the op's body at every point of the iteration space, on the
/// elements that its indexing maps select there.
LogicalResult Interpretation::evaluateStructured(linalg::LinalgOp op) {
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  Block &body = op->getRegion(0).front();
  unsigned numInputs = op.getNumDpsInputs();
  std::vector<Tensor> results;
  for (Value init : op.getDpsInits())
    results.push_back(values[init]);
  LogicalResult status = success();
  forEachIndex(op.getStaticLoopRanges(), [&](ArrayRef<int64_t> loops) {
    if (failed(status))
      return;
    for (BlockArgument argument : body.getArguments()) {
      unsigned i = argument.getArgNumber();
      const Tensor &tensor =
          i < numInputs ? values[op.getDpsInputs()[i]] : results[i - numInputs];
      Tensor number({}, tensor.at(maps[i].compose(loops)));
      values[argument] = number;
    }
    for (Operation &inner : body.without_terminator()) {
      if (auto index = dyn_cast<linalg::IndexOp>(inner))
        values[index] = Tensor({}, double(loops[index.getDim()]));
      else if (failed(evaluate(inner)))
        return void(status = failure());
    }
    for (auto [i, yielded] :
         llvm::enumerate(body.getTerminator()->getOperands()))
      results[i].at(maps[numInputs + i].compose(loops)) =
          values[yielded].values[0];
  });
  for (auto [result, value] : llvm::zip(op->getResults(), results))
    values[result] = value;
  return status;
}

/// Evaluates the op's body at every index of the result.
LogicalResult Interpretation::evaluateGenerate(tensor::GenerateOp op) {
  Tensor result(shapeOf(op.getType()));
  Block &body = op.getBody().front();
  LogicalResult status = success();
  forEachIndex(result.shape, [&](ArrayRef<int64_t> index) {
    for (auto [argument, i] : llvm::zip(body.getArguments(), index))
      values[argument] = Tensor({}, double(i));
    for (Operation &inner : body.without_terminator())
      if (failed(status) || failed(evaluate(inner)))
        return void(status = failure());
    result.at(index) = values[body.getTerminator()->getOperand(0)].values[0];
  });
  values[op] = std::move(result);
  return status;
}

/// Evaluates the taken branch of an `scf.if` in the body of a structured op.
/// There each device takes its own branch.
LogicalResult Interpretation::evaluateIf(scf::IfOp op) {
  Region &region = values[op.getCondition()].values[0] != 0
                       ? op.getThenRegion()
                       : op.getElseRegion();
  if (region.empty())
    return success();
  Block &block = region.front();
  for (Operation &inner : block.without_terminator())
    if (failed(evaluate(inner)))
      return failure();
  for (auto [result, yielded] : llvm::zip(op.getResults(), getResults(block)))
    values[result] = yielded;
  return success();
}

LogicalResult Interpretation::evaluate(Operation &op) {
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return evaluateIf(branch);
  if (auto generate = dyn_cast<tensor::GenerateOp>(op))
    return evaluateGenerate(generate);
  if (auto structured = dyn_cast<linalg::LinalgOp>(op);
      structured && !isa<linalg::FillOp, linalg::TransposeOp>(op))
    return evaluateStructured(structured);
  if (auto load = dyn_cast<LoadOp>(op)) {
    auto it = variables.find(load.getVariable());
    if (it == variables.end())
      return op.emitError()
             << "expected a value of variable @" << load.getVariable();
    values[load] = it->second;
    return success();
  }
  if (auto store = dyn_cast<StoreOp>(op)) {
    variables[store.getVariable()] = values[store.getValue()];
    return success();
  }
  // Makes all entries first, because inserting into the map moves its values.
  for (Value result : op.getResults())
    values[result] = Tensor(shapeOf(result.getType()));
  auto valueOf = [&](Value value) -> const Tensor & {
    return values.find(value)->second;
  };
  Evaluation e{&op, {}, {}, valueOf};
  for (Value operand : op.getOperands())
    e.operands.push_back(&valueOf(operand));
  for (Value result : op.getResults())
    e.results.push_back(&values.find(result)->second);
  if (!(evaluateElementwise(e) || evaluateProduct(e) ||
        evaluateNormalization(e) || evaluateVocabulary(e) || evaluateShape(e) ||
        evaluatePositional(e)))
    return op.emitError() << "the interpreter does not know '" << op.getName()
                          << "'";
  if (e.hasFailed)
    return failure();
  if (options.roundToType)
    for (Value result : op.getResults())
      roundTo(result.getType(), values[result]);
  return success();
}

LogicalResult Interpretation::begin(func::FuncOp function,
                                    ArrayRef<Tensor> arguments) {
  if (function.isExternal() || !llvm::hasSingleElement(function.getBody()))
    return function.emitError() << "expected a function of one block";
  Block &block = function.getBody().front();
  if (arguments.size() != block.getNumArguments())
    return function.emitError() << "expected " << block.getNumArguments()
                                << " arguments, got " << arguments.size();
  for (auto [argument, value] : llvm::zip(block.getArguments(), arguments)) {
    if (ArrayRef<int64_t>(value.shape) != shapeOf(argument.getType()))
      return function.emitError()
             << "expected argument " << argument.getArgNumber()
             << " to have the shape of " << argument.getType();
    values[argument] = value;
  }
  return success();
}

std::vector<Tensor> Interpretation::getResults(Block &block) {
  std::vector<Tensor> results;
  for (Value result : block.getTerminator()->getOperands())
    results.push_back(values[result]);
  return results;
}

FailureOr<std::vector<Tensor>>
heddle::interpret(func::FuncOp function, ArrayRef<Tensor> arguments,
                  Variables &variables, const InterpreterOptions &options) {
  std::vector<Tensor> mine(arguments.begin(), arguments.end());
  auto results = Execution({}, variables, options).run(function, mine);
  if (failed(results))
    return failure();
  return std::move(results->front());
}

void heddle::initializeVariables(ModuleOp module, Variables &variables,
                                 llvm::function_ref<double()> random) {
  for (VariableOp variable : module.getOps<VariableOp>()) {
    if (variables.contains(variable.getSymName()))
      continue;
    Tensor &tensor = variables[variable.getSymName()];
    tensor = Tensor(variable.getTensorType().getShape());
    InitAttr init = variable.getInit();
    double value = 0;
    if (FloatAttr attr = init.getValue())
      value = attr.getValueAsDouble();
    for (double &element : tensor.values)
      switch (init.getKind()) {
      case InitKind::Zeros:
        element = 0;
        break;
      case InitKind::Ones:
        element = 1;
        break;
      case InitKind::Constant:
        element = value;
        break;
      case InitKind::Normal:
        element = value * random();
        break;
      }
  }
}
