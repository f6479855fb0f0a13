//===- EquivalenceCases.cpp - Models and plans for them -------------------===//

#include "EquivalenceCases.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/Twine.h"

using namespace heddle::test;
using llvm::StringRef;

namespace {

using Model = SmallModel;
using Case = EquivalenceCase;

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
std::string inParts(std::string plan, const std::string &sizes) {
  return plan.insert(1, "\"sub_batches\": " + sizes + ", ");
}
const char *kData =
    R"({"version": 1, "mesh": {"dp": 4}, "operators": {"*": {"b": ["dp"]}},
        "storage": {"*": {"0": ["dp"]}}})";

Model withDropout(Model model) {
  model.dropout = 0.25;
  return model;
}

} // namespace

std::vector<EquivalenceCase> heddle::test::getEquivalenceCases() {
  return {
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
      Case{"ContextRing", ofLength(gpt2(), 8), contextPlan("\"cp\": 4", kRing)},
      Case{"ContextHeads", ofLength(gpt2(), 8),
           contextPlan("\"cp\": 4", kHeads)},
      Case{"ContextKeys", ofLength(gpt2(), 8), contextPlan("\"cp\": 4", kKeys)},
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
      Case{"MaskedRing", ofLength(gpt2(), 8), contextPlan("\"cp\": 4", kRing)},
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
           contextPlan("\"dp\": 2, \"cp\": 2, \"tp\": 2", kRing, kAllAxes), "",
           "heddle-apply-mixed-precision{compute=bf16},"},
      Case{"SubBatches", withDropout(gpt2(4, 22, 8)), inParts(kSequence, 2)},
      Case{"SubBatchesOneDevice", withDropout(gpt2(3, 23, 5)),
           inParts(R"({"version": 1, "mesh": {"dp": 1}})", 3)},
      // Parts of 2, 1 and 1 samples over four devices.
      Case{"SubBatchesZero3Padded", withDropout(gpt2()), inParts(kData, 3)},
      // Dropout, odd parts over two devices, the smaller part first.
      Case{"SubBatchesUnequal", withDropout(gpt2(4, 22, 8)),
           inParts(kSequence, "[3, 5]")},
      Case{"SubBatchesUnequalOneDevice", withDropout(gpt2(3, 23, 5)),
           inParts(R"({"version": 1, "mesh": {"dp": 1}})", "[1, 3, 1]")},
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
           inParts(
               contextPlan("\"dp\": 2, \"cp\": 2, \"tp\": 2", kHeads, kAllAxes),
               3)}};
}
