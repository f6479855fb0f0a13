//===- ProgramView.cpp - The programs that a trainer calls ----------------===//

#include "ProgramView.h"

#include "heddle_rt/safetensors.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <initializer_list>
#include <utility>

using namespace heddle::runtime;

std::optional<size_t> heddle::runtime::findRole(std::span<const PortInfo> ports,
                                                PortRole role) {
  for (size_t i = 0; i < ports.size(); ++i)
    if (ports[i].role == role)
      return i;
  return std::nullopt;
}

Expected<size_t> heddle::runtime::findScalar(const ProgramInfo &program,
                                             PortRole role) {
  std::optional<size_t> found = findRole(program.results, role);
  auto fail = [&](const std::string &got) {
    return error("program '" + program.name +
                 "': expected one result of the role " +
                 std::string(name(role)) + ", an f32 scalar, got " + got);
  };
  if (!found)
    return fail("none");
  if (findRole(std::span(program.results).subspan(*found + 1), role))
    return fail("several");
  const PortInfo &result = program.results[*found];
  if (result.type != HEDDLE_RT_F32 || !result.shape.empty())
    return fail(describe(result));
  return *found;
}

Expected<std::vector<PortInfo>>
heddle::runtime::findInputs(const ProgramInfo &program) {
  std::vector<PortInfo> inputs;
  for (const PortInfo &argument : program.arguments) {
    if (argument.role == PortRole::MicroBatch)
      continue;
    if (argument.role != PortRole::Features &&
        argument.role != PortRole::Labels)
      return error("program '" + program.name + "': expected argument '" +
                   argument.name +
                   "' to have the role features, labels or micro_batch, got " +
                   std::string(argument.role ? name(*argument.role) : "none"));
    inputs.push_back(argument);
  }
  return inputs;
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
  for (const char *program : {"evaluate", "gradients"})
    if (auto index = manifest.findProgram(program))
      for (const PortInfo &result : manifest.programs[*index].results) {
        if (result.role != PortRole::Output || result.shape.empty())
          continue;
        std::vector<int64_t> shape = result.shape;
        shape.pop_back();
        if (shape == inputs[*labels].shape)
          return result.shape.back();
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

/// Finds several scalar results of a program by their roles.
static Status
findScalars(const ProgramInfo &program,
            std::initializer_list<std::pair<PortRole, size_t *>> wanted) {
  for (auto [role, result] : wanted) {
    auto found = findScalar(program, role);
    if (!found.ok())
      return std::move(found).status();
    *result = *found;
  }
  return Status::success();
}

static bool isSameInput(const PortInfo &a, const PortInfo &b) {
  return a.role == b.role && a.name == b.name && a.type == b.type &&
         a.shape == b.shape;
}

Expected<StepPrograms> StepPrograms::find(const Manifest &manifest) {
  StepPrograms programs;
  programs.step = manifest.findProgram("step");
  programs.accumulate = manifest.findProgram("accumulate");
  programs.update = manifest.findProgram("update");
  programs.evaluate = manifest.findProgram("evaluate");
  if (!programs.step && !(programs.accumulate && programs.update))
    return error("the artifact cannot train: it has no program 'step', nor "
                 "'accumulate' and 'update'; compile it for training");

  const ProgramInfo &batchProgram =
      manifest.programs[programs.step ? *programs.step : *programs.accumulate];
  auto inputs = findInputs(batchProgram);
  if (!inputs.ok())
    return std::move(inputs).status();
  programs.inputs = *std::move(inputs);
  const ProgramInfo &last =
      manifest.programs[programs.step ? *programs.step : *programs.update];
  HEDDLE_RT_RETURN_IF_ERROR(
      findScalars(last, {{PortRole::Loss, &programs.loss},
                         {PortRole::GradientNorm, &programs.gradientNorm},
                         {PortRole::LearningRate, &programs.learningRate}}));
  if (!programs.step) {
    if (!last.arguments.empty())
      return error("program 'update': expected no arguments, got " +
                   std::to_string(last.arguments.size()));
    nlohmann::json notes = modelNotes(manifest);
    auto count = notes.find("micro_batches");
    if (count == notes.end() || !count->is_number_integer() ||
        count->get<int64_t>() < 1)
      return error("manifest: expected a positive integer "
                   "'model.micro_batches' beside the program 'accumulate'");
    programs.microBatches = count->get<int64_t>();
  }
  if (programs.evaluate) {
    const ProgramInfo &evaluate = manifest.programs[*programs.evaluate];
    HEDDLE_RT_RETURN_IF_ERROR(
        findScalars(evaluate, {{PortRole::LossSum, &programs.lossSum},
                               {PortRole::LabelCount, &programs.labelCount}}));
    auto found = findInputs(evaluate);
    if (!found.ok())
      return std::move(found).status();
    if (!std::ranges::equal(*found, programs.inputs, isSameInput))
      return error("program 'evaluate': expected the inputs of '" +
                   batchProgram.name + "', got others");
  }

  auto counter = manifest.findVariable("steps");
  if (!counter || manifest.variables[*counter].type != HEDDLE_RT_I64 ||
      manifest.variables[*counter].elements() != 1)
    return error("the artifact cannot train: it has no i64 scalar variable "
                 "'steps' which counts the steps");
  programs.stepCounter = *counter;
  return programs;
}

int64_t StepPrograms::rowsPerStep() const {
  bool hasRows = !inputs.empty() && !inputs[0].shape.empty();
  return microBatches * (hasRows ? inputs[0].shape[0] : 1);
}

int64_t StepPrograms::labelsPerStep() const {
  auto labels = findRole(inputs, PortRole::Labels);
  return labels ? microBatches * inputs[*labels].elements() : rowsPerStep();
}

Expected<int64_t> StepPrograms::readStep(const Session &session) const {
  int64_t step = 0;
  HEDDLE_RT_RETURN_IF_ERROR(
      session.readVariable(stepCounter, writableBytesOf(step)));
  if (step < 0)
    return error("expected a step counter of at least 0, got " +
                 std::to_string(step));
  return step;
}
