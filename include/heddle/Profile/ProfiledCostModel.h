//===- ProfiledCostModel.h - Seconds of calls from a profile ----*- C++ -*-===//

#ifndef HEDDLE_PROFILE_PROFILEDCOSTMODEL_H
#define HEDDLE_PROFILE_PROFILEDCOSTMODEL_H

#include "heddle/Cost/CollectiveCost.h"
#include "heddle/Profile/CallKey.h"
#include "heddle/Profile/Profile.h"
#include "heddle/Simulate/CostModel.h"
#include <memory>
#include <mutex>
#include <optional>
#include <set>

namespace heddle {

/// The different computing calls for whose times several models were asked, and
/// those of them that the profile has. Models may run in several threads.
class CallCoverage {
public:
  void add(const std::set<std::string> &asked, const MachineProfile &profile);
  size_t getNumCalls() const { return calls.size(); }
  size_t getNumMeasured() const { return numMeasured; }

private:
  std::mutex mutex;
  std::set<std::string> calls;
  size_t numMeasured = 0;
};

/// Takes measured times where the profile has them. A call that was not
/// measured takes the time of the cluster's roofline, divided by the efficiency
/// of the measured calls of its kind that have the most similar work and form
/// (CallKeys::getForm).
///
/// A collective that was measured on the links of this cluster takes that time.
/// One that was measured on the machine alone takes at least that time, because
/// the links of another cluster can only add to it.
class ProfiledCostModel final : public CostModel {
public:
  /// `topology` is that of the module's mesh.
  /// Adds its calls to `coverage`, if that is given, when it is destroyed.
  ProfiledCostModel(mlir::ModuleOp module, MeshTopology topology,
                    const MachineProfile &profile,
                    std::shared_ptr<CallCoverage> coverage = nullptr);
  ~ProfiledCostModel() override;

  mlir::FailureOr<double> getSeconds(rt::DeviceCallOpInterface call) override;
  double getSeconds(const Communication &communication,
                    double linkSeconds) override;
  double getSlowdown(rt::DeviceCallOpInterface call) override;
  double getLoad(const Communication &communication, double seconds) override;
  double getWake() const override { return profile.wake; }
  double getStart() const override { return profile.start; }

  /// The numbers of different computing calls that were asked for, and of those
  /// that the profile has.
  size_t getNumCalls() const { return asked.size(); }
  size_t getNumMeasured() const { return numMeasured; }

private:
  /// How much longer than by the roofline a measured call takes.
  struct Known {
    std::string form; ///< see CallKeys::getForm
    double logFlops, logBytes;
    double ratio;
    double slowdown; ///< 0 if it was not measured
  };
  double getRatio(llvm::StringRef key, const Work &work) const;
  const MessageTimes *findTimes(const Communication &communication,
                                bool onLinks) const;

  const MeshTopology topology;
  const MachineProfile &profile;
  CallWork works;
  CallKeys keys;
  std::map<std::string, std::vector<Known>> knownOfKind;
  std::map<std::string, double> slowdownOfKind; ///< "" is any kind
  std::set<std::string> asked;
  size_t numMeasured = 0;
  std::shared_ptr<CallCoverage> coverage;
};

/// Returns the links that a group over some axes of a mesh crosses, as profiles
/// name them.
std::vector<std::pair<double, double>> getLinks(const MeshTopology &topology,
                                                AxisMask axes);
/// Returns the profile's name of a kind of communication.
llvm::StringRef getName(CommunicationKind kind);

/// Returns a cluster whose device has the measured rates. The peak rate of a
/// type is the FLOPs over the seconds of all calls that FLOPs limit. The memory
/// bandwidth is the bytes over the seconds of all other calls. For cost models
/// that know only a roofline, such as the scheduler's.
Cluster applyProfile(Cluster cluster, const MachineProfile &profile);

} // namespace heddle

#endif // HEDDLE_PROFILE_PROFILEDCOSTMODEL_H
