//===- ControlFlowTest.cpp - Random programs with loops, branches, calls --===//
//
// Generates programs in which loops, branches and calls nest at random. All
// tensors are square matrices of one size, so every op can take every value.
// Pins random axes to random factors and shards arguments and results at
// random. Expects that the grid of devices computes the numbers of the global
// program, and that the order of ops in the text does not change what
// propagation decides.
//
//===----------------------------------------------------------------------===//

#include "ProgramTest.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace heddle;

namespace {

class Generator : public Random {
public:
  /// `element` is the element type of all tensors.
  explicit Generator(uint64_t seed, std::string element = "f64")
      : Random(seed), element(std::move(element)) {}

  /// Returns a program whose @f may call @layer. Both may have control flow.
  std::string run() {
    size = pick(4, 6);
    vector = "tensor<" + std::to_string(size) + "x" + element + ">";
    type = "tensor<" + std::to_string(size) + "x" + std::to_string(size) + "x" +
           element + ">";
    std::string text = addFunction("func.func private @layer", 2, 1, false);
    return text + addFunction("func.func @f", 4, 2, true);
  }

private:
  using Values = std::vector<std::string>;

  std::string addFunction(const std::string &head, int arguments, int results,
                          bool calls) {
    body.clear();
    mayCall = calls;
    Values values;
    std::string list, types;
    for (int i = 0; i < arguments; ++i) {
      values.push_back("%arg" + std::to_string(i));
      list += (i ? ", " : "") + values.back() + ": " + type;
    }
    for (int i = 0; i < results; ++i)
      types += (i ? ", " : "") + type;
    emit("%c0 = arith.constant 0 : index");
    emit("%c1 = arith.constant 1 : index");
    addOps(values, pick(2, 7), /*depth=*/calls ? 2 : 1);
    std::string names;
    for (int i = 0; i < results; ++i)
      names += (i ? ", " : "") + any(values);
    emit("return " + names + " : " + types);
    return head + "(" + list + ") -> (" + types + ") {\n" + body + "}\n";
  }

  void emit(const std::string &line) { body += "  " + line + "\n"; }
  std::string fresh() { return "%v" + std::to_string(next++); }
  /// Returns a random value, more often a late one.
  std::string any(const Values &values) {
    return values[std::max(pick(0, values.size() - 1),
                           pick(0, values.size() - 1))];
  }

  void addOps(Values &values, int count, int depth) {
    for (int i = 0; i < count; ++i)
      addOp(values, depth);
  }

  void addOp(Values &values, int depth) {
    std::string a = any(values), b = any(values), v = fresh();
    switch (pick(0, depth > 0 ? 9 : 5)) {
    case 0:
      emit(v + " = math.tanh " + a + " : " + type);
      break;
    case 1:
      emit(v + " = arith.addf " + a + ", " + b + " : " + type);
      break;
    case 2: {
      const char *forms[] = {"[ab, bc -> ac]", "[ab, cb -> ac]",
                             "[ab, bc -> ca]"};
      emit(v + " = heddle.contract " + forms[pick(0, 2)] + " " + a + ", " + b +
           " : (" + type + ", " + type + ") -> " + type);
      break;
    }
    case 3: {
      std::string dim = std::to_string(pick(0, 1)), sum = fresh();
      emit(sum + " = heddle.reduce sum " + a + " over [" + dim + "] : " + type +
           " -> " + vector);
      emit(v + " = heddle.broadcast " + sum + " along [" +
           std::to_string(pick(0, 1)) + "] : " + vector + " -> " + type);
      break;
    }
    case 4:
      emit(v + " = arith.mulf " + a + ", " + b + " : " + type);
      break;
    case 5:
      if (!mayCall)
        return addOp(values, depth);
      emit(v + " = func.call @layer(" + a + ", " + b + ") : (" + type + ", " +
           type + ") -> " + type);
      break;
    case 6:
    case 7:
      addFor(values, a, b, v, depth);
      return;
    case 8:
      addIf(values, a, v, depth);
      break;
    case 9:
      addWhile(values, a, v, depth);
      break;
    }
    values.push_back(v);
  }

  /// Emits a comparison of a value's sum with a number that such a sum is
  /// unlikely to come near, so that rounding does not decide.
  std::string addDecision(const std::string &a) {
    std::string sum = fresh(), number = fresh(), bound = fresh(),
                condition = fresh();
    emit(sum + " = heddle.reduce sum " + a + " over [0, 1] : " + type +
         " -> tensor<" + element + ">");
    emit(number + " = tensor.extract " + sum + "[] : tensor<" + element + ">");
    emit(bound + " = arith.constant 0.12345 : " + element);
    emit(condition + " = arith.cmpf ogt, " + number + ", " + bound + " : " +
         element);
    return condition;
  }

  /// Emits a number of iterations: a constant, or one of two constants, which a
  /// condition on `a` selects.
  std::string addCount(const std::string &a) {
    auto constant = [&] {
      std::string count = fresh();
      emit(count + " = arith.constant " + std::to_string(pick(0, 3)) +
           " : index");
      return count;
    };
    std::string count = constant();
    if (pick(0, 1))
      return count;
    std::string condition = addDecision(a), other = constant(),
                chosen = fresh();
    emit(chosen + " = arith.select " + condition + ", " + count + ", " + other +
         " : index");
    return chosen;
  }

  void addFor(Values &values, const std::string &a, const std::string &b,
              const std::string &v, int depth) {
    std::string count = addCount(a), x = fresh(), y = fresh();
    emit(v + ":2 = scf.for " + x + "i = %c0 to " + count +
         " step %c1 iter_args(" + x + " = " + a + ", " + y + " = " + b +
         ") -> (" + type + ", " + type + ") {");
    Values inner = values;
    inner.push_back(x);
    inner.push_back(y);
    addOps(inner, pick(1, 4), depth - 1);
    emit("scf.yield " + any(inner) + ", " + any(inner) + " : " + type + ", " +
         type);
    emit("}");
    values.push_back(v + "#0");
    values.push_back(v + "#1");
  }

  void addIf(Values &values, const std::string &a, const std::string &v,
             int depth) {
    std::string condition = addDecision(a);
    emit(v + " = scf.if " + condition + " -> " + type + " {");
    for (int branch = 0; branch < 2; ++branch) {
      Values inner = values;
      addOps(inner, pick(0, 3), depth - 1);
      emit("scf.yield " + any(inner) + " : " + type);
      emit(branch ? "}" : "} else {");
    }
  }

  /// Emits an `scf.while`. Its `before` region passes two tensors and an index
  /// to `after`, which passes one tensor and the index back, in another order.
  /// The loop ends after some iterations, or by a condition on the numbers.
  void addWhile(Values &values, const std::string &a, const std::string &v,
                int depth) {
    std::string limit = addCount(a), h = fresh(), i = fresh(), more = fresh(),
                g = fresh(), f = fresh(), j = fresh(), k = fresh();
    std::string forward = "index, " + type + ", " + type;
    emit(v + "w:3 = scf.while (" + h + " = " + a + ", " + i + " = %c0) : (" +
         type + ", index) -> (" + forward + ") {");
    Values before = values;
    before.push_back(h);
    addOps(before, pick(0, 2), depth - 1);
    emit(more + " = arith.cmpi slt, " + i + ", " + limit + " : index");
    if (pick(0, 1)) {
      std::string decision = addDecision(any(before)), both = fresh();
      emit(both + " = arith.andi " + more + ", " + decision + " : i1");
      more = both;
    }
    emit("scf.condition(" + more + ") " + i + ", " + before.back() + ", " +
         any(before) + " : " + forward);
    emit("} do {");
    emit("^bb0(" + j + ": index, " + g + ": " + type + ", " + f + ": " + type +
         "):");
    Values after = values;
    after.push_back(f);
    after.push_back(g);
    addOps(after, pick(0, 2), depth - 1);
    emit(k + " = arith.addi " + j + ", %c1 : index");
    emit("scf.yield " + after.back() + ", " + k + " : " + type + ", index");
    emit("}");
    emit(v + " = arith.addf " + v + "w#1, " + v + "w#2 : " + type);
    emit(v + "t = math.tanh " + v + " : " + type);
    values.push_back(v + "t");
  }

  int64_t size = 4;
  std::string element, type, vector, body;
  bool mayCall = false;
  int next = 0;
};

class ControlFlowTest : public ProgramTest {
protected:
  /// Makes a program with random factors and random shardings of arguments.
  OwningOpRef<ModuleOp> make(Generator &random) {
    const char *meshes[] = {"[\"a\"=2, \"b\"=2]", "[\"a\"=3, \"b\"=2]",
                            "[\"a\"=4]"};
    text = "heddle.mesh @mesh <" + std::string(meshes[random.pick(0, 2)]) +
           ">\n" + random.run();
    auto module = parseSourceString<ModuleOp>(text, &context);
    if (!module)
      return module;
    MeshRef mesh = getMesh(*module);
    module->walk([&](Operation *op) {
      auto shardable = dyn_cast<ShardingRuleOpInterface>(op);
      if (!shardable || random.pick(0, 3))
        return;
      ShardingRule rule = shardable.getShardingRule();
      if (rule.factors.empty())
        return;
      FactorAxes axes(rule.factors.size());
      unsigned factor = random.pick(0, rule.factors.size() - 1);
      if (rule.factors[factor].kind != FactorKind::Replicate)
        axes[factor].push_back(randomAxis(mesh, random));
      writeFactorAxes(op, rule, axes);
    });
    shardArguments(module->lookupSymbol<func::FuncOp>("f"), mesh, random,
                   /*leaveOut=*/2);
    return module;
  }

  StringAttr randomAxis(MeshRef mesh, Generator &random) {
    auto axes = mesh.mesh.getAxes();
    return axes[random.pick(0, axes.size() - 1)].getName();
  }

  void checkNumbers(uint64_t seed);
  void checkOrder(uint64_t seed);

  std::string text;
};

void ControlFlowTest::checkNumbers(uint64_t seed) {
  // Written programs are compiled, and compiled products have f32 at most.
  Generator random(seed, isWriting() ? "f32" : "f64");
  OwningOpRef<ModuleOp> local = make(random);
  ASSERT_TRUE(local) << diagnostics << text;
  SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + toString(*local));
  if (writeInstead(*local, random, seed))
    return;
  OwningOpRef<ModuleOp> global = local->clone();
  ASSERT_TRUE(partition(*local, "func.func(heddle-combine-collectives)"))
      << diagnostics;
  SCOPED_TRACE(toString(*local));
  expectSameNumbers(*global, *local, random, {1e-8, /*toLargest=*/true});
}

TEST_F(ControlFlowTest, SameNumbersAsOneDevice) {
  int count = countFromEnvironment("HEDDLE_RANDOM_PROGRAMS", 200, 2000);
  int first = countFromEnvironment("HEDDLE_RANDOM_FIRST", 1, 1);
  for (int seed = first; seed < first + count; ++seed) {
    checkNumbers(seed);
    if (HasFatalFailure())
      return;
  }
}

/// Moves ops to random places in their blocks, and functions in the module.
void shuffle(ModuleOp module, Generator &random) {
  module.walk([&](Block *block) {
    SmallVector<Operation *> ops;
    for (Operation &op : *block)
      if (!op.hasTrait<OpTrait::IsTerminator>())
        ops.push_back(&op);
    for (Operation *op : ops) {
      if (isa<heddle::MeshOp>(op))
        continue;
      // Moves the op up to a place below the ops that it uses.
      SmallVector<Operation *> places{op};
      for (Operation *before = op->getPrevNode(); before;
           before = before->getPrevNode()) {
        bool uses = llvm::any_of(before->getUsers(), [&](Operation *user) {
          return op == block->findAncestorOpInBlock(*user);
        });
        if (uses)
          break;
        places.push_back(before);
      }
      Operation *place = places[random.pick(0, places.size() - 1)];
      if (place != op)
        op->moveBefore(place);
    }
  });
}

void ControlFlowTest::checkOrder(uint64_t seed) {
  Generator random(seed);
  OwningOpRef<ModuleOp> module = make(random);
  ASSERT_TRUE(module) << diagnostics << text;
  SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + toString(*module));
  int64_t id = 0;
  Builder builder(&context);
  module->walk([&](Operation *op) {
    op->setAttr("test.id", builder.getI64IntegerAttr(id++));
  });
  OwningOpRef<ModuleOp> other = module->clone();
  shuffle(*other, random);
  ASSERT_TRUE(runPasses(*module, "heddle-propagate-shardings")) << diagnostics;
  ASSERT_TRUE(runPasses(*other, "heddle-propagate-shardings")) << diagnostics;
  DenseMap<Attribute, Operation *> byId;
  other->walk([&](Operation *op) { byId[op->getAttr("test.id")] = op; });
  module->walk([&](Operation *op) {
    for (StringRef name : {"heddle.factors", "heddle.carried", "arg_attrs"})
      EXPECT_EQ(op->getAttr(name), byId[op->getAttr("test.id")]->getAttr(name))
          << toString(*module) << toString(*other);
  });
}

TEST_F(ControlFlowTest, OrderOfOpsDecidesNothing) {
  for (int seed = 1; seed <= 100; ++seed) {
    checkOrder(seed);
    if (HasFailure())
      return;
  }
}

} // namespace
