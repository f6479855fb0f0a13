//===- Optimizer.h - Clipping, schedule, update -----------------*- C++ -*-===//
//
// Emits the part of a step after the gradients. The formulas are in Passes.td
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

/// The module's variables. A new variable is declared after the existing ones.
class VariableTable {
public:
  explicit VariableTable(mlir::ModuleOp module);

  /// Returns the variable of that name, or creates it with zeros. Emits an
  /// error if the name belongs to another symbol or to a variable of another
  /// type or role.
  mlir::FailureOr<VariableOp> getOrCreate(llvm::StringRef name,
                                          mlir::RankedTensorType type,
                                          VariableRole role,
                                          StateAttr state = {});

  /// Returns the variable that holds this state of the parameter, or creates it
  /// with zeros.
  mlir::FailureOr<VariableOp> getOrCreateState(StateKind kind,
                                               VariableOp parameter);
  /// Returns the variable that holds this state of the parameter, or null.
  VariableOp lookupState(StateKind kind, VariableOp parameter) const;

  mlir::SymbolTable &getSymbols() { return symbols; }

private:
  mlir::ModuleOp module;
  mlir::SymbolTable symbols;
  VariableOp last; ///< in the order of the text; null if there is none
};

mlir::Value loadVariable(mlir::OpBuilder &builder, mlir::Location loc,
                         VariableOp variable);
void storeVariable(mlir::OpBuilder &builder, mlir::Location loc,
                   VariableOp variable, mlir::Value value);

/// Returns the parameter's group (`heddle.group`), which states how the
/// optimizer updates it. Null if the options of the training step state that.
GroupAttr getGroup(VariableOp parameter);

/// Checks that the learning rate of every parameter's group is a variable of
/// the module, of role setting and type tensor<f64>.
mlir::LogicalResult verifyGroups(mlir::ModuleOp module,
                                 const mlir::SymbolTable &symbols);

struct ParameterGradient {
  VariableOp variable;
  mlir::Value parameter; ///< its value before the update
  mlir::Value gradient;  ///< f32, with the parameter's shape
};

struct UpdateResults {
  mlir::Value gradNorm, learningRate; ///< tensor<f32>
};

/// Updates the parameters, the optimizer's state and the step counter.
/// Gradients are multiplied by `scale` (tensor<f32>; null for 1).
mlir::FailureOr<UpdateResults>
buildUpdate(mlir::OpBuilder &builder, mlir::Location loc, VariableTable &table,
            llvm::ArrayRef<ParameterGradient> gradients, mlir::Value scale,
            const TrainingStepOptions &options);

} // namespace heddle

#endif // HEDDLE_LIB_AUTODIFF_OPTIMIZER_H
