//===- Measure.h - Programs that measure, and what they say -----*- C++ -*-===//
//
// `heddle profile` runs the calls of a program one at a time, by programs that
// are made of these calls. They are compiled and run as any other.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PROFILE_MEASURE_H
#define HEDDLE_PROFILE_MEASURE_H

#include "heddle/Cost/CollectiveCost.h"
#include "heddle/Profile/Profile.h"
#include "heddle/Simulate/RunTrace.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

/// The program that measures the time of a wake-up. The others have a prefix,
/// or are named in this file.
inline constexpr llvm::StringLiteral kWakeProgram = "wake";

struct MeasureOptions {
  /// The largest message of a collective that the program does not have itself.
  int64_t mostBytes = int64_t(4) << 20;
};

/// Replaces the programs of `entry` in a module of phase `executable`, and all
/// other programs, by programs that run one call after another:
///  - `alone_P`, the calls of P on one stream;
///  - `collectives`, each kind of collective that they have, by messages of
///    increasing size;
///  - kWakeProgram, short calls on two streams that wait for each other in
///  turn.
/// Fails if a program cannot be run alone.
llvm::Error makeAloneProgram(mlir::ModuleOp module,
                             llvm::ArrayRef<std::string> programs,
                             const MeasureOptions &options);

/// Replaces the programs by programs `beside_P`: the calls of P on stream 0,
/// and beside them one collective after another on stream 1. `measured`, from
/// the first programs, tells how many these must be. Returns false if the mesh
/// has one device, which has nobody to communicate with.
llvm::Expected<bool> makeBesideProgram(mlir::ModuleOp module,
                                       llvm::ArrayRef<std::string> programs,
                                       const MachineProfile &measured);

/// Removes the runs that something else on the machine has disturbed: those
/// that take over a tenth longer than the fastest quarter of the runs of their
/// table.
void dropDisturbedRuns(RunTrace &trace);

/// Adds the times in the trace of a run of the programs of makeAloneProgram.
/// `module` holds these programs. `links` says that collectives were measured
/// on the links of the topology's cluster.
void addAloneTimes(MachineProfile &profile, mlir::ModuleOp module,
                   const RunTrace &trace, const MeshTopology &topology,
                   bool links);
/// Adds the times in the trace of a run of the programs of makeBesideProgram:
/// those of calls that were beside communication for most of their time.
void addBesideTimes(MachineProfile &profile, mlir::ModuleOp module,
                    const RunTrace &trace);

} // namespace heddle

#endif // HEDDLE_PROFILE_MEASURE_H
