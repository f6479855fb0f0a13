//===- TablePool.cpp - Pair tables for fast loops -------------------------===//

#include "Bound/TablePool.h"

#include <algorithm>
#include <unordered_map>

namespace heddle::solver {

namespace {

double greatestFinite(const std::vector<Cost> &List) {
  Cost Result = 0;
  for (Cost C : List)
    if (C < InfiniteCost)
      Result = std::max(Result, C);
  return static_cast<double>(Result);
}

uint64_t hashOf(const Pair &P, int32_t Columns) {
  uint64_t Hash = static_cast<uint64_t>(Columns);
  for (Cost C : P.Table)
    Hash = (Hash ^ static_cast<uint64_t>(C)) * 0x9e3779b97f4a7c15 + 1;
  return Hash;
}

} // namespace

TablePool::TablePool(const Model &M)
    : Forbidden(1 + static_cast<double>(M.Constant)) {
  for (const Variable &V : M.Vars)
    Forbidden += greatestFinite(V.Unary);
  for (const Pair &P : M.Pairs)
    Forbidden += greatestFinite(P.Table);

  std::unordered_map<uint64_t, std::vector<size_t>> ByHash;
  for (size_t Id = 0; Id < M.Pairs.size(); ++Id) {
    const Pair &P = M.Pairs[Id];
    size_t Columns = M.Vars[P.B].size(), Rows = P.Table.size() / Columns;
    auto &Alike = ByHash[hashOf(P, M.Vars[P.B].size())];
    auto Equal = std::ranges::find_if(Alike, [&](size_t Other) {
      return M.Pairs[Other].Table == P.Table &&
             static_cast<size_t>(M.Vars[M.Pairs[Other].B].size()) == Columns;
    });
    if (Equal != Alike.end()) {
      Plain.push_back(Plain[*Equal]);
      Transposed.push_back(Transposed[*Equal]);
      continue;
    }
    Alike.push_back(Id);
    Plain.push_back(Data.size());
    for (Cost C : P.Table)
      Data.push_back(convert(C));
    Transposed.push_back(Data.size());
    for (size_t C = 0; C < Columns; ++C)
      for (size_t R = 0; R < Rows; ++R)
        Data.push_back(convert(P.Table[R * Columns + C]));
  }
}

} // namespace heddle::solver
