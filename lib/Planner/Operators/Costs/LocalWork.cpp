//===- LocalWork.cpp - The work of one device in an op --------------------===//

#include "LocalWork.h"
#include "heddle/Cost/Roofline.h"
#include "heddle/Support/Bytes.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace heddle;

static Type getLocalType(Type type, ShardingAttr sharding, MeshRef mesh) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.hasStaticShape()
             ? sharding.getLocalType(tensor, mesh.mesh)
             : type;
}

FailureOr<double> heddle::getPeakOf(Operation *op, const Cluster &cluster) {
  // The type of the first tensor of floats decides. Kernels compute in f32.
  Type element;
  for (Value operand : op->getOperands())
    if (auto type = dyn_cast<RankedTensorType>(operand.getType());
        type && isa<FloatType>(type.getElementType()) && !element)
      element = type.getElementType();
  const ClusterDevice &device = cluster.device;
  Type f32 = Float32Type::get(op->getContext());
  if (element)
    if (std::optional<double> rate = getProductRate(element, device))
      return *rate;
  if (std::optional<double> rate = getProductRate(f32, device))
    return *rate;
  return op->emitOpError() << "has no time: expected the cluster '"
                           << cluster.name << "' to state a peak rate of f32";
}

void heddle::leaveOutInside(const OpClass &made, Operation *local, Work &work) {
  if (!made.isFusable)
    return;
  for (auto [i, operand] : llvm::enumerate(local->getOperands()))
    if (!made.reads[i])
      work.bytesRead -= std::min(work.bytesRead, getBytes(operand.getType()));
  for (auto [i, result] : llvm::enumerate(local->getResults()))
    if (!made.writes[i])
      work.bytesWritten -=
          std::min(work.bytesWritten, getBytes(result.getType()));
}

Work heddle::getLocalWork(const OpClass &made, const FactorAxes &axes,
                          MeshRef mesh) {
  Operation *op = made.op();
  // A copy of the op in a block of its own, on operands of local types. The
  // copy is never verified: only its types and attributes are read.
  Block block;
  IRMapping mapping;
  SmallVector<Value> operands;
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    operands.push_back(block.addArgument(
        getLocalType(operand.getType(),
                     getOperandSharding(made.rule, axes, i, mesh), mesh),
        op->getLoc()));
  Operation *local = op->clone();
  block.push_back(local);
  local->setOperands(operands);
  for (auto [i, result] : llvm::enumerate(local->getResults()))
    result.setType(getLocalType(
        result.getType(), getResultSharding(made.rule, axes, i, mesh), mesh));
  Work work = cast<WorkOpInterface>(local).getWork();
  leaveOutInside(made, local, work);
  return work;
}
