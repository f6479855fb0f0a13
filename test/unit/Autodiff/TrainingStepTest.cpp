//===- TrainingStepTest.cpp - Training steps against loops ----------------===//
//
// Compares the gradients of whole models with finite differences of the loss
// that `evaluate` computes, and training steps with loops written by hand.

#include "GradientCheck.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/Import/Import.h"
#include <cmath>
#include <fstream>
#include <numbers>

using namespace mlir;
using namespace heddle;
using namespace heddle::test;

namespace {

const char *gpt2Config = R"({"model_type": "gpt2", "vocab_size": 7,
  "n_positions": 6, "n_embd": 4, "n_layer": 2, "n_head": 2,
  "initializer_range": 0.4, "attn_pdrop": 0.0, "embd_pdrop": 0.0,
  "resid_pdrop": 0.0})";

const char *gpt2DropoutConfig = R"({"model_type": "gpt2", "vocab_size": 7,
  "n_positions": 6, "n_embd": 4, "n_layer": 1, "n_head": 2,
  "initializer_range": 0.4, "attn_pdrop": 0.2, "embd_pdrop": 0.3,
  "resid_pdrop": 0.4})";

const char *llamaConfig = R"({"model_type": "llama", "vocab_size": 7,
  "hidden_size": 8, "intermediate_size": 6, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2,
  "max_position_embeddings": 8, "rms_norm_eps": 1e-5,
  "initializer_range": 0.4, "tie_word_embeddings": true})";

class TrainingStepTest : public AutodiffTest {
protected:
  struct Model {
    OwningOpRef<ModuleOp> module;
    Variables variables;
  };

  /// Imports a model and runs a pipeline on it. Adds random numbers to all
  /// parameters, also to those that are initialized to zeros or ones.
  Model build(const char *config, const std::string &pipeline,
              int64_t batch = 2) {
    std::string path =
        ::testing::TempDir() + "/heddle-training-step-config.json";
    std::ofstream(path) << config;
    ImportOptions options;
    options.path = path;
    options.batch = batch;
    options.sequence = 4;
    auto module = importModel(context, options);
    EXPECT_TRUE(succeeded(module)) << diagnostics;
    Model model{std::move(*module), {}};
    EXPECT_TRUE(runPasses(*model.module, pipeline)) << diagnostics;
    initializeVariables(*model.module, model.variables,
                        [&] { return random(); });
    engine.seed(3); // the same values for every pipeline
    for (const std::string &name : parameters(model))
      for (double &x : model.variables[name].values)
        x += 0.4 * random();
    return model;
  }

  std::vector<std::string> parameters(Model &model) {
    std::vector<std::string> names;
    for (VariableOp variable : model.module->getOps<VariableOp>())
      if (variable.getRole() == VariableRole::Parameter)
        names.push_back(variable.getSymName().str());
    return names;
  }

  std::vector<Tensor> run(Model &model, StringRef name,
                          ArrayRef<Tensor> arguments,
                          const InterpreterOptions &options = {}) {
    auto results = interpret(function(*model.module, name), arguments,
                             model.variables, options);
    EXPECT_TRUE(succeeded(results)) << diagnostics;
    return succeeded(results) ? *results : std::vector<Tensor>();
  }

  /// Returns random tokens and targets of `rows` rows. The first target is
  /// -100, the label that the loss ignores.
  std::vector<Tensor> batch(int64_t rows) {
    std::vector<Tensor> arguments = {randomIds({rows, 4}, 7),
                                     randomIds({rows, 4}, 7)};
    arguments[1].values[0] = -100;
    return arguments;
  }

  double loss(Model &model, ArrayRef<Tensor> arguments) {
    std::vector<Tensor> results = run(model, "evaluate", arguments);
    return results[0].values[0] / results[1].values[0];
  }

  void expectEqual(const Tensor &got, const Tensor &expected,
                   const std::string &what, double tolerance = 1e-12) {
    ASSERT_EQ(got.shape, expected.shape) << what;
    for (int64_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got.values[i], expected.values[i],
                  tolerance * (1 + std::abs(expected.values[i])))
          << what << ", element " << i;
  }

  void checkGradients(const char *config);
};

} // namespace

static std::string step(std::string options) {
  return "heddle-build-training-step{" + options + "}";
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

void TrainingStepTest::checkGradients(const char *config) {
  Model model = build(config, step("gradients=true"));
  std::vector<Tensor> arguments = batch(2);
  std::vector<Tensor> results = run(model, "gradients", arguments);
  std::vector<std::string> names = parameters(model);
  ASSERT_EQ(results.size(), names.size() + 2);
  EXPECT_NEAR(results[0].values[0], loss(model, arguments), 1e-12);
  EXPECT_EQ(results[1].shape, (SmallVector<int64_t>{2, 4, 7}));
  const double h = 1e-5;
  for (auto [name, gradient] : llvm::zip(names, llvm::drop_begin(results, 2))) {
    Tensor &parameter = model.variables[name];
    ASSERT_EQ(gradient.shape, parameter.shape) << name;
    double largest = 0;
    for (int64_t i = 0; i < parameter.size(); ++i) {
      double &x = parameter.values[i], kept = x;
      x = kept + h;
      double above = loss(model, arguments);
      x = kept - h;
      double below = loss(model, arguments);
      x = kept;
      double expected = (above - below) / (2 * h);
      ASSERT_NEAR(gradient.values[i], expected, 1e-8) << name << " " << i;
      largest = std::max(largest, std::abs(expected));
    }
    EXPECT_GT(largest, 1e-4) << name;
  }
}

TEST_F(TrainingStepTest, GradientsOfGpt2) { checkGradients(gpt2Config); }

TEST_F(TrainingStepTest, GradientsOfLlama) { checkGradients(llamaConfig); }

// Without rounding, casts change nothing, so the results must be the same.
TEST_F(TrainingStepTest, MixedPrecisionComputesTheSame) {
  for (const char *config : {gpt2Config, llamaConfig}) {
    Model exact = build(config, step("gradients=true"));
    engine.seed(1);
    Model mixed = build(config, "heddle-apply-mixed-precision,"
                                "heddle-build-training-step{gradients=true}");
    mixed.variables = exact.variables;
    std::vector<Tensor> arguments = batch(2);
    std::vector<Tensor> expected = run(exact, "gradients", arguments);
    std::vector<Tensor> got = run(mixed, "gradients", arguments);
    ASSERT_EQ(got.size(), expected.size());
    for (auto [i, tensor] : llvm::enumerate(got))
      expectEqual(tensor, expected[i], "result " + std::to_string(i));

    // With rounding, the loss is near, but not the same.
    std::vector<Tensor> rounded =
        run(mixed, "gradients", arguments, {/*roundToType=*/true});
    EXPECT_NEAR(rounded[0].values[0], expected[0].values[0], 0.05);
    EXPECT_NE(rounded[0].values[0], expected[0].values[0]);
  }
}

// A batch whose labels are all ignored has a loss and gradients of 0.
TEST_F(TrainingStepTest, IgnoredBatch) {
  Model model = build(gpt2Config, step("gradients=true"));
  std::vector<Tensor> arguments = batch(2);
  std::fill(arguments[1].values.begin(), arguments[1].values.end(), -100);
  for (const Tensor &result : run(model, "gradients", arguments)) {
    if (result.rank() == 3 && result.last() == 7)
      continue; // logits
    for (double value : result.values)
      ASSERT_EQ(value, 0);
  }
}

//===----------------------------------------------------------------------===//
// Optimizers
//===----------------------------------------------------------------------===//

namespace {

/// The loss of a step, the norm of its gradients, and the gradients, clipped as
/// torch.nn.utils.clip_grad_norm_ does.
struct Clipped {
  double loss, norm;
  std::map<std::string, Tensor> gradients;
};

} // namespace

template <typename Run>
static Clipped clip(Run run, const std::vector<std::string> &names,
                    double maximum) {
  std::vector<Tensor> results = run();
  Clipped clipped{results[0].values[0], 0, {}};
  double squares = 0;
  for (auto [i, name] : llvm::enumerate(names)) {
    clipped.gradients[name] = results[i + 2];
    for (double g : results[i + 2].values)
      squares += g * g;
  }
  clipped.norm = std::sqrt(squares);
  double factor = std::min(maximum / (clipped.norm + 1e-6), 1.0);
  for (auto &[name, gradient] : clipped.gradients)
    for (double &g : gradient.values)
      g *= factor;
  return clipped;
}

static bool isDecayed(const std::string &name) {
  return !StringRef(name).ends_with("bias") && !StringRef(name).contains("ln_");
}

TEST_F(TrainingStepTest, AdamW) {
  // beta1, beta2 and epsilon are exact in f32, the type of the program's
  // constants.
  const double rate = 0.05, beta1 = 0.75, beta2 = 0.9375, epsilon = 0x1p-10,
               decay = 0.3, maximum = 0.5;
  Model model = build(
      gpt2Config,
      step("gradients=true learning-rate=0.05 beta1=0.75 beta2=0.9375 "
           "epsilon=0.0009765625 weight-decay=0.3 clip=0.5 schedule=cosine "
           "warmup-steps=2 total-steps=6 final-ratio=0.2"));
  std::vector<std::string> names = parameters(model);
  Model reference = build(gpt2Config, step("gradients=true"));
  reference.variables = model.variables;
  std::map<std::string, Tensor> m, v;
  for (const std::string &name : names)
    m[name] = v[name] = Tensor(model.variables[name].shape);

  for (int t = 0; t < 8; ++t) {
    std::vector<Tensor> arguments = batch(2);
    Clipped c = clip([&] { return run(reference, "gradients", arguments); },
                     names, maximum);
    double progress = std::min((t - 2) / 4.0, 1.0);
    double wave = (1 + std::cos(std::numbers::pi * progress)) / 2;
    double lr = t < 2 ? rate * (t + 1) / 2 : rate * (0.2 + 0.8 * wave);
    for (const std::string &name : names)
      for (int64_t i = 0; i < m[name].size(); ++i) {
        double g = c.gradients[name].values[i];
        double &mean = m[name].values[i], &square = v[name].values[i],
               &x = reference.variables[name].values[i];
        if (isDecayed(name))
          x *= 1 - lr * decay;
        mean = beta1 * mean + (1 - beta1) * g;
        square = beta2 * square + (1 - beta2) * g * g;
        double corrected = std::sqrt(square / (1 - std::pow(beta2, t + 1)));
        x -= lr * mean / (1 - std::pow(beta1, t + 1)) / (corrected + epsilon);
      }
    std::vector<Tensor> results = run(model, "step", arguments);
    ASSERT_EQ(results.size(), 3u);
    EXPECT_NEAR(results[0].values[0], c.loss, 1e-11);
    EXPECT_NEAR(results[1].values[0], c.norm, 1e-11);
    EXPECT_NEAR(results[2].values[0], lr, 1e-12);
    EXPECT_EQ(model.variables["steps"].values[0], t + 1);
    for (const std::string &name : names)
      expectEqual(model.variables[name], reference.variables[name], name,
                  1e-10);
  }
}

TEST_F(TrainingStepTest, SGDWithMomentum) {
  Model model =
      build(gpt2Config, step("optimizer=sgd gradients=true learning-rate=0.1 "
                             "weight-decay=0.25 momentum=0.75 clip=0"));
  std::vector<std::string> names = parameters(model);
  Model reference = build(gpt2Config, step("gradients=true"));
  reference.variables = model.variables;
  std::map<std::string, Tensor> u;
  for (int t = 0; t < 4; ++t) {
    std::vector<Tensor> arguments = batch(2);
    Clipped c = clip([&] { return run(reference, "gradients", arguments); },
                     names, INFINITY);
    for (const std::string &name : names) {
      Tensor &momentum = u[name];
      if (t == 0)
        momentum = Tensor(reference.variables[name].shape);
      for (int64_t i = 0; i < momentum.size(); ++i) {
        double &x = reference.variables[name].values[i];
        double g = c.gradients[name].values[i];
        if (isDecayed(name))
          g += 0.25 * x;
        momentum.values[i] = t == 0 ? g : 0.75 * momentum.values[i] + g;
        x -= 0.1 * momentum.values[i];
      }
    }
    std::vector<Tensor> results = run(model, "step", arguments);
    EXPECT_NEAR(results[1].values[0], c.norm, 1e-11);
    for (const std::string &name : names)
      expectEqual(model.variables[name], reference.variables[name], name,
                  1e-10);
  }
}

//===----------------------------------------------------------------------===//
// Micro-batches and dropout
//===----------------------------------------------------------------------===//

// Three micro-batches with different numbers of labels update the parameters as
// one large batch does.
TEST_F(TrainingStepTest, MicroBatches) {
  Model small = build(gpt2Config, step("micro-batches=3"), /*batch=*/1);
  Model large = build(gpt2Config, step("micro-batches=1"), /*batch=*/3);
  for (const std::string &name : parameters(small))
    large.variables[name] = small.variables[name];
  for (int t = 0; t < 3; ++t) {
    std::vector<Tensor> rows = {randomIds({3, 4}, 7), randomIds({3, 4}, 7)};
    rows[1].values[0] = rows[1].values[1] = rows[1].values[9] = -100;
    std::vector<Tensor> expected = run(large, "step", rows);
    for (int64_t row = 0; row < 3; ++row) {
      std::vector<Tensor> arguments;
      for (const Tensor &tensor : rows)
        arguments.emplace_back(
            ArrayRef<int64_t>{1, 4},
            std::vector<double>(tensor.values.begin() + row * 4,
                                tensor.values.begin() + (row + 1) * 4));
      EXPECT_TRUE(run(small, "accumulate", arguments).empty());
    }
    std::vector<Tensor> results = run(small, "update", {});
    for (int i = 0; i < 3; ++i)
      EXPECT_NEAR(results[i].values[0], expected[i].values[0], 1e-12);
    for (const std::string &name : parameters(small)) {
      expectEqual(small.variables[name], large.variables[name], name);
      for (double g : small.variables["grad." + name].values)
        ASSERT_EQ(g, 0) << name;
    }
    EXPECT_EQ(small.variables["loss_sum"].values[0], 0);
    EXPECT_EQ(small.variables["count"].values[0], 0);
  }
}

// Each micro-batch of each step drops other elements. Evaluation drops none.
TEST_F(TrainingStepTest, Dropout) {
  Model model = build(gpt2DropoutConfig, step("micro-batches=2 clip=0"));
  std::vector<Tensor> arguments = batch(2);
  std::vector<double> losses;
  double before = loss(model, arguments);
  EXPECT_EQ(loss(model, arguments), before);
  for (int t = 0; t < 2; ++t) {
    double sum = 0;
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(model.variables["micro_batch"].values[0], i);
      run(model, "accumulate", arguments);
      losses.push_back(model.variables["loss_sum"].values[0] - sum);
      sum = model.variables["loss_sum"].values[0];
    }
    // Undo the update of the parameters, so that losses differ by dropout
    // alone.
    Variables kept = model.variables;
    run(model, "update", {});
    EXPECT_EQ(model.variables["micro_batch"].values[0], 0);
    for (const std::string &name : parameters(model))
      model.variables[name] = kept[name];
  }
  for (size_t i = 0; i < losses.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      EXPECT_NE(losses[i], losses[j]) << i << " " << j;
}

TEST_F(TrainingStepTest, DropoutOff) {
  Model off = build(gpt2DropoutConfig, step("dropout=false"));
  std::vector<Tensor> arguments = batch(2);
  double expected = loss(off, arguments);
  EXPECT_NEAR(run(off, "step", arguments)[0].values[0], expected, 1e-12);
}
