//===- GraphBuilder.h - Builds graphs of cuDNN ------------------*- C++ -*-===//

#ifndef HEDDLE_RT_BACKENDS_CUDA_GRAPHBUILDER_H
#define HEDDLE_RT_BACKENDS_CUDA_GRAPHBUILDER_H

#include "backends/cuda/driver/Cudnn.h"
#include "support/Message.h"

#include <array>
#include <vector>

namespace heddle::runtime::cuda {

/// All tensors are [batch, heads, rows, columns].
using Four = std::array<int64_t, 4>;

struct Tensor {
  dnn::Descriptor descriptor = nullptr;
  Four size{};
};

inline Four denseStrides(Four size) {
  return {size[1] * size[2] * size[3], size[2] * size[3], size[3], 1};
}
inline Four swapLast(Four four) { return {four[0], four[1], four[3], four[2]}; }

/// Builds descriptors. After the first error, calls do nothing.
class GraphBuilder {
public:
  /// `owned` gets all descriptors, for the caller to destroy. Tensors between
  /// operations have ids from `firstVirtual` on.
  GraphBuilder(const dnn::Cudnn &library, std::vector<dnn::Descriptor> &owned,
               int64_t firstVirtual)
      : library(library), owned(owned), nextId(firstVirtual) {}

  Status status;
  std::vector<dnn::Descriptor> operations;

  dnn::Descriptor create(dnn::DescriptorType type) {
    dnn::Descriptor made = nullptr;
    if (status.ok())
      status = library.check(library.createDescriptor(type, &made),
                             "cudnnBackendCreateDescriptor");
    if (made)
      owned.push_back(made);
    return made;
  }
  void set(dnn::Descriptor of, dnn::Attribute attribute,
           dnn::AttributeType type, int64_t count, const void *values) {
    if (status.ok())
      status =
          library
              .check(library.setAttribute(of, attribute, type, count, values),
                     "cudnnBackendSetAttribute")
              .in(concat("attribute ", int(attribute)));
  }
  void set(dnn::Descriptor of, dnn::Attribute attribute,
           dnn::Descriptor descriptor) {
    set(of, attribute, dnn::kTypeDescriptor, 1, &descriptor);
  }
  void finalize(dnn::Descriptor descriptor) {
    if (status.ok())
      status =
          library.check(library.finalize(descriptor), "cudnnBackendFinalize");
  }

  Tensor real(int64_t id, Four size, Four strides, dnn::DataType type) {
    return tensor(id, size, strides, type, false, false);
  }
  /// A number of the host, which each run passes.
  Tensor number(int64_t id) {
    return tensor(id, {1, 1, 1, 1}, {1, 1, 1, 1}, dnn::kF32, false, true);
  }
  Tensor between(Four size, Four strides, dnn::DataType type = dnn::kF32) {
    return tensor(nextId++, size, strides, type, true, false);
  }
  Tensor between(Four size, dnn::DataType type = dnn::kF32) {
    return between(size, denseStrides(size), type);
  }

  /// y = a b
  void multiply(Tensor a, Tensor b, Tensor y) {
    dnn::Descriptor product = create(dnn::kMatmul);
    set(product, dnn::kMatmulComputeType, dnn::kTypeDataType, 1, &kFloat);
    finalize(product);
    dnn::Descriptor operation = create(dnn::kOperationMatmul);
    set(operation, dnn::kOpMatmulA, a.descriptor);
    set(operation, dnn::kOpMatmulB, b.descriptor);
    set(operation, dnn::kOpMatmulC, y.descriptor);
    set(operation, dnn::kOpMatmulDescriptor, product);
    add(operation);
  }
  /// Sums or maxima of x along the dimensions in which y is smaller.
  void reduce(dnn::ReductionOperator operation, Tensor x, Tensor y) {
    dnn::Descriptor reduction = create(dnn::kReduction);
    set(reduction, dnn::kReductionComputeType, dnn::kTypeDataType, 1, &kFloat);
    set(reduction, dnn::kReductionOperator, dnn::kTypeReductionOperator, 1,
        &operation);
    finalize(reduction);
    dnn::Descriptor made = create(dnn::kOperationReduction);
    set(made, dnn::kOpReductionX, x.descriptor);
    set(made, dnn::kOpReductionY, y.descriptor);
    set(made, dnn::kOpReductionDescriptor, reduction);
    add(made);
  }
  struct Pointwise {
    const Tensor *b = nullptr, *t = nullptr;
    int64_t axis = -1;
    dnn::DataType computeType = dnn::kF32;
  };
  void pointwise(dnn::PointwiseMode mode, Tensor x, Tensor y,
                 Pointwise options) {
    dnn::Descriptor made = create(dnn::kPointwise);
    set(made, dnn::kPointwiseMode, dnn::kTypePointwiseMode, 1, &mode);
    set(made, dnn::kPointwiseComputeType, dnn::kTypeDataType, 1,
        &options.computeType);
    if (options.axis >= 0)
      set(made, dnn::kPointwiseAxis, dnn::kTypeInt64, 1, &options.axis);
    finalize(made);
    dnn::Descriptor operation = create(dnn::kOperationPointwise);
    set(operation, dnn::kOpPointwiseDescriptor, made);
    set(operation, dnn::kOpPointwiseX, x.descriptor);
    if (options.b)
      set(operation, dnn::kOpPointwiseB, options.b->descriptor);
    if (options.t)
      set(operation, dnn::kOpPointwiseT, options.t->descriptor);
    set(operation, dnn::kOpPointwiseY, y.descriptor);
    add(operation);
  }
  /// The same elements, under other sizes.
  void reshape(Tensor x, Tensor y) {
    dnn::Descriptor operation = create(dnn::kOperationReshape);
    set(operation, dnn::kOpReshapeX, x.descriptor);
    set(operation, dnn::kOpReshapeY, y.descriptor);
    add(operation);
  }

  // As above. The result is a new tensor of x's size between operations.
  Tensor unary(dnn::PointwiseMode mode, Tensor x) {
    Tensor y = between(x.size);
    pointwise(mode, x, y, {});
    return y;
  }
  Tensor binary(dnn::PointwiseMode mode, Tensor x, Tensor b,
                dnn::DataType type = dnn::kF32) {
    Tensor y = between(x.size, type);
    pointwise(mode, x, y, {.b = &b, .computeType = type});
    return y;
  }
  /// The index of each element along a dimension.
  Tensor index(Tensor x, int64_t dimension) {
    Tensor y = between(x.size, dnn::kInt32);
    pointwise(dnn::kIndex, x, y,
              {.axis = dimension, .computeType = dnn::kInt32});
    return y;
  }

private:
  Tensor tensor(int64_t id, Four size, Four strides, dnn::DataType type,
                bool isVirtual, bool isByValue) {
    constexpr int64_t alignment = 16;
    dnn::Descriptor made = create(dnn::kTensor);
    set(made, dnn::kTensorId, dnn::kTypeInt64, 1, &id);
    set(made, dnn::kTensorType, dnn::kTypeDataType, 1, &type);
    set(made, dnn::kTensorDimensions, dnn::kTypeInt64, 4, size.data());
    set(made, dnn::kTensorStrides, dnn::kTypeInt64, 4, strides.data());
    set(made, dnn::kTensorAlignment, dnn::kTypeInt64, 1, &alignment);
    set(made, dnn::kTensorIsVirtual, dnn::kTypeBoolean, 1, &isVirtual);
    set(made, dnn::kTensorIsByValue, dnn::kTypeBoolean, 1, &isByValue);
    finalize(made);
    return {made, size};
  }
  void add(dnn::Descriptor operation) {
    finalize(operation);
    operations.push_back(operation);
  }

  static constexpr dnn::DataType kFloat = dnn::kF32;
  const dnn::Cudnn &library;
  std::vector<dnn::Descriptor> &owned;
  int64_t nextId;
};

} // namespace heddle::runtime::cuda

#endif // HEDDLE_RT_BACKENDS_CUDA_GRAPHBUILDER_H
