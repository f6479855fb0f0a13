//===- Batch.cpp - Batches from files, matched with a program -------------===//

#include "Batch.h"

#include "TableView.h"
#include "VariableIO.h"

#include "heddle_rt/token_data.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

using namespace heddle::runtime;

const BatchTensor *Batch::find(std::string_view name) const {
  auto found = std::ranges::find(tensors, name, &BatchTensor::name);
  return found == tensors.end() ? nullptr : &*found;
}

static std::string contextOf(const Batch &batch) {
  return batch.source.empty() ? "batch" : "batch '" + batch.source + "'";
}

/// Returns the runtime's type that equals a type of safetensors, if any.
static std::optional<DType> runtimeType(safetensors::DType type) {
  for (DType each :
       {HEDDLE_RT_F32, HEDDLE_RT_BF16, HEDDLE_RT_F16, HEDDLE_RT_F64,
        HEDDLE_RT_I1, HEDDLE_RT_I8, HEDDLE_RT_I32, HEDDLE_RT_I64})
    if (safetensorsType(each) == type)
      return each;
  return std::nullopt;
}

/// Reads a file's tensors, with their data or without.
static Expected<Batch> readTensors(const std::filesystem::path &path,
                                   bool withData) {
  auto reader = safetensors::Reader::open(path.string());
  if (!reader.ok()) // the error names the file
    return std::move(reader).status().in("batch");
  Batch batch;
  batch.source = path.string();
  for (const safetensors::Tensor &tensor : reader->tensors()) {
    std::optional<DType> type = runtimeType(tensor.dtype);
    if (!type)
      return error(contextOf(batch) + ": tensor '" + tensor.name +
                   "': no program takes a tensor of type " +
                   std::string(safetensors::name(tensor.dtype)));
    batch.tensors.push_back({tensor.name, *type, tensor.shape, {}});
    if (withData)
      batch.tensors.back().data.assign(tensor.data.begin(), tensor.data.end());
  }
  return batch;
}

Expected<Batch> heddle::runtime::readBatch(const std::filesystem::path &path) {
  return readTensors(path, /*withData=*/true);
}

Expected<Batch>
heddle::runtime::readBatchShapes(const std::filesystem::path &path) {
  return readTensors(path, /*withData=*/false);
}

namespace {

/// Fills inputs from a batch. Call `fill` for each input, then `checkLabels`.
class Matcher {
public:
  Matcher(const Batch &batch, const Manifest &manifest,
          std::span<const PortInfo> inputs, int64_t parts)
      : batch(batch), inputs(inputs), parts(parts),
        vocabulary(findVocabulary(manifest, inputs)),
        context(contextOf(batch)) {}

  Expected<InputValues> run();
  Expected<int64_t> runOnShapes();

private:
  Expected<BatchTensor> findTensor(const PortInfo &input) const;
  Expected<BatchTensor> makeLabels(const PortInfo &input) const;
  Status checkShape(const PortInfo &input, const BatchTensor &tensor) const;
  bool isIds(const PortInfo &input) const;
  Status checkIds(const BatchTensor &tensor, bool mayIgnore) const;
  Status fillRows(const PortInfo &input, BatchTensor &tensor) const;
  Status countLabels(const BatchTensor &tensor, InputValues &result) const;

  const Batch &batch;
  std::span<const PortInfo> inputs;
  int64_t parts;
  std::optional<int64_t> vocabulary;
  std::string context;
};

} // namespace

/// Returns the values of an i32 tensor.
static std::span<const int32_t> idsOf(const BatchTensor &tensor) {
  return {reinterpret_cast<const int32_t *>(tensor.data.data()),
          tensor.data.size() / sizeof(int32_t)};
}

/// Converts a tensor of i64 to i32.
static Status narrow(BatchTensor &tensor) {
  size_t count = tensor.data.size() / sizeof(int64_t);
  std::vector<std::byte> narrow(count * sizeof(int32_t));
  for (size_t i = 0; i < count; ++i) {
    int64_t wide;
    std::memcpy(&wide, tensor.data.data() + i * sizeof wide, sizeof wide);
    if (wide < std::numeric_limits<int32_t>::min() ||
        wide > std::numeric_limits<int32_t>::max())
      return error("tensor '" + tensor.name + "': element " +
                   std::to_string(i) + " is " + std::to_string(wide) +
                   ", which is no token");
    auto value = static_cast<int32_t>(wide);
    std::memcpy(narrow.data() + i * sizeof value, &value, sizeof value);
  }
  tensor.type = HEDDLE_RT_I32;
  tensor.data = std::move(narrow);
  return Status::success();
}

Expected<BatchTensor> Matcher::makeLabels(const PortInfo &input) const {
  std::optional<size_t> features = findRole(inputs, PortRole::Features);
  auto isTokens = [](const PortInfo &port) {
    return port.type == HEDDLE_RT_I32 && port.shape.size() == 2;
  };
  if (input.role != PortRole::Labels || !isTokens(input) || !features ||
      !isTokens(inputs[*features]))
    return error(context + ": expected a tensor '" + input.name + "', " +
                 describe(input));
  auto labels = findTensor(inputs[*features]);
  if (!labels.ok())
    return labels;
  labels->name = input.name;
  if (labels->data.empty()) // only shapes are wanted
    return labels;
  int64_t rows = labels->shape[0], sequence = labels->shape[1];
  auto *ids = reinterpret_cast<int32_t *>(labels->data.data());
  for (int64_t row = 0; row < rows; ++row, ids += sequence) {
    std::copy(ids + 1, ids + sequence, ids);
    ids[sequence - 1] = ignoredLabel;
  }
  return labels;
}

/// Returns the batch's tensor of an input's name, in the input's type and rank.
Expected<BatchTensor> Matcher::findTensor(const PortInfo &input) const {
  const BatchTensor *found = batch.find(input.name);
  if (!found)
    return makeLabels(input);
  BatchTensor tensor = *found;
  if (tensor.type == HEDDLE_RT_I64 && input.type == HEDDLE_RT_I32)
    HEDDLE_RT_RETURN_IF_ERROR(narrow(tensor).in(context));
  int64_t elements = 1;
  for (int64_t size : tensor.shape)
    elements *= size;
  if (tensor.type != input.type || tensor.shape.size() != input.shape.size() ||
      elements == 0)
    return error(context + ": expected '" + input.name + "' as " +
                 describe(input) + ", got " +
                 describe(TensorInfo{"", found->type, found->shape, {}}));
  return tensor;
}

Status Matcher::checkShape(const PortInfo &input,
                           const BatchTensor &tensor) const {
  std::vector<int64_t> shape = input.shape;
  if (shape.empty())
    return Status::success();
  shape[0] *= parts;
  bool isShort = parts == 1 && tensor.shape[0] < shape[0];
  if (std::equal(shape.begin() + 1, shape.end(), tensor.shape.begin() + 1) &&
      (tensor.shape[0] == shape[0] || isShort))
    return Status::success();
  std::string text = context + ": expected '" + input.name + "' of shape " +
                     safetensors::shapeToString(shape) +
                     ", for which the artifact was compiled, got " +
                     safetensors::shapeToString(tensor.shape);
  if (parts == 1 && shape.size() == 2 && input.type == HEDDLE_RT_I32)
    text += "; compile it with --batch " + std::to_string(tensor.shape[0]) +
            " --seq " + std::to_string(tensor.shape[1]);
  return error(text);
}

/// Returns true if the input holds ids of the labels' vocabulary: labels, or
/// the tokens whose successors they are. Features of another shape, such as the
/// words of a text that has one label, have a vocabulary of their own.
bool Matcher::isIds(const PortInfo &input) const {
  std::optional<size_t> labels = findRole(inputs, PortRole::Labels);
  return input.type == HEDDLE_RT_I32 && vocabulary && labels &&
         input.shape == inputs[*labels].shape;
}

/// Checks that every id is in the vocabulary.
Status Matcher::checkIds(const BatchTensor &tensor, bool mayIgnore) const {
  std::span<const int32_t> ids = idsOf(tensor);
  for (size_t i = 0; i < ids.size(); ++i) {
    if ((ids[i] >= 0 && ids[i] < *vocabulary) ||
        (mayIgnore && ids[i] == ignoredLabel))
      continue;
    std::string place;
    size_t rest = i;
    for (size_t dim = tensor.shape.size(); dim-- > 0;) {
      size_t size = static_cast<size_t>(tensor.shape[dim]);
      place = std::to_string(rest % size) + (place.empty() ? "" : ", ") + place;
      rest /= size;
    }
    return error(context + ": " + tensor.name + "[" + place + "] is " +
                 std::to_string(ids[i]) + ", beyond the vocabulary of " +
                 std::to_string(*vocabulary));
  }
  return Status::success();
}

/// Adds rows until the tensor has the input's shape.
Status Matcher::fillRows(const PortInfo &input, BatchTensor &tensor) const {
  size_t size = static_cast<size_t>(parts) * input.bytes();
  if (input.shape.empty()) { // the same value for every part
    std::vector<std::byte> value = tensor.data;
    while (tensor.data.size() < size)
      tensor.data.insert(tensor.data.end(), value.begin(), value.end());
    return Status::success();
  }
  if (tensor.data.size() == size)
    return Status::success();
  size_t before = tensor.data.size();
  tensor.data.resize(size);
  if (input.role != PortRole::Labels)
    return Status::success();
  if (input.type != HEDDLE_RT_I32)
    return error(context + ": expected '" + input.name + "' with " +
                 std::to_string(input.shape[0]) +
                 " rows, for which the "
                 "artifact was compiled, got " +
                 std::to_string(tensor.shape[0]) +
                 "; only rows of i32 labels can be ignored");
  for (size_t at = before; at < size; at += sizeof ignoredLabel)
    std::memcpy(tensor.data.data() + at, &ignoredLabel, sizeof ignoredLabel);
  return Status::success();
}

Status Matcher::countLabels(const BatchTensor &tensor,
                            InputValues &result) const {
  if (tensor.type != HEDDLE_RT_I32) {
    result.labels +=
        static_cast<int64_t>(tensor.data.size() / byteSize(tensor.type));
    return Status::success();
  }
  std::span<const int32_t> ids = idsOf(tensor);
  int64_t count =
      std::ranges::count_if(ids, [](int32_t id) { return id != ignoredLabel; });
  if (count == 0)
    return error(context + ": expected a target that counts, got " +
                 std::to_string(ids.size()) + " that are " +
                 std::to_string(ignoredLabel) +
                 (!tensor.shape.empty() && tensor.shape.back() == 1
                      ? " (a row of one token has no next one)"
                      : " (ignored)"));
  result.labels += count;
  return Status::success();
}

Expected<InputValues> Matcher::run() {
  InputValues result;
  for (const PortInfo &input : inputs) {
    auto tensor = findTensor(input);
    if (!tensor.ok())
      return std::move(tensor).status();
    bool isLabels = input.role == PortRole::Labels;
    if (isIds(input))
      HEDDLE_RT_RETURN_IF_ERROR(checkIds(*tensor, isLabels));
    HEDDLE_RT_RETURN_IF_ERROR(checkShape(input, *tensor));
    if (isLabels)
      HEDDLE_RT_RETURN_IF_ERROR(countLabels(*tensor, result));
    HEDDLE_RT_RETURN_IF_ERROR(fillRows(input, *tensor));
    if (result.values.empty() && !tensor->shape.empty())
      result.rows = tensor->shape[0];
    result.values.push_back(std::move(tensor->data));
  }
  return result;
}

Expected<int64_t> Matcher::runOnShapes() {
  std::optional<int64_t> rows;
  for (const PortInfo &input : inputs) {
    auto tensor = findTensor(input);
    if (!tensor.ok())
      return std::move(tensor).status();
    HEDDLE_RT_RETURN_IF_ERROR(checkShape(input, *tensor));
    if (!rows && !tensor->shape.empty())
      rows = tensor->shape[0];
  }
  return rows.value_or(1);
}

Expected<InputValues>
heddle::runtime::matchBatch(const Batch &batch, const Manifest &manifest,
                            std::span<const PortInfo> inputs, int64_t parts) {
  return Matcher(batch, manifest, inputs, parts).run();
}

Expected<int64_t> heddle::runtime::matchShapes(const Batch &batch,
                                               const Manifest &manifest,
                                               std::span<const PortInfo> inputs,
                                               int64_t parts) {
  return Matcher(batch, manifest, inputs, parts).runOnShapes();
}
