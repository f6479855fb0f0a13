//===- Propagation.h - Which axes split what --------------------*- C++ -*-===//
//
// The algorithm of propagateShardings. It works on a graph of cells and nodes.
// A cell is a value or a variable, with wanted axes for each dimension; a node
// is an op, with assigned axes for each factor. In a round all of them listen
// to their neighbours at once: they take axes that the neighbours have.
//
// Example: in y = heddle.contract [bsf, fh -> bsh] x, w with f over tp, the
// node's factor f proposes tp to dimension 2 of x and dimension 0 of w; x's
// cell then proposes tp for dimension 2 to the gelu that makes x.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SHARDING_PROPAGATION_H
#define HEDDLE_SHARDING_PROPAGATION_H

#include "heddle/Sharding/FactorShardings.h"
#include "llvm/ADT/MapVector.h"

namespace heddle {

class Propagation {
public:
  /// A cell or a node.
  struct Element {
    bool isNode = false;
    unsigned index = 0;
    bool operator==(const Element &other) const {
      return isNode == other.isNode && index == other.index;
    }
  };
  /// How an element came by an axis: heard from another element, or as a seed
  /// of one of the other kinds.
  enum class OriginKind { Factors, Pin, Boundary, Storage, Heard };
  struct Origin {
    OriginKind kind = OriginKind::Factors;
    Element from = {};
  };

  explicit Propagation(MeshRef mesh) : mesh(mesh) {}

  /// Adds a cell for a value, a variable or a function's result.
  unsigned addCell(mlir::RankedTensorType type);
  /// The cell of a value, which is added at first mention; nullopt for a value
  /// that is no tensor.
  std::optional<unsigned> getCell(mlir::Value value);
  const DimensionAxes &getAxes(unsigned cell) const { return cells[cell].dims; }
  /// Makes values share one cell, before any has one of its own.
  unsigned addSharedCell(llvm::ArrayRef<mlir::Value> values);
  /// Appends axes to those that the cell wants, except those that it has
  /// already, and notes `origin` for them. A pinned cell gains nothing.
  void appendAxes(unsigned cell, unsigned dim,
                  llvm::ArrayRef<mlir::StringAttr> axes, Origin origin);
  /// Fixes the axes that the cell wants, due to `origin`. Others hear these
  /// from `level` on.
  void pinCell(unsigned cell, DimensionAxes dims, int64_t level, Origin origin);

  /// Adds a node for an op. Pinned factors keep their axes; others hear of them
  /// from `level` on.
  unsigned addNode(mlir::Operation *op, ShardingRule rule, FactorAxes axes,
                   llvm::ArrayRef<bool> pinned, int64_t level = 0);
  /// Keeps the node as it is: it no longer listens.
  void freezeNode(unsigned node) { nodes[node].frozen = true; }
  /// Whether the user's word decides about a factor of the op.
  bool hasPinnedFactors(unsigned node) const {
    return llvm::is_contained(nodes[node].pinned, true);
  }
  /// Takes axes away from all factors of the op, after the last run.
  void releaseAxes(unsigned node, llvm::ArrayRef<mlir::StringAttr> axes);
  mlir::Operation *getOp(unsigned node) const { return nodes[node].op; }
  const ShardingRule &getRule(unsigned node) const { return nodes[node].rule; }
  const FactorAxes &getFactors(unsigned node) const { return nodes[node].axes; }
  unsigned getNumNodes() const { return nodes.size(); }

  /// Makes two cells listen to each other, until clearLinks.
  void link(unsigned a, unsigned b);
  void clearLinks();
  /// Makes two cells listen to each other, of which the value of `from` becomes
  /// that of `to`: at the end of an iteration or function (`atEnd`), or when
  /// control enters. An end, which comes more often, counts as a definition.
  void addFlow(unsigned from, unsigned to, bool atEnd);

  /// Propagates until a fixed point. Ignores seeds of a level above `level`.
  void run(int64_t level);

  /// Why the cell or node has the axis.
  Origin getOrigin(Element element, mlir::StringAttr axis) const;
  std::optional<unsigned> findNode(mlir::Operation *op) const {
    auto known = nodeOf.find(op);
    return known == nodeOf.end() ? std::nullopt
                                 : std::optional<unsigned>(known->second);
  }
  std::optional<unsigned> findCell(mlir::Value value) const {
    auto known = cellOf.find(value);
    return known == cellOf.end() ? std::nullopt
                                 : std::optional<unsigned>(known->second);
  }

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
    llvm::SmallDenseMap<mlir::StringAttr, Origin, 2> origins;
    std::optional<int64_t> pinnedAt = std::nullopt; ///< the level of a pin
  };
  struct Node {
    mlir::Operation *op;
    ShardingRule rule;
    FactorAxes axes;
    llvm::SmallVector<bool> pinned;
    llvm::SmallVector<std::optional<unsigned>> operands, results;
    int64_t level = 0; ///< of the pinned factors
    bool frozen = false;
    llvm::SmallDenseMap<mlir::StringAttr, Origin, 2> origins{0};
  };
  /// A proposal of axes for a list, with the bytes or definitions behind it.
  struct Proposal {
    Axes axes;
    double weight;
    Element from;
    double loudest; ///< the weight of `from` alone
  };
  /// The axes that a list gains, and the element that they were heard from.
  struct Gain {
    Axes axes;
    Element from = {};
  };
  using Proposals = llvm::SmallVector<llvm::SmallVector<Proposal, 2>>;

  const TensorFactors &tensorOf(const Use &use) const;
  Proposals hearCells(const Node &node) const;
  Proposals hearNodes(const Cell &cell) const;
  /// The axes to add to each list. No axis is in two lists.
  llvm::SmallVector<Gain> decide(llvm::ArrayRef<Axes> current,
                                 const Proposals &proposals) const;
  bool isBefore(llvm::ArrayRef<mlir::StringAttr> a,
                llvm::ArrayRef<mlir::StringAttr> b) const;
  /// The gains of each list in this round.
  llvm::SmallVector<Gain> listen(const Node &node) const;
  llvm::SmallVector<Gain> listen(const Cell &cell) const;
  /// The axes that others hear of now.
  FactorAxes getSpoken(const Node &node) const;
  bool speaks(const Cell &cell) const {
    return !cell.pinnedAt || *cell.pinnedAt <= level;
  }

  MeshRef mesh;
  int64_t level = 0;
  std::vector<Cell> cells;
  std::vector<Node> nodes;
  llvm::DenseMap<mlir::Value, unsigned> cellOf;
  llvm::DenseMap<mlir::Operation *, unsigned> nodeOf;
};

} // namespace heddle

#endif // HEDDLE_SHARDING_PROPAGATION_H
