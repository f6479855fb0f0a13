//===- FunctionStages.h - The stage of every op of a program ----*- C++ -*-===//

#ifndef HEDDLE_LIB_STAGES_CUT_FUNCTIONSTAGES_H
#define HEDDLE_LIB_STAGES_CUT_FUNCTIONSTAGES_H

#include "Pipeline.h"
#include "llvm/ADT/SetVector.h"

namespace heddle {

/// The part of a program that an op belongs to.
struct StagePart {
  StageWork work = StageWork::Forward;
  int64_t stage = 0;

  bool operator==(const StagePart &other) const {
    return work == other.work && stage == other.stage;
  }
};

/// Assigns the ops of a program to stages. The rules are those of
/// heddle-cut-stages' description.
class FunctionStages {
public:
  /// The first function of a module decides which stages read a variable
  /// (`decidesOwners`); the others follow.
  FunctionStages(mlir::func::FuncOp function, const Pipeline &pipeline,
                 VariableOwners &owners, bool decidesOwners,
                 bool splitsBackward);

  mlir::LogicalResult run();

  /// Returns whether the op is repeated in each part that reads its result.
  bool isRepeated(mlir::Operation *op) const { return repeated.contains(op); }
  /// Returns the op of the function's block that is, or contains, an op.
  mlir::Operation *getAncestor(mlir::Operation *op) const {
    return mlir::func::FuncOp(function).getBody().front().findAncestorOpInBlock(
        *op);
  }
  /// Returns the part of an op that is not repeated.
  StagePart getPart(mlir::Operation *op) const { return parts.lookup(op); }

private:
  using Op = mlir::Operation *;

  bool isForward(Op op) const { return forward.contains(op); }
  bool isPinned(Op op) const;
  void repeatCounts();
  mlir::LogicalResult findForward();
  void findRepeated();
  bool runsInParts(llvm::ArrayRef<Op> list) const;
  llvm::SmallVector<int64_t> findPlaces(llvm::ArrayRef<Op> list) const;
  llvm::DenseMap<Op, double> findTimes(llvm::ArrayRef<Op> list) const;
  mlir::LogicalResult balanceForward();
  mlir::LogicalResult assignForward();
  void moveReshards();
  void splitSharedSums();
  mlir::LogicalResult assignBackward();
  llvm::DenseMap<Op, int64_t> findEarliestStages();
  mlir::LogicalResult assignBackward(Op op, int64_t earliest);
  void delayBackward();
  void findWeightPasses();
  /// Returns the variables that an op reads through repeated ops, in order.
  llvm::SetVector<mlir::StringAttr> getVariables(Op op) const;
  /// Returns the ops in the block that read the op's results.
  llvm::SetVector<Op> getReaders(Op op) const;
  /// Returns the ops that make the inputs of an op and are not repeated.
  llvm::SetVector<Op> getMakers(Op op) const;

  mlir::func::FuncOp function;
  const Pipeline &pipeline;
  VariableOwners &owners;
  bool decidesOwners, splitsBackward;
  mlir::SymbolTableCollection tables;
  llvm::SmallVector<Op> ops;
  llvm::SetVector<Op> forward;
  llvm::DenseSet<Op> repeated;
  llvm::DenseMap<Op, llvm::SetVector<mlir::StringAttr>> variablesOf;
  llvm::DenseMap<Op, int64_t> stages;
  llvm::DenseMap<Op, int64_t> countStages; ///< of the ops of repeated counts
  llvm::DenseMap<Op, StagePart> parts;
};

/// An addition to a variable: store(load + added).
struct StageSum {
  LoadOp load;
  mlir::Operation *addition;
  StoreOp store;
  unsigned added; ///< the operand of the addition
};

/// Returns the addition that a store ends; nullopt if it ends none.
std::optional<StageSum> findStageSum(StoreOp store);

/// Returns the stage of each place such that the longest of all stages is
/// short. `seconds` is by place; `crossing[i]` is the time to send what crosses
/// a cut before place i. The devices of stage k take factors[k] times as long.
llvm::SmallVector<int64_t> balanceStages(llvm::ArrayRef<double> seconds,
                                         llvm::ArrayRef<double> crossing,
                                         llvm::ArrayRef<double> factors);

} // namespace heddle

#endif // HEDDLE_LIB_STAGES_CUT_FUNCTIONSTAGES_H
