//===- ProblemIO.cpp - The contest's JSON form ----------------------------===//

#include "heddle/Solver/ProblemIO.h"
#include "Problem/StrictJson.h"

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
  const Json *array(const Json &Parent, const char *Key,
                    const std::string &Path) {
    const Json *Found = object(Parent, Key, Path, "an array");
    if (!Found || Found->is_array())
      return Found;
    fail(Path, "an array", *Found);
    return nullptr;
  }

  const Json *object(const Json &Parent, const char *Key,
                     const std::string &Path, const char *What = "an object") {
    auto Found = Parent.find(Key);
    if (Found == Parent.end()) {
      Failure = Error{Path + ": expected " + What + ", got nothing"};
      return nullptr;
    }
    return &*Found;
  }

  bool sameSize(const Json &A, const Json &Reference, const char *Path,
                const char *ReferencePath) {
    if (A.size() == Reference.size())
      return true;
    Failure = Error{std::string(Path) + ": expected " +
                    std::to_string(Reference.size()) + " entries as in " +
                    ReferencePath + ", got " + std::to_string(A.size())};
    return false;
  }

  /// A misspelt key would change the problem silently: a limit that is not
  /// there binds nothing.
  bool onlyKeys(const Json &Parent, const char *Path,
                std::initializer_list<std::string_view> Known) {
    for (const auto &Item : Parent.items()) {
      if (std::ranges::find(Known, Item.key()) != Known.end())
        continue;
      std::string Names;
      for (std::string_view Name : Known)
        Names.append(Names.empty() ? "" : ", ").append(Name);
      Failure = Error{std::string(Path) + "." + Item.key().substr(0, 60) +
                      ": expected one of " + Names + ", got an unknown key"};
      return false;
    }
    return true;
  }

  /// A list of integers that fit `T`, where `Path[Index]` names the list.
  template <typename T>
  bool integers(const Json &List, const char *Path, size_t Index,
                std::vector<T> &Out) {
    auto Name = [&] {
      return std::string(Path) + "[" + std::to_string(Index) + "]";
    };
    if (!List.is_array())
      return fail(Name(), "an array", List);
    Out.reserve(List.size());
    for (const Json &Item : List) {
      auto ItemName = [&] {
        return Name() + "[" + std::to_string(Out.size() - 1) + "]";
      };
      if (!integer(Item, ItemName, Out.emplace_back()))
        return false;
    }
    return true;
  }

  template <typename T, typename NameFn>
  bool integer(const Json &Item, NameFn Name, T &Out) {
    using Limits = std::numeric_limits<T>;
    // Numbers too large for 64 bits are parsed as floating-point ones.
    bool Fits = Item.is_number_unsigned()
                    ? Item.get<uint64_t>() <= uint64_t(Limits::max())
                    : Item.is_number_integer() &&
                          Item.get<int64_t>() >= int64_t(Limits::min());
    if (!Fits)
      return fail(Name(),
                  !std::is_signed_v<T> ? "a node number"
                  : sizeof(T) == 8     ? "a 64-bit integer"
                                       : "a 32-bit integer",
                  Item);
    Out = static_cast<T>(Item.get<int64_t>());
    return true;
  }

  /// Always false.
  bool fail(const std::string &Path, const char *What, const Json &Found) {
    Failure = Error{Path + ": expected " + What + ", got " + abbreviate(Found)};
    return false;
  }

  Error Failure;
};

bool readNodes(Reader &R, const Json &Root, Problem &P) {
  const Json *Nodes = R.object(Root, "nodes", "problem.nodes");
  if (!Nodes)
    return false;
  if (!Nodes->is_object())
    return R.fail("problem.nodes", "an object", *Nodes);
  if (!R.onlyKeys(*Nodes, "nodes", {"intervals", "costs", "usages"}))
    return false;
  const Json *Intervals = R.array(*Nodes, "intervals", "nodes.intervals");
  const Json *Costs =
      Intervals ? R.array(*Nodes, "costs", "nodes.costs") : nullptr;
  const Json *Usages =
      Costs ? R.array(*Nodes, "usages", "nodes.usages") : nullptr;
  if (!Usages ||
      !R.sameSize(*Costs, *Intervals, "nodes.costs", "nodes.intervals") ||
      !R.sameSize(*Usages, *Intervals, "nodes.usages", "nodes.intervals"))
    return false;
  P.Nodes.resize(Intervals->size());
  for (size_t I = 0; I < P.Nodes.size(); ++I) {
    Node &N = P.Nodes[I];
    std::vector<int64_t> Live;
    if (!R.integers((*Intervals)[I], "nodes.intervals", I, Live))
      return false;
    if (Live.size() != 2)
      return R.fail("nodes.intervals[" + std::to_string(I) + "]",
                    "[begin, end]", (*Intervals)[I]);
    N.Live = {Live[0], Live[1]};
    if (!R.integers((*Costs)[I], "nodes.costs", I, N.Costs) ||
        !R.integers((*Usages)[I], "nodes.usages", I, N.Usages))
      return false;
  }
  return true;
}

bool readEdges(Reader &R, const Json &Root, Problem &P) {
  const Json *Edges = R.object(Root, "edges", "problem.edges");
  if (!Edges)
    return false;
  if (!Edges->is_object())
    return R.fail("problem.edges", "an object", *Edges);
  if (!R.onlyKeys(*Edges, "edges", {"nodes", "costs"}))
    return false;
  const Json *Nodes = R.array(*Edges, "nodes", "edges.nodes");
  const Json *Costs = Nodes ? R.array(*Edges, "costs", "edges.costs") : nullptr;
  if (!Costs || !R.sameSize(*Costs, *Nodes, "edges.costs", "edges.nodes"))
    return false;
  P.Edges.resize(Nodes->size());
  for (size_t I = 0; I < P.Edges.size(); ++I)
    if (!R.integers((*Nodes)[I], "edges.nodes", I, P.Edges[I].Nodes) ||
        !R.integers((*Costs)[I], "edges.costs", I, P.Edges[I].Costs))
      return false;
  return true;
}

} // namespace

Expected<Problem> parseProblem(std::string_view Text) {
  Expected<Json> Root = parseStrictJson(Text);
  if (!Root)
    return Root.error();
  Reader R;
  if (!Root->is_object()) {
    R.fail("the file", "an object with the key problem", *Root);
    return R.Failure;
  }
  const Json *Body = R.object(*Root, "problem", "problem");
  if (!Body || !R.onlyKeys(*Root, "the file", {"problem"}))
    return R.Failure;
  if (!Body->is_object()) {
    R.fail("problem", "an object", *Body);
    return R.Failure;
  }
  if (!R.onlyKeys(*Body, "problem", {"name", "nodes", "edges", "usage_limit"}))
    return R.Failure;
  Problem P;
  if (auto Name = Body->find("name"); Name != Body->end()) {
    if (!Name->is_string()) {
      R.fail("problem.name", "a string", *Name);
      return R.Failure;
    }
    P.Name = Name->get<std::string>();
  }
  if (!readNodes(R, *Body, P) || !readEdges(R, *Body, P))
    return R.Failure;
  if (auto Limit = Body->find("usage_limit"); Limit != Body->end()) {
    P.UsageLimit.emplace();
    if (!R.integer(
            *Limit, [] { return "usage_limit"; }, *P.UsageLimit))
      return R.Failure;
  }
  if (auto Violation = validate(P))
    return *Violation;
  return P;
}

Expected<Assignment> parseAssignment(std::string_view Text) {
  Expected<Json> Root = parseStrictJson(Text);
  if (!Root)
    return Root.error();
  Reader R;
  Assignment A;
  if (!Root->is_array()) {
    R.fail("assignment", "an array of strategy numbers", *Root);
    return R.Failure;
  }
  for (size_t I = 0; I < Root->size(); ++I)
    if (!R.integer((*Root)[I],
                   [&] { return "assignment[" + std::to_string(I) + "]"; },
                   A.emplace_back()))
      return R.Failure;
  return A;
}

std::string printProblem(const Problem &P) {
  Json Intervals = Json::array(), Costs = Json::array(), Usages = Json::array();
  for (const Node &N : P.Nodes) {
    Intervals.push_back({N.Live.Begin, N.Live.End});
    Costs.push_back(N.Costs);
    Usages.push_back(N.Usages);
  }
  Json EdgeNodes = Json::array(), EdgeCosts = Json::array();
  for (const Edge &E : P.Edges) {
    EdgeNodes.push_back(E.Nodes);
    EdgeCosts.push_back(E.Costs);
  }
  Json Body = {
      {"name", P.Name},
      {"nodes",
       {{"intervals", std::move(Intervals)},
        {"costs", std::move(Costs)},
        {"usages", std::move(Usages)}}},
      {"edges",
       {{"nodes", std::move(EdgeNodes)}, {"costs", std::move(EdgeCosts)}}}};
  if (P.UsageLimit)
    Body["usage_limit"] = *P.UsageLimit;
  Json Root = {{"problem", std::move(Body)}};
  return Root.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string printAssignment(const Assignment &A) {
  std::string Text = "[";
  for (size_t I = 0; I < A.size(); ++I) {
    if (I)
      Text += ", ";
    Text += std::to_string(A[I]);
  }
  return Text + "]";
}

Expected<std::string> readFile(const std::string &Path) {
  // zlib reads plain files as they are.
  std::unique_ptr<gzFile_s, int (*)(gzFile)> File(gzopen(Path.c_str(), "rb"),
                                                  gzclose);
  if (!File)
    return Error{"'" + Path + "': expected a readable file, got: " +
                 std::generic_category().message(errno)};
  std::string Content;
  std::vector<char> Chunk(1 << 20);
  int Got;
  while ((Got = gzread(File.get(), Chunk.data(), Chunk.size())) > 0)
    Content.append(Chunk.data(), Got);
  int Status = Z_OK; // also tells of a file that is cut short
  gzerror(File.get(), &Status);
  if (Status == Z_ERRNO)
    return Error{"'" + Path + "': expected a readable file, got: " +
                 std::generic_category().message(errno)};
  if (Got < 0 || Status != Z_OK)
    return Error{"'" + Path +
                 "': expected a whole file, got damaged compression"};
  return Content;
}

} // namespace heddle::solver
