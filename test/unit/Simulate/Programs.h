//===- Programs.h - Hand-written programs to simulate -----------*- C++ -*-===//
//
// A cluster on which times are round numbers, and calls that take them.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_SIMULATE_PROGRAMS_H
#define HEDDLE_TEST_UNIT_SIMULATE_PROGRAMS_H

#include "heddle/InitAll.h"
#include "heddle/Simulate/Simulate.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

namespace heddle {

/// Devices without launch time, on one level without latency. A product of
/// 100 x 100 x 50 takes 1 ms, and the all-reduce of its result among two
/// devices another 1 ms. Memory is so fast that copies take no time.
inline Cluster makeRoundCluster(int64_t devices) {
  return {"round",
          {"device", int64_t(1) << 30, 1e30, 0, {{"f32", 1e9}}},
          {{"net", devices, 0, 40e6, 1}}};
}

/// The text of a product that takes k / 50 ms. It reads the result at `from`
/// and writes its own at `to`. Results are 40,000 bytes; places are numbered.
inline std::string product(std::string name, int k, int from, int to) {
  auto place = [](int index, std::string shape) {
    return "arena[" + std::to_string(40000 * index) + " : " + shape + "]";
  };
  std::string K = std::to_string(k);
  return "rt.matmul m(100) n(100) k(" + K + ") a(" +
         place(from, "100x" + K + "xf32") + " strides [" + K + ", 1]) b(" +
         place(from, K + "x100xf32") + " strides [100, 1]) c(" +
         place(to, "100x100xf32") + " stride 100) serves <activation [\"" +
         name + "\"]>\n";
}

/// The text of an all-reduce in place.
inline std::string allReduce(std::string name, int stream, int at,
                             std::string axis, int elements = 10000) {
  std::string buffer = "arena[" + std::to_string(40000 * at) + " : " +
                       std::to_string(elements) + "xf32]";
  return "rt.all_reduce stream(" + std::to_string(stream) + ") sum " + buffer +
         " -> " + buffer + " over @mesh <{\"" + axis +
         "\"}> serves <activation [\"" + name + "\"]>\n";
}

inline std::string record(int event, int stream = 0) {
  return "rt.record " + std::to_string(event) + " stream(" +
         std::to_string(stream) + ")\n";
}
inline std::string wait(int event, int stream = 0) {
  return "rt.wait " + std::to_string(event) + " stream(" +
         std::to_string(stream) + ")\n";
}

/// A module of programs, and its simulation.
class Programs {
public:
  explicit Programs(const std::string &text) {
    mlir::DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
  }

  /// Simulates an entry point.
  mlir::FailureOr<Simulation> run(const Cluster &cluster,
                                  llvm::StringRef entry = "",
                                  const SimulateOptions &options = {}) {
    RooflineCostModel model(*module, cluster);
    return run(cluster, model, entry, options);
  }
  mlir::FailureOr<Simulation> run(const Cluster &cluster, CostModel &model,
                                  llvm::StringRef entry = "",
                                  const SimulateOptions &options = {}) {
    llvm::Expected<std::vector<CallList>> lists = getEntry(*module, entry);
    if (!lists) {
      ADD_FAILURE() << llvm::toString(lists.takeError());
      return mlir::failure();
    }
    return simulate(*module, *lists, cluster, model, options);
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// The call that serves the operator `name`.
inline CallIndex find(const Simulation &simulation, llvm::StringRef name) {
  for (auto [index, call] : llvm::enumerate(simulation.calls)) {
    rt::DeviceCallOpInterface op = call.op;
    if (op.getServes().getNames().front() == name)
      return index;
  }
  ADD_FAILURE() << "no call serves " << name.str();
  return 0;
}

} // namespace heddle

#endif // HEDDLE_TEST_UNIT_SIMULATE_PROGRAMS_H
