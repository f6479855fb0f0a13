//===- CallNames.h - What the calls of programs serve -----------*- C++ -*-===//

#ifndef HEDDLE_RT_SESSION_CALLNAMES_H
#define HEDDLE_RT_SESSION_CALLNAMES_H

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace heddle::runtime {

/// Returns the names of the operators that an item of `heddle_calls` serves,
/// separated by commas. If there are more than two, returns the first and the
/// number of the others.
std::string joinOperators(const nlohmann::json &call);

/// The table `heddle_calls` of a library (heddle_rt/abi.h). A library of
/// another compiler may have none, or a damaged one: then calls have no names.
class CallNames {
public:
  explicit CallNames(const char *text);

  /// Returns the item of a program's call, or null if it is not known. `call`
  /// counts the calls that a run of the program issues, and `total` is their
  /// number. Both differ from the number of items only in loops.
  const nlohmann::json *find(const std::string &program, int64_t call,
                             int64_t total) const;
  /// Returns the index of an item of the program's list, loops written out
  /// once.
  int64_t getIndex(const nlohmann::json *item) const;

private:
  struct Program {
    std::vector<const nlohmann::json *> items; ///< calls, each loop's once
    /// The first loop has the items [before, after) of its condition, and the
    /// items [after, end) of its body.
    size_t before = 0, after = 0, end = 0;
    bool hasLoop = false, isOrderKnown = true;
  };
  void add(Program &program, const nlohmann::json &items, bool inLoop);

  nlohmann::json table;
  std::map<std::string, Program> programs;
  std::map<const nlohmann::json *, int64_t> indices;
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_SESSION_CALLNAMES_H
