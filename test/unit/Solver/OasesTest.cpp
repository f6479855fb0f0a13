//===- OasesTest.cpp - Oases' planner as an instance ----------------------===//

#include "heddle/Solver/Oases.h"

#include <gtest/gtest.h>

namespace heddle::solver {
namespace {

/// Rows of the authors' profile (profile_result_3090.pt, Apache-2.0).
const char *const oasesRows = R"({"rows": [
{"hidden": 4096, "tensor_parallel": 4, "batch": 4, "attn_forward_ms": 8.1216, "attn_backward_ms": 13.9737, "mlp_forward_ms": 8.6146, "mlp_backward_ms": 16.4165, "all_reduce_ms": 17.9482, "runtime_memory_mib": 304.05},
{"hidden": 4096, "tensor_parallel": 8, "batch": 8, "attn_forward_ms": 9.0349, "attn_backward_ms": 14.9447, "mlp_forward_ms": 9.4711, "mlp_backward_ms": 17.442, "all_reduce_ms": 39.4888, "runtime_memory_mib": 256.0},
{"hidden": 4096, "tensor_parallel": 16, "batch": 16, "attn_forward_ms": 10.8685, "attn_backward_ms": 16.896, "mlp_forward_ms": 11.1705, "mlp_backward_ms": 19.3054, "all_reduce_ms": 84.0702, "runtime_memory_mib": 512.0},
{"hidden": 4096, "tensor_parallel": 16, "batch": 8, "attn_forward_ms": 5.5199, "attn_backward_ms": 8.6255, "mlp_forward_ms": 5.7478, "mlp_backward_ms": 10.3768, "all_reduce_ms": 39.3325, "runtime_memory_mib": 256.0}]})";

OasesOptions options(int64_t layers) {
  OasesOptions o;
  o.hidden = 4096;
  o.layers = layers;
  o.globalBatch = 64; // 2 * 4 * 32 / 4
  return o;
}

OasesProblem problem(const OasesOptions &o) {
  auto rows = parseOasesProfile(oasesRows);
  EXPECT_TRUE(bool(rows)) << llvm::toString(rows.takeError());
  auto p = oasesProblem(*rows, o);
  EXPECT_TRUE(bool(p)) << llvm::toString(p.takeError());
  return *p;
}

TEST(Oases, CostsFollowTheReleasedFormula) {
  OasesProblem p = problem(options(2));
  EXPECT_EQ(p.degrees, (std::vector<int64_t>{4, 8, 16}));
  const Problem &i = p.instance;
  ASSERT_EQ(i.nodes.size(), 4u);
  ASSERT_EQ(i.edges.size(), 3u);
  auto ms = [](double t) { return static_cast<Cost>(t * 1e6 + 0.5); };
  // Milliseconds at degree 4, forward/backward: attention 8.1216/13.9737, MLP
  // 8.6146/16.4165, collective 17.9482.
  EXPECT_EQ(i.nodes[0].costs[0], ms(8.1216 + 13.9737));
  EXPECT_EQ(i.nodes[1].costs[0],
            ms(17.9482 + 17.9482 + (8.6146 + 16.4165) + (8.1216 + 13.9737)));
  EXPECT_EQ(i.nodes[2].costs[0],
            ms(17.9482 + 17.9482 + (8.1216 + 13.9737) + (8.6146 + 16.4165)));
  EXPECT_EQ(i.nodes[3].costs[0],
            ms(17.9482 + (8.6146 + 16.4165) + 2 * 17.9482));
  // Costs from node 0 (attention) to node 1 (MLP): equal degrees, degrees 4 to
  // 8, degrees 8 to 4.
  EXPECT_EQ(i.edges[0].costs[0], 0);
  EXPECT_EQ(i.edges[0].costs[1], ms(2 * 17.9482 + 9.4711));
  EXPECT_EQ(i.edges[0].costs[3], ms(2 * 17.9482 + 16.4165));
  // Node 3 also needs the memory that the layer uses while it runs (304.05
  // MiB).
  double h = 4096, activations = 12 * 8.0 * 1024 * h;
  EXPECT_EQ(i.nodes[2].usages[0],
            Usage(activations + 5 * 4 * (4 * h * h / 4 + 6 * h)));
  EXPECT_NEAR(
      double(i.nodes[3].usages[0]),
      activations + 5 * 4 * (8 * h * h / 4 + 7 * h) + 304.05 * 1024 * 1024, 1);
}

TEST(Oases, OptimumIsNoWorseThanAnyUniformOrCollapsedPlan) {
  for (double gibibytes : {2.5, 4.0, 8.0, 24.0}) {
    OasesOptions o = options(16);
    o.deviceMebibytes = gibibytes * 1024;
    OasesProblem p = problem(o);
    auto s = solve(p.instance, {});
    ASSERT_TRUE(bool(s));
    ASSERT_TRUE(s->why == StopReason::Optimal ||
                s->why == StopReason::Infeasible)
        << gibibytes;
    for (int32_t d = 0; d < 3; ++d) {
      Assignment uniform(p.instance.nodes.size(), d);
      auto value = evaluate(p.instance, uniform);
      if (value->isFeasible())
        EXPECT_LE(s->total, value->total) << gibibytes;
    }
    if (!s->best)
      continue;
    auto value = evaluate(p.instance, collapseOasesPlan(p, *s->best));
    if (value->isFeasible())
      EXPECT_LE(s->total, value->total) << gibibytes;
  }
}

TEST(Oases, CollapseKeepsTheTwoCommonestDegrees) {
  OasesProblem p = problem(options(4));
  EXPECT_EQ(collapseOasesPlan(p, {0, 2, 2, 2, 1, 0, 2, 2}),
            (Assignment{0, 0, 2, 2, 2, 2, 2, 2}));
  EXPECT_EQ(collapseOasesPlan(p, {1, 1, 1, 1, 1, 1, 1, 1}), (Assignment(8, 1)));
}

TEST(Oases, RefusesWhatTheProfileDoesNotCover) {
  auto rows = parseOasesProfile(oasesRows);
  OasesOptions o = options(4);
  o.globalBatch = 48;
  EXPECT_EQ(
      llvm::toString(oasesProblem(*rows, o).takeError()),
      "global batch: expected one of which the profile has half of "
      "each replica's rows, for hidden 4096 on 32 devices (32, 64), got 48");
  o.layers = 0;
  EXPECT_EQ(llvm::toString(oasesProblem(*rows, o).takeError()),
            "layers: expected at least 1, got 0");
}

} // namespace
} // namespace heddle::solver
