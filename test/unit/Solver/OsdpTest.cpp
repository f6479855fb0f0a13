//===- OsdpTest.cpp - OSDP's planner as an instance -----------------------===//

#include "heddle/Solver/Osdp.h"
#include "RandomProblem.h"

#include <cmath>
#include <ctime>
#include <gtest/gtest.h>

namespace heddle::solver {
namespace {

/// From the authors' tables (profiler_output.py, MIT), 8 GPUs.
const char *const Profile = R"({"rows": [
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

OsdpPlan plan(int64_t Hidden, int64_t BatchIndex, OsdpOptions O) {
  auto Entries = parseOsdpProfile(Profile);
  EXPECT_TRUE(bool(Entries)) << Entries.error().Message;
  for (const OsdpProfileEntry &E : *Entries)
    if (E.Hidden == Hidden && E.BatchIndex == BatchIndex) {
      SolveOptions S;
      S.Threads = 1;
      auto Plan = planOsdp(E, O, S);
      EXPECT_TRUE(bool(Plan));
      EXPECT_EQ(Plan->Result.Why, Plan->Result.Best ? StopReason::Optimal
                                                    : StopReason::Infeasible);
      return *Plan;
    }
  ADD_FAILURE() << "no such entry";
  return {};
}

OsdpOptions layersIn(int64_t Layers, double Megabytes) {
  OsdpOptions O;
  O.Layers = Layers;
  O.Megabytes = Megabytes;
  return O;
}

/// The knapsack that OSDP's own dynamic program solves, by counting layers.
double byCounting(const OsdpProfileEntry &E, int64_t Layers, double Limit) {
  double Best = 1e300;
  for (int64_t A = 0; A <= Layers; ++A)
    for (int64_t B = 0; A + B <= Layers; ++B)
      for (int64_t C = 0; A + B + C <= Layers; ++C) {
        double N[] = {double(A), double(B), double(C),
                      double(Layers - A - B - C)};
        double Seconds = 0, Megabytes = 0;
        for (int I = 0; I < 4; ++I) {
          Seconds += N[I] * E.Seconds[I];
          Megabytes += N[I] * E.Megabytes[I];
        }
        if (Megabytes <= Limit)
          Best = std::min(Best, Seconds);
      }
  return Best;
}

// Counts are by strategy: nothing, MLP, attention, both.
using Counts = std::vector<int64_t>;

TEST(Osdp, PublishedModel) {
  std::clock_t Start = std::clock(); // processor time: the machine may be busy
  OsdpPlan P = plan(1536, 1, layersIn(48, 7392));
  double Took = double(std::clock() - Start) / CLOCKS_PER_SEC;
  EXPECT_EQ(P.Count, (Counts{0, 46, 2, 0}));
  EXPECT_NEAR(P.Seconds, 2.902, 5e-4);
  EXPECT_NEAR(P.Megabytes, 46 * 147.315 + 2 * 271.885, 1e-3);
  EXPECT_NEAR(P.AllShardedSeconds, 3.350, 5e-4);
  EXPECT_LT(Took, test::slowdown() * 0.05);
}

TEST(Osdp, OtherEntries) {
  OsdpPlan P = plan(1536, 0, layersIn(48, 7392));
  EXPECT_EQ(P.Count, (Counts{0, 44, 0, 4}));
  EXPECT_NEAR(P.Seconds, 3.583, 5e-4);
  EXPECT_NEAR(P.AllShardedSeconds, 4.311, 5e-4);
  P = plan(2048, 0, layersIn(48, 7392));
  EXPECT_EQ(P.Count, (Counts{0, 13, 0, 35}));
  EXPECT_NEAR(P.Seconds, 7.388, 5e-4);
  EXPECT_NEAR(P.AllShardedSeconds, 7.769, 5e-4);
  for (int64_t Batch : {0, 1}) {
    P = plan(1024, Batch, layersIn(24, 7392));
    EXPECT_EQ(P.Count, (Counts{24, 0, 0, 0}));
    EXPECT_NEAR(P.AllShardedSeconds / P.Seconds, Batch ? 1.45 : 2.06, 0.01);
  }
}

TEST(Osdp, AgreesWithCountingAtEveryLimit) {
  for (double Limit = 5000; Limit < 19000; Limit += 1111) {
    OsdpPlan P = plan(1536, 1, layersIn(48, Limit));
    if (48 * 116.225 > Limit) {
      EXPECT_FALSE(P.Result.Best);
      EXPECT_TRUE(std::isinf(P.Seconds));
      continue;
    }
    EXPECT_NEAR(P.Seconds, byCounting(P.Profile, 48, Limit), 1e-6) << Limit;
  }
}

TEST(Osdp, SplittingNeverHurtsAndFillsMemory) {
  OsdpOptions O = layersIn(48, 7392);
  OsdpPlan Whole = plan(1536, 1, O);
  O.Slices = 4;
  O.SecondsPerSlice = 0;
  OsdpPlan Free = plan(1536, 1, O);
  O.SecondsPerSlice = 1e-4;
  OsdpPlan Charged = plan(1536, 1, O);
  EXPECT_LT(Free.Seconds, Whole.Seconds);
  EXPECT_LE(Free.Seconds, Charged.Seconds);
  // What is sharded as a whole is not split, and pays for nothing.
  EXPECT_LE(Charged.Seconds, Whole.Seconds);
  EXPECT_LE(Free.Megabytes, 7392);
}

TEST(Osdp, BatchIsChosenByThroughput) {
  auto Entries = parseOsdpProfile(Profile);
  ASSERT_TRUE(bool(Entries));
  // Twice the batch in less than twice the time wins over the smaller one.
  OsdpProfileEntry Second = (*Entries)[3];
  ASSERT_EQ(Second.Hidden, 1536);
  Second.BatchIndex = 2;
  for (double &T : Second.Seconds)
    T *= 1.5;
  Entries->push_back(Second);
  auto Best = planOsdpBatch(*Entries, 1536, layersIn(48, 7392), {});
  ASSERT_TRUE(Best && *Best);
  EXPECT_EQ((*Best)->Profile.BatchIndex, 2);
  auto None = planOsdpBatch(*Entries, 1536, layersIn(48, 100), {});
  ASSERT_TRUE(bool(None));
  EXPECT_FALSE(None->has_value());
}

TEST(Osdp, NamesTheFieldThatIsWrong) {
  auto ErrorOf = [](const char *Text) {
    auto P = parseOsdpProfile(Text);
    return P ? "" : P.error().Message;
  };
  EXPECT_EQ(ErrorOf("{}"), "rows: expected an array of measurements");
  EXPECT_EQ(ErrorOf(R"({"rows": [{"hidden": "x"}]})"),
            "rows[0].hidden: expected an integer from 0 to 1000000, got \"x\"");
  EXPECT_EQ(ErrorOf(R"({"rows": [{"hidden": 1, "batch_index": 0,
                       "sharded": "some"}]})"),
            "rows[0].sharded: expected none, attention, mlp or attention+mlp, "
            "got \"some\"");
  EXPECT_EQ(ErrorOf(R"({"rows": [{"hidden": 1, "batch_index": 0,
      "sharded": "none", "layer_time_s": 1, "layer_memory_mb": 1}]})"),
            "rows: expected all four choices for hidden 1, batch_index 0");
}

} // namespace
} // namespace heddle::solver
