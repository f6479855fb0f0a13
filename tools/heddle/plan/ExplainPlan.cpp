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

/// Reads the plan's file, and completes the flags for its step. Returns an exit
/// code. If it is not exitSuccess, an error was printed.
static int prepare(CompileFlags &flags, const std::string &path) {
  llvm::Expected<Plan> plan = readPlanFile(path);
  if (!plan)
    return reportError(llvm::toString(plan.takeError()));
  flags.plan = path;
  return readPlanFlags(flags);
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
  if (int code = prepare(flags, plan); code != exitSuccess)
    return code;
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

/// Returns the number of micro-batches of a step, such as "2 micro-batches".
static std::string countMicroBatches(const CompileFlags &flags) {
  int64_t count = flags.options.training.microBatches;
  return std::to_string(count) +
         (count == 1 ? " micro-batch" : " micro-batches");
}

int tools::diffPlanFiles(const CompileFlags &flags, const std::string &before,
                         const std::string &after, bool asJson) {
  CompileFlags first = flags, second = flags;
  for (auto [step, plan] : {std::pair(&first, &before), {&second, &after}})
    if (int code = prepare(*step, *plan); code != exitSuccess)
      return code;
  if (getRows(first) != getRows(second))
    return reportError(
        "--diff compares steps of equal rows: expected " +
        std::to_string(getRows(first)) + " rows, those of '" + before + "' (" +
        countMicroBatches(first) + "), got " + std::to_string(getRows(second)) +
        " of '" + after + "' (" + countMicroBatches(second) +
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
