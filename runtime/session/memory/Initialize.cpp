//===- Initialize.cpp - First values of variables -------------------------===//
//
// The initial value of element i of a variable (i counts in the global tensor)
// is a function of the seed, the variable's name and i. It comes from Philox
// block i / 4 of the stream that the hash of the name selects. A slice uses the
// name and the indices of its whole tensor. The Box-Muller transform makes two
// neighbouring normal numbers from two uniform numbers.
//
//===----------------------------------------------------------------------===//

#include "heddle_rt/philox.h"
#include "session/state/SessionState.h"
#include "support/Half.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <string_view>

namespace heddle::runtime {

namespace {

/// 64-bit FNV-1a.
uint64_t hashName(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (char character : name)
    hash = (hash ^ uint8_t(character)) * 0x100000001b3u;
  return hash;
}

class NormalStream {
public:
  NormalStream(uint64_t seed, std::string_view name)
      : generator(seed), stream(hashName(name)) {}

  /// Returns standard normal numbers for elements 4 * block .. 4 * block + 3.
  std::array<float, 4> operator()(uint64_t block) const {
    std::array<uint32_t, 4> words =
        generator({uint32_t(block), uint32_t(block >> 32), uint32_t(stream),
                   uint32_t(stream >> 32)});
    std::array<float, 4> normal;
    for (size_t pair = 0; pair < 4; pair += 2) {
      // Greater than 0, because the logarithm of 0 does not exist; at most 1.
      auto uniform = float((double(words[pair]) + 0.5) * 0x1p-32);
      auto angle =
          float(double(words[pair + 1]) * 0x1p-32 * 2 * std::numbers::pi);
      float radius = std::sqrt(-2.0f * std::log(uniform));
      normal[pair] = radius * std::cos(angle);
      normal[pair + 1] = radius * std::sin(angle);
    }
    return normal;
  }

private:
  Philox4x32 generator;
  uint64_t stream;
};

void store(DType type, double value, uint8_t *to) {
  auto put = [&](auto element) { std::memcpy(to, &element, sizeof element); };
  auto single = float(value);
  switch (type) {
  case HEDDLE_RT_F32:
    return put(single);
  case HEDDLE_RT_F64:
    return put(value);
  case HEDDLE_RT_BF16:
    return put(f32ToBf16(single));
  case HEDDLE_RT_F16:
    return put(f32ToF16(single));
  case HEDDLE_RT_I1:
    return put(uint8_t(value != 0));
  case HEDDLE_RT_I8:
    return put(int8_t(value));
  case HEDDLE_RT_I32:
    return put(int32_t(value));
  case HEDDLE_RT_I64:
    return put(int64_t(value));
  }
}

} // namespace

namespace {
/// Maps the indices of a slice's elements to those of its whole tensor.
struct WholeIndex {
  /// `run` elements of the slice are contiguous in the whole tensor. There,
  /// runs start `wholeRun` elements apart, the first at `offset`.
  int64_t run, wholeRun, offset;

  explicit WholeIndex(const VariableInfo &variable) {
    int64_t inner = 1;
    run = wholeRun = std::max<int64_t>(variable.elements(), 1);
    offset = 0;
    if (!variable.slice)
      return;
    size_t dim = size_t(variable.slice->dim);
    for (size_t i = dim + 1; i < variable.shape.size(); ++i)
      inner *= variable.shape[i];
    run = variable.shape[dim] * inner;
    wholeRun = variable.slice->size * inner;
    offset = variable.slice->offset * inner;
  }
  int64_t operator()(int64_t element) const {
    return element / run * wholeRun + offset + element % run;
  }
  /// Returns the number of elements, from `element` on, that are contiguous in
  /// the whole tensor.
  int64_t following(int64_t element) const { return run - element % run; }
};
} // namespace

Status initializeBlock(const PlacedTensor &tensor, const VariableInfo &variable,
                       uint64_t seed, heddle_rt_device &device) {
  const Initializer &init = variable.init;
  const Layout &layout = tensor.layout;
  DType type = tensor.info->type;
  size_t bytes = layout.elementBytes();
  uint8_t *buffer = tensor.buffers[size_t(device.rank)];
  int64_t own = layout.blockOf(device.rank);
  NormalStream normal(seed, variable.wholeName());
  WholeIndex whole(variable);
  double constant = init.kind == Initializer::Kind::Ones       ? 1.0
                    : init.kind == Initializer::Kind::Constant ? init.value
                                                               : 0.0;
  auto mean = float(init.mean), deviation = float(init.std);
  // Writes elements from `global` on, which lie in one run, to host memory.
  auto compute = [&](int64_t global, int64_t length, uint8_t *to) {
    if (init.kind != Initializer::Kind::Normal) {
      for (int64_t i = 0; i < length; ++i)
        store(type, constant, to + size_t(i) * bytes);
      return;
    }
    for (int64_t i = 0; i < length;) {
      int64_t end = std::min(length, i + whole.following(global + i));
      uint64_t element = uint64_t(whole(global + i));
      std::array<float, 4> values = normal(element / 4);
      for (uint64_t lane = element % 4; lane < 4 && i < end; ++lane, ++i)
        store(type, double(mean + deviation * values[lane]),
              to + size_t(i) * bytes);
    }
  };
  // A copy to a GPU costs some 10 us, whatever its size.
  constexpr int64_t piece = 8192;
  auto fill = [&](int64_t begin, int64_t end) {
    Status status;
    std::array<uint8_t, size_t(piece) * sizeof(double)> staging;
    layout.forEachRun(
        begin, end - begin,
        [&](int64_t block, int64_t offset, int64_t global, int64_t length) {
          if (block != own)
            return;
          for (int64_t i = 0; i < length && status.ok(); i += piece) {
            int64_t count = std::min(piece, length - i);
            compute(global + i, count, staging.data());
            status = device.copyToDevice(buffer + size_t(offset + i) * bytes,
                                         staging.data(), size_t(count) * bytes);
          }
        });
    return status;
  };
  return device.runOnHost(layout.globalElements(), 1 << 18, fill);
}

} // namespace heddle::runtime
