//===- SplitAxesForHeads.cpp - Mesh axes for groups of heads --------------===//

#include "SplitAxesForHeads.h"
#include <map>
#include <numeric>
#include <set>

using namespace mlir;
using namespace heddle;

namespace {
/// Groups that are split over an axis whose size does not divide them.
struct UnevenGroups {
  unsigned factor;
  StringAttr axis;
  int64_t size;
};
} // namespace

static std::optional<UnevenGroups> findUnevenGroups(const PlannedOp &planned,
                                                    MeshAttr mesh) {
  std::optional<unsigned> groups = planned.rule.getFactor(FactorRole::Groups);
  if (!groups || planned.axes[*groups].size() != 1)
    return std::nullopt;
  StringAttr axis = planned.axes[*groups].front();
  int64_t size = planned.rule.factors[*groups].size;
  if (size % mesh.getAxisSize(axis) == 0)
    return std::nullopt;
  return UnevenGroups{*groups, axis, size};
}

/// Returns the factor of the groups' members, if the plan assigns it no axes.
static std::optional<unsigned> findFreeMembers(const PlannedOp &planned) {
  std::optional<unsigned> members =
      planned.rule.getFactor(FactorRole::GroupMembers);
  return members && !planned.pinned[*members] ? members : std::nullopt;
}

void heddle::splitAxesForHeads(MLIRContext *context, MeshAttr &mesh,
                               MutableArrayRef<PlannedOp> ops,
                               MutableArrayRef<DimensionAxes> storage) {
  // parts[{axis, groups}]: the size of the part of the axis that splits that
  // number of groups. The parts of one axis are prefixes of the same sub-axes,
  // so each must divide the next larger one.
  using Key = std::pair<StringRef, int64_t>;
  std::map<Key, int64_t> parts;
  std::map<StringRef, std::set<int64_t>> cuts;
  for (const PlannedOp &planned : ops) {
    std::optional<UnevenGroups> groups = findUnevenGroups(planned, mesh);
    std::optional<unsigned> members = findFreeMembers(planned);
    if (!groups || !members ||
        planned.rule.factors[*members].kind == FactorKind::Replicate)
      continue;
    int64_t size = mesh.getAxisSize(groups->axis);
    int64_t part = std::gcd(groups->size, size);
    if (planned.rule.factors[*members].size % (size / part) != 0)
      continue;
    std::set<int64_t> &chain = cuts[groups->axis];
    if (!llvm::all_of(chain, [&](int64_t other) {
          return other % part == 0 || part % other == 0;
        }))
      continue;
    chain.insert(part);
    parts[{groups->axis.getValue(), groups->size}] = part;
  }
  if (parts.empty())
    return;

  // `axes`: the refined mesh. `refined`: the sub-axes of each original axis.
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
    if (sizes.size() < 2) { // the axis is not refined
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
    std::optional<UnevenGroups> groups = findUnevenGroups(planned, mesh);
    auto known = groups ? parts.find({groups->axis.getValue(), groups->size})
                        : parts.end();
    for (Axes &list : planned.axes)
      replace(list);
    if (known == parts.end())
      continue;
    Axes first, rest;
    int64_t taken = 1;
    for (auto [part, size] : refined[groups->axis.getValue()]) {
      (taken < known->second ? first : rest).push_back(part);
      taken *= size;
    }
    planned.axes[groups->factor] = first;
    if (std::optional<unsigned> members = findFreeMembers(planned)) {
      planned.axes[*members] = rest;
      planned.pinned[*members] = true;
    }
  }
  for (DimensionAxes &dims : storage)
    for (Axes &list : dims)
      replace(list);
  mesh = MeshAttr::get(context, axes);
}
