//===- PlanRequests.h - Small requests for tests ----------------*- C++ -*-===//

#ifndef HEDDLE_TEST_UNIT_PLANNER_PLANREQUESTS_H
#define HEDDLE_TEST_UNIT_PLANNER_PLANREQUESTS_H

#include "Bounds/Bounds.h"
#include "Judge/Judges.h"
#include "heddle/Import/Import.h"
#include "heddle/Planner/Planner.h"

namespace heddle {

/// Asks for a plan of a GPT on a server of eight A100.
PlanRequest makeRequest(int64_t devices, int64_t rows,
                        GptShape shape = {4, 64, 4, 256, 32});

/// Makes the cluster of a request two pairs of devices. Between the pairs,
/// links have the given bytes of a second.
void slowDown(PlanRequest &request, double bandwidth);

/// Counts four small programs for the request's bounds.
BoundModel makeBounds(const PlanRequest &request, Judge &judge);

} // namespace heddle

#endif // HEDDLE_TEST_UNIT_PLANNER_PLANREQUESTS_H
