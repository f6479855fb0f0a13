//===- ProgramTest.cpp - Programs through artifact and runtime ------------===//
//
// Compiles programs without kernels to artifacts and runs them with the
// runtime. Compares contractions with sums in double precision, and programs
// whose values share memory with the same programs without sharing.
//
//===----------------------------------------------------------------------===//

#include "dialects/Comm/Comm.h"
#include "heddle/Lower/Artifact.h"
#include "heddle/Lower/Passes.h"
#include "heddle_rt/session.h"
#include "lib/Lower/Products/ContractionLayout.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"
#include <filesystem>
#include <random>

using namespace mlir;
using namespace heddle;

namespace {

class ProgramTest : public ::testing::Test {
protected:
  ProgramTest() {
    context.loadDialect<HeddleDialect, comm::CommDialect, rt::RtDialect,
                        func::FuncDialect, tensor::TensorDialect,
                        arith::ArithDialect, LLVM::LLVMDialect>();
    directory = std::filesystem::temp_directory_path() /
                ("heddle-program-test-" + std::to_string(::getpid()));
  }
  ~ProgramTest() override { std::filesystem::remove_all(directory); }

  /// Compiles a module's text and loads the artifact. Returns null after a test
  /// failure.
  std::unique_ptr<runtime::Session> compile(const std::string &text,
                                            bool inPlace = true) {
    OwningOpRef<ModuleOp> module =
        parseSourceString<ModuleOp>(text, ParserConfig(&context));
    if (!module) {
      ADD_FAILURE() << "cannot be parsed:\n" << text;
      return nullptr;
    }
    PassManager passes(&context);
    PlanArenasPassOptions options;
    options.inPlace = inPlace;
    passes.addPass(createPlanArenasPass(options));
    passes.addPass(createLowerToRtPass());
    passes.addPass(createConvertRtToLLVMPass());
    if (failed(passes.run(*module)) ||
        failed(writeArtifact(*module, directory.string(), {}))) {
      ADD_FAILURE() << "cannot be compiled:\n" << text;
      return nullptr;
    }
    runtime::SessionOptions sessionOptions;
    sessionOptions.coresPerDevice = 1;
    auto session = runtime::Session::load(directory, sessionOptions);
    if (!session.ok()) {
      ADD_FAILURE() << session.message();
      return nullptr;
    }
    return std::move(*session);
  }

  MLIRContext context;
  std::filesystem::path directory;
  std::mt19937 random{17};

  std::vector<float> randomNumbers(int64_t count) {
    std::vector<float> numbers(count);
    for (float &number : numbers)
      number = std::uniform_real_distribution<float>(-1, 1)(random);
    return numbers;
  }
};

std::string tensorType(ArrayRef<int64_t> shape) {
  std::string type = "tensor<";
  for (int64_t size : shape)
    type += std::to_string(size) + "x";
  return type + "f32>";
}

/// A contraction with the sizes of its letters. `evaluate` returns its expected
/// result.
struct Contraction {
  std::string lhs, rhs, result;
  std::map<char, int64_t> sizes;

  std::vector<int64_t> shape(const std::string &letters) const {
    std::vector<int64_t> shape;
    for (char letter : letters)
      shape.push_back(sizes.at(letter));
    return shape;
  }
  int64_t count(const std::string &letters) const {
    int64_t count = 1;
    for (char letter : letters)
      count *= sizes.at(letter);
    return count;
  }
  int64_t position(const std::string &letters,
                   const std::map<char, int64_t> &index) const {
    int64_t position = 0;
    for (char letter : letters)
      position = position * sizes.at(letter) + index.at(letter);
    return position;
  }
  std::vector<double> evaluate(const std::vector<float> &a,
                               const std::vector<float> &b) const {
    std::vector<double> c(count(result), 0);
    std::map<char, int64_t> index;
    for (auto [letter, size] : sizes)
      index[letter] = 0;
    for (bool more = true; more;) {
      c[position(result, index)] +=
          double(a[position(lhs, index)]) * b[position(rhs, index)];
      more = false;
      for (auto &[letter, i] : index) {
        if (++i < sizes.at(letter)) {
          more = true;
          break;
        }
        i = 0;
      }
    }
    return c;
  }
};

TEST_F(ProgramTest, RandomContractions) {
  int expressible = 0;
  for (int round = 0; round < 24; ++round) {
    // Up to two letters of each kind (one batch letter), in any order, some of
    // size 1.
    Contraction c;
    char next = 'a';
    auto add = [&](int most, std::initializer_list<std::string *> lists) {
      for (int i = random() % (most + 1); i > 0; --i) {
        for (std::string *list : lists)
          list->push_back(next);
        c.sizes[next++] = 1 + random() % 5;
      }
    };
    add(1, {&c.lhs, &c.rhs, &c.result});
    add(2, {&c.lhs, &c.result});
    add(2, {&c.rhs, &c.result});
    add(2, {&c.lhs, &c.rhs});
    for (std::string *list : {&c.lhs, &c.rhs, &c.result})
      std::shuffle(list->begin(), list->end(), random);
    // At random, a bias along the result's last dimension and an accumulator.
    bool bias = !c.result.empty() && random() % 2;
    bool accumulate = random() % 2;
    Builder b(&context);
    auto type = [&](const std::string &letters) {
      return RankedTensorType::get(c.shape(letters), b.getF32Type());
    };
    SmallVector<int64_t> along;
    if (bias)
      along.push_back(c.result.size() - 1);
    std::string why;
    if (!getProductLayout(
            ContractionAttr::get(&context, b.getStringAttr(c.lhs),
                                 b.getStringAttr(c.rhs),
                                 b.getStringAttr(c.result)),
            type(c.lhs), type(c.rhs), type(c.result),
            bias ? std::optional<ArrayRef<int64_t>>(along) : std::nullopt, why))
      continue;
    ++expressible;
    std::string letters = c.lhs + ", " + c.rhs + " -> " + c.result;
    SCOPED_TRACE(letters + (bias ? " bias" : "") +
                 (accumulate ? " accumulate" : ""));
    std::string biasLetters = bias ? std::string(1, c.result.back()) : "";
    std::string ta = tensorType(c.shape(c.lhs)),
                tb = tensorType(c.shape(c.rhs)),
                tc = tensorType(c.shape(c.result)),
                tv = tensorType(c.shape(biasLetters));
    std::string text =
        "func.func @run(%a: " + ta + ", %b: " + tb + ", %c: " + tc +
        ", %v: " + tv + ") -> " + tc + " {\n%r = " + "heddle.contract [" +
        letters + "] %a, %b" +
        (bias ? " bias(%v along [" + std::to_string(c.result.size() - 1) + "])"
              : "") +
        (accumulate ? " accumulate(%c)" : "") + " : (" + ta + ", " + tb +
        (bias ? ", " + tv : "") + (accumulate ? ", " + tc : "") + ") -> " + tc +
        "\nreturn %r : " + tc + "\n}\n";
    std::unique_ptr<runtime::Session> session = compile(text);
    ASSERT_TRUE(session);
    std::vector<float> a = randomNumbers(c.count(c.lhs)),
                       bb = randomNumbers(c.count(c.rhs)),
                       cc = randomNumbers(c.count(c.result)),
                       v = randomNumbers(c.count(biasLetters)),
                       got(c.count(c.result));
    runtime::Status status =
        session->run("run",
                     {runtime::bytesOf(a), runtime::bytesOf(bb),
                      runtime::bytesOf(cc), runtime::bytesOf(v)},
                     {runtime::writableBytesOf(got)});
    ASSERT_TRUE(status.ok()) << status.message();
    std::vector<double> expected = c.evaluate(a, bb);
    for (size_t i = 0; i < expected.size(); ++i) {
      double more = accumulate ? cc[i] : 0;
      if (bias)
        more += v[i % v.size()];
      EXPECT_NEAR(got[i], expected[i] + more, 1e-5) << "element " << i;
    }
  }
  EXPECT_GE(expressible, 16);
}

/// A random straight-line program over 8x8 matrices and stacked pairs of them,
/// with loads and stores of variables in between.
class RandomProgram {
public:
  explicit RandomProgram(unsigned seed) : random(seed) {
    for (int i = 0; i < 3; ++i)
      text += "heddle.variable @v" + std::to_string(i) +
              " : tensor<8x8xf32> parameter init(normal<0.3>)\n";
    text += "func.func @run(%m0: tensor<8x8xf32>) -> (tensor<8x8xf32>, "
            "tensor<2x8x8xf32>, tensor<8x8xf32>) {\n";
    matrices.push_back("%m0");
    for (int i = 0; i < 40; ++i)
      addOp();
    std::string last = make("heddle.stack " + matrix() + ", " + matrix() +
                            " : tensor<8x8xf32>, tensor<8x8xf32> -> "
                            "tensor<2x8x8xf32>");
    text += "return " + matrix() + ", " + last + ", " + matrix() +
            " : tensor<8x8xf32>, tensor<2x8x8xf32>, tensor<8x8xf32>\n}\n";
  }
  std::string text;

private:
  std::string make(const std::string &op) {
    std::string name = "%x" + std::to_string(count++);
    text += name + " = " + op + "\n";
    return name;
  }
  /// Returns one of the last five matrices, so that older values die.
  std::string matrix() {
    size_t window = std::min<size_t>(matrices.size(), 5);
    return matrices[matrices.size() - 1 - random() % window];
  }
  std::string variable() { return "@v" + std::to_string(random() % 3); }

  void addOp() {
    switch (random() % 8) {
    case 0:
      matrices.push_back(
          make("heddle.load " + variable() + " : tensor<8x8xf32>"));
      return;
    case 1:
      text += "heddle.store " + matrix() + ", " + variable() +
              " : tensor<8x8xf32>\n";
      return;
    case 2: {
      std::string pair = make("heddle.stack " + matrix() + ", " + matrix() +
                              " : tensor<8x8xf32>, tensor<8x8xf32> -> "
                              "tensor<2x8x8xf32>");
      std::string name = "%x" + std::to_string(count++);
      text += name + ":2 = heddle.unstack " + pair +
              " : tensor<2x8x8xf32> -> tensor<8x8xf32>, tensor<8x8xf32>\n";
      matrices.push_back(name + "#0");
      matrices.push_back(name + "#1");
      return;
    }
    case 3: {
      std::string pair = make("heddle.stack " + matrix() + ", " + matrix() +
                              " : tensor<8x8xf32>, tensor<8x8xf32> -> "
                              "tensor<2x8x8xf32>");
      matrices.push_back(make("tensor.extract_slice " + pair +
                              "[1, 0, 0] [1, 8, 8] [1, 1, 1] : "
                              "tensor<2x8x8xf32> to tensor<8x8xf32>"));
      return;
    }
    case 4:
      matrices.push_back(make("comm.all_reduce sum " + matrix() +
                              " over @mesh <{\"d\"}> : tensor<8x8xf32>"));
      return;
    case 5:
    case 6:
      matrices.push_back(make("heddle.contract [ij, jk -> ik] " + matrix() +
                              ", " + matrix() + " accumulate(" + matrix() +
                              ") : (tensor<8x8xf32>, tensor<8x8xf32>, "
                              "tensor<8x8xf32>) -> tensor<8x8xf32>"));
      return;
    default:
      matrices.push_back(make("heddle.contract [ij, kj -> ik] " + matrix() +
                              ", " + matrix() +
                              " : (tensor<8x8xf32>, tensor<8x8xf32>) -> "
                              "tensor<8x8xf32>"));
    }
  }

  std::mt19937 random;
  int count = 0;
  std::vector<std::string> matrices;
};

TEST_F(ProgramTest, SharingMemoryChangesNoBit) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::string text =
        "heddle.mesh @mesh <[\"d\"=1]>\n" + RandomProgram(seed).text;
    std::vector<float> x = randomNumbers(64);
    for (float &value : x)
      value *= 0.2f;
    std::vector<std::vector<float>> outcomes[2];
    for (bool inPlace : {false, true}) {
      std::unique_ptr<runtime::Session> session = compile(text, inPlace);
      ASSERT_TRUE(session);
      std::vector<std::vector<float>> &outcome = outcomes[inPlace];
      outcome = {std::vector<float>(64), std::vector<float>(128),
                 std::vector<float>(64)};
      // Run twice: the second run starts with what the first left in variables
      // and arena.
      for (int step = 0; step < 2; ++step) {
        runtime::Status status =
            session->run("run", {runtime::bytesOf(x)},
                         {runtime::writableBytesOf(outcome[0]),
                          runtime::writableBytesOf(outcome[1]),
                          runtime::writableBytesOf(outcome[2])});
        ASSERT_TRUE(status.ok()) << status.message();
      }
      for (size_t i = 0; i < 3; ++i) {
        outcome.emplace_back(64);
        ASSERT_TRUE(
            session->readVariable(i, runtime::writableBytesOf(outcome.back()))
                .ok());
      }
    }
    for (size_t i = 0; i < outcomes[0].size(); ++i)
      EXPECT_EQ(std::memcmp(outcomes[0][i].data(), outcomes[1][i].data(),
                            outcomes[0][i].size() * sizeof(float)),
                0)
          << "value " << i << " of\n"
          << text;
  }
}

/// Runs collectives and slices on four devices, with sharded arguments and
/// results.
TEST_F(ProgramTest, FourDevices) {
  std::unique_ptr<runtime::Session> session = compile(R"mlir(
    heddle.mesh @mesh <["a"=2, "b"=2]>
    func.func @run(%x: tensor<3x2xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"a"}, {"b"} ]>, heddle.global_type = tensor<5x4xf32>})
        -> (tensor<10x2xf32>, tensor<2x2xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"b", "a"}, {} ]>, heddle.global_type = tensor<8x2xf32>}, tensor<3x2xf32>,
            tensor<2x2xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"a"}, {"b"} ]>, heddle.global_type = tensor<4x4xf32>},
            tensor<1x2x2x2xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"b"}, {}, {}, {} ]>, heddle.global_type = tensor<2x2x2x2xf32>}) {
      %padded = comm.all_gather %x dim 0 over @mesh <{"a"}> : tensor<3x2xf32> -> tensor<6x2xf32>
      %rows = tensor.extract_slice %padded[0, 0] [5, 2] [1, 1] : tensor<6x2xf32> to tensor<5x2xf32>
      %all = comm.all_gather %rows dim 0 over @mesh <{"b"}> : tensor<5x2xf32> -> tensor<10x2xf32>
      %slice = comm.slice %rows dim 0 over @mesh <{"b", "a"}> : tensor<5x2xf32> -> tensor<2x2xf32>
      %sum = comm.all_reduce sum %x over @mesh <{"a", "b"}> : tensor<3x2xf32>
      %four = tensor.extract_slice %padded[0, 0] [4, 2] [1, 1] : tensor<6x2xf32> to tensor<4x2xf32>
      %scattered = comm.reduce_scatter sum %four dim 0 over @mesh <{"a"}> : tensor<4x2xf32> -> tensor<2x2xf32>
      %parts = tensor.expand_shape %four [[0, 1, 2], [3]] output_shape [2, 1, 2, 2] : tensor<4x2xf32> into tensor<2x1x2x2xf32>
      %exchanged = comm.all_to_all %parts split 0 concat 1 over @mesh <{"b"}> : tensor<2x1x2x2xf32> -> tensor<1x2x2x2xf32>
      return %all, %slice, %sum, %scattered, %exchanged : tensor<10x2xf32>, tensor<2x2xf32>, tensor<3x2xf32>, tensor<2x2xf32>, tensor<1x2x2x2xf32>
    })mlir");
  ASSERT_TRUE(session);
  ASSERT_EQ(session->numDevices(), 4);
  std::vector<float> x(20), all(20), slice(16), sum(6), scattered(16),
      exchanged(16);
  for (int i = 0; i < 20; ++i)
    x[i] = 1 + i;
  runtime::Status status = session->run(
      "run", {runtime::bytesOf(x)},
      {runtime::writableBytesOf(all), runtime::writableBytesOf(slice),
       runtime::writableBytesOf(sum), runtime::writableBytesOf(scattered),
       runtime::writableBytesOf(exchanged)});
  ASSERT_TRUE(status.ok()) << status.message();
  // Columns 0 and 1 of all rows, then columns 2 and 3.
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(all[i], x[i / 2 % 5 * 4 + i / 10 * 2 + i % 2]) << i;
  // Devices with b = 0 slice columns 0 and 1 of rows 0..3. Devices with b = 1
  // slice columns 2 and 3 from row 4 on; rows beyond row 4 are zero.
  std::vector<float> expected{1,  2,  5, 6, 9, 10, 13, 14,
                              19, 20, 0, 0, 0, 0,  0,  0};
  EXPECT_EQ(slice, expected);
  // The result of a device is the sum of its row over both halves of the rows
  // (0..2 and 3..5, where row 5 is padding) and over both pairs of columns.
  for (int row = 0; row < 3; ++row)
    for (int column = 0; column < 2; ++column) {
      float total = 0;
      for (int a = 0; a < 2; ++a)
        for (int b = 0; b < 2; ++b)
          if (row + 3 * a < 5)
            total += x[(row + 3 * a) * 4 + column + 2 * b];
      EXPECT_EQ(sum[row * 2 + column], total);
    }
  // Both members of a hold rows 0..3.
  for (int i = 0; i < 16; ++i)
    EXPECT_EQ(scattered[i], 2 * x[i]) << i;
  // Device b has rows 2 b and 2 b + 1 of both pairs of columns.
  for (int i = 0; i < 16; ++i)
    EXPECT_EQ(exchanged[i],
              x[i / 8 * 8 + i / 2 % 2 * 4 + i / 4 % 2 * 2 + i % 2])
        << i;
}

} // namespace
