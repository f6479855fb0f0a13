//===- EquivalenceTest.cpp - Sharded programs against global ones ---------===//
//
// Executes a model's training step globally by the interpreter and, after
// partitioning, by a grid of interpreters. All numbers are doubles, so the two
// agree up to rounding, and a wrong slice, mask or sum shows.
//
//===----------------------------------------------------------------------===//

#include "EquivalenceCases.h"
#include "heddle/Import/Import.h"
#include "heddle/InitAll.h"
#include "heddle/Plan/DefaultPlan.h"
#include "heddle/Shard/ApplyPlan.h"
#include "heddle/Sharding/FactorShardings.h"
#include "test/support/Interpreter/Grid.h"
#include "test/support/WithContext.h"
#include "llvm/Support/FileSystem.h"
#include "gtest/gtest.h"
#include <cmath>
#include <random>

using namespace mlir;
using namespace heddle;

namespace {

class EquivalenceTest : public testing::TestWithParam<test::EquivalenceCase>,
                        protected test::WithContext {
protected:
  OwningOpRef<ModuleOp> import(const test::SmallModel &model) {
    int file;
    llvm::SmallString<128> path;
    if (llvm::sys::fs::createTemporaryFile("config", "json", file, path))
      return {};
    llvm::raw_fd_ostream(file, /*shouldClose=*/true) << model.config;
    ImportOptions options;
    options.path = path.str();
    options.batch = model.batch;
    options.sequence = model.sequence;
    if (model.dropout > 0)
      options.dropout = model.dropout;
    auto module = importModel(context, options);
    llvm::sys::fs::remove(path);
    if (failed(module))
      return {};
    return std::move(*module);
  }

  bool partition(ModuleOp module, const std::string &text) {
    int dp, tp, zero;
    llvm::Expected<Plan> plan =
        std::sscanf(text.c_str(), "%d,%d,%d", &dp, &tp, &zero) == 3
            ? makeDefaultPlan(module, {{dp}, {tp}}, zero)
            : parsePlan(text, "plan");
    if (!plan) {
      diagnostics += llvm::toString(plan.takeError());
      return false;
    }
    return succeeded(applyPlan(module, *plan)) &&
           runPasses(module,
                     "heddle-split-batch,heddle-split-operators,"
                     "heddle-repeat-constants,"
                     "heddle-propagate-shardings,heddle-materialize-pins,"
                     "heddle-insert-reshards,heddle-verify-sharded,"
                     "heddle-localize,canonicalize,cse,"
                     "func.func(heddle-combine-collectives),"
                     "heddle-pack-collectives,heddle-verify-localized");
  }

  Tensor randomIds(ArrayRef<int64_t> shape, int64_t count, bool ignoreSome) {
    Tensor tensor(shape);
    for (double &value : tensor.values) {
      value = std::uniform_int_distribution<int64_t>(0, count - 1)(engine);
      if (ignoreSome && engine() % 5 == 0)
        value = -100;
    }
    return tensor;
  }

  std::mt19937_64 engine{7};
};

/// Returns the value of a variable, which may be a slice of a variable of the
/// global program.
Tensor valueOf(VariableOp variable, const Variables &global) {
  SliceAttr slice = variable.getSliceAttr();
  if (!slice)
    return global.find(variable.getSymName())->second;
  const Tensor &whole = global.find(slice.getOf().getValue())->second;
  Tensor part(variable.getTensorType().getShape());
  int64_t dim = slice.getDim(), inner = 1;
  for (int64_t size : ArrayRef<int64_t>(whole.shape).drop_front(dim + 1))
    inner *= size;
  int64_t rows = part.shape[dim];
  for (int64_t i = 0; i < (int64_t)part.values.size(); ++i) {
    int64_t outer = i / (rows * inner), rest = i % (rows * inner);
    part.values[i] =
        whole.values[(outer * slice.getSize() + slice.getOffset()) * inner +
                     rest];
  }
  return part;
}

/// Cuts the global program's variables into those of each device.
std::vector<Variables> shardVariables(ModuleOp module, MeshAttr mesh,
                                      const Variables &global) {
  std::vector<Variables> devices(mesh.getNumDevices());
  for (VariableOp variable : module.getOps<VariableOp>()) {
    auto parts =
        shardTensor(valueOf(variable, global), variable.getStorageAttr(), mesh);
    for (auto [device, part] : llvm::zip(devices, parts))
      device[variable.getSymName()] = part;
  }
  return devices;
}

void expectNear(const Tensor &expected, const Tensor &got, StringRef what) {
  ASSERT_EQ(expected.values.size(), got.values.size()) << what.str();
  double largest = 1e-6, difference = 0; // allows for rounding of zeros
  for (auto [a, b] : llvm::zip(expected.values, got.values)) {
    ASSERT_FALSE(std::isnan(b)) << what.str();
    largest = std::max(largest, std::abs(a));
    difference = std::max(difference, std::abs(a - b));
  }
  EXPECT_LE(difference, 1e-9 * largest) << what.str();
}

/// Assembles the devices' results to global tensors and compares these with
/// `expected`.
void expectResults(func::FuncOp function, MeshAttr mesh,
                   ArrayRef<Tensor> expected,
                   ArrayRef<std::vector<Tensor>> devices) {
  for (auto [i, wanted] : llvm::enumerate(expected)) {
    std::vector<Tensor> parts;
    for (const std::vector<Tensor> &device : devices)
      parts.push_back(device[i]);
    auto sharding =
        function.getResultAttrOfType<ShardingAttr>(i, kShardingAttrName);
    ASSERT_TRUE(sharding);
    auto whole = unshardTensor(parts, sharding, mesh, wanted.shape, 1e-10);
    ASSERT_TRUE(bool(whole)) << llvm::toString(whole.takeError());
    expectNear(wanted, *whole,
               (function.getName() + " result " + Twine(i)).str());
  }
}

/// Gives every attention a window and a mask: the first one a mask of i1 that
/// differs for each query and group, the others one of f32 that is the same for
/// all queries.
void maskAttentions(ModuleOp module) {
  bool isFirst = true;
  module.walk([&](AttentionOp op) {
    OpBuilder b(op);
    SmallVector<int64_t> shape(op.getLse().getType().getShape());
    for (size_t dim = isFirst ? 3 : 1; dim < shape.size(); ++dim)
      shape[dim] = 1;
    shape.push_back(op.getKey().getType().getDimSize(1));
    Type element = isFirst ? Type(b.getI1Type()) : Type(b.getF32Type());
    auto type = RankedTensorType::get(shape, element);
    SmallVector<bool> seen;
    SmallVector<float> added;
    for (int64_t i = 0; i < type.getNumElements(); ++i) {
      seen.push_back(i % 3 != 1);
      added.push_back(i % 4 == 1 ? -3e38f : float(i % 5) - 2);
    }
    auto data = isFirst ? DenseElementsAttr::get(type, seen)
                        : DenseElementsAttr::get(type, ArrayRef(added));
    op.getMaskMutable().assign(
        b.create<arith::ConstantOp>(op.getLoc(), data).getResult());
    op.setWindow(4);
    isFirst = false;
  });
}

TEST_P(EquivalenceTest, SameNumbersAsOneDevice) {
  const test::EquivalenceCase &param = GetParam();
  OwningOpRef<ModuleOp> global = import(param.model);
  ASSERT_TRUE(global) << diagnostics;
  if (StringRef(param.name).starts_with("BothWays")) // no causal mask
    global->walk([](AttentionOp op) { op.setCausal(false); });
  if (StringRef(param.name).contains("Masked"))
    maskAttentions(*global);
  ASSERT_TRUE(
      runPasses(*global, param.before +
                             "heddle-build-training-step{learning-rate=0.01 "
                             "clip=0.5 gradients=true " +
                             param.training + "},canonicalize,cse"))
      << diagnostics;
  OwningOpRef<ModuleOp> local = global->clone();
  // ATTENTION in a plan stands for the name of the attention op itself, without
  // the projections before and after it.
  std::string plan = param.plan;
  StringRef name("ATTENTION");
  if (size_t at = plan.find(name); at != std::string::npos)
    plan.replace(at, name.size(),
                 StringRef(param.model.config).contains("gpt2")
                     ? "*.attn"
                     : "*.self_attn");
  ASSERT_TRUE(partition(*local, plan)) << diagnostics;
  MeshAttr mesh = getMesh(*local).mesh;

  Variables variables;
  std::uniform_real_distribution<double> random(-1, 1);
  initializeVariables(*global, variables, [&] { return 20 * random(engine); });
  for (auto &entry : variables) // gives biases, too, numbers other than zero
    if (!entry.getKey().starts_with("adamw") &&
        !entry.getKey().starts_with("grad."))
      for (double &value : entry.getValue().values)
        if (value == 0 && !entry.getValue().shape.empty())
          value = random(engine);
  std::vector<Variables> devices = shardVariables(*local, mesh, variables);

  // Calls the programs in the order of a training run.
  int64_t shape[] = {param.model.batch, param.model.sequence};
  for (StringRef name : {"gradients", "step", "accumulate", "accumulate",
                         "update", "step", "evaluate"}) {
    auto function = global->lookupSymbol<func::FuncOp>(name);
    if (!function)
      continue;
    auto localFunction = local->lookupSymbol<func::FuncOp>(name);
    std::vector<Tensor> arguments;
    std::vector<std::vector<Tensor>> localArguments(devices.size());
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      arguments.push_back(
          randomIds(shape, param.model.vocabulary, /*ignoreSome=*/i == 1));
      auto sharding =
          localFunction.getArgAttrOfType<ShardingAttr>(i, kShardingAttrName);
      auto parts = shardTensor(arguments.back(), sharding, mesh, /*padding=*/1);
      for (auto [mine, part] : llvm::zip(localArguments, parts))
        mine.push_back(part);
    }
    auto expected = interpret(function, arguments, variables);
    ASSERT_TRUE(succeeded(expected)) << diagnostics;
    auto results = interpretGrid(localFunction, mesh, localArguments, devices);
    ASSERT_TRUE(succeeded(results)) << diagnostics;
    expectResults(localFunction, mesh, *expected, *results);

    // Compares the variables, including their padding.
    for (VariableOp variable : local->getOps<VariableOp>()) {
      StringRef symbol = variable.getSymName();
      Tensor wanted = valueOf(variable, variables);
      if (variable.getStorageAttr().isPartial()) {
        std::vector<Tensor> mine;
        for (Variables &device : devices)
          mine.push_back(device[symbol]);
        auto sum = unshardTensor(mine, variable.getStorageAttr(), mesh,
                                 wanted.shape, 1e-10);
        ASSERT_TRUE(bool(sum)) << llvm::toString(sum.takeError());
        expectNear(wanted, *sum, (name + " " + symbol).str());
        continue;
      }
      auto parts = shardTensor(wanted, variable.getStorageAttr(), mesh);
      for (auto [device, part] : llvm::zip(devices, parts))
        expectNear(part, device[symbol], (name + " " + symbol).str());
    }
    if (HasFailure())
      return;
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, EquivalenceTest,
                         testing::ValuesIn(test::getEquivalenceCases()),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

} // namespace
