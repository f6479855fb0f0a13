//===- TokenData.cpp - Token files and the windows drawn from them --------===//

#include "heddle_rt/token_data.h"

#include "heddle_rt/checksum.h"
#include "heddle_rt/philox.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace heddle::runtime;

std::optional<TokenFormat>
heddle::runtime::tokenFormatNamed(std::string_view name) {
  if (name == "byte")
    return TokenFormat::Byte;
  if (name == "uint16")
    return TokenFormat::UInt16;
  if (name == "uint32")
    return TokenFormat::UInt32;
  return std::nullopt;
}

static TokenFormat formatFor(const std::filesystem::path &path,
                             int64_t vocabulary) {
  if (path.extension() != ".bin")
    return TokenFormat::Byte;
  return vocabulary <= 65536 ? TokenFormat::UInt16 : TokenFormat::UInt32;
}

Expected<TokenData> TokenData::open(const std::filesystem::path &path,
                                    std::optional<TokenFormat> format,
                                    int64_t vocabulary) {
  auto fail = [&](const std::string &what) {
    return error("token file '" + path.string() + "': " + what);
  };
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return fail(std::strerror(errno));
  struct stat info;
  if (::fstat(descriptor, &info) != 0) {
    std::string reason = std::strerror(errno);
    ::close(descriptor);
    return fail(reason);
  }
  if (!S_ISREG(info.st_mode) || info.st_size == 0) {
    ::close(descriptor);
    return fail(S_ISREG(info.st_mode) ? "is empty" : "is not a regular file");
  }

  TokenData data;
  data.file = path;
  data.vocabulary = vocabulary;
  data.tokenFormat = format.value_or(formatFor(path, vocabulary));
  int64_t size = info.st_size;
  int64_t width = static_cast<int64_t>(data.tokenFormat);
  if (size % width != 0) {
    ::close(descriptor);
    return fail("expected uint" + std::to_string(8 * width) +
                " tokens, but its size of " + std::to_string(size) +
                " bytes is not a multiple of " + std::to_string(width));
  }
  void *address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  int mapError = errno;
  ::close(descriptor);
  if (address == MAP_FAILED)
    return fail(std::string("cannot map it: ") + std::strerror(mapError));
  data.bytes = static_cast<const uint8_t *>(address);
  data.numBytes = size;
  data.numTokens = size / width;

  // Report a wrong format or vocabulary before training starts.
  constexpr int64_t checkedAtOnce = int64_t(1) << 28, block = 1 << 16;
  std::vector<int32_t> buffer(block);
  int64_t checked = std::min(data.numTokens, checkedAtOnce);
  for (int64_t first = 0; first < checked; first += block) {
    int64_t count = std::min(block, checked - first);
    HEDDLE_RT_RETURN_IF_ERROR(data.read(first, std::span(buffer).first(count)));
  }
  return data;
}

TokenData::TokenData(TokenData &&other) noexcept { *this = std::move(other); }

TokenData &TokenData::operator=(TokenData &&other) noexcept {
  std::swap(file, other.file);
  std::swap(bytes, other.bytes);
  std::swap(numBytes, other.numBytes);
  std::swap(numTokens, other.numTokens);
  std::swap(vocabulary, other.vocabulary);
  std::swap(tokenFormat, other.tokenFormat);
  return *this;
}

TokenData::~TokenData() {
  if (bytes)
    ::munmap(const_cast<uint8_t *>(bytes), numBytes);
}

uint64_t TokenData::checksumOfParts() const {
  constexpr int64_t parts = 64, partBytes = 4096;
  int64_t last = std::max<int64_t>(numBytes - partBytes, 0);
  Checksum checksum;
  for (int64_t i = 0; i < parts; ++i) {
    int64_t start = last / (parts - 1) * i;
    checksum.update(std::as_bytes(
        std::span(bytes + start, std::min(partBytes, numBytes - start))));
  }
  return checksum.value();
}

/// Converts `count` tokens to i32 and returns the largest.
template <typename T>
static uint32_t widen(const uint8_t *from, int64_t count, int32_t *to) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    T token;
    std::memcpy(&token, from + i * sizeof(T), sizeof(T));
    largest = std::max<uint32_t>(largest, token);
    to[i] = static_cast<int32_t>(token);
  }
  return largest;
}

Status TokenData::read(int64_t first, std::span<int32_t> out) const {
  int64_t count = out.size();
  if (first < 0 || count > numTokens || first > numTokens - count)
    return error("token file '" + file.string() + "': expected tokens [" +
                 std::to_string(first) + ", " + std::to_string(first + count) +
                 ") in a file of " + std::to_string(numTokens));
  const uint8_t *from = bytes + first * static_cast<int64_t>(tokenFormat);
  uint32_t largest = 0;
  switch (tokenFormat) {
  case TokenFormat::Byte:
    largest = widen<uint8_t>(from, count, out.data());
    break;
  case TokenFormat::UInt16:
    largest = widen<uint16_t>(from, count, out.data());
    break;
  case TokenFormat::UInt32:
    largest = widen<uint32_t>(from, count, out.data());
    break;
  }
  if (largest < vocabulary)
    return Status::success();
  for (int64_t i = 0; i < count; ++i) {
    auto token = static_cast<uint32_t>(out[i]);
    if (token >= vocabulary)
      return error("token file '" + file.string() + "': token " +
                   std::to_string(token) + " at position " +
                   std::to_string(first + i) + " is beyond the vocabulary of " +
                   std::to_string(vocabulary) +
                   "; is the token format right (byte, uint16 or uint32)?");
  }
  return Status::success();
}

//===----------------------------------------------------------------------===//
// WindowSampler
//===----------------------------------------------------------------------===//

Expected<WindowSampler> WindowSampler::create(const TokenData &data,
                                              int64_t sequence,
                                              double heldOutFraction,
                                              uint64_t seed) {
  if (!(heldOutFraction >= 0 && heldOutFraction < 1))
    return error("held-out fraction: expected a number of at least 0 and below "
                 "1, got " +
                 std::to_string(heldOutFraction));
  WindowSampler sampler;
  sampler.data = &data;
  sampler.sequence = sequence;
  sampler.seed = seed;
  sampler.trainingTokens =
      data.size() - static_cast<int64_t>(double(data.size()) * heldOutFraction);
  if (sampler.trainingTokens < sequence + 1)
    return error("token file '" + data.path().string() +
                 "': expected at least " + std::to_string(sequence + 1) +
                 " training tokens (one window of " + std::to_string(sequence) +
                 " and its last target), got " +
                 std::to_string(sampler.trainingTokens) + " of " +
                 std::to_string(data.size()) +
                 " tokens; use a longer file or a shorter sequence");
  return sampler;
}

int64_t WindowSampler::windowStart(uint64_t step, int64_t row) const {
  // This key differs from those of initializers and dropout.
  Philox4x32 generator(seed ^ 0x57494e444f575321ull);
  std::array<uint32_t, 4> words =
      generator({static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32),
                 static_cast<uint32_t>(row), static_cast<uint32_t>(row >> 32)});
  uint64_t bits = uint64_t(words[1]) << 32 | words[0];
  // Computes floor(bits * starts / 2^64), which is uniform up to a relative
  // error of 2^-64 * starts.
  auto starts = static_cast<uint64_t>(trainingTokens - sequence);
  using Wide = unsigned __int128;
  return static_cast<int64_t>(static_cast<uint64_t>(Wide(bits) * starts >> 64));
}

/// Splits a window, which is one token longer than a row, into tokens and
/// targets.
static void splitWindow(std::span<const int32_t> window, int32_t *tokens,
                        int32_t *targets) {
  std::copy(window.begin(), window.end() - 1, tokens);
  std::copy(window.begin() + 1, window.end(), targets);
}

Status WindowSampler::sample(uint64_t step, int64_t firstRow,
                             std::span<int32_t> tokens,
                             std::span<int32_t> targets) const {
  std::vector<int32_t> window(sequence + 1);
  int64_t rows = static_cast<int64_t>(tokens.size()) / sequence;
  for (int64_t row = 0; row < rows; ++row) {
    HEDDLE_RT_RETURN_IF_ERROR(
        data->read(windowStart(step, firstRow + row), window));
    splitWindow(window, &tokens[row * sequence], &targets[row * sequence]);
  }
  return Status::success();
}

int64_t WindowSampler::numHeldOutWindows() const {
  int64_t predictions = data->size() - trainingTokens - 1;
  return predictions <= 0 ? 0 : (predictions + sequence - 1) / sequence;
}

Status WindowSampler::heldOut(int64_t first, std::span<int32_t> tokens,
                              std::span<int32_t> targets) const {
  std::fill(tokens.begin(), tokens.end(), 0);
  std::fill(targets.begin(), targets.end(), ignoredLabel);
  std::vector<int32_t> window(sequence + 1);
  int64_t rows = static_cast<int64_t>(tokens.size()) / sequence;
  for (int64_t row = 0; row < rows; ++row) {
    int64_t start = trainingTokens + (first + row) * sequence;
    int64_t length = std::min(sequence + 1, data->size() - start);
    if (length < 2)
      break;
    std::span<int32_t> part = std::span(window).first(length);
    HEDDLE_RT_RETURN_IF_ERROR(data->read(start, part));
    splitWindow(part, &tokens[row * sequence], &targets[row * sequence]);
  }
  return Status::success();
}
