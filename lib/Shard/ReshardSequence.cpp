//===- ReshardSequence.cpp - Collectives between two shardings ------------===//

#include "ReshardSequence.h"

using namespace mlir;
using namespace heddle;

namespace {

class Planner {
public:
  Planner(RankedTensorType type, ShardingAttr from, ShardingAttr to,
          MeshRef mesh)
      : type(type), mesh(mesh), dims(getDimensions(from)),
        wanted(getDimensions(to)), partial(from.getPartialAxes()),
        wantedPartial(to.getPartialAxes()), kind(from.getPartialKind()) {}

  FailureOr<SmallVector<ReshardStep>> run(ShardingAttr to);

private:
  bool slice();
  bool reduceScatter();
  bool allReduce(bool force);
  bool allToAll();
  bool allGather();
  bool keepFirst();

  int64_t localSize(int64_t dim, ArrayRef<StringAttr> axes) const {
    return llvm::divideCeil(type.getDimSize(dim), mesh.getSize(axes));
  }
  /// Every prefix of the list splits the dimension into parts that the rest of
  /// the list splits evenly, apart from the first cut.
  bool nests(int64_t dim, ArrayRef<StringAttr> axes) const {
    for (size_t cut = 1; cut < axes.size(); ++cut)
      if (localSize(dim, axes.take_front(cut)) !=
          mesh.getSize(axes.drop_front(cut)) * localSize(dim, axes))
        return false;
    return true;
  }
  /// What the dimension lacks, if it has a prefix of what is wanted.
  ArrayRef<StringAttr> missing(int64_t dim) const {
    ArrayRef<StringAttr> have = dims[dim], want = wanted[dim];
    if (have.size() >= want.size() || want.take_front(have.size()) != have)
      return {};
    return want.drop_front(have.size());
  }
  /// The leading axes of `list` that fulfil the condition; all or none where
  /// parts do not nest.
  Axes leading(int64_t dim, ArrayRef<StringAttr> list,
               function_ref<bool(StringAttr)> condition) const {
    Axes axes;
    for (StringAttr axis : list) {
      if (!condition(axis))
        break;
      axes.push_back(axis);
    }
    if (!nests(dim, wanted[dim]) &&
        (axes.size() < list.size() || !dims[dim].empty()))
      axes.clear();
    return axes;
  }
  bool isFree(StringAttr axis) const {
    return !llvm::is_contained(partial, axis) &&
           llvm::none_of(dims, [&](const Axes &list) {
             return llvm::is_contained(list, axis);
           });
  }
  void note(ReshardStep::Kind step, ArrayRef<StringAttr> axes, int64_t dim = 0,
            int64_t concatDim = 0) {
    steps.push_back({step, Axes(axes), dim, concatDim,
                     makeSharding(mesh, dims, partial, kind)});
  }
  void dropPartial(ArrayRef<StringAttr> axes) {
    llvm::erase_if(partial, [&](StringAttr axis) {
      return llvm::is_contained(axes, axis);
    });
  }

  RankedTensorType type;
  MeshRef mesh;
  DimensionAxes dims, wanted;
  Axes partial, wantedPartial;
  ReductionKind kind;
  SmallVector<ReshardStep> steps;
};

} // namespace

bool Planner::slice() {
  for (int64_t dim = 0; dim < (int64_t)dims.size(); ++dim) {
    Axes axes = leading(dim, missing(dim),
                        [&](StringAttr axis) { return isFree(axis); });
    if (axes.empty())
      continue;
    dims[dim].append(axes);
    note(ReshardStep::Slice, axes, dim);
    return true;
  }
  return false;
}

bool Planner::reduceScatter() {
  for (int64_t dim = 0; dim < (int64_t)dims.size(); ++dim) {
    Axes axes = leading(dim, missing(dim), [&](StringAttr axis) {
      return llvm::is_contained(partial, axis);
    });
    if (axes.empty())
      continue;
    dropPartial(axes);
    dims[dim].append(axes);
    note(ReshardStep::ReduceScatter, axes, dim);
    return true;
  }
  return false;
}

/// Reduces what no dimension waits for, or, if nothing else helps, all.
bool Planner::allReduce(bool force) {
  Axes axes;
  for (StringAttr axis : partial) {
    bool awaited = llvm::any_of(wanted, [&](const Axes &list) {
      return llvm::is_contained(list, axis);
    });
    if (!llvm::is_contained(wantedPartial, axis) && (force || !awaited))
      axes.push_back(axis);
  }
  if (axes.empty())
    return false;
  dropPartial(axes);
  note(ReshardStep::AllReduce, axes);
  return true;
}

bool Planner::allToAll() {
  for (int64_t to = 0; to < (int64_t)dims.size(); ++to) {
    ArrayRef<StringAttr> lacks = missing(to);
    if (lacks.empty() || !nests(to, wanted[to]))
      continue;
    for (int64_t from = 0; from < (int64_t)dims.size(); ++from) {
      Axes &list = dims[from];
      if (from == to || !nests(from, list))
        continue;
      // The longest end of one list that is the beginning of the other.
      for (size_t length = std::min(list.size(), lacks.size()); length > 0;
           --length) {
        Axes axes(ArrayRef<StringAttr>(list).take_back(length));
        size_t rest = list.size() - length;
        bool isWanted = rest < wanted[from].size() &&
                        wanted[from][rest] == axes.front() &&
                        ArrayRef<StringAttr>(list).take_front(rest) ==
                            ArrayRef<StringAttr>(wanted[from]).take_front(rest);
        if (lacks.take_front(length) != ArrayRef<StringAttr>(axes) || isWanted)
          continue;
        list.truncate(rest);
        dims[to].append(axes);
        note(ReshardStep::AllToAll, axes, to, from);
        return true;
      }
    }
  }
  return false;
}

bool Planner::allGather() {
  for (int64_t dim = 0; dim < (int64_t)dims.size(); ++dim) {
    Axes &list = dims[dim];
    if (list == wanted[dim])
      continue;
    size_t common = 0;
    while (common < std::min(list.size(), wanted[dim].size()) &&
           list[common] == wanted[dim][common])
      ++common;
    // A prefix of what is wanted needs no gather, unless parts do not nest.
    if (!nests(dim, list) || !nests(dim, wanted[dim]))
      common = 0;
    if (common == list.size())
      continue;
    Axes axes(ArrayRef<StringAttr>(list).drop_front(common));
    list.truncate(common);
    note(ReshardStep::AllGather, axes, dim);
    return true;
  }
  return false;
}

bool Planner::keepFirst() {
  Axes axes;
  for (StringAttr axis : wantedPartial)
    if (isFree(axis))
      axes.push_back(axis);
  if (axes.empty())
    return false;
  partial.append(axes);
  kind = ReductionKind::Sum;
  note(ReshardStep::KeepFirst, axes);
  return true;
}

FailureOr<SmallVector<ReshardStep>> Planner::run(ShardingAttr to) {
  if (to.isPartial() && to.getPartialKind() != ReductionKind::Sum &&
      !llvm::equal(partial, wantedPartial))
    return failure();
  while (makeSharding(mesh, dims, partial, kind) != to)
    if (!slice() && !reduceScatter() && !allReduce(/*force=*/false) &&
        !allToAll() && !allGather() && !allReduce(/*force=*/true) &&
        !keepFirst())
      return failure();
  return std::move(steps);
}

FailureOr<SmallVector<ReshardStep>> heddle::planReshard(RankedTensorType type,
                                                        ShardingAttr from,
                                                        ShardingAttr to,
                                                        MeshRef mesh) {
  return Planner(type, from, to, mesh).run(to);
}
