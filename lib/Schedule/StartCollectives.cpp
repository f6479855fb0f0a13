//===- StartCollectives.cpp - heddle-start-collectives --------------------===//

#include "dialects/Comm/Comm.h"
#include "heddle/Schedule/Passes.h"
#include "heddle/Support/Random.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace heddle {
#define GEN_PASS_DEF_STARTCOLLECTIVESPASS
#include "heddle/Schedule/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {
/// A collective in flight.
struct Flight {
  comm::StartOp start;
  comm::WaitOp wait;

  /// Returns the op behind the one that computes the operand.
  Operation *getBegin() const;
  /// Returns the first op of the block that reads the result, or else the
  /// terminator.
  Operation *getFirstReader() const;
};

struct StartCollectives
    : heddle::impl::StartCollectivesPassBase<StartCollectives> {
  using StartCollectivesPassBase::StartCollectivesPassBase;

  void runOnOperation() override;

private:
  /// Replaces the collective by a start and a wait at the same place.
  Flight start(Operation *collective);
  /// Moves the starts and waits of a block to their places.
  void place(ArrayRef<Flight> flights, Random &random);

  /// The stream of each group, by mesh and axes.
  llvm::DenseMap<std::pair<Attribute, Attribute>, int32_t> streamOfGroup;
};
} // namespace

Operation *Flight::getBegin() const {
  comm::StartOp op = start;
  Operation *maker = op.getCollective()->getOperand(0).getDefiningOp();
  return maker ? maker->getNextNode() : &op->getBlock()->front();
}

Operation *Flight::getFirstReader() const {
  comm::WaitOp op = wait;
  Operation *first = op->getBlock()->getTerminator();
  for (Operation *user : op->getUsers()) {
    Operation *reader = op->getBlock()->findAncestorOpInBlock(*user);
    if (reader->isBeforeInBlock(first))
      first = reader;
  }
  return first;
}

Flight StartCollectives::start(Operation *collective) {
  OpBuilder builder(collective);
  Value result = collective->getResult(0);
  auto [group, isNew] = streamOfGroup.try_emplace(
      {collective->getAttr("mesh"), collective->getAttr("axes")});
  if (isNew)
    group->second = 1 + (streamOfGroup.size() - 1) % streams;
  auto start = builder.create<comm::StartOp>(
      collective->getLoc(),
      comm::TokenType::get(&getContext(),
                           cast<RankedTensorType>(result.getType())),
      group->second);
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

/// Moves the start right behind the op that computes the operand, and behind
/// the starts that already stand there.
static void startEarly(Flight flight) {
  Operation *next = flight.getBegin();
  while (isa<comm::StartOp>(next))
    next = next->getNextNode();
  flight.start->moveBefore(next);
}

static void placeAtRandom(Flight flight, Random &random) {
  SmallVector<Operation *> places; // the ops before which they may stand
  Operation *reader = flight.getFirstReader();
  for (Operation *op = flight.getBegin();; op = op->getNextNode()) {
    if (op != flight.start && op != flight.wait)
      places.push_back(op);
    if (op == reader)
      break;
  }
  size_t start = random.below(places.size());
  size_t wait = start + random.below(places.size() - start);
  flight.start->moveBefore(places[start]);
  flight.wait->moveBefore(places[wait]);
}

void StartCollectives::place(ArrayRef<Flight> flights, Random &random) {
  switch (order) {
  case StartOrder::Earliest:
    for (Flight flight : flights) {
      flight.wait->moveBefore(flight.getFirstReader());
      startEarly(flight);
    }
    return;
  case StartOrder::Latest:
    // A collective that feeds another follows its first reader, which is the
    // other's start. So the other is placed first.
    for (Flight flight : llvm::reverse(flights)) {
      flight.wait->moveBefore(flight.getFirstReader());
      flight.start->moveBefore(flight.wait);
    }
    return;
  case StartOrder::Random:
    for (Flight flight : flights)
      placeAtRandom(flight, random);
    return;
  }
}

void StartCollectives::runOnOperation() {
  if (streams < 1 || streams >= kMaxStreams) {
    getOperation().emitError()
        << "expected from 1 to " << kMaxStreams - 1
        << " communication streams, got " << int32_t(streams);
    return signalPassFailure();
  }
  streamOfGroup.clear();
  Random random(seed);
  for (auto program : getOperation().getOps<func::FuncOp>()) {
    if (program->hasAttr(kKernelAttrName))
      continue;
    for (Block &block : program.getBody()) {
      SmallVector<Flight> flights;
      for (Operation &op : llvm::make_early_inc_range(block))
        if (op.hasTrait<comm::Collective>())
          flights.push_back(start(&op));
      place(flights, random);
    }
  }
}
