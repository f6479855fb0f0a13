//===- PlanRequests.cpp - Small requests for tests ------------------------===//

#include "PlanRequests.h"
#include "Bounds/KernelCounts.h"
#include "heddle/Cost/Cluster.h"
#include "heddle/InitAll.h"
#include "llvm/Support/Error.h"

using namespace mlir;
using namespace heddle;

PlanRequest heddle::makeRequest(int64_t devices, int64_t rows, GptShape shape) {
  static DialectRegistry *registry = [] {
    auto *dialects = new DialectRegistry;
    registerAllDialects(*dialects);
    return dialects;
  }();
  PlanRequest request;
  request.program.dialects = registry;
  request.program.rows = rows;
  request.program.layers = shape.layers;
  request.program.make = [shape](MLIRContext &context,
                                 const ProgramSize &size) {
    ImportOptions options;
    options.gpt = shape;
    options.sequence = shape.sequence;
    options.batch = size.rows;
    options.mostLayers = size.layers;
    return importModel(context, options);
  };
  request.cluster = cantFail(loadCluster("dgx-a100:1"));
  request.devices = devices;
  request.memory = request.cluster.device.memory;
  return request;
}

void heddle::slowDown(PlanRequest &request, double bandwidth) {
  std::vector<ClusterLevel> &levels = request.cluster.levels;
  levels.resize(1);
  levels.front().count = 2;
  levels.push_back(levels.front());
  levels.back().name = "slow";
  levels.back().bandwidth = bandwidth;
  levels.back().links = 1;
}

BoundModel heddle::makeBounds(const PlanRequest &request, Judge &judge) {
  constexpr double sizes[2] = {1, 2};
  ProgramCounts counts[2][2];
  for (int j = 0; j < 2; ++j) {
    auto layers = int64_t(sizes[j]);
    std::optional<KernelCounts> kernels = measureKernelCounts(
        [&](int64_t rows) {
          return judge.measureKernels({rows, layers});
        },
        request.cluster.device.launch);
    for (int i = 0; i < 2; ++i) {
      ProgramSize size{int64_t(sizes[i]), layers};
      counts[i][j] = countProgram(cantFail(judge.getTrainingStep(size, 2)),
                                  request.cluster.device);
      kernels.value().setIn(counts[i][j], sizes[i]);
    }
  }
  return BoundModel(request, CountModel(counts, sizes, sizes));
}
