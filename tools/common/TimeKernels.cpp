//===- TimeKernels.cpp - Times of single kernels of a GPU -----------------===//

#include "TimeKernels.h"

#include "heddle_rt/kernel_times.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <memory>
#include <optional>

using namespace heddle;
using namespace heddle::tools;

/// Returns the time over the time that the copy of the same bytes takes. None
/// if one of them is not known.
static std::optional<double> ratioOf(const runtime::KernelTimes &times,
                                     const runtime::KernelTime &kernel) {
  if (kernel.bytes <= 0 || times.bandwidth <= 0)
    return std::nullopt;
  return kernel.seconds * times.bandwidth / double(kernel.bytes);
}

static void print(const runtime::KernelTimes &times) {
  std::printf("%s: a copy reads and writes %.1f GB/s\n%-40s%12s%12s%8s\n",
              times.device.c_str(), times.bandwidth * 1e-9, "kernel", "us",
              "MB", "ratio");
  for (const runtime::KernelTime &kernel : times.kernels) {
    std::printf("%-40s%12.2f", kernel.symbol.c_str(), kernel.seconds * 1e6);
    if (kernel.bytes >= 0)
      std::printf("%12.3f", double(kernel.bytes) * 1e-6);
    else
      std::printf("%12s", "?");
    if (std::optional<double> ratio = ratioOf(times, kernel))
      std::printf("%8.2f\n", *ratio);
    else
      std::printf("%8s\n", "?");
  }
}

static void printJson(const runtime::KernelTimes &times) {
  nlohmann::ordered_json kernels = nlohmann::ordered_json::array();
  for (const runtime::KernelTime &kernel : times.kernels) {
    nlohmann::ordered_json &item = kernels.emplace_back();
    item["kernel"] = kernel.symbol;
    item["seconds"] = kernel.seconds;
    if (kernel.bytes >= 0)
      item["bytes"] = kernel.bytes;
    if (std::optional<double> ratio = ratioOf(times, kernel))
      item["ratio"] = *ratio;
  }
  nlohmann::ordered_json all;
  all["gpu"] = times.device;
  all["bandwidth"] = times.bandwidth;
  all["kernels"] = std::move(kernels);
  std::printf("%s\n", all.dump().c_str());
}

void tools::addTimeKernelsCommand(CLI::App &app, int &result) {
  struct Flags {
    std::string artifact;
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App *command = app.add_subcommand(
      "time-kernels",
      "Run each kernel of a program for a GPU alone, and print its time, the "
      "bytes that it must read and write, and the ratio to a copy of them");
  command->add_option("ARTIFACT", flags->artifact, "What heddle compile wrote")
      ->required()
      ->check(folder());
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, &result] {
    auto times = runtime::timeKernels(flags->artifact);
    if (!times.ok()) {
      result = reportError(times.message());
      return;
    }
    (flags->json ? printJson : print)(*times);
  });
}
