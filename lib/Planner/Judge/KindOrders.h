//===- KindOrders.h - Orders of the kinds of device -------------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_JUDGE_KINDORDERS_H
#define HEDDLE_LIB_PLANNER_JUDGE_KINDORDERS_H

#include "heddle/Planner/Planner.h"

namespace heddle {

/// Returns the orders in which a pipeline may have the groups of the cluster's
/// devices, as Candidate::kinds. The first one is that of the cluster. There
/// are others only if the request allows them and uses all devices, if the
/// cluster has at most three groups, and if each group fills whole units of
/// every level but the outermost. Then every order has the same links.
std::vector<std::vector<int64_t>> getKindOrders(const PlanRequest &request);

/// Returns whether `a` is better than `b`: by time if both fit into `memory`,
/// otherwise by memory.
bool isBetter(const PlanFigures &a, const PlanFigures &b, int64_t memory);

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_JUDGE_KINDORDERS_H
