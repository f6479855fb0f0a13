//===- PlanResolver.h - Resolves and checks a plan --------------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANVERIFIER_PLANRESOLVER_H
#define HEDDLE_LIB_PLANVERIFIER_PLANRESOLVER_H

#include "heddle/PlanVerifier/PlanVerifier.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"
#include <map>
#include <tuple>

namespace heddle {

/// Resolves one plan. Every check reports what it finds and goes on, so that
/// all violations are found at once.
class PlanResolver {
public:
  PlanResolver(mlir::ModuleOp module, const Plan &plan,
               const PlanSetting &setting)
      : module(module), plan(plan), setting(setting),
        context(module.getContext()) {}

  ResolvedPlan run();

private:
  /// Adds an error. If several operators or variables violate a rule by the
  /// same key of the plan (and by the same axis, if the rule is about axes),
  /// only the first one is reported, with the number of the others.
  PlanProblem &report(PlanRule rule, PlanPosition at, std::string path,
                      const llvm::Twine &message, llvm::StringRef name = {},
                      llvm::StringRef axis = {});
  void warn(PlanRule rule, PlanPosition at, std::string path,
            const llvm::Twine &message);

  // ResolveMesh.cpp
  /// Returns whether the mesh has valid sizes. Otherwise the plan cannot be
  /// checked against a program.
  bool resolveMesh();
  void checkAxes();
  template <typename KeyT>
  void checkAxesOf(llvm::StringRef section,
                   llvm::ArrayRef<PlanEntry<KeyT>> entries);

  // ResolveOperators.cpp
  void collectOperators();
  void resolveOperators();
  void resolveOperator(PlannedOp &planned);
  void checkDivides(const PlannedOp &planned, unsigned factor,
                    const FactorEntry &entry,
                    const FactorAssignment &assignment);
  /// Returns the factors of all operators that match the glob. Reports a glob
  /// that matches nothing, and returns nullopt.
  std::optional<llvm::SetVector<llvm::StringRef>>
  findFactors(llvm::StringRef section, llvm::StringRef glob, PlanPosition at);
  /// Reports a factor that none of these operators has.
  bool expectFactor(llvm::StringRef section, llvm::StringRef glob,
                    llvm::StringRef factor, PlanPosition at,
                    const llvm::SetVector<llvm::StringRef> &factors);
  PlanProblem &reportRival(PlanPosition at, std::string path,
                           llvm::StringRef rival, llvm::StringRef name);

  // ResolveStorage.cpp
  void checkStorage(const StorageEntry &entry);
  void resolveStorage();
  void resolveSplits();
  bool checkSplitOf(const PlannedOp &planned, const PlanSplit &split);
  /// Returns the factors in which the operators of a name may run in slices:
  /// the dimensions of the parameters that these operators read.
  const llvm::SetVector<llvm::StringRef> &
  getSliceableFactors(llvm::StringRef name);

  // ResolvePins.cpp
  void resolvePins();
  void checkPin(const FactorEntry &entry);
  void resolvePin(const PlannedOp &made, const FactorEntry &entry);
  void resolvePriorities();

  // ResolveStages.cpp
  void resolveStages();
  void checkSchedule();
  void checkStageOrder();

  // CheckModel.cpp
  /// Reports an entry that names nothing in the program.
  PlanProblem &reportUnknown(PlanRule rule, PlanPosition at, std::string path,
                             const llvm::Twine &message);
  /// If at least three globs, and at least half of all, name nothing, replaces
  /// all problems by one, because the plan seems to be of another model.
  /// Returns whether it is.
  bool checkModel();

  // CheckStep.cpp
  void checkSubBatches();
  void checkPrediction();

  /// Returns the named axes, without those of size 1, which split nothing.
  Axes toAxes(llvm::ArrayRef<std::string> names);

  mlir::ModuleOp module;
  const Plan &plan;
  const PlanSetting &setting;
  mlir::MLIRContext *context;
  ResolvedPlan result;
  /// By rule, path and axis: the index of the problem, and the operators or
  /// variables that have it.
  std::map<std::tuple<PlanRule, std::string, std::string>,
           std::pair<size_t, llvm::StringSet<>>>
      known;
  /// The indices of problems of entries that name nothing.
  llvm::SetVector<size_t> unknown;
  /// For each op name, the names of the factors of all ops of that name, in
  /// order.
  llvm::MapVector<llvm::StringRef, llvm::SetVector<llvm::StringRef>> factorsOf;
  /// For op names: the result of getSliceableFactors().
  llvm::StringMap<llvm::SetVector<llvm::StringRef>> sliceable;
  std::vector<std::string> names;
  llvm::BumpPtrAllocator strings;
};

/// Returns the micro-batches of a step of the module; 1 if it has no such step.
int64_t getNumMicroBatches(mlir::ModuleOp module);
/// Returns the training program, which has the role step or accumulate. Null if
/// there is none.
mlir::FunctionOpInterface findTrainingProgram(mlir::ModuleOp module);

} // namespace heddle

#endif // HEDDLE_LIB_PLANVERIFIER_PLANRESOLVER_H
