//===- TableVerifierTest.cpp - Refuses wrong tables -----------------------===//

#include "TestTables.h"
#include "heddle_rt/manifest.h"

#include <gtest/gtest.h>

using namespace heddle::runtime;
using Json = nlohmann::json;

namespace {

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

TEST(TableVerifier, AcceptsExchanges) {
  EXPECT_EQ(messageOf(exchangeManifest("src", {1, 1})), "");
  EXPECT_EQ(messageOf(exchangeManifest("src", {1, 2})), "");
  EXPECT_EQ(messageOf(exchangeManifest("rsc", {1, 2})), "");
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

TEST(TableVerifier, AReceiveOnAStreamOfCallsHoldsBackAllCalls) {
  // Rank 0 receives before it calls what rank 1 waits for; rank 1 sends last.
  auto messageIfRankOneSendsOn = [](int stream) {
    Json manifest = exchangeManifest("rsc", {1, stream});
    Json &lists = manifest["tables"][0]["lists"];
    Json &first = lists[0]["entries"];
    std::swap(first[0], first[1]);
    first[1]["stream"] = 2;
    first[2]["after"] = list(1);
    first[3]["after"] = list(0);
    lists[1]["entries"][2]["after"] = list(0, 1);
    return messageOf(manifest);
  };
  EXPECT_EQ(messageIfRankOneSendsOn(3), "");
  EXPECT_EQ(messageIfRankOneSendsOn(0),
            "table exchange, list 0, entry 0: rank 0 waits for ever for the "
            "send of rank 1, entry 2, which never begins");
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
