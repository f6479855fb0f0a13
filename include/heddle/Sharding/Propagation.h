//===- Propagation.h - Propagates axes --------------------------*- C++ -*-===//
//
// The algorithm of propagateShardings. It works on a graph of cells and nodes.
// A cell is a value or a variable, with wanted axes for each dimension. A node
// is an op, with assigned axes for each factor. In each round, all cells and
// nodes listen at once: each hears the axes of its neighbours as proposals for
// its own lists, and takes the best ones. The axes of a seed are heard only
// from the seed's level on.
//
// Example: y = heddle.contract [bsf, fh -> bsh] x, w with f over tp. The node's
// factor f proposes tp for dimension 2 of x and for dimension 0 of w. Then the
// cell of x proposes tp for dimension 2 to the gelu that makes x.
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
  /// How an element got an axis: it heard the axis from another element, or the
  /// axis is a seed of one of the other kinds.
  enum class OriginKind { Factors, Pin, Boundary, Storage, Heard };
  struct Origin {
    OriginKind kind = OriginKind::Factors;
    Element from = {};
  };

  explicit Propagation(MeshRef mesh) : mesh(mesh) {}

  /// Adds a cell for a value, a variable or a function's result.
  unsigned addCell(mlir::RankedTensorType type);
  /// Returns the cell of a value, and adds it at the value's first mention;
  /// nullopt if the value is no tensor.
  std::optional<unsigned> getCell(mlir::Value value);
  const DimensionAxes &getAxes(unsigned cell) const { return cells[cell].dims; }
  /// Adds one cell for all of the values. None may have a cell yet.
  unsigned addSharedCell(llvm::ArrayRef<mlir::Value> values);
  /// Appends axes to those that the cell wants, with the origin `origin`. Skips
  /// axes that the cell wants already. A pinned cell gains nothing.
  void appendAxes(unsigned cell, unsigned dim,
                  llvm::ArrayRef<mlir::StringAttr> axes, Origin origin);
  /// Fixes the axes that the cell wants, with the origin `origin`. Other
  /// elements hear them from `level` on.
  void pinCell(unsigned cell, DimensionAxes dims, int64_t level, Origin origin);

  /// Adds a node for an op. Pinned factors keep their axes, and other elements
  /// hear these from `level` on.
  unsigned addNode(mlir::Operation *op, ShardingRule rule, FactorAxes axes,
                   llvm::ArrayRef<bool> pinned, int64_t level = 0);
  /// Keeps the node's axes: it does not listen any more.
  void freezeNode(unsigned node) { nodes[node].frozen = true; }
  /// Returns whether the program or plan fixes a factor of the op.
  bool hasPinnedFactors(unsigned node) const {
    return llvm::is_contained(nodes[node].pinned, true);
  }
  /// Takes axes from all factors of the op. Only valid after the last run.
  void releaseAxes(unsigned node, llvm::ArrayRef<mlir::StringAttr> axes);
  mlir::Operation *getOp(unsigned node) const { return nodes[node].op; }
  const ShardingRule &getRule(unsigned node) const { return nodes[node].rule; }
  const FactorAxes &getFactors(unsigned node) const { return nodes[node].axes; }
  unsigned getNumNodes() const { return nodes.size(); }

  /// Makes two cells hear each other, until clearLinks.
  void link(unsigned a, unsigned b);
  void clearLinks();
  /// Makes two cells hear each other if the value of `from` becomes the value
  /// of `to`, either at the end of an iteration or function (`atEnd`) or when
  /// control enters. The end of an iteration comes more often, so `to` hears it
  /// with the weight of a definition.
  void addFlow(unsigned from, unsigned to, bool atEnd);

  /// Propagates until a fixed point. Ignores seeds of a level above `level`.
  void run(int64_t level);

  /// Returns how the cell or node got the axis.
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
    /// Other cells that this cell hears, each with a weight.
    llvm::SmallVector<std::pair<unsigned, double>, 2> flows;
    llvm::SmallDenseMap<mlir::StringAttr, Origin, 2> origins;
    std::optional<int64_t> pinnedAt = std::nullopt; ///< level of a pin
  };
  struct Node {
    mlir::Operation *op;
    ShardingRule rule;
    FactorAxes axes;
    llvm::SmallVector<bool> pinned;
    llvm::SmallVector<std::optional<unsigned>> operands, results;
    int64_t level = 0; ///< level of the pinned factors
    bool frozen = false;
    llvm::SmallDenseMap<mlir::StringAttr, Origin, 2> origins{0};
  };
  /// A proposal of axes for a list. For a factor's list, its weight is in
  /// bytes. For a dimension's list, its weight counts uses and definitions.
  struct Proposal {
    Axes axes;
    double weight;
    Element from;
    double loudest; ///< largest weight of a single proposer, which is `from`
  };
  /// The axes that a list gains, and the element from which it heard them.
  struct Gain {
    Axes axes;
    Element from = {};
  };
  using Proposals = llvm::SmallVector<llvm::SmallVector<Proposal, 2>>;

  const TensorFactors &tensorOf(const Use &use) const;
  Proposals hearCells(const Node &node) const;
  Proposals hearNodes(const Cell &cell) const;
  /// Returns the axes to add to each list. No axis is added to two lists.
  llvm::SmallVector<Gain> decide(llvm::ArrayRef<Axes> current,
                                 const Proposals &proposals) const;
  bool isBefore(llvm::ArrayRef<mlir::StringAttr> a,
                llvm::ArrayRef<mlir::StringAttr> b) const;
  /// Returns what each list gains in this round.
  llvm::SmallVector<Gain> listen(const Node &node) const;
  llvm::SmallVector<Gain> listen(const Cell &cell) const;
  /// Returns the axes that other elements may hear at the current level.
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
