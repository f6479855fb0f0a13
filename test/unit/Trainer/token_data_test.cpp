//===- token_data_test.cpp - Batches from token files ---------------------===//

#include "heddle_rt/token_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

using namespace heddle::runtime;

namespace {

/// A file that lives as long as the test.
class TemporaryFile {
public:
  template <typename T>
  TemporaryFile(const std::string &name, const std::vector<T> &content)
      : path(std::filesystem::temp_directory_path() /
             (std::to_string(::getpid()) + "-" + name)) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char *>(content.data()),
               content.size() * sizeof(T));
  }
  ~TemporaryFile() { std::filesystem::remove(path); }

  std::filesystem::path path;
};

std::vector<uint16_t> counting(int64_t count) {
  std::vector<uint16_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), uint16_t(0));
  return tokens;
}

std::string message(const auto &expected) {
  return std::string(expected.message());
}

} // namespace

TEST(TokenData, ReadsEachFormat) {
  TemporaryFile bytes("text", std::vector<uint8_t>{0, 7, 255});
  TemporaryFile halves("half.bin", std::vector<uint16_t>{0, 7, 50256});
  TemporaryFile words("word.bin", std::vector<uint32_t>{0, 7, 128255});
  std::vector<int32_t> out(3);

  auto data = TokenData::open(bytes.path, std::nullopt, 256);
  ASSERT_TRUE(data.ok()) << data.message();
  ASSERT_TRUE(data->read(0, out).ok());
  EXPECT_EQ(out, (std::vector<int32_t>{0, 7, 255}));

  data = TokenData::open(halves.path, std::nullopt, 50257);
  ASSERT_TRUE(data.ok()) << data.message();
  ASSERT_TRUE(data->read(0, out).ok());
  EXPECT_EQ(out, (std::vector<int32_t>{0, 7, 50256}));

  data = TokenData::open(words.path, std::nullopt, 128256);
  ASSERT_TRUE(data.ok()) << data.message();
  EXPECT_EQ(data->format(), TokenFormat::UInt32);
  ASSERT_TRUE(data->read(0, out).ok());
  EXPECT_EQ(out, (std::vector<int32_t>{0, 7, 128255}));

  // A given format overrides the one that the file's name suggests.
  data = TokenData::open(halves.path, TokenFormat::Byte, 256);
  ASSERT_TRUE(data.ok()) << data.message();
  EXPECT_EQ(data->size(), 6);
}

TEST(TokenData, ReportsBadFiles) {
  EXPECT_NE(message(TokenData::open("/nonexistent/text", std::nullopt, 256))
                .find("No such file"),
            std::string::npos);
  TemporaryFile empty("empty", std::vector<uint8_t>{});
  EXPECT_NE(
      message(TokenData::open(empty.path, std::nullopt, 256)).find("is empty"),
      std::string::npos);
  TemporaryFile odd("odd.bin", std::vector<uint8_t>{1, 2, 3});
  EXPECT_NE(message(TokenData::open(odd.path, std::nullopt, 50257))
                .find("3 bytes is not a multiple of 2"),
            std::string::npos);
  TemporaryFile large("large.bin", std::vector<uint16_t>{1, 2, 300, 4});
  EXPECT_NE(
      message(TokenData::open(large.path, std::nullopt, 256))
          .find("token 300 at position 2 is beyond the vocabulary of 256"),
      std::string::npos);
}

TEST(WindowSampler, TargetsAreTheNextTokensAndHeldOutIsNeverDrawn) {
  TemporaryFile file("counting.bin", counting(1000));
  auto data = TokenData::open(file.path, std::nullopt, 1000);
  ASSERT_TRUE(data.ok()) << data.message();
  auto sampler = WindowSampler::create(*data, 8, 0.1, 1);
  ASSERT_TRUE(sampler.ok()) << sampler.message();
  EXPECT_EQ(sampler->numTrainingTokens(), 900);

  std::vector<int32_t> tokens(32 * 8), targets(32 * 8);
  int32_t largest = 0;
  for (uint64_t step = 0; step < 100; ++step) {
    ASSERT_TRUE(sampler->sample(step, 0, tokens, targets).ok());
    for (size_t i = 0; i < tokens.size(); ++i)
      ASSERT_EQ(targets[i], tokens[i] + 1);
    largest = std::max(largest, *std::ranges::max_element(targets));
  }
  // With 3,200 draws of 892 starts, the last one is all but certain to occur.
  EXPECT_EQ(largest, 899);
}

TEST(WindowSampler, DependsOnSeedStepAndRowAlone) {
  TemporaryFile file("counting.bin", counting(1000));
  auto data = TokenData::open(file.path, std::nullopt, 1000);
  ASSERT_TRUE(data.ok());
  auto sampler = WindowSampler::create(*data, 8, 0.1, 1);
  auto other = WindowSampler::create(*data, 8, 0.1, 2);
  ASSERT_TRUE(sampler.ok() && other.ok());

  // The last two rows of a batch of four are the batch of two that starts at
  // row 2.
  std::vector<int32_t> all(32), half(16), targets(32), halfTargets(16);
  ASSERT_TRUE(sampler->sample(5, 0, all, targets).ok());
  ASSERT_TRUE(sampler->sample(5, 2, half, halfTargets).ok());
  EXPECT_TRUE(std::equal(half.begin(), half.end(), all.begin() + 16));

  EXPECT_NE(sampler->windowStart(5, 0), sampler->windowStart(6, 0));
  EXPECT_NE(sampler->windowStart(5, 0), sampler->windowStart(5, 1));
  EXPECT_NE(sampler->windowStart(5, 0), other->windowStart(5, 0));
}

TEST(WindowSampler, HeldOutWindowsCoverTheTailOnce) {
  TemporaryFile file("counting.bin", counting(1000));
  auto data = TokenData::open(file.path, std::nullopt, 1000);
  ASSERT_TRUE(data.ok());
  auto sampler = WindowSampler::create(*data, 8, 0.1, 1);
  ASSERT_TRUE(sampler.ok());

  // 100 tokens make 99 predictions: 12 windows of 8 and one of 3.
  ASSERT_EQ(sampler->numHeldOutWindows(), 13);
  std::vector<int32_t> tokens(14 * 8), targets(14 * 8), seen;
  ASSERT_TRUE(sampler->heldOut(0, tokens, targets).ok());
  for (int32_t target : targets)
    if (target != ignoredLabel)
      seen.push_back(target);
  std::vector<int32_t> expected(99);
  std::iota(expected.begin(), expected.end(), 901);
  EXPECT_EQ(seen, expected);
}

TEST(WindowSampler, RefusesAFileShorterThanAWindow) {
  TemporaryFile file("short.bin", counting(9));
  auto data = TokenData::open(file.path, std::nullopt, 1000);
  ASSERT_TRUE(data.ok());
  EXPECT_TRUE(WindowSampler::create(*data, 8, 0, 1).ok());
  EXPECT_NE(message(WindowSampler::create(*data, 9, 0, 1))
                .find("expected at least 10 training tokens"),
            std::string::npos);
  EXPECT_NE(
      message(WindowSampler::create(*data, 8, 1, 1)).find("below 1, got 1"),
      std::string::npos);
}
