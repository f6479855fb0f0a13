//===- Simulate.h - Times of rt programs on a cluster -----------*- C++ -*-===//
//
// Executes rt programs as discrete events: streams are queues, events order
// them, and what communicates at the same time shares the links. The result
// says when each call runs, where computation waits for communication, and
// which memory is in use. Nothing is compiled or computed.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SIMULATE_SIMULATE_H
#define HEDDLE_SIMULATE_SIMULATE_H

#include "heddle/Cost/CollectiveCost.h"
#include "heddle/Lower/Artifact.h"
#include "heddle/Simulate/CostModel.h"
#include <optional>
#include <string>
#include <vector>

namespace heddle {

//===----------------------------------------------------------------------===//
// The calls to simulate
//===----------------------------------------------------------------------===//

struct ProgramCall {
  rt::ProgramOp program;
  int64_t repeat = 1; ///< how often it is called in a row
};

/// What every rank of a set calls, in order. One of these ranks is simulated
/// for all of them.
struct CallList {
  RanksAttr ranks; ///< null: all ranks of the mesh
  std::vector<ProgramCall> calls;
};

/// Returns what an entry point of a module calls. "step" is @step, or
/// @accumulate for each micro-batch and then @update. Any other name is that of
/// a program. An empty name is "step" if the module has one, or else its only
/// program. The error of an unknown name lists the names that there are.
llvm::Expected<std::vector<CallList>> getEntry(mlir::ModuleOp module,
                                               llvm::StringRef name);

struct SimulateOptions {
  /// The iterations of each loop whose number is known only at run time.
  int64_t loopIterations = 1;
};

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

/// A call of one of the lists: an index into Simulation::calls, or -1.
using CallIndex = int64_t;

/// The execution of one call. If the call repeats, times are those of the first
/// time, and `repeat` says how often it runs.
struct SimulatedCall {
  rt::DeviceCallOpInterface op;
  unsigned list = 0; ///< index of the list of calls
  int64_t repeat = 1;
  double start = 0, end = 0; ///< seconds
  bool communicates = false;
  /// Communication: the bytes that a device sends; the seconds for which the
  /// compute stream waits for this call and for nothing else; the other seconds
  /// of the call, in which it is hidden.
  int64_t bytes = 0;
  double exposed = 0, hidden = 0;
  /// The call whose end let this one start, and the first call that the end of
  /// this one let start; -1 if there is none.
  CallIndex waitedFor = -1, waitedBy = -1;
};

struct StreamTimes {
  unsigned list = 0;
  int32_t stream = 0;
  int64_t calls = 0;
  double computing = 0, communicating = 0; ///< seconds
};

/// Lower bounds of the step, in seconds. No order of the calls takes less.
struct StepBounds {
  double compute = 0; ///< all computing calls of a rank, one after the other
  /// By level of the cluster: the bytes over its busiest link.
  std::vector<double> links;
  /// The longest chain of calls of which each reads what an earlier one wrote.
  double criticalPath = 0;

  double get() const;
  /// Returns "compute", "critical path" or the name of the level.
  std::string getName(const Cluster &cluster) const;
};

/// Bytes of the arena that hold one value, from the call that writes the value
/// to the end of the last one that uses it.
struct LiveValue {
  CallIndex writer = -1;
  int64_t bytes = 0;
  double start = 0, end = 0;
};

struct MemoryUse {
  /// What the runtime allocates, as in the artifact's manifest.
  DeviceMemoryPlan plan;
  int64_t capacity = 0; ///< of a device of the cluster
  /// Bytes in use from a time on: variables, arguments and results, and the
  /// part of the arena that holds values. Times ascend. Of the list with the
  /// highest peak.
  std::vector<std::pair<double, int64_t>> curve;
  double peakTime = 0;
  int64_t peak = 0;
  /// The values in the arena at the peak, the largest first.
  std::vector<LiveValue> aliveAtPeak;
};

struct Simulation {
  std::string cluster;
  int64_t devices = 1;
  double seconds = 0; ///< of the step
  /// Of the list that waits longest: the seconds for which its compute stream
  /// waits for communication.
  double exposed = 0;
  StepBounds bounds;
  std::vector<CallList> lists;
  std::vector<SimulatedCall> calls;
  std::vector<StreamTimes> streams; ///< those that have calls
  MemoryUse memory;
  /// True if a loop was counted SimulateOptions::loopIterations times.
  bool hasLoops = false;
};

/// Simulates the lists, which run at the same time. The programs are those that
/// heddle-verify-executable accepts. Emits an error if the cluster is too small
/// or lacks a figure, or if the lists wait for each other for ever.
mlir::FailureOr<Simulation> simulate(mlir::ModuleOp module,
                                     llvm::ArrayRef<CallList> lists,
                                     const Cluster &cluster, CostModel &model,
                                     const SimulateOptions &options = {});

} // namespace heddle

#endif // HEDDLE_SIMULATE_SIMULATE_H
