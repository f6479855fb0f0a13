//===- main.cpp - A compiler that embeds Heddle ---------------------------===//
//
// usage: toy PROGRAM.mlir FOLDER
//
// Partitions a program of the toy dialect over the mesh that it declares,
// prints one device's program, lowers and compiles it, runs it on that many
// devices (threads), and compares every number with a run on one device.
//
//===----------------------------------------------------------------------===//

#include "Toy.h"
#include "heddle/Heddle.h"
#include "heddle_rt/session.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>
#include <random>

using namespace mlir;
namespace runtime = heddle::runtime;

static int fail(std::string_view message) {
  llvm::errs() << "toy: " << message << "\n";
  return 1;
}

/// Sets all axes of the module's mesh to size 1.
static void useOneDevice(ModuleOp module) {
  for (auto mesh : module.getOps<heddle::MeshOp>()) {
    SmallVector<heddle::MeshAxisAttr> axes;
    for (heddle::MeshAxisAttr axis : mesh.getMesh().getAxes())
      axes.push_back(
          heddle::MeshAxisAttr::get(module.getContext(), axis.getName(), 1));
    mesh.setMeshAttr(heddle::MeshAttr::get(module.getContext(), axes));
  }
}

/// Partitions by Heddle, lowers by this compiler, compiles by Heddle.
static LogicalResult compile(ModuleOp module, StringRef folder, bool print) {
  if (failed(heddle::partition(module)))
    return failure();
  if (print)
    module.print(llvm::outs());
  if (failed(toy::lowerToLinalg(module)))
    return failure();
  return heddle::compileToArtifact(module, {}, folder);
}

static std::vector<float> randomNumbers(size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> distribution(-1, 1);
  std::vector<float> numbers(count);
  for (float &number : numbers)
    number = distribution(engine);
  return numbers;
}

/// Runs @main on fixed random inputs and returns all results. Sets `devices`.
static runtime::Expected<std::vector<std::vector<float>>>
run(const std::string &folder, int &devices) {
  auto session = runtime::Session::load(folder);
  if (!session.ok())
    return session.status();
  devices = (*session)->numDevices();
  for (const runtime::TableInfo &table : (*session)->manifest().tables) {
    if (table.name != "main")
      continue;
    std::vector<std::vector<float>> inputs, outputs;
    std::vector<runtime::ConstBytes> arguments;
    std::vector<runtime::Bytes> results;
    for (const runtime::TensorInfo &tensor : table.inputs)
      inputs.push_back(randomNumbers(tensor.elements(), inputs.size() + 1));
    for (const runtime::TensorInfo &tensor : table.outputs)
      outputs.emplace_back(tensor.elements());
    for (const auto &input : inputs)
      arguments.push_back(runtime::bytesOf(input));
    for (auto &output : outputs)
      results.push_back(runtime::writableBytesOf(output));
    runtime::Status status = (*session)->run("main", arguments, results);
    if (!status.ok())
      return status;
    return outputs;
  }
  return runtime::error("expected a public function @main in the program");
}

int main(int argc, char **argv) {
  if (argc != 3)
    return fail("usage: toy PROGRAM.mlir FOLDER");
  std::string folder = argv[2];

  DialectRegistry registry;
  heddle::registerAllDialects(registry);
  registry.insert<toy::ToyDialect>();
  MLIRContext context(registry);
  context.loadAllAvailableDialects();

  std::string folders[] = {folder + "/many", folder + "/one"};
  for (bool one : {false, true}) {
    OwningOpRef<ModuleOp> module =
        parseSourceFile<ModuleOp>(argv[1], ParserConfig(&context));
    if (!module)
      return 1; // the parser has reported the error
    if (one)
      useOneDevice(*module);
    if (failed(compile(*module, folders[one], /*print=*/!one)))
      return 1;
  }

  int many = 0, one = 0;
  auto sharded = run(folders[0], many), serial = run(folders[1], one);
  if (!sharded.ok())
    return fail(sharded.message());
  if (!serial.ok())
    return fail(serial.message());
  double difference = 0, largest = 0;
  for (size_t i = 0; i < serial->size(); ++i)
    for (size_t k = 0; k < (*serial)[i].size(); ++k) {
      double a = (*serial)[i][k], b = (*sharded)[i][k];
      if (!std::isfinite(a - b))
        return fail("a result is not finite");
      difference = std::max(difference, std::abs(a - b));
      largest = std::max(largest, std::abs(a));
    }
  if (largest == 0 || difference > 1e-5 * largest)
    return fail("the results differ by " + std::to_string(difference) +
                ", of numbers up to " + std::to_string(largest));
  llvm::outs() << many << " devices agree with " << one
               << ": largest difference " << difference << ", largest number "
               << largest << "\n";
  return 0;
}
