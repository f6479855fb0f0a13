//===- OasesTest.cpp - Oases' planner as an instance ----------------------===//

#include "heddle/Solver/Oases.h"

#include <gtest/gtest.h>

namespace heddle::solver {
namespace {

/// From the authors' profile (profile_result_3090.pt, Apache-2.0).
const char *const Profile = R"({"rows": [
{"hidden": 4096, "tensor_parallel": 4, "batch": 4, "attn_forward_ms": 8.1216, "attn_backward_ms": 13.9737, "mlp_forward_ms": 8.6146, "mlp_backward_ms": 16.4165, "all_reduce_ms": 17.9482, "runtime_memory_mib": 304.05},
{"hidden": 4096, "tensor_parallel": 8, "batch": 8, "attn_forward_ms": 9.0349, "attn_backward_ms": 14.9447, "mlp_forward_ms": 9.4711, "mlp_backward_ms": 17.442, "all_reduce_ms": 39.4888, "runtime_memory_mib": 256.0},
{"hidden": 4096, "tensor_parallel": 16, "batch": 16, "attn_forward_ms": 10.8685, "attn_backward_ms": 16.896, "mlp_forward_ms": 11.1705, "mlp_backward_ms": 19.3054, "all_reduce_ms": 84.0702, "runtime_memory_mib": 512.0},
{"hidden": 4096, "tensor_parallel": 16, "batch": 8, "attn_forward_ms": 5.5199, "attn_backward_ms": 8.6255, "mlp_forward_ms": 5.7478, "mlp_backward_ms": 10.3768, "all_reduce_ms": 39.3325, "runtime_memory_mib": 256.0}]})";

OasesOptions options(int64_t Layers) {
  OasesOptions O;
  O.Hidden = 4096;
  O.Layers = Layers;
  O.GlobalBatch = 64; // 2 * 4 * 32 / 4
  return O;
}

OasesProblem problem(const OasesOptions &O) {
  auto Rows = parseOasesProfile(Profile);
  EXPECT_TRUE(bool(Rows)) << Rows.error().Message;
  auto P = oasesProblem(*Rows, O);
  EXPECT_TRUE(bool(P)) << P.error().Message;
  return *P;
}

TEST(Oases, CostsFollowTheReleasedFormula) {
  OasesProblem P = problem(options(2));
  EXPECT_EQ(P.Degrees, (std::vector<int64_t>{4, 8, 16}));
  const Problem &I = P.Instance;
  ASSERT_EQ(I.Nodes.size(), 4u);
  ASSERT_EQ(I.Edges.size(), 3u);
  auto Ms = [](double T) { return static_cast<Cost>(T * 1e6 + 0.5); };
  // Degree 4: attention 8.1216/13.9737, MLP 8.6146/16.4165, collective 17.9482.
  EXPECT_EQ(I.Nodes[0].Costs[0], Ms(8.1216 + 13.9737));
  EXPECT_EQ(I.Nodes[1].Costs[0],
            Ms(17.9482 + 17.9482 + (8.6146 + 16.4165) + (8.1216 + 13.9737)));
  EXPECT_EQ(I.Nodes[2].Costs[0],
            Ms(17.9482 + 17.9482 + (8.1216 + 13.9737) + (8.6146 + 16.4165)));
  EXPECT_EQ(I.Nodes[3].Costs[0],
            Ms(17.9482 + (8.6146 + 16.4165) + 2 * 17.9482));
  // From node 0 (attention) to node 1 (MLP): same, 4 to 8, 8 to 4.
  EXPECT_EQ(I.Edges[0].Costs[0], 0);
  EXPECT_EQ(I.Edges[0].Costs[1], Ms(2 * 17.9482 + 9.4711));
  EXPECT_EQ(I.Edges[0].Costs[3], Ms(2 * 17.9482 + 16.4165));
  // Node 3 also holds what the layer needs while it runs.
  double H = 4096, Activations = 12 * 8.0 * 1024 * H;
  EXPECT_EQ(I.Nodes[2].Usages[0],
            Usage(Activations + 5 * 4 * (4 * H * H / 4 + 6 * H)));
  EXPECT_NEAR(
      double(I.Nodes[3].Usages[0]),
      Activations + 5 * 4 * (8 * H * H / 4 + 7 * H) + 304.05 * 1024 * 1024, 1);
}

TEST(Oases, OptimumIsNoWorseThanAnyUniformOrCollapsedPlan) {
  for (double Gibibytes : {2.5, 4.0, 8.0, 24.0}) {
    OasesOptions O = options(16);
    O.DeviceMebibytes = Gibibytes * 1024;
    OasesProblem P = problem(O);
    auto S = solve(P.Instance, {});
    ASSERT_TRUE(bool(S));
    ASSERT_TRUE(S->Why == StopReason::Optimal ||
                S->Why == StopReason::Infeasible)
        << Gibibytes;
    for (int32_t D = 0; D < 3; ++D) {
      Assignment Uniform(P.Instance.Nodes.size(), D);
      auto Value = evaluate(P.Instance, Uniform);
      if (Value->feasible())
        EXPECT_LE(S->Total, Value->Total) << Gibibytes;
    }
    if (!S->Best)
      continue;
    auto Value = evaluate(P.Instance, collapseOasesPlan(P, *S->Best));
    if (Value->feasible())
      EXPECT_LE(S->Total, Value->Total) << Gibibytes;
  }
}

TEST(Oases, CollapseKeepsTheTwoCommonestDegrees) {
  OasesProblem P = problem(options(4));
  EXPECT_EQ(collapseOasesPlan(P, {0, 2, 2, 2, 1, 0, 2, 2}),
            (Assignment{0, 0, 2, 2, 2, 2, 2, 2}));
  EXPECT_EQ(collapseOasesPlan(P, {1, 1, 1, 1, 1, 1, 1, 1}), (Assignment(8, 1)));
}

TEST(Oases, RefusesWhatTheProfileDoesNotCover) {
  auto Rows = parseOasesProfile(Profile);
  OasesOptions O = options(4);
  O.GlobalBatch = 48;
  EXPECT_EQ(oasesProblem(*Rows, O).error().Message,
            "global batch: expected one of which half a replica's share is "
            "measured for hidden 4096 on 32 devices (32, 64), got 48");
  O.Layers = 0;
  EXPECT_EQ(oasesProblem(*Rows, O).error().Message,
            "layers: expected at least 1, got 0");
}

} // namespace
} // namespace heddle::solver
