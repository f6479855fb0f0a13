//===- DecomposeTest.cpp - Hierarchical collectives give the same ---------===//
//
// The published system gathers between servers, then inside, and leaves the
// chunks in the order 0, p, 1, p + 1, …; here every device has to hold, element
// for element, what the one collective gives it.
//
//===----------------------------------------------------------------------===//

#include "dialects/Comm/Comm.h"
#include "mlir/Parser/Parser.h"
#include "test/support/Interpreter/Grid.h"
#include "test/support/WithContext.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace heddle;

namespace {

class DecomposeTest : public testing::Test, protected test::WithContext {
protected:
  /// One collective in a function; `mesh` as a=2, b=3.
  static std::string program(StringRef mesh, StringRef collective,
                             ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
    auto type = [](ArrayRef<int64_t> shape) {
      std::string text = "tensor<";
      for (int64_t size : shape)
        text += std::to_string(size) + "x";
      return text + "f64>";
    };
    std::string types =
        type(from) +
        (collective.contains("all_reduce") ? "" : " -> " + type(to));
    return "heddle.mesh @mesh <[" + mesh.str() +
           "]>\nfunc.func @f(%x: " + type(from) + ") -> " + type(to) +
           " {\n  %y = comm." + collective.str() + " : " + types +
           "\n  return %y : " + type(to) + "\n}\n";
  }

  /// What each device has after the passes and the program.
  std::vector<Tensor> run(const std::string &text, ArrayRef<int64_t> shape,
                          StringRef passes, int64_t &collectives) {
    auto module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    EXPECT_TRUE(runPasses(*module, passes)) << diagnostics << text;
    collectives = 0;
    module->walk([&](Operation *op) {
      collectives += isa<comm::CommDialect>(op->getDialect());
    });
    MeshAttr mesh = (*module->getOps<MeshOp>().begin()).getMesh();
    std::vector<std::vector<Tensor>> arguments;
    // Digits tell who contributed what: devices 1, 10, 100, …, rows 1, 2, ….
    double weight = 1;
    for (int64_t device = 0; device < mesh.getNumDevices(); ++device) {
      Tensor tensor(shape);
      for (auto [i, value] : llvm::enumerate(tensor.values))
        value = weight * (1 + double(i) / 1024);
      arguments.push_back({tensor});
      weight *= 10;
    }
    std::vector<Variables> variables(arguments.size());
    auto grid = interpretGrid(module->lookupSymbol<func::FuncOp>("f"), mesh,
                              arguments, variables);
    EXPECT_TRUE(succeeded(grid)) << text;
    std::vector<Tensor> results;
    for (auto &device : *grid)
      results.push_back(device[0]);
    return results;
  }

  void compare(StringRef mesh, StringRef collective, ArrayRef<int64_t> from,
               ArrayRef<int64_t> to, int64_t collectives) {
    std::string text = program(mesh, collective, from, to);
    int64_t before = 0, after = 0;
    std::vector<Tensor> whole = run(text, from, "canonicalize", before);
    std::vector<Tensor> steps = run(
        text, from, "heddle-decompose-collectives{hierarchy=always}", after);
    EXPECT_EQ(before, 1);
    EXPECT_EQ(after, collectives) << text;
    ASSERT_EQ(whole.size(), steps.size());
    for (size_t device = 0; device < whole.size(); ++device) {
      ASSERT_EQ(whole[device].shape, steps[device].shape);
      for (auto [a, b] : llvm::zip(whole[device].values, steps[device].values))
        // Sums in another order.
        ASSERT_NEAR(a, b, 1e-12 * std::abs(a)) << text << "device " << device;
    }
  }
};

TEST_F(DecomposeTest, ChunksStayInOrder) {
  for (StringRef axes : {"{\"a\", \"b\"}", "{\"b\", \"a\"}"})
    for (int64_t dim : {0, 1}) {
      std::string over =
          "dim " + std::to_string(dim) + " over @mesh <" + axes.str() + ">";
      auto shape = [&](int64_t size) {
        SmallVector<int64_t> shape = {4, 4};
        shape[dim] = size;
        return shape;
      };
      for (auto [mesh, members] :
           {std::pair("\"a\"=2, \"b\"=2", 4), std::pair("\"a\"=2, \"b\"=3", 6),
            std::pair("\"a\"=3, \"b\"=2", 6)}) {
        // Sizes that divide, and that do not.
        for (int64_t missing : {0, 1, members - 1}) {
          int64_t whole = 3 * members - missing;
          compare(mesh, "all_gather %x " + over, shape(3), shape(whole), 2);
          compare(mesh, "reduce_scatter sum %x " + over, shape(whole), shape(3),
                  2);
          compare(mesh, "reduce_scatter max %x " + over, shape(whole), shape(3),
                  2);
        }
      }
    }
}

TEST_F(DecomposeTest, Sums) {
  for (StringRef kind : {"sum", "max"})
    for (SmallVector<int64_t> shape :
         {SmallVector<int64_t>{5, 3}, {7}, {2, 2, 2}}) {
      std::string reduce = "all_reduce " + kind.str() + " %x over @mesh <";
      compare("\"a\"=2, \"b\"=2", reduce + "{\"a\", \"b\"}>", shape, shape, 3);
      compare("\"a\"=2, \"b\"=3", reduce + "{\"b\", \"a\"}>", shape, shape, 3);
      // Three levels: between two parts inside.
      compare("\"a\"=2, \"b\"=2, \"c\"=2", reduce + "{\"a\", \"b\", \"c\"}>",
              shape, shape, 5);
      // An axis that is left out stays out.
      compare("\"a\"=2, \"b\"=2, \"c\"=2", reduce + "{\"a\", \"c\"}>", shape,
              shape, 3);
    }
  // Too small to be cut: as it was.
  compare("\"a\"=2, \"b\"=2", "all_reduce sum %x over @mesh <{\"a\", \"b\"}>",
          {}, {}, 1);
}

TEST_F(DecomposeTest, ThreeLevels) {
  compare("\"a\"=2, \"b\"=2, \"c\"=2",
          "all_gather %x dim 0 over @mesh <{\"b\", \"c\", \"a\"}>", {3}, {23},
          3);
  compare("\"a\"=2, \"b\"=2, \"c\"=2",
          "reduce_scatter sum %x dim 0 over @mesh <{\"b\", \"c\", \"a\"}>",
          {23}, {3}, 3);
}

} // namespace
