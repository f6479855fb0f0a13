//===- PlanRequests.cpp - Small requests for tests ------------------------===//

#include "PlanRequests.h"
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

BoundModel heddle::makeBounds(const PlanRequest &request, Judge &judge) {
  auto count = [&](int64_t rows, int64_t layers) {
    ProgramCounts counts =
        countProgram(cantFail(judge.getTrainingStep({rows, layers}, 2)),
                     request.cluster.device);
    counts.computing = cantFail(judge.measureComputing({rows, layers}));
    return counts;
  };
  ProgramCounts counts[2][2] = {{count(1, 1), count(1, 2)},
                                {count(2, 1), count(2, 2)}};
  constexpr double sizes[2] = {1, 2};
  return BoundModel(request, CountModel(counts, sizes, sizes));
}
