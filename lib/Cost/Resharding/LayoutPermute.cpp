//===- LayoutPermute.cpp - A permute between two layouts ------------------===//

#include "LayoutPermute.h"
#include "llvm/ADT/STLExtras.h"

using namespace heddle;
using llvm::ArrayRef;

namespace {

/// A number composed of a device's coordinates along some axes, such as its
/// place in a group or the index of its part of a dimension.
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

  /// Returns the number of different indices.
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

/// Finds the device from which each device receives.
class PermuteFinder {
public:
  PermuteFinder(const MeshTopology &topology, const LayoutGeometry &geometry,
                const TensorLayout &from, const TensorLayout &to);

  /// Returns whether `to` has a place for every summand of `from`.
  bool isPossible() const {
    return summandsFrom.getCount() <= summandsTo.getCount();
  }
  /// Returns whether several devices hold the part that a device receives, and
  /// several devices receive the same part.
  bool hasChoice() const {
    return givers.getCount() > 1 && receivers.getCount() > 1;
  }
  /// Returns the source of each device. With `spread`, all devices that hold a
  /// part give it to equally many devices.
  std::vector<int64_t> find(bool spread) const;

private:
  /// Writes the coordinates of the receiver's source to `source`. Returns false
  /// if the device receives zeros.
  bool findSource(ArrayRef<int64_t> receiver, bool spread,
                  std::vector<int64_t> &source) const;

  /// The index of a device's part of a dimension before and after the permute.
  struct Part {
    CoordinateIndex from, to;
    /// The number of parts that have rows; later parts are padding only.
    int64_t filled;
  };

  const MeshTopology &topology;
  bool isMax;
  std::vector<Part> parts;
  /// The index of a device's summand of a partial sum, along the axes over
  /// which only `from` or only `to` is partial.
  CoordinateIndex summandsFrom, summandsTo;
  /// The axes along which a source has the receiver's coordinate.
  CoordinateIndex kept;
  /// `givers`: the axes that only `to` uses; devices along these hold copies
  /// before the permute. `receivers`: the axes that only `from` uses; devices
  /// along these hold copies after it.
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
  // Several devices receive summands of one part. These devices are numbered
  // from the one with the source's coordinates. So a device that already holds
  // a summand of the part keeps it.
  int64_t summand = summandsTo.read(receiver) - summandsTo.read(source);
  if (summand < 0)
    summand += summandsTo.getCount();
  // If there are more receivers than summands, a maximum repeats summands, and
  // a sum has zeros.
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

/// Returns the permute as one of groups over the axes; nothing if it differs
/// between groups.
static std::optional<GroupPermute> getEqualGroups(const MeshTopology &topology,
                                                  ArrayRef<int64_t> sources,
                                                  AxisMask axes) {
  constexpr int64_t unknown = -2;
  GroupPermute group{topology.listAxes(axes), {}};
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
      return std::nullopt;
    known = mine;
  }
  return group;
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
  GroupPermute best{topology.listAxes(all), sources.vec()};
  AxisMask axes = all;
  for (unsigned axis : topology.listAxes(all & ~crossed)) {
    AxisMask fewer = axes & ~(AxisMask(1) << axis);
    if (!fewer)
      break; // at least one axis
    if (std::optional<GroupPermute> group =
            getEqualGroups(topology, sources, fewer)) {
      axes = fewer;
      best = std::move(*group);
    }
  }
  return best;
}
