//===- tensors.h - Tensors, meshes and sets of ranks ------------*- C++ -*-===//
//
// The parts of a manifest that say what a tensor is and which ranks have it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_TENSORS_H
#define HEDDLE_RT_TENSORS_H

#include "heddle_rt/abi.h"
#include "heddle_rt/roles.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::runtime {

using DType = heddle_rt_dtype;

/// Returns the bytes of one element.
size_t byteSize(DType type);
/// Returns the manifest's spelling: "f32", "bf16", "f16", "f64", "i1", "i8",
/// "i32", "i64".
std::string_view name(DType type);
std::optional<DType> parseDType(std::string_view name);

struct MeshAxis {
  std::string name;
  int64_t size;
};

/// Some of the coordinates along one mesh axis, ascending.
struct AxisCoordinates {
  int32_t axis = 0;
  std::vector<int64_t> values;

  bool contains(int64_t coordinate) const;
  bool operator==(const AxisCoordinates &) const = default;
};

/// The ranks that have a listed coordinate along every axis in `where`. Without
/// conditions these are all ranks.
struct RankSet {
  std::vector<AxisCoordinates> where; ///< each axis once

  bool contains(std::span<const int64_t> coordinates) const;
  bool operator==(const RankSet &) const = default;
};

/// Groups of ranks for collectives: one group over `axes` for each coordinate
/// along the other axes. A rank that `among` leaves out is in no group.
struct GroupInfo {
  std::vector<int32_t> axes; ///< members are ordered by them, the first slowest
  std::vector<AxisCoordinates> among; ///< restricts some of `axes`

  bool operator==(const GroupInfo &) const = default;
};

/// Indices of the mesh axes that split each dimension, major to minor. A
/// dimension of size s over n devices is cut into parts of ceil(s / n);
/// elements beyond its end are padding.
using Sharding = std::vector<std::vector<int32_t>>;

/// A tensor of the whole program, its sharding, and the ranks that have it. An
/// axis that restricts the ranks does not split the tensor.
struct TensorInfo {
  std::string name;
  DType type;
  std::vector<int64_t> shape; ///< global
  Sharding sharding;          ///< one entry a dimension
  size_t ranks = 0;           ///< index of a rank set

  int64_t elements() const;
  size_t bytes() const { return size_t(elements()) * byteSize(type); }
};

/// Returns the bytes of one rank's part of a tensor.
int64_t localBytes(const TensorInfo &tensor, const std::vector<MeshAxis> &mesh);

/// An argument or result of a program.
struct PortInfo : TensorInfo {
  std::optional<PortRole> role;
  std::string parameter; ///< of a gradient: the whole tensor that it belongs to
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_TENSORS_H
