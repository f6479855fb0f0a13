//===- ProgramTest.h - One program, one and many devices --------*- C++ -*-===//
//
// Shared by the tests of random programs: a context that collects diagnostics,
// random shardings and arguments, and the comparison of the global program's
// results with those of the grid of devices.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_SHARD_PROGRAMTEST_H
#define HEDDLE_TEST_UNIT_SHARD_PROGRAMTEST_H

#include "heddle/Sharding/FactorShardings.h"
#include "test/support/Interpreter/Grid.h"
#include "test/support/WithContext.h"
#include "gtest/gtest.h"
#include <random>

namespace heddle {

/// Numbers that depend on the seed alone.
class Random {
public:
  explicit Random(uint64_t seed) : engine(seed) {}

  /// Returns a number in [low, high].
  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine);
  }

protected:
  std::mt19937_64 engine;
};

/// The allowed difference of two numbers, relative to the expected number or,
/// if `toLargest` (where sums cancel), to the largest number of its tensor.
/// Numbers below 1 count as 1.
struct Tolerance {
  double relative = 1e-9;
  bool toLargest = false;
};

class ProgramTest : public testing::Test, protected test::WithContext {
protected:
  /// Partitions a global program with shardings and runs the passes `then` on
  /// the result. If a pass fails, returns false; `diagnostics` says why.
  bool partition(mlir::ModuleOp module, const std::string &then = "") {
    return runPasses(module, "heddle-repeat-constants,"
                             "heddle-propagate-shardings,"
                             "heddle-materialize-pins,"
                             "heddle-insert-reshards,"
                             "heddle-verify-sharded,heddle-localize,"
                             "heddle-pack-collectives,"
                             "heddle-verify-localized,canonicalize,cse" +
                                 (then.empty() ? then : "," + then));
  }

  /// Returns a sharding with each axis of the mesh on a random dimension or,
  /// with probability 1 / leaveOut, on none.
  ShardingAttr randomSharding(int64_t rank, MeshRef mesh, Random &random,
                              int64_t leaveOut);
  /// Sets random shardings on the function's arguments and results. Leaves one
  /// open with probability 1 / leaveOut (results more often).
  void shardArguments(mlir::func::FuncOp function, MeshRef mesh, Random &random,
                      int64_t leaveOut);

  /// Runs @f of both programs on random arguments and expects equal results.
  /// The padding of float arguments holds NaN.
  void expectSameNumbers(mlir::ModuleOp global, mlir::ModuleOp local,
                         Random &random, Tolerance tolerance = {});

  /// Whether HEDDLE_RANDOM_WRITE is set: then `writeInstead` writes programs to
  /// the folder that it names. SEED.mlir gets the program, SEED.json the
  /// arguments and the interpreter's results.
  /// test/numerics/random_linalg.py compiles and runs them.
  static bool isWriting() { return std::getenv("HEDDLE_RANDOM_WRITE"); }
  bool writeInstead(mlir::ModuleOp module, Random &random, uint64_t seed);
};

std::string toString(mlir::ModuleOp module);

/// Returns random arguments whose numbers are exact in their types.
std::vector<Tensor> randomArguments(mlir::func::FuncOp function,
                                    Random &random);

/// Returns the number in an environment variable. If it is not set, returns
/// `inLongTests` if HEDDLE_LONG_TESTS is set, else `otherwise`.
int countFromEnvironment(const char *name, int otherwise, int inLongTests);

} // namespace heddle

#endif // HEDDLE_TEST_UNIT_SHARD_PROGRAMTEST_H
