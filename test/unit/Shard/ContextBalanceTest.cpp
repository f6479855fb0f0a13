//===- ContextBalanceTest.cpp - Work of the devices of a ring -------------===//
//
// Counts, for each device, the pairs of a query and a key that the attention
// calls of its program compute.
//
//===----------------------------------------------------------------------===//

#include "dialects/Comm/Comm.h"
#include "heddle/InitAll.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace heddle;

namespace {

/// Returns the value of an index on a device of a mesh with one axis.
int64_t evaluate(Value value, int64_t device) {
  Operation *op = value.getDefiningOp();
  auto operand = [&](unsigned i) {
    return evaluate(op->getOperand(i), device);
  };
  if (isa<comm::AxisIndexOp>(op))
    return device;
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    return cast<IntegerAttr>(constant.getValue()).getInt();
  if (isa<arith::AddIOp>(op))
    return operand(0) + operand(1);
  if (isa<arith::SubIOp>(op))
    return operand(0) - operand(1);
  if (isa<arith::MulIOp>(op))
    return operand(0) * operand(1);
  if (isa<arith::DivUIOp>(op))
    return operand(0) / operand(1);
  if (isa<arith::RemUIOp>(op))
    return operand(0) % operand(1);
  ADD_FAILURE() << "unknown index arithmetic "
                << op->getName().getStringRef().str();
  return 0;
}

/// Partitions an attention over `devices` devices and counts the pairs that
/// each device's calls compute. Splits the keys, too, if `meet`. If causal,
/// expects that all calls together compute each pair of the global attention
/// once.
std::vector<int64_t> countPairs(int64_t length, int64_t devices, bool causal,
                                bool meet) {
  DialectRegistry registry;
  registerAllDialects(registry);
  static bool registered = (registerAllPasses(), true);
  (void)registered;
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  std::string type = "tensor<1x" + std::to_string(length) + "x2x4xf32>";
  std::string text =
      "heddle.mesh @mesh <[\"cp\"=" + std::to_string(devices) + "]>\n" +
      "func.func @f(%q: " + type + ", %k: " + type + ", %v: " + type + ") -> " +
      type + " {\n%o, %l = heddle.attention \"attn\" %q, %k, %v " +
      (causal ? "causal " : "") +
      "scale(1.0) {heddle.factors = #heddle.factors<[\"s\" = {\"cp\"}" +
      (meet ? ", \"t\" = {\"cp\"}" : "") + "]>} : " + type + ", " + type +
      ", " + type + " -> " + type + ", tensor<1x" + std::to_string(length) +
      "x2xf32>\nreturn %o : " + type + "\n}\n";
  auto module = parseSourceString<ModuleOp>(text, &context);
  PassManager manager(&context);
  if (!module ||
      failed(parsePassPipeline("heddle-propagate-shardings,"
                               "heddle-insert-reshards,heddle-localize",
                               manager)) ||
      failed(manager.run(*module))) {
    ADD_FAILURE() << "could not partition " << text;
    return {};
  }
  std::vector<int64_t> work(size_t(devices), 0);
  std::vector<int> seen(size_t(length * length), 0);
  module->walk([&](AttentionOp op) {
    int64_t queries = op.getQuery().getType().getShape()[1];
    int64_t keys = op.getKey().getType().getShape()[1];
    for (int64_t device = 0; device < devices; ++device) {
      // Without mask and padding a call has no offsets and computes all pairs.
      if (op.getOffsets().empty()) {
        work[size_t(device)] += queries * keys;
        continue;
      }
      int64_t query = evaluate(op.getOffsets()[1], device);
      int64_t key = evaluate(op.getOffsets()[2], device);
      for (int64_t i = query; i < query + queries; ++i)
        for (int64_t j = key; j < key + keys; ++j)
          if (i < length && j < length && (!causal || j <= i)) {
            ++work[size_t(device)];
            ++seen[size_t(i * length + j)];
          }
    }
  });
  if (causal)
    for (int64_t i = 0; i < length; ++i)
      for (int64_t j = 0; j < length; ++j)
        EXPECT_EQ(seen[size_t(i * length + j)], j <= i ? 1 : 0)
            << "query " << i << ", key " << j;
  return work;
}

std::pair<int64_t, int64_t> range(const std::vector<int64_t> &work) {
  auto [least, most] = std::minmax_element(work.begin(), work.end());
  return {*least, *most};
}

TEST(ContextBalanceTest, CausalRingGivesAllDevicesTheSameWork) {
  for (int64_t devices : {2, 3, 4, 8}) {
    auto [least, most] = range(countPairs(16 * devices, devices, true, true));
    EXPECT_EQ(least, most) << devices << " devices";
  }
}

TEST(ContextBalanceTest, OddPartsDifferByLessThanARowOfKeys) {
  auto [least, most] = range(countPairs(36, 4, true, true));
  EXPECT_LE(most - least, 36);
}

TEST(ContextBalanceTest, GatheredKeysDoNot) {
  // In the limit of long sequences, the last of P devices has 2 - 1 / P times
  // the mean work.
  std::vector<int64_t> work = countPairs(64, 4, true, false);
  EXPECT_EQ(work, (std::vector<int64_t>{136, 392, 648, 904}));
}

TEST(ContextBalanceTest, WithoutAMaskAllIsComputed) {
  EXPECT_EQ(countPairs(64, 4, false, true), std::vector<int64_t>(4, 16 * 64));
}

} // namespace
