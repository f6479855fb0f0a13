//===- ExplainPlan.cpp - Plans explained and compared ---------------------===//

#include "ExplainPlan.h"

#include "../../common/CheckOutput.h"
#include "../../common/Run.h"
#include "DiffPlans.h"
#include "ExplanationReport.h"

#include "heddle/Plan/Plan.h"
#include "heddle/Report/Report.h"
#include "heddle_rt/atomic_file.h"

using namespace heddle;
using namespace heddle::tools;
namespace json = llvm::json;

/// Completes the flags from the plan's prediction: the properties of the step
/// that the flags do not state.
static void usePrediction(CompileFlags &flags, const Plan &plan,
                          std::optional<ModelKind> kind) {
  if (!plan.prediction)
    return;
  const PlanPrediction &prediction = *plan.prediction;
  TrainingOptions &training = flags.options.training;
  if (!isStated(flags, "--micro-batches"))
    training.microBatches = prediction.microBatches;
  if (!isStated(flags, "--bf16"))
    training.bf16 = prediction.bf16;
  if (!isStated(flags, "--optimizer") && !prediction.optimizer.empty())
    training.optimizer = prediction.optimizer == "sgd" ? OptimizerKind::SGD
                         : prediction.optimizer == "adam"
                             ? OptimizerKind::Adam
                             : OptimizerKind::AdamW;
  // An .mlir file has its batch and sequence.
  if (kind == ModelKind::Module)
    return;
  if (!flags.model.batch)
    flags.model.batch =
        std::max<int64_t>(1, prediction.rows / training.microBatches);
  if (!flags.model.sequence && prediction.sequence > 0)
    flags.model.sequence = prediction.sequence;
}

/// Completes the flags for the step of a plan's file. Prints an error and
/// returns false if the plan cannot be explained.
static bool prepare(CompileFlags &flags, const std::string &path) {
  llvm::Expected<Plan> plan = readPlanFile(path);
  if (!plan) {
    reportError(llvm::toString(plan.takeError()));
    return false;
  }
  std::optional<ModelKind> kind;
  if (!flags.model.path.empty()) {
    kind = classifyModel(flags.model.path);
    if (!kind)
      return false;
  }
  usePrediction(flags, *plan, kind);
  flags.plan = path;
  return true;
}

/// Explains the plan of prepared flags. Prints an error and returns nullopt if
/// it cannot be explained.
static std::optional<PlanExplanation> explain(CompileFlags &flags) {
  if (resolvePlan(flags) != exitSuccess)
    return std::nullopt;
  llvm::Expected<const Cluster &> cluster = flags.options.cluster.load();
  if (!cluster) {
    reportError(llvm::toString(cluster.takeError()));
    return std::nullopt;
  }
  Compiler compiler;
  auto module = loadModel(compiler, flags.model);
  if (failed(module))
    return std::nullopt;
  if (!isModel(**module) && !checkNoTrainingOptions(flags))
    return std::nullopt;
  auto explanation = explainPlan(**module, flags.options, *cluster);
  if (failed(explanation))
    return std::nullopt;
  return std::move(*explanation);
}

int tools::explainPlanFile(CompileFlags flags, const std::string &plan,
                           bool asJson, const std::string &page) {
  if (!page.empty())
    if (std::string problem = checkOutput("--html", page); !problem.empty())
      return reportError(problem);
  if (!prepare(flags, plan))
    return exitFailure;
  std::optional<PlanExplanation> explanation = explain(flags);
  if (!explanation)
    return exitFailure;
  std::string text;
  llvm::raw_string_ostream stream(text);
  json::OStream out(stream, /*IndentSize=*/1);
  out.object([&] { writeExplanation(out, *explanation); });
  stream.flush();
  if (!page.empty()) {
    runtime::Status status =
        runtime::writeFileAtomically(page, makePlanPage(text, plan));
    if (!status.ok())
      return reportError(std::string(status.message()));
  }
  if (asJson) {
    llvm::outs() << text << "\n";
  } else {
    printExplanation(*explanation);
  }
  llvm::outs().flush();
  return exitSuccess;
}

/// Returns the rows of a step over all micro-batches. An .mlir file has the
/// same rows under every plan, so they need no flag.
static int64_t getRows(const CompileFlags &flags) {
  return flags.model.batch.value_or(1) * flags.options.training.microBatches;
}

int tools::diffPlanFiles(const CompileFlags &flags, const std::string &before,
                         const std::string &after, bool asJson) {
  CompileFlags first = flags, second = flags;
  if (!prepare(first, before) || !prepare(second, after))
    return exitFailure;
  if (getRows(first) != getRows(second))
    return reportError(
        "--diff compares steps of equal rows: expected " +
        std::to_string(getRows(first)) + " rows, those of '" + before + "' (" +
        std::to_string(first.options.training.microBatches) +
        " micro-batches), got " + std::to_string(getRows(second)) + " of '" +
        after + "' (" + std::to_string(second.options.training.microBatches) +
        "); --batch is the rows of a micro-batch: leave it out, or state "
        "--micro-batches, too");
  std::optional<PlanExplanation> one = explain(first), other;
  if (one)
    other = explain(second);
  if (!other)
    return exitFailure;
  if (asJson) {
    json::OStream out(llvm::outs(), /*IndentSize=*/1);
    out.object([&] { writeDifferences(out, *one, *other); });
    llvm::outs() << "\n";
  } else {
    auto name = [&](const char *which, const CompileFlags &of,
                    const std::string &plan, const PlanExplanation &explained) {
      llvm::outs() << which << ": " << plan << ", " << explained.devices
                   << " devices of '" << explained.cluster << "', mesh";
      for (const PlanAxis &axis : llvm::cantFail(readPlanFile(plan)).mesh)
        llvm::outs() << " " << axis.name << "=" << axis.size;
      if (of.model.batch)
        llvm::outs() << ", " << getRows(of) << " rows";
      llvm::outs() << "\n";
    };
    name("first", first, before, *one);
    name("second", second, after, *other);
    printDifferences(*one, *other);
  }
  llvm::outs().flush();
  return exitSuccess;
}
