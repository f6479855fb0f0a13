//===- ParetoList.cpp - What a part can cost and use ----------------------===//

#include "Exact/ParetoList.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace heddle::solver {

void ParetoList::add(const ParetoEntry &E, const Usage *Amounts) {
  Entries.push_back(E);
  Used.insert(Used.end(), Amounts, Amounts + Dimensions);
}

void ParetoList::append(const ParetoList &Other) {
  Entries.insert(Entries.end(), Other.Entries.begin(), Other.Entries.end());
  Used.insert(Used.end(), Other.Used.begin(), Other.Used.end());
}

void ParetoList::project(const std::vector<int32_t> &Kept) {
  std::vector<Usage> Left;
  Left.reserve(size() * Kept.size());
  for (size_t I = 0; I < size(); ++I)
    for (int32_t D : Kept)
      Left.push_back(usage(I)[D]);
  Used = std::move(Left);
  Dimensions = Kept.size();
}

void ParetoList::reorder(const std::vector<uint32_t> &Kept) {
  std::vector<ParetoEntry> NewEntries;
  std::vector<Usage> NewUsed;
  NewEntries.reserve(Kept.size());
  NewUsed.reserve(Kept.size() * Dimensions);
  for (uint32_t I : Kept) {
    NewEntries.push_back(Entries[I]);
    NewUsed.insert(NewUsed.end(), usage(I), usage(I) + Dimensions);
  }
  Entries = std::move(NewEntries);
  Used = std::move(NewUsed);
}

double ParetoList::removeDominated(double MaxComparisons) {
  std::vector<uint32_t> Order(size()), Kept;
  std::iota(Order.begin(), Order.end(), 0u);
  std::ranges::sort(Order, [&](uint32_t A, uint32_t B) {
    if (Entries[A].Total != Entries[B].Total)
      return Entries[A].Total < Entries[B].Total;
    for (size_t D = 0; D < Dimensions; ++D)
      if (usage(A)[D] != usage(B)[D])
        return usage(A)[D] < usage(B)[D];
    return A < B;
  });
  double Comparisons = static_cast<double>(size());
  Usage Least = std::numeric_limits<Usage>::max();
  for (uint32_t I : Order) {
    bool Dominated;
    if (Dimensions == 0) {
      Dominated = !Kept.empty();
    } else if (Dimensions == 1) {
      // Nothing cheaper uses less than `Least`.
      Dominated = Least <= *usage(I);
      Least = std::min(Least, *usage(I));
    } else {
      Dominated = std::ranges::any_of(Kept, [&](uint32_t K) {
        ++Comparisons;
        const Usage *Have = usage(K), *New = usage(I);
        for (size_t D = 0; D < Dimensions; ++D)
          if (Have[D] > New[D])
            return false;
        return true;
      });
    }
    if (!Dominated)
      Kept.push_back(I);
    if (Comparisons > MaxComparisons)
      return Comparisons;
  }
  std::ranges::sort(Kept, [&](uint32_t A, uint32_t B) {
    return Entries[A].Reduced != Entries[B].Reduced
               ? Entries[A].Reduced < Entries[B].Reduced
               : A < B;
  });
  reorder(Kept);
  return Comparisons;
}

} // namespace heddle::solver
