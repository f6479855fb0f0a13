//===- TableTest.cpp - Tables, right and wrong ----------------------------===//

#include "TestArtifact.h"
#include "heddle_rt/session.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <utility>

using namespace heddle::runtime;
using Json = nlohmann::json;

namespace {

Json tensor(const char *name, const char *type, Json shape, int ranks) {
  Json sharding = Json::array();
  for (size_t i = 0; i < shape.size(); ++i)
    sharding.push_back(Json::array());
  return {{"name", name},
          {"type", type},
          {"shape", std::move(shape)},
          {"sharding", sharding},
          {"ranks", ranks}};
}

Json variable(const char *name, const char *role, double value, int ranks) {
  Json result = tensor(name, "f32", Json::array(), ranks);
  result["storage"] = result["sharding"];
  result.erase("sharding");
  result["role"] = role;
  result["init"] = {{"kind", "constant"}, {"value", value}};
  return result;
}

/// An array. Braces around one Json would copy it.
template <typename... Items> Json list(Items &&...items) {
  Json array = Json::array();
  (array.push_back(items), ...);
  return array;
}

Json call(const char *program, int microBatch, Json arguments, Json results,
          Json after = Json::array()) {
  return {{"call", program},
          {"micro_batch", microBatch},
          {"arguments", std::move(arguments)},
          {"results", std::move(results)},
          {"after", std::move(after)}};
}

Json transfer(const char *kind, int slot, int peer, int stream,
              Json after = Json::array()) {
  return {{kind, {{"slot", slot}}},
          {"group", 0},
          {"peer", peer},
          {"stream", stream},
          {"after", std::move(after)}};
}

Json input(int i) { return {{"input", i}}; }
Json output(int i) { return {{"output", i}}; }
Json slot(int i) { return {{"slot", i}}; }

constexpr int microBatches = 4;

/// Two stages of Artifact/program.c on a mesh of pp = 2: y = w0 x on stage 0
/// and z = w1 y on stage 1. Stage 0 sends all micro-batches forward, and then
/// receives all gradients. Stage 1 has a slot for each y, and one for all
/// gradients of y; stage 0 has one for each direction. The tables `tens` and
/// `thousands` multiply the numbers of micro-batches by 10 and 1000.
Json pipelineManifest() {
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
  auto row = [](const char *name) { return tensor(name, "f32", list(2), 0); };
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
  Json outputs =
      list(tensor("z", "f32", list(2), 2), tensor("dx", "f32", list(2), 1));
  for (Json &each : outputs)
    each["of"] = "micro_batch";
  Json slots = Json::array();
  for (int i = 0; i < 2 + microBatches; ++i)
    slots.push_back({{"bytes", 8}});
  Json step = {{"name", "step"},
               {"micro_batches", microBatches},
               {"inputs", list(tensor("x", "f32", list(2), 1),
                               tensor("dz", "f32", list(2), 2))},
               {"outputs", outputs},
               {"slots", slots},
               {"lists", list(Json{{"ranks", 1}, {"entries", first}},
                              Json{{"ranks", 2}, {"entries", second}})}};
  Json numbers = tensor("n", "i64", Json::array(), 0);
  numbers["of"] = "micro_batch";
  Json calls = Json::array(), chains = Json::array();
  for (int m = 0; m < 3; ++m) {
    calls.push_back(call("number", m, list("micro_batch"), list(output(0))));
    chains.push_back(call("number", m, list("micro_batch"), list(slot(0))));
    chains.push_back(call("number", m, list(slot(0)), list(slot(0))));
    chains.push_back(call("number", m, list(slot(0)), list(output(0))));
  }
  auto table = [&](const char *name, Json slots, const Json &entries) {
    return Json{{"name", name},
                {"micro_batches", 3},
                {"inputs", Json::array()},
                {"outputs", list(numbers)},
                {"slots", std::move(slots)},
                {"lists", list(Json{{"entries", entries}})}};
  };
  manifest["tables"] =
      list(step, table("tens", Json::array(), calls),
           table("thousands", list(Json{{"bytes", 8}}), chains));
  return manifest;
}

std::unique_ptr<Session> load(const TestArtifact &artifact,
                              SessionOptions options = {}) {
  options.coresPerDevice = 1;
  auto session = Session::load(artifact.path, options);
  EXPECT_TRUE(session.ok()) << session.message();
  return session.ok() ? std::move(*session) : nullptr;
}

float readScalar(const Session &session, const char *name) {
  float value = 0;
  Status status = session.readVariable(name, writableBytesOf(value));
  EXPECT_TRUE(status.ok()) << status.message();
  return value;
}

TEST(Table, RunsTwoStages) {
  TestArtifact artifact(pipelineManifest());
  std::unique_ptr<Session> session = load(artifact);
  ASSERT_TRUE(session);
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<float> dz = {1, 1, 10, 10, 100, 100, 1000, 1000};
  std::vector<float> z(8), dx(8), expectedZ, expectedDx;
  float g0 = 0, g1 = 0;
  for (size_t i = 0; i < 8; ++i) {
    expectedZ.push_back(6 * x[i]);
    expectedDx.push_back(6 * dz[i]);
    g0 += 3 * dz[i] * x[i];
    g1 += 2 * x[i] * dz[i];
  }
  for (int step = 1; step <= 20; ++step) {
    Status status = session->run("step", {bytesOf(x), bytesOf(dz)},
                                 {writableBytesOf(z), writableBytesOf(dx)});
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(z, expectedZ);
    EXPECT_EQ(dx, expectedDx);
    EXPECT_EQ(readScalar(*session, "g0"), float(step) * g0);
    EXPECT_EQ(readScalar(*session, "g1"), float(step) * g1);
  }
  // Each stage has its own weight and gradient, of a line of 64 bytes each.
  for (const DeviceMemory &memory : session->memory()) {
    EXPECT_EQ(memory.parameters, 64u);
    EXPECT_EQ(memory.gradients, 64u);
  }
  EXPECT_TRUE(session->checkReplicas().ok());
}

TEST(Table, PassesTheNumberOfTheMicroBatch) {
  TestArtifact artifact(pipelineManifest());
  std::unique_ptr<Session> session = load(artifact);
  ASSERT_TRUE(session);
  std::vector<int64_t> numbers(3);
  Status status = session->run("tens", {}, {writableBytesOf(numbers)});
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(numbers, (std::vector<int64_t>{0, 10, 20}));
}

TEST(Table, ACallOverwritesTheSlotThatItReads) {
  TestArtifact artifact(pipelineManifest());
  std::unique_ptr<Session> session = load(artifact);
  ASSERT_TRUE(session);
  std::vector<int64_t> numbers(3);
  Status status = session->run("thousands", {}, {writableBytesOf(numbers)});
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(numbers, (std::vector<int64_t>{0, 1000, 2000}));
}

TEST(Table, AProcessHasSomeOfTheRanks) {
  Json manifest = pipelineManifest();
  SessionOptions options;
  options.localRanks = {1};
  {
    TestArtifact artifact(manifest);
    EXPECT_EQ(Session::load(artifact.path, options).message(),
              "rank 1 of this process communicates with rank 0 of another: "
              "expected all ranks in one process, for there is no communicator "
              "between processes");
    SessionOptions wrong;
    wrong.localRanks = {0, 2};
    EXPECT_EQ(Session::load(artifact.path, wrong).message(),
              "expected local ranks below 2, got 2");
    wrong.localRanks = {0, 0};
    EXPECT_EQ(Session::load(artifact.path, wrong).message(),
              "expected each local rank once, got 0 twice");
  }
  manifest["groups"] = Json::array();
  manifest["tables"].erase(0);
  TestArtifact artifact(manifest);
  std::unique_ptr<Session> session = load(artifact, options);
  ASSERT_TRUE(session);
  EXPECT_EQ(session->numDevices(), 1);
  EXPECT_EQ(readScalar(*session, "w1"), 3);
  float value = 0;
  EXPECT_EQ(session->readVariable("w0", writableBytesOf(value)).message(),
            "w0: no rank of this process has element 0");
  std::vector<int64_t> numbers(3);
  ASSERT_TRUE(session->run("tens", {}, {writableBytesOf(numbers)}).ok());
  EXPECT_EQ(numbers[2], 20);
}

//===----------------------------------------------------------------------===//
// The verifier
//===----------------------------------------------------------------------===//

/// Returns the verifier's message for the first table, or the reader's.
std::string messageOf(const Json &manifest) {
  Expected<Manifest> read = parseManifest(manifest.dump(), "m");
  if (!read.ok())
    return std::string(read.message());
  return std::string(verifyTable(*read, read->tables[0]).message());
}

/// Returns the verifier's message after a change of the table `step`. Entries
/// 0 to 7 of stage 0 are the forward calls, each with its send, 8 to 15 the
/// receives, each with its backward call; stage 1 likewise.
template <typename Change> std::string errorAfter(Change &&change) {
  Json manifest = pipelineManifest();
  Json &table = manifest["tables"][0];
  change(table, table["lists"][0]["entries"], table["lists"][1]["entries"]);
  return messageOf(manifest);
}

TEST(TableVerifier, AcceptsThePipeline) {
  EXPECT_EQ(errorAfter([](Json &, Json &, Json &) {}), "");
}

TEST(TableVerifier, OneListForEachRank) {
  EXPECT_EQ(errorAfter([](Json &table, Json &, Json &) {
              table["lists"][1]["ranks"] = 0;
            }),
            "table step: expected one list for each rank, got lists 0 and 1 "
            "for rank 0");
  EXPECT_EQ(
      errorAfter([](Json &table, Json &, Json &) { table["lists"].erase(1); }),
      "table step: expected a list for rank 1, which has output z, got "
      "none");
}

TEST(TableVerifier, RanksHaveWhatTheirListUses) {
  EXPECT_EQ(errorAfter([](Json &, Json &, Json &second) {
              second[8]["arguments"][1] = input(0);
            }),
            "table step, list 1, entry 8: expected input x on all ranks of the "
            "list, got none on rank 1");
  EXPECT_EQ(errorAfter([](Json &, Json &first, Json &) {
              first[9]["results"][0] = output(0);
            }),
            "table step, list 0, entry 9: expected output z on all ranks of "
            "the list, got none on rank 0");
}

TEST(TableVerifier, RanksHaveTheirPrograms) {
  Json manifest = pipelineManifest();
  manifest["programs"][0]["ranks"] = 1;
  EXPECT_EQ(messageOf(manifest),
            "table step, list 1, entry 1: expected program forward on all "
            "ranks of the list, got none on rank 1");
}

TEST(TableVerifier, ResultsOfACallLieApart) {
  Json manifest = pipelineManifest();
  Json &results = manifest["programs"][2]["results"];
  results.push_back(results[0]);
  results[1]["name"] = "m";
  Json table = manifest["tables"][2];
  table["outputs"] = Json::array();
  table["lists"][0]["entries"] =
      list(call("number", 0, list("micro_batch"), list(slot(0), slot(0))));
  manifest["tables"] = list(table);
  EXPECT_EQ(messageOf(manifest),
            "table thousands, list 0, entry 0: slot 0 is written twice");
}

TEST(TableVerifier, TypesAndSizes) {
  EXPECT_EQ(errorAfter([](Json &table, Json &, Json &) {
              table["inputs"][0]["type"] = "i32";
            }),
            "table step, list 0, entry 0: expected input x to have type, shape "
            "and sharding of argument x, got others");
  EXPECT_EQ(errorAfter([](Json &table, Json &, Json &) {
              table["slots"][0]["bytes"] = 16;
            }),
            "table step, list 0, entry 0: expected slot 0 to have the 8 bytes "
            "of result y, got 16");
  EXPECT_EQ(errorAfter([](Json &, Json &first, Json &) {
              first[0]["arguments"][0] = "micro_batch";
            }),
            "table step, list 0, entry 0: expected the number of the "
            "micro-batch to be an i64 argument without dimensions, got "
            "argument x");
  EXPECT_EQ(errorAfter([](Json &, Json &first, Json &) {
              first[0]["arguments"].push_back(input(0));
            }),
            "table step, list 0, entry 0: expected 1 arguments of program "
            "forward, got 2");
  EXPECT_EQ(errorAfter([](Json &, Json &first, Json &) {
              first[0]["results"][0] = input(0);
            }),
            "table step, list 0, entry 0: expected an output or a slot for "
            "result y, got an input");
  EXPECT_EQ(errorAfter([](Json &, Json &first, Json &) {
              first[9]["arguments"][0] = output(1);
            }),
            "table step, list 0, entry 9: expected an input or a slot for "
            "argument x, got an output");
}

TEST(TableVerifier, WaitsPointBackward) {
  EXPECT_EQ(errorAfter([](Json &, Json &first, Json &) {
              first[2]["after"] = list(5);
            }),
            "table step, list 0, entry 2: expected to wait for an earlier "
            "entry, got entry 5");
}

TEST(TableVerifier, SlotsAreOrdered) {
  EXPECT_EQ(errorAfter([](Json &, Json &first, Json &) {
              first[1]["after"] = Json::array();
            }),
            "table step, list 0, entry 1: slot 0 is read, perhaps before entry "
            "0 has written it: expected a wait");
  EXPECT_EQ(errorAfter([](Json &, Json &first, Json &) {
              first[2]["after"] = Json::array();
            }),
            "table step, list 0, entry 2: slot 0 is overwritten, perhaps "
            "before entry 1 has read it: expected a wait");
  EXPECT_EQ(errorAfter([](Json &, Json &, Json &second) {
              second[1]["arguments"][0] = slot(2);
            }),
            "table step, list 1, entry 1: slot 2 is read before anything is "
            "written");
  EXPECT_EQ(errorAfter([](Json &, Json &, Json &second) {
              second[8]["results"][0] = slot(1);
            }),
            "table step, list 1, entry 8: slot 1 is read and overwritten: "
            "expected a program that allows it (in_place), but backward may "
            "write result dx before it has read argument x");
  // Nobody reads the last y.
  EXPECT_EQ(errorAfter([](Json &, Json &, Json &second) {
              second[7]["after"] = Json::array();
              second[7]["arguments"][0] = slot(1);
              second[8]["results"][0] = slot(4);
            }),
            "table step, list 1, entry 8: slot 4 is overwritten, perhaps "
            "before entry 6 has written it: expected a wait");
  EXPECT_EQ(errorAfter([](Json &, Json &first, Json &) {
              first[1]["send"] = slot(1);
            }),
            "table step, list 0, entry 1: slot 1 is read before anything is "
            "written");
}

TEST(TableVerifier, OutputsAreWrittenOnce) {
  EXPECT_EQ(errorAfter([](Json &, Json &first, Json &) {
              first[15]["micro_batch"] = 2;
            }),
            "table step, list 0: expected output dx to be written once for "
            "micro-batch 2, got 2 times");
  EXPECT_EQ(errorAfter([](Json &table, Json &, Json &) {
              table["outputs"][1]["of"] = "step";
            }),
            "table step, list 0: expected output dx to be written once, got 4 "
            "times");
}

TEST(TableVerifier, SendsAndReceivesMatch) {
  EXPECT_EQ(
      errorAfter([](Json &, Json &first, Json &) { first[1]["stream"] = 3; }),
      "table step: expected as many sends of rank 0 to rank 1 in group 0 "
      "on stream 1 as receives, got 3 and 4");
  EXPECT_EQ(
      errorAfter([](Json &, Json &first, Json &) { first[1]["peer"] = 0; }),
      "table step, list 0, entry 1: expected another of the 2 members of "
      "group 0 than 0, got 0");
  EXPECT_EQ(errorAfter([](Json &table, Json &first, Json &) {
              table["slots"].push_back({{"bytes", 4}});
              first[8]["receive"]["slot"] = 6;
              first[9]["arguments"][1] = input(0);
            }),
            "table step: rank 1, entry 9 sends 8 bytes, but rank 0, entry 8 "
            "receives 4");
  Json manifest = pipelineManifest();
  manifest["groups"][0]["among"] = Json{{"pp", list(0)}};
  EXPECT_EQ(messageOf(manifest),
            "table step, list 0, entry 1: expected another of the 1 members of "
            "group 0 than 0, got 1");
  manifest["groups"][0]["among"] = Json{{"pp", list(1)}};
  EXPECT_EQ(messageOf(manifest),
            "table step, list 0, entry 1: expected members of group 0, got "
            "rank 0");
}

/// Each of two ranks computes y = w x, gives y to the other and computes w y of
/// the other's y. Entry 0 is the first call. `order` has the others, each once:
/// the send, the receive, the second call. Rank r sends on stream streams[r].
Json exchangeManifest(std::string_view order, std::array<int, 2> streams) {
  Json manifest = pipelineManifest();
  Json outputs =
      list(tensor("z0", "f32", list(2), 1), tensor("z1", "f32", list(2), 2));
  for (Json &each : outputs)
    each["of"] = "step";
  Json lists = Json::array();
  for (int rank : {0, 1}) {
    Json entries = list(call("forward", 0, list(input(0)), list(slot(0))));
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
    lists.push_back({{"ranks", 1 + rank}, {"entries", entries}});
  }
  manifest["tables"] =
      list(Json{{"name", "exchange"},
                {"micro_batches", 1},
                {"inputs", list(tensor("x", "f32", list(2), 0))},
                {"outputs", outputs},
                {"slots", list(Json{{"bytes", 8}}, Json{{"bytes", 8}})},
                {"lists", lists}});
  return manifest;
}

TEST(Table, SendsDoNotWaitForReceives) {
  const std::vector<float> x = {1, 10};
  // Both ranks send before they receive, on one stream. On two streams, they
  // may receive first.
  for (const Json &manifest :
       {exchangeManifest("src", {1, 1}), exchangeManifest("src", {1, 2}),
        exchangeManifest("rsc", {1, 2})}) {
    ASSERT_EQ(messageOf(manifest), "");
    TestArtifact artifact(manifest);
    std::unique_ptr<Session> session = load(artifact);
    ASSERT_TRUE(session);
    std::vector<float> z0(2), z1(2);
    Status status = session->run("exchange", {bytesOf(x)},
                                 {writableBytesOf(z0), writableBytesOf(z1)});
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(z0, (std::vector<float>{6, 60}));
    EXPECT_EQ(z1, z0);
  }
}

TEST(TableVerifier, ASendMayComeTooLate) {
  // Behind the receive on the same stream.
  EXPECT_EQ(messageOf(exchangeManifest("rsc", {1, 1})),
            "table exchange, list 0, entry 1: rank 0 waits for ever for the "
            "send of rank 1, entry 2, which never begins");
  // Behind a call that waits for the receive: the host may not get to it.
  EXPECT_EQ(messageOf(exchangeManifest("rcs", {1, 2})),
            "table exchange, list 0, entry 1: rank 0 waits for ever for the "
            "send of rank 1, entry 3, which never begins");
}

//===----------------------------------------------------------------------===//
// 1F1B
//===----------------------------------------------------------------------===//

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
    // Of several uses on one stream, the last comes first here: a wait for it
    // is one for all of them.
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

/// The two stages under 1F1B. Each stage has two slots for y and two for its
/// gradient, which micro-batches use in turn. Activations go forward on stream
/// 1 while gradients come back on stream 2.
Json interleavedManifest() {
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
  step["slots"] = Json::array();
  for (int i = 0; i < 4; ++i)
    step["slots"].push_back({{"bytes", 8}});
  step["lists"][0]["entries"] = first.entries;
  step["lists"][1]["entries"] = second.entries;
  return manifest;
}

TEST(Table, RunsTwoStagesInterleaved) {
  TestArtifact artifact(interleavedManifest());
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<float> dz = {1, 1, 10, 10, 100, 100, 1000, 1000};
  std::vector<float> expectedZ, expectedDx;
  float g0 = 0, g1 = 0;
  for (size_t i = 0; i < 8; ++i) {
    expectedZ.push_back(6 * x[i]);
    expectedDx.push_back(6 * dz[i]);
    g0 += 3 * dz[i] * x[i];
    g1 += 2 * x[i] * dz[i];
  }
  using Order = StreamOrder::Kind;
  for (uint64_t seed = 0; seed < 10; ++seed)
    for (Order kind :
         {Order::Natural, Order::Earliest, Order::Latest, Order::Random}) {
      if (kind != Order::Random && seed > 0)
        continue; // the seed is of random orders
      SessionOptions options;
      options.streamOrder = StreamOrder{kind, seed};
      std::unique_ptr<Session> session = load(artifact, options);
      ASSERT_TRUE(session);
      for (int step = 1; step <= 5; ++step) {
        std::vector<float> z(8), dx(8);
        Status status = session->run("step", {bytesOf(x), bytesOf(dz)},
                                     {writableBytesOf(z), writableBytesOf(dx)});
        ASSERT_TRUE(status.ok()) << status.message();
        EXPECT_EQ(z, expectedZ);
        EXPECT_EQ(dx, expectedDx);
        EXPECT_EQ(readScalar(*session, "g0"), float(step) * g0);
        EXPECT_EQ(readScalar(*session, "g1"), float(step) * g1);
      }
    }
}

TEST(TableVerifier, ASlotIsNotUsedAgainTooEarly) {
  // Stage 0 has one slot for y in place of two, but waits as for two.
  Json manifest = interleavedManifest();
  for (Json &entry : manifest["tables"][0]["lists"][0]["entries"])
    for (const char *where : {"/results/0/slot", "/send/slot"})
      if (Json::json_pointer at(where); entry.contains(at) && entry[at] == 1)
        entry[at] = 0;
  EXPECT_EQ(messageOf(manifest),
            "table step, list 0, entry 2: slot 0 is overwritten, perhaps "
            "before entry 1 has read it: expected a wait");
}

// Without any single wait, a slot is read or overwritten too early.
TEST(TableVerifier, EveryWaitIsNeeded) {
  const Json manifest = interleavedManifest();
  int waits = 0;
  for (size_t which : {0, 1}) {
    const Json &entries = manifest["tables"][0]["lists"][which]["entries"];
    for (size_t i = 0; i < entries.size(); ++i)
      for (size_t wait = 0; wait < entries[i]["after"].size(); ++wait) {
        Json changed = manifest;
        changed["tables"][0]["lists"][which]["entries"][i]["after"].erase(wait);
        EXPECT_NE(messageOf(changed).find("expected a wait"), std::string::npos)
            << "list " << which << ", entry " << i << ": " << entries[i];
        ++waits;
      }
  }
  EXPECT_GT(waits, 20);
}

} // namespace
