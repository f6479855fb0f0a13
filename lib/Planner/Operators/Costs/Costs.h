//===- Costs.h - Seconds of ops and reshardings on a mesh -------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_OPERATORS_COSTS_COSTS_H
#define HEDDLE_LIB_PLANNER_OPERATORS_COSTS_COSTS_H

#include "../Program/Program.h"
#include "heddle/Planner/Operators.h"
#include "heddle/Sharding/ReshardSequence.h"

namespace heddle {

/// Returns the kind of resharding step that an op of the comm dialect executes.
ReshardingStep::Kind getCollectiveKind(mlir::Operation *collective);

/// Prices single ops and reshardings. Seconds of communication are weighted by
/// exposure.
class Costs {
public:
  /// Looks costs up in `known` first. Null: none are known.
  Costs(MeshRef mesh, const MeshTopology &topology, const Exposure &exposure,
        KnownCosts *known = nullptr);

  MeshRef getMesh() const { return mesh; }

  /// Returns the seconds of one op of the class with these axes: its local work
  /// and the communication inside of it. Fails, with a diagnostic, if the
  /// cluster lacks a peak rate.
  mlir::FailureOr<double> getSeconds(const OpClass &made,
                                     const FactorAxes &axes);
  /// Returns the exposed seconds of a resharding.
  double getSeconds(mlir::RankedTensorType type, ShardingAttr from,
                    ShardingAttr to);
  /// Returns the bytes of a device's part.
  int64_t getBytes(mlir::RankedTensorType type, ShardingAttr sharding) const;

private:
  std::optional<std::vector<LocalPart>>
  findLocalParts(const OpClass &made, const FactorAxes &axes, double peak);
  std::optional<double> getExchangeSeconds(const OpClass &made,
                                           const FactorAxes &axes, double peak);

  MeshRef mesh;
  const MeshTopology &topology;
  const Exposure &exposure;
  KnownCosts own;
  KnownCosts::OfMesh &ofMesh;
  /// Exposed seconds by type and shardings.
  llvm::DenseMap<std::tuple<const void *, const void *, const void *>, double>
      exposedSeconds;
};

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_OPERATORS_COSTS_COSTS_H
