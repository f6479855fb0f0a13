//===- Optimizer.h - Clipping, schedule, update -----------------*- C++ -*-===//
//
// Emits the part of a step after the gradients. The formulas stand in Passes.td
// (heddle-build-training-step).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_AUTODIFF_OPTIMIZER_H
#define HEDDLE_LIB_AUTODIFF_OPTIMIZER_H

#include "dialects/Heddle/Heddle.h"
#include "heddle/Autodiff/Passes.h"

namespace heddle {

using TrainingStepOptions = BuildTrainingStepPassOptions;

/// Emits an error at `loc` if an option is out of its range.
mlir::LogicalResult verifyOptions(const TrainingStepOptions &options,
                                  mlir::Location loc);

/// The module's variables. New ones are declared after those that exist.
class VariableTable {
public:
  explicit VariableTable(mlir::ModuleOp module);

  /// Returns the variable of that name, or creates it with zeros. An error if
  /// the name belongs to anything else.
  mlir::FailureOr<VariableOp> getOrCreate(llvm::StringRef name,
                                          mlir::RankedTensorType type,
                                          VariableRole role,
                                          StateAttr state = {});

  /// The variable that holds such a state of the parameter, made with zeros if
  /// there is none.
  mlir::FailureOr<VariableOp> getOrCreateState(StateKind kind,
                                               VariableOp parameter);
  /// The same, or null if there is none.
  VariableOp lookupState(StateKind kind, VariableOp parameter) const;

  mlir::SymbolTable &getSymbols() { return symbols; }

private:
  mlir::ModuleOp module;
  mlir::SymbolTable symbols;
};

mlir::Value loadVariable(mlir::OpBuilder &builder, mlir::Location loc,
                         VariableOp variable);
void storeVariable(mlir::OpBuilder &builder, mlir::Location loc,
                   VariableOp variable, mlir::Value value);

struct ParameterGradient {
  VariableOp variable;
  mlir::Value parameter; ///< its value before the update
  mlir::Value gradient;  ///< of the same type, f32
};

struct UpdateResults {
  mlir::Value gradNorm, learningRate; ///< tensor<f32>
};

/// Updates the parameters, the optimizer's state and the step counter. `scale`
/// (tensor<f32>) is a factor to apply to the gradients; null for 1.
mlir::FailureOr<UpdateResults>
buildUpdate(mlir::OpBuilder &builder, mlir::Location loc, VariableTable &table,
            llvm::ArrayRef<ParameterGradient> gradients, mlir::Value scale,
            const TrainingStepOptions &options);

} // namespace heddle

#endif // HEDDLE_LIB_AUTODIFF_OPTIMIZER_H
