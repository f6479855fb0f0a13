//===- Plan.h - Plans: who computes and stores which part -------*- C++ -*-===//
//
// A plan as data: a mesh, the mesh axes that split the factors of operators,
// and those that split the dimensions of stored variables. Its JSON form is
// documented in docs/plan.md. Nothing here changes a program.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLAN_PLAN_H
#define HEDDLE_PLAN_PLAN_H

#include "dialects/Heddle/HeddleDialect.h"
#include "heddle/Plan/Prediction.h"
#include "heddle/Plan/Schedules.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace heddle {

/// A position in a plan's file; line 0 if there is no file.
struct PlanPosition {
  unsigned line = 0;
  unsigned column = 0;
};

struct PlanAxis {
  std::string name;
  int64_t size = 1;
};

/// A name for several axes of the mesh, major to minor. "tp": [2, 2] in a plan
/// makes the axes tp.0 and tp.1, and "tp" stands for both.
struct PlanProduct {
  std::string name;
  std::vector<std::string> axes;
};

/// A factor or a dimension, and the mesh axes that split it, major to minor.
/// Without axes it must not be split.
template <typename KeyT> struct PlanAssignment {
  KeyT key;
  std::vector<std::string> axes;
  PlanPosition position;
};
using FactorAssignment = PlanAssignment<std::string>; ///< by a factor's name
using DimAssignment = PlanAssignment<unsigned>; ///< by a dimension's index

/// The assignments of all operators, or variables, whose name matches the glob.
template <typename KeyT> struct PlanEntry {
  std::string glob;
  std::vector<PlanAssignment<KeyT>> assignments;
  PlanPosition position;

  const PlanAssignment<KeyT> *find(const KeyT &key) const {
    for (const PlanAssignment<KeyT> &assignment : assignments)
      if (assignment.key == key)
        return &assignment;
    return nullptr;
  }
};
using FactorEntry = PlanEntry<std::string>; ///< of operators
using StorageEntry = PlanEntry<unsigned>;   ///< of variables

/// The largest number of devices that a mesh and the runtime support.
constexpr int64_t kMaxPlanDevices = 1 << 16;
/// The largest priority. Each priority costs one propagation to its fixed
/// point.
constexpr int64_t kMaxPlanPriority = 1 << 16;
/// The largest number of sub-batches. Programs grow with their number.
constexpr int64_t kMaxSubBatches = 1 << 10;
/// The most samples of a sub-batch, so that their sum is a number.
constexpr int64_t kMaxSubBatchSize = 1 << 30;
/// The largest limit of live tensors. No device has so much memory.
constexpr int64_t kMaxRecomputeBytes = int64_t(1) << 56;
constexpr int64_t kMaxExchangeChunks = 64;

/// Runs operators in slices of one factor. Slices their parameters, too.
struct PlanSplit {
  std::string glob;
  std::string factor;
  int64_t slices = 1;
  /// The number of slices of a parameter that are stored as "storage" says.
  /// Other slices are stored with the shardings that their uses want. nullopt:
  /// all slices.
  std::optional<int64_t> sharded;
  PlanPosition position;
};

/// The round in which the axes of these operators are propagated to other ops.
/// Priority 0, the default, comes first, then 1, and so on.
struct PlanPriority {
  std::string glob;
  int64_t priority = 0;
  PlanPosition position;
};

/// One of the stages of a pipeline: the globs of its operators.
struct PlanStage {
  std::vector<std::string> globs;
  PlanPosition position;
};

/// Where the devices of a pipeline wait for each other.
enum class PipelineBarrier {
  Step, ///< at the end of each step
  None  ///< only for what they send each other
};

/// The mesh axis along which the stages of a pipeline lie.
inline constexpr llvm::StringLiteral kPipelineAxis = "pp";

struct Plan {
  /// The file that the plan was read from, for messages; "" if none.
  std::string source;
  /// Major to minor: the last axis is the fastest.
  std::vector<PlanAxis> mesh;
  /// Names of products, for the reader of a plan. Assignments hold the axes
  /// themselves.
  std::vector<PlanProduct> products;
  std::vector<FactorEntry> operators;
  std::vector<StorageEntry> storage;
  std::vector<PlanSplit> splits;
  /// The layouts of operators' results, by factors. A factor without axes is
  /// not split.
  std::vector<FactorEntry> pins;
  std::vector<PlanPriority> priorities;
  /// Whether a collective over several levels of the topology becomes one
  /// collective per level.
  Hierarchy hierarchy = Hierarchy::Auto;
  /// When devices sum their gradients, in a step of several micro-batches.
  GradientReduction reduceGradients = GradientReduction::Step;
  /// The number of parts in which the batch of each program runs; 1: whole.
  /// nullopt: as the schedule says, or whole.
  std::optional<int64_t> subBatches;
  /// The samples of each part. Empty: they differ by at most one.
  std::vector<int64_t> subBatchSizes;
  /// nullopt: as the schedule says, or nothing.
  std::optional<RecomputeMode> recompute;
  /// For RecomputeMode::Optimal: the most bytes of live tensors before ops are
  /// fused. nullopt: a device's memory less its variables, arguments and
  /// results.
  std::optional<int64_t> recomputeBytes;
  /// The row chunks of products beside an exchange along another dimension.
  /// nullopt: they stay whole.
  std::optional<int64_t> exchangeChunks;
  /// Whether products and the exchanges of their rows run in steps of a ring.
  bool exchangeRing = false;
  /// Whether sums are scattered where this makes the work after them faster.
  bool scatterSums = false;
  Overlap overlap = Overlap::None;
  /// The number of stages of a pipeline over the axis "pp"; 0: there is no
  /// pipeline.
  int64_t numStages = 0;
  /// The operators of each stage. Empty: stages of about equal work.
  std::vector<PlanStage> stages;
  PipelineSchedule schedule = PipelineSchedule::OneFOneB;
  /// A schedule of the plan's own as JSON text; "" if it has none.
  std::string scheduleTable;
  PipelineBarrier pipelineBarrier = PipelineBarrier::Step;
  /// The planner's prediction of the plan; none if it did not make the plan.
  std::optional<PlanPrediction> prediction;
  /// The positions of the keys of the plan's object that its text has.
  std::map<std::string, PlanPosition, std::less<>> positions;
  /// For keys that come from options of the command line and not from a text:
  /// the option, for messages. Example: "sub_batches" -> "--sub-batches".
  std::map<std::string, std::string, std::less<>> options;

  /// Returns the position of a key of the plan's object; line 0 if the text
  /// lacks it.
  PlanPosition getPosition(llvm::StringRef key) const;
  int64_t getNumDevices() const;
  /// Changes the number of parts. Stated sizes of another number of parts are
  /// dropped.
  void setSubBatches(int64_t parts) {
    subBatches = parts;
    if (int64_t(subBatchSizes.size()) != parts)
      subBatchSizes.clear();
  }
  /// Returns the size of an axis, or 0 if the mesh lacks it.
  int64_t getAxisSize(llvm::StringRef name) const;
  /// Adds an axis, or a product of several axes, and returns the names of the
  /// axes.
  std::vector<std::string> addAxes(const std::string &name,
                                   llvm::ArrayRef<int64_t> sizes);
};

/// An error in the text of a plan, with its position. Printed, it reads
/// "plan.json:3:12: $.mesh.dp: expected …", with the line of the text below.
/// A text with several errors has a list of them.
class PlanError : public llvm::ErrorInfo<PlanError> {
public:
  static char ID;

  PlanError(std::string source, PlanPosition position, std::string message,
            std::string line)
      : source(std::move(source)), position(position),
        message(std::move(message)), line(std::move(line)) {}

  void log(llvm::raw_ostream &stream) const override;
  std::error_code convertToErrorCode() const override;

  std::string source;
  PlanPosition position;
  std::string message;
  std::string line; ///< of the text
};

/// Reads a plan from JSON text. `source` names the text in errors, which are of
/// class PlanError. What the plan says of a program, its axes included, is not
/// checked (heddle/PlanVerifier/PlanVerifier.h).
llvm::Expected<Plan> parsePlan(llvm::StringRef text, llvm::StringRef source);
llvm::Expected<Plan> readPlanFile(llvm::StringRef path);
/// Reads a part of a plan, which need not have a mesh.
llvm::Expected<Plan> readPartialPlanFile(llvm::StringRef path);

/// Returns the canonical text: sorted keys (but the mesh keeps its order), one
/// entry per line. parsePlan(writePlan(p)) is written as the same text again.
std::string writePlan(const Plan &plan);

/// Returns the JSON path of an assignment: $.operators["h.*.attn"].n
std::string getPlanPath(llvm::StringRef section, llvm::StringRef glob,
                        llvm::StringRef key = "");
/// Returns the JSON path of a dimension's assignment:
/// $.storage["h.*.weight"]["0"]
std::string getPlanPath(llvm::StringRef section, llvm::StringRef glob,
                        unsigned dim);

/// Returns whether the name matches the glob. '*' matches any characters, dots
/// too; '?' matches any one; every other character matches itself.
bool matchesGlob(llvm::StringRef glob, llvm::StringRef name);

/// Returns the number of literal characters of a glob. If several globs match a
/// name, the one with the largest number decides.
unsigned getGlobSpecificity(llvm::StringRef glob);

/// Returns the most specific entry that matches the name; null if there is
/// none. Sets `rival` to another entry that is as specific and has other
/// assignments, or to null.
const FactorEntry *findPlanEntry(llvm::ArrayRef<FactorEntry> entries,
                                 llvm::StringRef name,
                                 const FactorEntry **rival = nullptr);
const StorageEntry *findPlanEntry(llvm::ArrayRef<StorageEntry> entries,
                                  llvm::StringRef name,
                                  const StorageEntry **rival = nullptr);

/// Returns the most specific entry that matches the name and assigns `factor`.
/// A rival is an entry that assigns other axes to the factor.
const FactorEntry *findPlanEntry(llvm::ArrayRef<FactorEntry> entries,
                                 llvm::StringRef name,
                                 const std::string &factor,
                                 const FactorEntry **rival = nullptr);

/// Returns the most specific split that matches the name; see findPlanEntry.
const PlanSplit *findPlanSplit(llvm::ArrayRef<PlanSplit> splits,
                               llvm::StringRef name,
                               const PlanSplit **rival = nullptr);

/// Returns the most specific priority that matches the name; see findPlanEntry.
const PlanPriority *findPlanPriority(llvm::ArrayRef<PlanPriority> priorities,
                                     llvm::StringRef name,
                                     const PlanPriority **rival = nullptr);

/// Returns the candidate with the smallest edit distance to a name or glob, or
/// "" if none is near.
llvm::StringRef findNearestName(llvm::StringRef glob,
                                llvm::ArrayRef<std::string> candidates);

} // namespace heddle

#endif // HEDDLE_PLAN_PLAN_H
