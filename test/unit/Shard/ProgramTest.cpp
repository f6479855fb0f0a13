//===- ProgramTest.cpp - One program, one and many devices ----------------===//

#include "ProgramTest.h"
#include "llvm/Support/JSON.h"
#include <cmath>
#include <fstream>

using namespace mlir;
using namespace heddle;

ShardingAttr ProgramTest::randomSharding(int64_t rank, MeshRef mesh,
                                         Random &random, int64_t leaveOut) {
  DimensionAxes dims(rank);
  for (MeshAxisAttr axis : mesh.mesh.getAxes())
    if (rank > 0 && random.pick(1, leaveOut) != 1)
      dims[random.pick(0, rank - 1)].push_back(axis.getName());
  return makeSharding(mesh, dims);
}

void ProgramTest::shardArguments(func::FuncOp function, MeshRef mesh,
                                 Random &random, int64_t leaveOut) {
  auto shard = [&](Type type) -> ShardingAttr {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || random.pick(1, leaveOut) == 1)
      return {};
    return randomSharding(tensor.getRank(), mesh, random, leaveOut);
  };
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
    if (ShardingAttr sharding = shard(type))
      function.setArgAttr(i, kShardingAttrName, sharding);
  // Shards fewer results than arguments, so that propagation decides some.
  for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
    if (ShardingAttr sharding = shard(type); sharding && random.pick(0, 1))
      function.setResultAttr(i, kShardingAttrName, sharding);
}

static Tensor randomTensor(RankedTensorType type, Random &random) {
  Tensor tensor(type.getShape());
  for (double &value : tensor.values)
    if (isa<FloatType>(type.getElementType()))
      value = random.pick(-64, 64) / 64.0; // exact in every float type
    else if (type.getElementType().isInteger(1))
      value = random.pick(0, 1);
    else
      value = random.pick(-9, 9);
  return tensor;
}

std::vector<Tensor> heddle::randomArguments(func::FuncOp function,
                                            Random &random) {
  std::vector<Tensor> arguments;
  for (Type type : function.getArgumentTypes())
    arguments.push_back(randomTensor(cast<RankedTensorType>(type), random));
  return arguments;
}

void ProgramTest::expectSameNumbers(ModuleOp global, ModuleOp local,
                                    Random &random, Tolerance tolerance) {
  MeshAttr mesh = getMesh(local).mesh;
  auto serial = global.lookupSymbol<func::FuncOp>("f");
  auto function = local.lookupSymbol<func::FuncOp>("f");
  std::vector<Tensor> arguments = randomArguments(serial, random);
  std::vector<std::vector<Tensor>> localArguments(mesh.getNumDevices());
  for (auto [i, type] : llvm::enumerate(serial.getArgumentTypes())) {
    auto tensorType = cast<RankedTensorType>(type);
    // The padding of an argument may hold anything.
    double padding = isa<FloatType>(tensorType.getElementType()) ? NAN : -77;
    auto parts = shardTensor(
        arguments[i],
        function.getArgAttrOfType<ShardingAttr>(i, kShardingAttrName), mesh,
        padding);
    for (auto [device, part] : llvm::zip(localArguments, parts))
      device.push_back(part);
  }
  Variables none;
  auto expected = interpret(serial, arguments, none);
  ASSERT_TRUE(succeeded(expected)) << diagnostics;
  std::vector<Variables> variables(localArguments.size());
  auto devices = interpretGrid(function, mesh, localArguments, variables);
  ASSERT_TRUE(succeeded(devices)) << diagnostics;
  for (auto [i, wanted] : llvm::enumerate(*expected)) {
    std::vector<Tensor> parts;
    for (auto &device : *devices)
      parts.push_back(device[i]);
    auto whole = unshardTensor(
        parts, function.getResultAttrOfType<ShardingAttr>(i, kShardingAttrName),
        mesh, wanted.shape, 1e-9);
    ASSERT_TRUE(bool(whole))
        << "result " << i << ": " << llvm::toString(whole.takeError());
    double largest = 1;
    for (double value : wanted.values)
      largest = std::max(largest, std::abs(value));
    for (auto [a, b] : llvm::zip(wanted.values, whole->values)) {
      if (a == b) // also equal infinities
        continue;
      double scale = tolerance.toLargest ? largest : std::max(1.0, std::abs(a));
      ASSERT_LE(std::abs(a - b), tolerance.relative * scale)
          << "result " << i << ": expected " << a << ", got " << b;
    }
  }
}

static llvm::json::Array toJson(TypeRange types,
                                const std::vector<Tensor> &tensors) {
  llvm::json::Array list;
  for (auto [type, tensor] : llvm::zip(types, tensors)) {
    std::string element;
    llvm::raw_string_ostream(element) << getElementTypeOrSelf(type);
    list.push_back(
        llvm::json::Object{{"type", element},
                           {"shape", llvm::json::Array(tensor.shape)},
                           {"values", llvm::json::Array(tensor.values)}});
  }
  return list;
}

bool ProgramTest::writeInstead(ModuleOp module, Random &random, uint64_t seed) {
  const char *folder = std::getenv("HEDDLE_RANDOM_WRITE");
  if (!folder)
    return false;
  std::string file = std::string(folder) + "/" + std::to_string(seed);
  auto function = module.lookupSymbol<func::FuncOp>("f");
  std::vector<Tensor> arguments = randomArguments(function, random);
  Variables none;
  auto results = interpret(function, arguments, none);
  if (failed(results)) {
    ADD_FAILURE() << diagnostics;
    return true;
  }
  std::ofstream(file + ".mlir") << toString(module);
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(llvm::json::Object{
      {"arguments", toJson(function.getArgumentTypes(), arguments)},
      {"results", toJson(function.getResultTypes(), *results)}});
  std::ofstream(file + ".json") << text;
  return true;
}

std::string heddle::toString(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream(text) << module;
  return text;
}

int heddle::countFromEnvironment(const char *name, int otherwise,
                                 int inLongTests) {
  if (const char *wanted = std::getenv(name))
    return std::atoi(wanted);
  return std::getenv("HEDDLE_LONG_TESTS") ? inLongTests : otherwise;
}
