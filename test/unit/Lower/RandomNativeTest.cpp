//===- RandomNativeTest.cpp - Random programs, as native code -------------===//
//
// Compiles LinalgGenerator's programs for one device through every phase to an
// artifact, runs them and compares the results with those of the interpreter,
// which knows nothing of kernels and memory. The other random tests compare
// devices with devices, or the interpreter with itself, so they cannot find an
// error of the lowering.
//
// One artifact holds the programs of many seeds, each as a function of its own.
// Environment variables: HEDDLE_RANDOM_NATIVE sets the number of programs
// (default 1,000; 20,000 with HEDDLE_LONG_TESTS=1), HEDDLE_RANDOM_FIRST the
// first seed. HEDDLE_RANDOM_SHOW prints the errors of programs that the
// compiler refuses. HEDDLE_RANDOM_TRACE names a file that receives the current
// seed.
//
//===----------------------------------------------------------------------===//

#include "heddle/Pipelines/Pipelines.h"
#include "heddle_rt/session.h"
#include "mlir/Parser/Parser.h"
#include "test/unit/Shard/LinalgGenerator/LinalgGenerator.h"
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

using namespace mlir;
using namespace heddle;

namespace {

/// The program of one seed, its arguments, and the interpreter's results.
struct Example {
  uint64_t seed;
  std::string function; ///< its name
  std::string text;
  OwningOpRef<ModuleOp> module;
  std::vector<Tensor> arguments;
  /// The interpreter's results, once computed in f64 and once with each op's
  /// result rounded to its type. The two differ by more than rounding where a
  /// number jumps (a cast to an integer, a comparison). There native code may
  /// return any number between them.
  std::vector<Tensor> results, rounded;
};

class RandomNativeTest : public ProgramTest {
protected:
  RandomNativeTest();
  ~RandomNativeTest() override { std::filesystem::remove_all(directory); }

  Example makeExample(uint64_t seed);
  /// Runs the programs of these seeds and compares their results.
  void check(uint64_t first, uint64_t count);
  /// Compiles the examples into one artifact and loads it. Removes examples
  /// that the compiler refuses; returns null if it refuses all.
  std::unique_ptr<runtime::Session> compile(std::vector<Example> &examples);
  void run(runtime::Session &session, Example &example);

  std::filesystem::path directory;
  std::set<uint64_t> seedsWithErrors; ///< of the current compilation
  int refused = 0, compared = 0;
};

RandomNativeTest::RandomNativeTest() {
  directory = std::filesystem::temp_directory_path() /
              ("heddle-random-native-test-" + std::to_string(::getpid()));
  // The name of the buffer that a program is parsed from is its seed.
  context.getDiagEngine().registerHandler([this](Diagnostic &message) {
    message.getLocation()->walk([&](Location location) {
      if (auto place = dyn_cast<FileLineColLoc>(location))
        seedsWithErrors.insert(
            std::strtoull(place.getFilename().data(), nullptr, 10));
      return WalkResult::advance();
    });
    return failure(); // the handler that collects the messages runs next
  });
}

//===----------------------------------------------------------------------===//
// Numbers in the runtime's memory
//===----------------------------------------------------------------------===//

size_t bytesOfElement(Type type) {
  return (type.getIntOrFloatBitWidth() + 7) / 8;
}

std::vector<std::byte> toBytes(Type element, const Tensor &tensor) {
  size_t size = bytesOfElement(element);
  std::vector<std::byte> bytes(size * tensor.size());
  for (auto [i, value] : llvm::enumerate(tensor.values)) {
    uint64_t bits = int64_t(value);
    if (auto type = dyn_cast<FloatType>(element)) {
      APFloat number(value);
      bool losesInfo;
      number.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                     &losesInfo);
      bits = number.bitcastToAPInt().getZExtValue();
    }
    std::memcpy(bytes.data() + i * size, &bits, size);
  }
  return bytes;
}

std::vector<double> fromBytes(Type element, ArrayRef<std::byte> bytes) {
  size_t size = bytesOfElement(element);
  std::vector<double> values;
  for (size_t at = 0; at < bytes.size(); at += size) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + at, size);
    unsigned width = element.getIntOrFloatBitWidth();
    APInt whole(width, bits);
    if (auto type = dyn_cast<FloatType>(element))
      values.push_back(
          APFloat(type.getFloatSemantics(), whole).convertToDouble());
    else
      values.push_back(width == 1 ? double(whole.getZExtValue())
                                  : double(whole.getSExtValue()));
  }
  return values;
}

/// Returns the allowed error relative to the largest number of a result. The
/// error comes from rounding and from the polynomials that approximate exp,
/// tanh and similar functions.
double getTolerance(const std::string &text) {
  if (text.find("bf16") != std::string::npos)
    return 1e-1;
  if (text.find("f16") != std::string::npos)
    return 3e-2;
  return text.find("f32") != std::string::npos ? 1e-4 : 1e-5;
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

Example RandomNativeTest::makeExample(uint64_t seed) {
  Example example;
  example.seed = seed;
  LinalgGenerator::Options generator;
  generator.empty = false;          // no artifact holds such tensors
  generator.halves = seed % 4 == 0; // rare, as their tolerance is wide
  if (seed % 16 == 1)               // enough for kernels of several readers
    generator.mostElements = 2500;
  LinalgGenerator random(seed, generator);
  std::string number = std::to_string(seed);
  example.function = "f" + number;
  example.text = random.run(random.pick(1, 9));
  for (std::string name : {"f", "g"})
    example.text = std::regex_replace(example.text, std::regex("@" + name),
                                      "@" + name + number);
  example.module = parseSourceString<ModuleOp>(example.text, &context, number);
  if (!example.module) {
    ADD_FAILURE() << "seed " << seed << ": " << diagnostics << example.text;
    return example;
  }
  auto function = example.module->lookupSymbol<func::FuncOp>(example.function);
  example.arguments = randomArguments(function, random);
  Variables none;
  InterpreterOptions rounding;
  rounding.roundToType = true;
  auto results = interpret(function, example.arguments, none);
  auto rounded = interpret(function, example.arguments, none, rounding);
  if (failed(results) || failed(rounded)) {
    ADD_FAILURE() << "seed " << seed << ": " << diagnostics << example.text;
    return example;
  }
  example.results = std::move(*results);
  example.rounded = std::move(*rounded);
  return example;
}

std::unique_ptr<runtime::Session>
RandomNativeTest::compile(std::vector<Example> &examples) {
  while (!examples.empty()) {
    OwningOpRef<ModuleOp> all = ModuleOp::create(UnknownLoc::get(&context));
    for (Example &example : examples)
      for (Operation &op : *example.module->getBody())
        all->push_back(op.clone());
    diagnostics.clear();
    seedsWithErrors.clear();
    if (succeeded(
            compileToArtifact(*all, CompileOptions(), directory.string()))) {
      runtime::SessionOptions options;
      options.coresPerDevice = 1;
      auto session = runtime::Session::load(directory, options);
      if (!session.ok()) {
        ADD_FAILURE() << session.message();
        return nullptr;
      }
      return std::move(*session);
    }
    // An error must name the op that cannot be compiled.
    EXPECT_NE(diagnostics.find("' op "), std::string::npos) << diagnostics;
    if (std::getenv("HEDDLE_RANDOM_SHOW"))
      for (uint64_t seed : seedsWithErrors)
        llvm::errs() << "seed " << seed << ": " << diagnostics;
    size_t before = examples.size();
    llvm::erase_if(examples, [&](const Example &example) {
      return seedsWithErrors.count(example.seed);
    });
    if (examples.size() == before) {
      ADD_FAILURE() << "an error without a place: " << diagnostics;
      return nullptr;
    }
    refused += before - examples.size();
  }
  return nullptr;
}

void RandomNativeTest::run(runtime::Session &session, Example &example) {
  SCOPED_TRACE("seed " + std::to_string(example.seed) + "\n" + example.text);
  auto function = example.module->lookupSymbol<func::FuncOp>(example.function);
  std::vector<std::vector<std::byte>> inputs, outputs;
  for (auto [type, argument] :
       llvm::zip(function.getArgumentTypes(), example.arguments))
    inputs.push_back(toBytes(getElementTypeOrSelf(type), argument));
  for (auto [type, result] :
       llvm::zip(function.getResultTypes(), example.results))
    outputs.emplace_back(result.size() *
                         bytesOfElement(getElementTypeOrSelf(type)));
  std::vector<runtime::ConstBytes> in(inputs.begin(), inputs.end());
  std::vector<runtime::Bytes> out(outputs.begin(), outputs.end());
  runtime::Status status = session.run(example.function, in, out);
  ASSERT_TRUE(status.ok()) << status.message();

  // The interpreter computes in f64. If a result is larger than this, an f32
  // may have overflowed in native code.
  constexpr double kLarge = 1e30;
  for (const Tensor &result : example.rounded)
    for (double value : result.values)
      if (!(std::abs(value) <= kLarge))
        return;
  ++compared;
  for (auto [i, wanted] : llvm::enumerate(example.results)) {
    double largest = 1;
    for (double value : wanted.values)
      largest = std::max(largest, std::abs(value));
    double slack = getTolerance(example.text) * largest;
    Type element = getElementTypeOrSelf(function.getResultTypes()[i]);
    std::vector<double> got = fromBytes(element, outputs[i]);
    for (size_t at = 0; at < got.size(); ++at) {
      auto [low, high] =
          std::minmax(wanted.values[at], example.rounded[i].values[at]);
      ASSERT_TRUE(low - slack <= got[at] && got[at] <= high + slack)
          << "result " << i << " at " << at << ": expected "
          << wanted.values[at] << ", got " << got[at];
    }
  }
}

void RandomNativeTest::check(uint64_t first, uint64_t count) {
  const char *trace = std::getenv("HEDDLE_RANDOM_TRACE");
  std::vector<Example> examples;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    diagnostics.clear();
    Example example = makeExample(seed);
    if (!example.results.empty())
      examples.push_back(std::move(example));
  }
  std::unique_ptr<runtime::Session> session = compile(examples);
  for (Example &example : examples) {
    if (!session)
      return;
    if (trace) // a crash leaves the seed behind
      std::ofstream(trace) << example.seed;
    run(*session, example);
  }
}

TEST_F(RandomNativeTest, InterpretersNumbers) {
  constexpr int kPrograms = 50; // in an artifact
  int count = countFromEnvironment("HEDDLE_RANDOM_NATIVE", 1000, 20000);
  int first = countFromEnvironment("HEDDLE_RANDOM_FIRST", 1, 1);
  for (int done = 0; done < count; done += kPrograms)
    check(first + done, std::min(kPrograms, count - done));
  llvm::errs() << refused << " of " << count << " programs refused, "
               << compared << " compared\n";
  // The compiler may refuse a program, but only rarely.
  EXPECT_LE(refused, count / 100);
  EXPECT_GE(compared, count * 9 / 10);
}

} // namespace
