//===- Elements.cpp - Element types of safetensors, and conversions -------===//

#include "heddle_rt/safetensors.h"

#include <array>
#include <bit>
#include <cstring>
#include <utility>

using namespace heddle::runtime;
using namespace heddle::runtime::safetensors;

static_assert(std::endian::native == std::endian::little,
              "safetensors files are little endian, and so must we be");

namespace {
struct DTypeRow {
  DType dtype;
  std::string_view name;
  uint64_t bytes;
  bool isFloat;
};

/// The table of element types, in the order of DType.
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

/// Types for 16-bit floats, which C++20 does not have.
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

/// Calls `convert(i, element)` for i in [0, count), with element `first` + i of
/// the tensor's `bytes`.
template <typename T, typename Fn>
void forEach(std::span<const std::byte> bytes, int64_t first, size_t count,
             Fn convert) {
  const std::byte *from = bytes.data() + static_cast<size_t>(first) * sizeof(T);
  for (size_t i = 0; i < count; ++i) {
    T element; // a copy, because the data may be unaligned
    std::memcpy(&element, from + i * sizeof(T), sizeof(T));
    convert(i, element);
  }
}

/// Calls forEach for a tensor of integers. Returns false for a tensor of
/// floats.
template <typename Fn>
bool forEachInteger(DType dtype, std::span<const std::byte> bytes,
                    int64_t first, size_t count, Fn convert) {
  auto read = [&]<typename T>() {
    forEach<T>(bytes, first, count, convert);
    return true;
  };
  switch (dtype) {
  case DType::Bool:
  case DType::U8:
    return read.template operator()<uint8_t>();
  case DType::I8:
    return read.template operator()<int8_t>();
  case DType::U16:
    return read.template operator()<uint16_t>();
  case DType::I16:
    return read.template operator()<int16_t>();
  case DType::U32:
    return read.template operator()<uint32_t>();
  case DType::I32:
    return read.template operator()<int32_t>();
  case DType::U64:
    return read.template operator()<uint64_t>();
  case DType::I64:
    return read.template operator()<int64_t>();
  case DType::F16:
  case DType::BF16:
  case DType::F32:
  case DType::F64:
    break;
  }
  return false;
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
  if (forEachInteger(dtype, data, first, out.size(), convert))
    return Status();
  if (dtype == DType::F16)
    forEach<Half>(data, first, out.size(), convert);
  else if (dtype == DType::BF16)
    forEach<BFloat16>(data, first, out.size(), convert);
  else if (dtype == DType::F64)
    forEach<double>(data, first, out.size(), convert);
  else if (!out.empty())
    std::memcpy(out.data(),
                data.data() + static_cast<size_t>(first) * sizeof(float),
                out.size_bytes());
  return Status();
}

Status Tensor::readI64(int64_t first, std::span<int64_t> out) const {
  HEDDLE_RT_RETURN_IF_ERROR(checkRange(*this, first, out.size()));
  bool fits = true;
  auto convert = [&](size_t i, auto element) {
    fits &= std::in_range<int64_t>(element);
    out[i] = static_cast<int64_t>(element);
  };
  if (!forEachInteger(dtype, data, first, out.size(), convert))
    return error("tensor '" + name + "': expected an integer type, got " +
                 std::string(safetensors::name(dtype)));
  if (!fits)
    return error("tensor '" + name +
                 "': expected values that fit in i64, got larger ones");
  return Status();
}
