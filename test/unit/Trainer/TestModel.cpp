//===- TestModel.cpp - The artifact of program.cpp ------------------------===//

#include "TestModel.h"

#include "heddle_rt/abi.h"
#include "heddle_rt/roles.h"

#include "program.h"

#include <string>
#include <utility>

using namespace heddle::runtime;
using nlohmann::json;

json bigram::manifest(int devices, int microBatches) {
  using bigram::B, bigram::S, bigram::V;
  json scalar = json::array();
  auto tensor = [](const char *name, const char *type, json shape,
                   json sharding) {
    return json{{"name", name},
                {"type", type},
                {"shape", std::move(shape)},
                {"sharding", std::move(sharding)}};
  };
  json rows = json::array({"dp"}), whole = json::array();
  auto withRole = [](json port, const char *role) {
    port["role"] = role;
    return port;
  };
  json batch = {
      withRole(tensor("targets", "i32", {B, S}, {rows, whole}), "labels"),
      withRole(tensor("tokens", "i32", {B, S}, {rows, whole}), "features")};
  json logits = withRole(
      tensor("logits", "f32", {B, S, V}, {rows, whole, whole}), "output");
  json gradient =
      withRole(tensor("grad.w", "f32", {V, V}, {whole, whole}), "gradient");
  gradient["parameter"] = "w";
  auto value = [&](const char *name, const char *role) {
    return withRole(tensor(name, "f32", scalar, scalar), role);
  };
  json results = {value("learning_rate", "learning_rate"),
                  value("loss", "loss"), value("grad_norm", "gradient_norm")};

  auto variable = [](const char *name, const char *role, const char *type,
                     json shape, json init) {
    json storage = json::array();
    for (size_t i = 0; i < shape.size(); ++i)
      storage.push_back(json::array());
    return json{{"name", name},       {"role", role},
                {"type", type},       {"shape", std::move(shape)},
                {"storage", storage}, {"init", std::move(init)}};
  };
  json zeros = {{"kind", "zeros"}};
  json weight = variable("w", "parameter", "f32", {V, V},
                         {{"kind", "normal"}, {"mean", 0.0}, {"std", 0.5}});
  weight["checkpoint"] = {{"name", "model.bigram.weight"}, {"shape", {V * V}}};

  json programs = json::array(), tables = json::array();
  auto program = [&](const std::string &name, json arguments, json outcome) {
    programs.push_back({{"name", name},
                        {"symbol", name + "_" + std::to_string(devices)},
                        {"arena_bytes", (V * V + 2) * 4},
                        {"events", 0},
                        {"arguments", std::move(arguments)},
                        {"results", std::move(outcome)}});
  };
  auto call = [](const std::string &name, int microBatch, size_t inputs,
                 size_t outputs) {
    json arguments = json::array(), results = json::array();
    for (size_t i = 0; i < inputs; ++i)
      arguments.push_back({{"input", i}});
    for (size_t i = 0; i < outputs; ++i)
      results.push_back({{"output", i}});
    return json{{"call", name},
                {"micro_batch", microBatch},
                {"arguments", arguments},
                {"results", results},
                {"after", json::array()}};
  };
  auto table = [&](const std::string &name, int count, const json &inputs,
                   json outputs, const json &entries) {
    for (json &output : outputs)
      output["of"] = "step";
    json made = {{"name", name},           {"micro_batches", count},
                 {"inputs", inputs},       {"outputs", std::move(outputs)},
                 {"slots", json::array()}, {"lists", {{{"entries", entries}}}}};
    if (parseTableRole(name))
      made["role"] = name;
    tables.push_back(std::move(made));
  };
  json entries = json::array();
  if (microBatches == 1) {
    program("step", batch, results);
    entries.push_back(call("step", 0, 2, 3));
  } else {
    program("accumulate", batch, json::array());
    program("update", json::array(), results);
    for (int i = 0; i < microBatches; ++i)
      entries.push_back(call("accumulate", i, 2, 0));
    entries.push_back(call("update", 0, 0, 3));
    // Each program also by itself.
    table("accumulate", 1, batch, json::array(),
          json::array({call("accumulate", 0, 2, 0)}));
    table("update", 1, json::array(), results,
          json::array({call("update", 0, 0, 3)}));
  }
  table("step", microBatches, batch, results, entries);
  for (auto &[name, outcome] :
       {std::pair<std::string, json>{"evaluate",
                                     {logits, value("count", "label_count"),
                                      value("loss_sum", "loss_sum")}},
        {"gradients", {value("loss", "loss"), logits, gradient}}}) {
    program(name, batch, outcome);
    table(name, 1, batch, outcome,
          json::array({call(name, 0, 2, outcome.size())}));
  }
  return {{"version", 2},
          {"abi", HEDDLE_RT_ABI_VERSION},
          {"code",
           {{{"kind", "cpu"},
             {"library", "program.so"},
             {"triple", "x86_64-unknown-linux-gnu"},
             {"features", json::array()}}}},
          {"rank_sets", {{{"where", json::object()}}}},
          {"mesh", {{{"name", "dp"}, {"size", devices}}}},
          {"groups", {{{"axes", {"dp"}}}}},
          {"variables",
           {weight, variable("steps", "counter", "i64", scalar, zeros),
            variable("gradient.w", "gradient", "f32", {V, V}, zeros),
            variable("loss_sum", "loss", "f32", scalar, zeros),
            variable("count", "loss", "f32", scalar, zeros)}},
          {"programs", programs},
          {"tables", tables},
          {"seed", 5},
          {"model", {{"config", "{\"a\": 1}\n"}}},
          {"plan", json::object()}};
}
