//===- RecombinationTest.cpp - The best mixture against all mixtures ------===//

#include "Recombination.h"
#include "Random.h"

#include <gtest/gtest.h>

using namespace heddle::solver;

namespace {

constexpr int VariableCount = 14;
constexpr int Times = 3;

/// A sparse model with loads; some entries of its tables are infinite.
Model randomModel(Random &R) {
  Model M;
  for (int V = 0; V < VariableCount; ++V) {
    Variable Var;
    Load Early{0, 2, {}}, Late{2, Times, {}};
    for (int S = 0; S < 3; ++S) {
      Var.Unary.push_back(static_cast<Cost>(R.below(50)));
      Early.Amount.push_back(static_cast<Usage>(R.below(10)));
      Late.Amount.push_back(static_cast<Usage>(R.below(10)));
    }
    if (R.below(4) > 0)
      Var.Loads.push_back(Early);
    if (R.below(4) > 0)
      Var.Loads.push_back(Late);
    M.Vars.push_back(Var);
  }
  for (int32_t A = 0; A < VariableCount; ++A)
    for (int32_t B = A + 1; B < VariableCount; ++B) {
      if (R.below(7) > 0)
        continue;
      Pair P{A, B, {}};
      for (int I = 0; I < 9; ++I)
        P.Table.push_back(R.below(12) ? static_cast<Cost>(R.below(50))
                                      : InfiniteCost);
      M.Vars[A].Pairs.push_back(static_cast<int32_t>(M.Pairs.size()));
      M.Vars[B].Pairs.push_back(static_cast<int32_t>(M.Pairs.size()));
      M.Pairs.push_back(P);
    }
  M.Capacity.assign(Times, 0);
  return M;
}

Labels randomLabels(Random &R) {
  Labels X(VariableCount);
  for (int32_t &S : X)
    S = static_cast<int32_t>(R.below(3));
  return X;
}

/// Of every variable, the first one of its component among those that differ;
/// -1 where none of the assignments does.
std::vector<int32_t> componentsOf(const Model &M, const Labels &X,
                                  const std::vector<Labels> &Others) {
  std::vector<int32_t> Root(VariableCount, -1);
  for (int32_t V = 0; V < VariableCount; ++V)
    for (const Labels &O : Others)
      if (O[V] != X[V])
        Root[V] = V;
  for (bool Changed = true; Changed;) {
    Changed = false;
    for (const Pair &P : M.Pairs) {
      int32_t &A = Root[P.A], &B = Root[P.B];
      if (A < 0 || B < 0 || A == B)
        continue;
      A = B = std::min(A, B);
      Changed = true;
    }
  }
  return Root;
}

/// The least cost of all feasible mixtures.
Cost leastOfMixtures(const Model &M, const Labels &X,
                     const std::vector<Labels> &Others) {
  std::vector<int32_t> Root = componentsOf(M, X, Others), Roots;
  for (int32_t V = 0; V < VariableCount; ++V)
    if (Root[V] == V)
      Roots.push_back(V);
  size_t Ways = Others.size() + 1, Count = 1;
  for (size_t I = 0; I < Roots.size(); ++I)
    Count *= Ways;
  Cost Least = InfiniteCost;
  for (size_t Number = 0; Number < Count; ++Number) {
    Candidate Mixed{X};
    size_t Rest = Number;
    for (int32_t Own : Roots) {
      size_t Way = Rest % Ways;
      Rest /= Ways;
      for (int32_t V = 0; V < VariableCount && Way > 0; ++V)
        if (Root[V] == Own)
          Mixed.X[V] = Others[Way - 1][V];
    }
    score(M, Mixed);
    if (Mixed.feasible())
      Least = std::min(Least, Mixed.Total);
  }
  return Least;
}

TEST(Recombination, FindsTheBestMixture) {
  Random R(1);
  int Improved = 0, Bound = 0;
  for (int Round = 0; Round < 300; ++Round) {
    Model M = randomModel(R);
    Candidate C{randomLabels(R)};
    // As tight as the first assignment, or a little looser.
    std::vector<Usage> Used = usageOf(M, C.X);
    for (int T = 0; T < Times; ++T)
      M.Capacity[T] = Used[T] + static_cast<Usage>(R.below(6));
    score(M, C);
    if (!C.feasible())
      continue;
    std::vector<Labels> Others(1 + R.below(3));
    std::vector<const Labels *> Pointers;
    for (Labels &X : Others) {
      // The same in most variables, so that there are components.
      X = C.X;
      Labels Fresh = randomLabels(R);
      for (int V = 0; V < VariableCount; ++V)
        if (R.below(2))
          X[V] = Fresh[V];
      Pointers.push_back(&X);
    }
    Cost Before = C.Total, Least = leastOfMixtures(M, C.X, Others);
    Model Free = M;
    std::fill(Free.Capacity.begin(), Free.Capacity.end(), Usage(1) << 40);
    Bound += leastOfMixtures(Free, C.X, Others) < Least;
    recombine(M, C, Pointers, std::vector<double>(Times, 1.0),
              [] { return false; });
    EXPECT_TRUE(C.feasible());
    EXPECT_EQ(C.Total, Least) << "round " << Round << ", before " << Before;
    Candidate Again{C.X};
    score(M, Again);
    EXPECT_EQ(Again.Total, C.Total);
    Improved += C.Total < Before;
  }
  // The test would say nothing if there were nothing to find, or no limit.
  EXPECT_GT(Improved, 50);
  EXPECT_GT(Bound, 30);
}

TEST(Recombination, LeavesInfeasibleAssignmentsAlone) {
  Random R(2);
  Model M = randomModel(R);
  M.Capacity.assign(Times, -1);
  Candidate C{randomLabels(R)};
  score(M, C);
  Labels Before = C.X;
  recombineAll(M, C, {randomLabels(R), randomLabels(R)},
               std::vector<double>(Times, 1.0), 1e9, R, [] { return false; });
  EXPECT_EQ(C.X, Before);
}

} // namespace
