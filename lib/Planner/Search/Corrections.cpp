//===- Corrections.cpp - What judged candidates say of others -------------===//

#include "Corrections.h"
#include "heddle/Stages/StageSchedule.h"

using namespace heddle;

/// The errors of estimates that are corrected by a candidate that agrees in all
/// choices that shape the program of a micro-batch; in all but its rows; in the
/// kinds of parallelism alone; in recomputation and pipelines alone; and of
/// those that nothing corrects. Assumed, not fitted.
static constexpr double kErrors[] = {0.02, 0.05, 0.1, 0.2, 0.3};

/// Returns what a candidate has in common with others, the most first.
std::vector<Corrections::Key>
Corrections::getKeys(const Candidate &candidate) const {
  const DefaultMesh &mesh = candidate.mesh;
  int64_t tensor = 1, data = 1;
  for (int64_t size : mesh.tensor)
    tensor *= size;
  for (int64_t size : mesh.data)
    data *= size;
  Key least = {mesh.pipeline > 1, splitsBackward(mesh.schedule),
               int64_t(candidate.recompute)};
  Key kinds = least;
  kinds.insert(kinds.end(), {tensor > 1, mesh.context > 1, mesh.sequence,
                             candidate.subBatches, candidate.zeroLevel >= 2});
  Key sizes = kinds;
  sizes.insert(sizes.end(), {tensor, mesh.context, int64_t(mesh.attention)});
  Key all = sizes;
  all.push_back(rows / candidate.microBatches / data);
  return {all, sizes, kinds, least};
}

void Corrections::learn(const Candidate &candidate, double factor) {
  for (Key &key : getKeys(candidate))
    factors[std::move(key)] = factor;
}

Correction Corrections::get(const Candidate &candidate) const {
  std::vector<Key> keys = getKeys(candidate);
  for (size_t i = 0; i < keys.size(); ++i)
    if (auto known = factors.find(keys[i]); known != factors.end())
      return {known->second, kErrors[i]};
  return {1, kErrors[keys.size()]};
}
