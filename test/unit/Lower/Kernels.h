//===- Kernels.h - Helpers of the numeric tests of kernels ------*- C++ -*-===//

#ifndef HEDDLE_TEST_UNIT_LOWER_KERNELS_H
#define HEDDLE_TEST_UNIT_LOWER_KERNELS_H

#include "test/support/KernelRunner/KernelRunner.h"
#include "gtest/gtest.h"
#include <bit>
#include <cmath>
#include <random>
#include <vector>

namespace heddle::test {

using Floats = std::vector<float>;
using Ints = std::vector<int32_t>;
using Halves = std::vector<uint16_t>; ///< bf16

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

inline Floats draw(size_t count, unsigned seed, float scale = 1) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, scale);
  Floats values(count);
  for (float &value : values)
    value = normal(engine);
  return values;
}

/// Rounds a float to the nearest bf16. A tie goes to the neighbour whose last
/// bit is 0.
inline uint16_t toBF16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value))
    return 0x7FC0;
  uint32_t rest = bits & 0xFFFF, upper = bits >> 16;
  if (rest > 0x8000 || (rest == 0x8000 && (upper & 1)))
    ++upper;
  return upper;
}
inline float fromBF16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t(bits) << 16);
}
inline Halves toBF16(const Floats &values) {
  Halves result;
  for (float value : values)
    result.push_back(toBF16(value));
  return result;
}
inline Floats fromBF16(const Halves &values) {
  Floats result;
  for (uint16_t value : values)
    result.push_back(fromBF16(value));
  return result;
}

inline std::unique_ptr<KernelRunner> compile(const std::string &text,
                                             bool fuse = true) {
  KernelRunner::Options options;
  options.fuse = fuse;
  // The tests of kernels also run on the emulator of GPUs.
  if (const char *rows = std::getenv("HEDDLE_TEST_GPU_ROWS"))
    options.gpuRows = rows;
  auto runner = KernelRunner::compile(text, options);
  if (!runner) {
    ADD_FAILURE() << llvm::toString(runner.takeError());
    return nullptr;
  }
  return std::move(*runner);
}

/// Runs a kernel's blocks one by one from the last to the first. The result
/// must have the same bits as in any other order.
inline void launchBackwards(KernelFunction kernel, void *const *buffers,
                            int64_t blocks, int64_t) {
  for (int64_t block = blocks; block-- > 0;)
    kernel(buffers, block, block + 1);
}

template <typename... Vectors> std::vector<void *> pointers(Vectors &...all) {
  return {const_cast<void *>(static_cast<const void *>(all.data()))...};
}

inline void run(KernelRunner &runner, const std::string &function,
                std::vector<void *> arguments, std::vector<void *> results,
                bool backwards = false) {
  llvm::Error error =
      runner.run(function, arguments, results,
                 backwards ? launchBackwards : KernelRunner::Launcher());
  if (error)
    ADD_FAILURE() << llvm::toString(std::move(error));
}

/// Expects |got - expected| <= tolerance * (1 + |expected|) for each element,
/// and an infinity or NaN where the expected value is one.
inline void expectNear(const Floats &got, const std::vector<double> &expected,
                       double tolerance, const char *what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  // One thread for a row adds up long sums one by one.
  const char *rows = std::getenv("HEDDLE_TEST_GPU_ROWS");
  if (rows && (*rows == 't' || *rows == 'w'))
    tolerance *= 8;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(expected[i])) {
      ASSERT_TRUE(std::isnan(got[i])) << what << " at " << i << ": " << got[i];
    } else if (std::isinf(expected[i])) {
      ASSERT_EQ(got[i], float(expected[i])) << what << " at " << i;
    } else {
      ASSERT_LE(std::abs(got[i] - expected[i]),
                tolerance * (1 + std::abs(expected[i])))
          << what << " at " << i << ": " << got[i] << ", expected "
          << expected[i];
    }
  }
}

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_LOWER_KERNELS_H
