//===- ResolveStages.cpp - The pipeline of a plan -------------------------===//

#include "PlanResolver.h"
#include "heddle/Stages/StageSchedule.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace heddle;

/// Checks that the schedule can run the stages on the micro-batches of a step.
void PlanResolver::checkSchedule() {
  FunctionOpInterface training = findTrainingProgram(module);
  bool isStated = plan.getPosition("pipeline").line != 0;
  StringRef key = isStated ? "pipeline" : "stages";
  PlanPosition at = plan.getPosition(key);
  std::string path = ("$." + key).str();
  int64_t microBatches = getNumMicroBatches(module);
  if (training && microBatches == 1) {
    report(PlanRule::MicroBatches, at, path,
           "a pipeline needs several micro-batches in a step "
           "(--micro-batches), got one");
    return;
  }
  int64_t devices = plan.getAxisSize(kPipelineAxis);
  llvm::Expected<StageSchedule> schedule = getSchedule(
      PipelineAttr::get(context, StringAttr::get(context, kPipelineAxis),
                        plan.schedule, plan.numStages),
      plan.scheduleTable, devices, training ? microBatches : 0);
  if (schedule)
    return;
  std::string problem = llvm::toString(schedule.takeError());
  StringRef message = problem;
  message.consume_front("pipeline: "); // the path says that
  report(PlanRule::Schedule, at, path, message);
}

/// Checks that no operator reads a value of a later stage, directly or through
/// other operators. Looks at programs that have a forward pass alone.
void PlanResolver::checkStageOrder() {
  llvm::DenseMap<Operation *, int64_t> stages;
  for (auto [op, stage] : result.stages)
    stages[op] = stage;
  struct Latest {
    int64_t stage = -1;
    Operation *op = nullptr; ///< that has the stage
    bool isOfArguments = false;
  };
  auto check = [&](Block &body) {
    llvm::DenseMap<Value, Latest> latest;
    for (Operation &op : body) {
      Latest own;
      op.walk([&](Operation *inner) {
        for (Value input : inner->getOperands()) {
          Latest of = latest.lookup(input);
          own.isOfArguments |= of.isOfArguments || isa<BlockArgument>(input);
          // An op that depends on variables alone is repeated in each stage
          // that reads it.
          if (of.isOfArguments && of.stage > own.stage)
            own = {of.stage, of.op, own.isOfArguments};
        }
      });
      if (auto found = stages.find(&op); found != stages.end()) {
        int64_t stage = found->second;
        if (stage < own.stage && own.isOfArguments)
          report(PlanRule::StageOrder, plan.stages[stage].position,
                 "$.stages[" + std::to_string(stage) + "]",
                 "\"" + getOpName(&op) + "\" reads a value of \"" +
                     getOpName(own.op) + "\" of stage " + Twine(own.stage) +
                     ": expected stages in the order of computation",
                 getOpName(&op));
        own.stage = std::max(own.stage, stage);
        own.op = own.stage == stage ? &op : own.op;
      }
      for (Value value : op.getResults())
        latest[value] = own;
    }
  };
  for (auto function : module.getOps<func::FuncOp>()) {
    auto role = function->getAttrOfType<ProgramRoleAttr>(kRoleAttrName);
    if (!function.isExternal() &&
        (!role || role.getValue() == ProgramRole::Evaluate))
      check(function.getBody().front());
  }
}

/// Finds the stage of every op that a glob of "stages" names. Of several globs,
/// the one with the most literal characters decides.
void PlanResolver::resolveStages() {
  int64_t devices = plan.getAxisSize(kPipelineAxis);
  if (plan.numStages == 0)
    return;
  PlanPosition at = plan.getPosition("stages");
  for (const PlanStage &stage : plan.stages)
    for (const std::string &glob : stage.globs)
      findFactors("stages", glob, stage.position);
  if (devices <= 1) {
    report(
        PlanRule::Stages, at, "$.mesh",
        "expected at least 2 devices along \"pp\", over which the stages of a "
        "pipeline lie, got " +
            Twine(devices) +
            ": leave out \"stages\" and \"pipeline\", or use more");
    return;
  }
  // A table may have lists for another number of devices.
  bool isEven = plan.numStages % devices == 0;
  size_t before = result.problems.size();
  if (isEven || !plan.scheduleTable.empty())
    checkSchedule();
  if (!isEven && result.problems.size() == before)
    report(PlanRule::Stages, at, "$.stages",
           "expected as many stages for each of the " + Twine(devices) +
               " devices along \"pp\", got " + Twine(plan.numStages) +
               " stages");
  llvm::BitVector hasOperator(plan.stages.size());
  for (const PlannedOp &planned : result.ops) {
    StringRef name = getOpName(planned.op);
    std::optional<int64_t> found;
    unsigned literals = 0;
    bool isTied = false;
    for (auto [i, stage] : llvm::enumerate(plan.stages))
      for (const std::string &glob : stage.globs) {
        if (!matchesGlob(glob, name))
          continue;
        unsigned own = getGlobSpecificity(glob);
        if (!found || own > literals) {
          found = i;
          literals = own;
          isTied = false;
        } else if (own == literals && *found != int64_t(i)) {
          isTied = true;
        }
      }
    if (isTied)
      report(PlanRule::StageOfOperator, at, "$.stages",
             "two globs that are as specific give \"" + name +
                 "\" to different stages",
             name);
    if (!found)
      continue;
    hasOperator.set(*found);
    result.stages.push_back({planned.op, *found});
  }
  for (auto [i, stage] : llvm::enumerate(plan.stages))
    if (!hasOperator[i] && llvm::any_of(stage.globs, [&](const auto &glob) {
          return llvm::any_of(names, [&](const std::string &name) {
            return matchesGlob(glob, name);
          });
        }))
      report(PlanRule::EmptyStage, stage.position,
             "$.stages[" + std::to_string(i) + "]",
             "expected an operator of this stage: more specific globs give all "
             "that it matches to other stages");
  checkStageOrder();
}
