//===- DecomposeTest.cpp - Decomposed collectives against single ones -----===//
//
// Expects that a collective which heddle-decompose-collectives has cut into
// steps between and within servers gives every device the elements of the
// single collective, in the same order. So must the steps that
// heddle-pack-collectives has packed. (A published system gathers between
// servers of p devices first and leaves the chunks in the order 0, p, 1, p + 1,
// ….)
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
  /// Returns a program of one collective. `mesh` is the axes' text, such as
  /// `"a"=2, "b"=3`.
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

  /// Runs the passes on a program and then the program on all devices. Returns
  /// each device's result and sets `collectives` to the number of comm ops.
  std::vector<Tensor> run(const std::string &text, ArrayRef<int64_t> shape,
                          StringRef passes, int64_t &collectives) {
    auto module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    EXPECT_TRUE(runPasses(*module, passes)) << diagnostics << text;
    collectives = 0;
    bool isPacked = passes.contains("heddle-pack-collectives");
    module->walk([&](Operation *op) {
      collectives += isa<comm::CommDialect>(op->getDialect());
      EXPECT_TRUE(!isPacked || comm::isContiguous(op)) << text;
    });
    MeshAttr mesh = (*module->getOps<MeshOp>().begin()).getMesh();
    std::vector<std::vector<Tensor>> arguments;
    // A sum tells the devices and elements that contributed: element i of
    // device d is 10^d * (1 + i / 1024).
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
    for (StringRef pack : {"", ",heddle-pack-collectives"})
      compare(program(mesh, collective, from, to), from, collectives,
              "heddle-decompose-collectives{hierarchy=always}" + pack.str());
  }

  void compare(const std::string &text, ArrayRef<int64_t> from,
               int64_t collectives, StringRef passes) {
    int64_t before = 0, after = 0;
    std::vector<Tensor> whole = run(text, from, "canonicalize", before);
    std::vector<Tensor> steps = run(text, from, passes, after);
    EXPECT_EQ(before, 1);
    EXPECT_EQ(after, collectives) << text;
    ASSERT_EQ(whole.size(), steps.size());
    for (size_t device = 0; device < whole.size(); ++device) {
      ASSERT_EQ(whole[device].shape, steps[device].shape);
      for (auto [a, b] : llvm::zip(whole[device].values, steps[device].values))
        // The steps may sum in another order.
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
        // Sizes that are a multiple of the number of members, and others.
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
      // Three levels: the collective of the outermost level runs between the
      // two steps of each inner level.
      compare("\"a\"=2, \"b\"=2, \"c\"=2", reduce + "{\"a\", \"b\", \"c\"}>",
              shape, shape, 5);
      // The collective leaves out an axis, and so do its steps.
      compare("\"a\"=2, \"b\"=2, \"c\"=2", reduce + "{\"a\", \"c\"}>", shape,
              shape, 3);
    }
  // A scalar cannot be cut, so the collective stays as it is.
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

TEST_F(DecomposeTest, PackedExchanges) {
  constexpr int64_t kMembers = 3;
  for (auto [split, concat] :
       {std::pair(0, 1), std::pair(1, 0), std::pair(0, 2), std::pair(2, 0),
        std::pair(1, 2), std::pair(2, 1)})
    // Sizes that divide, and that do not; dimensions of one element between.
    for (int64_t missing : {0, 1, 2})
      for (int64_t other : {1, 2}) {
        SmallVector<int64_t> from(3, other), to(3, other);
        from[split] = 2 * kMembers - missing;
        to[split] = 2;
        from[concat] = 3;
        to[concat] = 3 * kMembers - missing;
        compare(program("\"a\"=2, \"b\"=3",
                        "all_to_all %x split " + std::to_string(split) +
                            " concat " + std::to_string(concat) +
                            " over @mesh <{\"b\"}>",
                        from, to),
                from, 1, "heddle-pack-collectives");
      }
}

} // namespace
