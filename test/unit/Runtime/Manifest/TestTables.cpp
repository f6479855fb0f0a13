//===- TestTables.cpp - Tables of the hand-written programs ---------------===//

#include "TestTables.h"
#include "../Session/TestArtifact.h"

#include <map>
#include <utility>
#include <vector>

using namespace heddle::runtime;
using Json = nlohmann::json;

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

Json heddle::runtime::tensor(const char *name, const char *type, Json shape,
                             int ranks) {
  Json sharding = Json::array();
  for (size_t i = 0; i < shape.size(); ++i)
    sharding.push_back(Json::array());
  return {{"name", name},
          {"type", type},
          {"shape", std::move(shape)},
          {"sharding", sharding},
          {"ranks", ranks}};
}

Json heddle::runtime::call(const char *program, int microBatch, Json arguments,
                           Json results, Json after) {
  return {{"call", program},
          {"micro_batch", microBatch},
          {"arguments", std::move(arguments)},
          {"results", std::move(results)},
          {"after", std::move(after)}};
}

Json heddle::runtime::transfer(const char *kind, int slot, int peer, int stream,
                               Json after) {
  return {{kind, {{"slot", slot}}},
          {"group", 0},
          {"peer", peer},
          {"stream", stream},
          {"after", std::move(after)}};
}

static Json variable(const char *name, const char *role, double value,
                     int ranks) {
  Json result = tensor(name, "f32", Json::array(), ranks);
  result["storage"] = result["sharding"];
  result.erase("sharding");
  result["role"] = role;
  result["init"] = {{"kind", "constant"}, {"value", value}};
  return result;
}

/// Two numbers.
static Json row(const char *name, int ranks = 0) {
  return tensor(name, "f32", list(2), ranks);
}

/// An output of a table: one for each "step" or "micro_batch".
static Json outputOf(const char *of, Json port) {
  port["of"] = of;
  return port;
}

/// Slots of 8 bytes.
static Json slotsOf(int count) {
  Json slots = Json::array();
  for (int i = 0; i < count; ++i)
    slots.push_back({{"bytes", 8}});
  return slots;
}

/// The lists of stage 0 and of stage 1.
static Json listsOf(const Json &first, const Json &second) {
  return list(Json{{"ranks", 1}, {"entries", first}},
              Json{{"ranks", 2}, {"entries", second}});
}

static Json table(const char *name, int count, Json inputs, Json outputs,
                  int slots, Json lists) {
  return {{"name", name},
          {"micro_batches", count},
          {"inputs", std::move(inputs)},
          {"outputs", std::move(outputs)},
          {"slots", slotsOf(slots)},
          {"lists", std::move(lists)}};
}

//===----------------------------------------------------------------------===//
// Manifests
//===----------------------------------------------------------------------===//

Json heddle::runtime::pipelineManifest() {
  Json manifest = testManifest();
  auto where = [](Json conditions) {
    return Json{{"where", std::move(conditions)}};
  };
  manifest["mesh"] = list(Json{{"name", "pp"}, {"size", 2}});
  manifest["rank_sets"] = list(where(Json::object()), where({{"pp", list(0)}}),
                               where({{"pp", list(1)}}));
  manifest["groups"] = list(Json{{"axes", list("pp")}});
  manifest["variables"] = {
      variable("w0", "parameter", 2, 1), variable("w1", "parameter", 3, 2),
      variable("g0", "gradient", 0, 1), variable("g1", "gradient", 0, 2)};
  Json number = tensor("n", "i64", Json::array(), 0);
  // A result that may take the memory of the first argument.
  auto inPlace = [](Json result) {
    result["in_place"] = list(0);
    return result;
  };
  auto program = [](const char *name, Json arguments, Json results) {
    return Json{{"name", name},
                {"symbol", std::string("heddle_program_") + name},
                {"arena_bytes", 64},
                {"events", 0},
                {"arguments", std::move(arguments)},
                {"results", std::move(results)}};
  };
  manifest["programs"] = {
      program("forward", list(row("x")), list(inPlace(row("y")))),
      program("backward", list(row("x"), row("dy")), list(row("dx"))),
      program("number", list(number), list(inPlace(number)))};

  Json first = Json::array(), second = Json::array();
  for (int m = 0; m < microBatches; ++m) {
    // The next y overwrites the slot after the last send.
    Json after = m ? list(2 * m - 1) : Json::array();
    first.push_back(call("forward", m, list(input(0)), list(slot(0)), after));
    first.push_back(transfer("send", 0, 1, 1, list(2 * m)));
    second.push_back(transfer("receive", 1 + m, 0, 1));
    second.push_back(
        call("forward", m, list(slot(1 + m)), list(output(0)), list(2 * m)));
  }
  for (int m = 0; m < microBatches; ++m) {
    int base = 2 * microBatches + 2 * m;
    Json after = m ? list(base - 1) : Json::array();
    first.push_back(transfer("receive", 0, 1, 2, list(base - 1)));
    first.push_back(call("backward", m, list(input(0), slot(0)),
                         list(output(1)), list(base)));
    second.push_back(call("backward", m, list(slot(1 + m), input(1)),
                          list(slot(1 + microBatches)), after));
    second.push_back(transfer("send", 1 + microBatches, 0, 2, list(base)));
  }
  Json step = table("step", microBatches, list(row("x", 1), row("dz", 2)),
                    list(outputOf("micro_batch", row("z", 2)),
                         outputOf("micro_batch", row("dx", 1))),
                    2 + microBatches, listsOf(first, second));
  Json calls = Json::array(), chains = Json::array();
  for (int m = 0; m < 3; ++m) {
    calls.push_back(call("number", m, list("micro_batch"), list(output(0))));
    chains.push_back(call("number", m, list("micro_batch"), list(slot(0))));
    chains.push_back(call("number", m, list(slot(0)), list(slot(0))));
    chains.push_back(call("number", m, list(slot(0)), list(output(0))));
  }
  auto numbers = [&](const char *name, int slots, const Json &entries) {
    return table(name, 3, Json::array(), list(outputOf("micro_batch", number)),
                 slots, list(Json{{"entries", entries}}));
  };
  manifest["tables"] =
      list(step, numbers("tens", 0, calls), numbers("thousands", 1, chains));
  return manifest;
}

Json heddle::runtime::exchangeManifest(std::string_view order,
                                       std::array<int, 2> streams) {
  Json manifest = pipelineManifest();
  std::array<Json, 2> entriesOf;
  for (int rank : {0, 1}) {
    Json &entries = entriesOf[size_t(rank)];
    entries = list(call("forward", 0, list(input(0)), list(slot(0))));
    int peer = 1 - rank, receive = 0;
    for (char kind : order)
      if (kind == 's') {
        entries.push_back(
            transfer("send", 0, peer, streams[size_t(rank)], list(0)));
      } else if (kind == 'r') {
        receive = int(entries.size());
        entries.push_back(transfer("receive", 1, peer, streams[size_t(peer)]));
      } else {
        entries.push_back(call("forward", 0, list(slot(1)), list(output(rank)),
                               list(receive)));
      }
  }
  manifest["tables"] = list(table(
      "exchange", 1, list(row("x")),
      list(outputOf("step", row("z0", 1)), outputOf("step", row("z1", 2))), 2,
      listsOf(entriesOf[0], entriesOf[1])));
  return manifest;
}

//===----------------------------------------------------------------------===//
// 1F1B
//===----------------------------------------------------------------------===//

namespace {
/// Adds entries to a list, with the waits that its slots need.
class ListBuilder {
public:
  explicit ListBuilder(int slots) : slots(size_t(slots)) {}

  Json entries = Json::array();

  void forward(int m, Json from, Json to) {
    add(call("forward", m, list(from), list(to)), 0, {from}, {to});
  }
  void backward(int m, Json x, Json dy, Json dx) {
    add(call("backward", m, list(x, dy), list(dx)), 0, {x, dy}, {dx});
  }
  void send(int from, int peer, int stream) {
    add(transfer("send", from, peer, stream), stream, {slot(from)}, {});
  }
  void receive(int to, int peer, int stream) {
    add(transfer("receive", to, peer, stream), stream, {}, {slot(to)});
  }

private:
  struct Use {
    int entry, stream;
  };
  struct Slot {
    std::vector<Use> writer, readers; ///< of the last value
  };

  void add(Json entry, int stream, std::vector<Json> reads,
           std::vector<Json> writes) {
    int number = int(entries.size());
    // If there are several uses on one stream, the last comes first here. A
    // wait for the last use covers all of them.
    auto wait = [&](std::vector<Use> uses) {
      for (auto use = uses.rbegin(); use != uses.rend(); ++use) {
        int &last =
            awaited.try_emplace({stream, use->stream}, -1).first->second;
        if (use->stream == stream || use->entry <= last)
          continue;
        entry["after"].push_back(use->entry);
        last = use->entry;
      }
    };
    for (const Json &read : reads)
      if (read.contains("slot")) {
        Slot &from = slots[read["slot"].get<size_t>()];
        wait(from.writer);
        from.readers.push_back({number, stream});
      }
    for (const Json &write : writes)
      if (write.contains("slot")) {
        Slot &to = slots[write["slot"].get<size_t>()];
        wait(to.readers);
        if (to.readers.empty())
          wait(to.writer);
        to = {{{number, stream}}, {}};
      }
    entries.push_back(std::move(entry));
  }

  std::vector<Slot> slots;
  /// The last entry of the second stream that the first has waited for.
  std::map<std::pair<int, int>, int> awaited;
};
} // namespace

Json heddle::runtime::interleavedManifest() {
  Json manifest = pipelineManifest();
  ListBuilder first(4), second(4);
  auto y = [](int m) { return m % 2; };
  auto dy = [](int m) { return 2 + m % 2; };
  for (int m = 0; m < microBatches; ++m) {
    first.forward(m, input(0), slot(y(m)));
    first.send(y(m), 1, 1);
    if (m > 0) {
      first.receive(dy(m - 1), 1, 2);
      first.backward(m - 1, input(0), slot(dy(m - 1)), output(1));
    }
    second.receive(y(m), 0, 1);
    second.forward(m, slot(y(m)), output(0));
    second.backward(m, slot(y(m)), input(1), slot(dy(m)));
    second.send(dy(m), 0, 2);
  }
  first.receive(dy(microBatches - 1), 1, 2);
  first.backward(microBatches - 1, input(0), slot(dy(microBatches - 1)),
                 output(1));
  Json &step = manifest["tables"][0];
  step["slots"] = slotsOf(4);
  step["lists"] = listsOf(first.entries, second.entries);
  return manifest;
}
