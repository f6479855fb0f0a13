//===- TestArtifact.h - An artifact of hand-written programs ----*- C++ -*-===//

#ifndef HEDDLE_TEST_RUNTIME_TESTARTIFACT_H
#define HEDDLE_TEST_RUNTIME_TESTARTIFACT_H

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <string>

namespace heddle::runtime {

/// Returns a table that calls a program once.
inline nlohmann::json tableOf(const nlohmann::json &program) {
  using nlohmann::json;
  json outputs = program["results"];
  json arguments = json::array(), results = json::array();
  for (size_t i = 0; i < program["arguments"].size(); ++i)
    arguments.push_back({{"input", i}});
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i]["of"] = "step";
    results.push_back({{"output", i}});
  }
  json call = {{"call", program["name"]},
               {"arguments", arguments},
               {"results", results},
               {"after", json::array()}};
  return {{"name", program["name"]},        {"micro_batches", 1},
          {"inputs", program["arguments"]}, {"outputs", outputs},
          {"slots", json::array()},         {"lists", {{{"entries", {call}}}}}};
}

/// The manifest of Artifact/program.c for a mesh of dp = 2 and tp = 2.
inline nlohmann::json testManifest() {
  nlohmann::json manifest = nlohmann::json::parse(R"json({
    "version": 2, "abi": 4,
    "code": [{"kind": "cpu", "library": "program.so",
              "triple": "x86_64-unknown-linux-gnu", "features": ["sse2"]}],
    "mesh": [{"name": "dp", "size": 2}, {"name": "tp", "size": 2}],
    "rank_sets": [{"where": {}}],
    "groups": [{"axes": ["dp"]}, {"axes": ["tp"]}, {"axes": ["dp", "tp"]}],
    "variables": [
      {"name": "weight", "role": "parameter", "type": "f32", "shape": [5, 6],
       "storage": [["dp"], ["tp"]],
       "init": {"kind": "normal", "mean": 0.5, "std": 0.02},
       "checkpoint": {"name": "model.weight", "shape": [30]}},
      {"name": "steps", "role": "counter", "type": "i64", "shape": [],
       "storage": [], "init": {"kind": "constant", "value": 7}}],
    "programs": [
      {"name": "step", "symbol": "heddle_program_step", "arena_bytes": 256,
       "streams": 2, "events": 0,
       "arguments": [{"name": "x", "type": "f32", "shape": [4, 2],
                      "sharding": [["dp"], []]}],
       "results": [
         {"name": "sum", "type": "f32", "shape": [], "sharding": []},
         {"name": "who", "type": "i32", "shape": [4],
          "sharding": [["dp", "tp"]]}]},
      {"name": "fail", "symbol": "heddle_program_fail", "arena_bytes": 64, "events": 0,
       "arguments": [{"name": "device", "type": "i32", "shape": [],
                      "sharding": []}], "results": []},
      {"name": "hang", "symbol": "heddle_program_hang", "arena_bytes": 64, "events": 0,
       "arguments": [{"name": "device", "type": "i32", "shape": [2],
                      "sharding": [[]]}], "results": []}],
    "seed": 3,
    "model": {"vocabulary": 11}, "plan": {}
  })json");
  for (const nlohmann::json &program : manifest["programs"])
    manifest["tables"].push_back(tableOf(program));
  return manifest;
}

/// The manifest with the weight [5, 6] cut along dimension 1 into variables of
/// 4 and 2 columns.
inline nlohmann::json slicedManifest() {
  nlohmann::json manifest = testManifest();
  nlohmann::json &variables = manifest["variables"];
  nlohmann::json first = variables[0], second = variables[0];
  first["name"] = "weight.slice0";
  first["shape"] = {5, 4};
  first["slice"] = {{"of", "weight"}, {"dim", 1}, {"offset", 0}, {"size", 6}};
  second["name"] = "weight.slice1";
  second["shape"] = {5, 2};
  second["slice"] = {{"of", "weight"}, {"dim", 1}, {"offset", 4}, {"size", 6}};
  variables = nlohmann::json::array({second, variables[1], first});
  return manifest;
}

/// An artifact in a temporary directory that lives as long as this object.
class TestArtifact {
public:
  explicit TestArtifact(const nlohmann::json &manifest = testManifest()) {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "heddle-XXXXXX").string();
    path = mkdtemp(pattern.data());
    std::ofstream(path / "manifest.json") << manifest.dump();
    std::filesystem::create_symlink(HEDDLE_TEST_PROGRAM, path / "program.so");
  }
  ~TestArtifact() { std::filesystem::remove_all(path); }
  TestArtifact(const TestArtifact &) = delete;
  TestArtifact &operator=(const TestArtifact &) = delete;

  std::filesystem::path path;
};

} // namespace heddle::runtime

#endif // HEDDLE_TEST_RUNTIME_TESTARTIFACT_H
