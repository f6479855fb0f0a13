//===- Propagation.h - Which axes split what --------------------*- C++ -*-===//
//
// The decision behind heddle-propagate-shardings, apart from any change of IR:
// a graph of cells (values and variables, with wanted axes for each dimension)
// and nodes (ops, with assigned axes for each factor), and rounds in which all
// of them listen to their neighbours at once.
//
// Example: in y = heddle.contract [bsf, fh -> bsh] x, w with f over tp, the
// node's factor f proposes tp to dimension 2 of x and dimension 0 of w; x's
// cell then proposes tp for dimension 2 to the gelu that makes x.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_SHARD_PROPAGATION_H
#define HEDDLE_LIB_SHARD_PROPAGATION_H

#include "heddle/Shard/FactorShardings.h"
#include "llvm/ADT/MapVector.h"

namespace heddle {

class Propagation {
public:
  explicit Propagation(MeshRef mesh) : mesh(mesh) {}

  /// Something with a tensor type: a value, a variable, a function's result.
  unsigned addCell(mlir::RankedTensorType type);
  /// Values of tensor type get a cell at first mention.
  std::optional<unsigned> getCell(mlir::Value value);
  const DimensionAxes &getAxes(unsigned cell) const { return cells[cell].dims; }
  /// Makes values share one cell, before any has one of its own.
  unsigned addSharedCell(llvm::ArrayRef<mlir::Value> values);
  /// Appends to what the cell wants; an axis that it has already is left out.
  void appendAxes(unsigned cell, unsigned dim,
                  llvm::ArrayRef<mlir::StringAttr> axes);

  /// An op. Pinned factors keep their axes.
  unsigned addNode(mlir::Operation *op, ShardingRule rule, FactorAxes axes,
                   llvm::ArrayRef<bool> pinned);
  void freezeNode(unsigned node) { nodes[node].frozen = true; }
  mlir::Operation *getOp(unsigned node) const { return nodes[node].op; }
  const ShardingRule &getRule(unsigned node) const { return nodes[node].rule; }
  const FactorAxes &getFactors(unsigned node) const { return nodes[node].axes; }
  unsigned getNumNodes() const { return nodes.size(); }

  /// The two cells want the same, until clearLinks.
  void link(unsigned a, unsigned b);
  void clearLinks();
  /// What is in `from` becomes what is in `to`, at the end of an iteration (or
  /// of a function) or when control enters: both hear each other, and the end of
  /// an iteration, which comes more often, is as a definition of `to`.
  void addFlow(unsigned from, unsigned to, bool atEnd);

  /// Rounds until nothing changes.
  void run();

private:
  struct Use {
    unsigned node;
    bool isResult;
    unsigned index;
  };
  struct Cell {
    mlir::RankedTensorType type;
    DimensionAxes dims;
    llvm::SmallVector<Use, 4> uses;
    llvm::SmallVector<unsigned, 2> links;
    /// Other cells that this one hears, each with a weight.
    llvm::SmallVector<std::pair<unsigned, double>, 2> flows;
  };
  struct Node {
    mlir::Operation *op;
    ShardingRule rule;
    FactorAxes axes;
    llvm::SmallVector<bool> pinned;
    llvm::SmallVector<std::optional<unsigned>> operands, results;
    bool frozen = false;
  };
  /// Axes that something is proposed to have, and how much speaks for them.
  struct Proposal {
    Axes axes;
    double weight;
  };
  using Proposals = llvm::SmallVector<llvm::SmallVector<Proposal, 2>>;

  const TensorFactors &tensorOf(const Use &use) const;
  Proposals hearCells(const Node &node) const;
  Proposals hearNodes(const Cell &cell) const;
  /// What is added to each list. No axis is in two lists.
  llvm::SmallVector<Axes> decide(llvm::ArrayRef<Axes> current,
                                 const Proposals &proposals) const;
  bool isBefore(llvm::ArrayRef<mlir::StringAttr> a,
                llvm::ArrayRef<mlir::StringAttr> b) const;
  bool listen(Node &node, FactorAxes &next) const;
  bool listen(Cell &cell, DimensionAxes &next) const;

  MeshRef mesh;
  std::vector<Cell> cells;
  std::vector<Node> nodes;
  llvm::DenseMap<mlir::Value, unsigned> cellOf;
};

} // namespace heddle

#endif // HEDDLE_LIB_SHARD_PROPAGATION_H
