//===- Report.h - Simulations as text, JSON and traces ----------*- C++ -*-===//

#ifndef HEDDLE_SIMULATE_REPORT_H
#define HEDDLE_SIMULATE_REPORT_H

#include "heddle/Simulate/Simulate.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace heddle {

/// Prints a summary for people: the step's time and its lower bounds, streams,
/// the most exposed collectives, and memory.
void printSimulation(llvm::raw_ostream &out, const Simulation &simulation,
                     const Cluster &cluster);

/// Writes the same facts as one JSON object, with all collectives. Its keys are
/// documented in docs/simulate.md. Times are in seconds.
void writeSimulationJson(llvm::raw_ostream &out, const Simulation &simulation,
                         const Cluster &cluster);

/// Writes the calls as a trace for Perfetto and chrome://tracing. A set of
/// ranks is a process, and its streams are threads. Memory is a counter.
void writeChromeTrace(llvm::raw_ostream &out, const Simulation &simulation,
                      const Cluster &cluster, mlir::ModuleOp module);

/// Writes the attributes of the JSON object on the step, its streams and its
/// memory.
void writeSummary(llvm::json::OStream &out, const Simulation &simulation,
                  const Cluster &cluster);

/// A part of the memory of a device: its key in JSON, its name in texts.
struct MemoryPart {
  llvm::StringLiteral key, name;
  int64_t bytes;
};
/// Returns the parts, which add up to plan.total().
llvm::SmallVector<MemoryPart> getMemoryParts(const DeviceMemoryPlan &plan);

/// Writes the parts and their sum, "total".
void writeMemoryParts(llvm::json::OStream &out, const DeviceMemoryPlan &plan);
/// Writes the attributes of a step on devices of a cluster, in seconds.
void writeStepTimes(llvm::json::OStream &out, llvm::StringRef cluster,
                    int64_t devices, double seconds, double exposed);

/// Returns the kind of a call, such as "matmul". For a launch, returns the name
/// of the kernel.
std::string getCallKind(rt::DeviceCallOpInterface call);
/// Returns the names of the operators that a call serves; if there are more
/// than two, the first and the number of the others.
std::string getOperatorNames(rt::DeviceCallOpInterface call);
/// Replaces numbers between dots by stars: "h.3.ln_1" becomes "h.*.ln_1".
std::string generalizeNames(llvm::StringRef names);
/// Returns the mesh axes of a collective or transfer, "dp" or "dp, tp".
std::string getAxisNames(rt::DeviceCallOpInterface call);
/// Returns "all ranks", or the condition on the coordinates: "pp 0 3".
std::string getRankNames(const CallList &list);

} // namespace heddle

#endif // HEDDLE_SIMULATE_REPORT_H
