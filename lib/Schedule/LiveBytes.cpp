//===- LiveBytes.cpp - Bytes of a device that programs use ----------------===//

#include "LiveBytes.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/Support/Bytes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace heddle;

int64_t heddle::getFreeBytes(ModuleOp module, const ClusterDevice &device,
                             RanksAttr ranks) {
  int64_t bytes = device.memory;
  llvm::DenseSet<Attribute> counted;
  auto count = [&](Attribute variable, Type type) {
    if (counted.insert(variable).second)
      bytes -= getBytes(type);
  };
  for (auto function : module.getOps<func::FuncOp>()) {
    if (ranks && function->getAttr(kRanksAttrName) != ranks)
      continue;
    function.walk([&](Operation *op) {
      if (auto load = dyn_cast<LoadOp>(op))
        count(load.getVariableAttr(), load.getType());
      else if (auto store = dyn_cast<StoreOp>(op))
        count(store.getVariableAttr(), store.getValue().getType());
    });
    // Each program has memory of its own for arguments and results.
    if (function->hasAttr(kKernelAttrName) || function.isPrivate())
      continue;
    auto countPort = [&](Type type, DictionaryAttr attrs) {
      if (!ranks || (attrs && attrs.contains(kRoleAttrName)))
        bytes -= getBytes(type);
    };
    for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
      countPort(type, function.getArgAttrDict(i));
    for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
      countPort(type, function.getResultAttrDict(i));
  }
  return std::max<int64_t>(bytes, 0);
}

bool heddle::isView(Operation *op) {
  auto work = dyn_cast<WorkOpInterface>(op);
  if (!work || op->getNumOperands() == 0 || !isMemoryEffectFree(op))
    return false;
  Work all = work.getWork();
  return all.flops == 0 && all.bytesRead == 0 && all.bytesWritten == 0;
}

/// Returns the tensor in which a value lies.
static Value getBase(OpResult result) {
  Operation *op = result.getOwner();
  if (auto barrier = dyn_cast<BarrierOp>(op))
    return barrier.getValues()[result.getResultNumber()];
  return isView(op) && op->getNumOperands() > 0 ? op->getOperand(0) : Value();
}

int64_t heddle::getPeakBytes(Block &block) {
  SmallVector<Operation *> ops;
  llvm::DenseMap<Operation *, size_t> positions;
  for (Operation &op : block) {
    positions[&op] = ops.size();
    ops.push_back(&op);
  }
  // From the back, so that a view's last use is known before its base's.
  llvm::DenseMap<Value, size_t> lastUse;
  SmallVector<int64_t> change(ops.size() + 2, 0);
  for (size_t i = ops.size(); i-- > 0;) {
    Operation *op = ops[i];
    bool isPlaced = !isa<LoadOp>(op) && !op->hasTrait<OpTrait::ConstantLike>();
    for (OpResult result : op->getResults()) {
      size_t last = std::max(lastUse.lookup(result), i);
      for (Operation *user : result.getUsers())
        last = std::max(last, positions[block.findAncestorOpInBlock(*user)]);
      if (Value base = getBase(result)) {
        size_t &use = lastUse[base];
        use = std::max(use, last);
      } else if (isPlaced) {
        int64_t bytes = getBytes(result.getType());
        change[i] += bytes;
        change[last + 1] -= bytes;
      }
    }
  }
  int64_t live = 0, peak = 0;
  for (int64_t bytes : change)
    peak = std::max(peak, live += bytes);
  return peak;
}
