//===- PlanBlocks.cpp - A plan from a profile of blocks -------------------===//

#include "PlanBlocks.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/Solver/Solve.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>
#include <set>

using namespace mlir;
using namespace heddle;

static constexpr double kNanoseconds = 1e9;
/// The work of the solver, in table entries. There is no clock, so that a
/// request always has the same answer.
static constexpr uint64_t kSolverWork = 1'000'000'000;
static constexpr double kSolverSeconds = 1e9;

static constexpr StringLiteral kBlock = "{block}";

namespace {
struct Instance {
  std::string name;
  const MeasuredBlock *measured;
};
} // namespace

/// Returns the block of an operator: the leading parts of its name, as many as
/// the glob has. Returns "" if they do not match the glob.
static std::string getBlock(StringRef glob, StringRef name) {
  SmallVector<StringRef> globs, parts;
  glob.split(globs, '.');
  name.split(parts, '.');
  if (parts.size() < globs.size())
    return "";
  parts.resize(globs.size());
  for (auto [pattern, part] : llvm::zip(globs, parts))
    if (!matchesGlob(pattern, part))
      return "";
  return llvm::join(parts, ".");
}

/// Returns the blocks of a module in the order of their first operators.
static llvm::Expected<std::vector<Instance>>
findBlocks(ModuleOp module, const BlockProfile &profile) {
  std::vector<Instance> blocks;
  std::set<std::string> known;
  std::set<const MeasuredBlock *> found;
  std::string problem;
  module.walk([&](ShardingRuleOpInterface op) {
    const MeasuredBlock *measured = nullptr;
    std::string name;
    for (const MeasuredBlock &candidate : profile.blocks) {
      std::string own = getBlock(candidate.glob, getOpName(op));
      if (own.empty())
        continue;
      if (measured && problem.empty())
        problem = "the operator '" + getOpName(op).str() +
                  "' is of the blocks '" + measured->glob + "' and '" +
                  candidate.glob + "': expected one of them";
      measured = &candidate;
      name = own;
    }
    if (!measured)
      return;
    found.insert(measured);
    if (known.insert(name).second)
      blocks.push_back({name, measured});
  });
  for (const MeasuredBlock &measured : profile.blocks)
    if (!found.count(&measured) && problem.empty())
      problem =
          "no operator of the program is of the block '" + measured.glob + "'";
  if (!problem.empty())
    return llvm::createStringError(profile.source + ": " + problem);
  return blocks;
}

static solver::Cost inNanoseconds(double seconds) {
  return std::llround(seconds * kNanoseconds);
}

/// Makes the problem of choosing a strategy for each block. A node is a block,
/// and an edge has the costs of the change from a block to the next one. The
/// strategies may use the memory that is left beside the blocks.
static solver::Problem makeProblem(ArrayRef<Instance> blocks,
                                   const BlockProfile &profile,
                                   int64_t memory) {
  solver::Problem problem;
  problem.name = "blocks";
  problem.usageLimit = memory - profile.bytes;
  for (auto [i, block] : llvm::enumerate(blocks)) {
    solver::Node node;
    node.live = {0, 1};
    for (const BlockStrategy &strategy : block.measured->strategies) {
      node.costs.push_back(inNanoseconds(strategy.seconds));
      node.usages.push_back(strategy.bytes);
    }
    problem.nodes.push_back(std::move(node));
    if (i == 0)
      continue;
    for (const BlockChange &change : blocks[i - 1].measured->next)
      if (change.glob == block.measured->glob) {
        solver::Edge edge{{uint32_t(i - 1), uint32_t(i)}, {}};
        for (double seconds : change.seconds)
          edge.costs.push_back(inNanoseconds(seconds));
        problem.edges.push_back(std::move(edge));
      }
  }
  return problem;
}

/// Returns a glob of a strategy with a block's name.
static std::string fillIn(std::string glob, StringRef block) {
  for (size_t at = glob.find(kBlock.str()); at != std::string::npos;
       at = glob.find(kBlock.str()))
    glob.replace(at, kBlock.size(), block.str());
  return glob;
}

/// Checks that in each block, the globs of all strategies match something, also
/// those of strategies that are not chosen.
static llvm::Error checkGlobs(ModuleOp module, ArrayRef<Instance> blocks,
                              const BlockProfile &profile) {
  std::vector<std::string> operators, variables;
  module.walk([&](ShardingRuleOpInterface op) {
    if (StringRef name = getOpName(op);
        !name.empty() && !llvm::is_contained(operators, name))
      operators.push_back(name.str());
  });
  for (auto variable : module.getOps<VariableOp>())
    variables.push_back(variable.getSymName().str());
  std::string problem;
  for (const Instance &block : blocks) {
    size_t at = block.measured - profile.blocks.data();
    for (auto [i, strategy] : llvm::enumerate(block.measured->strategies)) {
      auto check = [&](const auto &entries, const char *key, const char *what,
                       ArrayRef<std::string> names) {
        for (const auto &entry : entries) {
          std::string glob = fillIn(entry.glob, block.name);
          if (!problem.empty() || llvm::any_of(names, [&](StringRef name) {
                return matchesGlob(glob, name);
              }))
            continue;
          StringRef nearest = findNearestName(glob, names);
          problem =
              profile.source + ": $.blocks[" + std::to_string(at) +
              "].strategies[" + std::to_string(i) + "]." + key + "[\"" +
              entry.glob + "\"]: no " + what +
              " has such a name in the block '" + block.name + "'" +
              (nearest.empty() ? ""
                               : "; the nearest is '" + nearest.str() + "'");
        }
      };
      check(strategy.operators, "operators", "operator", operators);
      check(strategy.storage, "storage", "variable", variables);
    }
  }
  return problem.empty() ? llvm::Error::success()
                         : llvm::createStringError(problem);
}

/// Adds a strategy's entries to a plan, with the block's name in their globs.
template <typename EntryT>
static void addEntries(std::vector<EntryT> &entries,
                       const std::vector<EntryT> &added, StringRef block) {
  for (EntryT entry : added) {
    entry.glob = fillIn(std::move(entry.glob), block);
    llvm::erase_if(
        entries, [&](const EntryT &other) { return other.glob == entry.glob; });
    entries.push_back(std::move(entry));
  }
}

llvm::Expected<BlocksAnswer> heddle::planBlocks(ModuleOp module,
                                                const BlockProfile &profile,
                                                int64_t memory, Plan &plan) {
  llvm::Expected<std::vector<Instance>> blocks = findBlocks(module, profile);
  if (!blocks)
    return blocks.takeError();
  if (llvm::Error problem = checkGlobs(module, *blocks, profile))
    return problem;
  BlocksAnswer answer;
  solver::Assignment chosen;
  if (memory >= profile.bytes) {
    solver::Problem problem = makeProblem(*blocks, profile, memory);
    solver::SolveOptions options;
    options.timeoutSeconds = kSolverSeconds;
    options.workLimit = kSolverWork;
    options.threads = 1;
    llvm::Expected<solver::Solution> solution = solver::solve(problem, options);
    if (!solution)
      return solution.takeError();
    if (!solution->best && solution->why != solver::StopReason::Infeasible)
      return llvm::createStringError(
          profile.source +
          ": the choice of strategies has too many combinations: none that "
          "fits was found within " +
          std::to_string(kSolverWork) +
          " steps of the solver; expected fewer strategies, or more memory");
    if (solution->best) {
      answer.fits = true;
      chosen = *solution->best;
      answer.seconds = double(solution->total) / kNanoseconds;
      answer.bound = double(solution->lowerBound) / kNanoseconds;
    }
  }
  answer.bytes = profile.bytes;
  for (auto [i, block] : llvm::enumerate(*blocks)) {
    const std::vector<BlockStrategy> &all = block.measured->strategies;
    const BlockStrategy &strategy =
        answer.fits ? all[chosen[i]]
                    : *llvm::min_element(all, [](auto &a, auto &b) {
                        return a.bytes < b.bytes;
                      });
    answer.choices.push_back(
        {block.name, strategy.name, strategy.seconds, strategy.bytes});
    answer.bytes += strategy.bytes;
    addEntries(plan.operators, strategy.operators, block.name);
    addEntries(plan.storage, strategy.storage, block.name);
  }
  return answer;
}
