//===- Profile.h - Measured times of calls and collectives ------*- C++ -*-===//
//
// The database that `heddle profile` writes and extends. docs/profile.md
// documents its JSON form.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PROFILE_PROFILE_H
#define HEDDLE_PROFILE_PROFILE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace heddle {

/// The times of one computing call of a device, such as a product.
struct OperatorTime {
  std::string type; ///< element type whose peak rate limits the call
  int64_t flops = 0, bytes = 0;
  double seconds = 0; ///< while the device does nothing else
  /// While the device's communication takes as much of the machine as it can;
  /// 0 if that was not measured.
  double beside = 0;
  int64_t samples = 0;
};

/// A kind of collective over groups of a size.
struct CollectiveKey {
  std::string kind; ///< "all_reduce"
  int64_t members = 0;
  /// Latency and bandwidth of each level that the group crosses, innermost
  /// first. Empty if it was measured on no links but the machine's own memory.
  std::vector<std::pair<double, double>> links;

  bool operator<(const CollectiveKey &other) const {
    return std::tie(kind, members, links) <
           std::tie(other.kind, other.members, other.links);
  }
};

/// Seconds by bytes of the message (Communication::bytes). Between two sizes
/// the time is linear.
using MessageTimes = std::map<int64_t, double>;

/// Returns the time of a message: linear between the measured sizes and beyond
/// the largest one, constant below the smallest one.
double interpolate(const MessageTimes &times, int64_t bytes);

/// The measurements with one number of ranks on one kind of machine.
struct MachineProfile {
  std::string kind; ///< of processor
  int64_t cores = 1, ranks = 1;
  double gap = 0;   ///< between a call's end and the next one on its stream
  double wake = 0;  ///< the same, if another stream waits for the call
  double start = 0; ///< of a run, in which none of its calls runs
  std::map<std::string, OperatorTime> operators; ///< by key, see CallKey.h
  std::map<CollectiveKey, MessageTimes> collectives;

  bool isSameMachine(const MachineProfile &other) const {
    return kind == other.kind && cores == other.cores && ranks == other.ranks;
  }
};

struct Profile {
  std::vector<MachineProfile> machines;

  /// Adds measurements. They replace older ones of the same machine, number of
  /// ranks and call.
  void add(MachineProfile measured);
  /// Returns the machine with `ranks` ranks, or else the one with the most
  /// ranks below that, or else the one with the fewest. Null if the profile is
  /// empty.
  const MachineProfile *find(int64_t ranks) const;
};

/// Reads a profile. `source` names the text in errors.
llvm::Expected<Profile> parseProfile(llvm::StringRef text,
                                     llvm::StringRef source);
llvm::Expected<Profile> loadProfile(llvm::StringRef path);
/// Returns the canonical text: the same profile gives the same bytes.
std::string writeProfile(const Profile &profile);

} // namespace heddle

#endif // HEDDLE_PROFILE_PROFILE_H
