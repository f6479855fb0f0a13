//===- CudnnEvaluation.cpp - Computes graphs of the emulated cuDNN --------===//

#include "CudnnGraph.h"

#include <cmath>
#include <limits>

using namespace heddle;
using namespace heddle::emulated;
namespace dnn = heddle::runtime::cuda::dnn;

std::string Evaluation::bind(const Descriptor &graph, const Addresses &given) {
  operations = operationsOf(graph);
  for (const GraphOperation &operation : operations) {
    auto all = operation.inputs;
    all.push_back(operation.result);
    for (const GraphTensor &each : all) {
      auto found = given.find(each.id);
      auto name = "tensor " + std::to_string(each.id);
      // "Virtual tensors are not read from or written to global memory".
      if (each.isVirtual) {
        if (found != given.end())
          return name + " is virtual and has an address";
        continue;
      }
      if (found == given.end() || !found->second)
        return name + " has no address";
      if (each.isByValue) {
        numbers[each.id] = *static_cast<const float *>(found->second);
        continue;
      }
      // "BYTE_ALIGNMENT: byte alignment of pointers for this tensor".
      if (reinterpret_cast<uintptr_t>(found->second) % uint64_t(each.alignment))
        return name + " is not as aligned as its descriptor says";
      addresses[each.id] = found->second;
    }
  }
  return "";
}

std::string Evaluation::check(const Gpu &gpu) const {
  for (const GraphOperation &operation : operations) {
    auto all = operation.inputs;
    all.push_back(operation.result);
    for (const GraphTensor &each : all) {
      if (each.isVirtual || each.isByValue)
        continue;
      auto address = reinterpret_cast<uint64_t>(addresses.at(each.id));
      auto name = "tensor " + std::to_string(each.id);
      if (std::string text = gpu.check(address, each.bytes(), name.c_str());
          !text.empty())
        return text;
    }
  }
  return "";
}

namespace {

/// Calls body(index, batch, head, row, column) for all elements.
template <typename Body> void forEach(const Four &size, Body &&body) {
  int64_t index = 0;
  for (int64_t b = 0; b < size[0]; ++b)
    for (int64_t h = 0; h < size[1]; ++h)
      for (int64_t i = 0; i < size[2]; ++i)
        for (int64_t j = 0; j < size[3]; ++j)
          body(index++, Four{b, h, i, j});
}

float load(int type, const void *data, int64_t place) {
  if (type == dnn::kF32)
    return static_cast<const float *>(data)[place];
  uint16_t half = static_cast<const uint16_t *>(data)[place];
  if (type == dnn::kF16) {
    _Float16 value;
    std::memcpy(&value, &half, sizeof half);
    return float(value);
  }
  uint32_t bits = uint32_t(half) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}
uint16_t narrow(int type, float value) {
  uint16_t half;
  if (type == dnn::kF16) {
    auto rounded = _Float16(value);
    std::memcpy(&half, &rounded, sizeof half);
    return half;
  }
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return uint16_t((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

int64_t placeOf(const Four &strides, const Four &index) {
  int64_t place = 0;
  for (int i = 0; i < 4; ++i)
    place += strides[i] * index[i];
  return place;
}

/// Returns the place of an element in a tensor without gaps. The tensor is
/// repeated along the dimensions in which it is smaller.
int64_t repeated(const Four &size, Four index, const Four &of) {
  int64_t place = 0;
  for (int i = 0; i < 4; ++i)
    place = place * size[i] + index[i] * size[i] / of[i];
  return place;
}

float combine(int mode, float x, float b) {
  switch (mode) {
  case dnn::kAdd:
    return x + b;
  case dnn::kMultiply:
    return x * b;
  case dnn::kDivide:
    return x / b;
  case dnn::kSubtract:
    return x - b;
  case dnn::kGreater:
    return x > b;
  case dnn::kGreaterOrEqual:
    return x >= b;
  case dnn::kExp:
    return std::exp(x);
  case dnn::kLog:
    return std::log(x);
  }
  return std::numeric_limits<float>::quiet_NaN();
}

} // namespace

Evaluation::Values Evaluation::read(const GraphTensor &tensor) const {
  if (tensor.isVirtual)
    return virtuals.at(tensor.id);
  if (tensor.isByValue)
    return {numbers.at(tensor.id)};
  Values values;
  forEach(tensor.size, [&](int64_t, const Four &index) {
    values.push_back(load(tensor.type, addresses.at(tensor.id),
                          placeOf(tensor.strides, index)));
  });
  return values;
}

void Evaluation::write(const GraphTensor &tensor, Values values) {
  bool isNarrow = tensor.type == dnn::kF16 || tensor.type == dnn::kBF16;
  if (tensor.isVirtual) {
    for (float &value : values)
      if (isNarrow) {
        uint16_t half = narrow(tensor.type, value);
        value = load(tensor.type, &half, 0);
      }
    virtuals[tensor.id] = std::move(values);
    return;
  }
  auto *data = const_cast<void *>(addresses.at(tensor.id));
  forEach(tensor.size, [&](int64_t number, const Four &index) {
    int64_t place = placeOf(tensor.strides, index);
    float value = values[size_t(number)];
    if (isNarrow)
      static_cast<uint16_t *>(data)[place] = narrow(tensor.type, value);
    else
      static_cast<float *>(data)[place] = value;
  });
}

Evaluation::Values Evaluation::evaluate(const GraphOperation &operation) const {
  const GraphTensor &x = operation.inputs[0], &y = operation.result;
  Values from = read(x), to(size_t(y.count()));
  if (operation.type == dnn::kOperationReshape) {
    // The same memory under other sizes and strides.
    Values memory(x.bytes() / x.elementBytes());
    forEach(x.size, [&](int64_t number, const Four &index) {
      memory[size_t(placeOf(x.strides, index))] = from[size_t(number)];
    });
    forEach(y.size, [&](int64_t number, const Four &index) {
      to[size_t(number)] = memory[size_t(placeOf(y.strides, index))];
    });
    return to;
  }
  if (operation.type == dnn::kOperationMatmul) {
    const GraphTensor &b = operation.inputs[1];
    Values right = read(b);
    forEach(y.size, [&](int64_t number, const Four &index) {
      int64_t head = index[1] * b.size[1] / y.size[1];
      float sum = 0;
      for (int64_t k = 0; k < x.size[3]; ++k)
        sum += from[size_t(
                   ((index[0] * x.size[1] + index[1]) * x.size[2] + index[2]) *
                       x.size[3] +
                   k)] *
               right[size_t(((index[0] * b.size[1] + head) * b.size[2] + k) *
                                b.size[3] +
                            index[3])];
      to[size_t(number)] = sum;
    });
    return to;
  }
  if (operation.type == dnn::kOperationReduction) {
    bool isSum = operation.mode == dnn::kSum;
    std::fill(to.begin(), to.end(),
              isSum ? 0 : -std::numeric_limits<float>::infinity());
    forEach(x.size, [&](int64_t number, const Four &index) {
      float &result = to[size_t(repeated(y.size, index, x.size))];
      float value = from[size_t(number)];
      result = isSum ? result + value : std::max(result, value);
    });
    return to;
  }
  Values b, t;
  if (operation.inputs.size() > 1)
    b = read(operation.inputs[1]);
  if (operation.inputs.size() > 2)
    t = read(operation.inputs[2]);
  forEach(y.size, [&](int64_t number, const Four &index) {
    float value = from[size_t(number)];
    float other =
        b.empty()
            ? 0
            : b[size_t(repeated(operation.inputs[1].size, index, y.size))];
    to[size_t(number)] =
        operation.mode == dnn::kIndex ? float(index[size_t(operation.axis)])
        : operation.mode == dnn::kSelect
            ? (t[size_t(repeated(operation.inputs[2].size, index, y.size))] != 0
                   ? value
                   : other)
            : combine(operation.mode, value, other);
  });
  return to;
}

void Evaluation::run() {
  for (const GraphOperation &operation : operations)
    write(operation.result, evaluate(operation));
  virtuals.clear();
}
