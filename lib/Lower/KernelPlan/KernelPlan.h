//===- KernelPlan.h - The loops of a kernel and its values ------*- C++ -*-===//
//
// The loops of a kernel, and the place of each value that it computes.
//
// A kernel is a function of structured ops. Its leading `heddle.row_dims`
// dimensions, seen as one dimension, are its rows. To compute row i of its
// result, an op may read row i of the values computed in the kernel, and any
// elements of the kernel's operands. The plan does not change the IR. Example:
// layer normalization of x : [4, 256, 768] with two row dimensions.
//
//   for row in 0 .. 1024:                                (outer)
//     for c in 0 .. 768: total += x[row, c]              (nest, level 0)
//     mean = total / 768                                 (scalar of the row)
//     for c in 0 .. 768: squares += (x[row, c] - mean)^2 (nest, level 1)
//     rstd = …
//     for c in 0 .. 768: y[row, c] = …                   (nest, level 2)
//
// Ops with equal loops share a nest unless one needs a whole row of another.
// Within a nest a value passes in a register. Between nests it passes in
// memory: in its result's buffer or in a scratch buffer of one row. A cheap
// value is computed again instead.
//
// "Column mode" is for kernels without loops inside a row, or with only loops
// that sum over distant rows of memory (the second stage of a bias gradient). A
// row of the result is then one element. The rows are cut into chunks, and the
// loop over a chunk is the innermost of every nest. A unit of the outermost
// loop is a chunk in column mode, and a row otherwise.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_LOWER_KERNELPLAN_KERNELPLAN_H
#define HEDDLE_LIB_LOWER_KERNELPLAN_KERNELPLAN_H

#include "KernelTarget.h"
#include "dialects/Heddle/Heddle.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace heddle::lower {

/// The position of the element of a dense tensor that an iteration reads or
/// writes: constant + sum rows[i] * unit index i + sum loops[j] * loop index j.
struct Access {
  mlir::Value value;
  int64_t constant = 0;
  llvm::SmallVector<int64_t> rows;
  llvm::SmallVector<int64_t> loops;
};

enum class StatementKind {
  Map,         ///< every iteration writes its own element
  Reduce,      ///< iterations of the reduced loops combine
  ReduceBlocks ///< rows of a block combine
};

/// One op: the loops and accesses that it has within one unit.
struct Statement {
  mlir::Operation *op;
  StatementKind kind = StatementKind::Map;
  llvm::SmallVector<int64_t> loops; ///< extents, outermost first
  /// The loop of each dimension of the op's iteration space after the rows. In
  /// column mode, the loop over the chunk follows.
  llvm::SmallVector<int64_t> loopOfDim;
  /// For a Reduce: the first reduced loop, if the reduced loops are innermost
  /// and accumulate in a register; -1 if they are outermost and accumulate in
  /// memory.
  int64_t firstReduced = 0;
  llvm::SmallVector<Access> reads;  ///< per tensor operand
  llvm::SmallVector<Access> writes; ///< per result
  int64_t level = 0;
  int64_t cost = 0; ///< of an iteration, where an addition costs 1
  bool usesIndex = false;

  bool isScalar() const { return loops.empty(); }
  /// Returns the op's operands that are read element by element, in order.
  mlir::ValueRange getInputs() const;
};

/// Statements that run in one loop nest, or once a row if they have no loops.
struct Nest {
  llvm::SmallVector<int64_t> loops;
  llvm::SmallVector<unsigned> statements; ///< in order
  int64_t level = 0;
};

class KernelPlan {
public:
  /// Plans a kernel function. Emits an error at an op that does not fit.
  static mlir::FailureOr<KernelPlan> create(mlir::func::FuncOp kernel);

  KernelTarget target;
  int64_t rowDims = 0;
  llvm::SmallVector<int64_t> units; ///< extents of the row dimensions; column
                                    ///< mode: the number of chunks
  int64_t rows = 1;                 ///< product of the row dimensions
  int64_t chunk = 0;                ///< column mode: rows in a chunk; else 0
  int64_t blockUnits = 1; ///< units in one block; threads share blocks
  int64_t blocks = 1;
  int64_t grain = 1;

  std::vector<Statement> statements;
  std::vector<Nest> nests;                        ///< in order of execution
  llvm::DenseMap<mlir::Value, unsigned> producer; ///< of a tensor: statement
  llvm::DenseSet<mlir::Value> scratch;            ///< values in row buffers
  /// The result whose row in memory holds the value until the result itself is
  /// written. That result hosts the value.
  llvm::DenseMap<mlir::Value, mlir::Value> host;

  mutable mlir::func::FuncOp kernel; ///< reading needs no const op

  int64_t numUnits() const;
  /// Returns whether an iteration of `to` may take this read from a register:
  /// the same iteration of `from`, in the same nest, has just computed the
  /// element. Two reads of one value can have different answers: in `y -
  /// transpose(y)`, the first y may come from the register, but the second must
  /// be loaded.
  bool canForward(const Statement &from, const Statement &to,
                  const Access &read) const;
  /// Returns the first nest that computes the statement.
  unsigned getHome(unsigned statement) const;
  /// Returns the index of the value among the kernel's results, or -1.
  int64_t resultIndex(mlir::Value value) const;
  /// Returns for each result the operands whose buffer the result may take.
  /// Such an operand has the result's type, and none of its elements is read
  /// after the result has overwritten it.
  llvm::SmallVector<llvm::SmallVector<int64_t>> findInplace() const;

private:
  mlir::LogicalResult addStatements();
  mlir::LogicalResult addGeneric(mlir::linalg::GenericOp op);
  mlir::LogicalResult addReduceBlocks(ReduceBlocksOp op);
  mlir::LogicalResult checkRows();
  bool suitsColumns() const;
  void makeColumns();
  void orderLoops();
  void assignLevels();
  void formNests();
  bool reducesOtherLoops(const Nest &nest, const Statement &statement) const;
  void placeValues(Nest &nest);
  void chooseHosts();
  bool canHost(mlir::Value value, mlir::Value result) const;
  void chooseBlocks();
  bool isCheap(unsigned statement) const;
  /// The same, with `known` as a cache of earlier answers. Without the cache, a
  /// chain of statements that each read the previous one twice would be walked
  /// 2^length times.
  bool isCheap(unsigned statement,
               llvm::SmallDenseMap<unsigned, bool> &known) const;
};

/// Returns the linear form of an indexing map over a dense tensor of this
/// shape: the constant offset and a coefficient per loop. Failure if the map
/// divides.
mlir::FailureOr<std::pair<int64_t, llvm::SmallVector<int64_t>>>
linearize(mlir::AffineMap map, llvm::ArrayRef<int64_t> shape);

/// Returns the tensors that a body reads with tensor.extract. The flag is true
/// if the leading `rowDims` indices are those of the iteration.
llvm::SmallVector<std::pair<mlir::Value, bool>>
getExtracted(mlir::Operation *op, int64_t rowDims);

} // namespace heddle::lower

#endif // HEDDLE_LIB_LOWER_KERNELPLAN_KERNELPLAN_H
