//===- RtAccesses.cpp - What each call does, reads and writes -------------===//

#include "dialects/Rt/Rt.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::rt;

StringRef rt::stringifyWorkKind(WorkKind kind) {
  switch (kind) {
  case WorkKind::Matmul:
    return "matmul";
  case WorkKind::Attention:
    return "attention";
  case WorkKind::Kernel:
    return "kernel";
  case WorkKind::Collective:
    return "collective";
  case WorkKind::Copy:
    return "copy";
  }
  llvm_unreachable("a kind of work");
}

static Accesses list(std::initializer_list<std::optional<BufferAttr>> read,
                     std::initializer_list<BufferAttr> written) {
  Accesses accesses;
  for (std::optional<BufferAttr> buffer : read)
    if (buffer)
      accesses.push_back({*buffer, false});
  for (BufferAttr buffer : written)
    accesses.push_back({buffer, true});
  return accesses;
}

Accesses LaunchOp::getAccesses() {
  Accesses accesses;
  for (Attribute operand : getOperands_())
    if (auto buffer = dyn_cast<BufferAttr>(operand))
      accesses.push_back({buffer, false});
  for (auto buffer : getResults_().getAsRange<BufferAttr>())
    accesses.push_back({buffer, true});
  return accesses;
}

Accesses MatmulOp::getAccesses() {
  Accesses accesses = list({getA(), getB(), getBias()}, {getC()});
  if (getExtra())
    accesses.push_back(
        {*getExtra(), *getEpilogue() != ProductEpilogue::GeluGrad});
  return accesses;
}

Accesses rt::AttentionOp::getAccesses() {
  return list({getQ(), getK(), getV(), getStep(), getMask()},
              {getO(), getLse()});
}

Accesses rt::AttentionGradOp::getAccesses() {
  return list({getQ(), getK(), getV(), getO(), getLse(), getOGrad(), getStep(),
               getMask()},
              {getQGrad(), getKGrad(), getVGrad()});
}

Accesses rt::EmbeddingGradOp::getAccesses() {
  return list({getIds(), getRows()}, {getTable()});
}

Accesses rt::RotaryTableOp::getAccesses() {
  return list({}, {getCos(), getSin()});
}

Accesses CopyOp::getAccesses() { return list({getFrom()}, {getTo()}); }
Accesses FillZeroOp::getAccesses() { return list({}, {getTo()}); }

Accesses rt::AllReduceOp::getAccesses() { return list({getIn()}, {getOut()}); }
Accesses rt::AllGatherOp::getAccesses() { return list({getIn()}, {getOut()}); }
Accesses rt::ReduceScatterOp::getAccesses() {
  return list({getIn()}, {getOut()});
}
Accesses rt::AllToAllOp::getAccesses() { return list({getIn()}, {getOut()}); }
Accesses rt::BroadcastOp::getAccesses() { return list({getIn()}, {getOut()}); }
Accesses rt::PermuteOp::getAccesses() { return list({getIn()}, {getOut()}); }

Accesses rt::SendOp::getAccesses() { return list({getBuffer()}, {}); }
Accesses rt::RecvOp::getAccesses() { return list({}, {getBuffer()}); }
