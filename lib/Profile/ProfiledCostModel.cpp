//===- ProfiledCostModel.cpp - Seconds of calls from a profile ------------===//

#include "heddle/Profile/ProfiledCostModel.h"
#include "heddle/Cost/Roofline.h"
#include "heddle/Simulate/MeshAxes.h"
#include "heddle/Support/Median.h"
#include <cmath>

using namespace mlir;
using namespace heddle;

/// The number of measured calls that an estimate is made from.
static constexpr size_t kNeighbours = 4;

/// The distance between calls of different forms. A product of 128 rows takes a
/// quarter longer if an operand is transposed, so calls of the same form count
/// more.
static constexpr double kOtherForm = 1;

/// Returns the peak rate of products of a type by its name. If the cluster does
/// not state it, returns the rate of f32, or else any rate.
static double getRate(const ClusterDevice &device, StringRef type) {
  for (StringRef name : {type, StringRef("f32")})
    if (auto known = device.peak.find(name.str()); known != device.peak.end())
      return known->second * device.efficiency.peak;
  return device.peak.empty()
             ? 1e12
             : device.peak.begin()->second * device.efficiency.peak;
}

StringRef heddle::getName(CommunicationKind kind) {
  switch (kind) {
  case CommunicationKind::AllReduce:
    return "all_reduce";
  case CommunicationKind::AllGather:
    return "all_gather";
  case CommunicationKind::ReduceScatter:
    return "reduce_scatter";
  case CommunicationKind::AllToAll:
    return "all_to_all";
  case CommunicationKind::Broadcast:
    return "broadcast";
  case CommunicationKind::Permute:
    return "permute";
  case CommunicationKind::Transfer:
    return "transfer";
  }
  llvm_unreachable("a kind of communication");
}

std::vector<std::pair<double, double>>
heddle::getLinks(const MeshTopology &topology, AxisMask axes) {
  std::vector<std::pair<double, double>> links;
  int outermost = topology.getOutermostLevel(axes);
  for (int level = 0; level <= outermost; ++level) {
    const ClusterLevel &each = topology.getCluster().levels[level];
    links.emplace_back(each.latency, each.getUnitRate());
  }
  return links;
}

void CallCoverage::add(const std::set<std::string> &asked,
                       const MachineProfile &profile) {
  std::lock_guard lock(mutex);
  for (const std::string &key : asked)
    if (calls.insert(key).second)
      numMeasured += profile.operators.count(key);
}

ProfiledCostModel::~ProfiledCostModel() {
  if (coverage)
    coverage->add(asked, profile);
}

ProfiledCostModel::ProfiledCostModel(ModuleOp module, MeshTopology topology,
                                     const MachineProfile &profile,
                                     std::shared_ptr<CallCoverage> coverage)
    : topology(std::move(topology)), profile(profile), works(module),
      keys(module), coverage(std::move(coverage)) {
  std::map<std::string, std::vector<double>> slowdowns;
  const ClusterDevice &device = this->topology.getCluster().device;
  for (const auto &[key, time] : profile.operators) {
    Work work{time.flops, time.bytes, 0};
    double roofline =
        getRooflineSeconds(work, getRate(device, time.type), device);
    double slowdown = time.beside > 0 ? time.beside / time.seconds : 0;
    std::string kind = CallKeys::getKind(key).str();
    knownOfKind[kind].push_back(
        {CallKeys::getForm(key), std::log(double(time.flops) + 1),
         std::log(double(time.bytes) + 1),
         roofline > 0 ? time.seconds / roofline : 1, slowdown});
    if (slowdown > 0) {
      slowdowns[kind].push_back(slowdown);
      slowdowns[""].push_back(slowdown);
    }
  }
  for (const auto &[kind, values] : slowdowns)
    slowdownOfKind[kind] = std::max(1.0, getMedian(values));
}

/// Returns the weighted geometric mean of the ratios of the most similar calls
/// of a kind. Nearer calls have a larger weight.
double ProfiledCostModel::getRatio(StringRef key, const Work &work) const {
  auto known = knownOfKind.find(CallKeys::getKind(key).str());
  if (known == knownOfKind.end())
    return 1;
  double flops = std::log(double(work.flops) + 1);
  double bytes = std::log(double(work.bytesRead + work.bytesWritten) + 1);
  std::string form = CallKeys::getForm(key);
  std::vector<std::pair<double, double>> distances;
  for (const Known &each : known->second) {
    double a = each.logFlops - flops, b = each.logBytes - bytes;
    double other = each.form == form ? 0 : kOtherForm;
    distances.emplace_back(a * a + b * b + other, std::log(each.ratio));
  }
  llvm::sort(distances);
  if (distances.size() > kNeighbours)
    distances.resize(kNeighbours);
  double sum = 0, weights = 0;
  for (auto [distance, ratio] : distances) {
    double weight = 1 / (distance + 1e-3);
    sum += weight * ratio;
    weights += weight;
  }
  return std::exp(sum / weights);
}

FailureOr<double>
ProfiledCostModel::getSeconds(rt::DeviceCallOpInterface call) {
  const std::string &key = keys.get(call);
  auto measured = profile.operators.find(key);
  bool isMeasured = measured != profile.operators.end();
  if (asked.insert(key).second)
    numMeasured += isMeasured;
  if (isMeasured)
    return measured->second.seconds + profile.gap;
  Work work = works.getWork(call);
  std::string type;
  llvm::raw_string_ostream(type) << CallWork::getComputeType(call);
  const ClusterDevice &device = topology.getCluster().device;
  return getRooflineSeconds(work, getRate(device, type), device) *
             getRatio(key, work) +
         profile.gap;
}

/// Finds the times of a collective on the cluster's links, or on the machine
/// alone. Without links, takes the times of the nearest number of members.
const MessageTimes *
ProfiledCostModel::findTimes(const Communication &communication,
                             bool onLinks) const {
  AxisMask axes = getAxisMask(communication.axes);
  CollectiveKey wanted{
      getName(communication.kind).str(), topology.getSize(axes), {}};
  if (onLinks)
    wanted.links = getLinks(topology, axes);
  const MessageTimes *best = nullptr;
  int64_t nearest = 0;
  for (const auto &[key, times] : profile.collectives) {
    if (key.kind != wanted.kind || key.links != wanted.links)
      continue;
    int64_t distance = std::abs(key.members - wanted.members);
    if ((onLinks && distance > 0) || (best && distance >= nearest))
      continue;
    best = &times;
    nearest = distance;
  }
  return best;
}

double ProfiledCostModel::getSeconds(const Communication &communication,
                                     double linkSeconds) {
  if (const MessageTimes *times = findTimes(communication, true))
    return interpolate(*times, communication.bytes) + profile.gap;
  double least = 0;
  if (const MessageTimes *times = findTimes(communication, false))
    least = interpolate(*times, communication.bytes);
  return std::max(linkSeconds, least) + profile.gap;
}

double ProfiledCostModel::getSlowdown(rt::DeviceCallOpInterface call) {
  const std::string &key = keys.get(call);
  auto measured = profile.operators.find(key);
  if (measured != profile.operators.end() && measured->second.beside > 0)
    return std::max(1.0, measured->second.beside / measured->second.seconds);
  for (const std::string &kind : {CallKeys::getKind(key).str(), std::string()})
    if (auto known = slowdownOfKind.find(kind); known != slowdownOfKind.end())
      return known->second;
  return 1;
}

double ProfiledCostModel::getLoad(const Communication &communication,
                                  double seconds) {
  const MessageTimes *times = findTimes(communication, false);
  if (!times || seconds <= 0)
    return 1;
  return std::min(1.0, interpolate(*times, communication.bytes) / seconds);
}

Cluster heddle::applyProfile(Cluster cluster, const MachineProfile &profile) {
  // A call is limited by its FLOPs or by its bytes: by the one that would take
  // longer at the best rates.
  std::map<std::string, double> best;
  double bestBandwidth = 0;
  for (const auto &[key, time] : profile.operators) {
    if (time.seconds <= 0)
      continue;
    double &rate = best[time.type];
    rate = std::max(rate, double(time.flops) / time.seconds);
    bestBandwidth = std::max(bestBandwidth, double(time.bytes) / time.seconds);
  }
  struct Sum {
    double amount = 0, seconds = 0;

    void add(int64_t more, double time) {
      amount += double(more);
      seconds += time;
    }
  };
  std::map<std::string, Sum> rates;
  Sum bandwidth;
  for (const auto &[key, time] : profile.operators) {
    if (time.seconds <= 0)
      continue;
    if (double(time.flops) * bestBandwidth >
        double(time.bytes) * best[time.type])
      rates[time.type].add(time.flops, time.seconds);
    else
      bandwidth.add(time.bytes, time.seconds);
  }
  for (const auto &[type, sum] : rates)
    cluster.device.peak[type] = sum.amount / sum.seconds;
  if (bandwidth.amount > 0)
    cluster.device.memoryBandwidth = bandwidth.amount / bandwidth.seconds;
  // Measured rates are what programs reach.
  cluster.device.efficiency = DeviceEfficiency();
  cluster.device.launch = profile.gap;
  return cluster;
}
