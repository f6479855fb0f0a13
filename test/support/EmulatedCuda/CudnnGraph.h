//===- CudnnGraph.h - Operation graphs of the emulated cuDNN ----*- C++ -*-===//

#ifndef HEDDLE_TEST_SUPPORT_EMULATEDCUDA_CUDNNGRAPH_H
#define HEDDLE_TEST_SUPPORT_EMULATEDCUDA_CUDNNGRAPH_H

#include "State.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace heddle::emulated {

/// A descriptor of the backend API: the bytes of its attributes.
struct Descriptor {
  int type = 0;
  bool isFinal = false;
  std::map<int, std::vector<char>> values;
  const Descriptor *graph = nullptr; ///< of an engine's configuration, a plan
  int64_t workspace = 0;             ///< of a plan

  bool has(int attribute) const { return values.contains(attribute); }
  template <typename T> std::vector<T> list(int attribute) const {
    auto found = values.find(attribute);
    if (found == values.end())
      return {};
    std::vector<T> result(found->second.size() / sizeof(T));
    std::memcpy(result.data(), found->second.data(), found->second.size());
    return result;
  }
  /// The first element, or zero.
  template <typename T> T get(int attribute) const {
    T value{};
    if (auto found = values.find(attribute); found != values.end())
      std::memcpy(&value, found->second.data(), sizeof value);
    return value;
  }
};

using Four = std::array<int64_t, 4>;

/// The attributes of a tensor's descriptor.
struct GraphTensor {
  explicit GraphTensor(const Descriptor &descriptor);

  int64_t id, alignment;
  int type; ///< dnn::DataType
  Four size{}, strides{};
  bool isVirtual, isByValue;

  size_t elementBytes() const;
  /// From the first element to the last one.
  size_t bytes() const;
  int64_t count() const { return size[0] * size[1] * size[2] * size[3]; }
};

/// An operation of a graph.
struct GraphOperation {
  explicit GraphOperation(const Descriptor &descriptor);

  int type;      ///< dnn::DescriptorType
  int mode = -1; ///< of pointwise operations and reductions
  int64_t axis = -1;
  std::vector<GraphTensor> inputs;
  GraphTensor result;
};

std::vector<GraphOperation> operationsOf(const Descriptor &graph);

/// Return the rule that a descriptor breaks, or "".
std::string checkTensor(const Descriptor &tensor);
std::string checkGraph(const Descriptor &graph);
/// Returns why no engine for attention takes a graph, or "".
std::string findObstacle(const Descriptor &graph);
/// Returns the bytes of workspace that the engine for a graph needs.
int64_t workspaceOf(const Descriptor &graph);

using Addresses = std::map<int64_t, const void *>;

/// One execution of a graph.
class Evaluation {
public:
  /// Takes the addresses of a variant pack, and reads the numbers of the host.
  /// Returns the rule that they break, or "".
  std::string bind(const Descriptor &graph, const Addresses &addresses);
  /// Returns a message if an operand is not within the GPU's memory.
  std::string check(const Gpu &gpu) const;
  void run();

private:
  /// All elements, without gaps.
  using Values = std::vector<float>;
  Values read(const GraphTensor &tensor) const;
  void write(const GraphTensor &tensor, Values values);
  Values evaluate(const GraphOperation &operation) const;

  std::vector<GraphOperation> operations;
  Addresses addresses;
  std::map<int64_t, float> numbers;
  std::map<int64_t, Values> virtuals;
};

} // namespace heddle::emulated

#endif // HEDDLE_TEST_SUPPORT_EMULATEDCUDA_CUDNNGRAPH_H
