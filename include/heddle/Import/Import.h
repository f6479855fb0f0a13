//===- Import.h - Models from Hugging Face's config.json --------*- C++ -*-===//
//
// Builds the global forward program of a model:
//
//   heddle.variable @h.0.mlp.c_fc.weight : tensor<768x3072xf32> parameter …
//   func.func @forward(%tokens: tensor<BxSxi32>, %targets: tensor<BxSxi32>)
//     -> (tensor<f32>, tensor<f32>, tensor<BxSxVxf32>)   // loss sum, count,
//     logits
//
// Each argument and result has a name and a role (heddle.role). `loss sum` adds
// the cross-entropy of every token whose target is not -100; `count` is the
// number of these tokens. Every op has the name of its module without the
// family's prefix (`h.0.attn.c_attn`, `layers.0.self_attn.q_proj`, `lm_head`).
// Every parameter is a reshape of the checkpoint tensor that it names.
//
// Families: `gpt2` and `llama`. The computation is that of the transformers
// library's GPT2LMHeadModel and LlamaForCausalLM. A key of config.json that
// changes the computation and is not supported is an error. The supported keys
// are those that `readConfig` in lib/Import/Gpt2.cpp and Llama.cpp reads.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_IMPORT_IMPORT_H
#define HEDDLE_IMPORT_IMPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <cstdint>
#include <optional>
#include <string>

namespace heddle {

/// The largest number of layers of a model. Each layer is compiled as ops of
/// its own, so more layers would take hours and all memory.
constexpr int64_t kMaxLayers = 1024;

/// A GPT-2 by its sizes, for benchmarks: feed-forward 4 x hidden, gelu_new,
/// tied embeddings, no dropout.
struct GptShape {
  int64_t layers = 0, hidden = 0, heads = 0, vocabulary = 0;
  int64_t sequence = 0; ///< the largest position, and the program's sequence
};

struct ImportOptions {
  /// A model's folder, or a config.json. Ignored if `gpt` is set.
  std::string path;
  std::optional<GptShape> gpt;
  /// Rows of one micro-batch, over all devices together.
  int64_t batch = 1;
  /// Tokens in a row. By default the model's largest position, but at most
  /// 1024.
  std::optional<int64_t> sequence;
  /// The origin of `sequence`, for errors, such as "of the prediction of plan
  /// 'plan.json'". Empty: the user states it.
  std::string sequenceOrigin;
  /// Imports at most this number of layers, for a small program that shows the
  /// time and memory of a layer.
  std::optional<int64_t> mostLayers;
  /// Replaces every dropout rate of the config.
  std::optional<double> dropout;
  /// Selects the random streams of dropout.
  int64_t seed = 0;
  /// Compares the names and shapes of a folder's weights with the model's.
  bool checkWeights = true;
};

/// Imports a model. No dialect needs to be loaded. The module has the
/// attributes `heddle.model` (the family) and, if the folder has weights,
/// `heddle.weights` (the folder). Names and shapes of weights are checked;
/// their data is not read. Errors are diagnostics, located at the config's
/// lines where they concern a key.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importModel(mlir::MLIRContext &context, const ImportOptions &options);

/// Returns the number of layers of the config. Emits an error if the config
/// cannot be read.
mlir::FailureOr<int64_t> readNumLayers(mlir::MLIRContext &context,
                                       const ImportOptions &options);

} // namespace heddle

#endif // HEDDLE_IMPORT_IMPORT_H
