//===- Cluster.cpp - Loads clusters and their presets ---------------------===//

#include "heddle/Cost/Cluster.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace heddle;
using llvm::StringRef;

//===----------------------------------------------------------------------===//
// Presets. Peak rates and bandwidths are those of the data sheets; any other
// figure has its source at its preset.
//===----------------------------------------------------------------------===//

static constexpr int64_t kGiB = int64_t(1) << 30;

static ClusterDevice makeRtx3090() {
  // The peaks are those of tensor cores that sum in f32.
  return {"RTX 3090",
          24 * kGiB,
          936e9,
          5e-6,
          {{"f32", 35.6e12}, {"bf16", 71e12}, {"f16", 71e12}}};
}

/// The network between servers: one 100 Gb/s port each. This is an assumption,
/// because the network of the published measurements is not known.
static ClusterLevel makeNetwork3090(int64_t servers) {
  return {"network", servers, 15e-6, 12.5e9, 1};
}

/// Four cards on PCIe 4.0 that cannot read each other's memory, so all data
/// passes through the host's memory. 6.5 GB/s follows from the released profile
/// of 32 cards (all-reduce of 128 MiB and more: 3.3 GB/s, times 2 * 31 / 32).
static Cluster makeRtx3090Cluster() {
  return {"rtx3090",
          makeRtx3090(),
          {{"server", 4, 15e-6, 6.5e9, 1}, makeNetwork3090(8)}};
}

/// The same servers with NVLink bridges, which join cards in pairs by four
/// links of 14.0625 GB/s.
static Cluster makeRtx3090NvlinkCluster() {
  return {"rtx3090-nvlink",
          makeRtx3090(),
          {{"pair", 2, 3e-6, 14.0625e9, 4},
           {"server", 2, 15e-6, 6.5e9, 2},
           makeNetwork3090(8)}};
}

/// bf16 products of the best shapes reach 271 of an A100's 312 TFLOP/s and 794
/// of an H100's 989 (S. Bekman, "Machine Learning Engineering", maximum
/// achievable matmul FLOPS); 0.75 allows for the shapes of a layer. STREAM
/// triads reach nine tenths of the memory's bandwidth on both (BabelStream).
static constexpr DeviceEfficiency kDgxEfficiency = {0.75, 0.9};

/// Bus bandwidths of large all-reduces by nccl-tests: 232.5 of 300 GB/s within
/// a server (NVIDIA/nccl-tests, issue 175), 91 of 100 GB/s between servers with
/// four ports of 200 Gb/s each (issue 100). An H100's links are assumed to be
/// as efficient.
static constexpr double kNvswitchEfficiency = 0.775;
static constexpr double kInfinibandEfficiency = 0.91;

static Cluster makeDgxA100() {
  return {"dgx-a100",
          {"A100 80GB",
           80 * kGiB,
           2039e9,
           5e-6,
           {{"f64", 9.7e12},
            {"f32", 19.5e12},
            {"tf32", 156e12},
            {"bf16", 312e12},
            {"f16", 312e12},
            {"i8", 624e12}},
           kDgxEfficiency},
          {{"nvswitch", 8, 3e-6, 25e9, 12, kNvswitchEfficiency},
           {"network", 8, 10e-6, 25e9, 8, kInfinibandEfficiency}}};
}

static Cluster makeDgxH100() {
  return {"dgx-h100",
          {"H100 SXM 80GB",
           80 * kGiB,
           3350e9,
           5e-6,
           {{"f64", 34e12},
            {"f32", 67e12},
            {"tf32", 494.7e12},
            {"bf16", 989.4e12},
            {"f16", 989.4e12},
            {"f8", 1978.9e12},
            {"i8", 1978.9e12}},
           kDgxEfficiency},
          {{"nvswitch", 8, 3e-6, 25e9, 18, kNvswitchEfficiency},
           {"network", 8, 10e-6, 50e9, 8, kInfinibandEfficiency}}};
}

/// Threads of one process on eight cores with 16 GiB. Each thread is a device,
/// and data that it sends is copied once. Assumed, not measured.
static Cluster makeLaptopCpu() {
  return {"laptop-cpu",
          {"CPU core", 2 * kGiB, 6e9, 1e-6, {{"f32", 100e9}}},
          {{"memory", 8, 1e-6, 4e9, 1}}};
}

using PresetMaker = Cluster (*)();
static constexpr std::pair<llvm::StringLiteral, PresetMaker> kPresets[] = {
    {"rtx3090", makeRtx3090Cluster},
    {"rtx3090-nvlink", makeRtx3090NvlinkCluster},
    {"dgx-a100", makeDgxA100},
    {"dgx-h100", makeDgxH100},
    {"laptop-cpu", makeLaptopCpu}};

std::vector<std::string> heddle::getClusterPresets() {
  std::vector<std::string> names;
  for (const auto &[name, make] : kPresets)
    names.push_back(name.str());
  return names;
}

llvm::Expected<Cluster> heddle::loadCluster(StringRef presetOrPath) {
  auto [name, count] = presetOrPath.split(':');
  for (const auto &[preset, make] : kPresets) {
    if (preset != name)
      continue;
    Cluster cluster = make();
    if (presetOrPath == name)
      return cluster;
    int64_t &units = cluster.levels.back().count;
    if (count.getAsInteger(10, units) || units < 1 || units > 65536)
      return llvm::createStringError(
          "cluster '" + presetOrPath +
          "': expected a number from 1 to 65536 after the colon, got '" +
          count + "'");
    return cluster;
  }
  auto buffer = llvm::MemoryBuffer::getFile(presetOrPath, /*IsText=*/true);
  if (!buffer) {
    std::string known;
    for (const auto &[preset, make] : kPresets)
      known += (known.empty() ? "" : ", ") + preset.str();
    return llvm::createStringError(
        "cluster '" + presetOrPath + "': " + buffer.getError().message() +
        "; expected a file, or one of the presets " + known);
  }
  return parseCluster((*buffer)->getBuffer(), presetOrPath);
}

/// The figures are those of no particular machine. A launch takes 10
/// microseconds. A message takes 5 microseconds and its bytes over 25 GB/s.
Cluster heddle::makeUniformCluster(int64_t devices) {
  return {"uniform",
          {"device", 16 * kGiB, 900e9, 10e-6, {{"f32", 20e12}}},
          {{"all", devices, 5e-6, 25e9, 1}}};
}
