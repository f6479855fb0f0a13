//===- OsdpTest.cpp - OSDP's planner as an instance -----------------------===//

#include "heddle/Solver/Osdp.h"

#include <cmath>
#include <gtest/gtest.h>

namespace heddle::solver {
namespace {

/// Rows of the authors' tables for 8 GPUs (profiler_output.py, MIT).
const char *const osdpRows = R"({"rows": [
{"hidden": 1024, "batch_index": 0, "sharded": "none", "layer_time_s": 0.020241479, "layer_memory_mb": 168.29},
{"hidden": 1024, "batch_index": 0, "sharded": "attention", "layer_time_s": 0.027732746, "layer_memory_mb": 120.2125},
{"hidden": 1024, "batch_index": 0, "sharded": "mlp", "layer_time_s": 0.033727898, "layer_memory_mb": 74.3675},
{"hidden": 1024, "batch_index": 0, "sharded": "attention+mlp", "layer_time_s": 0.041765296, "layer_memory_mb": 24.68166667},
{"hidden": 1024, "batch_index": 1, "sharded": "none", "layer_time_s": 0.022742944, "layer_memory_mb": 169.6033333},
{"hidden": 1024, "batch_index": 1, "sharded": "attention", "layer_time_s": 0.026182946, "layer_memory_mb": 120.2133333},
{"hidden": 1024, "batch_index": 1, "sharded": "mlp", "layer_time_s": 0.028019806, "layer_memory_mb": 80.13166667},
{"hidden": 1024, "batch_index": 1, "sharded": "attention+mlp", "layer_time_s": 0.03295156, "layer_memory_mb": 62.67083333},
{"hidden": 1536, "batch_index": 0, "sharded": "none", "layer_time_s": 0.044291774, "layer_memory_mb": 377.31},
{"hidden": 1536, "batch_index": 0, "sharded": "attention", "layer_time_s": 0.058510462, "layer_memory_mb": 271.89},
{"hidden": 1536, "batch_index": 0, "sharded": "mlp", "layer_time_s": 0.073257903, "layer_memory_mb": 162.06},
{"hidden": 1536, "batch_index": 0, "sharded": "attention+mlp", "layer_time_s": 0.089805245, "layer_memory_mb": 59.96},
{"hidden": 1536, "batch_index": 1, "sharded": "none", "layer_time_s": 0.051672141, "layer_memory_mb": 377.745},
{"hidden": 1536, "batch_index": 1, "sharded": "attention", "layer_time_s": 0.054875135, "layer_memory_mb": 271.885},
{"hidden": 1536, "batch_index": 1, "sharded": "mlp", "layer_time_s": 0.060699721, "layer_memory_mb": 147.315},
{"hidden": 1536, "batch_index": 1, "sharded": "attention+mlp", "layer_time_s": 0.069794059, "layer_memory_mb": 116.225},
{"hidden": 2048, "batch_index": 0, "sharded": "none", "layer_time_s": 0.076876058, "layer_memory_mb": 672.5433333},
{"hidden": 2048, "batch_index": 0, "sharded": "attention", "layer_time_s": 0.108124554, "layer_memory_mb": 485.07},
{"hidden": 2048, "batch_index": 0, "sharded": "mlp", "layer_time_s": 0.132541047, "layer_memory_mb": 288.24},
{"hidden": 2048, "batch_index": 0, "sharded": "attention+mlp", "layer_time_s": 0.161845638, "layer_memory_mb": 101.8583333}]})";

OsdpPlan plan(int64_t hidden, int64_t batchIndex, OsdpOptions o) {
  auto entries = parseOsdpProfile(osdpRows);
  EXPECT_TRUE(bool(entries)) << llvm::toString(entries.takeError());
  for (const OsdpProfileEntry &e : *entries)
    if (e.hidden == hidden && e.batchIndex == batchIndex) {
      SolveOptions s;
      s.threads = 1;
      auto plan = planOsdp(e, o, s);
      EXPECT_TRUE(bool(plan));
      EXPECT_EQ(plan->result.why, plan->result.best ? StopReason::Optimal
                                                    : StopReason::Infeasible);
      return *plan;
    }
  ADD_FAILURE() << "no such entry";
  return {};
}

OsdpOptions layersIn(int64_t layers, double megabytes) {
  OsdpOptions o;
  o.layers = layers;
  o.megabytes = megabytes;
  return o;
}

/// Returns the least time of the knapsack that OSDP's dynamic program solves.
/// Tries all numbers of layers for each of the four strategies.
double byCounting(const OsdpProfileEntry &e, int64_t layers, double limit) {
  double best = 1e300;
  for (int64_t a = 0; a <= layers; ++a)
    for (int64_t b = 0; a + b <= layers; ++b)
      for (int64_t c = 0; a + b + c <= layers; ++c) {
        double n[] = {double(a), double(b), double(c),
                      double(layers - a - b - c)};
        double seconds = 0, megabytes = 0;
        for (int i = 0; i < 4; ++i) {
          seconds += n[i] * e.seconds[i];
          megabytes += n[i] * e.megabytes[i];
        }
        if (megabytes <= limit)
          best = std::min(best, seconds);
      }
  return best;
}

// Numbers of layers that shard nothing, the MLP, attention, or both.
using Counts = std::vector<int64_t>;

TEST(Osdp, PublishedModel) {
  OsdpPlan p = plan(1536, 1, layersIn(48, 7392));
  EXPECT_EQ(p.count, (Counts{0, 46, 2, 0}));
  EXPECT_NEAR(p.seconds, 2.902, 5e-4);
  EXPECT_NEAR(p.megabytes, 46 * 147.315 + 2 * 271.885, 1e-3);
  EXPECT_NEAR(p.allShardedSeconds, 3.350, 5e-4);
}

TEST(Osdp, OtherEntries) {
  OsdpPlan p = plan(1536, 0, layersIn(48, 7392));
  EXPECT_EQ(p.count, (Counts{0, 44, 0, 4}));
  EXPECT_NEAR(p.seconds, 3.583, 5e-4);
  EXPECT_NEAR(p.allShardedSeconds, 4.311, 5e-4);
  p = plan(2048, 0, layersIn(48, 7392));
  EXPECT_EQ(p.count, (Counts{0, 13, 0, 35}));
  EXPECT_NEAR(p.seconds, 7.388, 5e-4);
  EXPECT_NEAR(p.allShardedSeconds, 7.769, 5e-4);
  for (int64_t batch : {0, 1}) {
    p = plan(1024, batch, layersIn(24, 7392));
    EXPECT_EQ(p.count, (Counts{24, 0, 0, 0}));
    EXPECT_NEAR(p.allShardedSeconds / p.seconds, batch ? 1.45 : 2.06, 0.01);
  }
}

TEST(Osdp, AgreesWithCountingAtEveryLimit) {
  for (double limit = 5000; limit < 19000; limit += 1111) {
    OsdpPlan p = plan(1536, 1, layersIn(48, limit));
    if (48 * 116.225 > limit) {
      EXPECT_FALSE(p.result.best);
      EXPECT_TRUE(std::isinf(p.seconds));
      continue;
    }
    EXPECT_NEAR(p.seconds, byCounting(p.profile, 48, limit), 1e-6) << limit;
  }
}

TEST(Osdp, SplittingNeverHurtsAndFillsMemory) {
  OsdpOptions o = layersIn(48, 7392);
  OsdpPlan whole = plan(1536, 1, o);
  o.slices = 4;
  o.secondsPerSlice = 0;
  OsdpPlan free = plan(1536, 1, o);
  o.secondsPerSlice = 1e-4;
  OsdpPlan charged = plan(1536, 1, o);
  EXPECT_LT(free.seconds, whole.seconds);
  EXPECT_LE(free.seconds, charged.seconds);
  // A layer that is sharded as a whole pays nothing for slices, so the charged
  // plan is never slower than the whole one.
  EXPECT_LE(charged.seconds, whole.seconds);
  EXPECT_LE(free.megabytes, 7392);
}

TEST(Osdp, BatchIsChosenByThroughput) {
  auto entries = parseOsdpProfile(osdpRows);
  ASSERT_TRUE(bool(entries));
  // Twice the batch takes less than twice the time, so it has more throughput.
  OsdpProfileEntry second = (*entries)[3];
  ASSERT_EQ(second.hidden, 1536);
  second.batchIndex = 2;
  for (double &t : second.seconds)
    t *= 1.5;
  entries->push_back(second);
  auto best = planOsdpBatch(*entries, 1536, layersIn(48, 7392), {});
  ASSERT_TRUE(best && *best);
  EXPECT_EQ((*best)->profile.batchIndex, 2);
  auto none = planOsdpBatch(*entries, 1536, layersIn(48, 100), {});
  ASSERT_TRUE(bool(none));
  EXPECT_FALSE(none->has_value());
}

TEST(Osdp, NamesTheFieldThatIsWrong) {
  auto errorOf = [](const char *text) {
    auto p = parseOsdpProfile(text);
    return p ? "" : llvm::toString(p.takeError());
  };
  EXPECT_EQ(errorOf("{}"), "rows: expected an array of measurements");
  EXPECT_EQ(errorOf(R"({"rows": [{"hidden": "x"}]})"),
            "rows[0].hidden: expected an integer from 0 to 1000000, got \"x\"");
  EXPECT_EQ(errorOf(R"({"rows": [{"hidden": 1, "batch_index": 0,
                       "sharded": "some"}]})"),
            "rows[0].sharded: expected none, attention, mlp or attention+mlp, "
            "got \"some\"");
  EXPECT_EQ(errorOf(R"({"rows": [{"hidden": 1, "batch_index": 0,
      "sharded": "none", "layer_time_s": 1, "layer_memory_mb": 1}]})"),
            "rows: expected all four choices for hidden 1, batch_index 0");
}

} // namespace
} // namespace heddle::solver
