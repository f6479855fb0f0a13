//===- ManifestReader.h - Reads the parts of a manifest ---------*- C++ -*-===//

#ifndef HEDDLE_RT_MANIFEST_MANIFESTREADER_H
#define HEDDLE_RT_MANIFEST_MANIFESTREADER_H

#include "heddle_rt/manifest.h"
#include "manifest/JsonReader.h"

#include <array>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::runtime {

/// The most streams of a device; rt.program has the same limit.
inline constexpr int64_t maxStreams = 8;

inline int64_t product(const std::vector<int64_t> &shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

template <typename List>
std::optional<size_t> findByName(const List &list, std::string_view name) {
  for (size_t i = 0; i < list.size(); ++i)
    if (list[i].name == name)
      return i;
  return std::nullopt;
}

/// Reads the parts of a manifest. After the first error every read returns a
/// default, so callers check `status` once, at the end. Parts refer to parts
/// that have been read into `manifest` before.
class ManifestReader : public JsonReader {
public:
  Manifest manifest;

  void read(const Json &root);

private:
  // ReadVariables.cpp
  void readVariables(const Json &root);
  VariableInfo variable(const Json &object, const std::string &path);
  Initializer initializer(const Json &variable, const std::string &path);
  std::optional<SliceInfo> slice(const Json &object, const std::string &path,
                                 const VariableInfo &info);
  std::optional<CheckpointTensor> checkpoint(const Json &object,
                                             const std::string &path,
                                             const VariableInfo &info);
  void findTensors();

  // ReadTables.cpp
  void readTables(const Json &root);
  TableInfo table(const Json &object, const std::string &path);
  TableList list(const Json &object, const std::string &path,
                 const TableInfo &table);
  TableEntry entry(const Json &object, const std::string &path,
                   const TableInfo &table);
  void call(const Json &object, const std::string &path, const TableInfo &table,
            TableEntry &entry);
  void transfer(const Json &object, const std::string &path,
                const TableInfo &table, TableEntry &entry);
  TableOperand operand(const Json &value, const std::string &path,
                       const TableInfo &table);

  // ReadTensors.cpp
  int32_t axis(const Json &value, const std::string &path);
  std::vector<int32_t> axes(const Json &value, const std::string &path);
  /// Reads `{"pp": [0, 3]}`.
  std::vector<AxisCoordinates> coordinates(const Json &value,
                                           const std::string &path);
  RankSet rankSet(const Json &object, const std::string &path);
  GroupInfo group(const Json &object, const std::string &path);
  /// Reads the member `ranks`, an index of a rank set; absent: 0.
  size_t ranks(const Json &object, const std::string &path);
  std::vector<int64_t> shape(const Json &object, const std::string &path,
                             int64_t least);
  void tensor(const Json &object, const std::string &path,
              const char *shardingKey, TensorInfo &info);
  void port(const Json &object, const std::string &path, PortInfo &info);

  // Manifest.cpp
  void readMesh(const Json &root);
  CodeInfo code(const Json &object, const std::string &path);
  void gpuCode(const Json &object, const std::string &path, CodeInfo &info);
  KernelInfo kernel(const Json &object, const std::string &path);
  ProgramInfo program(const Json &object, const std::string &path);
  void inPlace(const Json &result, const std::string &path,
               const ProgramInfo &program, std::vector<size_t> &arguments);

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

  template <typename List> void checkUnique(const List &list, const char *key) {
    std::set<std::string_view> names;
    for (size_t i = 0; i < list.size(); ++i)
      if (!names.insert(list[i].name).second)
        fail(concat(key, "[", i, "].name"), "each name once",
             concat("\"", list[i].name, "\" again"));
  }
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_MANIFEST_MANIFESTREADER_H
