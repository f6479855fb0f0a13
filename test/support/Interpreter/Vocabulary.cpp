//===- Vocabulary.cpp - Embedding and cross-entropy -----------------------===//

#include "Evaluation.h"
#include "dialects/Heddle/Heddle.h"
#include <cmath>

using namespace mlir;
using namespace heddle;

template <typename OpTy> static int64_t offsetOf(OpTy op, Evaluation &e) {
  return op.getOffset() ? int64_t(e[op.getOffset()].values[0]) : 0;
}

static bool evaluateEmbedding(EmbeddingOp op, Evaluation &e) {
  const Tensor &table = e.operand(0), &ids = e.operand(1);
  int64_t width = table.last(), offset = offsetOf(op, e);
  for (int64_t i = 0; i < ids.size(); ++i) {
    int64_t row = int64_t(ids.values[i]) - offset;
    if (row < 0 || row >= table.shape[0])
      continue;
    for (int64_t j = 0; j < width; ++j)
      e.result().values[i * width + j] = table.values[row * width + j];
  }
  return true;
}

static bool evaluateEmbeddingGrad(EmbeddingGradOp op, Evaluation &e) {
  const Tensor &ids = e[op.getIds()], &grad = e[op.getYGrad()];
  Tensor &result = e.result();
  if (op.getAccumulate())
    result = e[op.getAccumulate()];
  int64_t width = result.last(), offset = offsetOf(op, e);
  for (int64_t i = 0; i < ids.size(); ++i) {
    int64_t row = int64_t(ids.values[i]) - offset;
    if (row < 0 || row >= result.shape[0])
      continue;
    for (int64_t j = 0; j < width; ++j)
      result.values[row * width + j] += grad.values[i * width + j];
  }
  return true;
}

static double logSumExp(const Tensor &logits, int64_t row) {
  int64_t n = logits.last();
  const double *x = &logits.values[row * n];
  double maximum = *std::max_element(x, x + n), sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += std::exp(x[i] - maximum);
  return maximum + std::log(sum);
}

static bool evaluateCrossEntropy(CrossEntropyOp op, Evaluation &e) {
  const Tensor &logits = e.operand(0), &targets = e.operand(1);
  Tensor &loss = e.result(0), &lse = e.result(1);
  for (int64_t row = 0; row < logits.rows(); ++row) {
    lse.values[row] = logSumExp(logits, row);
    int64_t target = targets.values[row];
    if (target != int64_t(op.getIgnoreIndex()))
      loss.values[row] =
          lse.values[row] - logits.values[row * logits.last() + target];
  }
  return true;
}

static bool evaluateCrossEntropyGrad(CrossEntropyGradOp op, Evaluation &e) {
  const Tensor &logits = e[op.getLogits()], &targets = e[op.getTargets()],
               &lse = e[op.getLse()], &grad = e[op.getLossGrad()];
  int64_t n = logits.last(), offset = offsetOf(op, e);
  for (int64_t row = 0; row < logits.rows(); ++row) {
    int64_t target = targets.values[row];
    if (target == int64_t(op.getIgnoreIndex()))
      continue;
    for (int64_t v = 0; v < n; ++v)
      e.result().values[row * n + v] =
          (std::exp(logits.values[row * n + v] - lse.values[row]) -
           (v + offset == target)) *
          grad.values[row];
  }
  return true;
}

static bool evaluatePick(PickOp op, Evaluation &e) {
  const Tensor &logits = e.operand(0), &ids = e.operand(1);
  int64_t offset = offsetOf(op, e);
  for (int64_t row = 0; row < logits.rows(); ++row) {
    int64_t id = int64_t(ids.values[row]) - offset;
    if (id >= 0 && id < logits.last())
      e.result().values[row] = logits.values[row * logits.last() + id];
  }
  return true;
}

bool heddle::evaluateVocabulary(Evaluation &e) {
  return llvm::TypeSwitch<Operation *, bool>(e.op)
      .Case([&](EmbeddingOp op) { return evaluateEmbedding(op, e); })
      .Case([&](EmbeddingGradOp op) { return evaluateEmbeddingGrad(op, e); })
      .Case([&](CrossEntropyOp op) { return evaluateCrossEntropy(op, e); })
      .Case([&](CrossEntropyGradOp op) {
        return evaluateCrossEntropyGrad(op, e);
      })
      .Case([&](LogSumExpOp) {
        for (int64_t row = 0; row < e.operand(0).rows(); ++row)
          e.result().values[row] = logSumExp(e.operand(0), row);
        return true;
      })
      .Case([&](PickOp op) { return evaluatePick(op, e); })
      .Default(false);
}
