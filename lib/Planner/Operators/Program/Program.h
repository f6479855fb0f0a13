//===- Program.h - A global program as a planner sees it --------*- C++ -*-===//
//
// The ops, variables and values of a step. Equal or tied ones are counted once:
//
//  - An op class is all ops at the same place of equal layers.
//  - A group is op classes whose factors are tied, because a plan gives axes to
//    the factors of a name. An op without named factors is a group of its own,
//    except that all ops of one variable's update are one group.
//  - A variable class is the variables that an op class loads or stores.
//  - A cell class is an argument, or values that control flow or calls carry.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_PLANNER_OPERATORS_PROGRAM_PROGRAM_H
#define HEDDLE_LIB_PLANNER_OPERATORS_PROGRAM_PROGRAM_H

#include "dialects/Heddle/Heddle.h"
#include "heddle/Plan/Plan.h"
#include "heddle/Sharding/FactorShardings.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include <map>

namespace heddle {

struct OpClass {
  llvm::SmallVector<mlir::Operation *> ops; ///< the first stands for all
  ShardingRule rule;
  /// How often a step executes ops of the class.
  double weight = 0;
  unsigned group = 0;
  /// For each factor, the key of the group's strategies that decides it.
  llvm::SmallVector<unsigned> keys;
  /// The op is part of a kernel with its neighbours.
  bool isFusable = false;
  /// The op begins a kernel, so its time contains a launch.
  bool launches = true;
  /// By operand and result: whether the kernel reads or writes it in memory.
  llvm::SmallVector<bool> reads, writes;
  /// For each result: the number of the class's values that are live at the
  /// peak.
  llvm::SmallVector<int64_t> live;

  mlir::Operation *op() const { return ops.front(); }
};

struct Group {
  llvm::SmallVector<unsigned> classes;
  /// For each key, the name of its factor in a plan; empty if a plan cannot
  /// name it.
  llvm::SmallVector<std::string> keys;
  /// The names of the operators; empty if a plan cannot name them.
  llvm::SmallVector<std::string> names;
  /// The ops update variables. Then there is one key for each dimension.
  bool isUpdate = false;
};

struct VariableClass {
  llvm::SmallVector<VariableOp> variables; ///< the first stands for all
};

struct CellClass {
  mlir::RankedTensorType type;
  /// The sharding that the program states, or null.
  ShardingAttr stated;
  bool isArgument = false; ///< takes the best layout at no cost
};

/// The producer of a value, or one of its uses.
struct Place {
  enum Kind { None, Op, Variable, Cell };
  Kind kind = None;
  unsigned index = 0;  ///< of the class
  unsigned number = 0; ///< of the op's result or operand
  bool operator<(const Place &other) const {
    return std::tie(kind, index, number) <
           std::tie(other.kind, other.index, other.number);
  }
};

/// A flow of the values of one class to uses of another class. Uses that need a
/// value in the same layout count once.
struct Flow {
  Place from, to;
  mlir::RankedTensorType type;
  double weight = 0;
};

struct ProgramOptions {
  int64_t microBatches = 0; ///< 0: as the module says
  bool unitesLayers = true;
  /// Layers whose operators or variables this plan names with different axes
  /// are not united; null: equal layers are.
  const Plan *plan = nullptr;
  /// Whether values that the backward pass reads are kept in memory. Otherwise
  /// they are computed again, and no value counts as alive at the peak.
  bool keepsActivations = true;
};

class Program {
public:
  /// Emits an error on an op if the program cannot be partitioned.
  static mlir::FailureOr<Program> create(mlir::ModuleOp module,
                                         const ProgramOptions &options);

  std::vector<OpClass> ops;
  std::vector<Group> groups;
  std::vector<VariableClass> variables;
  std::vector<CellClass> cells;
  std::vector<Flow> flows;

private:
  friend class ProgramReader;
};

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_OPERATORS_PROGRAM_PROGRAM_H
