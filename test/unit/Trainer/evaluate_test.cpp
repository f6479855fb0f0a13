//===- evaluate_test.cpp - Evaluation of batches --------------------------===//

#include "TrainerFixture.h"
#include "heddle_rt/safetensors.h"
#include "trainer/Batch.h"

#include <cstring>

using namespace heddle::runtime;

TEST_F(TrainerTest, EvaluateWritesLossLogitsAndGradients) {
  auto session = load(2);
  std::vector<int32_t> tokens, targets;
  for (int i = 0; i < 3 * bigram::S; ++i) {
    tokens.push_back(i % bigram::V);
    targets.push_back(i % 5 == 0 ? -100 : (3 * i) % bigram::V);
  }
  Batch batch = makeBatch(3, bigram::S, tokens, targets);
  EvaluateOptions options;
  options.output = folder / "out.safetensors";
  options.gradients = true;
  auto result = evaluate(*session, batch, options);
  ASSERT_TRUE(result.ok()) << result.message();
  EXPECT_EQ(result->labels, 14);

  auto reader = safetensors::Reader::open(options.output.string());
  ASSERT_TRUE(reader.ok()) << reader.message();
  const auto *logits = reader->find("logits");
  const auto *gradient = reader->find("grad.model.bigram.weight");
  ASSERT_TRUE(logits && gradient && reader->find("loss"));
  EXPECT_EQ(logits->shape, (std::vector<int64_t>{3, bigram::S, bigram::V}));
  EXPECT_EQ(gradient->shape, (std::vector<int64_t>{256}));

  // Compares the gradient with a difference quotient.
  std::vector<float> weights(256), values(256);
  ASSERT_TRUE(gradient->readF32(0, values).ok());
  ASSERT_TRUE(session->readVariable("w", writableBytesOf(weights)).ok());
  for (int element : {0, 17, 100}) {
    double losses[2];
    for (int side : {0, 1}) {
      std::vector<float> moved = weights;
      moved[element] += side ? 0.01f : -0.01f;
      ASSERT_TRUE(session->writeVariable("w", bytesOf(moved)).ok());
      auto shifted = evaluate(*session, batch, {});
      ASSERT_TRUE(shifted.ok());
      losses[side] = shifted->loss;
    }
    EXPECT_NEAR(values[element], (losses[1] - losses[0]) / 0.02, 1e-4);
  }
}

TEST_F(TrainerTest, EvaluateRefusesBadBatches) {
  auto session = load();
  std::vector<int32_t> tokens(bigram::S, 1), targets(bigram::S, 2);
  auto expectRefused = [&](const std::string &part) {
    expectError(
        evaluate(*session, makeBatch(1, bigram::S, tokens, targets), {}), part);
  };
  EXPECT_TRUE(
      evaluate(*session, makeBatch(1, bigram::S, tokens, targets), {}).ok());
  tokens[4] = bigram::V;
  expectRefused("batch: tokens[0, 4] is 16, beyond the vocabulary of 16");
  tokens[4] = 1;
  targets[2] = -1;
  expectRefused("batch: targets[0, 2] is -1, beyond the vocabulary of 16");
  targets.assign(bigram::S, ignoredLabel);
  expectRefused("batch: expected a target that counts, got 6 that are -100");
  targets.assign(bigram::S, 2);

  Batch batch = makeBatch(1, bigram::S - 1, tokens, targets);
  expectError(evaluate(*session, batch, {}),
              "batch: expected 'targets' of shape [4, 6], for which the "
              "artifact was compiled, got [1, 5]; compile it with --batch 1 "
              "--seq 5");
  batch = makeBatch(1, bigram::S, tokens, targets);
  batch.tensors[0].type = HEDDLE_RT_F32;
  expectError(evaluate(*session, batch, {}),
              "batch: expected 'tokens' as i32 [4, 6], got f32 [1, 6]");
  batch.tensors[0].name = "words";
  expectError(evaluate(*session, batch, {}),
              "batch: expected a tensor 'tokens', i32 [4, 6]");
}

// Labels that a batch lacks are the next tokens; i64 stands for i32.
TEST_F(TrainerTest, ABatchMayLackLabels) {
  auto session = load();
  std::vector<int32_t> tokens, targets;
  for (int i = 0; i < 2 * bigram::S; ++i) {
    tokens.push_back(i * 5 % bigram::V);
    targets.push_back((i + 1) % bigram::S == 0 ? ignoredLabel
                                               : (i + 1) * 5 % bigram::V);
  }
  Batch batch = makeBatch(2, bigram::S, tokens, targets);
  auto expected = evaluate(*session, batch, {});
  ASSERT_TRUE(expected.ok()) << expected.message();
  batch.tensors.pop_back();
  auto result = evaluate(*session, batch, {});
  ASSERT_TRUE(result.ok()) << result.message();
  EXPECT_EQ(result->loss, expected->loss);
  EXPECT_EQ(result->labels, 2 * (bigram::S - 1));

  std::vector<int64_t> wide(tokens.begin(), tokens.end());
  ConstBytes bytes = bytesOf(wide);
  batch.tensors[0] = {
      "tokens", HEDDLE_RT_I64, {2, bigram::S}, {bytes.begin(), bytes.end()}};
  result = evaluate(*session, batch, {});
  ASSERT_TRUE(result.ok()) << result.message();
  EXPECT_EQ(result->loss, expected->loss);
  wide[3] = int64_t(1) << 40;
  std::memcpy(batch.tensors[0].data.data(), wide.data(), bytes.size());
  expectError(evaluate(*session, batch, {}),
              "batch: tensor 'tokens': element 3 is 1099511627776, which is "
              "no token");
}

// Ids of features and of labels are of one vocabulary only if each label is the
// successor of a token.
TEST(MatchBatch, AClassifierHasAVocabularyOfItsOwn) {
  auto port = [](const char *name, std::vector<int64_t> shape, PortRole role) {
    PortInfo result;
    result.name = name;
    result.type = HEDDLE_RT_I32;
    result.sharding.resize(shape.size());
    result.shape = std::move(shape);
    result.role = role;
    return result;
  };
  TableInfo evaluate;
  evaluate.role = TableRole::Evaluate;
  evaluate.inputs = {port("words", {2, 3}, PortRole::Features),
                     port("topic", {2}, PortRole::Labels)};
  static_cast<PortInfo &>(evaluate.outputs.emplace_back()) =
      port("logits", {2, 4}, PortRole::Output);
  Manifest manifest;
  manifest.tables = {evaluate};

  Batch batch = makeBatch(2, 3, {900, 3, 20, 7, 1, 0}, {});
  batch.tensors[0].name = "words";
  std::vector<int32_t> topics = {3, 1};
  ConstBytes bytes = bytesOf(topics);
  batch.tensors[1] = {
      "topic", HEDDLE_RT_I32, {2}, {bytes.begin(), bytes.end()}};
  auto values = matchBatch(batch, manifest, evaluate.inputs, 1);
  ASSERT_TRUE(values.ok()) << values.message();
  EXPECT_EQ(values->labels, 2);

  topics[1] = 4;
  std::memcpy(batch.tensors[1].data.data(), topics.data(), bytes.size());
  expectError(matchBatch(batch, manifest, evaluate.inputs, 1),
              "batch: topic[1] is 4, beyond the vocabulary of 4");
}
