//===- FunctionParts.h - Writes a function part by part ---------*- C++ -*-===//
//
// Writes each op that sees the batch once for each part of the batch. All other
// ops stay single.
//
// Ops are collected into a segment for as long as no part needs data of another
// one. The end of a segment comes where an op that sees the batch needs a sum
// over the batch, as the gradient of a mean does. So in a training step, the
// forward pass is a segment and the backward pass is one. A segment is written
// part by part: all ops of part 0, in order, then all of part 1. Single ops
// stand with part 0, except for those that need the whole batch (the mean, the
// optimizer's update): these come after the last part.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SHARD_SPLITBATCH_FUNCTIONPARTS_H
#define HEDDLE_LIB_SHARD_SPLITBATCH_FUNCTIONPARTS_H

#include "BatchFactors.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace heddle {

class FunctionParts {
public:
  FunctionParts(mlir::func::FuncOp function, const BatchFactors &factors)
      : block(function.getBody().front()), terminator(block.getTerminator()),
        factors(factors), batch(factors.getBatch()),
        builder(function.getContext()) {}

  mlir::LogicalResult run();

  /// An op for which parts are joined, because it needs the batch whole.
  struct Join {
    mlir::Location loc;
    std::string description;
  };
  auto getJoins() const { return llvm::make_second_range(joins); }

private:
  /// The forms of a value that an op makes part by part.
  struct Made {
    std::optional<int64_t> dim; ///< of the batch; nullopt for a sum or maximum
    llvm::SmallVector<mlir::Value> parts;
    mlir::Value whole; ///< all parts added or joined; null if not made yet
  };
  /// The memory that the single ops after a segment access.
  struct Accesses {
    bool isAny = false;     ///< some op accesses memory
    bool isUnknown = false; ///< some op may access any variable
    llvm::DenseSet<mlir::StringAttr> loads, stores;
  };

  bool waits(mlir::Operation *op);
  bool waitsForMemory(mlir::Operation *op);
  bool takesPart(mlir::OpOperand &use, const BatchFactor &factor);
  bool staysInParts(mlir::OpOperand &use);
  void addToSegment(mlir::Operation *op, bool waits);
  mlir::LogicalResult writeSegment();
  mlir::LogicalResult writePart(mlir::Operation *op, const BatchFactor &factor,
                                int64_t part);
  void recordPart(mlir::OpResult result, const BatchFactor &factor,
                  mlir::Value value, int64_t part);
  void writeSingle(mlir::Operation *op);
  void makeWhole(mlir::Operation *user, mlir::Operation *inner);

  mlir::Value getPart(mlir::Value value, int64_t dim, int64_t part,
                      mlir::Operation *user);
  mlir::Value getStart(mlir::OpOperand &use, int64_t part);
  mlir::Value getWhole(mlir::Value value, mlir::Operation *user);
  mlir::Value cutPart(mlir::Value value, int64_t dim, int64_t part,
                      mlir::Operation *user);

  mlir::Block &block;
  mlir::Operation *terminator;
  const BatchFactors &factors;
  const Batch &batch;
  mlir::OpBuilder builder;
  /// By the op, which may be erased by now.
  llvm::MapVector<mlir::Operation *, Join> joins;

  /// The ops of the open segment, in order, and those of them that come after
  /// the last part.
  llvm::SetVector<mlir::Operation *> segment;
  llvm::DenseSet<mlir::Operation *> waiting;
  Accesses accesses; ///< of the waiting ops
  llvm::DenseMap<mlir::Value, Made> made;
  /// The parts of values that no op makes part by part, by value and dimension.
  llvm::DenseMap<std::pair<mlir::Value, int64_t>,
                 llvm::SmallVector<mlir::Value>>
      cuts;
};

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_SPLITBATCH_FUNCTIONPARTS_H
