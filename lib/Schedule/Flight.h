//===- Flight.h - A collective in flight ------------------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SCHEDULE_FLIGHT_H
#define HEDDLE_LIB_SCHEDULE_FLIGHT_H

#include "dialects/Comm/Comm.h"
#include "dialects/Heddle/Heddle.h"

namespace heddle {

/// The two ops of a collective that runs beside the computations.
struct Flight {
  comm::StartOp start;
  comm::WaitOp wait;
};

/// Replaces a collective by a start and a wait, which stand at its place. Both
/// keep the names of the operators that the collective serves.
Flight makeFlight(mlir::Operation *collective, int32_t stream);

/// Returns the first op of the block that reads the result, or else the
/// terminator.
mlir::Operation *getFirstReader(Flight flight);

/// Gives every group of devices a stream for its collectives: the streams 1 to
/// `streams` in turn, in the order in which the groups appear. So all
/// collectives of a group are on one stream, in one order on all devices.
class GroupStreams {
public:
  explicit GroupStreams(int32_t streams) : streams(streams) {}

  int32_t get(mlir::Operation *collective);

private:
  int32_t streams;
  /// By mesh and axes.
  llvm::DenseMap<std::pair<mlir::Attribute, mlir::Attribute>, int32_t> known;
};

/// Emits an error if a device cannot have `streams` communication streams.
mlir::LogicalResult verifyStreams(mlir::Operation *op, int32_t streams);

} // namespace heddle

#endif // HEDDLE_LIB_SCHEDULE_FLIGHT_H
