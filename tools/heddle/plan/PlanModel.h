//===- PlanModel.h - The planner on the command line ------------*- C++ -*-===//

#ifndef HEDDLE_TOOLS_HEDDLE_PLANMODEL_H
#define HEDDLE_TOOLS_HEDDLE_PLANMODEL_H

#include "heddle/Planner/Batch.h"
#include "heddle/Planner/Front.h"
#include "model/Model.h"

namespace heddle::tools {

/// The flags of commands that plan, beside those of the model.
struct PlannerFlags {
  std::string memory; ///< with a unit; empty: that of the cluster's device
  std::vector<std::string> pins;
  int64_t mostCompiled = PlanRequest().mostCompiled;
  bool estimate = false, quiet = false;
  /// The file of a partial plan, which the search completes; empty: none.
  std::string stated;
  /// The file of a profile of blocks; empty: none.
  std::string profile;
  /// Whether the plan may number the devices of a cluster in another order of
  /// their kinds, if there are several kinds.
  bool ordersKinds = false;
  /// The decisions that other options make.
  PlanPins decided;
};

void addPlannerFlags(CLI::App &app, PlannerFlags &flags);

/// Returns the hint for an option of other commands that --pin stands for; see
/// OptionHint.
std::string getPinHint(const std::string &name, const std::string &value);

struct PlanSearch {
  PlanRequest request;
  PlanReport report;
  /// The numbers of rows that were tried. The request has the chosen one. Empty
  /// if the rows were given.
  std::vector<BatchPoint> batches;
};

/// Limits the memory of each device to `planner.memory`, if given. If devices
/// differ, none gets more than the cluster states. If they are equal, they may
/// get more.
void limitMemory(const PlannerFlags &planner, Cluster &cluster);

/// Searches for the best plan of a model on the cluster of the flags. Shows
/// progress on standard error. Ctrl-C ends the search with the best plan so
/// far. With `choosesBatch`, rows that neither --batch nor the program states
/// are chosen by throughput. Otherwise there is one for each device. Returns an
/// exit code. If it is not exitSuccess, there can be no search, and an error
/// was printed.
int planModel(CompileFlags &flags, const PlannerFlags &planner,
              PlanSearch &search, bool choosesBatch = false);

struct FrontSearch {
  PlanRequest request;
  PlanFront front;
};

/// Searches for the front of choices, with the flags and the exit codes of
/// planModel().
int planFront(CompileFlags &flags, const PlannerFlags &planner,
              FrontSearch &search);

/// The value of --plan that asks for the planner.
inline constexpr const char *autoPlan = "auto";

/// Chooses the plan and the number of micro-batches for a command whose --plan
/// is `auto`, and sets them in the flags. Keeps the decisions of other options:
/// the rows of a step (--batch times --micro-batches), and each of
/// --micro-batches, --sub-batches, --recompute and --overlap that is given.
/// Returns an exit code. If it is not exitSuccess, there is no plan, and an
/// error was printed.
int planAutomatically(CompileFlags &flags);

} // namespace heddle::tools

#endif // HEDDLE_TOOLS_HEDDLE_PLANMODEL_H
