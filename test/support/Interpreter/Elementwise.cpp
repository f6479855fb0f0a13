//===- Elementwise.cpp - arith, math and activations ----------------------===//

#include "Evaluation.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/Support/DenseNumbers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>
#include <numbers>

using namespace mlir;
using namespace heddle;

template <typename Function> static bool map(Evaluation &e, Function f) {
  const Tensor &x = e.operand(0);
  for (int64_t i = 0; i < x.size(); ++i)
    e.result().values[i] = f(x.values[i]);
  return true;
}

template <typename Function> static bool zip(Evaluation &e, Function f) {
  const Tensor &x = e.operand(0), &y = e.operand(1);
  for (int64_t i = 0; i < x.size(); ++i)
    e.result().values[i] = f(x.values[i], y.values[i]);
  return true;
}

static bool evaluateSelect(Evaluation &e) {
  const Tensor &condition = e.operand(0);
  for (int64_t i = 0; i < e.result().size(); ++i) {
    bool yes = condition.values[condition.rank() == 0 ? 0 : i] != 0;
    e.result().values[i] = e.operand(yes ? 1 : 2).values[i];
  }
  return true;
}

static bool evaluateConstant(arith::ConstantOp op, Evaluation &e) {
  auto set = [&](unsigned i, Attribute attr) {
    if (auto number = dyn_cast<FloatAttr>(attr))
      e.result().values[i] = number.getValueAsDouble();
    else if (auto number = dyn_cast<IntegerAttr>(attr))
      // Both are cast: int64_t and uint64_t would have the type uint64_t.
      e.result().values[i] = number.getType().isInteger(1)
                                 ? double(number.getValue().getZExtValue())
                                 : double(number.getValue().getSExtValue());
    else
      return false;
    return true;
  };
  auto elements = dyn_cast<ElementsAttr>(op.getValue());
  if (!elements)
    return set(0, op.getValue());
  FailureOr<DenseElementsAttr> numbers =
      getDenseNumbers(elements, [&] { return op.emitError(); });
  if (failed(numbers))
    return e.hasFailed = true;
  for (auto [i, attr] : llvm::enumerate(numbers->getValues<Attribute>()))
    if (!set(i, attr))
      return false;
  return true;
}

static bool compare(arith::CmpFPredicate predicate, double x, double y) {
  using P = arith::CmpFPredicate;
  bool unordered = std::isnan(x) || std::isnan(y);
  switch (predicate) {
  case P::AlwaysFalse:
    return false;
  case P::AlwaysTrue:
    return true;
  case P::ORD:
    return !unordered;
  case P::UNO:
    return unordered;
  case P::OEQ:
    return x == y;
  case P::OGT:
    return x > y;
  case P::OGE:
    return x >= y;
  case P::OLT:
    return x < y;
  case P::OLE:
    return x <= y;
  case P::ONE:
    return !unordered && x != y;
  case P::UEQ:
    return unordered || x == y;
  case P::UGT:
    return unordered || x > y;
  case P::UGE:
    return unordered || x >= y;
  case P::ULT:
    return unordered || x < y;
  case P::ULE:
    return unordered || x <= y;
  case P::UNE:
    return x != y;
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Activations: value and derivative
//===----------------------------------------------------------------------===//

static double gelu(double x, GeluApproximation form) {
  if (form == GeluApproximation::None)
    return x * 0.5 * (1 + std::erf(x / std::numbers::sqrt2));
  double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1 + std::tanh(u));
}

static double geluDerivative(double x, GeluApproximation form) {
  if (form == GeluApproximation::None)
    return 0.5 * (1 + std::erf(x / std::numbers::sqrt2)) +
           x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
  double c = std::sqrt(2 / std::numbers::pi);
  double t = std::tanh(c * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}

static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

static double siluDerivative(double x) {
  double s = sigmoid(x);
  return s * (1 + x * (1 - s));
}

//===----------------------------------------------------------------------===//
// Dispatch
//===----------------------------------------------------------------------===//

static bool evaluateArith(Evaluation &e) {
  auto identity = [](double x) { return x; };
  return llvm::TypeSwitch<Operation *, bool>(e.op)
      .Case([&](arith::ConstantOp op) { return evaluateConstant(op, e); })
      .Case([&](arith::SelectOp) { return evaluateSelect(e); })
      .Case<arith::ExtFOp, arith::TruncFOp>(
          [&](Operation *) { return map(e, identity); })
      .Case([&](arith::NegFOp) { return map(e, std::negate<>()); })
      .Case([&](arith::AddFOp) { return zip(e, std::plus<>()); })
      .Case([&](arith::SubFOp) { return zip(e, std::minus<>()); })
      .Case([&](arith::MulFOp) { return zip(e, std::multiplies<>()); })
      .Case([&](arith::DivFOp) { return zip(e, std::divides<>()); })
      .Case([&](arith::RemFOp) {
        return zip(e, [](double x, double y) { return std::fmod(x, y); });
      })
      // MaximumF and MinimumF return NaN if an operand is NaN. MaxNumF and
      // MinNumF return the other operand.
      .Case([&](arith::MaximumFOp) {
        return zip(e, [](double x, double y) {
          return std::isnan(x) || std::isnan(y) ? NAN : std::max(x, y);
        });
      })
      .Case([&](arith::MinimumFOp) {
        return zip(e, [](double x, double y) {
          return std::isnan(x) || std::isnan(y) ? NAN : std::min(x, y);
        });
      })
      .Case([&](arith::MaxNumFOp) {
        return zip(e, [](double x, double y) { return std::fmax(x, y); });
      })
      .Case([&](arith::MinNumFOp) {
        return zip(e, [](double x, double y) { return std::fmin(x, y); });
      })
      .Case([&](arith::CmpFOp op) {
        return zip(e, [&](double x, double y) {
          return double(compare(op.getPredicate(), x, y));
        });
      })
      .Default(false);
}

static bool evaluateMath(Evaluation &e) {
  using Function = double (*)(double);
  auto apply = [&](Function f) { return map(e, f); };
  return llvm::TypeSwitch<Operation *, bool>(e.op)
      .Case([&](math::ExpOp) { return apply(std::exp); })
      .Case([&](math::Exp2Op) { return apply(std::exp2); })
      .Case([&](math::ExpM1Op) { return apply(std::expm1); })
      .Case([&](math::LogOp) { return apply(std::log); })
      .Case([&](math::Log2Op) { return apply(std::log2); })
      .Case([&](math::Log10Op) { return apply(std::log10); })
      .Case([&](math::Log1pOp) { return apply(std::log1p); })
      .Case([&](math::SqrtOp) { return apply(std::sqrt); })
      .Case([&](math::RsqrtOp) {
        return map(e, [](double x) { return 1 / std::sqrt(x); });
      })
      .Case([&](math::TanhOp) { return apply(std::tanh); })
      .Case([&](math::SinOp) { return apply(std::sin); })
      .Case([&](math::CosOp) { return apply(std::cos); })
      .Case([&](math::AtanOp) { return apply(std::atan); })
      .Case([&](math::ErfOp) { return apply(std::erf); })
      .Case([&](math::AbsFOp) { return apply(std::fabs); })
      .Case([&](math::CeilOp) { return apply(std::ceil); })
      .Case([&](math::FloorOp) { return apply(std::floor); })
      .Case([&](math::RoundOp) { return apply(std::round); })
      .Case([&](math::RoundEvenOp) { return apply(std::nearbyint); })
      .Case([&](math::TruncOp) { return apply(std::trunc); })
      .Case([&](math::CbrtOp) { return apply(std::cbrt); })
      .Case([&](math::TanOp) { return apply(std::tan); })
      .Case([&](math::SinhOp) { return apply(std::sinh); })
      .Case([&](math::CoshOp) { return apply(std::cosh); })
      .Case([&](math::AsinOp) { return apply(std::asin); })
      .Case([&](math::AcosOp) { return apply(std::acos); })
      .Case([&](math::Atan2Op) {
        return zip(e, [](double y, double x) { return std::atan2(y, x); });
      })
      .Case([&](math::PowFOp) {
        return zip(e, [](double x, double y) { return std::pow(x, y); });
      })
      .Case([&](math::CopySignOp) {
        return zip(e, [](double x, double y) { return std::copysign(x, y); });
      })
      .Case([&](math::FmaOp) {
        for (int64_t i = 0; i < e.result().size(); ++i)
          e.result().values[i] =
              e.operand(0).values[i] * e.operand(1).values[i] +
              e.operand(2).values[i];
        return true;
      })
      .Default(false);
}

bool heddle::evaluateElementwise(Evaluation &e) {
  if (evaluateArith(e) || evaluateInteger(e) || evaluateMath(e))
    return true;
  return llvm::TypeSwitch<Operation *, bool>(e.op)
      .Case([&](GeluOp op) {
        return map(e, [&](double x) { return gelu(x, op.getApproximate()); });
      })
      .Case([&](GeluGradOp op) {
        return zip(e, [&](double x, double dy) {
          return geluDerivative(x, op.getApproximate()) * dy;
        });
      })
      .Case([&](SiluOp) {
        return map(e, [](double x) { return x * sigmoid(x); });
      })
      .Case([&](SiluGradOp) {
        return zip(e,
                   [](double x, double dy) { return siluDerivative(x) * dy; });
      })
      .Default(false);
}
