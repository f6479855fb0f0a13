//===- Corrections.cpp - Corrections of estimates -------------------------===//

#include "Corrections.h"
#include "heddle/Stages/StageSchedule.h"

using namespace heddle;

/// The assumed relative errors of corrected estimates, by how much the
/// candidate agrees with the one that corrects it. In order: in all choices
/// that shape the program of a micro-batch; in all of these but the rows; in
/// the kinds of parallelism and storage alone; in the kinds of axes alone; in
/// recomputation and pipelines alone; no candidate agrees. These values are not
/// fitted.
static constexpr double kErrors[] = {0.02, 0.05, 0.1, 0.15, 0.2, 0.3};

CorrectionKeys CorrectionKeyMaker::get(const Candidate &candidate) {
  using Key = std::vector<int64_t>;
  const DefaultMesh &mesh = candidate.mesh;
  int64_t tensor = 1, data = 1;
  for (int64_t size : mesh.tensor)
    tensor *= size;
  for (int64_t size : mesh.data)
    data *= size;
  // A choice of the schedule says nothing about other candidates.
  constexpr int64_t kOpen = -1;
  bool isOpen = candidate.leavesSchedule;
  Key least = {mesh.pipeline > 1, splitsBackward(mesh.schedule),
               isOpen ? kOpen : int64_t(candidate.recompute)};
  Key axes = least;
  axes.insert(axes.end(), {tensor > 1, mesh.context > 1});
  Key kinds = axes;
  kinds.insert(kinds.end(),
               {mesh.sequence, candidate.subBatches, candidate.zeroLevel >= 2});
  Key sizes = kinds;
  sizes.insert(sizes.end(), {tensor, mesh.context, int64_t(mesh.attention)});
  Key all = sizes;
  all.push_back(rows / candidate.microBatches / data);
  CorrectionKeys keys;
  Key *inOrder[] = {&all, &sizes, &kinds, &axes, &least};
  for (size_t i = 0; i < keys.size(); ++i) {
    // The length is part of the key, so keys of different lengths differ.
    auto next = static_cast<int32_t>(numbers.size());
    keys[i] = numbers.try_emplace(std::move(*inOrder[i]), next).first->second;
  }
  return keys;
}

void Corrections::learn(const CorrectionKeys &keys, double factor) {
  for (int32_t key : keys) {
    if (size_t(key) >= factors.size())
      factors.resize(key + 1);
    factors[key] = factor;
  }
}

Correction Corrections::get(const CorrectionKeys &keys) const {
  for (size_t i = 0; i < keys.size(); ++i)
    if (size_t(keys[i]) < factors.size() && factors[keys[i]])
      return {*factors[keys[i]], kErrors[i]};
  return {1, kErrors[keys.size()]};
}
