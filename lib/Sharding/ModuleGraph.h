//===- ModuleGraph.h - A module as a propagation problem --------*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARDING_MODULEGRAPH_H
#define HEDDLE_LIB_SHARDING_MODULEGRAPH_H

#include "heddle/Sharding/ControlFlow.h"
#include "heddle/Sharding/PartialAssignment.h"
#include "heddle/Sharding/Propagation.h"

namespace heddle {

/// The levels of seeds of a priority. Factors and pins of a priority come
/// before its arguments and results, and both before everything of the next
/// priority.
inline int64_t getFactorLevel(int64_t priority) { return 2 * priority; }
inline int64_t getBoundaryLevel(int64_t priority) { return 2 * priority + 1; }

/// Returns the name of the variable that a load or store accesses.
mlir::StringAttr getVariableOf(mlir::Operation *access);

/// The propagation graph of a module. It has a cell for each value and
/// variable, a node for each op, and links and flows for variables, control
/// flow and calls.
class ModuleGraph {
public:
  explicit ModuleGraph(MeshRef mesh) : graph(mesh), mesh(mesh) {}

  /// Builds the graph, with the given factors of ops as seeds.
  mlir::LogicalResult build(mlir::ModuleOp module,
                            const PartialAssignment &given);

  /// Returns the cell of a function's result. If the function has callers, it
  /// is the cell that the callers' results share.
  std::optional<unsigned> getResultCell(mlir::OpOperand &returned);

  /// Freezes the ops of the model and all ops on which these depend, so that
  /// the storage of variables does not split them.
  void freezeModel();

  struct Variable {
    VariableOp op;
    unsigned cell;
  };
  /// A load or store and the cell of its value.
  struct Access {
    mlir::Operation *op;
    unsigned cell;
  };
  /// Values that share a cell, and the operands that flow into them.
  struct Carried {
    CarriedValue value;
    unsigned cell;
  };

  Propagation graph;
  llvm::MapVector<mlir::StringAttr, Variable> variables;
  llvm::SmallVector<Access> accesses;
  /// Keyed by the op of control flow or the function that is called.
  llvm::MapVector<mlir::Operation *, llvm::SmallVector<Carried, 2>> controlFlow;

private:
  mlir::LogicalResult addFunction(mlir::func::FuncOp function,
                                  const PartialAssignment &given);
  mlir::LogicalResult addAccess(mlir::Operation *access);
  mlir::LogicalResult addOp(mlir::Operation *op,
                            const PartialAssignment &given);
  mlir::LogicalResult addControlFlow(mlir::Operation *op);
  mlir::LogicalResult addCalls(mlir::ModuleOp module);
  void addCallsOf(mlir::func::FuncOp function,
                  llvm::ArrayRef<mlir::func::CallOp> calls);
  void addFlows(const Carried &carried);

  MeshRef mesh;
  llvm::SmallVector<bool> isOfModel; ///< by the index of a node
  /// The cells of the results of functions that are called.
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<std::optional<unsigned>>>
      resultCells;
  /// For a value that no node makes, the values that flow into it.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value>> sourcesOf;
};

} // namespace heddle

#endif // HEDDLE_LIB_SHARDING_MODULEGRAPH_H
