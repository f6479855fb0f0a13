//===- EquivalenceTest.cpp - Sharded programs against global ones ---------===//
//
// Executes a model's training step globally by the interpreter and, after
// partitioning, by a grid of interpreters. All numbers are doubles, so the two
// agree up to rounding, and a wrong slice, mask or sum shows.
//
//===----------------------------------------------------------------------===//

#include "heddle/Import/Import.h"
#include "heddle/InitAll.h"
#include "heddle/Plan/DefaultPlan.h"
#include "heddle/Shard/ApplyPlan.h"
#include "heddle/Sharding/FactorShardings.h"
#include "test/support/Interpreter/Grid.h"
#include "test/support/WithContext.h"
#include "llvm/Support/FileSystem.h"
#include "gtest/gtest.h"
#include <cmath>
#include <random>

using namespace mlir;
using namespace heddle;

namespace {

/// A small model. Some cases choose sizes that the mesh does not divide.
struct Model {
  std::string config;
  int64_t batch = 4, sequence = 5, vocabulary = 22;
  double dropout = 0;
};

Model gpt2(int64_t heads = 4, int64_t vocabulary = 22, int64_t batch = 4) {
  int64_t hidden = 4 * heads;
  return {"{\"model_type\": \"gpt2\", \"architectures\": "
          "[\"GPT2LMHeadModel\"], \"vocab_size\": " +
              std::to_string(vocabulary) +
              ", \"n_positions\": 5, \"n_embd\": " + std::to_string(hidden) +
              ", \"n_layer\": 2, \"n_head\": " + std::to_string(heads) +
              ", \"activation_function\": \"gelu_new\", "
              "\"layer_norm_epsilon\": 1e-5, \"resid_pdrop\": 0.0, "
              "\"embd_pdrop\": 0.0, \"attn_pdrop\": 0.0}",
          batch, 5, vocabulary, 0};
}

Model llama(int64_t heads = 4, int64_t groups = 2, int64_t vocabulary = 22,
            int64_t feedForward = 12) {
  return {"{\"model_type\": \"llama\", \"architectures\": "
          "[\"LlamaForCausalLM\"], \"vocab_size\": " +
              std::to_string(vocabulary) +
              ", \"hidden_size\": " + std::to_string(4 * heads) +
              ", \"intermediate_size\": " + std::to_string(feedForward) +
              ", \"num_hidden_layers\": 1, \"num_attention_heads\": " +
              std::to_string(heads) +
              ", \"num_key_value_heads\": " + std::to_string(groups) +
              ", \"max_position_embeddings\": 8, \"rms_norm_eps\": 1e-5, "
              "\"rope_theta\": 10000.0, \"hidden_act\": \"silu\", "
              "\"tie_word_embeddings\": false}",
          4, 5, vocabulary, 0};
}

struct Case {
  const char *name;
  Model model;
  std::string plan; ///< JSON, or "dp,tp,zero"
  std::string training = "";
  std::string before = ""; ///< passes before autodiff
};

class EquivalenceTest : public testing::TestWithParam<Case>,
                        protected test::WithContext {
protected:
  OwningOpRef<ModuleOp> import(const Model &model) {
    int file;
    llvm::SmallString<128> path;
    if (llvm::sys::fs::createTemporaryFile("config", "json", file, path))
      return {};
    llvm::raw_fd_ostream(file, /*shouldClose=*/true) << model.config;
    ImportOptions options;
    options.path = path.str();
    options.batch = model.batch;
    options.sequence = model.sequence;
    if (model.dropout > 0)
      options.dropout = model.dropout;
    auto module = importModel(context, options);
    llvm::sys::fs::remove(path);
    if (failed(module))
      return {};
    return std::move(*module);
  }

  bool partition(ModuleOp module, const std::string &text) {
    int dp, tp, zero;
    llvm::Expected<Plan> plan =
        std::sscanf(text.c_str(), "%d,%d,%d", &dp, &tp, &zero) == 3
            ? makeDefaultPlan(module, {{dp}, {tp}}, zero)
            : parsePlan(text, "plan");
    if (!plan) {
      diagnostics += llvm::toString(plan.takeError());
      return false;
    }
    return succeeded(applyPlan(module, *plan)) &&
           runPasses(module,
                     "heddle-split-batch,heddle-split-operators,"
                     "heddle-repeat-constants,"
                     "heddle-propagate-shardings,heddle-materialize-pins,"
                     "heddle-insert-reshards,heddle-verify-sharded,"
                     "heddle-localize,canonicalize,cse,"
                     "func.func(heddle-combine-collectives),"
                     "heddle-pack-collectives,heddle-verify-localized");
  }

  Tensor randomIds(ArrayRef<int64_t> shape, int64_t count, bool ignoreSome) {
    Tensor tensor(shape);
    for (double &value : tensor.values) {
      value = std::uniform_int_distribution<int64_t>(0, count - 1)(engine);
      if (ignoreSome && engine() % 5 == 0)
        value = -100;
    }
    return tensor;
  }

  std::mt19937_64 engine{7};
};

/// Returns the value of a variable, which may be a slice of a variable of the
/// global program.
Tensor valueOf(VariableOp variable, const Variables &global) {
  SliceAttr slice = variable.getSliceAttr();
  if (!slice)
    return global.find(variable.getSymName())->second;
  const Tensor &whole = global.find(slice.getOf().getValue())->second;
  Tensor part(variable.getTensorType().getShape());
  int64_t dim = slice.getDim(), inner = 1;
  for (int64_t size : ArrayRef<int64_t>(whole.shape).drop_front(dim + 1))
    inner *= size;
  int64_t rows = part.shape[dim];
  for (int64_t i = 0; i < (int64_t)part.values.size(); ++i) {
    int64_t outer = i / (rows * inner), rest = i % (rows * inner);
    part.values[i] =
        whole.values[(outer * slice.getSize() + slice.getOffset()) * inner +
                     rest];
  }
  return part;
}

/// Cuts the global program's variables into those of each device.
std::vector<Variables> shardVariables(ModuleOp module, MeshAttr mesh,
                                      const Variables &global) {
  std::vector<Variables> devices(mesh.getNumDevices());
  for (VariableOp variable : module.getOps<VariableOp>()) {
    auto parts =
        shardTensor(valueOf(variable, global), variable.getStorageAttr(), mesh);
    for (auto [device, part] : llvm::zip(devices, parts))
      device[variable.getSymName()] = part;
  }
  return devices;
}

void expectNear(const Tensor &expected, const Tensor &got, StringRef what) {
  ASSERT_EQ(expected.values.size(), got.values.size()) << what.str();
  double largest = 1e-6, difference = 0; // allows for rounding of zeros
  for (auto [a, b] : llvm::zip(expected.values, got.values)) {
    ASSERT_FALSE(std::isnan(b)) << what.str();
    largest = std::max(largest, std::abs(a));
    difference = std::max(difference, std::abs(a - b));
  }
  EXPECT_LE(difference, 1e-9 * largest) << what.str();
}

/// Assembles the devices' results to global tensors and compares these with
/// `expected`.
void expectResults(func::FuncOp function, MeshAttr mesh,
                   ArrayRef<Tensor> expected,
                   ArrayRef<std::vector<Tensor>> devices) {
  for (auto [i, wanted] : llvm::enumerate(expected)) {
    std::vector<Tensor> parts;
    for (const std::vector<Tensor> &device : devices)
      parts.push_back(device[i]);
    auto sharding =
        function.getResultAttrOfType<ShardingAttr>(i, kShardingAttrName);
    ASSERT_TRUE(sharding);
    auto whole = unshardTensor(parts, sharding, mesh, wanted.shape, 1e-10);
    ASSERT_TRUE(bool(whole)) << llvm::toString(whole.takeError());
    expectNear(wanted, *whole,
               (function.getName() + " result " + Twine(i)).str());
  }
}

/// Gives every attention a window and a mask: the first one a mask of i1 that
/// differs for each query and group, the others one of f32 that is the same for
/// all queries.
void maskAttentions(ModuleOp module) {
  bool isFirst = true;
  module.walk([&](AttentionOp op) {
    OpBuilder b(op);
    SmallVector<int64_t> shape(op.getLse().getType().getShape());
    for (size_t dim = isFirst ? 3 : 1; dim < shape.size(); ++dim)
      shape[dim] = 1;
    shape.push_back(op.getKey().getType().getDimSize(1));
    Type element = isFirst ? Type(b.getI1Type()) : Type(b.getF32Type());
    auto type = RankedTensorType::get(shape, element);
    SmallVector<bool> seen;
    SmallVector<float> added;
    for (int64_t i = 0; i < type.getNumElements(); ++i) {
      seen.push_back(i % 3 != 1);
      added.push_back(i % 4 == 1 ? -3e38f : float(i % 5) - 2);
    }
    auto data = isFirst ? DenseElementsAttr::get(type, seen)
                        : DenseElementsAttr::get(type, ArrayRef(added));
    op.getMaskMutable().assign(
        b.create<arith::ConstantOp>(op.getLoc(), data).getResult());
    op.setWindow(4);
    isFirst = false;
  });
}

TEST_P(EquivalenceTest, SameNumbersAsOneDevice) {
  const Case &param = GetParam();
  OwningOpRef<ModuleOp> global = import(param.model);
  ASSERT_TRUE(global) << diagnostics;
  if (StringRef(param.name).starts_with("BothWays")) // no causal mask
    global->walk([](AttentionOp op) { op.setCausal(false); });
  if (StringRef(param.name).contains("Masked"))
    maskAttentions(*global);
  ASSERT_TRUE(
      runPasses(*global, param.before +
                             "heddle-build-training-step{learning-rate=0.01 "
                             "clip=0.5 gradients=true " +
                             param.training + "},canonicalize,cse"))
      << diagnostics;
  OwningOpRef<ModuleOp> local = global->clone();
  // ATTENTION in a plan stands for the name of the attention op itself, without
  // the projections before and after it.
  std::string plan = param.plan;
  StringRef name("ATTENTION");
  if (size_t at = plan.find(name); at != std::string::npos)
    plan.replace(at, name.size(),
                 StringRef(param.model.config).contains("gpt2")
                     ? "*.attn"
                     : "*.self_attn");
  ASSERT_TRUE(partition(*local, plan)) << diagnostics;
  MeshAttr mesh = getMesh(*local).mesh;

  Variables variables;
  std::uniform_real_distribution<double> random(-1, 1);
  initializeVariables(*global, variables, [&] { return 20 * random(engine); });
  for (auto &entry : variables) // gives biases, too, numbers other than zero
    if (!entry.getKey().starts_with("adamw") &&
        !entry.getKey().starts_with("grad."))
      for (double &value : entry.getValue().values)
        if (value == 0 && !entry.getValue().shape.empty())
          value = random(engine);
  std::vector<Variables> devices = shardVariables(*local, mesh, variables);

  // Calls the programs in the order of a training run.
  int64_t shape[] = {param.model.batch, param.model.sequence};
  for (StringRef name : {"gradients", "step", "accumulate", "accumulate",
                         "update", "step", "evaluate"}) {
    auto function = global->lookupSymbol<func::FuncOp>(name);
    if (!function)
      continue;
    auto localFunction = local->lookupSymbol<func::FuncOp>(name);
    std::vector<Tensor> arguments;
    std::vector<std::vector<Tensor>> localArguments(devices.size());
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      arguments.push_back(
          randomIds(shape, param.model.vocabulary, /*ignoreSome=*/i == 1));
      auto sharding =
          localFunction.getArgAttrOfType<ShardingAttr>(i, kShardingAttrName);
      auto parts = shardTensor(arguments.back(), sharding, mesh, /*padding=*/1);
      for (auto [mine, part] : llvm::zip(localArguments, parts))
        mine.push_back(part);
    }
    auto expected = interpret(function, arguments, variables);
    ASSERT_TRUE(succeeded(expected)) << diagnostics;
    auto results = interpretGrid(localFunction, mesh, localArguments, devices);
    ASSERT_TRUE(succeeded(results)) << diagnostics;
    expectResults(localFunction, mesh, *expected, *results);

    // Compares the variables, including their padding.
    for (VariableOp variable : local->getOps<VariableOp>()) {
      StringRef symbol = variable.getSymName();
      Tensor wanted = valueOf(variable, variables);
      if (variable.getStorageAttr().isPartial()) {
        std::vector<Tensor> mine;
        for (Variables &device : devices)
          mine.push_back(device[symbol]);
        auto sum = unshardTensor(mine, variable.getStorageAttr(), mesh,
                                 wanted.shape, 1e-10);
        ASSERT_TRUE(bool(sum)) << llvm::toString(sum.takeError());
        expectNear(wanted, *sum, (name + " " + symbol).str());
        continue;
      }
      auto parts = shardTensor(wanted, variable.getStorageAttr(), mesh);
      for (auto [device, part] : llvm::zip(devices, parts))
        expectNear(part, device[symbol], (name + " " + symbol).str());
    }
    if (HasFailure())
      return;
  }
}

const char *kMegatronTp4 =
    R"({"version": 1, "mesh": {"tp": 4}, "operators": {
        "*": {"n": ["tp"], "f": ["tp"], "v": ["tp"]}}})";
const char *kSequence =
    R"({"version": 1, "mesh": {"dp": 2, "tp": 2}, "operators": {
        "*": {"b": ["dp"], "n": ["tp"], "f": ["tp"], "v": ["tp"]},
        "h.*.ln_?": {"s": ["tp"]}, "ln_f": {"s": ["tp"]}}})";
const char *kTwoAxes =
    R"({"version": 1, "mesh": {"a": 2, "b": 2, "c": 2}, "operators": {
        "*": {"b": ["c"], "n": ["a", "b"], "f": ["b", "a"], "v": ["a", "b"]},
        "h.1.*": {"n": ["b"], "f": ["a"]}},
        "storage": {"adamw.*": {"0": ["c"]}, "*.bias": {"0": ["c", "b"]},
                    "h.0.*.c_fc.weight": {"1": ["c"]}}})";
const char *kHidden =
    R"({"version": 1, "mesh": {"x": 3}, "operators": {
        "h.*.attn.c_attn": {"h": ["x"]}, "h.*.attn.c_proj": {"h": ["x"]},
        "h.*.mlp.c_fc": {"h": ["x"]}, "lm_head": {"s": ["x"]},
        "wte": {"h": ["x"]}}})";
const char *kFsdp =
    R"({"version": 1, "mesh": {"fsdp": 2, "dp": 2}, "operators": {
        "*": {"b": ["dp"]}}, "storage": {"*": {"0": ["fsdp"]}}})";
const char *kMixed =
    R"({"version": 1, "mesh": {"dp": 2, "tp": 2}, "operators": {
        "*": {"b": ["dp"]}, "h.0.*": {"f": ["tp"]}, "h.1.*": {"n": ["tp"]},
        "lm_head": {"v": ["dp"], "b": []}},
        "storage": {"h.0.*": {"0": ["dp"]}, "adamw.?.h.1.*": {"0": ["dp"]}}})";

// Returns a plan for context parallelism: the sequence of the whole model is
// split. `attention` says how attention works: with gathered keys and values,
// as a ring, or with split heads instead.
std::string contextPlan(StringRef mesh, StringRef attention,
                        StringRef all = R"("s": ["cp"])") {
  return ("{\"version\": 1, \"mesh\": {" + mesh +
          "}, \"operators\": {\"*\": {" + all + "}, \"ATTENTION\": {" +
          attention + "}}}")
      .str();
}
constexpr StringRef kGather = R"("s": ["cp"], "t": [])";
constexpr StringRef kRing = R"("s": ["cp"], "t": ["cp"])";
constexpr StringRef kHeads = R"("n": ["cp"], "s": [], "t": [])";
// The keys of attention split, the queries not.
constexpr StringRef kKeys = R"("s": [], "t": ["cp"])";
// Statistics of norms over a split hidden dimension.
const char *kNorms =
    R"({"version": 1, "mesh": {"x": 3}, "operators": {
        "*norm": {"h": ["x"]}}})";
const char *kLayerNorms =
    R"({"version": 1, "mesh": {"dp": 2, "x": 3}, "operators": {
        "*": {"b": ["dp"]}, "*.ln_?": {"h": ["x"]}, "ln_f": {"h": ["x"]}}})";
const char *kAllAxes = R"("b": ["dp"], "s": ["cp"], "n": ["tp"], "f": ["tp"],
                          "v": ["tp"])";

Model ofLength(Model model, int64_t sequence) {
  model.sequence = sequence;
  for (StringRef key : {"\"n_positions\": ", "\"max_position_embeddings\": "})
    if (size_t at = model.config.find(key); at != std::string::npos)
      model.config.replace(at + key.size(), 1, std::to_string(sequence));
  return model;
}

// Splits large operators into slices, along summed and along parallel factors.
const char *kSplit =
    R"({"version": 1, "mesh": {"dp": 2, "tp": 2}, "operators": {
        "*": {"b": ["dp"], "n": ["tp"], "f": ["tp"], "v": ["tp"]}},
        "storage": {"h.*.weight": {"0": ["dp"]}, "wte.weight": {"1": ["dp"]}},
        "splits": {"h.*.attn.c_attn": {"h": {"slices": 4, "sharded": 2}},
                   "h.*.mlp.c_fc": {"h": {"slices": 3}},
                   "h.0.mlp.c_proj": {"h": {"slices": 4, "sharded": 0}},
                   "lm_head": {"h": {"slices": 2, "sharded": 1}}}})";
const char *kSplitPadded =
    R"({"version": 1, "mesh": {"dp": 3}, "operators": {"*": {"b": ["dp"]}},
        "storage": {"*": {"0": ["dp"]}},
        "splits": {"h.*.attn.c_attn": {"c": {"slices": 2, "sharded": 1}},
                   "h.*.attn.c_proj": {"n": {"slices": 3}},
                   "h.*.mlp.c_fc": {"f": {"slices": 5, "sharded": 3}},
                   "h.*.mlp.c_proj": {"f": {"slices": 2}},
                   "wte": {"v": {"slices": 3, "sharded": 2}}}})";
const char *kSplitLlama =
    R"({"version": 1, "mesh": {"dp": 2, "tp": 2}, "operators": {
        "*": {"b": ["dp"], "n": ["tp"], "f": ["tp"], "v": ["tp"]}},
        "storage": {"*": {"0": ["dp"]}},
        "splits": {"layers.*_proj": {"h": {"slices": 2, "sharded": 1}},
                   "lm_head": {"h": {"slices": 5}}}})";

/// Returns the plan with the batch in several parts.
std::string inParts(std::string plan, int parts) {
  return plan.insert(1, "\"sub_batches\": " + std::to_string(parts) + ", ");
}
const char *kData =
    R"({"version": 1, "mesh": {"dp": 4}, "operators": {"*": {"b": ["dp"]}},
        "storage": {"*": {"0": ["dp"]}}})";

Model withDropout(Model model) {
  model.dropout = 0.25;
  return model;
}

INSTANTIATE_TEST_SUITE_P(
    Plans, EquivalenceTest,
    testing::Values(
        Case{"OneDevice", gpt2(), "1,1,0"}, Case{"Dp4", gpt2(), "4,1,0"},
        Case{"Tp4", gpt2(4, 24), "1,4,0"},
        Case{"Tp4Padded", gpt2(3, 22), kMegatronTp4},
        Case{"Dp2Tp2", gpt2(), "2,2,0"}, Case{"Zero1", gpt2(), "4,1,1"},
        Case{"Zero2", gpt2(), "4,1,2"}, Case{"Zero3", gpt2(), "4,1,3"},
        Case{"Dp2Tp2Zero1", gpt2(), "2,2,1"},
        Case{"Dp2Tp2Zero3", gpt2(), "2,2,3"},
        Case{"Dp3Tp3Zero3Padded", gpt2(4, 22, 4), "3,3,3"},
        Case{"BatchPadded", gpt2(2, 22, 3), "2,1,1"},
        Case{"MicroBatchesZero2", gpt2(), "2,2,2", "micro-batches=2"},
        Case{"MicroBatchesData", gpt2(3, 23, 3), "4,1,0", "micro-batches=2"},
        Case{"MicroBatchesZero1", gpt2(), "2,2,1", "micro-batches=2"},
        Case{"MicroBatchesSequence", gpt2(), kSequence, "micro-batches=2"},
        Case{"MicroBatchesPadded", gpt2(3, 23, 3), "2,2,2", "micro-batches=2"},
        Case{"Sgd", gpt2(), "2,2,1", "optimizer=sgd momentum=0.9"},
        Case{"SequenceTensor", gpt2(), kSequence},
        Case{"TwoAxes", gpt2(), kTwoAxes}, Case{"Hidden", gpt2(), kHidden},
        Case{"Fsdp", gpt2(), kFsdp}, Case{"Mixed", gpt2(), kMixed},
        Case{"Split", gpt2(), kSplit},
        Case{"SplitMicroBatches", gpt2(), kSplit, "micro-batches=2"},
        Case{"SplitSgd", gpt2(), kSplit, "optimizer=sgd momentum=0.9"},
        Case{"SplitPadded", gpt2(3, 23, 3), kSplitPadded},
        Case{"SplitBf16", gpt2(), kSplit, "",
             "heddle-apply-mixed-precision{compute=bf16},"},
        Case{"SplitLlama", llama(), kSplitLlama},
        Case{"LlamaTp2", llama(), "1,2,0"},
        Case{"LlamaGroupsFewerThanTp", llama(4, 2), "1,4,0"},
        Case{"LlamaOneGroup", llama(4, 1), "1,4,0"},
        Case{"LlamaGroupsPadded", llama(6, 3), "2,2,3"},
        Case{"LlamaRefined", llama(12, 6), "1,4,1"},
        Case{"LlamaAllPadded", llama(3, 3, 23, 13), "2,2,3"},
        Case{"LlamaZero3", llama(), "2,2,3"},
        Case{"Bf16", gpt2(3, 23, 3), "2,2,3", "",
             "heddle-apply-mixed-precision{compute=bf16},"},
        Case{"LlamaBf16", llama(6, 3), "2,2,1", "micro-batches=2",
             "heddle-apply-mixed-precision{compute=bf16},"},
        Case{"Dropout", withDropout(gpt2()), "2,2,0"},
        Case{"DropoutPadded", withDropout(gpt2(3, 23, 3)), "2,2,1"},
        Case{"ContextGather", ofLength(gpt2(), 8),
             contextPlan("\"cp\": 4", kGather)},
        Case{"ContextRing", ofLength(gpt2(), 8),
             contextPlan("\"cp\": 4", kRing)},
        Case{"ContextHeads", ofLength(gpt2(), 8),
             contextPlan("\"cp\": 4", kHeads)},
        Case{"ContextKeys", ofLength(gpt2(), 8),
             contextPlan("\"cp\": 4", kKeys)},
        Case{"ContextGatherPadded", ofLength(gpt2(), 9),
             contextPlan("\"cp\": 4", kGather)},
        // The devices have 3, 3, 3 and 0 rows; a ring deals 3 as 2 and 1.
        Case{"ContextRingPadded", ofLength(gpt2(), 9),
             contextPlan("\"cp\": 4", kRing)},
        Case{"ContextHeadsPadded", ofLength(gpt2(3, 23, 3), 7),
             contextPlan("\"cp\": 4", kHeads)},
        Case{"ContextKeysPadded", ofLength(gpt2(), 9),
             contextPlan("\"cp\": 4", kKeys)},
        // Devices have one row or none.
        Case{"ContextRingShort", gpt2(), contextPlan("\"cp\": 8", kRing)},
        Case{"ContextRingOfThree", ofLength(gpt2(), 8),
             contextPlan("\"cp\": 3", kRing)},
        Case{"ContextRingTensor", ofLength(gpt2(3, 23, 3), 9),
             contextPlan("\"dp\": 2, \"cp\": 2, \"tp\": 2", kRing, kAllAxes)},
        Case{"ContextGatherTensor", ofLength(gpt2(3, 23, 3), 9),
             contextPlan("\"dp\": 2, \"cp\": 2, \"tp\": 2", kGather, kAllAxes)},
        Case{"ContextHeadsTensor", ofLength(gpt2(4, 23, 3), 9),
             contextPlan("\"dp\": 2, \"cp\": 2, \"tp\": 2",
                         R"("n": ["tp", "cp"], "s": [])", kAllAxes)},
        Case{"ContextDropoutGather", withDropout(ofLength(gpt2(), 7)),
             contextPlan("\"cp\": 2, \"tp\": 2", kGather,
                         R"("s": ["cp"], "n": ["tp"])")},
        Case{"ContextDropoutRing", withDropout(ofLength(gpt2(), 7)),
             contextPlan("\"cp\": 2, \"tp\": 2", kRing,
                         R"("s": ["cp"], "n": ["tp"])")},
        Case{"ContextDropoutHeads", withDropout(ofLength(gpt2(), 7)),
             contextPlan("\"cp\": 4", kHeads)},
        Case{"ContextDropoutKeys", withDropout(ofLength(gpt2(), 7)),
             contextPlan("\"cp\": 4", kKeys)},
        Case{"HiddenOfNorms", gpt2(3, 22, 3), kLayerNorms},
        Case{"HiddenOfNormsPadded", gpt2(4, 22, 3), kLayerNorms},
        Case{"LlamaHiddenOfNorms", llama(3, 3), kNorms},
        Case{"LlamaHiddenOfNormsPadded", llama(), kNorms, "",
             "heddle-apply-mixed-precision{compute=bf16},"},
        Case{"BothWaysRing", ofLength(gpt2(), 9),
             contextPlan("\"cp\": 4", kRing)},
        Case{"BothWaysGather", ofLength(gpt2(), 9),
             contextPlan("\"cp\": 4", kGather)},
        Case{"BothWaysHeads", ofLength(gpt2(), 9),
             contextPlan("\"cp\": 4", kHeads)},
        Case{"BothWaysKeys", ofLength(withDropout(llama()), 7),
             contextPlan("\"cp\": 4", kKeys)},
        Case{"BothWaysDropoutRing", withDropout(ofLength(llama(), 7)),
             contextPlan("\"cp\": 4", kRing)},
        Case{"MaskedTensor", gpt2(3, 22, 3), "2,2,1"},
        Case{"MaskedRing", ofLength(gpt2(), 8),
             contextPlan("\"cp\": 4", kRing)},
        Case{"MaskedRingPadded", ofLength(gpt2(), 9),
             contextPlan("\"cp\": 4", kRing)},
        Case{"MaskedGather", ofLength(gpt2(), 9),
             contextPlan("\"cp\": 4", kGather)},
        Case{"MaskedKeysPadded", ofLength(gpt2(), 9),
             contextPlan("\"cp\": 4", kKeys)},
        Case{"MaskedHeads", ofLength(llama(), 9),
             contextPlan("\"cp\": 4", kHeads)},
        Case{"BothWaysMaskedRing", ofLength(withDropout(llama()), 7),
             contextPlan("\"cp\": 4", kRing)},
        Case{"MaskedSubBatches", ofLength(gpt2(), 8),
             inParts(contextPlan("\"dp\": 2, \"cp\": 2", kRing,
                                 R"("b": ["dp"], "s": ["cp"])"),
                     2)},
        Case{"LlamaContextGather", ofLength(llama(), 7),
             contextPlan("\"cp\": 4", kGather)},
        Case{"LlamaContextRing", ofLength(llama(), 7),
             contextPlan("\"cp\": 4", kRing)},
        Case{"LlamaContextHeads", ofLength(llama(), 7),
             contextPlan("\"cp\": 4", kHeads)},
        Case{"LlamaContextRingTensor", ofLength(llama(6, 3), 7),
             contextPlan("\"dp\": 2, \"cp\": 2, \"tp\": 2", kRing, kAllAxes),
             "", "heddle-apply-mixed-precision{compute=bf16},"},
        Case{"SubBatches", withDropout(gpt2(4, 22, 8)), inParts(kSequence, 2)},
        Case{"SubBatchesOneDevice", withDropout(gpt2(3, 23, 5)),
             inParts(R"({"version": 1, "mesh": {"dp": 1}})", 3)},
        // Parts of 2, 1 and 1 samples over four devices.
        Case{"SubBatchesZero3Padded", withDropout(gpt2()), inParts(kData, 3)},
        Case{"SubBatchesSplit", gpt2(4, 22, 5), inParts(kSplit, 2)},
        Case{"SubBatchesMicroBatches", gpt2(3, 23, 3), inParts(kMegatronTp4, 2),
             "micro-batches=2"},
        Case{"SubBatchesBf16", gpt2(3, 23, 3), inParts(kTwoAxes, 2), "",
             "heddle-apply-mixed-precision{compute=bf16},"},
        Case{"SubBatchesDropoutRing", withDropout(ofLength(gpt2(), 8)),
             inParts(contextPlan("\"cp\": 4", kRing), 2)},
        Case{"SubBatchesDropoutKeys", withDropout(ofLength(llama(), 7)),
             inParts(contextPlan("\"cp\": 4", kKeys), 3)},
        Case{"SubBatchesLlama", withDropout(ofLength(llama(3, 3, 23, 13), 7)),
             inParts(contextPlan("\"dp\": 2, \"cp\": 2, \"tp\": 2", kHeads,
                                 kAllAxes),
                     3)}),
    [](const auto &info) { return std::string(info.param.name); });

} // namespace
