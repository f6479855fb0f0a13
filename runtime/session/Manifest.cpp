//===- Manifest.cpp - Reads manifest.json ---------------------------------===//

#include "heddle_rt/manifest.h"
#include "JsonReader.h"
#include "heddle/Support/JsonText.h"
#include "support/Message.h"

#include <algorithm>
#include <fstream>
#include <set>

namespace heddle::runtime {

using Json = nlohmann::json;

static int64_t product(const std::vector<int64_t> &shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

int64_t TensorInfo::elements() const { return product(shape); }

int64_t WholeTensor::elements() const { return product(shape); }

std::vector<int64_t> VariableInfo::wholeShape() const {
  std::vector<int64_t> whole = shape;
  if (slice)
    whole[size_t(slice->dim)] = slice->size;
  return whole;
}

int64_t Manifest::numDevices() const {
  int64_t count = 1;
  for (const MeshAxis &axis : mesh)
    count *= axis.size;
  return count;
}

template <typename List>
static std::optional<size_t> findByName(const List &list,
                                        std::string_view name) {
  for (size_t i = 0; i < list.size(); ++i)
    if (list[i].name == name)
      return i;
  return std::nullopt;
}

std::optional<size_t> Manifest::findVariable(std::string_view name) const {
  return findByName(variables, name);
}

std::optional<size_t> Manifest::findTensor(std::string_view name) const {
  return findByName(tensors, name);
}

std::optional<size_t> Manifest::findProgram(std::string_view name) const {
  return findByName(programs, name);
}

namespace {

/// A file that asks for more devices than this is damaged.
constexpr int64_t maxDevices = 1 << 16;
/// The most streams of a device; rt.program has the same limit.
constexpr int64_t maxStreams = 8;

/// Reads the parts of a manifest. After the first error every read returns a
/// default, so callers check `status` once, at the end.
class ManifestReader : public JsonReader {
public:
  int32_t axis(const Json &value, const std::string &path,
               const Manifest &manifest) {
    if (!value.is_string()) {
      fail(path, "the name of a mesh axis", describe(value));
      return 0;
    }
    auto &name = value.get_ref<const std::string &>();
    std::optional<size_t> found = findByName(manifest.mesh, name);
    if (!found)
      fail(path, "the name of a mesh axis", describe(value));
    return int32_t(found.value_or(0));
  }

  std::vector<int32_t> axes(const Json &value, const std::string &path,
                            const Manifest &manifest) {
    std::vector<int32_t> result;
    each(value, path, [&](const Json &element, const std::string &at) {
      int32_t index = axis(element, at, manifest);
      for (int32_t other : result)
        if (other == index)
          fail(at, "each axis once", describe(element));
      result.push_back(index);
    });
    return result;
  }

  std::vector<int64_t> shape(const Json &object, const std::string &path,
                             int64_t least) {
    std::vector<int64_t> result;
    double elements = 1;
    each(object, path, "shape", [&](const Json &value, const std::string &at) {
      result.push_back(toInteger(value, at, least));
      elements *= double(result.back());
      if (elements > 1e15)
        fail(join(path, "shape"), "at most 10^15 elements", concat(elements));
    });
    return result;
  }

  void tensor(const Json &object, const std::string &path,
              const char *shardingKey, const Manifest &manifest,
              TensorInfo &info) {
    info.name = string(object, path, "name");
    std::string type = string(object, path, "type");
    std::optional<DType> parsed = parseDType(type);
    if (!parsed)
      fail(join(path, "type"), "one of f32, bf16, f16, f64, i1, i8, i32, i64",
           concat("\"", type, "\""));
    info.type = parsed.value_or(HEDDLE_RT_F32);
    info.shape = shape(object, path, 1);
    std::vector<bool> used(manifest.mesh.size());
    each(object, path, shardingKey,
         [&](const Json &value, const std::string &at) {
           info.sharding.push_back(axes(value, at, manifest));
           for (int32_t axis : info.sharding.back()) {
             if (used[size_t(axis)])
               fail(at, "each axis on one dimension only", showJson(value));
             used[size_t(axis)] = true;
           }
         });
    if (status.ok() && info.sharding.size() != info.shape.size())
      fail(join(path, shardingKey),
           concat("one entry for each of ", info.shape.size(), " dimensions"),
           concat(info.sharding.size()));
  }

  /// Reads one of the names that `parse` knows.
  template <size_t n, typename Role>
  std::optional<Role> choice(const Json &object, const std::string &path,
                             const char *key,
                             const std::array<std::string_view, n> &names,
                             std::optional<Role> (&parse)(std::string_view)) {
    std::string text = string(object, path, key);
    std::optional<Role> known = parse(text);
    if (!known) {
      std::string list;
      for (std::string_view each : names)
        list += concat(list.empty() ? "" : ", ", each);
      fail(join(path, key), concat("one of ", list), concat("\"", text, "\""));
    }
    return known;
  }

  PortInfo port(const Json &object, const std::string &path,
                const Manifest &manifest) {
    PortInfo info;
    tensor(object, path, "sharding", manifest, info);
    if (member(object, path, "role", false))
      info.role = choice(object, path, "role", portRoles, parsePortRole);
    if (info.role == PortRole::Gradient)
      info.parameter = string(object, path, "parameter");
    return info;
  }

  Initializer initializer(const Json &variable, const std::string &path) {
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

  std::optional<SliceInfo> slice(const Json &object, const std::string &path,
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

  VariableInfo variable(const Json &object, const std::string &path,
                        const Manifest &manifest) {
    VariableInfo info;
    tensor(object, path, "storage", manifest, info);
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
    const Json *checkpoint = member(object, path, "checkpoint", false);
    if (!checkpoint || checkpoint->is_null())
      return info;
    std::string at = join(path, "checkpoint");
    if (!checkpoint->is_object()) {
      fail(at, "an object", describe(*checkpoint));
      return info;
    }
    CheckpointTensor tensor;
    tensor.name = string(*checkpoint, at, "name");
    tensor.shape = shape(*checkpoint, at, 1);
    if (!status.ok())
      return info;
    int64_t elements = product(tensor.shape);
    int64_t expected = product(info.wholeShape());
    if (elements != expected)
      fail(join(at, "shape"),
           concat("as many elements as the ",
                  info.slice ? "whole tensor" : "variable", " has, ", expected),
           concat(elements));
    info.checkpoint = std::move(tensor);
    return info;
  }

  ProgramInfo program(const Json &object, const std::string &path,
                      const Manifest &manifest) {
    ProgramInfo info;
    info.name = string(object, path, "name");
    info.symbol = string(object, path, "symbol");
    info.arenaBytes = integer(object, path, "arena_bytes", 0);
    if (const Json *value = member(object, path, "streams", false)) {
      int64_t streams = toInteger(*value, join(path, "streams"), 1);
      if (streams > maxStreams)
        fail(join(path, "streams"), concat("at most ", maxStreams, " streams"),
             concat(streams));
      else
        info.streams = int(streams);
    }
    auto read = [&](const char *key, std::vector<PortInfo> &list) {
      eachObject(object, path, key,
                 [&](const Json &element, const std::string &at) {
                   list.push_back(port(element, at, manifest));
                 });
    };
    read("arguments", info.arguments);
    read("results", info.results);
    return info;
  }

  /// Gathers the slices of each whole tensor and checks that they cover it.
  void findTensors(Manifest &manifest) {
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

  template <typename List> void checkUnique(const List &list, const char *key) {
    std::set<std::string_view> names;
    for (size_t i = 0; i < list.size(); ++i)
      if (!names.insert(list[i].name).second)
        fail(concat(key, "[", i, "].name"), "each name once",
             concat("\"", list[i].name, "\" again"));
  }

  Manifest manifest(const Json &root) {
    Manifest manifest;
    manifest.version = integer(root, "", "version", 0);
    if (status.ok() && manifest.version != 1)
      fail("version", "1, which this runtime reads", concat(manifest.version));
    manifest.abi = integer(root, "", "abi", 0);
    if (status.ok() && manifest.abi != HEDDLE_RT_ABI_VERSION)
      fail("abi",
           concat(HEDDLE_RT_ABI_VERSION,
                  ", which this runtime has (compile the model again)"),
           concat(manifest.abi));
    manifest.library = string(root, "", "library");
    if (manifest.library.empty() ||
        manifest.library.find('/') != std::string::npos)
      fail("library", "a file name without a folder",
           concat("\"", manifest.library, "\""));
    if (const Json *target = member(root, "", "target")) {
      if (!target->is_object())
        fail("target", "an object", describe(*target));
      else {
        manifest.triple = string(*target, "target", "triple");
        if (member(*target, "target", "sanitizer", false))
          manifest.sanitizer = string(*target, "target", "sanitizer");
        each(*target, "target", "features",
             [&](const Json &value, const std::string &at) {
               if (!value.is_string())
                 return fail(at, "a string", describe(value));
               manifest.features.push_back(value.get<std::string>());
             });
      }
    }
    int64_t devices = 1;
    eachObject(root, "", "mesh", [&](const Json &axis, const std::string &at) {
      manifest.mesh.push_back(
          {string(axis, at, "name"), integer(axis, at, "size", 1)});
      if (manifest.mesh.back().size > maxDevices / devices)
        fail(join(at, "size"), concat("at most ", maxDevices, " devices"),
             concat(manifest.mesh.back().size));
      else
        devices *= manifest.mesh.back().size;
    });
    checkUnique(manifest.mesh, "mesh");
    each(root, "", "groups", [&](const Json &value, const std::string &at) {
      manifest.groups.push_back(axes(value, at, manifest));
    });
    eachObject(root, "", "variables",
               [&](const Json &object, const std::string &at) {
                 manifest.variables.push_back(variable(object, at, manifest));
               });
    checkUnique(manifest.variables, "variables");
    if (status.ok())
      findTensors(manifest);
    eachObject(root, "", "programs",
               [&](const Json &object, const std::string &at) {
                 manifest.programs.push_back(program(object, at, manifest));
               });
    checkUnique(manifest.programs, "programs");
    manifest.seed = uint64_t(integer(root, "", "seed", 0));
    if (const Json *model = member(root, "", "model", false))
      manifest.model = model->dump();
    if (const Json *plan = member(root, "", "plan", false))
      manifest.plan = plan->dump();
    return manifest;
  }
};

} // namespace

Expected<Manifest> parseManifest(std::string_view text,
                                 std::string_view origin) {
  Json root;
  if (std::optional<JsonProblem> problem = parseJson(text, root))
    return errorOf(
        describePlace(origin, text, problem->offset), ": ", problem->message,
        problem->offset < text.size() ? "" : " (the file may be cut short)");
  if (!root.is_object())
    return errorOf(origin, ": expected an object, got ", root.type_name());
  ManifestReader reader;
  Manifest manifest = reader.manifest(root);
  if (!reader.status.ok())
    return std::move(reader.status).in(origin);
  return manifest;
}

Expected<Manifest> readManifest(const std::filesystem::path &file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream)
    return errorOf("cannot read ", file.string(),
                   ": expected the manifest of a compiled model");
  std::string text((std::istreambuf_iterator<char>(stream)),
                   std::istreambuf_iterator<char>());
  return parseManifest(text, file.string());
}

} // namespace heddle::runtime
