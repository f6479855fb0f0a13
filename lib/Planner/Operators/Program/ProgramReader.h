//===- ProgramReader.h - Reads a program for the planner --------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_OPERATORS_PROGRAM_PROGRAMREADER_H
#define HEDDLE_LIB_PLANNER_OPERATORS_PROGRAM_PROGRAMREADER_H

#include "Program.h"
#include "Ties.h"
#include "Weights.h"

namespace heddle {

/// Makes a Program: op classes and groups (Program.cpp), then the values that
/// flow between them (ProgramFlows.cpp).
class ProgramReader {
public:
  ProgramReader(mlir::ModuleOp module, const ProgramOptions &options)
      : module(module), options(options),
        stepWeights(module, options.microBatches) {}

  mlir::FailureOr<Program> read();

private:
  mlir::LogicalResult collectOps();
  void makeClasses();
  void addVariables();
  void uniteNames();
  void uniteUpdates();
  void uniteScalarSums();
  void findFollowers();
  std::string getKey(unsigned index, unsigned factor) const;
  void makeGroups();
  mlir::LogicalResult addCells();
  void addCell(llvm::ArrayRef<mlir::Value> values,
               llvm::ArrayRef<mlir::OpOperand *> sources, CellClass cell,
               double weight);
  void addCalledFunction(mlir::func::FuncOp function,
                         llvm::ArrayRef<mlir::func::CallOp> calls);
  mlir::LogicalResult addFlows();
  void addFlowsOf(mlir::Value value);
  bool isGatheredAgain(mlir::RankedTensorType type, unsigned first,
                       unsigned second);
  Place getTarget(mlir::OpOperand &use);
  /// Returns a text that two uses share if they need a value in the same
  /// layout.
  std::string getNeed(Place from, Place to, mlir::OpOperand &use);

  mlir::ModuleOp module;
  const ProgramOptions &options;
  StepWeights stepWeights;
  Program program;
  llvm::SmallVector<mlir::Operation *> ops;
  llvm::SmallVector<double> weights; ///< by op
  llvm::DenseMap<mlir::Operation *, unsigned> indexOf, classOf;
  Ties ties;
  /// Over the indices of classes.
  llvm::EquivalenceClasses<unsigned> groups;
  llvm::DenseSet<unsigned> updates; ///< classes
  /// Classes whose ops take the layout of an operand of another class.
  llvm::DenseMap<unsigned, std::pair<unsigned, unsigned>> followed;
  llvm::DenseMap<mlir::StringAttr, unsigned> variableOf;
  llvm::DenseMap<mlir::Value, Place> placeOf;
  llvm::DenseMap<mlir::OpOperand *, Place> targetOf;
  llvm::DenseMap<mlir::OpOperand *, double> targetWeight;
  /// The bytes of parameters that the ops before an index read.
  std::vector<int64_t> bytesRead;
  std::map<std::tuple<Place, Place, std::string>, unsigned> flowOf;
};

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_OPERATORS_PROGRAM_PROGRAMREADER_H
