//===- StageLinks.cpp - Transfers between stages --------------------------===//

#include "StageLinks.h"

using namespace heddle;

double StageLinks::get(const Pairs &pairs, double bytes) {
  auto [known, isNew] = seconds.try_emplace({pairs, bytes});
  if (!isNew)
    return known->second;
  int64_t devices = topology.getNumDevices();
  int64_t size = devices / topology.getAxisSizes().front();
  std::vector<int64_t> sources(devices, -1);
  for (auto [from, to] : pairs)
    for (int64_t member = 0; member < size; ++member)
      sources[to * size + member] = from * size + member;
  // permute() costs at least a slice if some receivers get zeros. Transfers
  // have no such slice.
  return known->second = topology.permute(sources, int64_t(bytes)).seconds;
}
