//===- CheckStep.cpp - A plan against the batch of a step -----------------===//

#include "PlanResolver.h"
#include "heddle/PlanVerifier/Fingerprint.h"
#include "heddle/Support/Bytes.h"
#include "llvm/ADT/StringExtras.h"

#include <numeric>

using namespace mlir;
using namespace heddle;

/// Returns the size of a dimension of the first argument that holds features or
/// labels. Returns nullopt if there is no such dimension. Dimension 0 is the
/// samples of one call of the program. Dimension 1 of token arguments is the
/// positions.
static std::optional<int64_t> getSize(FunctionOpInterface function,
                                      unsigned dim) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto role = function.getArgAttrOfType<PortRoleAttr>(i, kRoleAttrName);
    auto type = dyn_cast<RankedTensorType>(function.getArgumentTypes()[i]);
    if (role && type && type.hasStaticShape() && type.getRank() > dim &&
        (role.getRole() == PortRole::Features ||
         role.getRole() == PortRole::Labels))
      return type.getDimSize(dim);
  }
  return std::nullopt;
}

void PlanResolver::checkSubBatches() {
  int64_t parts = plan.subBatches.value_or(1);
  const std::vector<int64_t> &sizes = plan.subBatchSizes;
  int64_t sum = std::accumulate(sizes.begin(), sizes.end(), int64_t(0));
  for (auto function : module.getOps<FunctionOpInterface>()) {
    std::optional<int64_t> rows = getSize(function, 0);
    if (!rows || (sizes.empty() ? parts <= *rows : sum == *rows))
      continue;
    report(
        PlanRule::SubBatches, plan.getPosition("sub_batches"), "$.sub_batches",
        (sizes.empty() ? "expected at most " : "expected sizes whose sum is ") +
            Twine(*rows) + ", the rows of a micro-batch (--batch) in @" +
            function.getName() + ", got " + Twine(sizes.empty() ? parts : sum));
  }
}

/// Returns whether the module computes in bf16 with parameters of another type,
/// as with --bf16.
static bool usesBf16(ModuleOp module) {
  for (VariableOp variable : module.getOps<VariableOp>())
    if (variable.getTensorType().getElementType().isBF16())
      return false;
  return module
      .walk([](Operation *op) {
        bool isBf16 = llvm::any_of(op->getResultTypes(), [](Type type) {
          return getElementTypeOrSelf(type).isBF16();
        });
        return isBf16 ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Returns the optimizers whose state the variables of a training step may be.
static std::vector<StringRef> getOptimizers(ModuleOp module) {
  for (VariableOp variable : module.getOps<VariableOp>())
    if (StateAttr state = variable.getStateAttr())
      if (state.getKind() == StateKind::AdamWMean)
        return {"adamw", "adam"};
  return {"sgd"};
}

void PlanResolver::checkPrediction() {
  FunctionOpInterface training = findTrainingProgram(module);
  if (!plan.prediction || !training)
    return;
  const PlanPrediction &prediction = *plan.prediction;
  PlanPosition at = plan.getPosition("prediction");
  auto warnOf = [&](StringRef key, const Twine &expected, const Twine &got) {
    warn(PlanRule::PredictedStep, at, ("$.prediction." + key).str(),
         "the plan was chosen for " + expected + ", got " + got +
             ": its times and memory are others, and another plan may be "
             "better; give what it was chosen for, or plan again");
  };
  int64_t microBatches = getNumMicroBatches(module);
  if (prediction.microBatches != microBatches)
    warnOf(
        "micro_batches",
        "a step of " + Twine(prediction.microBatches) +
            (prediction.microBatches == 1 ? " micro-batch" : " micro-batches") +
            " (--micro-batches)",
        Twine(microBatches));
  if (std::optional<int64_t> rows = getSize(training, 0);
      rows && *rows * microBatches != prediction.rows)
    warnOf("rows",
           "a step of " + Twine(prediction.rows) + " rows (--batch " +
               Twine(prediction.rows /
                     std::max<int64_t>(prediction.microBatches, 1)) +
               " --micro-batches " + Twine(prediction.microBatches) + ")",
           Twine(*rows * microBatches));
  bool isBf16 = usesBf16(module);
  if (isBf16 != prediction.bf16)
    warnOf("bf16", prediction.bf16 ? "--bf16" : "f32",
           isBf16 ? "--bf16" : "f32");
  // Rows of one dimension have no positions. If the number of positions
  // differs, so do the shapes of tables of positions, and with them the
  // fingerprint.
  if (std::optional<int64_t> sequence = getSize(training, 1);
      sequence && prediction.sequence > 0 && *sequence != prediction.sequence)
    warnOf("sequence",
           "rows of " + Twine(prediction.sequence) + " positions (--seq)",
           Twine(*sequence));
  else if (!prediction.programHash.empty() &&
           prediction.programHash != getFingerprint(module))
    warnOf("fingerprints.program",
           "a program with the fingerprint " + prediction.programHash,
           "one with other operators, variables or sizes");
  if (std::vector<StringRef> optimizers = getOptimizers(module);
      !prediction.optimizer.empty() &&
      !llvm::is_contained(optimizers, prediction.optimizer))
    warnOf("optimizer", "--optimizer " + prediction.optimizer,
           llvm::join(optimizers, " or "));
  if (!setting.cluster)
    return;
  Cluster used = setting.cluster->getFirst(plan.getNumDevices());
  if (prediction.cluster != setting.cluster->name)
    warnOf("cluster", "the cluster '" + prediction.cluster + "'",
           "'" + setting.cluster->name + "'");
  else if (!prediction.clusterHash.empty() &&
           prediction.clusterHash != getFingerprint(used))
    warnOf("fingerprints.cluster",
           "a cluster with the fingerprint " + prediction.clusterHash,
           "one with other devices or links of the same name, '" +
               setting.cluster->name + "'");
  int64_t bytes = prediction.getMemory(), memory = used.getStrongest().memory;
  if (bytes > memory)
    warn(PlanRule::PredictedMemory, at, "$.prediction.memory",
         "the plan was predicted to need " + Twine(bytes) +
             " bytes of each device, but a device of '" +
             setting.cluster->name + "' has " + Twine(memory) +
             ": plan again with --memory");
}
