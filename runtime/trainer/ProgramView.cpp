//===- ProgramView.cpp - The programs that a trainer calls ----------------===//

#include "ProgramView.h"

#include "heddle_rt/safetensors.h"

#include <nlohmann/json.hpp>

using namespace heddle::runtime;

Status heddle::runtime::checkBatchArguments(const ProgramInfo &program) {
  auto fail = [&](const std::string &what) {
    return error("program '" + program.name +
                 "': expected arguments tokens and targets, i32 [batch, "
                 "sequence], got " +
                 what);
  };
  if (program.arguments.size() != 2)
    return fail(std::to_string(program.arguments.size()) + " argument(s)");
  for (const TensorInfo &argument : program.arguments)
    if (argument.type != HEDDLE_RT_I32 || argument.shape.size() != 2 ||
        argument.shape != program.arguments[0].shape)
      return fail(std::string(name(argument.type)) + " " +
                  safetensors::shapeToString(argument.shape));
  return Status::success();
}

/// Returns an error unless the first `count` results are f32 scalars. If
/// `exactly`, the program must have no other results.
static Status checkScalarResults(const ProgramInfo &program, size_t count,
                                 bool exactly) {
  bool good = exactly ? program.results.size() == count
                      : program.results.size() >= count;
  for (size_t i = 0; good && i < count; ++i)
    good = program.results[i].type == HEDDLE_RT_F32 &&
           program.results[i].elements() == 1;
  if (good)
    return Status::success();
  return error("program '" + program.name + "': expected its first " +
               std::to_string(count) + " results to be f32 scalars");
}

Expected<int64_t> heddle::runtime::vocabularySize(const Manifest &manifest) {
  struct Place {
    const char *program;
    size_t result;
  };
  for (Place place : {Place{"evaluate", 2}, Place{"gradients", 1}})
    if (auto index = manifest.findProgram(place.program)) {
      const ProgramInfo &program = manifest.programs[*index];
      if (place.result >= program.results.size() ||
          program.results[place.result].shape.empty())
        return error("program '" + program.name + "': expected result " +
                     std::to_string(place.result) + " to be logits");
      return program.results[place.result].shape.back();
    }
  return error("the artifact has neither a program 'evaluate' nor 'gradients', "
               "which would tell the size of the vocabulary");
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
  HEDDLE_RT_RETURN_IF_ERROR(checkBatchArguments(batchProgram));
  programs.batch = batchProgram.arguments[0].shape[0];
  programs.sequence = batchProgram.arguments[0].shape[1];
  const ProgramInfo &last =
      manifest.programs[programs.step ? *programs.step : *programs.update];
  HEDDLE_RT_RETURN_IF_ERROR(checkScalarResults(last, 3, /*exactly=*/true));
  if (!programs.step) {
    if (!last.arguments.empty())
      return error("program 'update': expected no arguments, got " +
                   std::to_string(last.arguments.size()));
    programs.ignoredResults.resize(batchProgram.results.size());
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
    HEDDLE_RT_RETURN_IF_ERROR(checkBatchArguments(evaluate));
    HEDDLE_RT_RETURN_IF_ERROR(
        checkScalarResults(evaluate, 2, /*exactly=*/false));
    if (evaluate.arguments[0].shape != batchProgram.arguments[0].shape)
      return error("program 'evaluate': expected batches of " +
                   safetensors::shapeToString(batchProgram.arguments[0].shape) +
                   " as in '" + batchProgram.name + "', got " +
                   safetensors::shapeToString(evaluate.arguments[0].shape));
  }
  auto vocabulary = vocabularySize(manifest);
  if (!vocabulary.ok())
    return std::move(vocabulary).status();
  programs.vocabulary = *vocabulary;

  auto counter = manifest.findVariable("steps");
  if (!counter || manifest.variables[*counter].type != HEDDLE_RT_I64 ||
      manifest.variables[*counter].elements() != 1)
    return error("the artifact cannot train: it has no i64 scalar variable "
                 "'steps' which counts the steps");
  programs.stepCounter = *counter;
  return programs;
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
