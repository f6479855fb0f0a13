//===- Elements.cpp - Element types of safetensors, and conversions -------===//

#include "heddle_rt/safetensors.h"

#include <array>
#include <bit>
#include <cstring>
#include <limits>

using namespace heddle::rt;
using namespace heddle::rt::safetensors;

static_assert(std::endian::native == std::endian::little,
              "safetensors files are little endian, and so must we be");

namespace {
struct DTypeRow {
  DType dtype;
  std::string_view name;
  uint64_t bytes;
  bool isFloat;
};

/// In order of the enumeration.
constexpr std::array<DTypeRow, 13> dtypeTable = {{
    {DType::Bool, "BOOL", 1, false},
    {DType::U8, "U8", 1, false},
    {DType::I8, "I8", 1, false},
    {DType::U16, "U16", 2, false},
    {DType::I16, "I16", 2, false},
    {DType::U32, "U32", 4, false},
    {DType::I32, "I32", 4, false},
    {DType::U64, "U64", 8, false},
    {DType::I64, "I64", 8, false},
    {DType::F16, "F16", 2, true},
    {DType::BF16, "BF16", 2, true},
    {DType::F32, "F32", 4, true},
    {DType::F64, "F64", 8, true},
}};

const DTypeRow &row(DType dtype) {
  return dtypeTable[static_cast<size_t>(dtype)];
}

/// Tags for the 16-bit types, which C++20 lacks.
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

template <typename T> float toF32(T value) { return static_cast<float>(value); }

float toF32(BFloat16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

float toF32(Half value) {
  uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000) << 16;
  uint32_t exponent = (value.bits >> 10) & 0x1f;
  uint32_t mantissa = value.bits & 0x3ff;
  if (exponent == 0x1f) // infinity, or NaN with its payload
    return std::bit_cast<float>(sign | 0x7f800000 | (mantissa << 13));
  if (exponent == 0) { // zero or subnormal: mantissa * 2^-24 is exact in f32
    float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) |
                              (mantissa << 13));
}

/// Calls `convert(i, element)` for elements [first, first + count) of `bytes`.
template <typename T, typename Fn>
void forEach(std::span<const std::byte> bytes, int64_t first, size_t count,
             Fn convert) {
  const std::byte *from = bytes.data() + static_cast<size_t>(first) * sizeof(T);
  for (size_t i = 0; i < count; ++i) {
    T element; // copied: the data need not be aligned
    std::memcpy(&element, from + i * sizeof(T), sizeof(T));
    convert(i, element);
  }
}

Status checkRange(const Tensor &tensor, int64_t first, size_t count) {
  if (first >= 0 && first <= tensor.elements &&
      count <= static_cast<uint64_t>(tensor.elements - first))
    return Status();
  return error("tensor '" + tensor.name + "': expected elements within its " +
               std::to_string(tensor.elements) + ", got " +
               std::to_string(count) + " from " + std::to_string(first));
}
} // namespace

uint64_t safetensors::byteSize(DType dtype) { return row(dtype).bytes; }

std::string_view safetensors::name(DType dtype) { return row(dtype).name; }

bool safetensors::isFloat(DType dtype) { return row(dtype).isFloat; }

std::optional<DType> safetensors::parseDType(std::string_view name) {
  for (const DTypeRow &entry : dtypeTable)
    if (entry.name == name)
      return entry.dtype;
  return std::nullopt;
}

std::optional<int64_t>
safetensors::numElements(std::span<const int64_t> shape) {
  int64_t product = 1;
  for (int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(product, size, &product))
      return std::nullopt;
  return product;
}

std::string safetensors::shapeToString(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

Status Tensor::readF32(int64_t first, std::span<float> out) const {
  HEDDLE_RT_RETURN_IF_ERROR(checkRange(*this, first, out.size()));
  auto convert = [&](size_t i, auto element) { out[i] = toF32(element); };
  switch (dtype) {
  case DType::Bool:
  case DType::U8:
    forEach<uint8_t>(data, first, out.size(), convert);
    break;
  case DType::I8:
    forEach<int8_t>(data, first, out.size(), convert);
    break;
  case DType::U16:
    forEach<uint16_t>(data, first, out.size(), convert);
    break;
  case DType::I16:
    forEach<int16_t>(data, first, out.size(), convert);
    break;
  case DType::U32:
    forEach<uint32_t>(data, first, out.size(), convert);
    break;
  case DType::I32:
    forEach<int32_t>(data, first, out.size(), convert);
    break;
  case DType::U64:
    forEach<uint64_t>(data, first, out.size(), convert);
    break;
  case DType::I64:
    forEach<int64_t>(data, first, out.size(), convert);
    break;
  case DType::F16:
    forEach<Half>(data, first, out.size(), convert);
    break;
  case DType::BF16:
    forEach<BFloat16>(data, first, out.size(), convert);
    break;
  case DType::F32:
    if (!out.empty())
      std::memcpy(out.data(),
                  data.data() + static_cast<size_t>(first) * sizeof(float),
                  out.size_bytes());
    break;
  case DType::F64:
    forEach<double>(data, first, out.size(), convert);
    break;
  }
  return Status();
}

Status Tensor::readI64(int64_t first, std::span<int64_t> out) const {
  HEDDLE_RT_RETURN_IF_ERROR(checkRange(*this, first, out.size()));
  auto convert = [&](size_t i, auto element) {
    out[i] = static_cast<int64_t>(element);
  };
  switch (dtype) {
  case DType::Bool:
  case DType::U8:
    forEach<uint8_t>(data, first, out.size(), convert);
    break;
  case DType::I8:
    forEach<int8_t>(data, first, out.size(), convert);
    break;
  case DType::U16:
    forEach<uint16_t>(data, first, out.size(), convert);
    break;
  case DType::I16:
    forEach<int16_t>(data, first, out.size(), convert);
    break;
  case DType::U32:
    forEach<uint32_t>(data, first, out.size(), convert);
    break;
  case DType::I32:
    forEach<int32_t>(data, first, out.size(), convert);
    break;
  case DType::U64: {
    bool fits = true;
    forEach<uint64_t>(data, first, out.size(), [&](size_t i, uint64_t element) {
      fits &= element <= static_cast<uint64_t>(INT64_MAX);
      out[i] = static_cast<int64_t>(element);
    });
    if (!fits)
      return error("tensor '" + name +
                   "': expected values that fit in i64, got larger ones");
    break;
  }
  case DType::I64:
    forEach<int64_t>(data, first, out.size(), convert);
    break;
  case DType::F16:
  case DType::BF16:
  case DType::F32:
  case DType::F64:
    return error("tensor '" + name + "': expected an integer type, got " +
                 std::string(safetensors::name(dtype)));
  }
  return Status();
}
