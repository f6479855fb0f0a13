//===- Schedules.cpp - Schedules by name ----------------------------------===//

#include "heddle/Plan/Schedules.h"

using namespace heddle;

// A transformer layer under tensor parallelism has two all-reduces in the
// forward pass and two in the backward pass: one after the attention and one
// after the feed-forward block. In the backward pass of `default` and
// `cross-pass`, the two of the forward pass run again.
static constexpr NamedSchedule kSchedules[] = {
    // overlap, name, sub-batches, recompute, whole layers, order, chunks
    {Overlap::None, "none", 0, std::nullopt, false, std::nullopt, 1},
    {Overlap::Default, "default", 0, RecomputeMode::Layer, true, std::nullopt,
     1},
    {Overlap::FineGrainedRecompute, "fine-grained-recompute", 0,
     RecomputeMode::Communication, false, std::nullopt, 1},
    {Overlap::CrossPass, "cross-pass", 2, RecomputeMode::Layer, true,
     ProgramOrder::Turns, 1},
    {Overlap::Oases, "oases", 2, RecomputeMode::Communication, false,
     ProgramOrder::Turns, 1},
    {Overlap::Auto, "auto", 0, std::nullopt, false, ProgramOrder::Shortest, 8},
};

llvm::ArrayRef<NamedSchedule> heddle::getNamedSchedules() { return kSchedules; }

const NamedSchedule *heddle::findNamedSchedule(llvm::StringRef name) {
  for (const NamedSchedule &schedule : kSchedules)
    if (schedule.name == name)
      return &schedule;
  return nullptr;
}
