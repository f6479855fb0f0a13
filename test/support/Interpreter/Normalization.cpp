//===- Normalization.cpp - Layer and root-mean-square norms ---------------===//

#include "Evaluation.h"
#include "dialects/Heddle/Heddle.h"
#include <cmath>

using namespace mlir;
using namespace heddle;

static bool evaluateLayerNorm(LayerNormOp op, Evaluation &e) {
  const Tensor &x = e.operand(0), &weight = e.operand(1), &bias = e.operand(2);
  Tensor &y = e.result(0), &mean = e.result(1), &rstd = e.result(2);
  int64_t n = x.last();
  for (int64_t row = 0; row < x.rows(); ++row) {
    const double *in = &x.values[row * n];
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; ++i)
      sum += in[i];
    mean.values[row] = sum / n;
    for (int64_t i = 0; i < n; ++i)
      squares += std::pow(in[i] - mean.values[row], 2);
    rstd.values[row] =
        1 / std::sqrt(squares / n + op.getEpsilon().convertToDouble());
    for (int64_t i = 0; i < n; ++i)
      y.values[row * n + i] =
          (in[i] - mean.values[row]) * rstd.values[row] * weight.values[i] +
          bias.values[i];
  }
  return true;
}

// With z = (x - mean) rstd and g = dy weight:
// dx = rstd (g - mean(g) - z mean(g z)), dweight = sum(dy z), dbias = sum(dy).
static bool evaluateLayerNormGrad(LayerNormGradOp, Evaluation &e) {
  const Tensor &x = e.operand(0), &weight = e.operand(1), &mean = e.operand(2),
               &rstd = e.operand(3), &dy = e.operand(4);
  Tensor &dx = e.result(0), &dweight = e.result(1), &dbias = e.result(2);
  int64_t n = x.last();
  for (int64_t row = 0; row < x.rows(); ++row) {
    auto z = [&](int64_t i) {
      return (x.values[row * n + i] - mean.values[row]) * rstd.values[row];
    };
    double sum = 0, sumZ = 0;
    for (int64_t i = 0; i < n; ++i) {
      double d = dy.values[row * n + i], g = d * weight.values[i];
      dweight.values[i] += d * z(i);
      dbias.values[i] += d;
      sum += g;
      sumZ += g * z(i);
    }
    for (int64_t i = 0; i < n; ++i) {
      double g = dy.values[row * n + i] * weight.values[i];
      dx.values[row * n + i] =
          rstd.values[row] * (g - sum / n - z(i) * sumZ / n);
    }
  }
  return true;
}

static bool evaluateRmsNorm(RmsNormOp op, Evaluation &e) {
  const Tensor &x = e.operand(0), &weight = e.operand(1);
  Tensor &y = e.result(0), &rstd = e.result(1);
  int64_t n = x.last();
  for (int64_t row = 0; row < x.rows(); ++row) {
    double squares = 0;
    for (int64_t i = 0; i < n; ++i)
      squares += std::pow(x.values[row * n + i], 2);
    rstd.values[row] =
        1 / std::sqrt(squares / n + op.getEpsilon().convertToDouble());
    for (int64_t i = 0; i < n; ++i)
      y.values[row * n + i] =
          x.values[row * n + i] * rstd.values[row] * weight.values[i];
  }
  return true;
}

// With z = x rstd and g = dy weight: dx = rstd (g - z mean(g z)).
static bool evaluateRmsNormGrad(RmsNormGradOp, Evaluation &e) {
  const Tensor &x = e.operand(0), &weight = e.operand(1), &rstd = e.operand(2),
               &dy = e.operand(3);
  Tensor &dx = e.result(0), &dweight = e.result(1);
  int64_t n = x.last();
  for (int64_t row = 0; row < x.rows(); ++row) {
    auto z = [&](int64_t i) {
      return x.values[row * n + i] * rstd.values[row];
    };
    double sumZ = 0;
    for (int64_t i = 0; i < n; ++i) {
      double d = dy.values[row * n + i];
      dweight.values[i] += d * z(i);
      sumZ += d * weight.values[i] * z(i);
    }
    for (int64_t i = 0; i < n; ++i)
      dx.values[row * n + i] =
          rstd.values[row] *
          (dy.values[row * n + i] * weight.values[i] - z(i) * sumZ / n);
  }
  return true;
}

bool heddle::evaluateNormalization(Evaluation &e) {
  return llvm::TypeSwitch<Operation *, bool>(e.op)
      .Case([&](LayerNormOp op) { return evaluateLayerNorm(op, e); })
      .Case([&](LayerNormGradOp op) { return evaluateLayerNormGrad(op, e); })
      .Case([&](RmsNormOp op) { return evaluateRmsNorm(op, e); })
      .Case([&](RmsNormGradOp op) { return evaluateRmsNormGrad(op, e); })
      .Default(false);
}
