//===- ProblemBuilder.cpp - The solver's problem of a program -------------===//

#include "ProblemBuilder.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace heddle;
using solver::Cost;
using solver::kInfiniteCost;

/// With more strategies than this, a group keeps only those whose work takes at
/// most `kSlow` times that of the fastest one.
static constexpr size_t kManyStrategies = 128;
static constexpr Cost kSlow = 3;

static Cost toCost(double seconds) {
  double picoseconds = seconds * kPicosecondsPerSecond;
  return picoseconds >= double(kInfiniteCost) ? kInfiniteCost
                                              : Cost(picoseconds + 0.5);
}

namespace {

class ProblemBuilder {
public:
  ProblemBuilder(const Program &program, Costs &costs,
                 const OperatorsOptions &options, ModuleOp module)
      : program(program), costs(costs), options(options), module(module),
        mesh(costs.getMesh()) {}

  FailureOr<OperatorProblem> build();

private:
  std::vector<unsigned> chooseStrategies(ArrayRef<Cost> costs) const;
  LogicalResult addGroups();
  int64_t getUsage(const Group &group, const Strategy &strategy) const;
  void findHubs();
  void addLayouts(Place place, std::vector<ShardingAttr> layouts,
                  ArrayRef<int64_t> usages);
  void addHub(Place place);
  void addVariables();
  void addCells();
  void addFlow(const Flow &flow);
  void addStorageRules();

  /// One end of an edge: a node, and the layout in each of its strategies.
  struct End {
    unsigned node;
    std::vector<ShardingAttr> layouts;
  };
  End getMadeEnd(Place place);
  End getNeedEnd(Place place);
  End getLayoutEnd(unsigned layout) const {
    return {result.getLayoutNode(layout), result.layouts[layout].layouts};
  }
  /// Adds `cost` of each pair of layouts to the edge between two nodes.
  void addEdge(const End &from, const End &to,
               function_ref<Cost(ShardingAttr, ShardingAttr)> cost);
  /// Returns whether a variable may be stored with the sharding `stored` if a
  /// use needs it with the sharding `need`.
  bool mayStore(VariableOp variable, ShardingAttr need, ShardingAttr stored);

  const Program &program;
  Costs &costs;
  const OperatorsOptions &options;
  ModuleOp module;
  MeshRef mesh;
  OperatorProblem result;
  std::map<Place, unsigned> layoutOf;
  std::set<Place> hubs;
  std::map<std::pair<unsigned, unsigned>, unsigned> edgeOf;
};

} // namespace

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

/// Returns the strategies of a group that become strategies of its node. If
/// there are many, leaves out those whose work takes several times that of the
/// fastest one, because they split the ops over few of the axes.
std::vector<unsigned>
ProblemBuilder::chooseStrategies(ArrayRef<Cost> costs) const {
  Cost least = *std::min_element(costs.begin(), costs.end());
  std::vector<unsigned> chosen;
  for (auto [i, cost] : llvm::enumerate(costs))
    if (costs.size() <= kManyStrategies || cost <= kSlow * least)
      chosen.push_back(i);
  return chosen;
}

LogicalResult ProblemBuilder::addGroups() {
  for (auto [i, group] : llvm::enumerate(program.groups)) {
    std::vector<Strategy> strategies = enumerateStrategies(
        program, i, mesh, options.base, options.allowsEmptyParts);
    Operation *op = program.ops[group.classes.front()].op();
    if (strategies.empty())
      return op->emitOpError()
             << "cannot be split as the plan says: no assignment of the mesh's "
                "axes to its factors has the entries of \""
             << (group.names.empty() ? "" : group.names.front())
             << "\" in the plan";
    std::vector<Cost> own;
    for (const Strategy &strategy : strategies) {
      double seconds = 0;
      for (unsigned index : group.classes) {
        const OpClass &made = program.ops[index];
        FailureOr<double> work =
            costs.getSeconds(made, getFactorAxes(made, strategy));
        if (failed(work))
          return failure();
        seconds += *work * made.weight;
      }
      own.push_back(toCost(seconds));
    }
    solver::Node node{{0, 1}, {}, {}};
    std::vector<Strategy> kept;
    for (unsigned s : chooseStrategies(own)) {
      node.costs.push_back(own[s]);
      node.usages.push_back(getUsage(group, strategies[s]));
      kept.push_back(std::move(strategies[s]));
    }
    result.problem.nodes.push_back(std::move(node));
    result.strategies.push_back(std::move(kept));
  }
  return success();
}

/// Returns the bytes of the group's values that live at the peak and have no
/// node of their own.
int64_t ProblemBuilder::getUsage(const Group &group,
                                 const Strategy &strategy) const {
  int64_t bytes = 0;
  for (unsigned index : group.classes) {
    const OpClass &made = program.ops[index];
    for (auto [r, count] : llvm::enumerate(made.live))
      if (count && !hubs.count({Place::Op, index, unsigned(r)}))
        bytes += count * costs.getBytes(cast<RankedTensorType>(
                                            made.op()->getResult(r).getType()),
                                        getMade(made, strategy, r, mesh));
  }
  return bytes;
}

/// Finds the values whose uses need different layouts. Such a value gets a
/// node: it is resharded once to a common layout, and from there to the layout
/// of each use.
void ProblemBuilder::findHubs() {
  std::map<Place, std::set<std::pair<unsigned, unsigned>>> needs;
  for (const Flow &flow : program.flows)
    if (flow.from.kind == Place::Op)
      needs[flow.from].insert(
          {unsigned(flow.to.kind) << 28 | flow.to.index, flow.to.number});
  for (auto &[place, uses] : needs)
    if (uses.size() > 1)
      hubs.insert(place);
}

void ProblemBuilder::addLayouts(Place place, std::vector<ShardingAttr> layouts,
                                ArrayRef<int64_t> usages) {
  solver::Node node{{0, 1},
                    std::vector<Cost>(layouts.size(), 0),
                    std::vector<solver::Usage>(usages.begin(), usages.end())};
  layoutOf[place] = result.layouts.size();
  result.problem.nodes.push_back(std::move(node));
  result.layouts.push_back({place, std::move(layouts)});
}

void ProblemBuilder::addHub(Place place) {
  const OpClass &made = program.ops[place.index];
  auto type =
      cast<RankedTensorType>(made.op()->getResult(place.number).getType());
  llvm::SetVector<ShardingAttr> layouts;
  for (const Strategy &strategy : result.strategies[made.group])
    layouts.insert(getMade(made, strategy, place.number, mesh));
  for (const Flow &flow : program.flows)
    if (flow.from.kind == place.kind && flow.from.index == place.index &&
        flow.from.number == place.number && flow.to.kind == Place::Op)
      for (ShardingAttr need : getNeedEnd(flow.to).layouts)
        layouts.insert(need);
  SmallVector<int64_t> usages;
  for (ShardingAttr layout : layouts)
    usages.push_back(made.live[place.number] * costs.getBytes(type, layout));
  addLayouts(place, std::vector<ShardingAttr>(layouts.begin(), layouts.end()),
             usages);
}

void ProblemBuilder::addVariables() {
  for (auto [i, made] : llvm::enumerate(program.variables)) {
    VariableOp variable = made.variables.front();
    RankedTensorType type = variable.getTensorType();
    bool mayBePartial = variable.isSumOfStep() &&
                        variable.getInit().getKind() == InitKind::Zeros &&
                        options.base.reduceGradients == GradientReduction::Step;
    std::vector<ShardingAttr> layouts;
    if (ShardingAttr storage = variable.getStorageAttr())
      layouts.push_back(storage);
    else
      layouts = enumerateLayouts(type, mesh, /*orders=*/true, mayBePartial,
                                 options.allowsEmptyParts);
    SmallVector<int64_t> usages;
    for (ShardingAttr layout : layouts)
      usages.push_back(int64_t(made.variables.size()) *
                       costs.getBytes(type, layout));
    addLayouts({Place::Variable, unsigned(i), 0}, std::move(layouts), usages);
  }
}

void ProblemBuilder::addCells() {
  for (auto [i, cell] : llvm::enumerate(program.cells)) {
    std::vector<ShardingAttr> layouts;
    if (cell.stated)
      layouts.push_back(cell.stated);
    else
      layouts = enumerateLayouts(cell.type, mesh, /*orders=*/false,
                                 /*partial=*/false, options.allowsEmptyParts);
    SmallVector<int64_t> usages(layouts.size(), 0);
    addLayouts({Place::Cell, unsigned(i), 0}, std::move(layouts), usages);
  }
}

//===----------------------------------------------------------------------===//
// Edges
//===----------------------------------------------------------------------===//

ProblemBuilder::End ProblemBuilder::getMadeEnd(Place place) {
  const OpClass &made = program.ops[place.index];
  End end{result.getNode(made.group), {}};
  for (const Strategy &strategy : result.strategies[made.group])
    end.layouts.push_back(getMade(made, strategy, place.number, mesh));
  return end;
}

ProblemBuilder::End ProblemBuilder::getNeedEnd(Place place) {
  const OpClass &made = program.ops[place.index];
  End end{result.getNode(made.group), {}};
  for (const Strategy &strategy : result.strategies[made.group])
    end.layouts.push_back(getNeed(made, strategy, place.number, mesh));
  return end;
}

void ProblemBuilder::addEdge(
    const End &from, const End &to,
    function_ref<Cost(ShardingAttr, ShardingAttr)> cost) {
  std::vector<solver::Node> &nodes = result.problem.nodes;
  if (from.node == to.node) {
    for (auto [i, own] : llvm::enumerate(nodes[from.node].costs))
      own = solver::addCosts(own, cost(from.layouts[i], to.layouts[i]));
    return;
  }
  // Pairs of equal layouts have equal costs, so `cost` is called once per pair.
  bool swaps = from.node > to.node;
  const End &first = swaps ? to : from, &second = swaps ? from : to;
  llvm::SetVector<ShardingAttr> rows(first.layouts.begin(),
                                     first.layouts.end()),
      columns(second.layouts.begin(), second.layouts.end());
  std::vector<Cost> pairs;
  for (ShardingAttr a : rows)
    for (ShardingAttr b : columns)
      pairs.push_back(swaps ? cost(b, a) : cost(a, b));
  auto getNumbers = [](const End &end,
                       const llvm::SetVector<ShardingAttr> &layouts) {
    DenseMap<ShardingAttr, unsigned> numberOf;
    for (auto [i, layout] : llvm::enumerate(layouts))
      numberOf[layout] = i;
    std::vector<unsigned> numbers;
    for (ShardingAttr layout : end.layouts)
      numbers.push_back(numberOf.lookup(layout));
    return numbers;
  };
  std::vector<unsigned> row = getNumbers(first, rows),
                        column = getNumbers(second, columns);
  auto [entry, isNew] = edgeOf.try_emplace({first.node, second.node},
                                           result.problem.edges.size());
  if (isNew)
    result.problem.edges.push_back(
        {{first.node, second.node},
         std::vector<Cost>(row.size() * column.size(), 0)});
  Cost *table = result.problem.edges[entry->second].costs.data();
  for (unsigned i : row)
    for (unsigned j : column) {
      *table = solver::addCosts(*table, pairs[i * columns.size() + j]);
      ++table;
    }
}

void ProblemBuilder::addFlow(const Flow &flow) {
  End from, to;
  if (auto known = layoutOf.find(flow.from); known != layoutOf.end())
    from = getLayoutEnd(known->second);
  else if (flow.from.kind == Place::Op)
    from = getMadeEnd(flow.from);
  else
    return;
  to = flow.to.kind == Place::Op ? getNeedEnd(flow.to)
                                 : getLayoutEnd(layoutOf.at(flow.to));
  addEdge(from, to, [&](ShardingAttr a, ShardingAttr b) {
    return toCost(costs.getSeconds(flow.type, a, b) * flow.weight);
  });
}

bool ProblemBuilder::mayStore(VariableOp variable, ShardingAttr need,
                              ShardingAttr stored) {
  if (variable.getStorageAttr())
    return true;
  const StorageEntry *entry =
      findPlanEntry(options.base.storage, variable.getSymName());
  for (auto [d, wanted, got] :
       llvm::enumerate(getDimensions(need), getDimensions(stored))) {
    if (got.size() < wanted.size() ||
        ArrayRef<StringAttr>(got).take_front(wanted.size()) !=
            ArrayRef<StringAttr>(wanted))
      return false;
    ArrayRef<StringAttr> added =
        ArrayRef<StringAttr>(got).drop_front(wanted.size());
    if (!entry && options.decidesStorage)
      continue;
    // The plan states which axes are added.
    SmallVector<StringAttr> expected;
    if (const DimAssignment *stated = entry ? entry->find(d) : nullptr)
      for (const std::string &name : stated->axes) {
        auto axis = StringAttr::get(module.getContext(), name);
        bool isUsed = options.base.getAxisSize(name) <= 1 ||
                      llvm::any_of(getDimensions(need), [&](const Axes &dim) {
                        return llvm::is_contained(dim, axis);
                      });
        if (!isUsed)
          expected.push_back(axis);
      }
    if (added != ArrayRef<StringAttr>(expected))
      return false;
  }
  return true;
}

/// A plan only adds axes to those that a parameter's uses need. So the sharding
/// of the stored parameter must extend that of each use, and so must the
/// sharding of the parameter's optimizer state.
void ProblemBuilder::addStorageRules() {
  DenseMap<StringAttr, SmallVector<unsigned>> states; // of a parameter
  for (auto [i, made] : llvm::enumerate(program.variables)) {
    VariableOp variable = made.variables.front();
    if (std::optional<StateAttr> state = variable.getState())
      states[state->getParameter().getAttr()].push_back(i);
  }
  for (const Flow &flow : program.flows) {
    if (flow.from.kind != Place::Variable || flow.to.kind != Place::Op)
      continue;
    const OpClass &user = program.ops[flow.to.index];
    VariableOp variable = program.variables[flow.from.index].variables.front();
    if (program.groups[user.group].isUpdate || !variable.isOfModel())
      continue;
    End need = getNeedEnd(flow.to);
    auto restrict = [&](unsigned index) {
      VariableOp stored = program.variables[index].variables.front();
      if (stored.getTensorType().getShape() !=
          variable.getTensorType().getShape())
        return;
      addEdge(getLayoutEnd(layoutOf.at({Place::Variable, index, 0})), need,
              [&](ShardingAttr layout, ShardingAttr needed) -> Cost {
                return mayStore(stored, needed, layout) ? 0 : kInfiniteCost;
              });
    };
    restrict(flow.from.index);
    for (unsigned state : states.lookup(variable.getSymNameAttr()))
      restrict(state);
  }
}

FailureOr<OperatorProblem> ProblemBuilder::build() {
  result.mesh = mesh;
  findHubs();
  if (failed(addGroups()))
    return failure();
  for (const Place &place : hubs)
    addHub(place);
  addVariables();
  addCells();
  for (const Place &place : hubs) {
    const OpClass &made = program.ops[place.index];
    auto type =
        cast<RankedTensorType>(made.op()->getResult(place.number).getType());
    addEdge(getMadeEnd(place), getLayoutEnd(layoutOf.at(place)),
            [&](ShardingAttr a, ShardingAttr b) {
              return toCost(costs.getSeconds(type, a, b) * made.weight);
            });
  }
  for (const Flow &flow : program.flows)
    addFlow(flow);
  addStorageRules();
  result.problem.usageLimit = options.memoryLimit;
  return std::move(result);
}

FailureOr<OperatorProblem> heddle::buildProblem(const Program &program,
                                                Costs &costs,
                                                const OperatorsOptions &options,
                                                ModuleOp module) {
  return ProblemBuilder(program, costs, options, module).build();
}
