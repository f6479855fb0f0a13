//===- ReshardingSearch.h - All short sequences of collectives --*- C++ -*-===//
//
// The cheapest way between layouts as found by trying everything: an oracle for
// ReshardingPlanner that shares nothing with it but the cost of collectives.
//
// It knows no layouts on the way and no rules about axes. A state is what every
// device holds: the rows of each dimension, by their global numbers, and which
// summands of a partial sum are added up in it. Every collective over every
// non-empty list of axes in every order, for every dimension and every size
// that the op allows, moves these as comm's ops do; a permute may take every
// device's value from any device, or zeros. A state is right if every device
// has the rows that the wanted layout gives it and the devices that are to hold
// a partial sum hold each summand once.
//
// Permutes stand in all places. On up to six devices everything is tried
// forwards. On more, the states after a permute are too many: those from which
// ops lead to a layout are found backwards, and what groups of an op between
// two permutes are given, forwards. Permutes in a row are tried but where a
// lower bound is above what the planner has found.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_COST_RESHARDINGSEARCH_H
#define HEDDLE_TEST_UNIT_COST_RESHARDINGSEARCH_H

#include "heddle/Cost/Resharding.h"
#include <array>
#include <set>
#include <string>
#include <unordered_map>

namespace heddle::test {

/// A cluster under the mesh, and how large elements are.
struct CostModel {
  MeshTopology topology;
  int64_t elementBytes;
};

/// Picoseconds, by model.
using Costs = std::vector<int64_t>;

/// What a device holds of a tensor of at most three dimensions.
struct Content {
  std::array<uint16_t, 3> rows = {}; ///< numbers of lists of rows
  /// The summands that are added up in it. None: zeros.
  uint8_t summands = 0;

  bool operator==(const Content &) const = default;
};

struct HeldState {
  std::array<Content, 8> devices = {};
  uint8_t allSummands = 1;

  bool operator==(const HeldState &) const = default;
};

struct HeldStateHash {
  size_t operator()(const HeldState &state) const;
};

/// Lists of rows, numbered. -1 is padding.
class RowLists {
public:
  using Rows = std::vector<int8_t>;

  uint16_t intern(const Rows &rows);
  const Rows &operator[](uint16_t list) const { return lists[list]; }
  bool isPadding(uint16_t list) const { return infos[list].isPadding; }
  uint32_t getBits(uint16_t list) const { return infos[list].bits; }
  uint16_t getPadding(size_t size) { return intern(Rows(size, -1)); }
  /// The part of one of `members`.
  uint16_t cut(uint16_t list, int members, int member);
  /// The first `total` rows of lists side by side; nothing if a row is there
  /// twice.
  std::optional<uint16_t> join(llvm::ArrayRef<uint16_t> parts, size_t total);

private:
  struct Info {
    bool isPadding;
    uint32_t bits;
    std::array<int, 72> cuts;
  };
  std::vector<Rows> lists;
  std::vector<Info> infos;
  std::map<Rows, uint16_t> numbers;
  std::unordered_map<std::string, int> joins;
};

class ReshardingSearch {
public:
  /// At most 8 devices and 3 dimensions of at most 16 rows.
  ReshardingSearch(std::vector<int64_t> mesh, std::vector<int64_t> shape,
                   std::vector<CostModel> models, bool isMax);

  /// Every layout of the tensor.
  llvm::ArrayRef<TensorLayout> getLayouts() const { return layouts; }

  /// The least cost of at most three ops from a layout to each layout, if that
  /// is at most `bounds` (by layout; else something above them).
  std::vector<Costs> find(size_t from, const std::vector<Costs> &bounds);

  size_t getNumStates() const { return states.size(); }

private:
  /// A list of axes, major to minor.
  struct Order {
    AxisMask mask = 0;
    bool isSorted = true;
    int members = 1;
    std::array<std::array<int8_t, 8>, 8> group = {}; ///< of each device
    std::array<int8_t, 8> index = {};
  };
  struct Op {
    ReshardingStep::Kind kind;
    const Order *order;
    unsigned dim = 0, split = 0;
    size_t total = 0;
  };
  /// The layout that was reached, or the state.
  struct Hit {
    unsigned target;
    Costs costs;
  };
  struct Exchanged {
    HeldState state;
    std::vector<Hit> hits;
  };

  using Contents = std::array<Content, 8>;
  using Sizes = std::array<size_t, 3>; ///< of a local shape
  /// What devices have to hold (of what summands does not count) so that ops
  /// make a layout of it. Groups over `sum` have each summand once.
  struct Backward {
    Contents wanted = {};
    AxisMask sum = 0;
    std::vector<Op> ops;
    Costs costs;
    unsigned target = 0;
  };

  void addLayouts(unsigned axis, TensorLayout layout);
  void addOrders(std::vector<unsigned> axes);
  HeldState hold(const TensorLayout &layout);
  unsigned intern(const HeldState &state);

  // Contents.
  Content make(std::array<uint16_t, 3> rows, uint8_t summands);
  bool isNothing(const Content &content) const;
  int64_t getBytes(const Content &content) const;
  bool isComplete(const HeldState &state) const;

  // Ops.
  std::vector<Op> getOps(const HeldState &state) const;
  std::optional<Content> apply(const Op &op, const HeldState &state,
                               int device);
  std::optional<Content> join(const Op &op, const HeldState &state, int device);
  std::optional<Content> reduce(const Op &op, const HeldState &state,
                                int device);
  const Costs &getCosts(const Op &op, const HeldState &state);

  // Layouts.
  bool fits(const Content &content, size_t layout, int device,
            uint8_t allSummands) const;
  bool isSum(const HeldState &state, size_t layout) const;

  // One step.
  const std::vector<Hit> &getNext(unsigned state);
  /// All layouts after one op that is no permute.
  const std::vector<Hit> &getHits(unsigned state);
  std::vector<Hit> findHits(const HeldState &state);

  // Permutes.
  /// All layouts after a permute, with what it takes at least.
  const std::vector<Hit> &getPermutes(unsigned state);
  std::array<uint8_t, 8> getNeeded(llvm::ArrayRef<Content> contents,
                                   uint8_t allSummands) const;
  bool addsUp(AxisMask partial, const std::array<uint8_t, 8> &needed,
              const HeldState &from, llvm::ArrayRef<int64_t> sources,
              int last) const;
  /// Picoseconds of the cheapest permute, if that is at most `most`, after
  /// which groups over the axes have the summands that they need once each.
  std::optional<int64_t> bringSummands(const HeldState &from,
                                       const Contents &wantedRows,
                                       const std::array<uint8_t, 8> &needed,
                                       AxisMask partial, size_t model,
                                       int64_t most);
  /// The cheapest sources that make of `from` what `to` is (if it is a state)
  /// or what fits the layout; of a sum, more than `most` may count as too much.
  std::optional<Costs> permute(const HeldState &from, const HeldState *to,
                               size_t layout, const Costs *most = nullptr);
  /// What a permute takes at least, if something moves or if not.
  Costs getLeast(const HeldState &from, bool moves) const;
  /// All states that permutes make of what the devices hold, of which an op
  /// leads to a layout.
  const std::vector<Exchanged> &getExchanged(const HeldState &state);
  void forEachPermuted(const HeldState &state,
                       llvm::function_ref<void(const HeldState &)> visit);
  std::vector<Content> getDistinct(const HeldState &state) const;

  /// What comes after two permutes in a row, too.
  enum class Rest { None, Op, Permute };
  /// Two permutes in a row and, if they lead to no layout, one that follows; to
  /// layouts within the bounds.
  class RelaySearch;
  void forEachRelay(unsigned state, const Costs &before, Rest rest,
                    const std::vector<Costs> &bounds,
                    llvm::function_ref<void(unsigned, const Costs &)> visit);

  /// A permute, another op and a permute, to layouts within the bounds.
  class BridgeSearch;
  void forEachBridge(unsigned state, const std::vector<Costs> &bounds,
                     llvm::function_ref<void(unsigned, const Costs &)> visit);

  // Backwards from layouts.
  bool invertGroup(const Op &op, size_t cutTotal,
                   llvm::ArrayRef<int8_t> members, const Contents &after,
                   Contents &before);
  void extendBackward(const Backward &after, const Sizes *required);
  void addBackward(Backward backward);
  void makeBackwards(const Sizes *sizes);
  Sizes getSizes(const Content &content) const;
  bool leadsTo(const Backward &backward, HeldState state);
  void forEachBackward(const HeldState &state, size_t mostOps,
                       const Costs &before, const std::vector<Costs> &bounds,
                       llvm::function_ref<void(unsigned, const Costs &)> visit);
  /// The cheapest permute to what one has to begin with, if there is one; of a
  /// sum, more than `most` counts as too much.
  std::optional<Costs> permuteTo(const HeldState &from, size_t backward,
                                 const Costs &most);

  friend class SourceSearch;

  std::vector<int64_t> mesh, shape;
  std::vector<CostModel> models;
  bool isMax;
  int devices = 1;
  Costs launch;
  RowLists lists;
  std::vector<Order> orders;
  std::vector<TensorLayout> layouts;
  std::vector<std::vector<Content>> wanted; ///< by layout and device
  std::vector<unsigned> starts;
  std::vector<HeldState> states;
  std::unordered_map<HeldState, unsigned, HeldStateHash> numbers;
  std::unordered_map<unsigned, std::vector<Hit>> nexts, hits, permutes;
  std::unordered_map<std::string, Costs> opCosts;
  std::unordered_map<std::string, std::optional<Costs>> permuteCosts;
  std::map<std::string, std::vector<Exchanged>> exchanged;
  std::vector<Backward> backwards;
  std::unordered_map<std::string, size_t> backwardNumbers;
  size_t shortBackwards = 0; ///< the first ones, of one op
  std::set<Sizes> extendedShapes;
  std::map<Sizes, std::vector<size_t>> backwardsOfShape;
};

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_COST_RESHARDINGSEARCH_H
