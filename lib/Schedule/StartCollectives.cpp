//===- StartCollectives.cpp - heddle-start-collectives --------------------===//

#include "Flight.h"
#include "heddle/Schedule/Passes.h"
#include "heddle/Support/Random.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {
#define GEN_PASS_DEF_STARTCOLLECTIVESPASS
#include "heddle/Schedule/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {
struct StartCollectives
    : heddle::impl::StartCollectivesPassBase<StartCollectives> {
  using StartCollectivesPassBase::StartCollectivesPassBase;

  void runOnOperation() override;

private:
  /// Moves the starts and waits of a block to their places.
  void place(ArrayRef<Flight> flights, Random &random);
};
} // namespace

/// Returns the op behind the one that computes the operand.
static Operation *getBegin(Flight flight) {
  Operation *maker =
      flight.start.getCollective()->getOperand(0).getDefiningOp();
  return maker ? maker->getNextNode() : &flight.start->getBlock()->front();
}

/// Moves the start right behind the op that computes the operand, and behind
/// the starts that already stand there.
static void startEarly(Flight flight) {
  Operation *next = getBegin(flight);
  while (isa<comm::StartOp>(next))
    next = next->getNextNode();
  flight.start->moveBefore(next);
}

static void placeAtRandom(Flight flight, Random &random) {
  SmallVector<Operation *> places; // the ops before which they may stand
  Operation *reader = getFirstReader(flight);
  for (Operation *op = getBegin(flight);; op = op->getNextNode()) {
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
      flight.wait->moveBefore(getFirstReader(flight));
      startEarly(flight);
    }
    return;
  case StartOrder::Latest:
    // If collective A feeds collective B, the start of B is the first reader of
    // A, so B is placed before A.
    for (Flight flight : llvm::reverse(flights)) {
      flight.wait->moveBefore(getFirstReader(flight));
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
  if (failed(verifyStreams(getOperation(), streams)))
    return signalPassFailure();
  GroupStreams groups(streams);
  Random random(seed);
  for (auto program : getOperation().getOps<func::FuncOp>()) {
    if (program->hasAttr(kKernelAttrName))
      continue;
    for (Block &block : program.getBody()) {
      SmallVector<Flight> flights;
      for (Operation &op : llvm::make_early_inc_range(block))
        if (op.hasTrait<comm::Collective>())
          flights.push_back(makeFlight(&op, groups.get(&op)));
      place(flights, random);
    }
  }
}
