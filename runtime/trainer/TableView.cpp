//===- TableView.cpp - The tables that a trainer runs ---------------------===//

#include "TableView.h"

#include "heddle_rt/safetensors.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <initializer_list>
#include <utility>

using namespace heddle::runtime;

std::optional<size_t>
heddle::runtime::findRole(std::span<const PortInfo> inputs, PortRole role) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].role == role)
      return i;
  return std::nullopt;
}

Expected<size_t> heddle::runtime::findScalar(const TableInfo &table,
                                             PortRole role) {
  auto fail = [&](const std::string &got) {
    return error("program '" + table.name +
                 "': expected one result of the role " +
                 std::string(name(role)) + ", an f32 scalar, got " + got);
  };
  std::optional<size_t> found;
  for (size_t i = 0; i < table.outputs.size(); ++i) {
    if (table.outputs[i].role != role)
      continue;
    if (found)
      return fail("several");
    found = i;
  }
  if (!found)
    return fail("none");
  const TableOutput &output = table.outputs[*found];
  if (output.type != HEDDLE_RT_F32 || !output.shape.empty())
    return fail(describe(output));
  if (output.perMicroBatch)
    return fail("one for each micro-batch");
  return *found;
}

Status heddle::runtime::checkInputs(const TableInfo &table) {
  for (const PortInfo &input : table.inputs)
    if (input.role != PortRole::Features && input.role != PortRole::Labels)
      return error("program '" + table.name + "': expected argument '" +
                   input.name + "' to have the role features or labels, got " +
                   std::string(input.role ? name(*input.role) : "none"));
  return Status::success();
}

std::string heddle::runtime::describe(const TensorInfo &tensor) {
  return std::string(name(tensor.type)) + " " +
         safetensors::shapeToString(tensor.shape);
}

std::optional<int64_t>
heddle::runtime::findVocabulary(const Manifest &manifest,
                                std::span<const PortInfo> inputs) {
  std::optional<size_t> labels = findRole(inputs, PortRole::Labels);
  if (!labels)
    return std::nullopt;
  for (TableRole role : {TableRole::Evaluate, TableRole::Gradients})
    if (auto index = manifest.findTable(role))
      for (const TableOutput &output : manifest.tables[*index].outputs) {
        if (output.role != PortRole::Output || output.shape.empty())
          continue;
        std::vector<int64_t> shape = output.shape;
        shape.pop_back();
        if (shape == inputs[*labels].shape)
          return output.shape.back();
      }
  return std::nullopt;
}

Expected<TokenInputs>
heddle::runtime::findTokenInputs(const Manifest &manifest,
                                 std::span<const PortInfo> inputs) {
  auto features = findRole(inputs, PortRole::Features);
  auto labels = findRole(inputs, PortRole::Labels);
  bool good = inputs.size() == 2 && features && labels &&
              inputs[*features].shape == inputs[*labels].shape &&
              inputs[*features].shape.size() == 2;
  std::string got;
  for (const PortInfo &input : inputs) {
    good &= input.type == HEDDLE_RT_I32;
    got += (got.empty() ? "'" : ", '") + input.name + "' " + describe(input);
  }
  if (!good)
    return error("expected a model of tokens, with features and labels of i32 "
                 "[rows, sequence], got the inputs " +
                 (got.empty() ? "none" : got) +
                 "; give a batch (.safetensors) instead of a file of tokens");
  std::optional<int64_t> vocabulary = findVocabulary(manifest, inputs);
  if (!vocabulary)
    return error("expected a program 'evaluate' or 'gradients' with an output "
                 "[rows, sequence, vocabulary], which tells the size of the "
                 "vocabulary, got none");
  return TokenInputs{*features, *labels, inputs[*labels].shape[0],
                     inputs[*labels].shape[1], *vocabulary};
}

static nlohmann::json modelNotes(const Manifest &manifest) {
  nlohmann::json notes = nlohmann::json::parse(manifest.model, nullptr, false);
  return notes.is_object() ? notes : nlohmann::json::object();
}

std::string heddle::runtime::modelConfig(const Manifest &manifest) {
  nlohmann::json notes = modelNotes(manifest);
  auto config = notes.find("config");
  if (config == notes.end())
    return "";
  // The config is either the original text, which is kept byte by byte, or an
  // object.
  if (config->is_string())
    return config->get<std::string>();
  return config->dump(2) + "\n";
}

/// Finds several scalar outputs of a table by their roles.
static Status
findScalars(const TableInfo &table,
            std::initializer_list<std::pair<PortRole, size_t *>> wanted) {
  for (auto [role, output] : wanted) {
    auto found = findScalar(table, role);
    if (!found.ok())
      return std::move(found).status();
    *output = *found;
  }
  return Status::success();
}

static bool isSameInput(const PortInfo &a, const PortInfo &b) {
  return a.role == b.role && a.name == b.name && a.type == b.type &&
         a.shape == b.shape;
}

Expected<TrainingTables> TrainingTables::find(const Manifest &manifest) {
  TrainingTables tables;
  std::optional<size_t> step = manifest.findTable(TableRole::Step);
  if (!step)
    return error("the artifact cannot train: it has no program 'step'; compile "
                 "it for training");
  tables.step = *step;
  tables.evaluate = manifest.findTable(TableRole::Evaluate);
  const TableInfo &info = manifest.tables[*step];
  HEDDLE_RT_RETURN_IF_ERROR(checkInputs(info));
  tables.inputs = info.inputs;
  tables.microBatches = info.microBatches;
  tables.hasBarrier = info.hasBarrier;
  HEDDLE_RT_RETURN_IF_ERROR(
      findScalars(info, {{PortRole::Loss, &tables.loss},
                         {PortRole::GradientNorm, &tables.gradientNorm},
                         {PortRole::LearningRate, &tables.learningRate}}));
  if (tables.evaluate) {
    const TableInfo &evaluate = manifest.tables[*tables.evaluate];
    HEDDLE_RT_RETURN_IF_ERROR(
        findScalars(evaluate, {{PortRole::LossSum, &tables.lossSum},
                               {PortRole::LabelCount, &tables.labelCount}}));
    HEDDLE_RT_RETURN_IF_ERROR(checkInputs(evaluate));
    if (evaluate.microBatches != 1 ||
        !std::ranges::equal(evaluate.inputs, tables.inputs, isSameInput))
      return error("program 'evaluate': expected the inputs of one micro-batch "
                   "of 'step', got others");
  }

  std::vector<size_t> counters;
  for (size_t i = 0; i < manifest.variables.size(); ++i)
    if (manifest.variables[i].role == VariableRole::Counter)
      counters.push_back(i);
  if (counters.size() != 1 ||
      manifest.variables[counters[0]].type != HEDDLE_RT_I64 ||
      manifest.variables[counters[0]].elements() != 1)
    return error("the artifact cannot train: expected one variable of the role "
                 "counter, an i64 scalar that counts the steps, got " +
                 (counters.size() == 1
                      ? describe(manifest.variables[counters[0]])
                      : std::to_string(counters.size())));
  tables.stepCounter = counters[0];
  return tables;
}

int64_t TrainingTables::rowsPerStep() const {
  bool hasRows = !inputs.empty() && !inputs[0].shape.empty();
  return microBatches * (hasRows ? inputs[0].shape[0] : 1);
}

int64_t TrainingTables::labelsPerStep() const {
  auto labels = findRole(inputs, PortRole::Labels);
  return labels ? microBatches * inputs[*labels].elements() : rowsPerStep();
}

Expected<int64_t> TrainingTables::readStep(const Session &session) const {
  int64_t step = 0;
  HEDDLE_RT_RETURN_IF_ERROR(
      session.readVariable(stepCounter, writableBytesOf(step)));
  if (step < 0)
    return error("expected a step counter of at least 0, got " +
                 std::to_string(step));
  return step;
}
