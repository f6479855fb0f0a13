//===- RefineAxes.cpp - Splits mesh axes for key/value heads --------------===//

#include "RefineAxes.h"
#include <map>
#include <numeric>
#include <set>

using namespace mlir;
using namespace heddle;

namespace {
/// The factor n of an op if it is over one axis that does not divide it.
struct Heads {
  StringAttr axis;
  int64_t size;
};
} // namespace

static std::optional<Heads> findUnevenHeads(const PlannedOp &planned,
                                            MeshAttr mesh) {
  std::optional<unsigned> n = planned.rule.getFactor("n");
  if (!n || planned.axes[*n].size() != 1)
    return std::nullopt;
  StringAttr axis = planned.axes[*n].front();
  int64_t size = planned.rule.factors[*n].size;
  if (size % mesh.getAxisSize(axis) == 0)
    return std::nullopt;
  return Heads{axis, size};
}

void heddle::refineAxes(MLIRContext *context, MeshAttr &mesh,
                        MutableArrayRef<PlannedOp> ops,
                        MutableArrayRef<DimensionAxes> storage) {
  // For each axis and size of n, the part that n takes. Parts of one axis must
  // divide each other in turn, or they are not parts of one refinement.
  using Key = std::pair<StringRef, int64_t>;
  std::map<Key, int64_t> parts;
  std::map<StringRef, std::set<int64_t>> cuts;
  for (const PlannedOp &planned : ops) {
    std::optional<Heads> heads = findUnevenHeads(planned, mesh);
    std::optional<unsigned> r = planned.rule.getFactor("r");
    if (!heads || !r || planned.pinned[*r] ||
        planned.rule.factors[*r].kind == FactorKind::Replicate)
      continue;
    int64_t size = mesh.getAxisSize(heads->axis);
    int64_t part = std::gcd(heads->size, size);
    if (planned.rule.factors[*r].size % (size / part) != 0)
      continue;
    std::set<int64_t> &chain = cuts[heads->axis];
    if (!llvm::all_of(chain, [&](int64_t other) {
          return other % part == 0 || part % other == 0;
        }))
      continue;
    chain.insert(part);
    parts[{heads->axis.getValue(), heads->size}] = part;
  }
  if (parts.empty())
    return;

  // The refined mesh, and the parts of each refined axis.
  llvm::StringMap<SmallVector<std::pair<StringAttr, int64_t>>> refined;
  SmallVector<MeshAxisAttr> axes;
  for (MeshAxisAttr axis : mesh.getAxes()) {
    StringRef name = axis.getName();
    auto known = cuts.find(name);
    SmallVector<int64_t> sizes;
    if (known != cuts.end()) {
      int64_t before = 1;
      for (int64_t cut : known->second)
        if (cut > before) {
          sizes.push_back(cut / before);
          before = cut;
        }
      if (before < axis.getSize())
        sizes.push_back(axis.getSize() / before);
    }
    if (sizes.size() < 2) { // nothing was cut
      axes.push_back(axis);
      refined[name] = {{axis.getName(), axis.getSize()}};
      continue;
    }
    for (auto [i, size] : llvm::enumerate(sizes)) {
      auto part = StringAttr::get(context, name + "." + Twine(i));
      axes.push_back(MeshAxisAttr::get(context, part, size));
      refined[name].push_back({part, size});
    }
  }

  auto replace = [&](Axes &list) {
    Axes result;
    for (StringAttr axis : list)
      for (auto [part, size] : refined[axis.getValue()])
        result.push_back(part);
    list = result;
  };
  for (PlannedOp &planned : ops) {
    std::optional<Heads> heads = findUnevenHeads(planned, mesh);
    std::map<Key, int64_t>::iterator known;
    bool isRefined =
        heads && (known = parts.find({heads->axis.getValue(), heads->size})) !=
                     parts.end();
    for (Axes &list : planned.axes)
      replace(list);
    if (!isRefined)
      continue;
    Axes first, rest;
    int64_t taken = 1;
    for (auto [part, size] : refined[heads->axis.getValue()]) {
      (taken < known->second ? first : rest).push_back(part);
      taken *= size;
    }
    planned.axes[*planned.rule.getFactor("n")] = first;
    if (std::optional<unsigned> r = planned.rule.getFactor("r"))
      if (!planned.pinned[*r]) {
        planned.axes[*r] = rest;
        planned.pinned[*r] = true;
      }
  }
  for (DimensionAxes &dims : storage)
    for (Axes &list : dims)
      replace(list);
  mesh = MeshAttr::get(context, axes);
}
