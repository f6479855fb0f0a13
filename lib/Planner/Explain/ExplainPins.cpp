//===- ExplainPins.cpp - Explains impossible pins -------------------------===//

#include "ExplainPins.h"
#include "../Candidates/Candidates.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace heddle;
using llvm::StringRef;

namespace {

class PinExplainer {
public:
  PinExplainer(const PlanRequest &request, const SplitLimits &limits)
      : request(request), limits(limits), pins(request.pins),
        rows(request.program.rows) {}

  std::string run() {
    checkAxes();
    checkBatches();
    checkProduct();
    checkStorage();
    checkSequence();
    checkContext();
    checkSubBatches();
    return llvm::join(reasons, "; ");
  }

  /// Explains why no axis of the pins can have its size.
  std::string explainAxes() {
    namesNearest = false;
    checkAxes();
    checkBatches();
    return llvm::join(reasons, "; ");
  }

private:
  void checkAxes();
  void checkBatches();
  void checkProduct();
  void checkStorage();
  void checkSequence();
  void checkContext();
  void checkSubBatches();

  /// Adds a reason if the pin's value is not possible. Names the nearest
  /// possible values up to `most`.
  void check(StringRef name, std::optional<int64_t> value, int64_t most,
             llvm::function_ref<bool(int64_t)> isLegal,
             llvm::function_ref<std::string()> why);
  /// Returns the parts of the program that tensor parallelism over `parts`
  /// devices does not divide.
  std::string describeUndivided(int64_t parts) const;

  /// Returns whether the program can be cut into `stages` stages.
  bool canCut(int64_t stages) const {
    return stages == 1 ||
           (limits.hasBackward && request.program.getMostStages() >= stages);
  }
  /// Returns whether attention can see a sequence in `context` parts in any way
  /// that the pins allow.
  bool canSplitContext(int64_t context, int64_t tensor) const {
    return llvm::any_of(kContextKinds, [&](ContextParallelism kind) {
      return (!pins.attention || *pins.attention == kind) &&
             limits.canSplitContext(kind, context, tensor);
    });
  }
  bool canSplitContext(int64_t context) const {
    return canSplitContext(context, pins.tensor.value_or(1));
  }
  /// Returns the most micro-batches that a step can have over `data` devices of
  /// dp.
  int64_t getMostMicroBatches(int64_t data) const {
    if (pins.microBatches)
      return *pins.microBatches;
    if (request.program.microBatchRows)
      return rows / *request.program.microBatchRows;
    return rows / data;
  }

  const PlanRequest &request;
  const SplitLimits &limits;
  const PlanPins &pins;
  int64_t rows;
  bool namesNearest = true;
  std::vector<std::string> reasons;
};

} // namespace

void PinExplainer::check(StringRef name, std::optional<int64_t> value,
                         int64_t most,
                         llvm::function_ref<bool(int64_t)> isLegal,
                         llvm::function_ref<std::string()> why) {
  if (!value || isLegal(*value))
    return;
  if (!namesNearest)
    most = 0;
  std::vector<std::string> nearest;
  for (int64_t below = std::min(*value - 1, most); below >= 1; --below)
    if (isLegal(below)) {
      nearest.push_back((name + "=" + llvm::Twine(below)).str());
      break;
    }
  for (int64_t above = *value + 1; above <= most; ++above)
    if (isLegal(above)) {
      nearest.push_back((name + "=" + llvm::Twine(above)).str());
      break;
    }
  std::string reason = (name + "=" + llvm::Twine(*value) + " ").str() + why();
  if (!nearest.empty())
    reason += " (the nearest that can be: " + llvm::join(nearest, ", ") + ")";
  reasons.push_back(std::move(reason));
}

std::string PinExplainer::describeUndivided(int64_t parts) const {
  for (auto [groups, members] : limits.heads)
    if (groups % parts != 0 &&
        (parts % groups != 0 || members % (parts / groups) != 0))
      return "does not divide the " + std::to_string(groups * members) +
             " heads" +
             (members > 1 ? " in " + std::to_string(groups) + " groups" : "");
  for (int64_t size : limits.features)
    if (size % parts != 0)
      return "does not divide the " + std::to_string(size) +
             " features of an operator";
  return "finds nothing in the program that it could split";
}

void PinExplainer::checkAxes() {
  int64_t devices = request.devices;
  auto isDivisor = [&](int64_t size) { return devices % size == 0; };
  auto whyDevices = [&] {
    return "does not divide the " + std::to_string(devices) + " devices";
  };
  check(
      "tp", pins.tensor, devices,
      [&](int64_t parts) {
        return isDivisor(parts) && limits.canSplitTensor(parts);
      },
      [&] {
        return limits.canSplitTensor(*pins.tensor)
                   ? whyDevices()
                   : describeUndivided(*pins.tensor);
      });
  check(
      "cp", pins.context, devices,
      [&](int64_t parts) { return isDivisor(parts) && canSplitContext(parts); },
      [&]() -> std::string {
        if (canSplitContext(*pins.context))
          return whyDevices();
        if (limits.sequences.empty())
          return "finds no attention whose sequence it could split";
        std::string sequence = "does not divide the sequence of " +
                               std::to_string(limits.sequences.front());
        if (!limits.canSplitSequence(*pins.context))
          return sequence;
        if (pins.attention == ContextParallelism::Ring)
          return sequence + ", of which each device of context=ring takes two "
                            "chunks";
        return "does not divide the key and value heads" +
               (pins.tensor.value_or(1) > 1
                    ? " of each part of tp=" + std::to_string(*pins.tensor)
                    : "") +
               ", which context=heads exchanges";
      });
  int64_t layers = request.program.getMostStages();
  int64_t most = getMostMicroBatches(pins.data.value_or(1));
  auto hasWork = [&](int64_t stages) {
    return stages == 1 || pins.microBatches || stages <= most;
  };
  check(
      "pp", pins.pipeline, devices,
      [&](int64_t parts) {
        return isDivisor(parts) && canCut(parts) && hasWork(parts);
      },
      [&]() -> std::string {
        if (!isDivisor(*pins.pipeline))
          return whyDevices();
        if (!limits.hasBackward)
          return "cuts a model's training step into stages, and this program "
                 "is none";
        if (!canCut(*pins.pipeline))
          return "needs a layer for each stage, and the program has " +
                 std::to_string(layers) + " layers";
        return "needs a micro-batch for each stage, and the " +
               std::to_string(rows) +
               " rows of a step (--batch) make at most " +
               std::to_string(most) +
               (pins.data ? " with dp=" + std::to_string(*pins.data) : "");
      });
}

void PinExplainer::checkBatches() {
  std::optional<int64_t> fixed = request.program.microBatchRows;
  auto isCount = [&](int64_t count) {
    return rows % count == 0 && (!fixed || rows / count == *fixed);
  };
  check("micro-batches", pins.microBatches, rows, isCount, [&] {
    return fixed ? "leaves other rows than the " + std::to_string(*fixed) +
                       " of the program"
                 : "does not divide the " + std::to_string(rows) +
                       " rows of a step (--batch)";
  });
  if (pins.microBatches && !isCount(*pins.microBatches))
    return;
  int64_t own = fixed ? *fixed : rows / pins.microBatches.value_or(1);
  check(
      "dp", pins.data, request.devices,
      [&](int64_t parts) {
        return request.devices % parts == 0 &&
               (parts == 1 || (limits.hasBatch && own % parts == 0));
      },
      [&]() -> std::string {
        if (request.devices % *pins.data != 0)
          return "does not divide the " + std::to_string(request.devices) +
                 " devices";
        if (!limits.hasBatch)
          return "finds no operator with a batch to split";
        return "does not divide the " + std::to_string(own) + " rows of a " +
               (pins.microBatches || fixed ? "micro-batch" : "step (--batch)");
      });
  if (pins.pipeline && pins.microBatches && *pins.pipeline > 1 &&
      *pins.microBatches < *pins.pipeline)
    reasons.push_back(
        "micro-batches=" + std::to_string(*pins.microBatches) +
        " leaves devices of pp=" + std::to_string(*pins.pipeline) +
        " without work: take at least as many");
}

/// Checks that the product of the pinned axes divides the number of devices,
/// and that the other axes can take the remaining devices.
void PinExplainer::checkProduct() {
  if (!reasons.empty())
    return; // one axis alone is wrong already
  std::vector<std::string> names;
  int64_t product = 1;
  auto multiply = [&](const char *name, std::optional<int64_t> size) {
    if (!size)
      return;
    names.push_back(std::string(name) + "=" + std::to_string(*size));
    product *= std::min<int64_t>(*size, kMaxPlanDevices);
  };
  multiply("pp", pins.pipeline);
  multiply("dp", pins.data);
  multiply("cp", pins.context);
  multiply("tp", pins.tensor);
  if (names.empty())
    return;
  int64_t devices = request.devices;
  std::string all = llvm::join(names, ", ");
  if (product > devices || devices % product != 0) {
    reasons.push_back(all + " together make " + std::to_string(product) +
                      " devices, which does not divide the " +
                      std::to_string(devices));
    return;
  }
  int64_t rest = devices / product;
  auto canData = [&](int64_t data, int64_t stages) {
    bool divides =
        data == 1 || (!pins.data && limits.hasBatch && rows % data == 0);
    return divides && (stages == 1 ||
                       stages <= getMostMicroBatches(pins.data.value_or(data)));
  };
  auto canBe = [&](int64_t pipeline, int64_t tensor, int64_t context) {
    int64_t others = pipeline * tensor * context;
    return rest % others == 0 && (!pins.pipeline || pipeline == 1) &&
           (!pins.tensor || tensor == 1) && (!pins.context || context == 1) &&
           canCut(pipeline) && limits.canSplitTensor(tensor) &&
           canSplitContext(pins.context.value_or(context),
                           pins.tensor.value_or(tensor)) &&
           (!pins.attention || pins.context || context > 1) &&
           canData(rest / others, pins.pipeline.value_or(pipeline));
  };
  bool canRest = false;
  for (int64_t pipeline = 1; pipeline <= rest && !canRest; ++pipeline)
    for (int64_t tensor = 1; tensor * pipeline <= rest && !canRest; ++tensor)
      for (int64_t context = 1; context * tensor * pipeline <= rest && !canRest;
           ++context)
        canRest = canBe(pipeline, tensor, context);
  if (!canRest)
    reasons.push_back(
        "beside " + all + ", the other axes (" +
        std::string(pins.pipeline ? "" : "pp ") + (pins.data ? "" : "dp ") +
        (pins.context ? "" : "cp ") + (pins.tensor ? "" : "tp ") + "of " +
        std::to_string(rest) + " devices) divide nothing of the program");
}

void PinExplainer::checkStorage() {
  if (!pins.zeroLevel || *pins.zeroLevel == 0)
    return;
  std::string name = "zero=" + std::to_string(*pins.zeroLevel);
  if (!limits.hasRoles())
    reasons.push_back(name + " is of standard plans, and the program has no "
                             "batch, heads or features to split so");
  else if (pins.data == 1 || request.devices == 1)
    reasons.push_back(name + " stores state over dp, which is one device: take "
                             "zero=0, or dp of at least 2");
}

void PinExplainer::checkSequence() {
  if (!pins.sequence || !*pins.sequence)
    return;
  if (pins.tensor == 1 || request.devices == 1)
    reasons.push_back("sequence=on splits over tp, which is one device: take "
                      "tp of at least 2");
  else if (int64_t context = pins.context.value_or(1);
           pins.tensor && !limits.canSplitSequence(context * *pins.tensor))
    reasons.push_back(
        "sequence=on needs a sequence that " +
        std::string(context > 1 ? "cp * tp" : "tp") + " divides, which " +
        (context > 1 ? "cp=" + std::to_string(context) + " and " : "") + "tp=" +
        std::to_string(*pins.tensor) + (context > 1 ? " do not" : " does not"));
}

void PinExplainer::checkContext() {
  if (!pins.attention)
    return;
  std::string name = "context=" + getContextName(*pins.attention).str();
  if (pins.context == 1 || request.devices == 1) {
    reasons.push_back(name + " splits the sequence over cp, which is one "
                             "device: take cp of at least 2");
    return;
  }
  auto canSplit = [&](int64_t parts) {
    return request.devices % parts == 0 && canSplitContext(parts);
  };
  bool can = false;
  for (int64_t parts = 2; parts <= request.devices && !can; ++parts)
    can = canSplit(parts);
  if (!pins.context && !can)
    reasons.push_back(name + " finds no cp of at least 2 that divides the " +
                      std::to_string(request.devices) + " devices and the " +
                      (pins.attention == ContextParallelism::Heads
                           ? "sequence and its heads"
                           : "sequence"));
}

/// Checks that the devices of some candidate have a row for each part of a
/// micro-batch.
void PinExplainer::checkSubBatches() {
  if (!reasons.empty() || !pins.subBatches || !limits.hasBatch)
    return;
  PlanRequest whole = request;
  whole.pins.subBatches = 1;
  int64_t most = 0;
  for (const Candidate &candidate :
       enumerateCandidates(whole, limits).candidates)
    most = std::max(most, rows / candidate.microBatches /
                              candidate.mesh.getDataSize());
  if (most > 0 && most < *pins.subBatches)
    reasons.push_back("sub-batches=" + std::to_string(*pins.subBatches) +
                      " needs as many rows of a micro-batch on each device, "
                      "and there are at most " +
                      std::to_string(most));
}

std::string heddle::explainPins(const PlanRequest &request,
                                const SplitLimits &limits) {
  return PinExplainer(request, limits).run();
}

//===----------------------------------------------------------------------===//
// Devices without pins
//===----------------------------------------------------------------------===//

static bool hasMesh(const PlanRequest &request, const SplitLimits &limits) {
  return !enumerateCandidates(request, limits).candidates.empty();
}

/// Returns the smallest prime factor of the devices over which nothing of the
/// program divides. If each prime factor divides something, returns the number
/// of devices.
static int64_t findUndivided(PlanRequest request, const SplitLimits &limits) {
  int64_t devices = request.devices, rest = devices;
  for (int64_t prime = 2; prime <= rest; ++prime) {
    if (rest % prime != 0)
      continue;
    request.devices = prime;
    if (!hasMesh(request, limits))
      return prime;
    while (rest % prime == 0)
      rest /= prime;
  }
  return devices;
}

/// Returns the nearest numbers of devices and of rows that have a mesh.
static std::string findAlternatives(const PlanRequest &request,
                                    const SplitLimits &limits) {
  PlanRequest other = request;
  std::vector<std::string> found;
  while (--other.devices >= 1)
    if (hasMesh(other, limits)) {
      found.push_back("--devices " + std::to_string(other.devices));
      break;
    }
  other.devices = request.devices;
  int64_t rows = request.program.rows;
  auto tryRows = [&](int64_t tried) {
    other.program.rows = tried;
    if (!hasMesh(other, limits))
      return false;
    found.push_back("--batch " + std::to_string(tried));
    return true;
  };
  // The devices may split as many rows. A program of fixed rows is a
  // micro-batch, so more rows of a step do not help. If the number of
  // micro-batches is pinned, --batch may be the rows of one.
  if (!request.program.microBatchRows && !request.pins.microBatches) {
    for (int64_t fewer = rows - 1; fewer >= 1 && fewer > rows - other.devices;
         --fewer)
      if (tryRows(fewer))
        break;
    for (int64_t more = rows + 1; more <= rows + other.devices; ++more)
      if (tryRows(more))
        break;
  }
  return llvm::join(found, " or ");
}

std::string heddle::explainDevices(const PlanRequest &request,
                                   const SplitLimits &limits) {
  int64_t undivided = findUndivided(request, limits);
  PlanRequest alone = request;
  alone.devices = undivided;
  for (auto axis : {&PlanPins::data, &PlanPins::tensor, &PlanPins::context,
                    &PlanPins::pipeline})
    alone.pins.*axis = undivided;
  std::string text = PinExplainer(alone, limits).explainAxes();
  std::string alternatives = findAlternatives(request, limits);
  if (!alternatives.empty())
    text += (text.empty() ? "possible: " : "; possible: ") + alternatives;
  return text;
}
