//===- Checkpoint.cpp - Training state on disk ----------------------------===//

#include "heddle_rt/checkpoint.h"
#include "heddle/Support/JsonText.h"
#include "heddle_rt/atomic_file.h"
#include "heddle_rt/checksum.h"
#include "heddle_rt/safetensors.h"

#include "../VariableIO.h"
#include "CheckpointParts.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include <fcntl.h>
#include <unistd.h>

namespace fs = std::filesystem;
using namespace heddle::runtime;

//===----------------------------------------------------------------------===//
// state.json
//===----------------------------------------------------------------------===//

static std::string stateToJSON(const TrainingState &state,
                               const Manifest &manifest) {
  nlohmann::ordered_json json = {{"version", 1},
                                 {"step", state.step},
                                 {"seed", state.seed},
                                 {"data", state.data},
                                 {"data_tokens", state.dataTokens},
                                 {"rows_per_step", state.rowsPerStep},
                                 {"sequence", state.sequence},
                                 {"held_out_fraction", state.heldOutFraction},
                                 {"checksums", true}};
  if (state.files)
    json["files"] = *state.files;
  if (state.loss)
    json["loss"] = *state.loss;
  if (state.program)
    json["program"] = *state.program;
  for (const WholeTensor &tensor : manifest.tensors)
    if (isOfModel(tensor.role))
      json["model_variables"].push_back(tensor.name);
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
         "\n";
}

static Expected<nlohmann::json> readJson(const fs::path &file) {
  std::ifstream stream(file);
  if (!stream)
    return error("cannot read '" + file.string() +
                 "': " + std::strerror(errno));
  std::stringstream content;
  content << stream.rdbuf(); // unlike an iterator, this does not throw
  std::string text = content.str();
  nlohmann::json json;
  if (auto problem = heddle::parseJson(text, json))
    return error(heddle::describePlace(file.string(), text, problem->offset) +
                 ": " + problem->message);
  if (!json.is_object())
    return error("'" + file.string() + "': expected a JSON object");
  return json;
}

/// Returns the model's variables among those of a checkpoint, if it tells them
/// from the optimizer's. Checkpoints of older versions do not.
static Expected<std::optional<std::set<std::string>>>
readModelVariables(const fs::path &directory) {
  fs::path file = directory / "state.json";
  auto json = readJson(file);
  HEDDLE_RT_RETURN_IF_ERROR(json.status());
  auto listed = json->find("model_variables");
  if (listed == json->end())
    return std::optional<std::set<std::string>>();
  std::set<std::string> names;
  for (const nlohmann::json &each : *listed) {
    if (!each.is_string())
      return error("'" + file.string() +
                   "': expected strings in 'model_variables', got " +
                   each.type_name());
    names.insert(each.get<std::string>());
  }
  return std::optional(std::move(names));
}

Expected<TrainingState> heddle::runtime::readState(const fs::path &directory) {
  fs::path file = directory / "state.json";
  Expected<nlohmann::json> content = readJson(file);
  HEDDLE_RT_RETURN_IF_ERROR(content.status());
  const nlohmann::json &json = *content;

  TrainingState state;
  std::string problem; // the first problem; empty if there is none
  auto integer = [&](const char *key, auto &value) {
    auto found = json.find(key);
    if (!problem.empty())
      return;
    if (found == json.end() || !found->is_number_integer())
      problem = std::string("expected an integer '") + key + "', got " +
                (found == json.end() ? "nothing" : found->type_name());
    else
      found->get_to(value);
  };
  int64_t version = 0;
  integer("version", version);
  integer("step", state.step);
  integer("seed", state.seed);
  integer("data_tokens", state.dataTokens);
  integer("rows_per_step", state.rowsPerStep);
  integer("sequence", state.sequence);
  if (auto found = json.find("data"); found != json.end() && found->is_string())
    found->get_to(state.data);
  if (auto found = json.find("files");
      found != json.end() && found->is_number_unsigned())
    state.files = found->get<uint64_t>();
  if (auto found = json.find("loss"); found != json.end() && found->is_number())
    state.loss = found->get<double>();
  if (auto found = json.find("program");
      found != json.end() && found->is_number_unsigned())
    state.program = found->get<uint64_t>();
  if (auto found = json.find("held_out_fraction");
      found != json.end() && found->is_number())
    found->get_to(state.heldOutFraction);
  else if (problem.empty())
    problem = "expected a number 'held_out_fraction'";
  if (problem.empty() && version != 1)
    problem = "expected version 1, got " + std::to_string(version);
  if (!problem.empty())
    return error("'" + file.string() + "': " + problem);
  return state;
}

//===----------------------------------------------------------------------===//
// Checksums
//===----------------------------------------------------------------------===//

/// Names each tensor's checksum, in a checkpoint that one process wrote.
static constexpr const char *checksumFile = "checksums.json";

/// Checks the tensors of a checkpoint that one process wrote. Checkpoints of
/// older versions have no checksums.
static Status verifyTensors(const fs::path &directory,
                            const safetensors::Reader &reader) {
  std::error_code failure;
  fs::path file = directory / checksumFile;
  if (!fs::exists(file, failure)) {
    auto state = readJson(directory / "state.json");
    return state.ok() && state->contains("checksums")
               ? error("'" + file.string() + "' is missing")
               : Status::success();
  }
  auto checksums = readJson(file);
  if (!checksums.ok())
    return std::move(checksums).status();
  for (const safetensors::Tensor &tensor : reader.tensors()) {
    auto found = checksums->find("tensors");
    bool matches = found != checksums->end() && found->is_object() &&
                   found->value(tensor.name, nlohmann::json()) ==
                       checksumText(checksumOf(tensor.data));
    if (!matches)
      return error("'" + directory.string() + "': variable '" + tensor.name +
                   "': the file is damaged: its checksum differs");
  }
  return Status::success();
}

Status heddle::runtime::verifyCheckpoint(const fs::path &directory) {
  std::string context = "checkpoint '" + directory.string() + "'";
  HEDDLE_RT_RETURN_IF_ERROR(readState(directory).status());
  if (hasParts(directory))
    return verifyParts(directory).in(context);
  auto reader = safetensors::Reader::open(directory.string());
  HEDDLE_RT_RETURN_IF_ERROR(reader.status().in("checkpoint"));
  return verifyTensors(directory, *reader).in("checkpoint");
}

//===----------------------------------------------------------------------===//
// Variables
//===----------------------------------------------------------------------===//

/// Returns the tensors that a checkpoint holds: all except sums within a step,
/// which are zero between steps.
static std::vector<size_t> checkpointTensors(const Manifest &manifest) {
  std::vector<size_t> tensors;
  for (size_t i = 0; i < manifest.tensors.size(); ++i)
    if (!isSumOfStep(manifest.tensors[i].role))
      tensors.push_back(i);
  return tensors;
}

static Status writeFiles(const Session &session, const fs::path &directory) {
  std::vector<size_t> held = checkpointTensors(session.manifest());
  std::vector<safetensors::TensorInfo> infos;
  for (size_t tensor : held) {
    const WholeTensor &info = session.manifest().tensors[tensor];
    std::optional<safetensors::DType> type = safetensorsType(info.type);
    if (!type)
      return error("variable '" + info.name + "': type " +
                   std::string(name(info.type)) +
                   " has no representation in safetensors");
    infos.push_back({info.name, *type, info.shape});
  }
  auto writer =
      safetensors::DirectoryWriter::create(directory.string(), infos, {});
  if (!writer.ok())
    return writer.status();
  nlohmann::json checksums = nlohmann::json::object();
  for (size_t i = 0; i < held.size(); ++i) {
    Checksum checksum;
    HEDDLE_RT_RETURN_IF_ERROR(
        forEachPiece(session, held[i], [&](int64_t first, ConstBytes bytes) {
          checksum.update(bytes);
          return writer->write(i, first, bytes);
        }));
    checksums[infos[i].name] = checksumText(checksum.value());
  }
  HEDDLE_RT_RETURN_IF_ERROR(writer->commit());
  return writeFileAtomically(
      (directory / checksumFile).string(),
      nlohmann::json{{"version", 1}, {"tensors", std::move(checksums)}}.dump(
          1, ' ', false, nlohmann::json::error_handler_t::replace) +
          "\n");
}

/// Makes the entries of a folder durable on disk.
static void syncFolder(const fs::path &folder) {
  int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) {
    ::fsync(descriptor);
    ::close(descriptor);
  }
}

/// Renames the folder `from` to `to`, and removes an older `to`.
static Status replaceFolder(const fs::path &from, const fs::path &to) {
  std::error_code failure;
  if (fs::exists(to, failure)) {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(),
                    RENAME_EXCHANGE) == 0) {
      fs::remove_all(from, failure);
      return Status::success();
    }
    // The file system cannot exchange two folders. If the process crashes
    // before the rename, only older checkpoints are left.
    fs::remove_all(to, failure);
  }
  fs::rename(from, to, failure);
  if (failure)
    return error("cannot rename '" + from.string() + "' to '" + to.string() +
                 "': " + failure.message());
  return Status::success();
}

/// Runs `work` on process 0 alone. Every process returns its error.
static Status onFirst(Job *job, const std::function<Status()> &work) {
  if (!job)
    return work();
  Status status = job->process() == 0 ? work() : Status::success();
  auto message = job->fromFirst(status.message());
  HEDDLE_RT_RETURN_IF_ERROR(message.status());
  return message->empty() ? Status::success() : error(*message);
}

Status heddle::runtime::saveCheckpoint(const Session &session,
                                       const TrainingState &state,
                                       const fs::path &directory) {
  if (session.emulatesCompute())
    return error("checkpoint: computation is emulated, so the variables mean "
                 "nothing");
  Job *job = session.job();
  std::string context = "checkpoint '" + directory.string() + "'";
  fs::path folder = directory.parent_path();
  fs::path partial =
      folder / ("." + directory.filename().string() + ".partial");
  HEDDLE_RT_RETURN_IF_ERROR(onFirst(job, [&] {
    std::error_code failure;
    if (!folder.empty())
      fs::create_directories(folder, failure);
    if (failure)
      return error("checkpoint: cannot make the folder '" + folder.string() +
                   "': " + failure.message());
    fs::remove_all(partial, failure);
    fs::create_directory(partial, failure);
    return failure ? error(context + ": cannot make the folder '" +
                           partial.string() + "': " + failure.message())
                   : Status::success();
  }));
  Status status;
  std::string index;
  if (job) {
    auto parts = writeParts(session, partial);
    status = parts.status();
    index = parts.ok() ? std::move(*parts) : "";
  } else {
    status = writeFiles(session, partial);
  }
  if (status.ok())
    status = onFirst(job, [&]() -> Status {
      if (job)
        HEDDLE_RT_RETURN_IF_ERROR(
            writeFileAtomically((partial / partsFile).string(), index));
      HEDDLE_RT_RETURN_IF_ERROR(
          writeFileAtomically((partial / "state.json").string(),
                              stateToJSON(state, session.manifest())));
      syncFolder(partial);
      return replaceFolder(partial, directory);
    });
  if (!job || job->process() == 0) {
    std::error_code ignored;
    if (!status.ok())
      fs::remove_all(partial, ignored);
    syncFolder(folder);
  }
  return std::move(status).in(context);
}

/// Returns the tensors that a checkpoint must hold for `use`. Every variable of
/// the checkpoint must be of the session too, except that an evaluation ignores
/// those that are not of the model.
static Expected<std::vector<size_t>>
agreeOnVariables(const Manifest &manifest, const fs::path &directory,
                 const std::set<std::string> &found, CheckpointUse use) {
  bool evaluates = use == CheckpointUse::Evaluate;
  auto modelVariables = readModelVariables(directory);
  HEDDLE_RT_RETURN_IF_ERROR(modelVariables.status());
  auto fail = [&](const std::string &name, const char *what) {
    return error("variable '" + name + "': " + what +
                 "; was it written by another model or optimizer?" +
                 (evaluates ? ""
                            : " To go on with another optimizer, export the "
                              "weights (--export) and start from them "
                              "(--weights)"));
  };
  for (const std::string &name : found) {
    bool ignored =
        evaluates && !(*modelVariables && (*modelVariables)->contains(name));
    if (!ignored && !manifest.findTensor(name))
      return fail(name, "is not of this model");
  }
  std::vector<size_t> used = checkpointTensors(manifest);
  std::erase_if(used, [&](size_t tensor) {
    const WholeTensor &info = manifest.tensors[tensor];
    return evaluates && !isOfModel(info.role) && !found.contains(info.name);
  });
  for (size_t tensor : used)
    if (!found.contains(manifest.tensors[tensor].name))
      return fail(manifest.tensors[tensor].name, "is missing");
  return used;
}

/// Fills the variables from a checkpoint that one process wrote.
static Status readFiles(Session &session, const fs::path &directory,
                        CheckpointUse use) {
  std::string context = "checkpoint '" + directory.string() + "'";
  auto reader = safetensors::Reader::open(directory.string());
  HEDDLE_RT_RETURN_IF_ERROR(reader.status().in("checkpoint"));
  std::set<std::string> found;
  for (const safetensors::Tensor &tensor : reader->tensors())
    found.insert(tensor.name);
  const Manifest &manifest = session.manifest();
  auto used = agreeOnVariables(manifest, directory, found, use);
  HEDDLE_RT_RETURN_IF_ERROR(used.status().in(context));
  for (size_t index : *used) {
    const WholeTensor &info = manifest.tensors[index];
    const safetensors::Tensor &tensor = *reader->find(info.name);
    auto fail = [&](const std::string &what) {
      return error(context + ": variable '" + info.name + "': " + what +
                   "; was it written by another model or optimizer?");
    };
    if (tensor.shape != info.shape)
      return fail("expected shape " + safetensors::shapeToString(info.shape) +
                  ", got " + safetensors::shapeToString(tensor.shape));
    if (safetensorsType(info.type) != tensor.dtype)
      return fail("expected type " + std::string(name(info.type)) + ", got " +
                  std::string(safetensors::name(tensor.dtype)));
  }
  HEDDLE_RT_RETURN_IF_ERROR(verifyTensors(directory, *reader).in("checkpoint"));
  HEDDLE_RT_RETURN_IF_ERROR(zeroSumsOfStep(session));
  for (size_t index : *used) {
    const safetensors::Tensor &tensor =
        *reader->find(manifest.tensors[index].name);
    HEDDLE_RT_RETURN_IF_ERROR(
        session.writeTensor(index, 0, tensor.elements, tensor.data)
            .in(context));
  }
  return Status::success();
}

Status heddle::runtime::loadCheckpoint(Session &session,
                                       const fs::path &directory,
                                       CheckpointUse use) {
  if (!hasParts(directory))
    return readFiles(session, directory, use);
  std::string context = "checkpoint '" + directory.string() + "'";
  auto parts = readCheckpointParts(directory);
  HEDDLE_RT_RETURN_IF_ERROR(parts.status().in(context));
  std::set<std::string> found;
  for (const CheckpointPart &part : *parts)
    found.insert(part.tensor);
  auto used = agreeOnVariables(session.manifest(), directory, found, use);
  HEDDLE_RT_RETURN_IF_ERROR(used.status().in(context));
  HEDDLE_RT_RETURN_IF_ERROR(zeroSumsOfStep(session));
  return readParts(session, directory, *used).in(context);
}
