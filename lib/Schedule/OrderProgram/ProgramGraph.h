//===- ProgramGraph.h - The units of one device's program -------*- C++ -*-===//
//
// A program of phase `kernels` as a graph of units with times. Kernel calls,
// library calls, collectives and stores are units. Ops that take no time
// (loads, constants, views, index arithmetic) are no units. A unit is after the
// units whose results it reads, also through such ops.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SCHEDULE_ORDERPROGRAM_PROGRAMGRAPH_H
#define HEDDLE_LIB_SCHEDULE_ORDERPROGRAM_PROGRAMGRAPH_H

#include "ListScheduler.h"
#include "heddle/Sharding/CollectiveCosts.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/SetVector.h"

namespace heddle {

struct ProgramGraph {
  UnitGraph graph;
  /// The op of each unit, in the order of the text.
  std::vector<mlir::Operation *> ops;
  /// Ops that must stay before an op though it reads none of their results: the
  /// loads of a variable before a store to it, and the store before later
  /// loads.
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Operation *, 2>>
      before;
  /// The types of floats whose peak rate the cluster does not state. Their
  /// computations have the times of f32.
  llvm::SmallSetVector<mlir::Type, 2> typesWithoutRate;
};

/// Builds the graph of a program's block. A collective is on the queue of the
/// outermost level of links that it uses, whose numbers start from 1. A
/// computation takes the time of a roofline. Measured times that are attached
/// to ops (heddle/Schedule/Passes.h) come before those of the cluster.
///
/// The new value of a variable is computed in the variable's memory. So the
/// unit that computes it is after all units that read the old value, as far as
/// these precede it in the text.
///
/// `symbols` are those of the module, whose kernels the block calls.
ProgramGraph buildProgramGraph(mlir::Block &block,
                               const mlir::SymbolTable &symbols, MeshAttr mesh,
                               const MeshTopology &topology);

} // namespace heddle

#endif // HEDDLE_LIB_SCHEDULE_ORDERPROGRAM_PROGRAMGRAPH_H
