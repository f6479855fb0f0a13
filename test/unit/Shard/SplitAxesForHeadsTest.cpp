//===- SplitAxesForHeadsTest.cpp - Axes larger than a number of groups ----===//

#include "lib/Shard/ApplyPlan/SplitAxesForHeads.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace heddle;

namespace {

class SplitAxesForHeadsTest : public testing::Test {
protected:
  SplitAxesForHeadsTest() {
    context.loadDialect<HeddleDialect>();
    mesh = MeshAttr::get(&context, {MeshAxisAttr::get(&context, axis("x"), 4)});
  }
  StringAttr axis(StringRef name) { return StringAttr::get(&context, name); }

  /// Returns an op with a factor `name` of size 2 over axis x and, if
  /// `hasMembers`, a factor "member" of size 6.
  PlannedOp plan(StringRef name, FactorRole role, bool hasMembers) {
    PlannedOp planned;
    planned.op = nullptr;
    unsigned group = planned.rule.addFactor(name, 2, FactorKind::Parallel);
    planned.rule.factors[group].role = role;
    if (hasMembers) {
      unsigned member =
          planned.rule.addFactor("member", 6, FactorKind::Parallel);
      planned.rule.factors[member].role = FactorRole::GroupMembers;
    }
    planned.axes.resize(planned.rule.factors.size());
    planned.axes[group] = {axis("x")};
    planned.pinned.assign(planned.axes.size(), false);
    planned.pinned[group] = true;
    return planned;
  }

  MLIRContext context;
  MeshAttr mesh;
};

// The factors' roles, not their names, say which factor takes which part of x.
TEST_F(SplitAxesForHeadsTest, FollowsRolesOfAnyOp) {
  PlannedOp ops[] = {plan("team", FactorRole::Groups, true),
                     plan("team", FactorRole::Groups, false),
                     plan("team", FactorRole::Batch, false)};
  DimensionAxes storage[] = {{{axis("x")}, {}}};
  splitAxesForHeads(&context, mesh, ops, storage);
  Axes first = {axis("x.0")}, rest = {axis("x.1")};
  Axes all = {axis("x.0"), axis("x.1")};
  ASSERT_EQ(mesh.getAxes().size(), 2u);
  EXPECT_EQ(mesh.getAxisSize("x.0"), 2);
  EXPECT_EQ(mesh.getAxisSize("x.1"), 2);
  EXPECT_EQ(ops[0].axes, (FactorAxes{first, rest}));
  EXPECT_EQ(ops[1].axes, FactorAxes{first});
  EXPECT_EQ(ops[2].axes, FactorAxes{all});
  EXPECT_EQ(storage[0], (DimensionAxes{all, {}}));
}

TEST_F(SplitAxesForHeadsTest, LeavesAxesWithoutMembersAlone) {
  PlannedOp ops[] = {plan("n", FactorRole::Groups, false)};
  splitAxesForHeads(&context, mesh, ops, {});
  EXPECT_EQ(mesh.getAxes().size(), 1u);
  EXPECT_EQ(ops[0].axes, FactorAxes{{axis("x")}});
}

TEST(FactorRoles, ComeFromConventionalNames) {
  ShardingRule rule;
  unsigned heads = rule.addFactor("n", 4, FactorKind::Parallel);
  unsigned other = rule.addFactor("k", 4, FactorKind::Sum);
  EXPECT_EQ(rule.factors[heads].role, FactorRole::Groups);
  EXPECT_EQ(rule.factors[other].role, FactorRole::None);
  EXPECT_EQ(rule.getFactor(FactorRole::Groups), heads);
  EXPECT_EQ(rule.getFactor(FactorRole::Vocabulary), std::nullopt);
}

} // namespace
