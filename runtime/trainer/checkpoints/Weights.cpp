//===- Weights.cpp - Parameters under the model's own names ---------------===//

#include "heddle_rt/atomic_file.h"
#include "heddle_rt/checkpoint.h"
#include "heddle_rt/safetensors.h"

#include "../VariableIO.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace fs = std::filesystem;
using namespace heddle::runtime;

/// Returns the parameters and buffers that have a tensor in the model's
/// checkpoint format.
static std::vector<size_t> exportedTensors(const Manifest &manifest) {
  std::vector<size_t> exported;
  for (size_t i = 0; i < manifest.tensors.size(); ++i)
    if (isOfModel(manifest.tensors[i].role) && manifest.tensors[i].checkpoint)
      exported.push_back(i);
  return exported;
}

/// Finds a tensor by name. If the file is of a model without its head, its
/// names lack the first component.
static const safetensors::Tensor *findTensor(const safetensors::Reader &reader,
                                             std::string_view tensorName) {
  if (const safetensors::Tensor *tensor = reader.find(tensorName))
    return tensor;
  size_t dot = tensorName.find('.');
  return dot == std::string_view::npos
             ? nullptr
             : reader.find(tensorName.substr(dot + 1));
}

/// Returns an error if a value is not finite. Otherwise the loss would not be
/// finite either, which looks like a learning rate that is too large.
static Status checkFinite(const std::string &tensor, int64_t first,
                          const std::vector<float> &values) {
  auto found = std::ranges::find_if_not(
      values, [](float value) { return std::isfinite(value); });
  if (found == values.end())
    return Status::success();
  return error("tensor '" + tensor + "': expected finite numbers, got " +
               std::to_string(*found) + " at element " +
               std::to_string(first + (found - values.begin())) +
               "; were they saved by a run that failed?");
}

Status heddle::runtime::loadWeights(Session &session, const fs::path &path) {
  std::string context = "weights '" + path.string() + "'";
  auto reader = safetensors::Reader::open(path.string());
  if (!reader.ok()) // the error names the file
    return std::move(reader).status().in("weights");

  const Manifest &manifest = session.manifest();
  std::vector<size_t> exported = exportedTensors(manifest);
  std::vector<const safetensors::Tensor *> tensors;
  for (size_t index : exported) {
    const WholeTensor &info = manifest.tensors[index];
    const safetensors::Tensor *tensor =
        findTensor(*reader, info.checkpoint->name);
    auto fail = [&](const std::string &what) {
      return error(context + ": tensor '" + info.checkpoint->name +
                   "': " + what);
    };
    if (!tensor)
      return fail("is missing");
    if (tensor->shape != info.checkpoint->shape)
      return fail("expected shape " +
                  safetensors::shapeToString(info.checkpoint->shape) +
                  ", got " + safetensors::shapeToString(tensor->shape));
    if (!safetensors::isFloat(tensor->dtype))
      return fail("expected a floating-point type, got " +
                  std::string(safetensors::name(tensor->dtype)));
    if (info.type != HEDDLE_RT_F32)
      return fail("expected a variable of type f32, got " +
                  std::string(name(info.type)));
    tensors.push_back(tensor);
  }

  constexpr int64_t piece = int64_t(1) << 20;
  std::vector<float> buffer;
  for (size_t i = 0; i < exported.size(); ++i) {
    for (int64_t first = 0; first < tensors[i]->elements; first += piece) {
      buffer.resize(std::min(piece, tensors[i]->elements - first));
      HEDDLE_RT_RETURN_IF_ERROR(tensors[i]->readF32(first, buffer).in(context));
      HEDDLE_RT_RETURN_IF_ERROR(
          checkFinite(tensors[i]->name, first, buffer).in(context));
      HEDDLE_RT_RETURN_IF_ERROR(
          session
              .writeTensor(exported[i], first, buffer.size(), bytesOf(buffer))
              .in(context));
    }
  }
  return Status::success();
}

Status heddle::runtime::exportWeights(const Session &session,
                                      const fs::path &directory,
                                      const std::string &config) {
  std::string context = "export to '" + directory.string() + "'";
  if (session.emulatesCompute())
    return error(context + ": computation is emulated, so the parameters mean "
                           "nothing");
  const Manifest &manifest = session.manifest();
  std::vector<size_t> exported = exportedTensors(manifest);
  if (exported.empty())
    return error(context + ": no parameter of this artifact has a name in the "
                           "model's checkpoint format");
  std::vector<safetensors::TensorInfo> infos;
  for (size_t index : exported) {
    const WholeTensor &info = manifest.tensors[index];
    infos.push_back(
        {info.checkpoint->name,
         safetensorsType(info.type).value_or(safetensors::DType::F32),
         info.checkpoint->shape});
  }
  if (session.job() && session.job()->process() != 0) {
    // Process 0 writes. The others send it their elements.
    for (size_t tensor : exported)
      HEDDLE_RT_RETURN_IF_ERROR(
          forEachPiece(session, tensor, [](int64_t, ConstBytes) {
            return Status::success();
          }).in(context));
    return Status::success();
  }
  auto writer = safetensors::DirectoryWriter::create(
      directory.string(), infos, safetensors::pytorchMetadata());
  if (!writer.ok())
    return std::move(writer).status().in(context);
  for (size_t i = 0; i < exported.size(); ++i)
    HEDDLE_RT_RETURN_IF_ERROR(
        forEachPiece(session, exported[i],
                     [&](int64_t first, ConstBytes bytes) {
                       return writer->write(i, first, bytes);
                     })
            .in(context));
  HEDDLE_RT_RETURN_IF_ERROR(writer->commit().in(context));
  if (config.empty())
    return Status::success();
  return writeFileAtomically((directory / "config.json").string(), config)
      .in(context);
}
