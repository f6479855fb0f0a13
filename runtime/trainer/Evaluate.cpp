//===- Evaluate.cpp - Loss, outputs and gradients of a batch --------------===//

#include "heddle_rt/evaluate.h"

#include "Batch.h"
#include "TableView.h"
#include "VariableIO.h"

#include "heddle_rt/safetensors.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

namespace fs = std::filesystem;
using namespace heddle::runtime;

namespace {

/// The outputs of a table in host memory.
struct HostResults {
  std::vector<std::vector<std::byte>> storage;
  std::vector<Bytes> spans;

  explicit HostResults(const TableInfo &table) {
    for (const TableOutput &output : table.outputs)
      storage.emplace_back(
          output.bytes() *
          static_cast<size_t>(output.perMicroBatch ? table.microBatches : 1));
    for (std::vector<std::byte> &buffer : storage)
      spans.push_back(buffer);
  }
  float scalar(size_t index) const {
    float value;
    std::memcpy(&value, storage[index].data(), sizeof(value));
    return value;
  }
};

/// The outputs of a table that `evaluate` reads.
struct EvaluateResults {
  std::optional<size_t> loss, lossSum, labelCount;
  std::vector<size_t> outputs;
  std::vector<std::pair<size_t, size_t>> gradients; ///< (output, tensor)
};

} // namespace

/// Finds the gradient of every parameter among the results.
static Status findGradients(const Manifest &manifest, const TableInfo &table,
                            EvaluateResults &found) {
  for (size_t tensor = 0; tensor < manifest.tensors.size(); ++tensor) {
    const WholeTensor &parameter = manifest.tensors[tensor];
    if (parameter.role != VariableRole::Parameter)
      continue;
    auto result =
        std::ranges::find_if(table.outputs, [&](const TableOutput &port) {
          return port.role == PortRole::Gradient &&
                 port.parameter == parameter.name;
        });
    if (result == table.outputs.end())
      return error("program '" + table.name +
                   "': expected a result of the role gradient for the "
                   "parameter '" +
                   parameter.name + "', got none");
    if (result->shape != parameter.shape)
      return error("program '" + table.name + "', result '" + result->name +
                   "': expected the shape of '" + parameter.name + "', " +
                   safetensors::shapeToString(parameter.shape) + ", got " +
                   safetensors::shapeToString(result->shape));
    found.gradients.emplace_back(result - table.outputs.begin(), tensor);
  }
  return Status::success();
}

static Expected<EvaluateResults>
findResults(const Manifest &manifest, const TableInfo &table, bool gradients) {
  EvaluateResults found;
  auto find = [&](PortRole role, std::optional<size_t> &result) -> Status {
    auto index = findScalar(table, role);
    if (!index.ok())
      return std::move(index).status();
    result = *index;
    return Status::success();
  };
  if (gradients) {
    HEDDLE_RT_RETURN_IF_ERROR(find(PortRole::Loss, found.loss));
    HEDDLE_RT_RETURN_IF_ERROR(findGradients(manifest, table, found));
  } else {
    HEDDLE_RT_RETURN_IF_ERROR(find(PortRole::LossSum, found.lossSum));
    HEDDLE_RT_RETURN_IF_ERROR(find(PortRole::LabelCount, found.labelCount));
  }
  for (size_t i = 0; i < table.outputs.size(); ++i)
    if (table.outputs[i].role == PortRole::Output)
      found.outputs.push_back(i);
  return found;
}

/// Returns the shape of an output without the rows that fill the artifact's
/// batch.
static std::vector<int64_t>
withoutAddedRows(const PortInfo &output, int64_t artifactRows, int64_t rows) {
  std::vector<int64_t> shape = output.shape;
  if (!shape.empty() && shape[0] == artifactRows)
    shape[0] = rows;
  return shape;
}

static Status writeResults(const Manifest &manifest, const TableInfo &table,
                           const HostResults &results,
                           const EvaluateResults &found, float loss,
                           int64_t artifactRows, int64_t rows,
                           const fs::path &path) {
  std::vector<safetensors::TensorInfo> infos = {
      {"loss", safetensors::DType::F32, {}}};
  auto add = [&](std::string tensor, DType type, std::vector<int64_t> shape) {
    infos.push_back({std::move(tensor),
                     safetensorsType(type).value_or(safetensors::DType::F32),
                     std::move(shape)});
  };
  for (size_t i : found.outputs)
    add(table.outputs[i].name, table.outputs[i].type,
        withoutAddedRows(table.outputs[i], artifactRows, rows));
  for (auto [result, tensor] : found.gradients) {
    const WholeTensor &parameter = manifest.tensors[tensor];
    // A parameter without a checkpoint tensor keeps its own name and shape.
    bool known = parameter.checkpoint.has_value();
    add("grad." + (known ? parameter.checkpoint->name : parameter.name),
        table.outputs[result].type,
        known ? parameter.checkpoint->shape : parameter.shape);
  }

  auto writer = safetensors::FileWriter::create(path.string(), infos,
                                                safetensors::pytorchMetadata());
  if (!writer.ok())
    return std::move(writer).status();
  size_t next = 0;
  HEDDLE_RT_RETURN_IF_ERROR(writer->write(next++, 0, bytesOf(loss)));
  for (size_t i : found.outputs) {
    size_t bytes = byteSize(table.outputs[i].type);
    for (int64_t size : withoutAddedRows(table.outputs[i], artifactRows, rows))
      bytes *= static_cast<size_t>(size);
    HEDDLE_RT_RETURN_IF_ERROR(
        writer->write(next++, 0, ConstBytes(results.storage[i]).first(bytes)));
  }
  for (auto [result, tensor] : found.gradients)
    HEDDLE_RT_RETURN_IF_ERROR(
        writer->write(next++, 0, results.storage[result]));
  return writer->commit();
}

Expected<EvaluateResult>
heddle::runtime::evaluate(Session &session, const Batch &batch,
                          const EvaluateOptions &options) {
  const Manifest &manifest = session.manifest();
  TableRole wanted =
      options.gradients ? TableRole::Gradients : TableRole::Evaluate;
  std::optional<size_t> index = manifest.findTable(wanted);
  if (!index)
    return error("the artifact has no program '" + std::string(name(wanted)) +
                 (options.gradients
                      ? "'; compile it with gradients (heddle compile "
                        "--gradients)"
                      : "'"));
  const TableInfo &table = manifest.tables[*index];
  auto found = findResults(manifest, table, options.gradients);
  if (!found.ok())
    return std::move(found).status();
  HEDDLE_RT_RETURN_IF_ERROR(checkInputs(table));
  auto values = matchBatch(batch, manifest, table.inputs, table.microBatches);
  if (!values.ok())
    return std::move(values).status();

  HostResults results(table);
  std::vector<ConstBytes> arguments(values->values.begin(),
                                    values->values.end());
  HEDDLE_RT_RETURN_IF_ERROR(session.run(*index, arguments, results.spans));

  EvaluateResult result;
  result.labels = values->labels;
  float loss = found->loss ? results.scalar(*found->loss)
                           : results.scalar(*found->lossSum) /
                                 results.scalar(*found->labelCount);
  result.loss = loss;
  if (!options.output.empty()) {
    if (session.emulatesCompute())
      return error("output '" + options.output.string() +
                   "': computation is emulated, so the results mean nothing");
    if (session.job() && session.job()->process() != 0)
      return result;
    bool hasRows = !table.inputs.empty() && !table.inputs[0].shape.empty();
    int64_t rows = hasRows ? table.inputs[0].shape[0] : 1;
    HEDDLE_RT_RETURN_IF_ERROR(
        writeResults(manifest, table, results, *found, loss, rows, values->rows,
                     options.output)
            .in("output '" + options.output.string() + "'"));
  }
  return result;
}
