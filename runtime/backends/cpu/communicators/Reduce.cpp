//===- Reduce.cpp - Sums and maxima of several members' buffers -----------===//

#include "backends/cpu/communicators/Reduce.h"
#include "backends/cpu/kernels/Isa.h"
#include "support/Half.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace heddle::runtime {

namespace {

/// Bytes of a block. It stays in the first-level cache while the members'
/// elements are added to it.
constexpr int64_t blockBytes = 16384;

/// An element format: buffers store a `Stored`, reductions compute with a
/// `Sum`.
template <typename T> struct Plain {
  using Stored = T;
  using Sum = T;
  static void load(const T *from, T *to, int64_t count) {
    std::memcpy(to, from, size_t(count) * sizeof(T));
  }
  static void store(const T *from, T *to, int64_t count) {
    std::memcpy(to, from, size_t(count) * sizeof(T));
  }
};
struct BF16 {
  using Stored = uint16_t;
  using Sum = float;
  static void load(const uint16_t *from, float *to, int64_t count) {
    isaKernels().bf16ToF32(from, to, count);
  }
  static void store(const float *from, uint16_t *to, int64_t count) {
    isaKernels().f32ToBf16(from, to, count);
  }
};
struct F16 {
  using Stored = uint16_t;
  using Sum = float;
  static void load(const uint16_t *from, float *to, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      to[i] = f16ToF32(from[i]);
  }
  static void store(const float *from, uint16_t *to, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      to[i] = f32ToF16(from[i]);
  }
};

/// Adds two elements. Integers wrap around, as they do in compiled code.
template <typename T> T add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return T(Unsigned(a) + Unsigned(b));
  } else {
    return a + b;
  }
}

template <typename T>
void combine(Reduction reduction, T *accumulator, const T *in, int64_t count) {
  if constexpr (std::is_same_v<T, float>) {
    if (reduction == HEDDLE_RT_SUM)
      isaKernels().sumF32(accumulator, in, count);
    else
      isaKernels().maxF32(accumulator, in, count);
  } else if (reduction == HEDDLE_RT_SUM) {
    for (int64_t i = 0; i < count; ++i)
      accumulator[i] = add(accumulator[i], in[i]);
  } else {
    for (int64_t i = 0; i < count; ++i)
      if (!(accumulator[i] >= in[i]) && accumulator[i] == accumulator[i])
        accumulator[i] = in[i];
  }
}

template <typename Format>
void reduceAs(Reduction reduction, std::span<const void *const> ins,
              int64_t inOffset, std::span<void *const> outs, int64_t outOffset,
              int64_t count) {
  using Stored = typename Format::Stored;
  using Sum = typename Format::Sum;
  constexpr int64_t block = blockBytes / int64_t(sizeof(Sum));
  alignas(64) Sum accumulator[block], operand[block];
  for (int64_t begin = 0; begin < count; begin += block) {
    int64_t size = std::min(block, count - begin);
    Format::load(static_cast<const Stored *>(ins[0]) + inOffset + begin,
                 accumulator, size);
    for (size_t i = 1; i < ins.size(); ++i) {
      const Stored *in = static_cast<const Stored *>(ins[i]) + inOffset + begin;
      if constexpr (std::is_same_v<Stored, Sum>) {
        combine(reduction, accumulator, in, size);
      } else {
        Format::load(in, operand, size);
        combine(reduction, accumulator, operand, size);
      }
    }
    for (void *out : outs)
      Format::store(accumulator, static_cast<Stored *>(out) + outOffset + begin,
                    size);
  }
}

} // namespace

void reduceInto(Reduction reduction, DType type,
                std::span<const void *const> ins, int64_t inOffset,
                std::span<void *const> outs, int64_t outOffset, int64_t count) {
  auto as = [&](auto format) {
    reduceAs<decltype(format)>(reduction, ins, inOffset, outs, outOffset,
                               count);
  };
  switch (type) {
  case HEDDLE_RT_F32:
    return as(Plain<float>());
  case HEDDLE_RT_F64:
    return as(Plain<double>());
  case HEDDLE_RT_I32:
    return as(Plain<int32_t>());
  case HEDDLE_RT_I64:
    return as(Plain<int64_t>());
  case HEDDLE_RT_BF16:
    return as(BF16());
  case HEDDLE_RT_F16:
    return as(F16());
  case HEDDLE_RT_I8:
    return as(Plain<int8_t>());
  case HEDDLE_RT_I1:
    return; // refused by CheckedCommunicator
  }
}

} // namespace heddle::runtime
