//===- Corrections.cpp - Corrections of estimates -------------------------===//

#include "Corrections.h"
#include "heddle/Stages/StageSchedule.h"
#include "llvm/ADT/Hashing.h"
#include <cassert>

using namespace heddle;

size_t CorrectionKeyMaker::Hash::operator()(const Choices &choices) const {
  return llvm::hash_combine_range(choices.values.begin(),
                                  choices.values.begin() + choices.length);
}

CorrectionKeys CorrectionKeyMaker::number(Parts parts) {
  CorrectionKeys keys;
  Choices choices;
  size_t index = keys.size();
  for (const std::initializer_list<int64_t> &part : parts) {
    for (int64_t value : part) {
      assert(choices.length < choices.values.size());
      choices.values[choices.length++] = value;
    }
    auto next = static_cast<int32_t>(numbers.size());
    keys[--index] = numbers.try_emplace(choices, next).first->second;
  }
  return keys;
}

CandidateKeys CorrectionKeyMaker::get(const Candidate &candidate) {
  const DefaultMesh &mesh = candidate.mesh;
  int64_t tensor = mesh.getTensorSize();
  // A choice of the schedule says nothing about other candidates.
  constexpr int64_t kOpen = -1;
  int64_t recompute =
      candidate.leavesSchedule ? kOpen : int64_t(candidate.recompute);
  bool isPipeline = mesh.pipeline > 1, splits = splitsBackward(mesh.schedule);
  int64_t attention = int64_t(mesh.attention);
  int64_t rowsOfDevice = rows / candidate.microBatches / mesh.getDataSize();
  // What each micro-batch exchanges: nothing, sums of gradients, or weights,
  // too.
  int64_t exchanges = candidate.zeroLevel >= 3 ? 2
                      : candidate.zeroLevel == 2 && candidate.microBatches > 1
                          ? 1
                          : 0;
  // The first choice keeps the keys of time and memory apart.
  CandidateKeys keys;
  keys.time =
      number({{0, isPipeline, splits, tensor > 1, mesh.context > 1, exchanges},
              {mesh.pipeline, candidate.subBatches > 1},
              {mesh.sequence, tensor, mesh.context, attention},
              {recompute, candidate.subBatches},
              {rowsOfDevice}});
  keys.memory =
      number({{1, isPipeline, splits, hasChunks(mesh.schedule), recompute},
              {mesh.pipeline, tensor > 1, mesh.context > 1},
              {mesh.sequence, candidate.subBatches, candidate.zeroLevel >= 2},
              {tensor, mesh.context, attention},
              {rowsOfDevice}});
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
      return {*factors[keys[i]], errors[i]};
  return {1, errors.back()};
}
