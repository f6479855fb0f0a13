//===- Plan.h - Plans: who computes and stores which part -------*- C++ -*-===//
//
// A plan as data: a mesh, an assignment of mesh axes to the factors of
// operators, and of mesh axes to the dimensions of stored variables. Its JSON
// form is documented in docs/plan.md. Nothing here changes a program.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLAN_PLAN_H
#define HEDDLE_PLAN_PLAN_H

#include "dialects/Heddle/HeddleDialect.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
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

/// A factor or a dimension, and the mesh axes that split it, major to minor. No
/// axes: it is not to be split.
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

/// The most devices that a mesh and the runtime take.
constexpr int64_t kMaxPlanDevices = 1 << 16;
/// The largest priority: each one costs a propagation to its fixed point.
constexpr int64_t kMaxPlanPriority = 1 << 16;

/// Runs operators in slices of one factor. Their parameters are sliced too.
struct PlanSplit {
  std::string glob;
  std::string factor;
  int64_t slices = 1;
  /// How many slices of a parameter are stored as "storage" says; the others
  /// are stored as their uses want them. nullopt: all.
  std::optional<int64_t> sharded;
  PlanPosition position;
};

/// When the axes that the plan gives to operators are propagated to others:
/// those of priority 0, the default, first, then 1, and so on.
struct PlanPriority {
  std::string glob;
  int64_t priority = 0;
  PlanPosition position;
};

struct Plan {
  /// The file that it was read from; "" if none. Only for messages.
  std::string source;
  /// Major to minor: the last axis is the fastest.
  std::vector<PlanAxis> mesh;
  /// Names of products, for reading; assignments hold the axes themselves.
  std::vector<PlanProduct> products;
  std::vector<FactorEntry> operators;
  std::vector<StorageEntry> storage;
  std::vector<PlanSplit> splits;
  /// How what operators make lies, by factors: one without axes is whole.
  std::vector<FactorEntry> pins;
  std::vector<PlanPriority> priorities;
  /// Whether a collective over several topology levels becomes one a level.
  Hierarchy hierarchy = Hierarchy::Auto;
  /// When devices sum their gradients in a step of several micro-batches.
  GradientReduction reduceGradients = GradientReduction::Step;

  int64_t getNumDevices() const;
  /// The size of an axis, or 0 if there is none of that name.
  int64_t getAxisSize(llvm::StringRef name) const;
  /// Adds an axis, or a product of several. Returns the names of the axes.
  std::vector<std::string> addAxes(const std::string &name,
                                   llvm::ArrayRef<int64_t> sizes);
};

/// An error in the text of a plan, with its position. As a string it reads
/// "plan.json:3:12: $.mesh.dp: expected …".
class PlanError : public llvm::ErrorInfo<PlanError> {
public:
  static char ID;

  PlanError(std::string source, PlanPosition position, std::string message)
      : source(std::move(source)), position(position),
        message(std::move(message)) {}

  void log(llvm::raw_ostream &stream) const override;
  std::error_code convertToErrorCode() const override;

  std::string source;
  PlanPosition position;
  std::string message;
};

/// Reads a plan from JSON text. `source` names the text in errors, which are of
/// class PlanError.
llvm::Expected<Plan> parsePlan(llvm::StringRef text, llvm::StringRef source);
llvm::Expected<Plan> readPlanFile(llvm::StringRef path);

/// The canonical text: keys sorted (the mesh keeps its order), one entry a
/// line. parsePlan(writePlan(p)) writes the same bytes again.
std::string writePlan(const Plan &plan);

/// The JSON path of an assignment: $.operators["h.*.attn"].n
std::string getPlanPath(llvm::StringRef section, llvm::StringRef glob,
                        llvm::StringRef key = "");
/// The JSON path of a dimension's assignment: $.storage["h.*.weight"]["0"]
std::string getPlanPath(llvm::StringRef section, llvm::StringRef glob,
                        unsigned dim);

/// Whether the name matches the glob: '*' matches any characters (dots as
/// well), '?' any one, every other character itself.
bool matchesGlob(llvm::StringRef glob, llvm::StringRef name);

/// The number of literal characters of a glob. If several globs match, the one
/// with the most decides.
unsigned getGlobSpecificity(llvm::StringRef glob);

/// The most specific entry that matches the name; null if there is none.
/// `rival` is set to another entry that is as specific and has other
/// assignments, or to null.
const FactorEntry *findPlanEntry(llvm::ArrayRef<FactorEntry> entries,
                                 llvm::StringRef name,
                                 const FactorEntry **rival = nullptr);
const StorageEntry *findPlanEntry(llvm::ArrayRef<StorageEntry> entries,
                                  llvm::StringRef name,
                                  const StorageEntry **rival = nullptr);

/// The same among the entries that assign `factor`. A rival is an entry that
/// assigns other axes to it.
const FactorEntry *findPlanEntry(llvm::ArrayRef<FactorEntry> entries,
                                 llvm::StringRef name,
                                 const std::string &factor,
                                 const FactorEntry **rival = nullptr);

/// The most specific split whose glob matches the name; see findPlanEntry.
const PlanSplit *findPlanSplit(llvm::ArrayRef<PlanSplit> splits,
                               llvm::StringRef name,
                               const PlanSplit **rival = nullptr);

/// The most specific priority whose glob matches the name; see findPlanEntry.
const PlanPriority *findPlanPriority(llvm::ArrayRef<PlanPriority> priorities,
                                     llvm::StringRef name,
                                     const PlanPriority **rival = nullptr);

/// The candidate with the smallest edit distance to a name or glob, or "" if
/// none is near.
llvm::StringRef findNearestName(llvm::StringRef glob,
                                llvm::ArrayRef<std::string> candidates);

} // namespace heddle

#endif // HEDDLE_PLAN_PLAN_H
