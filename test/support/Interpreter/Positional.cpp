//===- Positional.cpp - Dropout and rotary embedding ----------------------===//

#include "Evaluation.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle_rt/philox.h"
#include <cmath>

using namespace mlir;
using namespace heddle;

/// The 32-bit FNV-1a hash of a stream's name.
static uint32_t hashOf(StringRef name) {
  uint32_t hash = 2166136261u;
  for (unsigned char c : name)
    hash = (hash ^ c) * 16777619u;
  return hash;
}

bool heddle::isDropped(int64_t linearIndex, int64_t step, StringRef stream,
                       uint64_t seed, double rate) {
  uint64_t index = linearIndex;
  uint32_t word =
      runtime::Philox4x32(seed)({uint32_t(index), uint32_t(index >> 32),
                                 uint32_t(step), hashOf(stream)})[0];
  return word < uint64_t(rate * 4294967296.0);
}

static bool evaluateDropout(DropoutOp op, Evaluation &e) {
  const Tensor &x = e.operand(0);
  int64_t step = e.operand(1).values[0];
  double rate = op.getRate().convertToDouble();
  ArrayRef<int64_t> global =
      op.getGlobalShape() ? *op.getGlobalShape() : ArrayRef<int64_t>(x.shape);
  forEachIndex(x.shape, [&](ArrayRef<int64_t> index) {
    int64_t linear = 0;
    for (auto [d, i] : llvm::enumerate(index)) {
      int64_t offset =
          op.getOffsets().empty() ? 0 : e[op.getOffsets()[d]].values[0];
      linear = linear * global[d] + i + offset;
    }
    if (!isDropped(linear, step, *op.getOpName(), op.getSeed(), rate))
      e.result().at(index) = x.at(index) / (1 - rate);
  });
  return true;
}

static bool evaluateRotaryTable(RotaryTableOp op, Evaluation &e) {
  double offset = op.getOffset() ? e[op.getOffset()].values[0] : 0;
  ArrayRef<double> frequencies = op.getFrequencies();
  forEachIndex(e.result().shape, [&](ArrayRef<int64_t> index) {
    double angle = (index[0] + offset) * frequencies[index[1]];
    e.result(0).at(index) = std::cos(angle);
    e.result(1).at(index) = std::sin(angle);
  });
  return true;
}

static bool evaluateRotary(RotaryOp op, Evaluation &e) {
  const Tensor &x = e.operand(0), &cos = e.operand(1), &sin = e.operand(2);
  int64_t half = x.last() / 2;
  double sign = op.getInverse() ? -1 : 1;
  forEachIndex(x.shape, [&](ArrayRef<int64_t> index) {
    int64_t position = index[1], d = index.back(), j = d % half;
    SmallVector<int64_t> partner(index);
    partner.back() = d < half ? d + half : d - half;
    double rotated = (d < half ? -1 : 1) * x.at(partner);
    e.result().at(index) = x.at(index) * cos.at({position, j}) +
                           sign * rotated * sin.at({position, j});
  });
  return true;
}

bool heddle::evaluatePositional(Evaluation &e) {
  return llvm::TypeSwitch<Operation *, bool>(e.op)
      .Case([&](DropoutOp op) { return evaluateDropout(op, e); })
      .Case([&](RotaryTableOp op) { return evaluateRotaryTable(op, e); })
      .Case([&](RotaryOp op) { return evaluateRotary(op, e); })
      .Default(false);
}
