//===- Import.cpp - From a folder or config to a forward program ----------===//

#include "heddle/Import/Import.h"

#include "Families.h"

#include "dialects/Heddle/HeddleDialect.h"
#include "heddle/Support/TensorSizes.h"
#include "heddle_rt/safetensors.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace heddle;
using nlohmann::json;

void heddle::ignoreCommonKeys(Config &config) {
  // Keys about the origin of the files and the programs that read them.
  config.ignore({"_name_or_path", "name_or_path", "_commit_hash", "model_type",
                 "transformers_version", "auto_map", "torch_dtype", "dtype",
                 "tokenizer_class", "prefix", "_attn_implementation",
                 "_attn_implementation_autoset", "attn_implementation",
                 "torchscript", "use_bfloat16", "gradient_checkpointing",
                 "chunk_size_feed_forward"});
  // Keys about further results and text generation.
  config.ignore({"use_cache",
                 "output_attentions",
                 "output_hidden_states",
                 "output_scores",
                 "return_dict",
                 "return_dict_in_generate",
                 "is_decoder",
                 "max_length",
                 "min_length",
                 "do_sample",
                 "early_stopping",
                 "num_beams",
                 "num_beam_groups",
                 "diversity_penalty",
                 "temperature",
                 "top_k",
                 "top_p",
                 "typical_p",
                 "repetition_penalty",
                 "length_penalty",
                 "no_repeat_ngram_size",
                 "encoder_no_repeat_ngram_size",
                 "bad_words_ids",
                 "num_return_sequences",
                 "suppress_tokens",
                 "begin_suppress_tokens",
                 "remove_invalid_values",
                 "exponential_decay_length_penalty",
                 "forced_bos_token_id",
                 "forced_eos_token_id",
                 "decoder_start_token_id",
                 "bos_token_id",
                 "eos_token_id",
                 "pad_token_id",
                 "sep_token_id",
                 "cls_token_id",
                 "unk_token_id"});
  // Keys of heads for other tasks.
  config.ignore({"id2label", "label2id", "num_labels", "problem_type",
                 "finetuning_task", "task_specific_params", "tf_legacy_loss"});
  // Keys of features that must be off.
  config.expectNeutral("is_encoder_decoder", {false});
  config.expectNeutral("tie_encoder_decoder", {false});
  config.expectNeutral("add_cross_attention", {false});
  config.expectNeutral("cross_attention_hidden_size", {nullptr});
  config.expectNeutral("pruned_heads", {nullptr, json::object()});
  config.expectNeutral("quantization_config", {nullptr});
  config.expectNeutral("loss_type",
                       {nullptr, "ForCausalLM", "ForCausalLMLoss"});
}

void heddle::checkArchitectures(Config &config, ArrayRef<StringRef> supported,
                                StringRef base) {
  for (const std::string &name : config.strings("architectures")) {
    if (llvm::is_contained(supported, name))
      continue;
    if (name == base)
      config.remark("architectures", Twine(base) + " has no head; " +
                                         supported.front() +
                                         " is imported, which has one");
    else
      config.error("architectures",
                   "expected \"" + Twine(supported.front()) + "\", or \"" +
                       base + "\" to give it the former's head, got \"" + name +
                       "\", whose computation is another");
  }
}

int64_t heddle::chooseSequence(const ImportOptions &options, int64_t most) {
  return options.sequence.value_or(std::min<int64_t>(most, 1024));
}

int64_t heddle::chooseLayers(Config &config, const ImportOptions &options,
                             Config::Keys keys) {
  int64_t layers = config.numLayers(keys);
  return std::min(layers, options.mostLayers.value_or(layers));
}

/// Returns the config of a GPT given by sizes, as a GPT-2's config, so that any
/// program that reads GPT-2 can read the trained weights.
static json makeConfig(const GptShape &shape) {
  return {{"model_type", "gpt2"},
          {"architectures", {"GPT2LMHeadModel"}},
          {"vocab_size", shape.vocabulary},
          {"n_positions", shape.sequence},
          {"n_embd", shape.hidden},
          {"n_layer", shape.layers},
          {"n_head", shape.heads},
          {"activation_function", "gelu_new"},
          {"resid_pdrop", 0.0},
          {"embd_pdrop", 0.0},
          {"attn_pdrop", 0.0}};
}

/// Returns whether a folder has weights in formats that Heddle does not read.
static bool hasOtherWeights(StringRef directory) {
  for (StringRef name : {"pytorch_model.bin", "pytorch_model.bin.index.json",
                         "tf_model.h5", "flax_model.msgpack"}) {
    SmallString<256> path(directory);
    llvm::sys::path::append(path, name);
    if (llvm::sys::fs::exists(path))
      return true;
  }
  return false;
}

FailureOr<int64_t> heddle::readNumLayers(MLIRContext &context,
                                         const ImportOptions &options) {
  if (options.gpt)
    return options.gpt->layers;
  SmallString<256> path(options.path);
  if (llvm::sys::fs::is_directory(path))
    llvm::sys::path::append(path, "config.json");
  FailureOr<Config> config = Config::read(context, path);
  if (failed(config))
    return failure();
  // Any JSON object may lack layers. A model's config states its type.
  config->string({"model_type"});
  if (config->hasFailed())
    return failure();
  int64_t layers = config->numLayers({"num_hidden_layers", "n_layer"});
  if (config->hasFailed())
    return failure();
  return layers;
}

FailureOr<OwningOpRef<ModuleOp>>
heddle::importModel(MLIRContext &context, const ImportOptions &options) {
  Location unknown = UnknownLoc::get(&context);
  constexpr int64_t most = int64_t(1) << 30;
  if (options.batch < 1 || options.batch > most)
    return emitError(unknown)
           << "expected a batch of 1 to 2^30 rows, got " << options.batch;
  if (options.sequence && (*options.sequence < 1 || *options.sequence > most))
    return emitError(unknown) << "expected a sequence of 1 to 2^30 tokens, got "
                              << *options.sequence;
  if (options.dropout && !(*options.dropout >= 0 && *options.dropout < 1))
    return emitError(unknown)
           << "expected 0 <= dropout < 1, got " << *options.dropout;

  // Finds the config.
  SmallString<256> configPath(options.path);
  bool isDirectory = false;
  std::optional<Config> config;
  if (options.gpt) {
    config.emplace(context, makeConfig(*options.gpt), "", "");
  } else {
    isDirectory = llvm::sys::fs::is_directory(configPath);
    if (isDirectory)
      llvm::sys::path::append(configPath, "config.json");
    FailureOr<Config> read = Config::read(context, configPath);
    if (failed(read))
      return failure();
    config.emplace(std::move(*read));
  }

  // Builds the program.
  std::string family = config->string({"model_type"});
  FailureOr<OwningOpRef<ModuleOp>> module = failure();
  StringRef prefix;
  SmallVector<StringRef> harmless;
  if (family == "gpt2") {
    module = importGpt2(context, *config, options);
    prefix = "transformer.";
    // Older files also hold the causal masks.
    harmless = {".attn.bias", ".attn.masked_bias"};
  } else if (family == "llama") {
    module = importLlama(context, *config, options);
    prefix = "model.";
    harmless = {".rotary_emb.inv_freq"};
  } else if (!config->hasFailed()) {
    config->error("model_type",
                  "expected \"gpt2\" or \"llama\", got \"" + Twine(family) +
                      "\"; PyTorch reads other Hugging Face models: python -m "
                      "heddle.torch MODEL -o model.mlir (docs/torch.md)");
  }
  if (failed(module))
    return failure();
  Operation *op = **module;
  Builder builder(&context);
  op->setAttr(kConfigAttrName, builder.getStringAttr(config->dump()));
  if (failed(verifyTensorSizes(op)) || failed(verify(op)))
    return failure();

  // Checks the weights.
  if (!isDirectory)
    return module;
  StringRef directory = options.path;
  if (!runtime::safetensors::hasWeights(options.path)) {
    if (hasOtherWeights(directory))
      return emitError(unknown)
             << "'" << directory
             << "': expected weights in model.safetensors, got other files; "
                "convert them, or import config.json alone to begin with new "
                "weights";
    return module;
  }
  if (!SymbolTable::lookupSymbolIn(op, "lm_head.weight"))
    harmless.push_back("lm_head.weight"); // a copy of the tied embedding
  if (options.checkWeights &&
      failed(checkWeights(**module, directory, prefix, harmless)))
    return failure();
  op->setAttr(kWeightsAttrName, builder.getStringAttr(directory));
  return module;
}
