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
  /// Where an axis of an element comes from: it was heard from another element,
  /// or it is a seed.
  enum class OriginKind { Factors, Pin, Boundary, Storage, Heard };
  struct Origin {
    OriginKind kind = OriginKind::Factors;
    Element from = {};
  };

  explicit Propagation(MeshRef mesh) : mesh(mesh) {}

  /// Something with a tensor type: a value, a variable, a function's result.
  unsigned addCell(mlir::RankedTensorType type);
  /// Values of tensor type get a cell at first mention.
  std::optional<unsigned> getCell(mlir::Value value);
  const DimensionAxes &getAxes(unsigned cell) const { return cells[cell].dims; }
  /// Makes values share one cell, before any has one of its own.
  unsigned addSharedCell(llvm::ArrayRef<mlir::Value> values);
  /// Appends to what the cell wants; an axis that it has already is left out.
  /// What it gains is due to `origin`.
  void appendAxes(unsigned cell, unsigned dim,
                  llvm::ArrayRef<mlir::StringAttr> axes, Origin origin);
  /// The cell wants exactly this, due to `origin`. Others hear it from `level`
  /// on.
  void pinCell(unsigned cell, DimensionAxes dims, int64_t level, Origin origin);

  /// An op. Pinned factors keep their axes; others hear of them from `level`
  /// on.
  unsigned addNode(mlir::Operation *op, ShardingRule rule, FactorAxes axes,
                   llvm::ArrayRef<bool> pinned, int64_t level = 0);
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

  /// The two cells want the same, until clearLinks.
  void link(unsigned a, unsigned b);
  void clearLinks();
  /// What is in `from` becomes what is in `to`, at the end of an iteration (or
  /// of a function) or when control enters: both hear each other, and the end
  /// of an iteration, which comes more often, is as a definition of `to`.
  void addFlow(unsigned from, unsigned to, bool atEnd);

  /// Rounds until nothing changes, in which seeds of higher levels are silent.
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
  /// Axes that something is proposed to have, and how much speaks for them.
  struct Proposal {
    Axes axes;
    double weight;
    Element from;
    double loudest; ///< the weight of `from` alone
  };
  /// What a list gains, and from whom.
  struct Gain {
    Axes axes;
    Element from = {};
  };
  using Proposals = llvm::SmallVector<llvm::SmallVector<Proposal, 2>>;

  const TensorFactors &tensorOf(const Use &use) const;
  Proposals hearCells(const Node &node) const;
  Proposals hearNodes(const Cell &cell) const;
  /// What is added to each list. No axis is in two lists.
  llvm::SmallVector<Gain> decide(llvm::ArrayRef<Axes> current,
                                 const Proposals &proposals) const;
  bool isBefore(llvm::ArrayRef<mlir::StringAttr> a,
                llvm::ArrayRef<mlir::StringAttr> b) const;
  /// What each list gains in this round.
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
