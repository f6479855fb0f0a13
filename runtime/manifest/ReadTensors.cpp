//===- ReadTensors.cpp - Tensors and rank sets in a manifest --------------===//

#include "manifest/ManifestReader.h"

#include "heddle/Support/JsonText.h"

#include <algorithm>

namespace heddle::runtime {

int32_t ManifestReader::axis(const Json &value, const std::string &path) {
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

std::vector<int32_t> ManifestReader::axes(const Json &value,
                                          const std::string &path) {
  std::vector<int32_t> result;
  each(value, path, [&](const Json &element, const std::string &at) {
    int32_t index = axis(element, at);
    for (int32_t other : result)
      if (other == index)
        fail(at, "each axis once", describe(element));
    result.push_back(index);
  });
  return result;
}

std::vector<AxisCoordinates>
ManifestReader::coordinates(const Json &value, const std::string &path) {
  std::vector<AxisCoordinates> result;
  if (!value.is_object()) {
    fail(path, "an object of mesh axes", describe(value));
    return result;
  }
  for (auto &[name, list] : value.items()) {
    AxisCoordinates &condition = result.emplace_back();
    condition.axis = axis(Json(name), path);
    std::string at = join(path, name);
    each(list, at, [&](const Json &element, const std::string &place) {
      int64_t coordinate = toInteger(element, place, 0);
      if (!status.ok())
        return;
      int64_t size = manifest.mesh[size_t(condition.axis)].size;
      if (coordinate >= size)
        return fail(place, concat("a coordinate below ", size),
                    concat(coordinate));
      if (!condition.values.empty() && condition.values.back() >= coordinate)
        return fail(place, "ascending coordinates", concat(coordinate));
      condition.values.push_back(coordinate);
    });
    if (condition.values.empty())
      fail(at, "a coordinate", "none");
  }
  // The order of an object's keys has no meaning.
  std::ranges::sort(result, {}, &AxisCoordinates::axis);
  return result;
}

RankSet ManifestReader::rankSet(const Json &object, const std::string &path) {
  RankSet set;
  if (const Json *where = member(object, path, "where"))
    set.where = coordinates(*where, join(path, "where"));
  return set;
}

GroupInfo ManifestReader::group(const Json &object, const std::string &path) {
  GroupInfo group;
  if (const Json *value = member(object, path, "axes"))
    group.axes = axes(*value, join(path, "axes"));
  if (const Json *among = member(object, path, "among", false))
    group.among = coordinates(*among, join(path, "among"));
  for (const AxisCoordinates &condition : group.among)
    if (!std::ranges::count(group.axes, condition.axis))
      fail(join(path, "among"), "axes of the group",
           concat("\"", manifest.mesh[size_t(condition.axis)].name, "\""));
  return group;
}

size_t ManifestReader::ranks(const Json &object, const std::string &path) {
  const Json *value = member(object, path, "ranks", false);
  if (!value)
    return 0;
  auto index = size_t(toInteger(*value, join(path, "ranks"), 0));
  if (index < manifest.rankSets.size())
    return index;
  fail(join(path, "ranks"),
       concat("an index of a rank set, below ", manifest.rankSets.size()),
       concat(index));
  return 0;
}

std::vector<int64_t> ManifestReader::shape(const Json &object,
                                           const std::string &path,
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

void ManifestReader::tensor(const Json &object, const std::string &path,
                            const char *shardingKey, TensorInfo &info) {
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
         info.sharding.push_back(axes(value, at));
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
  info.ranks = ranks(object, path);
  if (status.ok())
    for (const AxisCoordinates &condition : manifest.rankSets[info.ranks].where)
      if (used[size_t(condition.axis)])
        fail(join(path, "ranks"), "ranks of all coordinates along a split axis",
             concat("some along \"", manifest.mesh[size_t(condition.axis)].name,
                    "\""));
}

void ManifestReader::port(const Json &object, const std::string &path,
                          PortInfo &info) {
  tensor(object, path, "sharding", info);
  if (member(object, path, "role", false))
    info.role = choice(object, path, "role", portRoles, parsePortRole);
  if (info.role == PortRole::Gradient)
    info.parameter = string(object, path, "parameter");
}

} // namespace heddle::runtime
