//===- Outline.h - Kernels as functions -------------------------*- C++ -*-===//

#ifndef HEDDLE_LIB_LOWER_FORMKERNELS_OUTLINE_H
#define HEDDLE_LIB_LOWER_FORMKERNELS_OUTLINE_H

#include "Clusters.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include <map>
#include <vector>

namespace heddle::lower {

/// Makes kernel functions of clusters. Equal kernels become one function.
class Outliner {
public:
  explicit Outliner(mlir::ModuleOp module);

  /// Builds a call of the cluster's kernel at the builder's position, and
  /// replaces the uses of the cluster's results outside of the cluster.
  mlir::LogicalResult outline(const Clusters &clusters, const Cluster &cluster,
                              mlir::OpBuilder &builder);

private:
  mlir::func::FuncOp build(llvm::ArrayRef<mlir::Operation *> ops,
                           llvm::ArrayRef<mlir::Value> inputs,
                           llvm::ArrayRef<mlir::Value> results,
                           mlir::Location loc);
  /// Makes the numbers of a kernel's random streams its last operands, and
  /// returns these numbers.
  static llvm::SmallVector<int64_t> takeStreams(mlir::func::FuncOp kernel);
  mlir::LogicalResult chooseRows(mlir::func::FuncOp kernel,
                                 const Cluster &cluster);

  mlir::ModuleOp module;
  mlir::SymbolTable symbols;
  /// The structure of a function: names, attributes and types of its ops as
  /// pointers, values as numbers.
  using Structure = std::vector<uintptr_t>;
  static Structure getStructure(mlir::func::FuncOp kernel);
  std::map<Structure, mlir::func::FuncOp> kernels;
  unsigned next = 0;
};

} // namespace heddle::lower

#endif // HEDDLE_LIB_LOWER_FORMKERNELS_OUTLINE_H
