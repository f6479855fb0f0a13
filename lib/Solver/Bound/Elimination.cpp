//===- Elimination.cpp - Exact optimum of a neighbourhood -----------------===//

#include "Bound/Elimination.h"
#include "Bound/EliminationOrder.h"
#include "Bound/MinPlus.h"

#include <algorithm>
#include <limits>

namespace heddle::solver {

CostTables::CostTables(const Model &M, const TablePool &Pool)
    : M(M), Adjacent(M.Vars.size()), Offsets{0} {
  for (const Variable &V : M.Vars) {
    auto &Row = Unary.emplace_back();
    for (Cost C : V.Unary)
      Row.push_back(Pool.convert(C));
    Offsets.push_back(Offsets.back() + V.Unary.size());
  }
  for (size_t Id = 0; Id < M.Pairs.size(); ++Id) {
    const Pair &P = M.Pairs[Id];
    Adjacent[P.A].push_back({P.B, Pool.transposed(Id)});
    Adjacent[P.B].push_back({P.A, Pool.table(Id)});
  }
}

Elimination::Elimination(const CostTables &Tables)
    : Tables(Tables), Position(Tables.model().Vars.size(), -1) {}

void Elimination::plan(const std::vector<int32_t> &Candidates, double MaxTable,
                       double MaxTotal, Random &R) {
  for (int32_t V : Order)
    Position[V] = -1;
  EliminationOrder Chosen =
      chooseOrder(Tables.model(), Candidates, MaxTable, MaxTotal, R);
  Order = std::move(Chosen.Vars);
  Total = Chosen.Total;
  layOut(Chosen.Separators);
}

void Elimination::layOut(const std::vector<std::vector<int32_t>> &Separators) {
  const Model &M = Tables.model();
  size_t Count = Order.size();
  for (size_t I = 0; I < Count; ++I)
    Position[Order[I]] = static_cast<int32_t>(I);
  Buckets.resize(Count);
  std::vector<std::vector<int32_t>> Children(Count);
  size_t Offset = 0;
  for (size_t I = 0; I < Count; ++I) {
    Bucket &B = Buckets[I];
    B.Var = Order[I];
    B.Separator.clear();
    B.Factors.clear();
    for (int32_t V : Separators[I])
      B.Separator.push_back(Position[V]);
    std::ranges::sort(B.Separator, std::greater<>());
    B.Offset = Offset;
    B.Size = 1;
    for (int32_t P : B.Separator)
      B.Size *= M.Vars[Order[P]].size();
    Offset += B.Size;
    if (!B.Separator.empty())
      Children[B.Separator.back()].push_back(static_cast<int32_t>(I));

    auto Dimension = [&](int32_t P) {
      return std::ranges::find(B.Separator, P) - B.Separator.begin();
    };
    for (const auto &N : Tables.neighbours(B.Var)) {
      int32_t P = Position[N.Var];
      if (P <= static_cast<int32_t>(I)) // fixed, or accounted for already
        continue;
      Factor F{N.Table, -1, std::vector<size_t>(B.Separator.size(), 0)};
      F.Strides[Dimension(P)] = M.Vars[B.Var].size();
      B.Factors.push_back(std::move(F));
    }
    for (int32_t Child : Children[I]) {
      Factor F{nullptr, Child, std::vector<size_t>(B.Separator.size(), 0)};
      // The child's last dimension is this bucket's variable.
      const auto &Dims = Buckets[Child].Separator;
      size_t Stride = 1;
      for (size_t D = Dims.size(); D-- > 0;) {
        if (Dims[D] != static_cast<int32_t>(I))
          F.Strides[Dimension(Dims[D])] = Stride;
        Stride *= M.Vars[Order[Dims[D]]].size();
      }
      B.Factors.push_back(std::move(F));
    }
  }
  Messages.resize(std::max(Messages.size(), Offset));
  Unaries.resize(std::max(Unaries.size(), Count));
}

const double *Elimination::dataOf(const Factor &F) const {
  return F.Data ? F.Data : Messages.data() + Buckets[F.Child].Offset;
}

void Elimination::conditionalUnary(const double *Extra, const Labels &X,
                                   const Bucket &B,
                                   std::vector<double> &Out) const {
  Out = Tables.unary(B.Var);
  for (size_t S = 0; S < Out.size(); ++S)
    Out[S] += Extra[S];
  for (const auto &N : Tables.neighbours(B.Var))
    if (Position[N.Var] < 0) {
      addTo(Out.data(), N.Table + static_cast<size_t>(X[N.Var]) * Out.size(),
            Out.size());
    }
}

template <typename Fn>
void Elimination::forEachEntry(const Bucket &B, const Fn &Visit) {
  const Model &M = Tables.model();
  size_t Dims = B.Separator.size(), Factors = B.Factors.size();
  std::vector<size_t> Sizes(Dims), Index(Dims, 0), At(Factors, 0);
  for (size_t D = 0; D < Dims; ++D)
    Sizes[D] = M.Vars[Order[B.Separator[D]]].size();
  for (size_t Entry = 0;; ++Entry) {
    Visit(Entry, At);
    size_t D = Dims;
    while (D > 0 && ++Index[D - 1] == Sizes[D - 1]) {
      --D;
      Index[D] = 0;
      for (size_t F = 0; F < Factors; ++F)
        At[F] -= B.Factors[F].Strides[D] * (Sizes[D] - 1);
    }
    if (D == 0)
      return;
    for (size_t F = 0; F < Factors; ++F)
      At[F] += B.Factors[F].Strides[D - 1];
  }
}

void Elimination::computeMessage(const Bucket &B,
                                 const std::vector<double> &Unary) {
  double *Out = Messages.data() + B.Offset;
  std::vector<double> Sum(Unary.size());
  std::vector<const double *> Data;
  Data.reserve(B.Factors.size());
  for (const Factor &F : B.Factors)
    Data.push_back(dataOf(F));
  forEachEntry(B, [&](size_t Entry, const std::vector<size_t> &At) {
    std::copy(Unary.begin(), Unary.end(), Sum.begin());
    for (size_t F = 0; F < At.size(); ++F)
      addTo(Sum.data(), Data[F] + At[F], Sum.size());
    Out[Entry] = least(Sum.data(), Sum.size());
  });
}

double Elimination::solve(const std::vector<double> &Extra, Labels &X) {
  double Value = 0;
  for (size_t I = 0; I < Order.size(); ++I) {
    const Bucket &B = Buckets[I];
    conditionalUnary(Extra.data() + Tables.offset(B.Var), X, B, Unaries[I]);
    computeMessage(B, Unaries[I]);
    if (B.Separator.empty())
      Value += Messages[B.Offset];
  }
  std::vector<double> Sum;
  for (size_t I = Order.size(); I-- > 0;) {
    const Bucket &B = Buckets[I];
    Sum = Unaries[I];
    for (const Factor &F : B.Factors) {
      const double *Row = dataOf(F);
      for (size_t D = 0; D < B.Separator.size(); ++D)
        Row += F.Strides[D] * X[Order[B.Separator[D]]];
      addTo(Sum.data(), Row, Sum.size());
    }
    X[B.Var] =
        static_cast<int32_t>(std::ranges::min_element(Sum) - Sum.begin());
  }
  return Value;
}

void Elimination::passBack() {
  Rests.assign(Messages.size(), std::numeric_limits<double>::infinity());
  double Roots = 0;
  for (const Bucket &B : Buckets)
    if (B.Separator.empty())
      Roots += Messages[B.Offset];
  std::vector<double> Sum;
  for (size_t I = Order.size(); I-- > 0;) {
    const Bucket &B = Buckets[I];
    const std::vector<double> &Own = Unaries[I];
    // The other components go on as they are.
    if (B.Separator.empty())
      Rests[B.Offset] = Roots - Messages[B.Offset];
    Sum.resize(Own.size());
    forEachEntry(B, [&](size_t Entry, const std::vector<size_t> &At) {
      double Rest = Rests[B.Offset + Entry];
      for (size_t S = 0; S < Own.size(); ++S)
        Sum[S] = Own[S] + Rest;
      for (size_t F = 0; F < At.size(); ++F)
        addTo(Sum.data(), dataOf(B.Factors[F]) + At[F], Sum.size());
      for (size_t F = 0; F < At.size(); ++F) {
        if (B.Factors[F].Data)
          continue;
        size_t First = Buckets[B.Factors[F].Child].Offset + At[F];
        for (size_t S = 0; S < Own.size(); ++S)
          Rests[First + S] =
              std::min(Rests[First + S], Sum[S] - Messages[First + S]);
      }
    });
  }
}

size_t Elimination::entryOf(size_t BucketIndex, const Labels &X) const {
  size_t Entry = 0;
  for (int32_t P : Buckets[BucketIndex].Separator)
    Entry = Entry * Tables.model().Vars[Order[P]].size() + X[Order[P]];
  return Entry;
}

void Elimination::setLabels(size_t BucketIndex, size_t Entry, Labels &X) const {
  const auto &Separator = Buckets[BucketIndex].Separator;
  for (size_t D = Separator.size(); D-- > 0;) {
    int32_t Var = Order[Separator[D]];
    auto Size = static_cast<size_t>(Tables.model().Vars[Var].size());
    X[Var] = static_cast<int32_t>(Entry % Size);
    Entry /= Size;
  }
}

} // namespace heddle::solver
