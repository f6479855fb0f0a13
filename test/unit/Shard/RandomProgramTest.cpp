//===- RandomProgramTest.cpp - Random programs, random assignments --------===//
//
// Generates straight-line programs of upstream and Heddle ops on sizes from 1
// to 6, pins random axes to random factors, and shards arguments and results at
// random. Expects that the grid of devices computes the global program's
// results. HEDDLE_RANDOM_PROGRAMS sets the number of programs.
//
//===----------------------------------------------------------------------===//

#include "ProgramTest.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace heddle;

namespace {

using Shape = SmallVector<int64_t>;

/// Writes a function of random ops.
class Generator : public Random {
public:
  using Random::Random;

  std::string run(int numOps) {
    std::string arguments;
    for (int i = 0; i < 4; ++i) {
      Shape shape;
      for (int64_t rank = pick(0, 3); rank > 0; --rank)
        shape.push_back(pick(1, 6));
      arguments += (i ? ", " : "") + std::string("%") +
                   std::to_string(values.size()) + ": " + type(shape);
      values.push_back(shape);
    }
    for (int i = 0; i < numOps; ++i)
      addOp();
    std::string names, types;
    for (int i = 0; i < 3; ++i) {
      size_t v = values.size() - 1 - pick(0, 3);
      names += (i ? ", %" : "%") + std::to_string(v);
      types += (i ? ", " : "") + type(values[v]);
    }
    // A value's name is its position in `values`.
    return "func.func @f(" + arguments + ") -> (" + types + ") {\n" + body +
           "  return " + names + " : " + types + "\n}\n";
  }

private:
  static std::string type(const Shape &shape) {
    std::string text = "tensor<";
    for (int64_t size : shape)
      text += std::to_string(size) + "x";
    return text + "f64>";
  }
  std::string name(size_t value) { return "%" + std::to_string(value); }
  size_t any() { return pick(0, values.size() - 1); }
  void emit(const std::string &text, const Shape &shape) {
    body += "  " + name(values.size()) + " = " + text + "\n";
    values.push_back(shape);
  }

  void addOp() {
    size_t x = any();
    Shape shape = values[x];
    switch (pick(0, 11)) {
    case 0: {
      const char *ops[] = {"math.tanh", "math.cos", "math.absf", "arith.negf"};
      return emit(ops[pick(0, 3)] + std::string(" ") + name(x) + " : " +
                      type(shape),
                  shape);
    }
    case 1:
    case 2: {
      // With another value of that shape, if there is one.
      size_t y = any();
      for (int i = 0; i < 20 && values[y] != shape; ++i)
        y = any();
      if (values[y] != shape)
        y = x;
      const char *ops[] = {"arith.addf", "arith.subf", "arith.mulf",
                           "arith.maximumf"};
      return emit(ops[pick(0, 3)] + std::string(" ") + name(x) + ", " +
                      name(y) + " : " + type(shape),
                  shape);
    }
    case 3:
      return addReduce(x, shape);
    case 4:
      return addBroadcast(x, shape);
    case 5:
    case 6:
      return addContract(x, shape);
    case 7:
      return addReshape(x, shape);
    case 8:
      return addSlice(x, shape);
    case 9: {
      if (shape.size() > 2)
        return;
      Shape stacked = {2};
      stacked.append(shape);
      return emit("heddle.stack " + name(x) + ", " + name(x) + " : " +
                      type(shape) + ", " + type(shape) + " -> " + type(stacked),
                  stacked);
    }
    case 10: {
      size_t y = any();
      return emit("heddle.barrier " + name(x) + " after " + name(y) + " : " +
                      type(shape) + " after " + type(values[y]),
                  shape);
    }
    default: // bounded, so that nothing overflows
      return emit("math.tanh " + name(x) + " : " + type(shape), shape);
    }
  }

  void addReduce(size_t x, const Shape &shape) {
    std::string over;
    Shape kept;
    for (size_t i = 0; i < shape.size(); ++i) {
      if (pick(0, 1))
        over += (over.empty() ? "" : ", ") + std::to_string(i);
      else
        kept.push_back(shape[i]);
    }
    emit(std::string("heddle.reduce ") + (pick(0, 2) ? "sum " : "max ") +
             name(x) + " over [" + over + "] : " + type(shape) + " -> " +
             type(kept),
         kept);
  }

  void addBroadcast(size_t x, const Shape &shape) {
    if (shape.size() > 2)
      return;
    size_t place = pick(0, shape.size());
    Shape larger = shape;
    larger.insert(larger.begin() + place, pick(1, 6));
    std::string along;
    for (size_t i = 0; i < larger.size(); ++i)
      if (i != place)
        along += (along.empty() ? "" : ", ") + std::to_string(i);
    emit("heddle.broadcast " + name(x) + " along [" + along +
             "] : " + type(shape) + " -> " + type(larger),
         larger);
  }

  /// Emits the product x^T x, [km, kn -> mn], with a batch dimension in front
  /// if x has rank 3.
  void addContract(size_t x, const Shape &shape) {
    if (shape.size() != 2 && shape.size() != 3)
      return;
    bool batched = shape.size() == 3;
    std::string lhs = batched ? "bkm" : "km", rhs = batched ? "bkn" : "kn",
                out = batched ? "bmn" : "mn";
    Shape result = {shape.back(), shape.back()};
    if (batched)
      result.insert(result.begin(), shape[0]);
    emit("heddle.contract \"c" + std::to_string(values.size()) + "\" [" + lhs +
             ", " + rhs + " -> " + out + "] " + name(x) + ", " + name(x) +
             " : (" + type(shape) + ", " + type(shape) + ") -> " + type(result),
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
    size_t y = values.size() - 1;
    if (pick(0, 1))
      return;
    std::string sizes;
    for (int64_t size : shape)
      sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
    emit("tensor.expand_shape " + name(y) + " " + groups + " output_shape [" +
             sizes + "] : " + type(merged) + " into " + type(shape),
         shape);
  }

  void addSlice(size_t x, const Shape &shape) {
    if (shape.empty())
      return;
    size_t cut = pick(0, shape.size() - 1);
    if (shape[cut] < 2)
      return;
    Shape part = shape;
    part[cut] -= 1;
    std::string offsets, sizes, strides;
    for (size_t i = 0; i < shape.size(); ++i) {
      std::string comma = i ? ", " : "";
      offsets += comma + (i == cut ? "1" : "0");
      sizes += comma + std::to_string(part[i]);
      strides += comma + "1";
    }
    emit("tensor.extract_slice " + name(x) + "[" + offsets + "] [" + sizes +
             "] [" + strides + "] : " + type(shape) + " to " + type(part),
         part);
  }

  std::vector<Shape> values;
  std::string body;
};

class RandomProgramTest : public ProgramTest {
protected:
  /// Pins random axes to random factors of some ops.
  void pinFactors(ModuleOp module, MeshRef mesh, Generator &random) {
    module.walk([&](ShardingRuleOpInterface op) {
      if (random.pick(0, 2) != 0)
        return;
      ShardingRule rule = getRule(op);
      FactorAxes axes(rule.factors.size());
      for (MeshAxisAttr axis : mesh.mesh.getAxes()) {
        if (axes.empty() || random.pick(0, 2) == 0)
          continue;
        unsigned factor = random.pick(0, axes.size() - 1);
        if (rule.factors[factor].kind == FactorKind::Replicate)
          continue;
        axes[factor].push_back(axis.getName());
        if (!isRepresentable(rule, axes, mesh.mesh))
          axes[factor].pop_back();
      }
      writeFactorAxes(op, rule, axes);
    });
  }

  /// Runs the passes `then` on the partitioned program.
  void check(uint64_t seed, const std::string &then);
};

void RandomProgramTest::check(uint64_t seed, const std::string &then) {
  Generator random(seed);
  const char *meshes[] = {"[\"a\"=2, \"b\"=2]", "[\"a\"=3, \"b\"=2]",
                          "[\"a\"=4]", "[\"a\"=2, \"b\"=2, \"c\"=2]"};
  std::string text = "heddle.mesh @mesh <" +
                     std::string(meshes[random.pick(0, 3)]) + ">\n" +
                     random.run(random.pick(1, 14));
  SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
  auto global = parseSourceString<ModuleOp>(text, &context);
  ASSERT_TRUE(global) << diagnostics;
  OwningOpRef<ModuleOp> local = global->clone();
  MeshRef mesh = getMesh(*local);
  pinFactors(*local, mesh, random);
  shardArguments(local->lookupSymbol<func::FuncOp>("f"), mesh, random,
                 /*leaveOut=*/2);
  SCOPED_TRACE(toString(*local));
  ASSERT_TRUE(partition(*local, then)) << diagnostics;
  SCOPED_TRACE(toString(*local));
  expectSameNumbers(*global, *local, random);
}

TEST_F(RandomProgramTest, SameNumbersAsOneDevice) {
  int count = countFromEnvironment("HEDDLE_RANDOM_PROGRAMS", 300, 2000);
  for (int seed = 1; seed <= count; ++seed) {
    check(seed, "func.func(heddle-combine-collectives)");
    if (HasFatalFailure())
      return;
  }
}

TEST_F(RandomProgramTest, SameNumbersWithCollectivesInFlight) {
  int count = countFromEnvironment("HEDDLE_RANDOM_PROGRAMS", 100, 2000);
  for (int seed = 1; seed <= count; ++seed) {
    check(seed, "heddle-start-collectives{order=random seed=" +
                    std::to_string(seed) + "}");
    if (HasFatalFailure())
      return;
  }
}

TEST_F(RandomProgramTest, SameNumbersInTheOrderOfTheScheduler) {
  int count = countFromEnvironment("HEDDLE_RANDOM_PROGRAMS", 100, 2000);
  for (int seed = 1; seed <= count; ++seed) {
    check(seed,
          "heddle-order-program{tries=20 seed=" + std::to_string(seed) + "}");
    if (HasFatalFailure())
      return;
  }
}

} // namespace
