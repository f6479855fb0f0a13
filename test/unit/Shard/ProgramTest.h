//===- ProgramTest.h - One program, one and many devices --------*- C++ -*-===//
//
// What the tests of random programs share: a context that collects
// diagnostics, random shardings and arguments, and the comparison of the global
// program's numbers with those of the grid.
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

  /// In [low, high].
  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine);
  }

protected:
  std::mt19937_64 engine;
};

/// How far numbers may be apart: relative to each number, or to the largest of
/// its tensor where sums cancel; in any case to 1 at least.
struct Tolerance {
  double relative = 1e-9;
  bool toLargest = false;
};

class ProgramTest : public testing::Test, protected test::WithContext {
protected:
  /// Partitions a global program with shardings and runs the passes `then` on
  /// the result. False if one fails; `diagnostics` says why.
  bool partition(mlir::ModuleOp module, const std::string &then = "") {
    return runPasses(module, "heddle-repeat-constants,"
                             "heddle-propagate-shardings,"
                             "heddle-materialize-pins,"
                             "heddle-insert-reshards,"
                             "heddle-verify-sharded,heddle-localize,"
                             "heddle-verify-localized,canonicalize,cse" +
                                 (then.empty() ? then : "," + then));
  }

  /// Each axis of the mesh on a random dimension, or, once in `leaveOut` times,
  /// on none.
  ShardingAttr randomSharding(int64_t rank, MeshRef mesh, Random &random,
                              int64_t leaveOut);
  /// On some arguments and results of the function: each is left open once in
  /// so many times.
  void shardArguments(mlir::func::FuncOp function, MeshRef mesh, Random &random,
                      int64_t leaveOut);

  /// Runs @f of both on random arguments, whose padding holds what is not a
  /// number, and expects equal results.
  void expectSameNumbers(mlir::ModuleOp global, mlir::ModuleOp local,
                         Random &random, Tolerance tolerance = {});

  /// Whether to write programs: HEDDLE_RANDOM_WRITE names a folder. SEED.mlir
  /// gets the program, SEED.json the arguments and the interpreter's results,
  /// for test/numerics/random_linalg.py, which compiles and runs them.
  static bool isWriting() { return std::getenv("HEDDLE_RANDOM_WRITE"); }
  bool writeInstead(mlir::ModuleOp module, Random &random, uint64_t seed);
};

std::string toString(mlir::ModuleOp module);

/// One for each argument, of numbers that its type holds.
std::vector<Tensor> randomArguments(mlir::func::FuncOp function,
                                    Random &random);

/// The number in an environment variable, or `otherwise`; `inLongTests` where
/// HEDDLE_LONG_TESTS is set.
int countFromEnvironment(const char *name, int otherwise, int inLongTests);

} // namespace heddle

#endif // HEDDLE_TEST_UNIT_SHARD_PROGRAMTEST_H
