//===- ModuleGraph.h - A module as a propagation problem --------*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARDING_MODULEGRAPH_H
#define HEDDLE_LIB_SHARDING_MODULEGRAPH_H

#include "heddle/Sharding/ControlFlow.h"
#include "heddle/Sharding/PartialAssignment.h"
#include "heddle/Sharding/Propagation.h"

namespace heddle {

/// Factors and pins of a priority speak before the arguments and results of
/// this priority, and both before all of the next one.
inline int64_t getFactorLevel(int64_t priority) { return 2 * priority; }
inline int64_t getBoundaryLevel(int64_t priority) { return 2 * priority + 1; }

/// The variable that a load or store accesses.
mlir::StringAttr getVariableOf(mlir::Operation *access);

/// The graph of a module: a cell for each value and variable, a node for each
/// op, links and flows for variables, control flow and calls.
class ModuleGraph {
public:
  explicit ModuleGraph(MeshRef mesh) : graph(mesh), mesh(mesh) {}

  /// Builds the graph, with the given factors of ops as seeds.
  mlir::LogicalResult build(mlir::ModuleOp module,
                            const PartialAssignment &given);

  /// The cell of a function's result: that of its callers' results, if it has
  /// callers.
  std::optional<unsigned> getResultCell(mlir::OpOperand &returned);

  /// Freezes the ops of the model and all ops that these depend on: they are
  /// not recomputed, nor split, for the sake of storage.
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
  /// Values that take a cell together, and the operands that flow into them.
  struct Carried {
    CarriedValue value;
    unsigned cell;
  };

  Propagation graph;
  llvm::MapVector<mlir::StringAttr, Variable> variables;
  llvm::SmallVector<Access> accesses;
  /// Of control flow and of functions that are called.
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
  llvm::SmallVector<bool> isOfModel; ///< by node
  /// Of functions that are called.
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<std::optional<unsigned>>>
      resultCells;
  /// The values that flow into a value that no node makes.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value>> sourcesOf;
};

} // namespace heddle

#endif // HEDDLE_LIB_SHARDING_MODULEGRAPH_H
