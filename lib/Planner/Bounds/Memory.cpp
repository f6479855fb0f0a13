//===- Memory.cpp - The memory of a candidate -----------------------------===//

#include "Bounds.h"
#include "MeshAxes.h"
#include "heddle/Stages/StageSchedule.h"
#include <algorithm>

using namespace heddle;

/// The part of the bytes that layers keep that stays, by mode of recomputation.
/// Estimates.
static constexpr double kKeptByCommunication = 0.35, kKeptByLayer = 0.15;

/// Returns a lower bound of the bytes that stay from the forward to the
/// backward pass, if nothing is computed again. If tensor parallelism splits a
/// product along its weight, every device of the group has the whole other
/// operand. A part of the batch may have ended before the next one begins, so
/// one part counts. The first stage of a pipeline works on as many
/// micro-batches as there are stages. Its forward pass is a program of its own,
/// so all parts count.
double BoundModel::getKept(const Candidate &candidate,
                           const MeshTopology &topology,
                           const ProgramCounts &all,
                           const ProgramCounts &layer) const {
  MeshAxes axes(candidate.mesh);
  auto tensor = double(topology.getSize(axes.tensor));
  // If the sharding may differ, every operand may be split.
  bool isStandard = !candidate.decidesOperators && !statesSplits();
  auto getBytes = [&](const ProgramCounts &counts) {
    return counts.keptInParts / tensor +
           counts.keptWhole / (isStandard ? 1 : tensor);
  };
  double part =
      1 / double(topology.getSize(axes.data) * topology.getSize(axes.context));
  if (candidate.mesh.pipeline == 1)
    return getBytes(all) * part / double(candidate.subBatches);
  auto held = double(std::min(candidate.mesh.pipeline, candidate.microBatches));
  return getBytes(layer) * part * held * getLeastLayers(candidate);
}

/// Estimates the bytes of activations and results of a device, which has the
/// parts `ofLayers` of the values of layers, and `ofOthers` of all others.
double BoundModel::estimateArena(const Candidate &candidate,
                                 const StepCounts &step, double ofLayers,
                                 double ofOthers) const {
  double keptPart = candidate.recompute == RecomputeMode::None ? 1
                    : candidate.recompute == RecomputeMode::Communication
                        ? kKeptByCommunication
                        : kKeptByLayer;
  auto stages = double(candidate.mesh.pipeline);
  // A program of one size is taken as equal layers alone.
  auto layers = double(request.program.layers.value_or(request.program.depth));
  double layer = step.layer.keptBytes > 0 ? step.layer.keptBytes
                                          : step.all.keptBytes / layers;
  double ofStage = layer * layers / stages * keptPart * ofLayers;
  double again = layer * (1 - keptPart) * ofLayers;
  // Where the backward pass begins, all kept values are alive, with a gradient.
  double others = (std::max(step.all.keptBytes - layer * layers, 0.0) +
                   step.all.largestGradient) *
                  ofOthers;
  // A device of a pipeline holds the activations of as many micro-batches as
  // it has stages behind it and itself. If the pass for weights comes later,
  // the last stage holds as many as the first one, and values outside of layers
  // as often. If a device has several stages, the first one begins
  // 2 * (stages - 1) passes, and a group of passes for each further stage that
  // it has, before its first backward pass. The last one begins these groups.
  auto microBatches = double(candidate.microBatches);
  bool splits = splitsBackward(candidate.mesh.schedule);
  double chunks = double(candidate.getNumStages()) / stages;
  double groups = splits ? 0 : (chunks - 1) * stages;
  double held = groups > 0 ? (2 * (stages - 1) + groups + 1) / chunks : stages;
  held = std::min(held, microBatches);
  double heldByLast =
      splits ? held : std::min((groups + 1) / chunks, microBatches);
  return std::max(ofStage * held + again,
                  ofStage * heldByLast + others * (splits ? held : 1) + again +
                      step.all.results * ofOthers);
}

/// Estimates how much more of the variables than an equal part the largest
/// stage has, relative to that part. The first and the last stage have tables
/// besides layers: the same ones, or half of them each. One device may have
/// both stages.
double BoundModel::estimateUneven(const Candidate &candidate,
                                  const StepCounts &step) const {
  auto stages = double(candidate.mesh.pipeline);
  auto layers = double(request.program.layers.value_or(0));
  double tables = step.all.parameters - layers * step.layer.parameters;
  if (stages == 1 || layers == 0 || tables <= 0)
    return 0;
  bool hasAll = step.all.sharedTables > 0 ||
                candidate.mesh.schedule == PipelineSchedule::ZBV;
  double largest = hasAll ? tables : tables / 2;
  return std::max(0.0, largest * stages - tables) / step.all.parameters;
}
