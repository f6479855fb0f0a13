//===- PlanTest.cpp - Plans as data ---------------------------------------===//

#include "heddle/Plan/Plan.h"
#include "heddle/Plan/DefaultPlan.h"
#include "heddle/Shard/ApplyPlan.h"
#include "test/support/WithContext.h"
#include "gtest/gtest.h"

using namespace heddle;

namespace {

/// Returns the first error without the line of the text that it shows.
std::string errorOf(llvm::StringRef text) {
  auto plan = parsePlan(text, "plan.json");
  if (plan)
    return "";
  std::string all = llvm::toString(plan.takeError());
  return llvm::StringRef(all).split('\n').first.str();
}

TEST(PlanTest, WritingIsStable) {
  auto plan = parsePlan(
      R"({"storage": {"adamw.*": {"0": ["tp", "dp"]}},
          "operators": {"h.*": {"n": [], "b": ["dp"]}, "*": {"f": ["tp"]}},
          "mesh": {"tp": 2, "dp": 3}, "version": 1})",
      "plan.json");
  ASSERT_TRUE(bool(plan));
  std::string text = writePlan(*plan);
  EXPECT_EQ(text, R"({
  "version": 1,
  "mesh": {"tp": 2, "dp": 3},
  "operators": {
    "*": {"f": ["tp"]},
    "h.*": {"b": ["dp"], "n": []}
  },
  "storage": {
    "adamw.*": {"0": ["tp", "dp"]}
  }
}
)");
  auto again = parsePlan(text, "again");
  ASSERT_TRUE(bool(again));
  EXPECT_EQ(writePlan(*again), text);
}

/// Tests of plans that are built in memory instead of read from a file.
class PlanInMemoryTest : public testing::Test, protected test::WithContext {
protected:
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
};

TEST_F(PlanInMemoryTest, HasAZeROLevel) {
  auto plan = makeDefaultPlan(*module, {{2}, {1}}, 4);
  ASSERT_FALSE(bool(plan));
  EXPECT_EQ(llvm::toString(plan.takeError()),
            "expected a ZeRO level from 0 to 3, got 4");
}

TEST_F(PlanInMemoryTest, HasNoMoreDevicesThanPlansMay) {
  Plan plan;
  plan.mesh = {{"dp", int64_t(1) << 32}, {"tp", int64_t(1) << 32}};
  EXPECT_TRUE(failed(applyPlan(*module, plan)));
  EXPECT_EQ(diagnostics,
            "$.mesh: expected a mesh of at most 65536 devices, got more\n");
}

TEST(PlanTest, PinsAndPriorities) {
  auto plan = parsePlan(
      R"({"version": 1, "mesh": {"dp": 2, "tp": 2},
          "priorities": {"z": 0, "h.*": 3},
          "pins": {"x": {}, "h.*": {"s": ["tp"], "b": ["dp"]}}})",
      "plan.json");
  ASSERT_TRUE(bool(plan)) << llvm::toString(plan.takeError());
  std::string text = writePlan(*plan);
  EXPECT_EQ(text, R"({
  "version": 1,
  "mesh": {"dp": 2, "tp": 2},
  "operators": {},
  "storage": {},
  "pins": {
    "h.*": {"b": ["dp"], "s": ["tp"]},
    "x": {}
  },
  "priorities": {
    "h.*": 3,
    "z": 0
  }
}
)");
  auto again = parsePlan(text, "again");
  ASSERT_TRUE(bool(again)) << llvm::toString(again.takeError());
  EXPECT_EQ(writePlan(*again), text);
  EXPECT_EQ(errorOf(R"({"version": 1, "mesh": {}, "priorities": {"x": 1.5}})"),
            "plan.json:1:43: $.priorities[\"x\"]: expected a number from 0 to "
            "65536, got 1.5");
}

TEST(PlanTest, SizesOfSubBatches) {
  auto plan =
      parsePlan(R"({"version": 1, "mesh": {"dp": 2}, "sub_batches": [3, 1]})",
                "plan.json");
  ASSERT_TRUE(bool(plan)) << llvm::toString(plan.takeError());
  EXPECT_EQ(plan->subBatches, 2);
  EXPECT_TRUE(llvm::StringRef(writePlan(*plan)).contains("\"sub_batches\": [3,1]"));
  plan->setSubBatches(2);
  EXPECT_EQ(plan->subBatchSizes, (std::vector<int64_t>{3, 1}));
  plan->setSubBatches(3);
  EXPECT_TRUE(plan->subBatchSizes.empty());
}

TEST(PlanTest, SplitsAndProducts) {
  auto plan = parsePlan(
      R"({"version": 1, "mesh": {"dp": [2, 4], "tp": 2},
          "operators": {"*": {"b": ["dp"], "f": ["tp"]}, "x": {"b": ["dp.0"]}},
          "storage": {"*": {"0": ["dp.1"]}}, "reduce_gradients": "micro_batch",
          "sub_batches": 3, "overlap": "oases", "recompute": "optimal",
          "recompute_bytes": 5000000000, "exchange_chunks": 4,
          "scatter_sums": true, "exchange_ring": true,
          "splits": {"h.*": {"h": {"slices": 4, "sharded": 2}},
                     "*.c_fc": {"f": {"slices": 3}}}})",
      "plan.json");
  ASSERT_TRUE(bool(plan)) << llvm::toString(plan.takeError());
  EXPECT_EQ(plan->getNumDevices(), 16);
  std::string text = writePlan(*plan);
  EXPECT_EQ(text, R"({
  "version": 1,
  "mesh": {"dp.0": 2, "dp.1": 4, "tp": 2},
  "operators": {
    "*": {"b": ["dp.0", "dp.1"], "f": ["tp"]},
    "x": {"b": ["dp.0"]}
  },
  "storage": {
    "*": {"0": ["dp.1"]}
  },
  "splits": {
    "*.c_fc": {"f": {"slices": 3}},
    "h.*": {"h": {"slices": 4, "sharded": 2}}
  },
  "reduce_gradients": "micro_batch",
  "sub_batches": 3,
  "recompute": "optimal",
  "recompute_bytes": 5000000000,
  "exchange_chunks": 4,
  "exchange_ring": true,
  "scatter_sums": true,
  "overlap": "oases"
}
)");
  auto again = parsePlan(text, "again");
  ASSERT_TRUE(bool(again));
  EXPECT_EQ(writePlan(*again), text);
  const PlanSplit *rival;
  EXPECT_EQ(findPlanSplit(plan->splits, "h.0.mlp.c_fc", &rival)->factor, "f");
  EXPECT_EQ(rival, nullptr);
  EXPECT_EQ(findPlanSplit(plan->splits, "h.0.attn", &rival)->sharded, 2);
  EXPECT_EQ(findPlanSplit(plan->splits, "wte"), nullptr);
}

TEST(PlanTest, Globs) {
  EXPECT_TRUE(matchesGlob("*", "h.0.attn"));
  EXPECT_TRUE(matchesGlob("h.*.attn", "h.10.attn"));
  EXPECT_FALSE(matchesGlob("h.*.attn", "h.0.attn.c_attn"));
  EXPECT_TRUE(matchesGlob("h.?.ln_*", "h.3.ln_2"));
  EXPECT_FALSE(matchesGlob("h.?.attn", "h.10.attn"));
  EXPECT_TRUE(matchesGlob("*.c_*roj", "h.0.mlp.c_proj"));
  EXPECT_FALSE(matchesGlob("", "h"));
}

TEST(PlanTest, MostSpecificEntryDecides) {
  auto plan = parsePlan(
      R"({"version": 1, "mesh": {"x": 2, "y": 2}, "operators": {
          "h.*.mlp.c_fc": {"f": ["x"]}, "*": {"f": ["y"], "b": ["y"]},
          "h.0.*": {"f": []}, "h.?.mlp.c_fc": {"f": ["y"]}}})",
      "");
  ASSERT_TRUE(bool(plan));
  const FactorEntry *rival;
  EXPECT_EQ(findPlanEntry(plan->operators, "h.1.mlp.c_fc", "b", &rival)->glob,
            "*");
  EXPECT_EQ(rival, nullptr);
  EXPECT_EQ(findPlanEntry(plan->operators, "h.0.mlp.c_fc", "f", &rival)->glob,
            "h.*.mlp.c_fc");
  ASSERT_NE(rival, nullptr);
  EXPECT_EQ(rival->glob, "h.?.mlp.c_fc");
  EXPECT_EQ(findPlanEntry(plan->operators, "x", "h", &rival), nullptr);
}

TEST(PlanTest, ErrorsShowTheLine) {
  auto plan = parsePlan("{\"version\": 1,\n \"mseh\": {}}", "plan.json");
  ASSERT_FALSE(bool(plan));
  EXPECT_EQ(llvm::toString(plan.takeError()),
            "plan.json:2:2: $: unknown key \"mseh\", did you mean \"mesh\"?\n"
            " \"mseh\": {}}\n ^\n"
            "plan.json:1:1: $: expected a \"mesh\"\n"
            "{\"version\": 1,\n^");
}

TEST(PlanTest, ErrorsNameThePlace) {
  EXPECT_EQ(errorOf("{\n  \"version\": 1,\n  \"mesh\": {\"dp\": 0}}"),
            "plan.json:3:12: $.mesh.dp: expected a positive number of devices, "
            "got 0");
  EXPECT_EQ(errorOf("{\"version\": 1,\n \"mseh\": {}}"),
            "plan.json:2:2: $: unknown key \"mseh\", did you mean \"mesh\"?");
  EXPECT_EQ(errorOf("{\"version\": 1, \"mesh\": {\"dp\": [2, 0]}}"),
            "plan.json:1:25: $.mesh.dp: expected a positive number of devices, "
            "got 0");
  EXPECT_EQ(errorOf("{\"version\": 1, \"mesh\": {\"dp\": []}}"),
            "plan.json:1:25: $.mesh.dp: expected the sizes of an axis' parts, "
            "got []");
  EXPECT_EQ(
      errorOf("{\"version\": 1, \"mesh\": {\"dp.1\": 2, \"dp\": [2, 2]}}"),
      "plan.json:1:36: $.mesh.dp: expected each axis once, got \"dp.1\" "
      "twice");
  EXPECT_EQ(errorOf("{\"version\": 1, \"mesh\": {\"dp\": [2, 2]}, "
                    "\"storage\":\n{\"w\": {\"0\": [\"dp\", \"dp.1\"]}}}"),
            "plan.json:2:20: $.storage[\"w\"][\"0\"]: expected each axis once, "
            "got \"dp.1\" twice");
  EXPECT_EQ(errorOf("{\"version\": 2, \"mesh\": {}}"),
            "plan.json:1:2: $.version: expected 1, got 2");
  EXPECT_EQ(errorOf("{\"version\": 1, \"mesh\": {}, \"storage\":\n"
                    "{\"h\": {\"b\": []}}}"),
            "plan.json:2:8: $.storage[\"h\"].b: expected the index of a "
            "dimension, got \"b\"");
  EXPECT_EQ(errorOf("{\"version\": 1,\n\"mesh\": {\"a\": 1}, \"mesh\": {}}"),
            "plan.json:2:19: expected each key once, got \"mesh\" twice");
  EXPECT_EQ(errorOf("{\"version\": 1,\n x}"),
            "plan.json:2:2: expected JSON: syntax error while parsing object "
            "key - invalid literal; last read: '1,<U+000A> x'; expected string "
            "literal");
  EXPECT_EQ(errorOf("{\"version\": 1, \"mesh\": {},\n"
                    " \"reduce_gradients\": \"never\"}"),
            "plan.json:2:2: $.reduce_gradients: expected \"step\" or "
            "\"micro_batch\", got \"never\"");
  EXPECT_EQ(
      errorOf("{\"version\": 1, \"mesh\": {},\n \"sub_batches\": 0}"),
      "plan.json:2:2: $.sub_batches: expected a number from 1 to 1024, "
      "or a list of at most so many sizes, each from 1 to 1073741824, got 0");
  EXPECT_EQ(
      errorOf("{\"version\": 1, \"mesh\": {},\n \"sub_batches\": [3, 0]}"),
      "plan.json:2:2: $.sub_batches: expected a number from 1 to 1024, "
      "or a list of at most so many sizes, each from 1 to 1073741824, got "
      "[3,0]");
  EXPECT_EQ(errorOf("{\"version\": 1, \"mesh\": {},\n \"recompute\": 1}"),
            "plan.json:2:2: $.recompute: expected \"none\", \"layer\", "
            "\"communication\" or \"optimal\", got 1");
  EXPECT_EQ(
      errorOf("{\"version\": 1, \"mesh\": {},\n \"exchange_chunks\": 65}"),
      "plan.json:2:2: $.exchange_chunks: expected a number from 1 to 64, got "
      "65");
  EXPECT_EQ(errorOf("{\"version\": 1, \"mesh\": {},\n \"scatter_sums\": 1}"),
            "plan.json:2:2: $.scatter_sums: expected true or false, got 1");
  EXPECT_EQ(errorOf("{\"version\": 1, \"mesh\": {},\n \"recompute_bytes\": 1}"),
            "plan.json:2:2: $.recompute_bytes: expected \"recompute\": "
            "\"optimal\" beside it");
  EXPECT_EQ(errorOf("{\"version\": 1, \"mesh\": {}, \"recompute\": "
                    "\"optimal\",\n \"recompute_bytes\": -1}"),
            "plan.json:2:2: $.recompute_bytes: expected a positive number of "
            "bytes, got -1");
  EXPECT_EQ(errorOf("{\"version\": 1, \"mesh\": {},\n \"overlap\": \"x\"}"),
            "plan.json:2:2: $.overlap: expected one of \"none\", \"default\", "
            "\"fine-grained-recompute\", \"cross-pass\", \"oases\", \"auto\", "
            "got \"x\"");
  EXPECT_EQ(errorOf("{\"version\": 1,\n \"mesh\": {\"dp\": " +
                    std::string(400, '9') + "}}"),
            "plan.json:2:17: expected a number that a double can hold, got "
            "9999999999999999999999999999999999999999...");
  EXPECT_EQ(errorOf("{\"a\": {\"b\\\"\": 1,\n \"b\\\"\": 2}}"),
            "plan.json:2:2: expected each key once, got \"b\\\"\" twice");
  EXPECT_EQ(errorOf("{\"a\":\n" + std::string(100, '[')),
            "plan.json:2:64: expected at most 64 lists and objects within one "
            "another, got more");
  EXPECT_EQ(errorOf("{\"\xff\": 1}"),
            "plan.json:1:3: expected text in UTF-8, got something else");
  EXPECT_EQ(errorOf("{\"a\": \"" + std::string(1000, 'x')),
            "plan.json:1:1008: expected JSON: syntax error while parsing value "
            "- invalid string: missing closing quote; last read: '..." +
                std::string(40, 'x') + "'");
  EXPECT_EQ(errorOf("[]"), "plan.json:1:1: expected an object");
  EXPECT_EQ(errorOf("{\"mesh\": {}}"),
            "plan.json:1:1: $: expected a \"version\"");
}

} // namespace
