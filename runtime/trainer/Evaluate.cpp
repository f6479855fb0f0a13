//===- Evaluate.cpp - Loss, outputs and gradients of a batch --------------===//

#include "heddle_rt/evaluate.h"

#include "Batch.h"
#include "ProgramView.h"
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

/// The results of a program in host memory.
struct HostResults {
  std::vector<std::vector<std::byte>> storage;
  std::vector<Bytes> spans;

  explicit HostResults(const ProgramInfo &program) {
    for (const TensorInfo &result : program.results)
      storage.emplace_back(result.bytes());
    for (std::vector<std::byte> &buffer : storage)
      spans.push_back(buffer);
  }
  float scalar(size_t index) const {
    float value;
    std::memcpy(&value, storage[index].data(), sizeof(value));
    return value;
  }
};

/// The results of a program that `evaluate` reads.
struct EvaluateResults {
  std::optional<size_t> loss, lossSum, labelCount;
  std::vector<size_t> outputs;
  std::vector<std::pair<size_t, size_t>> gradients; ///< (result, tensor)
};

} // namespace

/// Finds the gradient of every parameter among the results.
static Status findGradients(const Manifest &manifest,
                            const ProgramInfo &program,
                            EvaluateResults &found) {
  for (size_t tensor = 0; tensor < manifest.tensors.size(); ++tensor) {
    const WholeTensor &parameter = manifest.tensors[tensor];
    if (parameter.role != VariableRole::Parameter)
      continue;
    auto result =
        std::ranges::find_if(program.results, [&](const PortInfo &port) {
          return port.role == PortRole::Gradient &&
                 port.parameter == parameter.name;
        });
    if (result == program.results.end())
      return error("program '" + program.name +
                   "': expected a result of the role gradient for the "
                   "parameter '" +
                   parameter.name + "', got none");
    if (result->shape != parameter.shape)
      return error("program '" + program.name + "', result '" + result->name +
                   "': expected the shape of '" + parameter.name + "', " +
                   safetensors::shapeToString(parameter.shape) + ", got " +
                   safetensors::shapeToString(result->shape));
    found.gradients.emplace_back(result - program.results.begin(), tensor);
  }
  return Status::success();
}

static Expected<EvaluateResults> findResults(const Manifest &manifest,
                                             const ProgramInfo &program,
                                             bool gradients) {
  EvaluateResults found;
  auto find = [&](PortRole role, std::optional<size_t> &result) -> Status {
    auto index = findScalar(program, role);
    if (!index.ok())
      return std::move(index).status();
    result = *index;
    return Status::success();
  };
  if (gradients) {
    HEDDLE_RT_RETURN_IF_ERROR(find(PortRole::Loss, found.loss));
    HEDDLE_RT_RETURN_IF_ERROR(findGradients(manifest, program, found));
  } else {
    HEDDLE_RT_RETURN_IF_ERROR(find(PortRole::LossSum, found.lossSum));
    HEDDLE_RT_RETURN_IF_ERROR(find(PortRole::LabelCount, found.labelCount));
  }
  for (size_t i = 0; i < program.results.size(); ++i)
    if (program.results[i].role == PortRole::Output)
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

static Status writeResults(const Manifest &manifest, const ProgramInfo &program,
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
    add(program.results[i].name, program.results[i].type,
        withoutAddedRows(program.results[i], artifactRows, rows));
  for (auto [result, tensor] : found.gradients) {
    const WholeTensor &parameter = manifest.tensors[tensor];
    // A parameter without a checkpoint tensor keeps its own name and shape.
    bool known = parameter.checkpoint.has_value();
    add("grad." + (known ? parameter.checkpoint->name : parameter.name),
        program.results[result].type,
        known ? parameter.checkpoint->shape : parameter.shape);
  }

  auto writer = safetensors::FileWriter::create(path.string(), infos,
                                                safetensors::pytorchMetadata());
  if (!writer.ok())
    return std::move(writer).status();
  size_t next = 0;
  HEDDLE_RT_RETURN_IF_ERROR(writer->write(next++, 0, bytesOf(loss)));
  for (size_t i : found.outputs) {
    size_t bytes = byteSize(program.results[i].type);
    for (int64_t size :
         withoutAddedRows(program.results[i], artifactRows, rows))
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
  const char *wanted = options.gradients ? "gradients" : "evaluate";
  std::optional<size_t> index = manifest.findProgram(wanted);
  if (!index)
    return error(std::string("the artifact has no program '") + wanted +
                 (options.gradients
                      ? "'; compile it with gradients (heddle compile "
                        "--gradients)"
                      : "'"));
  const ProgramInfo &program = manifest.programs[*index];
  auto found = findResults(manifest, program, options.gradients);
  if (!found.ok())
    return std::move(found).status();
  auto inputs = findInputs(program);
  if (!inputs.ok())
    return std::move(inputs).status();
  auto values = matchBatch(batch, manifest, *inputs, /*parts=*/1);
  if (!values.ok())
    return std::move(values).status();

  HostResults results(program);
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
    int64_t rows = inputs->empty() || inputs->front().shape.empty()
                       ? 1
                       : inputs->front().shape[0];
    HEDDLE_RT_RETURN_IF_ERROR(
        writeResults(manifest, program, results, *found, loss, rows,
                     values->rows, options.output)
            .in("output '" + options.output.string() + "'"));
  }
  return result;
}
