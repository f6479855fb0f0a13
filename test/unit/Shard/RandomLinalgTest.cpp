//===- RandomLinalgTest.cpp - Random programs of other compilers' ops -----===//
//
// Partitions LinalgGenerator's programs with random shardings of arguments and
// results. Expects the global program's results on the grid of devices, or an
// error that names an op.
//
// Environment variables: HEDDLE_RANDOM_LINALG sets the number of programs
// (default 300; 10,000 with HEDDLE_LONG_TESTS=1), HEDDLE_RANDOM_FIRST the first
// seed. HEDDLE_RANDOM_SHOW prints the errors of refused programs.
// HEDDLE_RANDOM_TRACE names a file that receives the current seed. For
// HEDDLE_RANDOM_WRITE see ProgramTest.h.
//
//===----------------------------------------------------------------------===//

#include "LinalgGenerator/LinalgGenerator.h"
#include "mlir/Parser/Parser.h"
#include <fstream>

using namespace mlir;
using namespace heddle;

namespace {

class RandomLinalgTest : public ProgramTest {
protected:
  /// With `parts`, first runs the program in parts along the first dimension of
  /// its arguments.
  void check(uint64_t seed, int parts = 1);
  bool splitBatch(ModuleOp module, int parts);

  int refused = 0;
};

/// Splits the first dimension of the first tensor argument, and of all others
/// of the same size. Returns false if it cannot be split.
bool RandomLinalgTest::splitBatch(ModuleOp module, int parts) {
  auto function = module.lookupSymbol<func::FuncOp>("f");
  int64_t batch = 0;
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || tensor.getRank() == 0)
      continue;
    batch = batch == 0 ? tensor.getDimSize(0) : batch;
    if (tensor.getDimSize(0) == batch)
      function.setArgAttr(i, kRoleAttrName,
                          PortRoleAttr::get(&context, PortRole::Features));
  }
  return runPasses(
      module, "heddle-split-batch{sub-batches=" + std::to_string(parts) + "}");
}

void RandomLinalgTest::check(uint64_t seed, int parts) {
  diagnostics.clear();
  LinalgGenerator random(seed);
  const char *meshes[] = {"[\"a\"=2, \"b\"=2]", "[\"a\"=3, \"b\"=2]",
                          "[\"a\"=4]", "[\"a\"=2]"};
  std::string text = "heddle.mesh @mesh <" +
                     std::string(meshes[random.pick(0, 3)]) + ">\n" +
                     random.run(random.pick(1, 9));
  SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
  auto global = parseSourceString<ModuleOp>(text, &context);
  ASSERT_TRUE(global) << diagnostics;
  OwningOpRef<ModuleOp> local = global->clone();
  if (parts > 1 && !splitBatch(*local, parts)) {
    ASSERT_TRUE(StringRef(diagnostics).contains(" sub-batches")) << diagnostics;
    if (std::getenv("HEDDLE_RANDOM_SHOW"))
      llvm::errs() << "seed " << seed << ": " << diagnostics;
    ++refused;
    return;
  }
  shardArguments(local->lookupSymbol<func::FuncOp>("f"), getMesh(*local),
                 random, /*leaveOut=*/4);
  SCOPED_TRACE(toString(*local));
  if (writeInstead(*local, random, seed))
    return;
  if (!partition(*local)) {
    // The error must name the op that cannot be split.
    ASSERT_NE(diagnostics.find("' op "), std::string::npos) << diagnostics;
    if (std::getenv("HEDDLE_RANDOM_SHOW"))
      llvm::errs() << "seed " << seed << ": " << diagnostics;
    ++refused;
    return;
  }
  SCOPED_TRACE(toString(*local));
  expectSameNumbers(*global, *local, random);
}

TEST_F(RandomLinalgTest, SameNumbersOrAnErrorAtAnOp) {
  int count = countFromEnvironment("HEDDLE_RANDOM_LINALG", 300, 10000);
  const char *trace = std::getenv("HEDDLE_RANDOM_TRACE");
  int first = countFromEnvironment("HEDDLE_RANDOM_FIRST", 1, 1);
  for (int seed = first; seed < first + count; ++seed) {
    if (trace) // a crash leaves the seed behind
      std::ofstream(trace) << seed;
    check(seed);
    if (HasFatalFailure())
      return;
  }
  RecordProperty("refused", refused);
  llvm::errs() << refused << " of " << count << " programs refused\n";
  // The partitioner may refuse a program, but only rarely.
  EXPECT_LE(refused, count / 100 + 1);
}

TEST_F(RandomLinalgTest, SameNumbersInSubBatches) {
  if (isWriting())
    return; // the programs are those of the test above
  int count = countFromEnvironment("HEDDLE_RANDOM_LINALG", 150, 5000);
  for (int seed = 1; seed <= count; ++seed) {
    check(seed, 2 + seed % 2);
    if (HasFatalFailure())
      return;
  }
  // Two thirds are refused: their first dimension is smaller than the number of
  // parts, or no op can be split along it.
  EXPECT_LE(refused, count * 3 / 4);
}

} // namespace
