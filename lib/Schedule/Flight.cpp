//===- Flight.cpp - A collective in flight --------------------------------===//

#include "Flight.h"

using namespace mlir;
using namespace heddle;

Flight heddle::makeFlight(Operation *collective, int32_t stream) {
  OpBuilder builder(collective);
  Value result = collective->getResult(0);
  auto start = builder.create<comm::StartOp>(
      collective->getLoc(),
      comm::TokenType::get(collective->getContext(),
                           cast<RankedTensorType>(result.getType())),
      stream);
  auto wait = builder.create<comm::WaitOp>(collective->getLoc(), start);
  result.replaceAllUsesWith(wait.getResult());
  if (ServesAttr serves = getServes(collective)) {
    start->setAttr(kServesAttrName, serves);
    wait->setAttr(kServesAttrName, serves);
  }
  Block &body = start.getBody().emplaceBlock();
  collective->moveBefore(&body, body.end());
  builder.setInsertionPointToEnd(&body);
  builder.create<comm::YieldOp>(collective->getLoc(), result);
  return {start, wait};
}

Operation *heddle::getFirstReader(Flight flight) {
  Block *block = flight.wait->getBlock();
  Operation *first = block->getTerminator();
  for (Operation *user : flight.wait->getUsers()) {
    Operation *reader = block->findAncestorOpInBlock(*user);
    if (reader->isBeforeInBlock(first))
      first = reader;
  }
  return first;
}

int32_t GroupStreams::get(Operation *collective) {
  auto [group, isNew] = known.try_emplace(
      {collective->getAttr("mesh"), collective->getAttr("axes")});
  if (isNew)
    group->second = 1 + (known.size() - 1) % streams;
  return group->second;
}

LogicalResult heddle::verifyStreams(Operation *op, int32_t streams) {
  if (streams >= 1 && streams < kMaxStreams)
    return success();
  return op->emitError() << "expected from 1 to " << kMaxStreams - 1
                         << " communication streams, got " << streams;
}
