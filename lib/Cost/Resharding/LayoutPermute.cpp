//===- LayoutPermute.cpp - A permute between two layouts ------------------===//

#include "LayoutPermute.h"
#include "llvm/ADT/STLExtras.h"

using namespace heddle;
using llvm::ArrayRef;

namespace {

/// A number that is made up of a device's coordinates along some axes: its
/// place in a group, or the part of a dimension that it holds.
class CoordinateIndex {
public:
  /// `axes`: major to minor.
  CoordinateIndex(const MeshTopology &topology, ArrayRef<unsigned> axes) {
    for (unsigned axis : llvm::reverse(axes)) {
      digits.push_back({axis, count, topology.getAxisSizes()[axis]});
      count *= topology.getAxisSizes()[axis];
    }
  }
  CoordinateIndex(const MeshTopology &topology, AxisMask axes)
      : CoordinateIndex(topology, topology.listAxes(axes)) {}

  /// The number of different indices.
  int64_t getCount() const { return count; }
  int64_t read(ArrayRef<int64_t> coordinates) const {
    int64_t index = 0;
    for (const Digit &digit : digits)
      index += coordinates[digit.axis] * digit.weight;
    return index;
  }
  void write(int64_t index, std::vector<int64_t> &coordinates) const {
    for (const Digit &digit : digits)
      coordinates[digit.axis] = index / digit.weight % digit.size;
  }

private:
  struct Digit {
    unsigned axis;
    int64_t weight, size;
  };
  std::vector<Digit> digits;
  int64_t count = 1;
};

/// Finds the source of each device.
class PermuteFinder {
public:
  PermuteFinder(const MeshTopology &topology, const LayoutGeometry &geometry,
                const TensorLayout &from, const TensorLayout &to);

  /// Whether every summand of `from` has a place in `to`.
  bool isPossible() const {
    return summandsFrom.getCount() <= summandsTo.getCount();
  }
  /// Whether several devices may give what one device receives, and several
  /// receive what one gives.
  bool hasChoice() const {
    return givers.getCount() > 1 && receivers.getCount() > 1;
  }
  /// `spread`: of the devices that hold a part, each gives it to equally many.
  std::vector<int64_t> find(bool spread) const;

private:
  /// Writes the source of a receiver, or returns false: it receives zeros.
  bool findSource(ArrayRef<int64_t> receiver, bool spread,
                  std::vector<int64_t> &source) const;

  /// The part of a dimension that a device holds before and after the permute.
  struct Part {
    CoordinateIndex from, to;
    /// How many parts have rows; later ones are padding only.
    int64_t filled;
  };

  const MeshTopology &topology;
  bool isMax;
  std::vector<Part> parts;
  /// The summand of a partial sum that a device holds, along the axes over
  /// which only one of the layouts is partial.
  CoordinateIndex summandsFrom, summandsTo;
  /// The axes along which a source has the receiver's coordinate.
  CoordinateIndex kept;
  /// The axes that only `to` uses, along which devices hold the same before,
  /// and those that only `from` uses, along which they hold the same after.
  CoordinateIndex givers, receivers;
};

} // namespace

PermuteFinder::PermuteFinder(const MeshTopology &topology,
                             const LayoutGeometry &geometry,
                             const TensorLayout &from, const TensorLayout &to)
    : topology(topology), isMax(from.isMax),
      summandsFrom(topology, from.partial & ~to.partial),
      summandsTo(topology, to.partial & ~from.partial),
      kept(topology, ~getUsedAxes(from) | (from.partial & to.partial)),
      givers(topology, getUsedAxes(to) & ~getUsedAxes(from)),
      receivers(topology, getUsedAxes(from) & ~getUsedAxes(to)) {
  for (size_t dim = 0; dim < geometry.getRank(); ++dim)
    parts.push_back({{topology, from.dims[dim]},
                     {topology, to.dims[dim]},
                     geometry.countFilledParts(dim, to.dims[dim])});
}

bool PermuteFinder::findSource(ArrayRef<int64_t> receiver, bool spread,
                               std::vector<int64_t> &source) const {
  std::fill(source.begin(), source.end(), 0);
  for (const Part &part : parts) {
    int64_t index = part.to.read(receiver);
    if (index >= part.filled)
      return false;
    part.from.write(index, source);
  }
  // Several devices receive summands of one part. The first is the one that may
  // hold one already: its coordinates are the source's.
  int64_t summand = summandsTo.read(receiver) - summandsTo.read(source);
  if (summand < 0)
    summand += summandsTo.getCount();
  // A maximum may have a part twice, a sum has zeros instead.
  if (!isMax && summand >= summandsFrom.getCount())
    return false;
  summand += summandsFrom.read(receiver);
  summandsFrom.write(summand % summandsFrom.getCount(), source);
  kept.write(kept.read(receiver), source);
  if (spread)
    givers.write(receivers.read(receiver), source);
  return true;
}

std::vector<int64_t> PermuteFinder::find(bool spread) const {
  CoordinateIndex device(topology, ~AxisMask(0));
  std::vector<int64_t> sources(topology.getNumDevices(), -1);
  std::vector<int64_t> receiver(topology.getAxisSizes().size());
  std::vector<int64_t> source = receiver;
  for (int64_t number = 0; number < topology.getNumDevices(); ++number) {
    device.write(number, receiver);
    if (findSource(receiver, spread, source))
      sources[number] = device.read(source);
  }
  return sources;
}

std::optional<LayoutPermute> heddle::findPermute(const MeshTopology &topology,
                                                 const LayoutGeometry &geometry,
                                                 const TensorLayout &from,
                                                 const TensorLayout &to) {
  PermuteFinder finder(topology, geometry, from, to);
  if (!finder.isPossible())
    return std::nullopt;
  int64_t bytes = geometry.getLocalBytes(from);
  LayoutPermute best;
  best.sources = finder.find(/*spread=*/false);
  best.cost = topology.permute(best.sources, bytes);
  if (!finder.hasChoice())
    return best;
  LayoutPermute other;
  other.sources = finder.find(/*spread=*/true);
  other.cost = topology.permute(other.sources, bytes);
  return other.cost.seconds < best.cost.seconds ? other : best;
}

GroupPermute heddle::getGroupPermute(const MeshTopology &topology,
                                     ArrayRef<int64_t> sources) {
  AxisMask all = 0, crossed = 0;
  for (unsigned axis = 0; axis < topology.getAxisSizes().size(); ++axis) {
    if (topology.getAxisSizes()[axis] == 1)
      continue;
    AxisMask bit = AxisMask(1) << axis;
    all |= bit;
    for (auto [device, source] : llvm::enumerate(sources))
      if (source >= 0 && topology.getCoordinate(int64_t(device), axis) !=
                             topology.getCoordinate(source, axis)) {
        crossed |= bit;
        break;
      }
  }
  GroupPermute whole{topology.listAxes(all), sources.vec()};
  if (!crossed || crossed == all)
    return whole;
  constexpr int64_t unknown = -2;
  GroupPermute group{topology.listAxes(crossed), {}};
  CoordinateIndex member(topology, group.axes);
  group.sources.assign(member.getCount(), unknown);
  std::vector<int64_t> coordinates(topology.getAxisSizes().size());
  auto getMember = [&](int64_t device) {
    for (unsigned axis : group.axes)
      coordinates[axis] = topology.getCoordinate(device, axis);
    return member.read(coordinates);
  };
  for (auto [device, source] : llvm::enumerate(sources)) {
    int64_t &known = group.sources[getMember(int64_t(device))];
    int64_t mine = source < 0 ? -1 : getMember(source);
    if (known != unknown && known != mine)
      return whole;
    known = mine;
  }
  return group;
}
