//===- StageSchedule.h - Orders of stages and micro-batches -----*- C++ -*-===//
//
// The order in which the devices of a pipeline run their stages on the
// micro-batches of a step. A model is cut into stages 0, 1, ...; each has a
// forward pass (F), a backward pass that makes the gradient of its inputs (B)
// and one that makes the gradients of its weights (W). A schedule that does not
// split the backward pass does both as B.
//
// Everything here is numbers: no program, no IR.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_STAGES_STAGESCHEDULE_H
#define HEDDLE_STAGES_STAGESCHEDULE_H

#include "dialects/Heddle/HeddleDialect.h"
#include "dialects/Heddle/StageTable.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"
#include <optional>
#include <string>
#include <vector>

namespace heddle {

/// Returns the name of a schedule in plans and on the command line: "1f1b",
/// "zb-h1".
llvm::StringRef getScheduleName(PipelineSchedule schedule);
std::optional<PipelineSchedule> parseScheduleName(llvm::StringRef name);
/// Returns the names of all schedules: "gpipe, 1f1b, ...".
std::string listScheduleNames();

/// Returns whether a program of this kind belongs to a device and runs once a
/// step, after the passes of the stages.
inline bool isOncePerStep(StageWork work) {
  return work == StageWork::SendGradients || work == StageWork::Update ||
         work == StageWork::Report;
}

/// Returns whether the schedule runs the two backward passes apart.
bool splitsBackward(PipelineSchedule schedule);

/// Returns whether the schedule needs several stages on each device.
bool hasChunks(PipelineSchedule schedule);

/// Returns the number of stages on each device: `stated`, or if that is 0, the
/// fewest that the schedule is for.
int64_t getNumChunks(PipelineSchedule schedule, int64_t stated);

/// Returns the device of a stage. Stages go round over the devices, and for
/// zb-v forth and back: stages 0 to 5 of three devices lie on 0 1 2 2 1 0.
int64_t getDeviceOfStage(PipelineSchedule schedule, int64_t devices,
                         int64_t stage);

/// The times of a stage's passes for one micro-batch, in any unit.
struct StageTimes {
  double forward = 1, backward = 1, weights = 1;
};

/// One pass of a stage on one micro-batch.
struct StageTask {
  StageWork work = StageWork::Forward;
  int64_t stage = 0, microBatch = 0;
  double begin = 0, end = 0;

  /// Returns "F2.13": the forward pass of stage 2 on micro-batch 13.
  std::string getName() const;
};

/// The input for making a schedule.
struct ScheduleProblem {
  PipelineSchedule schedule = PipelineSchedule::OneFOneB;
  int64_t devices = 1, stages = 1, microBatches = 1;
  /// By stage. Empty: all stages of a device together take the time 1 for each
  /// kind of pass, so each of two stages takes 1/2. With times, the result is
  /// never slower than the schedule for equal times.
  std::vector<StageTimes> times;
  /// The most forward passes of a device's stages whose backward pass has not
  /// run. 0: as many as the schedule has by its definition.
  int64_t mostInFlight = 0;
  /// Whether all devices wait for each other at the end of a step. If they do,
  /// the shortest makespan is best. Otherwise the shortest span is best,
  /// because steps follow each other with that period.
  bool hasBarrier = true;
};

/// The tasks of all devices, in order.
struct StageSchedule {
  bool splitsBackward = false;
  int64_t microBatches = 1;
  std::vector<StageTimes> times;               ///< by stage
  std::vector<int64_t> deviceOf;               ///< by stage
  std::vector<std::vector<StageTask>> devices; ///< by device, in order

  int64_t getNumStages() const { return int64_t(deviceOf.size()); }
  /// Returns the time from the first task of any device to the last one's end.
  double getMakespan() const;
  /// Returns the longest time that one device needs from its first to its last
  /// task. Steps follow each other with this period if nothing waits for all
  /// devices in between.
  double getSpan() const;
  /// Returns the most forward passes of a device's stages that are done, or
  /// under way, before their backward passes have ended.
  int64_t getInFlight(int64_t device) const;
  /// Returns the most backward passes of a device's stages whose pass for
  /// weights has not ended.
  int64_t getPendingWeights(int64_t device) const;
};

/// Makes a schedule. The error says which number does not fit.
llvm::Expected<StageSchedule> makeSchedule(const ScheduleProblem &problem);

/// Checks a schedule and sets the times of its tasks: each pass of each stage
/// runs once for each micro-batch, on the stage's device; the last stage's
/// backward pass directly follows its forward pass, for they are one program;
/// no device waits for ever; no device has more than `mostInFlight` forward
/// passes in flight (0: any number). The error names the task.
llvm::Error verifySchedule(StageSchedule &schedule, int64_t mostInFlight = 0);

/// Reads a schedule of one's own, JSON such as
/// {"devices": [["F0.0", "F0.1", "B0.0", "B0.1"], ["F1.0", "B1.0", ...]]}, and
/// verifies it. The stages of a device are those that its list names. Without
/// `microBatches`, their number is that of the schedule.
llvm::Expected<StageSchedule> parseSchedule(llvm::StringRef text,
                                            llvm::StringRef source,
                                            int64_t microBatches,
                                            int64_t mostInFlight = 0);

/// Writes a schedule as parseSchedule reads it.
std::string writeSchedule(const StageSchedule &schedule);

/// Returns the schedule of a module's pipeline: that of `table`, if the text is
/// not empty, otherwise the one that the attribute names. 0 micro-batches: any
/// number.
llvm::Expected<StageSchedule> getSchedule(PipelineAttr pipeline,
                                          llvm::StringRef table,
                                          int64_t devices,
                                          int64_t microBatches);

/// Prints a schedule as one line of tasks a device, drawn to scale, and the
/// figures of the whole.
void printSchedule(const StageSchedule &schedule, llvm::raw_ostream &out);

} // namespace heddle

#endif // HEDDLE_STAGES_STAGESCHEDULE_H
