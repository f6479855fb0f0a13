//===- Evaluate.cpp - Loss, logits and gradients of one batch -------------===//

#include "heddle_rt/evaluate.h"

#include "ProgramView.h"
#include "VariableIO.h"

#include "heddle_rt/safetensors.h"
#include "heddle_rt/token_data.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>

namespace fs = std::filesystem;
using namespace heddle::runtime;

//===----------------------------------------------------------------------===//
// The batch
//===----------------------------------------------------------------------===//

static Expected<std::vector<int32_t>>
readIntegers(const safetensors::Tensor &tensor) {
  if (tensor.dtype != safetensors::DType::I32 &&
      tensor.dtype != safetensors::DType::I64)
    return error("tensor '" + tensor.name + "': expected I32 or I64, got " +
                 std::string(safetensors::name(tensor.dtype)));
  if (tensor.shape.size() != 2 || tensor.elements == 0)
    return error("tensor '" + tensor.name +
                 "': expected shape [batch, sequence], got " +
                 safetensors::shapeToString(tensor.shape));
  std::vector<int64_t> wide(tensor.elements);
  HEDDLE_RT_RETURN_IF_ERROR(tensor.readI64(0, wide));
  std::vector<int32_t> values(wide.size());
  for (size_t i = 0; i < wide.size(); ++i) {
    if (wide[i] < std::numeric_limits<int32_t>::min() ||
        wide[i] > std::numeric_limits<int32_t>::max())
      return error("tensor '" + tensor.name + "': element " +
                   std::to_string(i) + " is " + std::to_string(wide[i]) +
                   ", which is no token");
    values[i] = static_cast<int32_t>(wide[i]);
  }
  return values;
}

/// Returns the targets of a batch without targets. A token's target is the next
/// token of its row; the last token has none.
static std::vector<int32_t> shiftedTargets(const Batch &batch) {
  std::vector<int32_t> targets(batch.tokens.size(), ignoredLabel);
  for (int64_t row = 0; row < batch.rows; ++row)
    for (int64_t i = 0; i + 1 < batch.sequence; ++i)
      targets[row * batch.sequence + i] =
          batch.tokens[row * batch.sequence + i + 1];
  return targets;
}

Expected<Batch> heddle::runtime::readBatch(const fs::path &path) {
  std::string context = "batch '" + path.string() + "'";
  auto reader = safetensors::Reader::open(path.string());
  if (!reader.ok()) // the error names the file
    return std::move(reader).status().in("batch");
  const safetensors::Tensor *tokens = reader->find("tokens");
  const safetensors::Tensor *targets = reader->find("targets");
  if (!tokens)
    return error(context + ": expected a tensor 'tokens'");

  Batch batch;
  batch.source = path.string();
  auto values = readIntegers(*tokens);
  if (!values.ok())
    return std::move(values).status().in(context);
  batch.tokens = *std::move(values);
  batch.rows = tokens->shape[0];
  batch.sequence = tokens->shape[1];
  if (!targets) {
    batch.targets = shiftedTargets(batch);
    return batch;
  }
  if (targets->shape != tokens->shape)
    return error(context + ": expected 'targets' of shape " +
                 safetensors::shapeToString(tokens->shape) + ", got " +
                 safetensors::shapeToString(targets->shape));
  values = readIntegers(*targets);
  if (!values.ok())
    return std::move(values).status().in(context);
  batch.targets = *std::move(values);
  return batch;
}

Status heddle::runtime::checkBatch(const Batch &batch, int64_t vocabulary) {
  std::string context =
      batch.source.empty() ? "batch" : "batch '" + batch.source + "'";
  auto check = [&](const char *tensor, const std::vector<int32_t> &values,
                   bool mayIgnore) -> Status {
    for (size_t i = 0; i < values.size(); ++i)
      if ((values[i] < 0 || values[i] >= vocabulary) &&
          !(mayIgnore && values[i] == ignoredLabel))
        return error(context + ": " + tensor + "[" +
                     std::to_string(i / batch.sequence) + ", " +
                     std::to_string(i % batch.sequence) + "] is " +
                     std::to_string(values[i]) + ", beyond the vocabulary of " +
                     std::to_string(vocabulary));
    return Status::success();
  };
  HEDDLE_RT_RETURN_IF_ERROR(check("tokens", batch.tokens, false));
  HEDDLE_RT_RETURN_IF_ERROR(check("targets", batch.targets, true));
  if (std::ranges::all_of(
          batch.targets, [](int32_t target) { return target == ignoredLabel; }))
    return error(context + ": expected a target that counts, got " +
                 std::to_string(batch.targets.size()) + " that are " +
                 std::to_string(ignoredLabel) +
                 (batch.sequence == 1 ? " (a row of one token has no next one)"
                                      : " (ignored)"));
  return Status::success();
}

//===----------------------------------------------------------------------===//
// The run
//===----------------------------------------------------------------------===//

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

} // namespace

/// Returns the parameters whose gradients the program returns after loss and
/// logits.
static Expected<std::vector<size_t>>
gradientTensors(const Manifest &manifest, const ProgramInfo &program) {
  std::vector<size_t> parameters;
  for (size_t i = 0; i < manifest.tensors.size(); ++i)
    if (manifest.tensors[i].role == VariableRole::Parameter)
      parameters.push_back(i);
  if (program.results.size() != parameters.size() + 2)
    return error("program 'gradients': expected loss, logits and a gradient "
                 "for each of " +
                 std::to_string(parameters.size()) + " parameters, got " +
                 std::to_string(program.results.size()) + " results");
  for (size_t i = 0; i < parameters.size(); ++i) {
    const WholeTensor &variable = manifest.tensors[parameters[i]];
    const TensorInfo &result = program.results[i + 2];
    if (result.shape != variable.shape)
      return error("program 'gradients', result " + std::to_string(i + 2) +
                   ": expected the shape of '" + variable.name + "', " +
                   safetensors::shapeToString(variable.shape) + ", got " +
                   safetensors::shapeToString(result.shape));
  }
  return parameters;
}

static Status writeResults(const Manifest &manifest, const ProgramInfo &program,
                           const HostResults &results, size_t logits,
                           const std::vector<size_t> &gradients, float loss,
                           const Batch &batch, const fs::path &path) {
  const TensorInfo &logitsInfo = program.results[logits];
  int64_t vocabulary = logitsInfo.shape.back();
  std::vector<safetensors::TensorInfo> infos = {
      {"loss", safetensors::DType::F32, {}}};
  auto add = [&](std::string tensor, DType type, std::vector<int64_t> shape) {
    infos.push_back({std::move(tensor),
                     safetensorsType(type).value_or(safetensors::DType::F32),
                     std::move(shape)});
  };
  add("logits", logitsInfo.type, {batch.rows, batch.sequence, vocabulary});
  for (size_t i = 0; i < gradients.size(); ++i) {
    const WholeTensor &variable = manifest.tensors[gradients[i]];
    // A variable without a checkpoint tensor keeps its own name and shape.
    bool known = variable.checkpoint.has_value();
    add("grad." + (known ? variable.checkpoint->name : variable.name),
        program.results[i + 2].type,
        known ? variable.checkpoint->shape : variable.shape);
  }

  auto writer = safetensors::FileWriter::create(path.string(), infos,
                                                safetensors::pytorchMetadata());
  if (!writer.ok())
    return std::move(writer).status();
  HEDDLE_RT_RETURN_IF_ERROR(writer->write(0, 0, bytesOf(loss)));
  // Leave out the added rows that fill the artifact's batch.
  size_t logitsBytes = size_t(batch.rows * batch.sequence * vocabulary) *
                       byteSize(logitsInfo.type);
  HEDDLE_RT_RETURN_IF_ERROR(writer->write(
      1, 0, ConstBytes(results.storage[logits]).first(logitsBytes)));
  for (size_t i = 0; i < gradients.size(); ++i)
    HEDDLE_RT_RETURN_IF_ERROR(writer->write(i + 2, 0, results.storage[i + 2]));
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
  HEDDLE_RT_RETURN_IF_ERROR(checkBatchArguments(program));
  // The results of `evaluate` are (loss sum, count, logits), those of
  // `gradients` (loss, logits, gradient of each parameter).
  size_t logits = options.gradients ? 1 : 2;
  auto vocabulary = vocabularySize(manifest);
  if (!vocabulary.ok())
    return std::move(vocabulary).status();
  for (size_t i = 0; i <= logits; ++i)
    if (i >= program.results.size() ||
        (i != logits && (program.results[i].type != HEDDLE_RT_F32 ||
                         program.results[i].elements() != 1)))
      return error(std::string("program '") + wanted +
                   "': expected f32 scalars before the logits");
  HEDDLE_RT_RETURN_IF_ERROR(checkBatch(batch, *vocabulary));

  int64_t rows = program.arguments[0].shape[0];
  int64_t sequence = program.arguments[0].shape[1];
  if (batch.sequence != sequence || batch.rows > rows)
    return error("the batch is " + std::to_string(batch.rows) + " x " +
                 std::to_string(batch.sequence) +
                 ", but the artifact was compiled for " + std::to_string(rows) +
                 " x " + std::to_string(sequence) +
                 "; compile it with --batch " + std::to_string(batch.rows) +
                 " --seq " + std::to_string(batch.sequence));

  std::vector<size_t> gradients;
  if (options.gradients) {
    auto found = gradientTensors(manifest, program);
    if (!found.ok())
      return std::move(found).status();
    gradients = *std::move(found);
  }

  std::vector<int32_t> tokens = batch.tokens, targets = batch.targets;
  tokens.resize(rows * sequence, 0);
  targets.resize(rows * sequence, ignoredLabel);
  HostResults results(program);
  std::array<ConstBytes, 2> arguments = {bytesOf(tokens), bytesOf(targets)};
  HEDDLE_RT_RETURN_IF_ERROR(session.run(*index, arguments, results.spans));

  EvaluateResult result;
  result.labels = std::ranges::count_if(
      targets, [](int32_t target) { return target != ignoredLabel; });
  float loss = options.gradients ? results.scalar(0)
                                 : results.scalar(0) / results.scalar(1);
  result.loss = loss;
  if (!options.output.empty())
    HEDDLE_RT_RETURN_IF_ERROR(
        writeResults(manifest, program, results, logits, gradients, loss, batch,
                     options.output)
            .in("output '" + options.output.string() + "'"));
  return result;
}
