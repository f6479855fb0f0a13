//===- Llama.cpp - Llama 2, 3 and their like ------------------------------===//
//
// transformers' LlamaForCausalLM (models/llama/modeling_llama.py): embedding of
// tokens, then layers of
//   x = x + self_attn(input_layernorm(x)),
//   x = x + mlp(post_attention_layernorm(x)),
// a last normalization, and a head. Several query heads may share a key/value
// head. Positions enter by the rotation of queries and keys.
// Weights are [out, in].
//
//===----------------------------------------------------------------------===//

#include "Families.h"
#include "ModelBuilder.h"

#include <cmath>

using namespace mlir;
using namespace heddle;

namespace {
struct LlamaConfig {
  int64_t vocabulary, hidden, inner, layers, heads, groups, headSize, positions;
  Activation activation = Activation::Silu;
  double epsilon, initializerRange, attentionDropout;
  bool attentionBias, mlpBias, tied;
  SmallVector<double> frequencies; ///< radians per position, headSize / 2
};
} // namespace

//===----------------------------------------------------------------------===//
// Rotary frequencies
//===----------------------------------------------------------------------===//

/// Scales a rotary frequency as Llama 3.1 does (transformers'
/// _compute_llama3_parameters): wavelengths above `original / low` grow by
/// `factor`, those below `original / high` stay, and those in between are
/// blended.
static double scaleAsLlama3(double frequency, double factor, double low,
                            double high, double original) {
  double wavelength = 2 * M_PI / frequency;
  if (wavelength < original / high)
    return frequency;
  if (wavelength > original / low)
    return frequency / factor;
  double blend = (original / wavelength - low) / (high - low);
  return (1 - blend) * frequency / factor + blend * frequency;
}

/// Reads `rope_theta` and `rope_scaling`, or `rope_parameters`, which holds
/// both since transformers 5. Returns a head's rotary frequencies.
static SmallVector<double> readRotary(Config &config, int64_t headSize,
                                      int64_t positions) {
  bool newer = config.has("rope_parameters");
  if (newer && config.has("rope_scaling"))
    config.error("rope_scaling",
                 "expected either it or rope_parameters, got both");
  double theta = config.number({"rope_theta"}, 1, 1e15, 1e4);
  config.expectNeutral("partial_rotary_factor", {nullptr, 1.0});
  std::optional<Config> rope =
      config.object(newer ? "rope_parameters" : "rope_scaling");
  config.ignore({"rope_parameters", "rope_scaling"});

  std::string type = "default";
  double factor = 1, low = 1, high = 4, original = positions;
  if (rope) {
    theta = rope->number({"rope_theta"}, 1, 1e15, theta);
    rope->expectNeutral("partial_rotary_factor", {nullptr, 1.0});
    type = rope->string({"rope_type", "type"}, "default");
    if (type == "linear" || type == "llama3")
      factor = rope->number({"factor"}, 1, 1e9);
    if (type == "llama3") {
      low = rope->number({"low_freq_factor"}, 1e-9, 1e9);
      high = rope->number({"high_freq_factor"}, 1e-9, 1e9);
      original = rope->positiveInteger({"original_max_position_embeddings"},
                                       positions);
      if (high <= low)
        rope->error("high_freq_factor", "expected more than low_freq_factor");
    } else if (type == "default" || type == "linear") {
      rope->ignore({"factor", "original_max_position_embeddings"});
    } else {
      rope->error(rope->spelling({"rope_type", "type"}),
                  "expected default, linear or llama3, got \"" + Twine(type) +
                      "\"");
      rope->ignoreAll();
    }
    config.finishNested(*rope, "llama");
  }

  SmallVector<double> frequencies;
  for (int64_t i = 0; i < headSize / 2; ++i) {
    double frequency = std::pow(theta, -2.0 * double(i) / double(headSize));
    if (type == "linear")
      frequency /= factor;
    if (type == "llama3")
      frequency = scaleAsLlama3(frequency, factor, low, high, original);
    frequencies.push_back(frequency);
  }
  return frequencies;
}

/// The largest head size. A head's rotary frequencies are written into the
/// program one by one.
static constexpr int64_t kMaxHeadSize = int64_t(1) << 16;

static FailureOr<LlamaConfig> readLlamaConfig(Config &config,
                                              const ImportOptions &options) {
  LlamaConfig c;
  // If null, the values are num_attention_heads and hidden_size /
  // num_attention_heads.
  config.mayBeNull({"num_key_value_heads", "head_dim"});
  c.vocabulary = config.positiveInteger({"vocab_size"});
  c.hidden = config.positiveInteger({"hidden_size"});
  c.inner = config.positiveInteger({"intermediate_size"});
  c.layers = chooseLayers(config, options, {"num_hidden_layers"});
  c.heads = config.positiveInteger({"num_attention_heads"});
  c.groups = config.positiveInteger({"num_key_value_heads"}, c.heads);
  c.positions = config.positiveInteger({"max_position_embeddings"}, 2048);
  if (!config.has("head_dim") && c.hidden % c.heads != 0)
    config.error(
        "hidden_size",
        "expected a multiple of num_attention_heads = " + Twine(c.heads) +
            ", or a head_dim, got " + Twine(c.hidden));
  c.headSize = config.positiveInteger({"head_dim"},
                                      std::max<int64_t>(1, c.hidden / c.heads));
  if (c.headSize > kMaxHeadSize) {
    config.error(config.has("head_dim") ? "head_dim" : "hidden_size",
                 "expected heads of at most " + Twine(kMaxHeadSize) +
                     " features, got " + Twine(c.headSize));
    c.headSize = 2;
  }
  if (c.headSize % 2 != 0)
    config.error("head_dim",
                 "expected an even size of heads, got " + Twine(c.headSize));
  if (c.heads % c.groups != 0)
    config.error("num_key_value_heads",
                 "expected a divisor of num_attention_heads = " +
                     Twine(c.heads) + ", got " + Twine(c.groups));
  std::string activation = config.string({"hidden_act"}, "silu");
  if (std::optional<Activation> known = parseActivation(activation))
    c.activation = *known;
  else
    config.error("hidden_act", "expected " + Twine(supportedActivations) +
                                   ", got \"" + activation + "\"");
  c.epsilon = config.number({"rms_norm_eps"}, 0, 1, 1e-6);
  c.initializerRange = config.number({"initializer_range"}, 0, 1e3, 0.02);
  double dropout = config.number({"attention_dropout"}, 0, 0.999, 0);
  c.attentionDropout = options.dropout.value_or(dropout);
  c.attentionBias = config.boolean({"attention_bias"}, false);
  c.mlpBias = config.boolean({"mlp_bias"}, false);
  c.tied = config.boolean({"tie_word_embeddings"}, false);
  c.frequencies = readRotary(config, c.headSize, c.positions);
  // Files of the first releases have this name for max_position_embeddings.
  config.ignore({"max_sequence_length"});
  // The number of pieces of each product changes only the rounding.
  config.ignore({"pretraining_tp"});
  checkArchitectures(config, {"LlamaForCausalLM", "LLaMAForCausalLM"},
                     "LlamaModel");
  ignoreCommonKeys(config);
  if (failed(config.finish("llama")))
    return failure();
  return c;
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

namespace {
/// The cosines and sines of the rotation, shared by all layers.
struct RotaryTable {
  Value cos, sin;
};
} // namespace

static Value rotate(ModelBuilder &model, const std::string &name, Value x,
                    RotaryTable table) {
  return model.builder.create<RotaryOp>(
      NameLoc::get(model.builder.getStringAttr(name)), x.getType(), x,
      table.cos, table.sin, /*inverse=*/false,
      model.builder.getStringAttr(name));
}

/// Returns the output of self-attention: x [b,s,h] -> [b,s,h].
static Value attentionBlock(ModelBuilder &model, const LlamaConfig &c,
                            const std::string &name, Value x,
                            RotaryTable table) {
  InitAttr normal = model.normal(c.initializerRange);
  int64_t members = c.heads / c.groups, size = c.headSize;
  std::string q = name + ".q_proj", k = name + ".k_proj", v = name + ".v_proj",
              o = name + ".o_proj";

  // With one query head per key/value head there is no factor r.
  bool grouped = members > 1;
  SmallVector<int64_t> heads = {c.groups, members, size};
  SmallVector<int64_t> headDims = {2, 3, 4};
  if (!grouped) {
    heads = {c.groups, size};
    headDims = {2, 3};
  }
  SmallVector<int64_t> queryShape(heads), outputShape(heads);
  queryShape.push_back(c.hidden);
  outputShape.insert(outputShape.begin(), c.hidden);

  Value query = model.linear(
      q, grouped ? "bsh, nrdh -> bsnrd" : "bsh, ndh -> bsnd", x,
      {q + ".weight", queryShape, normal, {c.heads * size, c.hidden}});
  if (c.attentionBias)
    query = model.addBias(q, query,
                          {q + ".bias", heads, model.zeros(), {c.heads * size}},
                          headDims);
  auto project = [&](const std::string &module) {
    Value y = model.linear(module, "bsh, ndh -> bsnd", x,
                           {module + ".weight",
                            {c.groups, size, c.hidden},
                            normal,
                            {c.groups * size, c.hidden}});
    if (!c.attentionBias)
      return y;
    return model.addBias(
        module, y,
        {module + ".bias", {c.groups, size}, model.zeros(), {c.groups * size}},
        {2, 3});
  };
  Value key = project(k), value = project(v);
  query = rotate(model, name + ".q_rotary", query, table);
  key = rotate(model, name + ".k_rotary", key, table);
  Value y = model.attention(name, query, key, value,
                            1 / std::sqrt(double(size)), c.attentionDropout);
  y = model.linear(
      o, grouped ? "bsnrd, hnrd -> bsh" : "bsnd, hnd -> bsh", y,
      {o + ".weight", outputShape, normal, {c.hidden, c.heads * size}});
  if (c.attentionBias)
    y = model.addBias(o, y, {o + ".bias", {c.hidden}, model.zeros()}, {2});
  return y;
}

/// Returns the output of the gated MLP: x [b,s,h] -> [b,s,h].
static Value mlpBlock(ModelBuilder &model, const LlamaConfig &c,
                      const std::string &name, Value x) {
  auto project = [&](const std::string &module, StringRef letters, Value x,
                     int64_t out, int64_t in) {
    Value y = model.linear(
        module, letters, x,
        {module + ".weight", {out, in}, model.normal(c.initializerRange)});
    if (!c.mlpBias)
      return y;
    return model.addBias(module, y, {module + ".bias", {out}, model.zeros()},
                         {2});
  };
  Value gate =
      project(name + ".gate_proj", "bsh, fh -> bsf", x, c.inner, c.hidden);
  Value up = project(name + ".up_proj", "bsh, fh -> bsf", x, c.inner, c.hidden);
  gate = model.activate(name + ".act_fn", c.activation, gate);
  Value y = model.multiply(name + ".gate", gate, up);
  return project(name + ".down_proj", "bsf, hf -> bsh", y, c.hidden, c.inner);
}

FailureOr<OwningOpRef<ModuleOp>>
heddle::importLlama(MLIRContext &context, Config &config,
                    const ImportOptions &options) {
  FailureOr<LlamaConfig> read = readLlamaConfig(config, options);
  if (failed(read))
    return failure();
  const LlamaConfig &c = *read;
  int64_t sequence = chooseSequence(options, c.positions);
  if (sequence > c.positions)
    config.warning("max_position_embeddings",
                   "the model was made for " + Twine(c.positions) +
                       " positions, fewer than the sequence of " +
                       Twine(sequence) +
                       (options.sequenceOrigin.empty() ? "" : " ") +
                       options.sequenceOrigin);

  ModelBuilder model(context, "llama", "model.", options.batch, sequence,
                     options.seed);
  InitAttr normal = model.normal(c.initializerRange);
  Parameter tokens = {"embed_tokens.weight", {c.vocabulary, c.hidden}, normal};
  Value x = model.embedding("embed_tokens", tokens, model.tokens());

  StringAttr tableName = model.builder.getStringAttr("rotary_emb");
  Type tableType = model.f32({sequence, c.headSize / 2});
  auto tableOp = model.builder.create<RotaryTableOp>(
      NameLoc::get(tableName), tableType, tableType, Value(), c.frequencies,
      tableName);
  RotaryTable table = {tableOp.getCos(), tableOp.getSin()};

  for (int64_t layer = 0; layer < c.layers; ++layer) {
    std::string name = "layers." + std::to_string(layer);
    Value y = model.rmsNorm(name + ".input_layernorm", x, c.epsilon);
    y = attentionBlock(model, c, name + ".self_attn", y, table);
    x = model.add(name + ".self_attn.residual", x, y);
    y = model.rmsNorm(name + ".post_attention_layernorm", x, c.epsilon);
    y = mlpBlock(model, c, name + ".mlp", y);
    x = model.add(name + ".mlp.residual", x, y);
  }
  x = model.rmsNorm("norm", x, c.epsilon);
  Parameter head = tokens;
  if (!c.tied)
    head = {"lm_head.weight", {c.vocabulary, c.hidden}, normal, {}, false};
  Value logits = model.linear("lm_head", "bsh, vh -> bsv", x, head);
  return model.finish(logits);
}
