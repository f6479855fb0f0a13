//===- ProfileRuns.cpp - Runs of programs that measure --------------------===//

#include "ProfileRuns.h"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <unistd.h>

using namespace heddle;
using namespace heddle::tools;

namespace fs = std::filesystem;

/// Identifiers, such as tokens, are below this bound.
static constexpr int64_t kIdentifiers = 16;

/// Fills an input with numbers that any program can take: small whole numbers,
/// for which every embedding has a row, or fractions.
static std::vector<std::byte> makeInput(const runtime::PortInfo &port,
                                        int64_t copies) {
  std::vector<std::byte> bytes(port.bytes() * size_t(copies));
  size_t size = runtime::byteSize(port.type);
  for (size_t i = 0; i * size < bytes.size(); ++i) {
    auto number = int64_t(i * 2654435761u >> 7) % kIdentifiers;
    auto put = [&](auto value) {
      std::memcpy(bytes.data() + i * size, &value, size);
    };
    switch (port.type) {
    case HEDDLE_RT_I32:
      put(int32_t(number));
      break;
    case HEDDLE_RT_I64:
      put(number);
      break;
    case HEDDLE_RT_F32:
      put(float(number) / kIdentifiers);
      break;
    case HEDDLE_RT_F64:
      put(double(number) / kIdentifiers);
      break;
    case HEDDLE_RT_BF16:
      put(uint16_t(0x3f00 + number)); // 0.5 and a little more
      break;
    case HEDDLE_RT_F16:
      put(uint16_t(0x3800 + number));
      break;
    case HEDDLE_RT_I1:
    case HEDDLE_RT_I8:
      put(int8_t(number & 1));
      break;
    }
  }
  return bytes;
}

static double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Shows on a terminal which run of which program begins, in one line.
static void showProgress(const std::string &table, int64_t run, int64_t runs) {
  if (::isatty(STDERR_FILENO) != 1)
    return;
  std::fprintf(stderr, "\r\033[K  %s: run %lld of %lld", table.c_str(),
               static_cast<long long>(run), static_cast<long long>(runs));
  std::fflush(stderr);
}

/// Shows what the runs of a program took.
static void showRuns(const std::string &table, int64_t runs, double seconds) {
  std::fprintf(stderr, "%s  %s: %lld run(s), %.3f s each\n",
               ::isatty(STDERR_FILENO) == 1 ? "\r\033[K" : "", table.c_str(),
               static_cast<long long>(runs), seconds / double(runs));
}

runtime::Expected<int> tools::runTables(const fs::path &artifact,
                                        const fs::path &trace,
                                        const RunsOptions &options) {
  auto loaded = runtime::Session::load(artifact, options.session);
  if (!loaded.ok())
    return std::move(loaded).status();
  runtime::Session &session = **loaded;
  const runtime::Manifest &manifest = session.manifest();
  std::vector<std::vector<std::vector<std::byte>>> data(manifest.tables.size());
  auto run = [&](size_t index) {
    std::vector<runtime::ConstBytes> inputs(data[index].begin(),
                                            data[index].end());
    std::vector<runtime::Bytes> outputs(manifest.tables[index].outputs.size());
    return session.run(index, inputs, outputs);
  };
  for (size_t index = 0; index < data.size(); ++index) {
    const runtime::TableInfo &table = manifest.tables[index];
    for (const runtime::PortInfo &input : table.inputs)
      data[index].push_back(makeInput(input, table.microBatches));
    if (runtime::Status status = run(index); !status.ok())
      return status;
  }
  session.startTrace(size_t(options.runs));
  std::vector<double> seconds(data.size());
  std::vector<int64_t> runs(data.size());
  for (int64_t round = 1; round <= options.runs; ++round)
    for (size_t index = 0; index < data.size(); ++index) {
      if (runs[index] >= options.least && seconds[index] > options.seconds)
        continue;
      showProgress(manifest.tables[index].name, round, options.runs);
      double begin = now();
      if (runtime::Status status = run(index); !status.ok())
        return status;
      seconds[index] += now() - begin;
      ++runs[index];
    }
  for (size_t index = 0; index < data.size(); ++index)
    showRuns(manifest.tables[index].name, runs[index], seconds[index]);
  if (runtime::Status status = session.writeTrace(trace); !status.ok())
    return status;
  return session.coresPerDevice();
}
