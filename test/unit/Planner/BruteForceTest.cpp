//===- BruteForceTest.cpp - The problem against all assignments -----------===//
//
// For random programs of other compilers' ops, compares the optimum of the
// solver's problem with the least cost over all assignments of axes to the
// factors of every op. The enumeration works on the program itself: it knows no
// groups, classes, flows or edges. Only the prices of single ops and
// reshardings are shared.
//
// HEDDLE_RANDOM_PLANS sets the number of programs (default 200).
//
//===----------------------------------------------------------------------===//

#include "heddle/Sharding/ControlFlow.h"
#include "heddle/Solver/Solve.h"
#include "lib/Planner/Operators/Problem/ProblemBuilder.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Parser/Parser.h"
#include "test/unit/Shard/LinalgGenerator/LinalgGenerator.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace heddle;

namespace {

/// The most assignments of a program that are enumerated.
constexpr double kMostAssignments = 20'000;

/// One way to split an op, from its rule alone.
struct Way {
  FactorAxes axes;
  Axes passed;
  SmallVector<ShardingAttr> needs,
      makes; ///< null for scalars that are no tensor
  double seconds = 0;
};

struct EnumeratedOp {
  Operation *op;
  std::vector<Way> ways;
};

/// A value, and the operands that use it in different ways.
struct EnumeratedValue {
  RankedTensorType type;
  int maker = -1; ///< index of the op; -1: an argument
  unsigned result = 0;
  std::vector<std::pair<int, unsigned>> uses; ///< op and operand; -1: return
};

class BruteForce {
public:
  BruteForce(func::FuncOp function, Costs &costs)
      : function(function), costs(costs), mesh(costs.getMesh()) {}

  /// Returns the number of assignments, or nullopt if the program has ops that
  /// the enumeration does not know.
  std::optional<double> prepare();
  double findLeast();

private:
  void addWays(EnumeratedOp &entry, const OpClass &made);
  void addValue(Value value, int maker, unsigned result);
  double getCost(const EnumeratedValue &value) const;
  void enumerate(unsigned op, double seconds);

  func::FuncOp function;
  Costs &costs;
  MeshRef mesh;
  std::vector<EnumeratedOp> ops;
  std::vector<EnumeratedValue> values;
  std::vector<std::vector<ShardingAttr>> layouts; ///< of values, for hubs
  DenseMap<Operation *, int> indexOf;
  std::vector<const Way *> chosen;
  double least = 1e30;
};

void BruteForce::addWays(EnumeratedOp &entry, const OpClass &made) {
  Operation *op = entry.op;
  const ShardingRule &rule = made.rule;
  StringAttr axis = mesh.mesh.getAxes().front().getName();
  auto add = [&](FactorAxes axes, bool passes, unsigned linear) {
    if (!isRepresentable(rule, axes, mesh.mesh))
      return;
    Way way{axes, {}, {}, {}, 0};
    if (passes)
      way.passed.push_back(axis);
    auto sum = [&](ShardingAttr sharding, bool isSum) {
      return isSum ? makeSharding(mesh, getDimensions(sharding), way.passed)
                   : sharding;
    };
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      way.needs.push_back(
          sum(getOperandSharding(rule, axes, i, mesh),
              passes && llvm::is_contained(rule.linear[linear].operands, i)));
    for (unsigned i = 0; i < op->getNumResults(); ++i)
      way.makes.push_back(sum(getResultSharding(rule, axes, i, mesh), passes));
    FailureOr<double> seconds = costs.getSeconds(made, axes);
    ASSERT_TRUE(succeeded(seconds));
    way.seconds = *seconds;
    entry.ways.push_back(std::move(way));
  };
  FactorAxes none(rule.factors.size());
  add(none, false, 0);
  for (auto [f, factor] : llvm::enumerate(rule.factors)) {
    if (factor.kind == FactorKind::Replicate ||
        factor.size < mesh.getSize({axis}))
      continue;
    FactorAxes axes = none;
    axes[f].push_back(axis);
    add(axes, false, 0);
  }
  if (!rule.defersPartialSums)
    return;
  for (auto [i, linear] : llvm::enumerate(rule.linear)) {
    int64_t in = 0, out = 0;
    for (unsigned operand : linear.operands)
      in += getBytes(op->getOperand(operand).getType());
    for (Type type : op->getResultTypes())
      out += getBytes(type);
    if (linear.results.empty() && out <= in)
      add(none, true, i);
  }
}

void BruteForce::addValue(Value value, int maker, unsigned result) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type)
    return;
  EnumeratedValue entry{type, maker, result, {}};
  for (OpOperand &use : value.getUses()) {
    auto user = indexOf.find(use.getOwner());
    int index = user == indexOf.end() ? -1 : user->second;
    unsigned number = use.getOperandNumber();
    // An op that takes a value twice, along the same factors, takes it once.
    bool isRepeated = llvm::any_of(entry.uses, [&](auto &other) {
      if (other.first != index || index < 0)
        return false;
      ShardingRule rule = getRule(ops[index].op);
      for (const LinearGroup &group : rule.linear)
        if (llvm::is_contained(group.operands, number) &&
            group.operands.size() > 1)
          return false;
      return rule.operands[other.second] == rule.operands[number];
    });
    if (!isRepeated)
      entry.uses.push_back({index, number});
  }
  llvm::SetVector<ShardingAttr> all;
  if (maker >= 0)
    for (const Way &way : ops[maker].ways)
      all.insert(way.makes[result]);
  if (maker < 0)
    for (ShardingAttr layout : enumerateLayouts(type, mesh, false, false))
      all.insert(layout);
  for (auto [user, number] : entry.uses)
    if (user >= 0 && maker >= 0)
      for (const Way &way : ops[user].ways)
        all.insert(way.needs[number]);
  layouts.emplace_back(all.begin(), all.end());
  values.push_back(std::move(entry));
}

std::optional<double> BruteForce::prepare() {
  bool isKnown = true;
  forEachOp(function, [&](Operation *op) {
    if (isControlFlow(op) || isa<func::CallOp>(op))
      isKnown = false;
    if (!isKnown || !hasFactors(op) || isa<func::ReturnOp>(op))
      return;
    auto hasTensor = [](TypeRange types) {
      return llvm::any_of(types, [](Type type) {
        auto tensor = dyn_cast<RankedTensorType>(type);
        return tensor && tensor.getRank() > 0;
      });
    };
    if (!hasTensor(op->getOperandTypes()) && hasTensor(op->getResultTypes()) &&
        op->getNumRegions() == 0 && isMemoryEffectFree(op))
      return; // every use has a copy
    for (Region &region : op->getRegions())
      region.walk([&](Operation *inner) {
        for (Value operand : inner->getOperands())
          isKnown &= !isa<TensorType>(operand.getType());
      });
    indexOf[op] = ops.size();
    ops.push_back({op, {}});
  });
  if (!isKnown)
    return std::nullopt;
  double assignments = 1;
  for (EnumeratedOp &entry : ops) {
    // Alone, the op is a kernel of its own; see `sharesKernels`.
    OpClass made;
    made.ops = {entry.op};
    made.rule = getRule(entry.op);
    addWays(entry, made);
    assignments *= double(entry.ways.size());
  }
  for (BlockArgument argument : function.getArguments())
    addValue(argument, -1, 0);
  for (auto [i, entry] : llvm::enumerate(ops))
    for (OpResult result : entry.op->getResults())
      addValue(result, int(i), result.getResultNumber());
  return assignments;
}

/// Returns the seconds of moving a value from where it is made to its uses: at
/// most one layout stands between.
double BruteForce::getCost(const EnumeratedValue &value) const {
  if (value.uses.empty())
    return 0;
  const std::vector<ShardingAttr> &hubs = layouts[&value - values.data()];
  ShardingAttr made;
  if (value.maker >= 0)
    made = chosen[value.maker]->makes[value.result];
  auto reach = [&](ShardingAttr from) {
    double seconds = 0;
    for (auto [user, number] : value.uses) {
      if (user >= 0) {
        seconds +=
            costs.getSeconds(value.type, from, chosen[user]->needs[number]);
        continue;
      }
      double cheapest = 1e30;
      for (ShardingAttr to : enumerateLayouts(value.type, mesh, false, false))
        cheapest = std::min(cheapest, costs.getSeconds(value.type, from, to));
      seconds += cheapest;
    }
    return seconds;
  };
  if (value.maker >= 0 && value.uses.size() == 1)
    return reach(made);
  double best = 1e30;
  for (ShardingAttr hub : hubs)
    best = std::min(best, (made ? costs.getSeconds(value.type, made, hub) : 0) +
                              reach(hub));
  return best;
}

void BruteForce::enumerate(unsigned op, double seconds) {
  if (op == ops.size()) {
    for (const EnumeratedValue &value : values) {
      seconds += getCost(value);
      if (seconds >= least)
        return;
    }
    least = seconds;
    return;
  }
  for (const Way &way : ops[op].ways) {
    chosen[op] = &way;
    if (seconds + way.seconds < least)
      enumerate(op + 1, seconds + way.seconds);
  }
}

double BruteForce::findLeast() {
  chosen.resize(ops.size());
  enumerate(0, 0);
  return least;
}

class BruteForceTest : public testing::Test, protected test::WithContext {
protected:
  /// Four devices whose links are as fast as their memory, and nothing has a
  /// latency, so that it pays to split small tensors.
  static Cluster makeCluster(Random &random) {
    Cluster cluster;
    cluster.name = "test";
    cluster.device = {"test", int64_t(1) << 30, 1e9, 0, {{"f32", 1e9}}};
    cluster.levels = {{"links", 2, 0, 1e8 * double(random.pick(1, 40)), 1}};
    return cluster;
  }

  /// Compares one program. Returns false if it is not one to compare.
  bool check(uint64_t seed);
  int split = 0; ///< programs whose optimum splits an op
};

bool BruteForceTest::check(uint64_t seed) {
  LinalgGenerator random(seed, {.empty = false, .halves = false});
  std::string text = random.run(int(random.pick(1, 4)));
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(text, ParserConfig(&context));
  EXPECT_TRUE(module) << text;
  auto function = module->lookupSymbol<func::FuncOp>("f");
  if (llvm::range_size(module->getOps<func::FuncOp>()) != 1)
    return false;
  auto mesh = MeshAttr::get(
      &context,
      {MeshAxisAttr::get(&context, StringAttr::get(&context, "a"), 2)});
  llvm::Expected<MeshTopology> topology =
      MeshTopology::create(makeCluster(random), {2});
  EXPECT_TRUE(bool(topology));
  Exposure exposure;
  Costs costs({FlatSymbolRefAttr::get(&context, "mesh"), mesh}, *topology,
              exposure);
  BruteForce force(function, costs);
  std::optional<double> assignments = force.prepare();
  if (!assignments || *assignments > kMostAssignments || *assignments < 2)
    return false;
  SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
  FailureOr<Program> program =
      Program::create(*module, {.microBatches = 0, .unitesLayers = false});
  if (failed(program)) {
    ADD_FAILURE() << diagnostics;
    return true;
  }
  // The enumeration prices each op alone, as if no two shared a kernel.
  for (OpClass &made : program->ops)
    made.isFusable = false, made.launches = true;
  OperatorsOptions options;
  options.base.mesh = {{"a", 2}};
  FailureOr<OperatorProblem> problem =
      buildProblem(*program, costs, options, *module);
  if (failed(problem)) {
    ADD_FAILURE() << diagnostics;
    return true;
  }
  solver::SolveOptions solve;
  solve.threads = 1;
  llvm::Expected<solver::Solution> solution =
      solver::solve(problem->problem, solve);
  EXPECT_TRUE(bool(solution));
  EXPECT_EQ(solution->why, solver::StopReason::Optimal);
  EXPECT_TRUE(solution->best);
  // Every cost is rounded to a picosecond.
  double least = force.findLeast() * kPicosecondsPerSecond;
  EXPECT_NEAR(
      double(solution->total), least,
      double(problem->problem.nodes.size() + problem->problem.edges.size()));
  for (auto [i, strategies] : llvm::enumerate(problem->strategies)) {
    const Strategy &chosen = strategies[(*solution->best)[problem->getNode(i)]];
    if (llvm::any_of(chosen.axes,
                     [](const Axes &axes) { return !axes.empty(); })) {
      ++split;
      break;
    }
  }
  return true;
}

TEST_F(BruteForceTest, RandomPrograms) {
  const char *count = std::getenv("HEDDLE_RANDOM_PLANS");
  int wanted = count ? std::atoi(count) : 200, compared = 0;
  for (uint64_t seed = 1; compared < wanted && seed < 20u * wanted; ++seed) {
    compared += check(seed);
    if (HasFailure())
      return;
  }
  EXPECT_EQ(compared, wanted);
  // Otherwise the comparison says little.
  EXPECT_GT(split, wanted / 4);
  RecordProperty("split", split);
}

} // namespace
