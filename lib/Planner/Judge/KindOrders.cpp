//===- KindOrders.cpp - Orders of the kinds of device ---------------------===//

#include "KindOrders.h"
#include "StagePieces.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <numeric>

using namespace heddle;

/// The most groups whose orders are tried: three have six orders.
static constexpr size_t kMostGroups = 3;

/// Returns whether each group fills whole units of every level but the
/// outermost.
static bool fillsUnits(const Cluster &cluster) {
  int64_t unit = 1;
  for (const ClusterLevel &level : cluster.levels) {
    unit *= level.count;
    if (unit == cluster.getNumDevices())
      return true;
    for (const ClusterGroup &group : cluster.groups)
      if (group.count % unit != 0)
        return false;
  }
  return true;
}

std::vector<std::vector<int64_t>>
heddle::getKindOrders(const PlanRequest &request) {
  const Cluster &cluster = request.cluster;
  std::vector<std::vector<int64_t>> orders = {{}};
  if (!request.ordersKinds || cluster.groups.size() > kMostGroups ||
      request.devices != cluster.getNumDevices() || !fillsUnits(cluster))
    return orders;
  std::vector<int64_t> order(cluster.groups.size());
  std::iota(order.begin(), order.end(), int64_t(0));
  while (std::next_permutation(order.begin(), order.end()))
    orders.push_back(order);
  return orders;
}

Cluster heddle::orderKinds(const Cluster &cluster,
                           const std::vector<int64_t> &kinds) {
  Cluster ordered = cluster;
  if (kinds.empty())
    return ordered;
  ordered.groups.clear();
  ordered.name += " (";
  for (int64_t kind : kinds) {
    const ClusterGroup &group = cluster.groups[kind];
    ordered.name += (ordered.groups.empty() ? "" : ", ") + group.device.kind;
    ordered.groups.push_back(group);
  }
  ordered.name += ")";
  return ordered;
}

StageModel StageModel::orderKinds(llvm::ArrayRef<int64_t> order) const {
  StageModel ordered = *this;
  for (auto [i, kind] : llvm::enumerate(order))
    ordered.kinds[i] = kinds[kind];
  return ordered;
}

bool heddle::isBetter(const PlanFigures &a, const PlanFigures &b,
                      int64_t memory) {
  bool fits = a.getNeededMemory() <= memory;
  if (fits != (b.getNeededMemory() <= memory))
    return fits;
  return fits ? a.seconds < b.seconds
              : a.getNeededMemory() < b.getNeededMemory();
}
