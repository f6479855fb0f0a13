//===- VerifyProgram.cpp - Limits of the interpreter ----------------------===//

#include "VerifyProgram.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace heddle;

/// 2 GiB of doubles.
static constexpr int64_t kMaxElements = int64_t(1) << 28;

/// Returns why no value of this type can be interpreted; "" if one can.
static std::string findProblem(Type type) {
  if (isa<UnrankedTensorType>(type))
    return "expected a tensor of static shape";
  if (auto tensor = dyn_cast<RankedTensorType>(type)) {
    if (!tensor.hasStaticShape())
      return "expected a tensor of static shape";
    int64_t left = kMaxElements;
    for (int64_t size : tensor.getShape())
      left /= std::max<int64_t>(size, 1);
    if (left == 0 && !llvm::is_contained(tensor.getShape(), 0))
      return "expected a tensor of at most " + std::to_string(kMaxElements) +
             " elements";
  }
  Type element = getElementTypeOrSelf(type);
  if (element.isInteger() && element.getIntOrFloatBitWidth() > 64)
    return "expected integers of at most 64 bits";
  return "";
}

static LogicalResult verifyType(Operation *op, Type type) {
  std::string problem = findProblem(type);
  if (problem.empty())
    return success();
  return op->emitError() << "cannot interpret '" << op->getName()
                         << "': " << problem << ", got " << type;
}

namespace {

class Verifier {
public:
  LogicalResult verify(func::FuncOp function);

private:
  LogicalResult verify(Operation *op);

  llvm::DenseSet<Operation *> verified, open;
};

} // namespace

LogicalResult Verifier::verify(Operation *op) {
  for (Type type : op->getResultTypes())
    if (failed(verifyType(op, type)))
      return failure();
  for (Region &region : op->getRegions())
    for (Block &block : region)
      for (Type type : block.getArgumentTypes())
        if (failed(verifyType(op, type)))
          return failure();
  auto call = dyn_cast<func::CallOp>(op);
  if (!call)
    return success();
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      call, call.getCalleeAttr());
  if (!callee)
    return success(); // evaluating the call emits the error
  if (open.contains(callee))
    return call.emitError() << "cannot interpret recursion: @"
                            << call.getCallee() << " calls itself";
  return verify(callee);
}

LogicalResult Verifier::verify(func::FuncOp function) {
  if (!verified.insert(function).second)
    return success();
  open.insert(function);
  WalkResult status = function->walk<WalkOrder::PreOrder>([&](Operation *op) {
    return failed(verify(op)) ? WalkResult::interrupt() : WalkResult::advance();
  });
  open.erase(function);
  return failure(status.wasInterrupted());
}

LogicalResult heddle::verifyProgram(func::FuncOp function) {
  return Verifier().verify(function);
}
