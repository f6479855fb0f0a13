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

/// One entry of a list: a call of a program, or a transfer between two lists.
struct ProgramCall {
  rt::ProgramOp program; ///< null: a transfer
  int64_t repeat = 1;    ///< how often the program is called in a row

  /// A transfer is an rt.send or rt.recv of CallList::transfers, whose buffer
  /// is argument or result N for slot N.
  rt::DeviceCallOpInterface transfer = {};
  int64_t microBatch = 0;
  /// Earlier entries of the list whose ends the entry's stream waits for. A
  /// program's stream is the compute stream.
  llvm::SmallVector<unsigned> after = {};
  /// The slots of the program's arguments and results; -1 for those that are
  /// inputs or outputs of the entry point, and for all beyond the vectors'
  /// ends.
  llvm::SmallVector<int64_t> argumentSlots = {}, resultSlots = {};
};

/// The calls of every rank of a set, in order. One of these ranks is simulated
/// for all of them.
struct CallList {
  RanksAttr ranks; ///< null: all ranks of the mesh
  std::vector<ProgramCall> calls;
  /// Holds the ops of the entries that are transfers.
  std::shared_ptr<mlir::OwningOpRef<mlir::ModuleOp>> transfers = {};
  /// The bytes of each slot.
  std::vector<int64_t> slots = {};
  /// Whether all lists end a step before one of them begins the next.
  bool hasBarrier = true;
};

/// Returns what an entry point of a module calls. "step" is @step, or
/// @accumulate for each micro-batch and then @update. An entry point of a
/// pipeline has a list for each of its devices, from the tables that the
/// artifact has, too (heddle/Lower/Tables.h). Any other name is that of a
/// program. An empty name is "step" if the module has one, or else its only
/// program. The error of an unknown name lists the names that there are.
llvm::Expected<std::vector<CallList>> getEntry(mlir::ModuleOp module,
                                               llvm::StringRef name);

struct SimulateOptions {
  /// The iterations of each loop whose number is known only at run time.
  int64_t loopIterations = 1;
  /// Whether to compute the memory that the runtime allocates
  /// (MemoryUse::plan). This needs the tables of all entry points.
  bool plansMemory = true;
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
  unsigned list = 0;  ///< index of the list of calls
  unsigned entry = 0; ///< index of the entry of the list that it belongs to
  int64_t repeat = 1;
  double start = 0, end = 0; ///< seconds
  /// When a communication is under way, because all its lists have come to it.
  /// `start` of a computation.
  double begun = 0;
  bool communicates = false;
  /// Communication: the bytes that a device sends; the seconds for which the
  /// compute stream waits for this call and for nothing else; the other seconds
  /// from `begun` to `end`, in which it is hidden.
  int64_t bytes = 0;
  double exposed = 0, hidden = 0;
  /// `waitedFor` is the call whose end let this call start. `waitedBy` is the
  /// first call that started because this call ended. -1 if there is none.
  CallIndex waitedFor = -1, waitedBy = -1;
};

struct StreamTimes {
  unsigned list = 0;
  int32_t stream = 0;
  int64_t calls = 0;
  double computing = 0, communicating = 0; ///< seconds
};

/// The seconds of a list's compute stream. For the rest of the step, the stream
/// waits for other lists that compute: in a pipeline, the bubble.
struct ListTimes {
  double computing = 0;
  double exposed = 0; ///< waits for communication that is under way
};

/// Lower bounds of the step, in seconds. No order of the calls takes less.
struct StepBounds {
  /// The time of all computing calls of a rank, one after the other. If there
  /// are several lists of calls, that of the longest one.
  double compute = 0;
  /// By level of the cluster: the bytes over its busiest link.
  std::vector<double> links;
  /// The longest chain of calls in which each call reads a result of the one
  /// before it.
  /// None if steps overlap.
  std::optional<double> criticalPath;

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
  unsigned list = 0; ///< whose devices these are
  /// What the runtime allocates, as in the artifact's manifest.
  DeviceMemoryPlan plan;
  int64_t capacity = 0; ///< of a device of the cluster
  /// The most bytes that slots hold of values in flight, and of values that
  /// only the passes for weights still need.
  int64_t inFlight = 0, forWeights = 0;
  /// Bytes in use from a time on: variables, arguments and results, and the
  /// parts of the arena and of slots that hold values. Times ascend.
  std::vector<std::pair<double, int64_t>> curve;
  double peakTime = 0;
  int64_t peak = 0;
  /// The values in the arena and in slots at the peak, the largest first.
  std::vector<LiveValue> aliveAtPeak;
};

/// Refers to ops of the module, and may not outlive it.
struct Simulation {
  std::string cluster;
  int64_t devices = 1;
  /// The time of the step. Without a barrier, it is the period of steps that
  /// overlap, and `exposed` and `times` are of a step that others overlap.
  /// `calls`, `streams` and memory are of one step from an empty pipeline.
  double seconds = 0;
  /// The seconds for which the compute stream waits for communication, in the
  /// list that waits longest.
  double exposed = 0;
  StepBounds bounds;
  std::vector<CallList> lists;
  std::vector<ListTimes> times; ///< by list

  /// Returns the part of the step, from 0 to 1, in which the compute stream of
  /// a list waits for other lists.
  double getBubble(unsigned list) const;
  /// Returns the mean over all lists.
  double getBubble() const;
  std::vector<SimulatedCall> calls;
  std::vector<StreamTimes> streams; ///< those that have calls
  /// The memory of the list whose device has the least room left, and that of
  /// each list. If this list's memory fits, that of all lists does.
  MemoryUse memory;
  std::vector<MemoryUse> memories;
  /// The kinds of device of lists whose ranks have several: they take the time
  /// of the weakest.
  std::vector<std::string> mixed;
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
