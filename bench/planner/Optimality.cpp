//===- Optimality.cpp - The planner's choice among all plans --------------===//
//
// Simulates every plan of a subspace, and compares the best one with the choice
// of the planner. The subspace holds all candidates of the planner (meshes,
// ZeRO levels, sequence parallelism, micro-batches, sub-batches, recomputation,
// pipelines and their schedules), each with the schedules `none` and `auto`.
// Candidates with tensor parallelism occur once more for each set of the
// operator groups of the command line: every device then computes these
// operators whole. Without groups, the subspace also has plans that leave
// sub-batches and recomputation to the schedule.
//
//   planner_bench MODEL SEQUENCE CLUSTER DEVICES ROWS STRIDE [GLOB ...]
//
// MODEL is a config, or an .mlir file of a model with the rows of a
// micro-batch. STRIDE 1 simulates all plans; N takes every Nth one.
//
//===----------------------------------------------------------------------===//

#include "Candidates/Candidates.h"
#include "Judge/Judge.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/Cost/Cluster.h"
#include "heddle/Import/Import.h"
#include "heddle/InitAll.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace heddle;

namespace {

/// A plan of the subspace and its time.
struct Measured {
  std::string name;
  double seconds = 0;
};

class Subspace {
public:
  explicit Subspace(const PlanRequest &request) : request(request) {}

  llvm::Error run(llvm::ArrayRef<std::string> globs, size_t stride);

  std::vector<Measured> plans; ///< those that compile and fit
  int64_t failed = 0, tooLarge = 0;

private:
  llvm::Error runWith(const PlanRequest &variant, bool isUniform,
                      size_t stride);

  const PlanRequest &request;
  size_t number = 0;
};

} // namespace

llvm::Error Subspace::runWith(const PlanRequest &variant, bool isUniform,
                              size_t stride) {
  Judge judge(variant);
  llvm::Expected<ModuleOp> step = judge.getTrainingStep(
      {variant.program.microBatchRows.value_or(1),
       variant.program.layers ? std::optional(1) : std::nullopt},
      2);
  if (!step)
    return step.takeError();
  SearchSpace space = enumerateCandidates(variant, getSplitLimits(*step));
  std::string suffix;
  for (const std::string &glob : variant.pins.replicated)
    suffix += " " + glob + "=replicated";
  for (const Candidate &candidate : space.candidates) {
    if ((candidate.leavesSchedule && !isUniform) ||
        (!variant.pins.replicated.empty() &&
         candidate.mesh.tensor.front() == 1))
      continue;
    if (number++ % stride != 0)
      continue;
    llvm::Expected<Judgement> judged =
        judge.judge(candidate, variant.program.layers);
    if (!judged) {
      if (failed++ == 0)
        llvm::errs() << candidate.getName() << suffix << ": "
                     << llvm::toString(judged.takeError()) << "\n";
      else
        llvm::consumeError(judged.takeError());
      continue;
    }
    if (judged->figures.memory.total() > variant.memory)
      ++tooLarge;
    else
      plans.push_back({candidate.getName() + suffix, judged->figures.seconds});
  }
  return llvm::Error::success();
}

llvm::Error Subspace::run(llvm::ArrayRef<std::string> globs, size_t stride) {
  for (Overlap overlap : {Overlap::Auto, Overlap::None})
    for (uint64_t set = 0; set < uint64_t(1) << globs.size(); ++set) {
      PlanRequest variant = request;
      variant.pins.overlap = overlap;
      for (auto [i, glob] : llvm::enumerate(globs))
        if (set >> i & 1)
          variant.pins.replicated.push_back(glob);
      if (llvm::Error problem = runWith(variant, globs.empty(), stride))
        return problem;
    }
  return llvm::Error::success();
}

/// Returns the rows of a model's batch: the first dimension of its features.
static int64_t getRows(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>())
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      auto role = function.getArgAttrOfType<PortRoleAttr>(i, kRoleAttrName);
      if (role && role.getRole() == PortRole::Features)
        return cast<RankedTensorType>(function.getArgumentTypes()[i])
            .getDimSize(0);
    }
  return 1;
}

static llvm::Expected<PlanRequest>
makeRequest(char **arguments, const DialectRegistry &dialects) {
  int64_t numbers[4];
  const char *texts[] = {arguments[2], arguments[4], arguments[5],
                         arguments[6]};
  for (auto [text, number] : llvm::zip(texts, numbers))
    if (llvm::StringRef(text).getAsInteger(10, number) || number < 1)
      return llvm::createStringError("expected a number, got '" +
                                     llvm::Twine(text) + "'");
  ImportOptions model;
  model.path = arguments[1];
  model.sequence = numbers[0];
  model.checkWeights = false;
  PlanRequest request;
  llvm::Expected<Cluster> cluster = loadCluster(arguments[3]);
  if (!cluster)
    return cluster.takeError();
  request.cluster = std::move(*cluster);
  request.devices = numbers[1];
  request.memory = request.cluster.device.memory;
  request.program.dialects = &dialects;
  request.program.rows = numbers[2];
  if (llvm::StringRef(model.path).ends_with(".mlir")) {
    request.program.make =
        [path = model.path](
            MLIRContext &context,
            const ProgramSize &) -> FailureOr<OwningOpRef<ModuleOp>> {
      OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(path, &context);
      if (!module)
        return failure();
      return module;
    };
    MLIRContext context(dialects);
    FailureOr<OwningOpRef<ModuleOp>> module = request.program.make(context, {});
    if (failed(module))
      return llvm::createStringError("cannot read the model");
    request.program.microBatchRows = getRows(**module);
    return request;
  }
  MLIRContext context(dialects);
  FailureOr<int64_t> layers = readNumLayers(context, model);
  if (failed(layers))
    return llvm::createStringError("cannot read the model");
  request.program.layers = *layers;
  request.program.make = [model](MLIRContext &context,
                                 const ProgramSize &size) {
    ImportOptions sized = model;
    sized.batch = size.rows;
    sized.mostLayers = size.layers;
    return importModel(context, sized);
  };
  return request;
}

static llvm::Error run(int count, char **arguments) {
  DialectRegistry dialects;
  registerAllDialects(dialects);
  llvm::Expected<PlanRequest> request = makeRequest(arguments, dialects);
  if (!request)
    return request.takeError();
  PlanObserver observer;
  llvm::Expected<PlanReport> report = findPlan(*request, observer);
  if (!report)
    return report.takeError();
  Subspace space(*request);
  std::vector<std::string> globs(arguments + 7, arguments + count);
  size_t stride = std::stoul(arguments[6]);
  if (llvm::Error problem = space.run(globs, stride))
    return problem;
  if (!report->plan || space.plans.empty())
    return llvm::createStringError("nothing fits");
  llvm::sort(space.plans, [](const Measured &a, const Measured &b) {
    return std::tie(a.seconds, a.name) < std::tie(b.seconds, b.name);
  });
  double chosen = report->figures.seconds;
  const Measured &best = space.plans.front();
  auto better = llvm::count_if(
      space.plans, [&](const Measured &plan) { return plan.seconds < chosen; });
  llvm::outs() << llvm::format(
      "%zu plans (%lld too large, %lld refused), best %.6f s, median %.6f s; "
      "planner %.6f s after %zu judged: %+.2f %%, %lld plans are better\n",
      space.plans.size(), (long long)space.tooLarge, (long long)space.failed,
      best.seconds, space.plans[space.plans.size() / 2].seconds, chosen,
      report->judged.size(), (chosen / best.seconds - 1) * 100,
      (long long)better);
  llvm::outs() << "  best:    " << best.name
               << "\n  planner: " << report->winner.getName() << "\n";
  return llvm::Error::success();
}

int main(int count, char **arguments) {
  if (count < 7) {
    llvm::errs() << "usage: planner_bench MODEL SEQUENCE CLUSTER DEVICES ROWS "
                    "STRIDE [GLOB ...]\n";
    return 1;
  }
  if (llvm::Error problem = run(count, arguments)) {
    llvm::errs() << "planner_bench: " << llvm::toString(std::move(problem))
                 << "\n";
    return 1;
  }
  return 0;
}
