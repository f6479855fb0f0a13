//===- network.h - A cluster to emulate -------------------------*- C++ -*-===//
//
// The part of a cluster's file (docs/cluster.md) that says how fast its devices
// communicate and compute. A session with SessionOptions::network communicates
// no faster than this. If SessionOptions::emulateCompute is set too, the
// session sleeps instead of computing.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_NETWORK_H
#define HEDDLE_RT_NETWORK_H

#include "heddle_rt/status.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::runtime {

/// One level of the topology: joins `count` units of the level below (devices,
/// at the innermost).
struct NetworkLevel {
  std::string name;
  int64_t count;
  double latency;   ///< seconds from one unit to another
  double bandwidth; ///< bytes a second, of all links of a unit in one direction
};

/// The speed of one device.
struct DeviceSpeed {
  double launch = 0;          ///< seconds of a call that does nothing
  double memoryBandwidth = 0; ///< bytes a second
  /// Operations a second by element type ("f32", "bf16"). At least one.
  std::map<std::string, double, std::less<>> peak;

  /// Returns the peak of an element type. A type that is not listed has the
  /// peak of f32. If f32 is not listed either, returns the lowest peak.
  double peakOf(std::string_view type) const;
};

struct NetworkInfo {
  std::string name;
  std::vector<NetworkLevel> levels; ///< innermost first
  DeviceSpeed device = {};

  int64_t numDevices() const;
};

/// Reads a cluster's JSON. Refuses what `heddle compile --cluster` refuses, in
/// the same words. Errors name `source` and the place in it.
Expected<NetworkInfo> parseNetwork(std::string_view text,
                                   std::string_view source);
Expected<NetworkInfo> readNetwork(const std::filesystem::path &file);

} // namespace heddle::runtime

#endif // HEDDLE_RT_NETWORK_H
