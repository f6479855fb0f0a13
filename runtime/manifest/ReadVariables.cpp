//===- ReadVariables.cpp - Variables and whole tensors in a manifest ------===//

#include "manifest/ManifestReader.h"

#include <algorithm>

namespace heddle::runtime {

Initializer ManifestReader::initializer(const Json &variable,
                                        const std::string &path) {
  Initializer init;
  const Json *object = member(variable, path, "init");
  std::string at = join(path, "init");
  if (!object)
    return init;
  if (!object->is_object()) {
    fail(at, "an object", describe(*object));
    return init;
  }
  std::string kind = string(*object, at, "kind");
  if (kind == "zeros") {
    init.kind = Initializer::Kind::Zeros;
  } else if (kind == "ones") {
    init.kind = Initializer::Kind::Ones;
  } else if (kind == "constant") {
    init.kind = Initializer::Kind::Constant;
    init.value = number(*object, at, "value");
  } else if (kind == "normal") {
    init.kind = Initializer::Kind::Normal;
    init.mean = number(*object, at, "mean");
    init.std = number(*object, at, "std");
  } else {
    fail(join(at, "kind"), "one of zeros, ones, constant, normal",
         concat("\"", kind, "\""));
  }
  return init;
}

std::optional<SliceInfo> ManifestReader::slice(const Json &object,
                                               const std::string &path,
                                               const VariableInfo &info) {
  if (!object.is_object()) {
    fail(path, "an object", describe(object));
    return std::nullopt;
  }
  SliceInfo slice;
  slice.of = string(object, path, "of");
  slice.dim = integer(object, path, "dim", 0);
  slice.offset = integer(object, path, "offset", 0);
  slice.size = integer(object, path, "size", 1);
  if (!status.ok())
    return std::nullopt;
  if (slice.dim >= int64_t(info.shape.size())) {
    fail(join(path, "dim"),
         concat("a dimension below ", info.shape.size(), ", the rank"),
         concat(slice.dim));
    return std::nullopt;
  }
  int64_t rows = info.shape[size_t(slice.dim)];
  if (slice.size < rows || slice.offset > slice.size - rows) {
    fail(path, concat(rows, " rows within the whole of ", slice.size),
         concat("them at ", slice.offset));
    return std::nullopt;
  }
  return slice;
}

std::optional<CheckpointTensor>
ManifestReader::checkpoint(const Json &object, const std::string &path,
                           const VariableInfo &info) {
  if (!object.is_object()) {
    fail(path, "an object", describe(object));
    return std::nullopt;
  }
  CheckpointTensor tensor;
  tensor.name = string(object, path, "name");
  tensor.shape = shape(object, path, 1);
  if (!status.ok())
    return std::nullopt;
  int64_t elements = product(tensor.shape);
  int64_t expected = product(info.wholeShape());
  if (elements != expected)
    fail(join(path, "shape"),
         concat("as many elements as the ",
                info.slice ? "whole tensor" : "variable", " has, ", expected),
         concat(elements));
  return tensor;
}

VariableInfo ManifestReader::variable(const Json &object,
                                      const std::string &path) {
  VariableInfo info;
  tensor(object, path, "storage", info);
  info.role = choice(object, path, "role", variableRoles, parseVariableRole)
                  .value_or(VariableRole::Parameter);
  info.init = initializer(object, path);
  if (info.init.kind == Initializer::Kind::Normal &&
      info.type != HEDDLE_RT_F32 && info.type != HEDDLE_RT_BF16 &&
      info.type != HEDDLE_RT_F16 && info.type != HEDDLE_RT_F64)
    fail(join(path, "init.kind"), "zeros, ones or constant for integers",
         "\"normal\"");
  if (const Json *of = member(object, path, "slice", false))
    info.slice = slice(*of, join(path, "slice"), info);
  const Json *of = member(object, path, "checkpoint", false);
  if (of && !of->is_null())
    info.checkpoint = checkpoint(*of, join(path, "checkpoint"), info);
  return info;
}

/// Gathers the slices of each whole tensor and checks that they cover it.
void ManifestReader::findTensors() {
  for (size_t i = 0; i < manifest.variables.size() && status.ok(); ++i) {
    const VariableInfo &info = manifest.variables[i];
    std::string path = concat("variables[", i, "].slice");
    std::optional<size_t> known = manifest.findTensor(info.wholeName());
    int64_t dim = info.slice ? info.slice->dim : 0;
    if (!known) {
      known = manifest.tensors.size();
      manifest.tensors.push_back({info.wholeName(),
                                  info.type,
                                  info.wholeShape(),
                                  info.role,
                                  info.checkpoint,
                                  dim,
                                  {}});
    }
    WholeTensor &tensor = manifest.tensors[*known];
    bool isFirst = tensor.parts.empty();
    bool isLike = tensor.type == info.type && tensor.role == info.role &&
                  tensor.dim == dim && tensor.shape == info.wholeShape();
    if (!isFirst && (!info.slice || !isLike))
      return fail(info.slice ? path : concat("variables[", i, "].name"),
                  concat("type, role and whole shape of the other slices "
                         "of ",
                         tensor.name),
                  "others");
    tensor.parts.push_back(i);
  }
  for (WholeTensor &tensor : manifest.tensors) {
    if (!manifest.variables[tensor.parts.front()].slice)
      continue;
    auto offset = [&](size_t part) {
      return manifest.variables[part].slice->offset;
    };
    std::sort(tensor.parts.begin(), tensor.parts.end(),
              [&](size_t a, size_t b) { return offset(a) < offset(b); });
    int64_t end = 0;
    for (size_t part : tensor.parts) {
      if (offset(part) != end)
        return fail(concat("variables[", part, "].slice.offset"),
                    concat(end, ", where the slice before ends"),
                    concat(offset(part)));
      end += manifest.variables[part].shape[size_t(tensor.dim)];
    }
    if (end != tensor.shape[size_t(tensor.dim)])
      return fail("variables",
                  concat("slices of ", tensor.name, " up to ",
                         tensor.shape[size_t(tensor.dim)]),
                  concat("slices up to ", end));
  }
}

void ManifestReader::readVariables(const Json &root) {
  eachObject(root, "", "variables",
             [&](const Json &object, const std::string &at) {
               manifest.variables.push_back(variable(object, at));
             });
  checkUnique(manifest.variables, "variables");
  if (status.ok())
    findTensors();
}

} // namespace heddle::runtime
