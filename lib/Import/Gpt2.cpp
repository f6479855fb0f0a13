//===- Gpt2.cpp - GPT-2 ---------------------------------------------------===//
//
// transformers' GPT2LMHeadModel (models/gpt2/modeling_gpt2.py): embeddings of
// tokens and of positions, then layers of
//   x = x + attn(ln_1(x)),  x = x + mlp(ln_2(x)),
// a last normalization, and a head tied to the tokens' embedding. Weights of
// layers are [in, out] ("Conv1D").
//
//===----------------------------------------------------------------------===//

#include "Families.h"
#include "ModelBuilder.h"
#include "heddle/Support/Rows.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <cmath>

using namespace mlir;
using namespace heddle;

namespace {
struct Gpt2Config {
  int64_t vocabulary, positions, hidden, layers, heads, inner;
  Activation activation = Activation::GeluTanh;
  double epsilon, initializerRange;
  double embeddingDropout, attentionDropout, residualDropout;
  bool scaleAttention, scaleByInverseLayer, tied;
};
} // namespace

static FailureOr<Gpt2Config> readGpt2Config(Config &config,
                                            const ImportOptions &options) {
  Gpt2Config c;
  c.vocabulary = config.positiveInteger({"vocab_size"});
  // Older files have n_ctx beside n_positions, where it is unused, or n_ctx
  // alone.
  if (config.has("n_positions") || config.has("max_position_embeddings")) {
    c.positions =
        config.positiveInteger({"n_positions", "max_position_embeddings"});
    config.ignore({"n_ctx"});
  } else {
    c.positions = config.positiveInteger(
        {"n_positions", "max_position_embeddings", "n_ctx"});
  }
  c.hidden = config.positiveInteger({"n_embd", "hidden_size"});
  c.layers = chooseLayers(config, options, {"n_layer", "num_hidden_layers"});
  c.heads = config.positiveInteger({"n_head", "num_attention_heads"});
  config.mayBeNull({"n_inner"}); // null: four times n_embd
  c.inner = config.positiveInteger({"n_inner"}, 4 * c.hidden);
  std::string activation = config.string({"activation_function"}, "gelu_new");
  if (std::optional<Activation> known = parseActivation(activation))
    c.activation = *known;
  else
    config.error("activation_function", "expected " +
                                            Twine(supportedActivations) +
                                            ", got \"" + activation + "\"");
  c.epsilon = config.number({"layer_norm_epsilon"}, 0, 1, 1e-5);
  c.initializerRange = config.number({"initializer_range"}, 0, 1e3, 0.02);
  auto dropout = [&](StringRef key) {
    double rate = config.number({key}, 0, 0.999, 0.1);
    return options.dropout.value_or(rate);
  };
  c.embeddingDropout = dropout("embd_pdrop");
  c.attentionDropout = dropout("attn_pdrop");
  c.residualDropout = dropout("resid_pdrop");
  c.scaleAttention = config.boolean({"scale_attn_weights"}, true);
  c.scaleByInverseLayer =
      config.boolean({"scale_attn_by_inverse_layer_idx"}, false);
  c.tied = config.boolean({"tie_word_embeddings"}, true);
  config.expectNeutral("add_cross_attention", {false});
  // Files of the first releases have these keys.
  config.ignore({"output_past", "predict_special_tokens"});
  config.expectNeutral("n_special", {0});
  // This key asks for scores in f32, which Heddle always computes.
  config.ignore({"reorder_and_upcast_attn"});
  // Keys of the head for multiple choice, which is another class.
  config.ignore({"summary_type", "summary_use_proj", "summary_activation",
                 "summary_proj_to_labels", "summary_first_dropout"});
  if (c.hidden % c.heads != 0)
    config.error("n_embd", "expected a multiple of n_head = " + Twine(c.heads) +
                               ", got " + Twine(c.hidden));
  checkArchitectures(config, {"GPT2LMHeadModel"}, "GPT2Model");
  ignoreCommonKeys(config);
  if (failed(config.finish("gpt2")))
    return failure();
  return c;
}

/// Returns the output of self-attention: x [b,s,h] -> [b,s,h].
static Value attentionBlock(ModelBuilder &model, const Gpt2Config &c,
                            int64_t layer, const std::string &name, Value x) {
  int64_t heads = c.heads, size = c.hidden / c.heads;
  InitAttr normal = model.normal(c.initializerRange);
  // Each layer adds to the residual stream twice, hence 2 * layers.
  InitAttr scaled =
      model.normal(c.initializerRange / std::sqrt(2.0 * c.layers));

  // The file's 3h columns are query, key and value, each heads x head size.
  std::string qkv = name + ".c_attn", proj = name + ".c_proj";
  Value y = model.linear(qkv, "bsh, hcnd -> cbsnd", x,
                         {qkv + ".weight",
                          {c.hidden, 3, heads, size},
                          normal,
                          {c.hidden, 3 * c.hidden}});
  y = model.addBias(
      qkv, y, {qkv + ".bias", {3, heads, size}, model.zeros(), {3 * c.hidden}},
      {0, 3, 4});
  Type slice = model.f32({model.batch, model.sequence, heads, size});
  auto slices = model.builder.create<UnstackOp>(
      y.getLoc(), TypeRange{slice, slice, slice}, y,
      model.builder.getStringAttr(qkv + ".split"));

  double scale = c.scaleAttention ? 1 / std::sqrt(double(size)) : 1;
  if (c.scaleByInverseLayer)
    scale /= double(layer + 1);
  y = model.attention(name, slices.getResult(0), slices.getResult(1),
                      slices.getResult(2), scale, c.attentionDropout);
  y = model.linear(proj, "bsnd, ndh -> bsh", y,
                   {proj + ".weight",
                    {heads, size, c.hidden},
                    scaled,
                    {c.hidden, c.hidden}});
  y = model.addBias(proj, y, {proj + ".bias", {c.hidden}, model.zeros()}, {2});
  return model.dropout(name + ".resid_dropout", y, c.residualDropout);
}

/// Returns the output of the MLP: x [b,s,h] -> [b,s,h].
static Value mlpBlock(ModelBuilder &model, const Gpt2Config &c,
                      const std::string &name, Value x) {
  std::string fc = name + ".c_fc", proj = name + ".c_proj";
  Value y = model.linear(
      fc, "bsh, hf -> bsf", x,
      {fc + ".weight", {c.hidden, c.inner}, model.normal(c.initializerRange)});
  y = model.addBias(fc, y, {fc + ".bias", {c.inner}, model.zeros()}, {2});
  y = model.activate(name + ".act", c.activation, y);
  y = model.linear(
      proj, "bsf, fh -> bsh", y,
      {proj + ".weight",
       {c.inner, c.hidden},
       model.normal(c.initializerRange / std::sqrt(2.0 * c.layers))});
  y = model.addBias(proj, y, {proj + ".bias", {c.hidden}, model.zeros()}, {2});
  return model.dropout(name + ".dropout", y, c.residualDropout);
}

FailureOr<OwningOpRef<ModuleOp>>
heddle::importGpt2(MLIRContext &context, Config &config,
                   const ImportOptions &options) {
  FailureOr<Gpt2Config> read = readGpt2Config(config, options);
  if (failed(read))
    return failure();
  const Gpt2Config &c = *read;
  int64_t sequence = chooseSequence(options, c.positions);
  if (sequence > c.positions) {
    config.error("n_positions",
                 "expected at least the sequence, " + Twine(sequence) +
                     (options.sequenceOrigin.empty() ? "" : " ") +
                     options.sequenceOrigin + ", got " + Twine(c.positions));
    return failure();
  }

  context.loadDialect<tensor::TensorDialect>();
  ModelBuilder model(context, "gpt2", "transformer.", options.batch, sequence,
                     options.seed);
  OpBuilder &builder = model.builder;
  InitAttr normal = model.normal(c.initializerRange);
  Parameter wte = {"wte.weight", {c.vocabulary, c.hidden}, normal};
  Parameter wpe = {"wpe.weight", {c.positions, c.hidden}, normal};

  Value x = model.embedding("wte", wte, model.tokens());
  Value positions = model.load(wpe);
  if (sequence < c.positions) {
    Value rows = extractRows(builder, positions.getLoc(), positions, 0,
                             builder.getIndexAttr(0), sequence);
    positions = model.named("wpe", rows.getDefiningOp());
  }
  int64_t along[] = {1, 2};
  positions =
      builder.create<BroadcastOp>(positions.getLoc(), x.getType(), positions,
                                  along, builder.getStringAttr("wpe"));
  x = model.add("wpe", x, positions);
  x = model.dropout("drop", x, c.embeddingDropout);

  for (int64_t layer = 0; layer < c.layers; ++layer) {
    std::string name = "h." + std::to_string(layer);
    Value y = model.layerNorm(name + ".ln_1", x, c.epsilon);
    y = attentionBlock(model, c, layer, name + ".attn", y);
    x = model.add(name + ".attn.residual", x, y);
    y = model.layerNorm(name + ".ln_2", x, c.epsilon);
    y = mlpBlock(model, c, name + ".mlp", y);
    x = model.add(name + ".mlp.residual", x, y);
  }
  x = model.layerNorm("ln_f", x, c.epsilon);
  Parameter head = wte;
  if (!c.tied)
    head = {"lm_head.weight", {c.vocabulary, c.hidden}, normal, {}, false};
  Value logits = model.linear("lm_head", "bsh, vh -> bsv", x, head);
  return model.finish(logits);
}
