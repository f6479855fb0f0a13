//===- Call.cpp - Calling one program of an artifact ----------------------===//

#include "Call.h"

#include "heddle_rt/safetensors.h"

#include <cstdio>

namespace fs = std::filesystem;
using namespace heddle;
using namespace heddle::tools;
namespace st = heddle::runtime::safetensors;

void tools::addCallFlags(CLI::App &app, CallFlags &flags) {
  app.add_option("--program", flags.program,
                 "The function to call (default: the only one, or main)")
      ->check(notEmpty("the name of a function"));
  app.add_option("--inputs", flags.inputs,
                 "Arguments (safetensors), by their names (heddle.name), or "
                 "argument0, argument1, ... where they have none; of the "
                 "program's own types");
  CLI::Option *output = app.add_option(
      "-o,--output", flags.output,
      "Write the results here (safetensors), by their names or as result0, "
      "result1, ...");
  output->check(notEmpty("a file to write"));
  app.add_option("--cores", flags.cores,
                 "Cores of each device (default: all cores, shared equally)")
      ->check(between(0, 4096));
  addEmulateFlags(app, flags.emulate)->excludes(output);
}

static std::string nameOf(const runtime::TensorInfo &tensor, const char *kind,
                          size_t index) {
  return tensor.name.empty() ? kind + std::to_string(index) : tensor.name;
}

/// Returns the safetensors type for a runtime type, or nullopt if there is
/// none.
static std::optional<st::DType> fileType(runtime::DType type) {
  std::string_view name = runtime::name(type);
  if (name == "i1")
    return st::DType::Bool;
  std::string upper;
  for (char letter : name)
    upper += static_cast<char>(std::toupper(letter));
  return st::parseDType(upper);
}

/// Returns the shape in a file of the tensors of all micro-batches. They are
/// one tensor, with the micro-batches as its first dimension unless there is
/// only one.
static std::vector<int64_t> shapeInFile(const runtime::TensorInfo &tensor,
                                        int64_t microBatches) {
  std::vector<int64_t> shape = tensor.shape;
  if (microBatches > 1)
    shape.insert(shape.begin(), microBatches);
  return shape;
}

/// Finds an argument by name, and checks its type and shape.
static runtime::Expected<runtime::ConstBytes>
findArgument(const st::Reader &file, const fs::path &path,
             const runtime::TensorInfo &wanted,
             const std::vector<int64_t> &shape, const std::string &name) {
  const st::Tensor *found = file.find(name);
  std::string type =
      std::string(runtime::name(wanted.type)) + " " + st::shapeToString(shape);
  if (!found)
    return runtime::error("'" + path.string() + "': expected a tensor '" +
                          name + "', " + type);
  if (found->dtype != fileType(wanted.type) || found->shape != shape)
    return runtime::error("'" + path.string() + "': expected '" + name +
                          "' as " + type + ", got " +
                          std::string(st::name(found->dtype)) + " " +
                          st::shapeToString(found->shape));
  return runtime::ConstBytes(found->data);
}

/// Lists, for messages, the arguments that a file of inputs must have.
static std::string describeArguments(const runtime::TableInfo &program) {
  std::string text;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const runtime::TensorInfo &wanted = program.inputs[i];
    text += (i ? ", '" : "'") + nameOf(wanted, "argument", i) + "' " +
            std::string(runtime::name(wanted.type)) + " " +
            st::shapeToString(shapeInFile(wanted, program.microBatches));
  }
  return text;
}

static runtime::Status call(const fs::path &artifact, const CallFlags &flags,
                            runtime::SessionOptions options) {
  options.coresPerDevice = flags.cores;
  HEDDLE_RT_RETURN_IF_ERROR(flags.emulate.apply(options));
  auto session = runtime::Session::load(artifact, options);
  if (!session.ok())
    return session.status();
  const runtime::Manifest &manifest = (*session)->manifest();
  std::string name = flags.program;
  if (name.empty())
    name = manifest.tables.size() == 1 ? manifest.tables[0].name : "main";
  std::optional<size_t> index = manifest.findTable(name);
  if (!index) {
    std::string names;
    for (const runtime::TableInfo &program : manifest.tables)
      names += (names.empty() ? "" : ", ") + program.name;
    return runtime::error("'" + artifact.string() + "': expected a program (" +
                          names + "), got '" + name + "'");
  }
  const runtime::TableInfo &program = manifest.tables[*index];

  std::optional<st::Reader> file;
  if (!flags.inputs.empty()) {
    auto opened = st::Reader::open(flags.inputs.string());
    if (!opened.ok())
      return opened.status();
    file.emplace(std::move(*opened));
  } else if (!program.inputs.empty()) {
    return runtime::error(
        "program '" + program.name + "' has " +
        std::to_string(program.inputs.size()) +
        " arguments: expected --inputs FILE (safetensors) with " +
        describeArguments(program));
  }
  std::vector<runtime::ConstBytes> arguments;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const runtime::TensorInfo &wanted = program.inputs[i];
    auto found = findArgument(*file, flags.inputs, wanted,
                              shapeInFile(wanted, program.microBatches),
                              nameOf(wanted, "argument", i));
    if (!found.ok())
      return found.status();
    arguments.push_back(*found);
  }

  std::vector<std::vector<std::byte>> storage;
  std::vector<st::TensorInfo> infos;
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const runtime::TableOutput &result = program.outputs[i];
    int64_t copies = result.perMicroBatch ? program.microBatches : 1;
    std::optional<st::DType> type = fileType(result.type);
    if (!type)
      return runtime::error("result " + std::to_string(i) + " of '" +
                            program.name + "': no type of safetensors is " +
                            std::string(runtime::name(result.type)));
    infos.push_back(
        {nameOf(result, "result", i), *type, shapeInFile(result, copies)});
    storage.emplace_back(size_t(copies) * result.bytes());
  }
  std::vector<runtime::Bytes> results(storage.begin(), storage.end());
  HEDDLE_RT_RETURN_IF_ERROR((*session)->run(program.name, arguments, results));
  if (options.job && options.job->process() != 0)
    return runtime::Status::success();
  if (flags.output.empty()) {
    for (const st::TensorInfo &info : infos)
      std::printf("%s: %s %s\n", info.name.c_str(),
                  std::string(st::name(info.dtype)).c_str(),
                  st::shapeToString(info.shape).c_str());
    std::printf(flags.emulate.compute
                    ? "not computed: computation is emulated\n"
                    : "computed; --output FILE writes the values\n");
    return runtime::Status::success();
  }
  auto writer = st::FileWriter::create(flags.output.string(), infos, {});
  if (!writer.ok())
    return writer.status();
  for (size_t i = 0; i < storage.size(); ++i)
    HEDDLE_RT_RETURN_IF_ERROR(writer->write(i, 0, storage[i]));
  return writer->commit();
}

int tools::runCall(const fs::path &artifact, const CallFlags &flags) {
  runtime::SessionOptions options;
  if (runtime::Status joined = joinJob(SessionFlags().hangTimeout, options);
      !joined.ok())
    return reportError(joined.message());
  runtime::Status status = call(artifact, flags, options);
  if (!status.ok())
    return reportError(options.job.get(), status.message());
  if (options.job)
    options.job->leave();
  return exitSuccess;
}
