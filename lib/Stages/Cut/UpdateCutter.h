//===- UpdateCutter.h - Writes the update of each device --------*- C++ -*-===//

#ifndef HEDDLE_LIB_STAGES_CUT_UPDATECUTTER_H
#define HEDDLE_LIB_STAGES_CUT_UPDATECUTTER_H

#include "FunctionCutter.h"
#include "llvm/ADT/SetVector.h"

namespace heddle {

/// Writes the update as one function for each device. Values that need the
/// variables of several devices are sums of scalars. Each device adds its own
/// terms of these sums, and their results (`roots`) are added up over the
/// devices.
///
/// With a barrier at the step's end, the sum is an all-reduce inside the
/// update. Without one, no update waits for another device: each returns its
/// terms, and functions of the kind `report`, which run after the updates, add
/// them from device to device. The last device, which begins a step last, has
/// the total and computes what depends on it.
class UpdateCutter {
public:
  UpdateCutter(mlir::func::FuncOp update, llvm::StringRef entry,
               const Pipeline &pipeline, const VariableOwners &owners)
      : update(update), entry(entry), pipeline(pipeline), owners(owners) {}

  mlir::LogicalResult run();

private:
  /// A value that goes from one function to another.
  struct Port {
    mlir::Type type; ///< null if there is no such value
    mlir::DictionaryAttr attrs;

    explicit operator bool() const { return bool(type); }
  };

  mlir::LogicalResult findRoots();
  mlir::LogicalResult writeDevice(int64_t device);
  mlir::func::FuncOp writeGradients(int64_t device);
  mlir::func::FuncOp addFunction(StageWork work, int64_t device,
                                 mlir::TypeRange arguments,
                                 llvm::ArrayRef<mlir::DictionaryAttr> attrs);
  llvm::SmallVector<VariableOp> getSharedGradients(int64_t device);
  mlir::DictionaryAttr getGradientAttrs(VariableOp gradient, int64_t device);
  VariableOp getVariable(mlir::FlatSymbolRefAttr name) {
    return tables.lookupNearestSymbolFrom<VariableOp>(update, name);
  }
  /// Returns the devices that have the value before the devices' sum.
  const llvm::BitVector &getDevices(mlir::Value value) {
    return devicesOf.find(value)->second;
  }
  llvm::BitVector getLastDevice() const {
    llvm::BitVector last(pipeline.devices);
    last.set(pipeline.devices - 1);
    return last;
  }
  bool isOfDevice(mlir::Operation *op, int64_t device);
  /// Returns whether an op depends on a root.
  bool isAfterRoots(mlir::Operation *op) const {
    return op->getNumResults() > 0 && afterRoots.contains(op->getResult(0));
  }
  mlir::Value addTerms(mlir::OpBuilder &builder, mlir::Operation *op,
                       mlir::IRMapping &values, int64_t device);
  void sumRoots(mlir::OpBuilder &builder, mlir::IRMapping &values,
                int64_t device);
  mlir::LogicalResult
  takeTerms(mlir::IRMapping &values, int64_t device,
            llvm::SmallVectorImpl<mlir::Value> &results,
            llvm::SmallVectorImpl<mlir::DictionaryAttr> &attrs);
  void writeReport(int64_t device);
  mlir::DictionaryAttr getPassedAttrs(const llvm::Twine &what, size_t number,
                                      int64_t device, ShardingAttr sharding);

  mlir::func::FuncOp update;
  llvm::StringRef entry;
  const Pipeline &pipeline;
  const VariableOwners &owners;
  mlir::SymbolTableCollection tables;
  llvm::DenseMap<mlir::Value, llvm::BitVector> devicesOf;
  llvm::DenseSet<mlir::Operation *> sums; ///< of terms of several devices
  llvm::SetVector<mlir::Value> roots;
  llvm::DenseSet<mlir::Operation *> beforeRoots;
  llvm::DenseSet<mlir::Value> afterRoots;
  /// Without a barrier, by root: the terms that the device's update returns,
  /// and the sum over the devices before it.
  llvm::SmallVector<Port> terms, passed;
  /// The other values of its update that the last device's report needs.
  llvm::MapVector<mlir::Value, Port> needed;
};

/// Ends a function, and sets its results.
void addReturn(mlir::func::FuncOp function, mlir::ValueRange results,
               llvm::ArrayRef<mlir::DictionaryAttr> attrs);

} // namespace heddle

#endif // HEDDLE_LIB_STAGES_CUT_UPDATECUTTER_H
