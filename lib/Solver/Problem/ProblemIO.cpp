//===- ProblemIO.cpp - The contest's JSON form ----------------------------===//

#include "heddle/Solver/ProblemIO.h"
#include "Problem/ReadJson.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <zlib.h>

namespace heddle::solver {

namespace {

using Json = nlohmann::json;

/// Reads fields one after another and keeps the first error.
class Reader {
public:
  const Json *array(const Json &parent, const char *key,
                    const std::string &path) {
    const Json *found = object(parent, key, path, "an array");
    if (!found || found->is_array())
      return found;
    fail(path, "an array", *found);
    return nullptr;
  }

  const Json *object(const Json &parent, const char *key,
                     const std::string &path, const char *what = "an object") {
    auto found = parent.find(key);
    if (found == parent.end()) {
      failure = path + ": expected " + what + ", got nothing";
      return nullptr;
    }
    return &*found;
  }

  bool sameSize(const Json &a, const Json &reference, const char *path,
                const char *referencePath) {
    if (a.size() == reference.size())
      return true;
    failure = std::string(path) + ": expected " +
              std::to_string(reference.size()) + " entries as in " +
              referencePath + ", got " + std::to_string(a.size());
    return false;
  }

  /// Fails if there is an unknown key. A misspelt key would silently change the
  /// problem: without "usage_limit", memory does not matter.
  bool onlyKeys(const Json &parent, const char *path,
                std::initializer_list<std::string_view> known) {
    for (const auto &item : parent.items()) {
      if (std::ranges::find(known, item.key()) != known.end())
        continue;
      std::string names;
      for (std::string_view name : known)
        names.append(names.empty() ? "" : ", ").append(name);
      failure = std::string(path) + "." + item.key().substr(0, 60) +
                ": expected one of " + names + ", got an unknown key";
      return false;
    }
    return true;
  }

  /// Reads a list of integers of type T. Errors name the list `path[index]`.
  template <typename T>
  bool integers(const Json &list, const char *path, size_t index,
                std::vector<T> &out) {
    auto name = [&] {
      return std::string(path) + "[" + std::to_string(index) + "]";
    };
    if (!list.is_array())
      return fail(name(), "an array", list);
    out.reserve(list.size());
    for (const Json &item : list) {
      auto itemName = [&] {
        return name() + "[" + std::to_string(out.size() - 1) + "]";
      };
      if (!integer(item, itemName, out.emplace_back()))
        return false;
    }
    return true;
  }

  template <typename T, typename NameFn>
  bool integer(const Json &item, NameFn name, T &out) {
    using Limits = std::numeric_limits<T>;
    // Numbers too large for 64 bits are parsed as floating-point ones.
    bool fits = item.is_number_unsigned()
                    ? item.get<uint64_t>() <= uint64_t(Limits::max())
                    : item.is_number_integer() &&
                          item.get<int64_t>() >= int64_t(Limits::min());
    if (!fits)
      return fail(name(),
                  !std::is_signed_v<T> ? "a node number"
                  : sizeof(T) == 8     ? "a 64-bit integer"
                                       : "a 32-bit integer",
                  item);
    out = static_cast<T>(item.get<int64_t>());
    return true;
  }

  /// Sets the error. Returns false, so that callers can return it.
  bool fail(const std::string &path, const char *what, const Json &found) {
    failure =
        path + ": expected " + what + ", got " + showJson(found, kLongestShown);
    return false;
  }

  std::string failure;
};

bool readNodes(Reader &r, const Json &root, Problem &p) {
  const Json *nodes = r.object(root, "nodes", "problem.nodes");
  if (!nodes)
    return false;
  if (!nodes->is_object())
    return r.fail("problem.nodes", "an object", *nodes);
  if (!r.onlyKeys(*nodes, "nodes", {"intervals", "costs", "usages"}))
    return false;
  const Json *intervals = r.array(*nodes, "intervals", "nodes.intervals");
  const Json *costs =
      intervals ? r.array(*nodes, "costs", "nodes.costs") : nullptr;
  const Json *usages =
      costs ? r.array(*nodes, "usages", "nodes.usages") : nullptr;
  if (!usages ||
      !r.sameSize(*costs, *intervals, "nodes.costs", "nodes.intervals") ||
      !r.sameSize(*usages, *intervals, "nodes.usages", "nodes.intervals"))
    return false;
  p.nodes.resize(intervals->size());
  for (size_t i = 0; i < p.nodes.size(); ++i) {
    Node &n = p.nodes[i];
    std::vector<int64_t> live;
    if (!r.integers((*intervals)[i], "nodes.intervals", i, live))
      return false;
    if (live.size() != 2)
      return r.fail("nodes.intervals[" + std::to_string(i) + "]",
                    "[begin, end]", (*intervals)[i]);
    n.live = {live[0], live[1]};
    if (!r.integers((*costs)[i], "nodes.costs", i, n.costs) ||
        !r.integers((*usages)[i], "nodes.usages", i, n.usages))
      return false;
  }
  return true;
}

bool readEdges(Reader &r, const Json &root, Problem &p) {
  const Json *edges = r.object(root, "edges", "problem.edges");
  if (!edges)
    return false;
  if (!edges->is_object())
    return r.fail("problem.edges", "an object", *edges);
  if (!r.onlyKeys(*edges, "edges", {"nodes", "costs"}))
    return false;
  const Json *nodes = r.array(*edges, "nodes", "edges.nodes");
  const Json *costs = nodes ? r.array(*edges, "costs", "edges.costs") : nullptr;
  if (!costs || !r.sameSize(*costs, *nodes, "edges.costs", "edges.nodes"))
    return false;
  p.edges.resize(nodes->size());
  for (size_t i = 0; i < p.edges.size(); ++i)
    if (!r.integers((*nodes)[i], "edges.nodes", i, p.edges[i].nodes) ||
        !r.integers((*costs)[i], "edges.costs", i, p.edges[i].costs))
      return false;
  return true;
}

} // namespace

llvm::Expected<Problem> parseProblem(std::string_view text) {
  llvm::Expected<Json> root = readJson(text);
  if (!root)
    return root.takeError();
  Reader r;
  if (!root->is_object()) {
    r.fail("the file", "an object with the key problem", *root);
    return llvm::createStringError(r.failure);
  }
  const Json *body = r.object(*root, "problem", "problem");
  if (!body || !r.onlyKeys(*root, "the file", {"problem"}))
    return llvm::createStringError(r.failure);
  if (!body->is_object()) {
    r.fail("problem", "an object", *body);
    return llvm::createStringError(r.failure);
  }
  if (!r.onlyKeys(*body, "problem", {"name", "nodes", "edges", "usage_limit"}))
    return llvm::createStringError(r.failure);
  Problem p;
  if (auto name = body->find("name"); name != body->end()) {
    if (!name->is_string()) {
      r.fail("problem.name", "a string", *name);
      return llvm::createStringError(r.failure);
    }
    p.name = name->get<std::string>();
  }
  if (!readNodes(r, *body, p) || !readEdges(r, *body, p))
    return llvm::createStringError(r.failure);
  if (auto limit = body->find("usage_limit"); limit != body->end()) {
    p.usageLimit.emplace();
    if (!r.integer(
            *limit, [] { return "usage_limit"; }, *p.usageLimit))
      return llvm::createStringError(r.failure);
  }
  if (llvm::Error violation = validate(p))
    return violation;
  return p;
}

llvm::Expected<Assignment> parseAssignment(std::string_view text) {
  llvm::Expected<Json> root = readJson(text);
  if (!root)
    return root.takeError();
  Reader r;
  Assignment a;
  if (!root->is_array()) {
    r.fail("assignment", "an array of strategy numbers", *root);
    return llvm::createStringError(r.failure);
  }
  for (size_t i = 0; i < root->size(); ++i)
    if (!r.integer((*root)[i],
                   [&] { return "assignment[" + std::to_string(i) + "]"; },
                   a.emplace_back()))
      return llvm::createStringError(r.failure);
  return a;
}

std::string printProblem(const Problem &p) {
  Json intervals = Json::array(), costs = Json::array(), usages = Json::array();
  for (const Node &n : p.nodes) {
    intervals.push_back({n.live.begin, n.live.end});
    costs.push_back(n.costs);
    usages.push_back(n.usages);
  }
  Json edgeNodes = Json::array(), edgeCosts = Json::array();
  for (const Edge &e : p.edges) {
    edgeNodes.push_back(e.nodes);
    edgeCosts.push_back(e.costs);
  }
  Json body = {
      {"name", p.name},
      {"nodes",
       {{"intervals", std::move(intervals)},
        {"costs", std::move(costs)},
        {"usages", std::move(usages)}}},
      {"edges",
       {{"nodes", std::move(edgeNodes)}, {"costs", std::move(edgeCosts)}}}};
  if (p.usageLimit)
    body["usage_limit"] = *p.usageLimit;
  Json root = {{"problem", std::move(body)}};
  return root.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string printAssignment(const Assignment &a) {
  std::string text = "[";
  for (size_t i = 0; i < a.size(); ++i) {
    if (i)
      text += ", ";
    text += std::to_string(a[i]);
  }
  return text + "]";
}

llvm::Expected<std::string> readFile(const std::string &path) {
  // zlib reads plain files as they are.
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"),
                                                  gzclose);
  if (!file)
    return llvm::createStringError("'" + path +
                                   "': expected a readable file, got: " +
                                   std::generic_category().message(errno));
  std::string content;
  std::vector<char> chunk(1 << 20);
  int got;
  while ((got = gzread(file.get(), chunk.data(), chunk.size())) > 0)
    content.append(chunk.data(), got);
  int status = Z_OK; // an error, too, if the file is cut short
  gzerror(file.get(), &status);
  if (status == Z_ERRNO)
    return llvm::createStringError("'" + path +
                                   "': expected a readable file, got: " +
                                   std::generic_category().message(errno));
  if (got < 0 || status != Z_OK)
    return llvm::createStringError(
        "'" + path + "': expected a whole file, got damaged compression");
  return content;
}

} // namespace heddle::solver
