//===- UniqueKeys.h - Keys that stand twice in JSON -------------*- C++ -*-===//

#ifndef HEDDLE_SUPPORT_UNIQUEKEYS_H
#define HEDDLE_SUPPORT_UNIQUEKEYS_H

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace heddle {

/// Sees the keys of a text that is parsed: later ones silently replace earlier
/// equal ones of the same object unless one looks. Sees how deep it is, too:
/// printing a value calls itself for what is within.
///
///   UniqueKeys keys;
///   json root = json::parse(text, keys.watch<json>());
class UniqueKeys {
public:
  /// For basic_json::parse; lives no longer than this.
  template <typename Json> auto watch() {
    return [this](int depth, typename Json::parse_event_t event, Json &value) {
      deepest = std::max(deepest, depth);
      if (event == Json::parse_event_t::object_start)
        keys.emplace_back();
      else if (event == Json::parse_event_t::object_end)
        keys.pop_back();
      else if (event == Json::parse_event_t::key && duplicate.empty() &&
               !keys.back().insert(value.template get<std::string>()).second)
        duplicate = value.template get<std::string>();
      return true;
    };
  }

  /// The first key that an object has twice; empty if there is none.
  const std::string &getDuplicate() const { return duplicate; }
  /// Deeper than anything that means something.
  bool isTooDeep() const { return deepest > 64; }

private:
  std::vector<std::set<std::string>> keys; ///< of the objects that are open
  std::string duplicate;
  int deepest = 0;
};

} // namespace heddle

#endif // HEDDLE_SUPPORT_UNIQUEKEYS_H
