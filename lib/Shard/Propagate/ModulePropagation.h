//===- ModulePropagation.h - A module as a propagation problem --*- C++ -*-===//

#ifndef HEDDLE_LIB_SHARD_PROPAGATE_MODULEPROPAGATION_H
#define HEDDLE_LIB_SHARD_PROPAGATE_MODULEPROPAGATION_H

#include "../Explain/ExplainShardings.h"
#include "heddle/Sharding/ControlFlow.h"
#include "heddle/Sharding/Pins.h"
#include "heddle/Sharding/Propagation.h"
#include <set>

namespace heddle {

/// Makes cells and nodes of a module's values and ops, gives them their seeds
/// level by level, and writes down what they have come to.
class ModulePropagation {
public:
  ModulePropagation(mlir::ModuleOp module, MeshRef mesh)
      : module(module), mesh(mesh), graph(mesh) {}

  /// Decides and annotates.
  mlir::LogicalResult run();
  /// Then: each pin as a reshard after its op.
  void materializePins();
  /// Remarks on what was decided, before the pins are reshards.
  void explain();
  void reportConflicts(ReshardSequences &sequences) const {
    ShardingExplainer(graph, mesh, seeds).reportConflicts(sequences);
  }

private:
  mlir::LogicalResult build();
  void readLevels();
  mlir::LogicalResult addPins();
  mlir::LogicalResult addFunction(mlir::func::FuncOp function);
  mlir::LogicalResult addOp(mlir::Operation *op);
  mlir::LogicalResult addControlFlow(mlir::Operation *op);
  mlir::LogicalResult addCalls();
  void addCarried(const CarriedValue &carried, unsigned cell);
  void growModel();
  mlir::LogicalResult seedFromStorage();
  mlir::FailureOr<ShardingAttr> readBoundary(mlir::DictionaryAttr attributes,
                                             mlir::Type type,
                                             mlir::Location loc);
  mlir::LogicalResult addArguments();
  mlir::LogicalResult seedResults(int64_t level);
  std::optional<unsigned> resultCell(mlir::func::FuncOp function,
                                     mlir::OpOperand &returned);
  void seed(unsigned cell, unsigned dim, llvm::ArrayRef<mlir::StringAttr> axes,
            Propagation::OriginKind kind, const llvm::Twine &name);
  /// Ops that sum partial sums give up axes over which the sum comes later.
  void releaseSums();
  /// Gradients that accumulate are summed over devices when they are used, if
  /// that is once for several micro-batches.
  void deferGradientSums();
  void write();
  void writeFunction(mlir::func::FuncOp function);

  /// Values that take a cell together, and what flows into them.
  struct Carried {
    CarriedValue value;
    unsigned cell;
  };

  mlir::ModuleOp module;
  MeshRef mesh;
  Propagation graph;
  llvm::MapVector<mlir::StringAttr, std::pair<VariableOp, unsigned>> variables;
  llvm::DenseMap<mlir::StringAttr, DimensionAxes> storage;
  /// Of variables that are stored as partial sums: over which axes.
  llvm::DenseMap<mlir::StringAttr, Axes> partialStorage;
  ShardingAttr getStorage(mlir::StringAttr variable) const {
    return makeSharding(mesh, storage.lookup(variable),
                        partialStorage.lookup(variable));
  }
  /// Loads and stores with the cell of their value.
  llvm::SmallVector<std::pair<mlir::Operation *, unsigned>> accesses;
  llvm::SmallVector<bool> isOfModel; ///< by node
  llvm::MapVector<mlir::Operation *, llvm::SmallVector<Carried, 2>> controlFlow;
  /// Of functions that are called.
  llvm::DenseMap<mlir::func::FuncOp, llvm::SmallVector<std::optional<unsigned>>>
      resultCells;
  /// Of each priority, factors and pins speak first, then what is said of
  /// arguments and results.
  static int64_t getFactorLevel(int64_t priority) { return 2 * priority; }
  static int64_t getBoundaryLevel(int64_t priority) { return 2 * priority + 1; }
  /// Those that occur.
  std::set<int64_t> levels = {getFactorLevel(0), getBoundaryLevel(0)};
  /// Values and how they are pinned, in order of the text.
  llvm::MapVector<mlir::Value, ShardingAttr> pins;
  SeedNames seeds;
  /// Where a value comes from that no node makes.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value>> sourcesOf;
};

/// The variable that a load or store accesses.
mlir::StringAttr variableOf(mlir::Operation *access);

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_PROPAGATE_MODULEPROPAGATION_H
