//===- HeddlePrecision.cpp - The ops in mixed precision -------------------===//
//
// In mixed precision, the ops take the same types as under torch.autocast.
// Ops without PrecisionOpInterface compute in f32.
//
//===----------------------------------------------------------------------===//

#include "dialects/Heddle/Heddle.h"

using namespace mlir;
using namespace heddle;

Precision ContractOp::getPrecision() { return Precision::Narrow; }
Precision AttentionOp::getPrecision() { return Precision::Narrow; }
/// True for all operands after the values. Of these, only the mask may be of
/// floats, and its type is i1 or f32.
bool AttentionOp::keepsOperandWide(unsigned operand) {
  return operand > getValueMutable().getOperandNumber();
}
bool AttentionOp::keepsResultWide(unsigned result) {
  return result == cast<OpResult>(getLse()).getResultNumber();
}

Precision heddle::BroadcastOp::getPrecision() {
  return Precision::FollowsOperands;
}
Precision UnstackOp::getPrecision() { return Precision::FollowsOperands; }
Precision StackOp::getPrecision() { return Precision::FollowsOperands; }
Precision GeluOp::getPrecision() { return Precision::FollowsOperands; }
Precision SiluOp::getPrecision() { return Precision::FollowsOperands; }
Precision DropoutOp::getPrecision() { return Precision::FollowsOperands; }
Precision RotaryOp::getPrecision() { return Precision::FollowsOperands; }
Precision BarrierOp::getPrecision() { return Precision::FollowsOperands; }
bool RotaryOp::keepsOperandWide(unsigned operand) {
  return operand != getXMutable().getOperandNumber();
}

Precision CrossEntropyOp::getPrecision() { return Precision::ReadsNarrow; }
Precision LogSumExpOp::getPrecision() { return Precision::ReadsNarrow; }
Precision ReduceOp::getPrecision() { return Precision::ReadsNarrow; }
