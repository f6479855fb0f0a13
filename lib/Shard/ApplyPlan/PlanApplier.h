//===- PlanApplier.h - Checks and applies a plan ----------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_APPLYPLAN_PLANAPPLIER_H
#define HEDDLE_LIB_SHARD_APPLYPLAN_PLANAPPLIER_H

#include "RefineAxes.h"
#include "heddle/Shard/ApplyPlan.h"
#include "llvm/ADT/SetVector.h"

namespace heddle {

/// Checks a plan against a module and sets its attributes. Sets no attribute
/// before the whole plan has been checked.
class PlanApplier {
public:
  PlanApplier(mlir::ModuleOp module, const Plan &plan,
              llvm::ArrayRef<AbsentVariable> absent)
      : module(module), plan(plan), absent(absent),
        context(module.getContext()) {}

  mlir::LogicalResult apply(int64_t devices);

private:
  mlir::InFlightDiagnostic error(PlanPosition at, llvm::StringRef path);
  mlir::LogicalResult checkMesh(int64_t devices);
  void collect();

  // "operators"
  mlir::FailureOr<llvm::SetVector<llvm::StringRef>>
  findFactors(llvm::StringRef section, llvm::StringRef glob, PlanPosition at);
  mlir::LogicalResult
  expectFactor(llvm::StringRef section, llvm::StringRef glob,
               llvm::StringRef factor, PlanPosition at,
               const llvm::SetVector<llvm::StringRef> &factors);
  mlir::LogicalResult checkOperators();
  mlir::LogicalResult checkEntry(const FactorEntry &entry);
  mlir::LogicalResult assignOp(PlannedOp &planned);
  mlir::LogicalResult checkSplit(const PlannedOp &planned, unsigned factor,
                                 const FactorEntry &entry,
                                 const FactorAssignment &assignment);

  // "storage" and "splits"
  mlir::LogicalResult checkStorage(const StorageEntry &entry);
  mlir::LogicalResult assignStorage();
  mlir::LogicalResult checkSplits();
  mlir::LogicalResult checkSplitOf(const PlannedOp &planned,
                                   const PlanSplit &split);
  mlir::LogicalResult assignSplits();

  // "pins" and "priorities"
  mlir::LogicalResult assignPins();
  mlir::LogicalResult checkPin(const FactorEntry &entry);
  mlir::LogicalResult assignPin(const PlannedOp &made,
                                const FactorEntry &entry);
  mlir::LogicalResult assignPriorities();
  mlir::LogicalResult checkPriority(const PlanPriority &priority);

  // "stages"
  mlir::LogicalResult assignStages();

  /// Returns the named axes, without those of size 1, which split nothing.
  Axes toAxes(llvm::ArrayRef<std::string> names);
  void setFactors(const PlannedOp &planned);
  void setPin(const PlannedOp &pin, MeshRef ref);

  mlir::ModuleOp module;
  const Plan &plan;
  llvm::ArrayRef<AbsentVariable> absent;
  mlir::MLIRContext *context;
  MeshAttr mesh;
  std::vector<PlannedOp> ops;
  /// The pins: ops whose results are pinned, with the axes of the results'
  /// factors.
  std::vector<PlannedOp> pins;
  /// For each op name, the names of the factors of all ops of that name, in
  /// order.
  llvm::MapVector<llvm::StringRef, llvm::SetVector<llvm::StringRef>> factorsOf;
  std::vector<std::string> names;
  llvm::BumpPtrAllocator strings;
  llvm::SmallVector<std::pair<VariableOp, DimensionAxes>> storage;
  llvm::SmallVector<std::pair<mlir::Operation *, SplitAttr>> splits;
  llvm::SmallVector<std::pair<mlir::Operation *, int64_t>> priorities;
  llvm::SmallVector<std::pair<mlir::Operation *, int64_t>> stages;
};

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_APPLYPLAN_PLANAPPLIER_H
