//===- Operators.h - The best plan of operators on one mesh -----*- C++ -*-===//
//
// Given a global program and a mesh, decides which mesh axes split each factor
// of each operator, and which split each stored variable, so that the step
// takes least time within a memory limit. The decision is an instance of the
// solver's problem (heddle/Solver/Problem.h), as in the intra-operator pass of
// Alpa (Zheng et al., OSDI 2022, section 4):
//
//  - A node is an operator of the plan: all ops of one name, whose factors are
//    tied, and all operators at the same place of equal layers. Its strategies
//    are the assignments of mesh axes to its factors. It costs the roofline
//    time of its local work. Other nodes are values with several uses, and
//    variables. Their strategies are layouts.
//  - An edge costs the cheapest resharding between the layout that one node
//    makes and the one that the other needs. Partial sums are layouts.
//  - A node uses the bytes of its values while these live.
//
// The search over meshes, stages, schedules and batches is elsewhere. It calls
// planOperators for each mesh.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANNER_OPERATORS_H
#define HEDDLE_PLANNER_OPERATORS_H

#include "heddle/Cost/Resharding.h"
#include "heddle/Plan/Plan.h"
#include "heddle/Sharding/ReshardSequence.h"
#include "mlir/IR/BuiltinOps.h"
#include <atomic>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace heddle {

/// How much of a collective's time counts: 1 if devices wait for all of it, 0
/// if it is hidden behind computation. A search takes the factors from the
/// simulation of its last candidate. Keyed by the kind of the op and the
/// outermost level of the topology (index into Cluster::levels) that its groups
/// cross. Kinds and levels without an entry count in full.
class Exposure {
public:
  double get(ReshardingStep::Kind kind, int level) const {
    auto known = factors.find({kind, level});
    return known == factors.end() ? 1.0 : known->second;
  }
  /// Moves all factors half of the way to the measured ones. Communication that
  /// one plan hides is not free, because a plan with more communication hides
  /// less of it.
  void approach(const Exposure &measured) {
    for (const auto &[key, factor] : measured.factors)
      factors[key] = (get(key.first, key.second) + factor) / 2;
  }
  /// `factor` is clamped to [0, 1].
  void set(ReshardingStep::Kind kind, int level, double factor) {
    factors[{kind, level}] = std::min(1.0, std::max(0.0, factor));
  }

private:
  std::map<std::pair<ReshardingStep::Kind, int>, double> factors;
};

/// The bytes of one device, by what they hold.
struct MemoryByKind {
  int64_t parameters = 0;     ///< roles parameter and buffer
  int64_t gradients = 0;      ///< accumulated over micro-batches
  int64_t optimizerState = 0; ///< and all other variables
  /// Values of the program that live at the time of the peak: what is kept for
  /// the backward pass and what is in use.
  int64_t activations = 0;

  int64_t getTotal() const {
    return parameters + gradients + optimizerState + activations;
  }
};

/// The time of one step and the memory of one device, computed op by op from
/// the global program, without compiling it. Kernels, schedules and memory
/// plans are not considered, so a simulation is the judge.
struct StepPrediction {
  double computeSeconds = 0;
  double communicationSeconds = 0; ///< if nothing is hidden
  double exposedSeconds = 0;       ///< communication weighted by Exposure
  MemoryByKind memory;

  /// The quantity that is minimized.
  double getSeconds() const { return computeSeconds + exposedSeconds; }
};

/// What an operator or variable costs with one of its strategies.
struct StrategyCost {
  /// As in a plan: `{"b": ["dp"], "f": ["tp"]}`.
  std::string strategy;
  /// Seconds of a step and bytes of a device for all operators of the choice:
  /// their own work, and the reshardings at their borders while the neighbours
  /// keep their strategies.
  double seconds = 0;
  int64_t bytes = 0;
};

/// One decision, and the cost of the next best one.
struct OperatorChoice {
  /// Names of operators, or of variables. Equal layers with the same strategy
  /// are one choice.
  std::string glob;
  std::vector<std::string> names; ///< for which the glob stands
  bool isVariable = false;
  int64_t count = 1; ///< the number of names that the glob stands for
  StrategyCost chosen;
  /// Whether `chosen` has seconds and bytes.
  bool hasCost = true;
  /// The cheapest other strategy; none if there was only one.
  std::optional<StrategyCost> runnerUp;
};

/// A part of the time of an op whose local form consists of several ops.
struct LocalPart {
  double seconds = 0;
  /// If it is a collective: its kind and level, which decide how much of it is
  /// exposed.
  std::optional<std::pair<ReshardingStep::Kind, int>> collective;
};

/// Keeps the reshardings that were searched for and the parts of local ops,
/// because later problems of the same context and cluster have many of the same
/// ones. Neither depends on exposure.
class KnownCosts {
public:
  /// The parts of ops, by all that an op without regions and its axes consist
  /// of. None: the op cannot be localized with these axes.
  using OpKey = std::vector<const void *>;
  using LocalParts = std::map<OpKey, std::optional<std::vector<LocalPart>>>;
  struct OfMesh {
    ReshardSequences reshardings;
    LocalParts parts;
  };

  /// Returns those on a mesh.
  OfMesh &get(MeshRef mesh, const MeshTopology &topology);

private:
  std::map<const void *, OfMesh> ofMesh;
};

struct OperatorsOptions {
  /// The fixed part of the plan. Its mesh is the one to plan for. Entries of
  /// operators, pins and storage stay as they are, and the factors that they
  /// name are not decided. All other fields are copied into the result.
  Plan base;
  /// The bytes of one device for everything that MemoryByKind counts; none: any
  /// amount fits.
  std::optional<int64_t> memoryLimit;
  Exposure exposure;
  /// Table entries that the solver may visit; 0: until the optimum is proven.
  /// The same limit and seed give the same plan on any number of threads.
  uint64_t workLimit = 20'000'000;
  uint64_t seed = 1;
  unsigned threads = 0; ///< 0: as many as the machine has
  /// How often the program @accumulate runs in a step (micro-batches). 0: as
  /// the module says (heddle.micro_batches).
  int64_t microBatches = 0;
  /// Whether the storage of variables is decided, too. Otherwise they are
  /// stored as the plan and their uses say.
  bool decidesStorage = true;
  /// Whether axes may have more devices than the elements that they split, so
  /// that some devices hold nothing but padding.
  bool allowsEmptyParts = false;
  /// Whether the result has a prediction, which partitions a copy of the whole
  /// program. For many layers that takes longer than the rest.
  bool predicts = true;
  /// The search stops early when this becomes true; the best plan so far is
  /// returned.
  const std::atomic<bool> *stop = nullptr;
  /// Costs of earlier problems; null: none are known.
  KnownCosts *known = nullptr;
};

struct OperatorsResult {
  /// False if no assignment fits the memory limit, by the usages of the problem
  /// or by the prediction. Then the plan is the fastest one of those that need
  /// least by the usages.
  bool isFeasible = true;
  /// The base with entries for all operators and variables that were decided.
  Plan plan;
  /// The prediction of the complete plan, after propagation has decided what
  /// `plan` leaves open.
  StepPrediction prediction;
  /// The seconds of the chosen strategies by the costs of the problem. The
  /// prediction differs from it, because it counts the ops that partitioning
  /// really makes, and because propagation decides what the plan leaves open.
  double seconds = 0;
  /// No assignment of strategies takes less by the same costs.
  double lowerBound = 0;
  double gap = 0; ///< (seconds - lowerBound) / seconds
  /// The bytes of a device by the usages of the problem, which are compared
  /// with the memory limit.
  int64_t bytes = 0;
  bool isOptimal = false;              ///< the solver has proven its optimum
  std::vector<OperatorChoice> choices; ///< largest time first
  /// Size of the problem and work done, for reports.
  int64_t numNodes = 0, numEdges = 0;
  uint64_t work = 0;
};

/// Decides the operators and variables of a module for one mesh. The module is
/// a training step in phase autodiff, or any global program whose ops have
/// sharding rules; it is not changed. `topology` is the placement of the base
/// plan's mesh on the cluster, with axes in the same order. Errors, as
/// diagnostics: a base plan that does not fit the module, a mesh of more than
/// three axes (of several devices, beside the pipeline's), a program that
/// cannot be partitioned, and a cluster without the peak rate of a product's
/// type.
mlir::FailureOr<OperatorsResult> planOperators(mlir::ModuleOp module,
                                               const MeshTopology &topology,
                                               const OperatorsOptions &options);

/// Predicts time and memory of any plan for a module in phase autodiff, which
/// is not changed. Runs the partitioner up to explicit reshards on a copy, and
/// adds up the costs of ops and reshards. Errors as diagnostics.
mlir::FailureOr<StepPrediction> predictStep(mlir::ModuleOp module,
                                            const Plan &plan,
                                            const MeshTopology &topology,
                                            const Exposure &exposure = {},
                                            int64_t microBatches = 0);

/// Returns for each operator and variable the plan's choice, after propagation
/// has completed the plan, its cost by the costs of the problem, and the cost
/// of the next best choice. Costs are of whole batches, without pipelines,
/// slices and overlap. The module, in phase autodiff, is not changed. Errors as
/// diagnostics.
mlir::FailureOr<std::vector<OperatorChoice>>
explainOperators(mlir::ModuleOp module, const Plan &plan,
                 const Cluster &cluster, int64_t microBatches = 0);

/// Returns for each operator the plan's choice, after propagation has completed
/// the plan, without costs. It needs no problem, so it also answers for plans
/// whose costs are unknown. The module, in phase autodiff, is not changed.
/// Errors as diagnostics.
mlir::FailureOr<std::vector<OperatorChoice>>
listSplits(mlir::ModuleOp module, const Plan &plan, const Cluster &cluster);

} // namespace heddle

#endif // HEDDLE_PLANNER_OPERATORS_H
