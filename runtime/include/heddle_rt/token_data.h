//===- token_data.h - Token files and windows of them -----------*- C++ -*-===//
//
// A memory-mapped training text: raw bytes, or little-endian uint16 or uint32
// tokens (nanoGPT's .bin). The tail of the text is held out for evaluation.
// Training windows are drawn from the tokens before it.
//
// The window of a row of a step depends on (seed, step, row) alone, by
// counter-based random numbers (Philox4x32-10). So neither the number of
// devices nor the split of a step into micro-batches changes the data.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_TOKEN_DATA_H
#define HEDDLE_RT_TOKEN_DATA_H

#include "heddle_rt/status.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

namespace heddle::runtime {

/// The format of stored tokens; the value is the bytes of one token.
enum class TokenFormat { Byte = 1, UInt16 = 2, UInt32 = 4 };

/// Returns the format of this name: "byte", "uint16" or "uint32".
std::optional<TokenFormat> tokenFormatNamed(std::string_view name);

/// A label that the loss ignores.
inline constexpr int32_t ignoredLabel = -100;

/// A memory-mapped token file; movable, unmapped when destroyed.
class TokenData {
public:
  /// Maps `path`. Without a `format`, a `.bin` file is read as uint16 if every
  /// token of `vocabulary` fits, otherwise as uint32; every other file is read
  /// as bytes. The first 256 Mi tokens are checked against the vocabulary here,
  /// the others when they are read.
  static Expected<TokenData> open(const std::filesystem::path &path,
                                  std::optional<TokenFormat> format,
                                  int64_t vocabulary);

  TokenData(TokenData &&other) noexcept;
  TokenData &operator=(TokenData &&other) noexcept;
  TokenData(const TokenData &) = delete;
  TokenData &operator=(const TokenData &) = delete;
  ~TokenData();

  /// Returns the number of tokens.
  int64_t size() const { return numTokens; }
  TokenFormat format() const { return tokenFormat; }
  const std::filesystem::path &path() const { return file; }

  /// Returns a checksum of at most 64 parts of the file, of 4 KiB each, in
  /// equal distances. Almost surely, two different texts of one size differ in
  /// it.
  uint64_t checksumOfParts() const;

  /// Copies tokens [first, first + out.size()), which must be inside the file.
  /// A token outside of the vocabulary is an error that names its position and
  /// value.
  Status read(int64_t first, std::span<int32_t> out) const;

private:
  TokenData() = default;

  std::filesystem::path file;
  const uint8_t *bytes = nullptr;
  int64_t numBytes = 0;
  int64_t numTokens = 0;
  int64_t vocabulary = 0;
  TokenFormat tokenFormat = TokenFormat::Byte;
};

/// Draws batches of windows from token data. Tokens and targets of a batch are
/// row-major [rows, sequence]; a target is the token after its token.
class WindowSampler {
public:
  /// Makes a sampler that holds out the last `heldOutFraction` (0 <= f < 1) of
  /// the tokens. Returns an error if the training tokens are fewer than one
  /// window, which is `sequence` + 1 tokens. `data` must outlive the sampler.
  static Expected<WindowSampler> create(const TokenData &data, int64_t sequence,
                                        double heldOutFraction, uint64_t seed);

  /// Copies the training windows of rows [firstRow, firstRow + rows) of a step,
  /// where `rows` is tokens.size() / sequence.
  Status sample(uint64_t step, int64_t firstRow, std::span<int32_t> tokens,
                std::span<int32_t> targets) const;

  /// Returns the position of the first token of the training window of
  /// (step, row).
  int64_t windowStart(uint64_t step, int64_t row) const;

  /// Returns the number of consecutive windows that cover the held-out tail
  /// once.
  int64_t numHeldOutWindows() const;

  /// Copies held-out windows from window `first` on, as many as the spans have
  /// room for. Beyond the end of the data, tokens are 0 and targets
  /// `ignoredLabel`.
  Status heldOut(int64_t first, std::span<int32_t> tokens,
                 std::span<int32_t> targets) const;

  int64_t numTrainingTokens() const { return trainingTokens; }

private:
  WindowSampler() = default;

  const TokenData *data = nullptr;
  int64_t sequence = 0;
  int64_t trainingTokens = 0;
  uint64_t seed = 0;
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_TOKEN_DATA_H
