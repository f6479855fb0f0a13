//===- RandomLinalgTest.cpp - Random programs of other compilers' ops -----===//
//
// Straight-line programs of linalg, tensor, arith and math on awkward sizes,
// with windows, strides, padding, indices and reductions of several bodies, no
// Heddle op, and random shardings of arguments and results. Each either gives
// the global program's numbers on the grid, or an error that names an op.
// HEDDLE_RANDOM_LINALG sets the number of programs.
//
//===----------------------------------------------------------------------===//

#include "heddle/InitAll.h"
#include "heddle/Interpreter/Grid.h"
#include "heddle/Shard/FactorShardings.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "gtest/gtest.h"
#include <cmath>
#include <random>

using namespace mlir;
using namespace heddle;

namespace {

using Shape = SmallVector<int64_t>;

std::string join(ArrayRef<int64_t> numbers) {
  std::string text;
  for (int64_t number : numbers)
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  return "[" + text + "]";
}

/// Writes a function of random ops; values are named by number.
class Generator {
public:
  explicit Generator(uint64_t seed) : engine(seed) {}

  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine);
  }

  std::string run(int numOps) {
    std::string arguments;
    for (int i = 0; i < 4; ++i) {
      Shape shape;
      for (int64_t rank = pick(0, 3); rank > 0; --rank)
        shape.push_back(pick(1, 7));
      arguments += (i ? ", " : "") + name(values.size()) + ": " + type(shape);
      argumentShapes.push_back(shape);
      values.push_back(shape);
    }
    for (int i = 0; i < numOps; ++i)
      addOp();
    std::string names, types;
    for (int i = 0; i < 3; ++i) {
      size_t v = values.size() - 1 - pick(0, 3);
      names += (i ? ", " : "") + name(v);
      types += (i ? ", " : "") + type(values[v]);
    }
    return "func.func @f(" + arguments + ") -> (" + types + ") {\n" + body +
           "  return " + names + " : " + types + "\n}\n";
  }

  std::mt19937_64 engine;
  std::vector<Shape> argumentShapes;

private:
  static std::string type(ArrayRef<int64_t> shape) {
    std::string text = "tensor<";
    for (int64_t size : shape)
      text += std::to_string(size) + "x";
    return text + "f64>";
  }
  static std::string name(size_t value) { return "%v" + std::to_string(value); }
  size_t any() { return pick(0, values.size() - 1); }
  void emit(const std::string &text, const Shape &shape) {
    body += "  " + name(values.size()) + " = " + text + "\n";
    values.push_back(shape);
  }
  std::string helper(const std::string &text) {
    std::string result = "%h" + std::to_string(helpers++);
    body += "  " + result + " = " + text + "\n";
    return result;
  }
  std::string number(const char *text) {
    return helper(std::string("arith.constant ") + text + " : f64");
  }
  std::string filled(const Shape &shape, const char *value) {
    std::string scalar = number(value);
    std::string empty = helper("tensor.empty() : " + type(shape));
    return helper("linalg.fill ins(" + scalar + " : f64) outs(" + empty +
                  " : " + type(shape) + ") -> " + type(shape));
  }
  static std::string loops(ArrayRef<int64_t> positions) {
    std::string text;
    for (int64_t position : positions)
      text += (text.empty() ? "d" : ", d") + std::to_string(position);
    return "(" + text + ")";
  }
  static Shape iota(size_t count) {
    Shape all(count);
    for (size_t i = 0; i < count; ++i)
      all[i] = i;
    return all;
  }

  void addOp() {
    size_t x = any();
    Shape shape = values[x];
    switch (pick(0, 15)) {
    case 0:
    case 1:
      return addElementwise(x, shape);
    case 2:
    case 3:
      return addGeneric(x, shape);
    case 4:
    case 5:
      return addReduction(x, shape);
    case 6:
      return addProduct(x, shape);
    case 7:
    case 8:
      return addConvolution(x, shape);
    case 9:
      return addPooling(x, shape);
    case 10:
    case 11:
      return addPad(x, shape);
    case 12:
      return addSlice(x, shape);
    case 13:
      return addConcat(x, shape);
    case 14:
      return addReshape(x, shape);
    default: // bounded, so that nothing overflows
      return emit("math.tanh " + name(x) + " : " + type(shape), shape);
    }
  }

  void addElementwise(size_t x, const Shape &shape) {
    size_t y = any();
    for (int i = 0; i < 20 && values[y] != shape; ++i)
      y = any();
    if (values[y] != shape)
      y = x;
    const char *ops[] = {"arith.addf", "arith.subf", "arith.mulf",
                         "arith.maximumf"};
    emit(ops[pick(0, 3)] + std::string(" ") + name(x) + ", " + name(y) + " : " +
             type(shape),
         shape);
  }

  /// A transposition with a broadcast loop and, at times, the position added.
  void addGeneric(size_t x, const Shape &shape) {
    if (shape.empty() || shape.size() > 2)
      return;
    size_t rank = shape.size() + 1;
    Shape order = iota(rank), result(rank), from;
    std::shuffle(order.begin(), order.end(), engine);
    for (size_t i = 0; i < shape.size(); ++i) {
      result[order[i]] = shape[i];
      from.push_back(order[i]);
    }
    result[order.back()] = pick(1, 5);
    std::string empty = helper("tensor.empty() : " + type(result));
    std::string in = loops(iota(rank)), code = "      linalg.yield %a : f64\n";
    if (pick(0, 1))
      code =
          "      %i = linalg.index " + std::to_string(pick(0, rank - 1)) +
          " : index\n      %j = arith.index_cast %i : index to i64\n"
          "      %k = arith.sitofp %j : i64 to f64\n"
          "      %s = arith.addf %a, %k : f64\n      linalg.yield %s : f64\n";
    std::string iterators;
    for (size_t i = 0; i < rank; ++i)
      iterators += std::string(i ? ", " : "") + "\"parallel\"";
    emit("linalg.generic {indexing_maps = [affine_map<" + in + " -> " +
             loops(from) + ">, affine_map<" + in + " -> " + in +
             ">], iterator_types = [" + iterators + "]} ins(" + name(x) +
             " : " + type(shape) + ") outs(" + empty + " : " + type(result) +
             ") {\n    ^bb0(%a: f64, %b: f64):\n" + code + "  } -> " +
             type(result),
         result);
  }

  void addReduction(size_t x, const Shape &shape) {
    if (shape.empty())
      return;
    Shape kept, sizes;
    std::string iterators;
    for (size_t i = 0; i < shape.size(); ++i) {
      bool reduced = pick(0, 1);
      iterators += std::string(i ? ", " : "") +
                   (reduced ? "\"reduction\"" : "\"parallel\"");
      if (!reduced) {
        kept.push_back(i);
        sizes.push_back(shape[i]);
      }
    }
    const char *bodies[] = {"      %r = arith.addf %a, %b : f64\n",
                            "      %m = arith.mulf %a, %a : f64\n"
                            "      %r = arith.addf %m, %b : f64\n",
                            "      %m = math.cos %a : f64\n"
                            "      %r = arith.addf %b, %m : f64\n",
                            "      %r = arith.maximumf %a, %b : f64\n",
                            "      %m = arith.negf %a : f64\n"
                            "      %r = arith.maximumf %b, %m : f64\n",
                            "      %r = arith.minimumf %a, %b : f64\n"};
    const char *starts[] = {"0.0", "0.5", "-2.0"};
    std::string init = filled(sizes, starts[pick(0, 2)]);
    std::string in = loops(iota(shape.size()));
    emit("linalg.generic {indexing_maps = [affine_map<" + in + " -> " + in +
             ">, affine_map<" + in + " -> " + loops(kept) +
             ">], iterator_types = [" + iterators + "]} ins(" + name(x) +
             " : " + type(shape) + ") outs(" + init + " : " + type(sizes) +
             ") {\n    ^bb0(%a: f64, %b: f64):\n" + bodies[pick(0, 5)] +
             "      linalg.yield %r : f64\n  } -> " + type(sizes),
         sizes);
  }

  /// x times its own transposition.
  void addProduct(size_t x, const Shape &shape) {
    if (shape.size() != 2 && shape.size() != 3)
      return;
    bool batched = shape.size() == 3;
    Shape result = shape;
    result.back() = shape[shape.size() - 2];
    std::string init = filled(result, pick(0, 2) ? "0.0" : "0.25");
    std::string ins =
        name(x) + ", " + name(x) + " : " + type(shape) + ", " + type(shape);
    emit(std::string(batched ? "linalg.batch_matmul_transpose_b"
                             : "linalg.matmul_transpose_b") +
             " ins(" + ins + ") outs(" + init + " : " + type(result) + ") -> " +
             type(result),
         result);
  }

  /// Over each dimension with a window of its own beginning.
  void addConvolution(size_t x, const Shape &shape) {
    if (shape.empty() || shape.size() > 2)
      return;
    Shape window, result;
    for (int64_t size : shape) {
      window.push_back(pick(1, std::min<int64_t>(size, 4)));
      result.push_back(size - window.back() + 1);
    }
    std::string filter = filled(window, "0.5");
    std::string init = filled(result, pick(0, 2) ? "0.0" : "-1.0");
    emit(std::string(shape.size() == 1 ? "linalg.conv_1d" : "linalg.conv_2d") +
             " ins(" + name(x) + ", " + filter + " : " + type(shape) + ", " +
             type(window) + ") outs(" + init + " : " + type(result) + ") -> " +
             type(result),
         result);
  }

  void addPooling(size_t x, const Shape &shape) {
    if (shape.size() != 3)
      return;
    int64_t stride = pick(1, 2), dilation = pick(1, 2), window = pick(1, 3);
    int64_t reach = (window - 1) * dilation + 1;
    if (shape[1] < reach)
      return;
    Shape result = {shape[0], (shape[1] - reach) / stride + 1, shape[2]};
    const char *kinds[] = {"max", "sum", "min"};
    const char *starts[] = {"-10.0", "0.0", "10.0"};
    int64_t kind = pick(0, 2);
    std::string init = filled(result, starts[kind]);
    std::string size = helper("tensor.empty() : " + type({window}));
    emit(std::string("linalg.pooling_nwc_") + kinds[kind] +
             " {strides = dense<" + std::to_string(stride) +
             "> : tensor<1xi64>, dilations = dense<" +
             std::to_string(dilation) + "> : tensor<1xi64>} ins(" + name(x) +
             ", " + size + " : " + type(shape) + ", " + type({window}) +
             ") outs(" + init + " : " + type(result) + ") -> " + type(result),
         result);
  }

  void addPad(size_t x, const Shape &shape) {
    if (shape.empty())
      return;
    Shape low, high, result;
    std::string arguments;
    for (auto [i, size] : llvm::enumerate(shape)) {
      low.push_back(pick(0, 2));
      high.push_back(pick(0, 1));
      result.push_back(size + low.back() + high.back());
      arguments += (i ? ", %i" : "%i") + std::to_string(i) + ": index";
    }
    std::string value = number(pick(0, 1) ? "0.0" : "1.5");
    emit("tensor.pad " + name(x) + " low" + join(low) + " high" + join(high) +
             " {\n    ^bb0(" + arguments + "):\n      tensor.yield " + value +
             " : f64\n  } : " + type(shape) + " to " + type(result),
         result);
  }

  void addSlice(size_t x, const Shape &shape) {
    if (shape.empty())
      return;
    Shape offsets, sizes, strides;
    for (int64_t size : shape) {
      bool whole = pick(0, 1);
      offsets.push_back(whole ? 0 : pick(0, size - 1));
      strides.push_back(whole ? 1 : pick(1, 2));
      sizes.push_back(
          whole ? size
                : pick(1, (size - offsets.back() - 1) / strides.back() + 1));
    }
    std::string where = join(offsets) + " " + join(sizes) + " " + join(strides);
    emit("tensor.extract_slice " + name(x) + where + " : " + type(shape) +
             " to " + type(sizes),
         sizes);
    if (pick(0, 1))
      emit("tensor.insert_slice " + name(values.size() - 1) + " into " +
               name(x) + where + " : " + type(sizes) + " into " + type(shape),
           shape);
  }

  void addConcat(size_t x, const Shape &shape) {
    if (shape.empty())
      return;
    int64_t dim = pick(0, shape.size() - 1);
    Shape result = shape;
    result[dim] *= 2;
    if (result[dim] > 12)
      return;
    emit("tensor.concat dim(" + std::to_string(dim) + ") " + name(x) + ", " +
             name(x) + " : (" + type(shape) + ", " + type(shape) + ") -> " +
             type(result),
         result);
  }

  void addReshape(size_t x, const Shape &shape) {
    if (shape.size() < 2)
      return;
    Shape merged(shape.begin() + 1, shape.end());
    merged[0] *= shape[0];
    std::string groups = "[[0, 1]";
    for (size_t i = 2; i < shape.size(); ++i)
      groups += ", [" + std::to_string(i) + "]";
    groups += "]";
    emit("tensor.collapse_shape " + name(x) + " " + groups + " : " +
             type(shape) + " into " + type(merged),
         merged);
    if (pick(0, 1))
      return;
    emit("tensor.expand_shape " + name(values.size() - 1) + " " + groups +
             " output_shape " + join(shape) + " : " + type(merged) + " into " +
             type(shape),
         shape);
  }

  std::vector<Shape> values;
  std::string body;
  int helpers = 0;
};

class RandomLinalgTest : public testing::Test {
protected:
  RandomLinalgTest() {
    DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
        diagnostics += diagnostic.str() + "\n";
    });
    static bool registered = (registerAllPasses(), true);
    (void)registered;
  }

  ShardingAttr randomSharding(int64_t rank, MeshRef mesh, Generator &random) {
    DimensionAxes dims(rank);
    for (MeshAxisAttr axis : mesh.mesh.getAxes())
      if (rank > 0 && random.pick(0, 3))
        dims[random.pick(0, rank - 1)].push_back(axis.getName());
    return makeSharding(mesh, dims);
  }

  void check(uint64_t seed);

  MLIRContext context;
  std::string diagnostics;
  int refused = 0;
};

void RandomLinalgTest::check(uint64_t seed) {
  diagnostics.clear();
  Generator random(seed);
  const char *meshes[] = {"[\"a\"=2, \"b\"=2]", "[\"a\"=3, \"b\"=2]",
                          "[\"a\"=4]", "[\"a\"=2]"};
  std::string text = "heddle.mesh @mesh <" +
                     std::string(meshes[random.pick(0, 3)]) + ">\n" +
                     random.run(random.pick(1, 9));
  SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
  auto global = parseSourceString<ModuleOp>(text, &context);
  ASSERT_TRUE(global) << diagnostics;
  OwningOpRef<ModuleOp> local = global->clone();
  MeshRef mesh = getMesh(*local);
  auto function = local->lookupSymbol<func::FuncOp>("f");
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (random.pick(0, 3))
      function.setArgAttr(
          i, kShardingAttrName,
          randomSharding(random.argumentShapes[i].size(), mesh, random));
  for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
    if (random.pick(0, 1))
      function.setResultAttr(
          i, kShardingAttrName,
          randomSharding(cast<RankedTensorType>(type).getRank(), mesh, random));
  std::string annotated;
  llvm::raw_string_ostream(annotated) << *local;
  SCOPED_TRACE(annotated);

  PassManager manager(&context);
  ASSERT_TRUE(succeeded(parsePassPipeline(
      "heddle-propagate-shardings,heddle-insert-reshards,heddle-localize,"
      "heddle-verify-localized,canonicalize,cse",
      manager)));
  if (failed(manager.run(*local))) {
    // The op that cannot be split, and why.
    ASSERT_NE(diagnostics.find("' op "), std::string::npos) << diagnostics;
    if (std::getenv("HEDDLE_RANDOM_SHOW"))
      llvm::errs() << "seed " << seed << ": " << diagnostics;
    ++refused;
    return;
  }

  std::vector<Tensor> arguments;
  std::vector<std::vector<Tensor>> localArguments(mesh.mesh.getNumDevices());
  for (auto [i, shape] : llvm::enumerate(random.argumentShapes)) {
    Tensor tensor(shape);
    for (double &value : tensor.values)
      value = random.pick(-100, 100) / 100.0;
    auto sharding =
        function.getArgAttrOfType<ShardingAttr>(i, kShardingAttrName);
    // What lies beyond the end of an argument may be anything.
    auto parts = shardTensor(tensor, sharding, mesh.mesh, /*padding=*/NAN);
    for (auto [device, part] : llvm::zip(localArguments, parts))
      device.push_back(part);
    arguments.push_back(std::move(tensor));
  }
  Variables none;
  auto expected =
      interpret(global->lookupSymbol<func::FuncOp>("f"), arguments, none);
  ASSERT_TRUE(succeeded(expected)) << diagnostics;
  std::vector<Variables> variables(localArguments.size());
  auto devices = interpretGrid(function, mesh.mesh, localArguments, variables);
  std::string localText;
  llvm::raw_string_ostream(localText) << *local;
  SCOPED_TRACE(localText);
  ASSERT_TRUE(succeeded(devices)) << diagnostics;
  for (auto [i, wanted] : llvm::enumerate(*expected)) {
    std::vector<Tensor> parts;
    for (auto &device : *devices)
      parts.push_back(device[i]);
    auto whole = unshardTensor(
        parts, function.getResultAttrOfType<ShardingAttr>(i, kShardingAttrName),
        mesh.mesh, wanted.shape, 1e-9);
    ASSERT_TRUE(bool(whole)) << llvm::toString(whole.takeError());
    for (auto [a, b] : llvm::zip(wanted.values, whole->values))
      ASSERT_NEAR(a, b, 1e-9 * std::max(1.0, std::abs(a))) << "result " << i;
  }
}

TEST_F(RandomLinalgTest, SameNumbersOrAnErrorAtAnOp) {
  int count = 300;
  if (const char *wanted = std::getenv("HEDDLE_RANDOM_LINALG"))
    count = std::atoi(wanted);
  for (int seed = 1; seed <= count; ++seed) {
    check(seed);
    if (HasFatalFailure())
      return;
  }
  RecordProperty("refused", refused);
  llvm::errs() << refused << " of " << count << " programs refused\n";
  // An error is an answer, but it must not become the usual one.
  EXPECT_LE(refused, count / 20 + 1);
}

} // namespace
