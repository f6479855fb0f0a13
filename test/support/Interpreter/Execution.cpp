//===- Execution.cpp - One or many devices through a program --------------===//

#include "Execution.h"
#include "Collectives.h"
#include "Evaluation.h"
#include "VerifyProgram.h"
#include "dialects/Comm/Comm.h"

using namespace mlir;
using namespace heddle;

Execution::Execution(MeshAttr mesh, MutableArrayRef<Variables> variables,
                     const InterpreterOptions &options)
    : mesh(mesh) {
  for (Variables &mine : variables)
    devices.emplace_back(mine, options);
}

FailureOr<std::vector<std::vector<Tensor>>>
Execution::run(func::FuncOp function, ArrayRef<std::vector<Tensor>> arguments) {
  if (failed(verifyProgram(function)))
    return failure();
  for (auto [device, mine] : llvm::zip(devices, arguments))
    if (failed(device.begin(function, mine)))
      return failure();
  Block &block = function.getBody().front();
  if (failed(run(block)))
    return failure();
  std::vector<std::vector<Tensor>> results;
  results.reserve(devices.size());
  for (Interpretation &device : devices)
    results.push_back(device.getResults(block));
  return results;
}

LogicalResult Execution::run(Block &block) {
  for (Operation &op : block.without_terminator())
    if (failed(evaluate(op)))
      return failure();
  return success();
}

LogicalResult Execution::evaluate(Operation &op) {
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return evaluateFor(loop);
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return evaluateIf(branch);
  if (auto loop = dyn_cast<scf::WhileOp>(op))
    return evaluateWhile(loop);
  if (auto call = dyn_cast<func::CallOp>(op))
    return evaluateCall(call);
  if (mesh && isa_and_nonnull<comm::CommDialect>(op.getDialect()))
    return evaluateCommunication(op);
  for (Interpretation &device : devices)
    if (failed(device.evaluate(op)))
      return failure();
  return success();
}

LogicalResult Execution::evaluateCommunication(Operation &op) {
  // The token stands for the result while the collective is in flight.
  if (auto start = dyn_cast<comm::StartOp>(op)) {
    if (failed(evaluateCollective(*start.getCollective())))
      return failure();
    assign(start.getToken(), start.getCollective()->getResult(0));
    return success();
  }
  if (auto wait = dyn_cast<comm::WaitOp>(op)) {
    assign(wait.getResult(), wait.getToken());
    return success();
  }
  return evaluateCollective(op);
}

LogicalResult Execution::evaluateCollective(Operation &op) {
  std::vector<Tensor> results;
  for (int64_t i = 0; i < (int64_t)devices.size(); ++i) {
    auto operandOf = [&](int64_t device) -> const Tensor & {
      return devices[device].get(op.getOperand(0));
    };
    FailureOr<Tensor> result =
        heddle::evaluateCollective(&op, mesh, i, operandOf);
    if (failed(result))
      return op.emitError()
             << "the interpreter does not know '" << op.getName() << "'";
    wrapAround(op.getResult(0).getType(), *result);
    results.push_back(std::move(*result));
  }
  for (auto [device, result] : llvm::zip(devices, results))
    device.get(op.getResult(0)) = std::move(result);
  return success();
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

FailureOr<int64_t> Execution::getCommon(Operation *op, Value value) {
  double number = devices.front().get(value).values[0];
  for (Interpretation &device : devices)
    if (device.get(value).values[0] != number)
      return op->emitError()
             << "devices disagree where control branches: one has " << number
             << ", another " << device.get(value).values[0];
  return int64_t(number);
}

void Execution::assign(ValueRange to, ValueRange from) {
  for (Interpretation &device : devices) {
    std::vector<Tensor> values;
    for (Value value : from)
      values.push_back(device.get(value));
    for (auto [target, value] : llvm::zip(to, values))
      device.get(target) = std::move(value);
  }
}

LogicalResult Execution::evaluateFor(scf::ForOp loop) {
  FailureOr<int64_t> lower = getCommon(loop, loop.getLowerBound()),
                     upper = getCommon(loop, loop.getUpperBound()),
                     step = getCommon(loop, loop.getStep());
  if (failed(lower) || failed(upper) || failed(step))
    return failure();
  if (*step <= 0)
    return loop.emitError() << "expected a positive step, got " << *step;
  assign(loop.getRegionIterArgs(), loop.getInitArgs());
  for (int64_t i = *lower; i < *upper; i += *step) {
    for (Interpretation &device : devices)
      device.get(loop.getInductionVar()) = Tensor({}, double(i));
    if (failed(run(*loop.getBody())))
      return failure();
    assign(loop.getRegionIterArgs(), loop.getYieldedValues());
  }
  assign(loop.getResults(), loop.getRegionIterArgs());
  return success();
}

LogicalResult Execution::evaluateIf(scf::IfOp op) {
  FailureOr<int64_t> condition = getCommon(op, op.getCondition());
  if (failed(condition))
    return failure();
  Region &region = *condition ? op.getThenRegion() : op.getElseRegion();
  if (region.empty())
    return success();
  if (failed(run(region.front())))
    return failure();
  assign(op.getResults(), region.front().getTerminator()->getOperands());
  return success();
}

LogicalResult Execution::evaluateWhile(scf::WhileOp loop) {
  assign(loop.getBeforeArguments(), loop.getInits());
  while (true) {
    if (failed(run(*loop.getBeforeBody())))
      return failure();
    scf::ConditionOp end = loop.getConditionOp();
    FailureOr<int64_t> more = getCommon(end, end.getCondition());
    if (failed(more))
      return failure();
    if (!*more) {
      assign(loop.getResults(), end.getArgs());
      return success();
    }
    assign(loop.getAfterArguments(), end.getArgs());
    if (failed(run(*loop.getAfterBody())))
      return failure();
    assign(loop.getBeforeArguments(), loop.getYieldOp().getOperands());
  }
}

LogicalResult Execution::evaluateCall(func::CallOp call) {
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      call, call.getCalleeAttr());
  if (!callee || callee.isExternal() ||
      !llvm::hasSingleElement(callee.getBody()))
    return call.emitError()
           << "expected a function of one block, got @" << call.getCallee();
  Block &body = callee.getBody().front();
  assign(body.getArguments(), call.getOperands());
  if (failed(run(body)))
    return failure();
  assign(call.getResults(), body.getTerminator()->getOperands());
  return success();
}
