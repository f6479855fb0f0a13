//===- FunctionCutter.h - Writes the parts of a program ---------*- C++ -*-===//

#ifndef HEDDLE_LIB_STAGES_CUT_FUNCTIONCUTTER_H
#define HEDDLE_LIB_STAGES_CUT_FUNCTIONCUTTER_H

#include "FunctionStages.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringSet.h"

namespace heddle {

/// Returns the name of a part's function, such as "step_backward_2".
std::string getPartName(llvm::StringRef entry, StagePart part);

/// Writes each part of a function as a function of its own, before the
/// function, and erases it.
class FunctionCutter {
public:
  FunctionCutter(mlir::func::FuncOp function, llvm::StringRef entry,
                 const Pipeline &pipeline, const FunctionStages &stages)
      : function(function), entry(entry), pipeline(pipeline), stages(stages) {}

  void run();

private:
  /// A part of the function while it is written.
  struct Part {
    StagePart key;
    mlir::func::FuncOp function;
    mlir::IRMapping values; ///< from the values of the whole function
    llvm::SmallVector<mlir::DictionaryAttr> argumentAttrs, resultAttrs;
    llvm::SmallVector<mlir::Value> results;
    /// Results for other parts, by value and sharding.
    llvm::DenseSet<std::pair<mlir::Value, mlir::Attribute>> sent;
  };

  Part &getPart(StagePart key);
  /// Returns the part's own value for one of the whole function.
  mlir::Value getValue(Part &part, mlir::Value value);
  mlir::Value addArgument(Part &part, mlir::Value value,
                          mlir::DictionaryAttr attrs);
  /// Returns whether a part makes the value anew from the op's input, which
  /// has no more bytes.
  bool isRemade(mlir::Operation *op) const;
  void cloneInto(Part &part, mlir::Operation *op);
  mlir::DictionaryAttr getPortAttrs(mlir::Value value, ShardingAttr sharding);
  /// Returns the sharding in which a value goes to a part of another device:
  /// its own, or one where devices that have the same data send a part each and
  /// gather the parts behind the cut, if that takes less time.
  ShardingAttr getSentSharding(mlir::Value value, int64_t device) const;
  /// Returns the number of parts of a device that read the value.
  int64_t countReaders(mlir::Value value, int64_t device) const;
  void addResult(Part &part, mlir::Value own, mlir::DictionaryAttr attrs);
  void finish(Part &part);

  mlir::func::FuncOp function;
  llvm::StringRef entry;
  const Pipeline &pipeline;
  const FunctionStages &stages;
  std::vector<std::unique_ptr<Part>> parts;
  llvm::DenseMap<std::pair<mlir::Value, mlir::Attribute>, mlir::StringAttr>
      names;
};

/// Writes the update as one function for each device of the pipeline, and for
/// devices with shared variables the function that returns their gradients.
/// Erases it.
mlir::LogicalResult cutUpdate(mlir::func::FuncOp update, llvm::StringRef entry,
                              const Pipeline &pipeline,
                              const VariableOwners &owners);

} // namespace heddle

#endif // HEDDLE_LIB_STAGES_CUT_FUNCTIONCUTTER_H
