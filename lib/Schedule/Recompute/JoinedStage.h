//===- JoinedStage.h - The programs of a stage as one -----------*- C++ -*-===//

#ifndef HEDDLE_LIB_SCHEDULE_RECOMPUTE_JOINEDSTAGE_H
#define HEDDLE_LIB_SCHEDULE_RECOMPUTE_JOINEDSTAGE_H

#include "ForwardPass.h"
#include "dialects/Heddle/Heddle.h"

namespace heddle {

/// The programs of one stage of a pipeline as one function: its forward pass,
/// its backward pass and its pass for weights, as far as it has them. A value
/// that one program makes and another one reads is a value inside the function.
/// So the values to keep can be chosen as in a program with both passes.
///
/// Example: of `forward(x) -> (y, a)`, whose y another stage reads, and
/// `backward(dy, x, a) -> dx` becomes `stage(x, dy) -> (y, dx)`. If the
/// backward pass computes `a` again, the new programs are `forward(x) -> y` and
/// `backward(dy, x) -> dx`.
class JoinedStage {
public:
  /// Takes the programs of a stage in the order in which they run, and writes
  /// the joined function. Their ports must have names.
  explicit JoinedStage(llvm::ArrayRef<mlir::func::FuncOp> programs);

  mlir::func::FuncOp getFunction() const { return function; }

  /// Writes the programs anew, each with the ops that stand in its part of the
  /// joined function, and erases the joined one.
  void part();

private:
  /// A result of a program.
  struct Port {
    mlir::DictionaryAttr attrs;
    mlir::Value value; ///< in the joined function
  };
  struct Program {
    mlir::func::FuncOp function;
    llvm::SmallVector<Port> sent; ///< results for other stages and callers
  };

  void add(mlir::func::FuncOp program, bool isLast);
  mlir::DictionaryAttr getKeptAttrs(mlir::Value value);

  mlir::func::FuncOp function;
  llvm::SmallVector<Program> programs;
  llvm::DenseMap<mlir::StringAttr, mlir::Value> valueOf; ///< by a port's name
  /// The attributes of arguments, and of results that programs read.
  llvm::DenseMap<mlir::Value, mlir::DictionaryAttr> portOf;
  unsigned numKept = 0;
};

/// Verifies that the arguments and results of a stage's program have names, by
/// which programs are joined.
mlir::LogicalResult verifyPorts(mlir::func::FuncOp program);

/// Returns the ops at which the parts of a joined function but the first one
/// begin. Other functions have none.
llvm::SmallVector<mlir::Operation *> getBorders(mlir::func::FuncOp function);

/// Returns the values that the parts before an op give to the parts behind it:
/// arguments that are read before it, and results of ops before it, if they are
/// read behind it. Leaves out values that depend on variables and constants
/// alone, because each part makes its own copy of them.
llvm::SmallVector<mlir::Value> getKept(mlir::func::FuncOp function,
                                       mlir::Operation *border);

/// Returns the values of the first part of a joined function that other stages
/// read; none for other functions.
llvm::SmallVector<mlir::Value> getSentForward(mlir::func::FuncOp function);

} // namespace heddle

#endif // HEDDLE_LIB_SCHEDULE_RECOMPUTE_JOINEDSTAGE_H
