//===- CudnnGraph.cpp - Operation graphs of the emulated cuDNN ------------===//

#include "CudnnGraph.h"

using namespace heddle;
using namespace heddle::emulated;
namespace dnn = heddle::runtime::cuda::dnn;

//===----------------------------------------------------------------------===//
// Descriptors
//===----------------------------------------------------------------------===//

GraphTensor::GraphTensor(const Descriptor &descriptor)
    : id(descriptor.get<int64_t>(dnn::kTensorId)),
      alignment(descriptor.get<int64_t>(dnn::kTensorAlignment)),
      type(descriptor.get<int>(dnn::kTensorType)),
      isVirtual(descriptor.get<bool>(dnn::kTensorIsVirtual)),
      isByValue(descriptor.get<bool>(dnn::kTensorIsByValue)) {
  auto sizes = descriptor.list<int64_t>(dnn::kTensorDimensions);
  auto steps = descriptor.list<int64_t>(dnn::kTensorStrides);
  std::copy_n(sizes.begin(), std::min<size_t>(4, sizes.size()), size.begin());
  std::copy_n(steps.begin(), std::min<size_t>(4, steps.size()),
              strides.begin());
}

size_t GraphTensor::elementBytes() const {
  return type == dnn::kF16 || type == dnn::kBF16 ? 2
         : type == dnn::kBoolean                 ? 1
                                                 : 4;
}

size_t GraphTensor::bytes() const {
  int64_t last = 0;
  for (int i = 0; i < 4; ++i)
    last += (size[i] - 1) * strides[i];
  return size_t(last + 1) * elementBytes();
}

static const Descriptor &tensorOf(const Descriptor &operation, int attribute) {
  return *operation.get<Descriptor *>(attribute);
}

static int resultOf(int operation) {
  switch (operation) {
  case dnn::kOperationMatmul:
    return dnn::kOpMatmulC;
  case dnn::kOperationReduction:
    return dnn::kOpReductionY;
  case dnn::kOperationReshape:
    return dnn::kOpReshapeY;
  }
  return dnn::kOpPointwiseY;
}

GraphOperation::GraphOperation(const Descriptor &descriptor)
    : type(descriptor.type),
      result(tensorOf(descriptor, resultOf(descriptor.type))) {
  for (int attribute :
       {dnn::kOpMatmulA, dnn::kOpMatmulB, dnn::kOpReductionX, dnn::kOpReshapeX,
        dnn::kOpPointwiseX, dnn::kOpPointwiseB, dnn::kOpPointwiseT})
    if (descriptor.has(attribute))
      inputs.emplace_back(tensorOf(descriptor, attribute));
  if (type == dnn::kOperationPointwise) {
    const Descriptor &pointwise =
        tensorOf(descriptor, dnn::kOpPointwiseDescriptor);
    mode = pointwise.get<int>(dnn::kPointwiseMode);
    if (pointwise.has(dnn::kPointwiseAxis))
      axis = pointwise.get<int64_t>(dnn::kPointwiseAxis);
  } else if (type == dnn::kOperationReduction) {
    mode = tensorOf(descriptor, dnn::kOpReductionDescriptor)
               .get<int>(dnn::kReductionOperator);
  }
}

std::vector<GraphOperation> emulated::operationsOf(const Descriptor &graph) {
  std::vector<GraphOperation> operations;
  for (Descriptor *each : graph.list<Descriptor *>(dnn::kGraphOperations))
    operations.emplace_back(*each);
  return operations;
}

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

std::string emulated::checkTensor(const Descriptor &descriptor) {
  GraphTensor tensor(descriptor);
  auto name = "tensor " + std::to_string(tensor.id) + ": ";
  if (descriptor.list<int64_t>(dnn::kTensorDimensions).size() != 4 ||
      descriptor.list<int64_t>(dnn::kTensorStrides).size() != 4)
    return name + "attention has tensors of four dimensions";
  // "BAD_PARAM: any of the tensor dimensions or strides is not positive".
  for (int i = 0; i < 4; ++i)
    if (tensor.size[i] < 1 || tensor.strides[i] < 1)
      return name + "a dimension or stride is not positive";
  // "BAD_PARAM: the tensor alignment attribute is not divisible by the size of
  // the data type".
  if (tensor.alignment < 1 ||
      tensor.alignment % int64_t(tensor.elementBytes()) != 0)
    return name + "the alignment";
  if (tensor.isByValue && (tensor.isVirtual || tensor.count() != 1))
    return name + "a number of the host has one element";
  return "";
}

/// Returns the error in the sizes of an operation, or "".
static std::string checkSizes(const GraphOperation &operation) {
  const Four &x = operation.inputs[0].size, &y = operation.result.size;
  switch (operation.type) {
  case dnn::kOperationMatmul: {
    // "C = A B for the last two dimensions"; heads of B may be fewer, if they
    // divide those of A.
    const Four &b = operation.inputs[1].size;
    if (x[3] != b[2] || y[2] != x[2] || y[3] != b[3] || x[0] != b[0] ||
        x[0] != y[0] || x[1] != y[1] || x[1] % b[1] != 0)
      return "the sizes of a product";
    return "";
  }
  case dnn::kOperationReduction:
    for (int i = 0; i < 4; ++i)
      if (x[i] % y[i] != 0 || (i != 1 && y[i] != 1 && y[i] != x[i]))
        return "the sizes of a reduction";
    return "";
  case dnn::kOperationReshape:
    return operation.inputs[0].count() == operation.result.count() &&
                   operation.result.bytes() <= operation.inputs[0].bytes()
               ? ""
               : "the sizes of a reshape";
  }
  if (x != y)
    return "the sizes of a pointwise operation";
  // "Broadcast: a dimension of B is 1 or that of X".
  for (const GraphTensor &input : operation.inputs)
    for (int i = 0; i < 4; ++i)
      if (input.size[i] != 1 && input.size[i] != y[i])
        return "an operand of a pointwise operation that cannot be repeated";
  return "";
}

static std::string checkInputs(const GraphOperation &operation) {
  size_t count = operation.inputs.size(), expected = 1;
  if (operation.type == dnn::kOperationMatmul)
    expected = 2;
  if (operation.type == dnn::kOperationPointwise)
    switch (operation.mode) {
    case dnn::kIndex:
      // "CUDNN_ATTR_POINTWISE_AXIS: for GEN_INDEX, the axis of the index".
      if (operation.axis < 0 || operation.axis > 3)
        return "the axis of an index";
      break;
    case dnn::kExp:
    case dnn::kLog:
      break;
    case dnn::kSelect:
      expected = 3;
      break;
    case dnn::kAdd:
    case dnn::kMultiply:
    case dnn::kDivide:
    case dnn::kSubtract:
    case dnn::kGreater:
    case dnn::kGreaterOrEqual:
      expected = 2;
      break;
    default:
      return "the mode of a pointwise operation";
    }
  return count == expected ? "" : "the number of operands";
}

std::string emulated::checkGraph(const Descriptor &graph) {
  std::map<int64_t, GraphTensor> known;
  std::set<int64_t> written;
  std::vector<GraphOperation> operations = operationsOf(graph);
  for (const GraphOperation &operation : operations) {
    std::string fault = checkInputs(operation);
    if (fault.empty())
      fault = checkSizes(operation);
    if (!fault.empty())
      return fault;
    for (const GraphTensor &input : operation.inputs)
      if (input.isVirtual && !written.contains(input.id))
        return "tensor " + std::to_string(input.id) +
               " is read before it is computed";
    // "UNIQUE_ID: an integer that uniquely identifies the tensor".
    auto all = operation.inputs;
    all.push_back(operation.result);
    for (const GraphTensor &each : all) {
      const GraphTensor &other = known.try_emplace(each.id, each).first->second;
      if (other.size != each.size || other.strides != each.strides ||
          other.type != each.type || other.isVirtual != each.isVirtual)
        return "two tensors have the id " + std::to_string(each.id);
    }
    if (operation.result.isByValue)
      return "a number of the host is written";
    if (!written.insert(operation.result.id).second)
      return "tensor " + std::to_string(operation.result.id) +
             " is written twice";
  }
  return "";
}

std::string emulated::findObstacle(const Descriptor &graph) {
  std::vector<GraphOperation> operations = operationsOf(graph);
  std::set<int64_t> factors; ///< operands of products
  int products = 0;
  for (const GraphOperation &operation : operations) {
    if (operation.type != dnn::kOperationMatmul)
      continue;
    ++products;
    for (const GraphTensor &input : operation.inputs)
      factors.insert(input.id);
  }
  // The engines' own words: "the matmul should either be an entrance node or
  // occur after the softmax and only allowed 2"; the gradient has five.
  if (products != 2 && products != 5)
    return "no engine has " + std::to_string(products) + " products";
  // "Q, K, V, O are f16 or bf16; the intermediate tensors are f32, except for
  // the operands of products".
  int type = operations.front().inputs[0].type;
  if (type != dnn::kF16 && type != dnn::kBF16)
    return "Q is neither f16 nor bf16";
  for (const GraphOperation &operation : operations) {
    bool isIndex = operation.mode == dnn::kIndex;
    bool isComparison = operation.type == dnn::kOperationPointwise &&
                        (operation.mode == dnn::kGreater ||
                         operation.mode == dnn::kGreaterOrEqual);
    const GraphTensor &result = operation.result;
    int expected = isIndex        ? dnn::kInt32
                   : isComparison ? dnn::kBoolean
                                  : dnn::kF32;
    if (result.isVirtual && result.type != expected &&
        !(result.type == type && !isIndex && !isComparison))
      return "the type of a tensor between operations";
    for (const GraphTensor &input : operation.inputs)
      if (operation.type == dnn::kOperationMatmul && !input.isVirtual &&
          input.type != type)
        return "the type of an operand of a product";
  }
  // "The head is a multiple of 8, its elements are contiguous", and rows begin
  // at multiples of 16 bytes.
  for (const GraphOperation &operation : operations)
    for (const GraphTensor &each : operation.inputs) {
      if (each.isVirtual || each.isByValue || each.type != type)
        continue;
      int contiguous = 0;
      for (int64_t stride : each.strides) {
        contiguous += stride == 1;
        if (stride != 1 && stride % 8 != 0)
          return "a stride is no multiple of 8";
      }
      if (contiguous < 1)
        return "no dimension is contiguous";
      int64_t head = each.strides[3] == 1 ? each.size[3] : each.size[2];
      if (head % 8 != 0 || head > 128)
        return "the head is no multiple of 8 up to 128";
    }
  return "";
}

/// As version 9.19 on sm_90: gradients of the scores in 16 bits, in tiles of 64
/// x 128.
int64_t emulated::workspaceOf(const Descriptor &graph) {
  std::vector<GraphOperation> operations = operationsOf(graph);
  int64_t bytes = 256;
  for (const GraphOperation &operation : operations)
    if (operation.type == dnn::kOperationReshape) {
      const Four &size = operation.inputs[0].size;
      bytes = 256 + size[0] * size[1] * ((size[2] + 63) / 64 * 64) *
                        ((size[3] + 127) / 128 * 128) * 2;
      break;
    }
  return bytes;
}
