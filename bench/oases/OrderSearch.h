//===- OrderSearch.h - A long search for an order of units ------*- C++ -*-===//
//
// Searches for a schedule that is shorter than the scheduler's, to judge the
// scheduler.
//
// The first half of the time goes to list scheduling, like the scheduler's, but
// from more starts. A list gives each unit a rank, which is computed from lags
// and delays. Each part of the batch but the first has lags behind the part
// before it, at several places along the program. Each kind of unit has a
// delay, which may be negative. Hill climbing changes the lags and the delays.
//
// The second half goes to fixed orders of the units of each queue. A queue may
// then wait for its next unit although another one is ready, which no list of
// ranks does. So the best schedule of all is among these orders. A step swaps
// two neighbours of a queue that stand on the longest path: no other swap of
// neighbours makes a schedule shorter (van Laarhoven et al., "Job Shop
// Scheduling by Simulated Annealing", 1992).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BENCH_OASES_ORDERSEARCH_H
#define HEDDLE_BENCH_OASES_ORDERSEARCH_H

#include "OrderProgram/ListScheduler.h"

namespace heddle::bench {

/// Returns the seconds of the shortest schedule that `time` seconds of CPU
/// find. `starts` are known schedules. In the graph, no unit belongs to several
/// parts of the batch, and none has Unit::isAhead.
double searchOrders(const UnitGraph &graph, llvm::ArrayRef<Schedule> starts,
                    double time);

} // namespace heddle::bench

#endif // HEDDLE_BENCH_OASES_ORDERSEARCH_H
