//===- GpuMath.cpp - Functions that NVPTX has no instructions for ---------===//
//
// Expansions in f64. Each expansion is within a few units of the last place of
// f64, and exact where its result is rounded to f32. Functions of f32 that MLIR
// expands to polynomials are not here. Steps whose rounding matters are written
// as fma, because LLVM reassociates sums but not fma.
//
//===----------------------------------------------------------------------===//

#include "GpuEmitter.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"
#include <numbers>

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

namespace {

/// Builds arithmetic of f64.
class Double {
public:
  explicit Double(LoopBuilder &b) : b(b) {}

  Value exp(Value x);
  Value log(Value x);
  /// Returns sin(x + turns * pi / 2); NaN from |x| = 2^30 on, where the
  /// reduction to a quadrant would need more digits.
  Value sine(Value x, int64_t turns);
  Value tanh(Value x);
  Value pow(Value x, Value y);

  Value constant(double value) {
    return b.create<arith::ConstantOp>(b.getF64FloatAttr(value));
  }
  Value mul(Value x, Value y) { return b.create<arith::MulFOp>(x, y); }

private:
  using Predicate = arith::CmpFPredicate;
  Value add(Value x, Value y) { return b.create<arith::AddFOp>(x, y); }
  Value sub(Value x, Value y) { return b.create<arith::SubFOp>(x, y); }
  Value div(Value x, Value y) { return b.create<arith::DivFOp>(x, y); }
  Value fma(Value x, Value y, Value z) {
    return b.create<math::FmaOp>(x, y, z);
  }
  Value compare(Predicate predicate, Value x, Value y) {
    return b.create<arith::CmpFOp>(predicate, x, y);
  }
  Value select(Value condition, Value x, Value y) {
    return b.create<arith::SelectOp>(condition, x, y);
  }
  Value round(Value x) { return b.create<math::RoundEvenOp>(x); }
  Value toInteger(Value x) {
    return b.create<arith::FPToSIOp>(b.getI64Type(), x);
  }
  Value toFloat(Value x) {
    return b.create<arith::SIToFPOp>(b.getF64Type(), x);
  }
  Value bits(Value x) { return b.create<arith::BitcastOp>(b.getI64Type(), x); }
  Value fromBits(Value x) {
    return b.create<arith::BitcastOp>(b.getF64Type(), x);
  }
  /// Returns coefficients[0] + x * (coefficients[1] + x * ...).
  Value polynomial(Value x, ArrayRef<double> coefficients) {
    Value sum = constant(coefficients.back());
    for (double coefficient : llvm::reverse(coefficients.drop_back()))
      sum = fma(sum, x, constant(coefficient));
    return sum;
  }
  /// Returns 2^n for an i64 n from -1022 to 1023.
  Value powerOfTwo(Value n) {
    return fromBits(b.create<arith::ShLIOp>(
        b.create<arith::AddIOp>(n, b.i64(1023)), b.i64(52)));
  }

  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  /// The first bits of the logarithm of 2, and the rest.
  static constexpr double kLn2High = 6.93147180369123816490e-01;
  static constexpr double kLn2Low = 1.90821492927058770002e-10;

  LoopBuilder &b;
};

Value Double::exp(Value x) {
  constexpr double kMost = 709.782712893384, kLeast = -745.1332191019412;
  Value below =
      select(compare(Predicate::OLT, x, constant(710)), x, constant(710));
  Value within = select(compare(Predicate::OGT, below, constant(-750)), below,
                        constant(-750));
  Value n = round(mul(within, constant(std::numbers::log2e)));
  Value rest = fma(n, constant(-kLn2High), within);
  rest = fma(n, constant(-kLn2Low), rest);
  SmallVector<double> coefficients{1};
  for (int i = 1; i <= 13; ++i)
    coefficients.push_back(coefficients.back() / i);
  Value result = polynomial(rest, coefficients);
  // 2^n in two steps, because 2^-1074 is no normal number.
  Value whole = toInteger(n);
  Value half = b.create<arith::ShRSIOp>(whole, b.i64(1));
  result = mul(result, powerOfTwo(half));
  result = mul(result, powerOfTwo(b.create<arith::SubIOp>(whole, half)));
  result = select(compare(Predicate::OGT, x, constant(kMost)),
                  constant(kInfinity), result);
  result =
      select(compare(Predicate::OLT, x, constant(kLeast)), constant(0), result);
  return select(compare(Predicate::UNO, x, x), x, result);
}

Value Double::log(Value x) {
  // Denormal numbers are scaled by 2^54.
  Value isSmall = compare(Predicate::OLT, x, constant(0x1p-1022));
  Value scaled = select(isSmall, mul(x, constant(0x1p54)), x);
  Value word = bits(scaled);
  Value exponent = b.create<arith::SubIOp>(
      b.create<arith::ShRUIOp>(word, b.i64(52)), b.i64(1023));
  Value mantissa = fromBits(b.create<arith::OrIOp>(
      b.create<arith::AndIOp>(word, b.i64((int64_t(1) << 52) - 1)),
      b.i64(int64_t(1023) << 52)));
  Value isLarge =
      compare(Predicate::OGT, mantissa, constant(std::numbers::sqrt2));
  mantissa = select(isLarge, mul(mantissa, constant(0.5)), mantissa);
  Value n = add(toFloat(exponent), select(isLarge, constant(1), constant(0)));
  n = sub(n, select(isSmall, constant(54), constant(0)));
  // log(m) = 2 atanh(s) with s = (m - 1) / (m + 1), which is at most 0.172.
  Value f = sub(mantissa, constant(1));
  Value s = div(f, add(mantissa, constant(1)));
  SmallVector<double> coefficients;
  for (int i = 1; i <= 11; ++i)
    coefficients.push_back(2.0 / (2 * i + 1));
  Value square = mul(s, s);
  Value tail = mul(square, polynomial(square, coefficients));
  Value small = fma(s, tail, mul(s, constant(2)));
  Value result = fma(n, constant(kLn2High), fma(n, constant(kLn2Low), small));
  result = select(compare(Predicate::OEQ, x, constant(0)), constant(-kInfinity),
                  result);
  result = select(compare(Predicate::OEQ, x, constant(kInfinity)),
                  constant(kInfinity), result);
  return select(compare(Predicate::UGE, x, constant(0)),
                select(compare(Predicate::UNO, x, x), x, result),
                constant(kNaN));
}

Value Double::sine(Value x, int64_t turns) {
  constexpr double kMost = 0x1p30;
  Value known =
      compare(Predicate::OLT, b.create<math::AbsFOp>(x), constant(kMost));
  Value within = select(known, x, constant(0));
  Value n = round(mul(within, constant(2 / std::numbers::pi)));
  Value r = fma(n, constant(-1.5707963267948966), within);
  r = fma(n, constant(-6.123233995736766e-17), r);
  r = fma(n, constant(1.4973849048591833e-33), r);
  Value square = mul(r, r);
  SmallVector<double> odd{1}, even{1};
  for (int i = 1; i <= 8; ++i) {
    odd.push_back(-odd.back() / (2 * i * (2 * i + 1)));
    even.push_back(-even.back() / (2 * i * (2 * i - 1)));
  }
  even.push_back(-even.back() / (18 * 17));
  Value sine = mul(r, polynomial(square, odd));
  Value cosine = polynomial(square, even);
  Value quadrant = b.create<arith::AndIOp>(
      b.create<arith::AddIOp>(toInteger(n), b.i64(turns)), b.i64(3));
  auto isSet = [&](int64_t bit) -> Value {
    return b.create<arith::CmpIOp>(
        arith::CmpIPredicate::ne, b.create<arith::AndIOp>(quadrant, b.i64(bit)),
        b.i64(0));
  };
  Value size = select(isSet(1), cosine, sine);
  Value result = select(isSet(2), b.create<arith::NegFOp>(size), size);
  return select(known, result, constant(kNaN));
}

Value Double::tanh(Value x) {
  Value size = b.create<math::AbsFOp>(x);
  Value power = exp(mul(size, constant(-2)));
  Value far = div(sub(constant(1), power), add(constant(1), power));
  // The difference loses digits near 0.
  Value square = mul(x, x);
  Value near = mul(size, polynomial(square, {1, -1.0 / 3, 2.0 / 15, -17.0 / 315,
                                             62.0 / 2835, -1382.0 / 155925}));
  Value isNear = compare(Predicate::OLT, size, constant(0.05));
  return b.create<math::CopySignOp>(select(isNear, near, far), x);
}

Value Double::pow(Value x, Value y) {
  Value power = exp(mul(y, log(b.create<math::AbsFOp>(x))));
  // A negative base has a power only for integer exponents. The power is
  // negative for odd exponents.
  Value isWhole = compare(Predicate::OEQ, b.create<math::FloorOp>(y), y);
  Value half = mul(y, constant(0.5));
  Value isEven = compare(Predicate::OEQ, b.create<math::FloorOp>(half), half);
  Value isOdd = b.create<arith::AndIOp>(
      isWhole, b.create<arith::XOrIOp>(
                   isEven, b.create<arith::ConstantOp>(b.getBoolAttr(true))));
  Value negative = select(isOdd, b.create<arith::NegFOp>(power), power);
  negative = select(isWhole, negative, constant(kNaN));
  Value result =
      select(compare(Predicate::OLT, x, constant(0)), negative, power);
  auto isOne = b.create<arith::OrIOp>(compare(Predicate::OEQ, y, constant(0)),
                                      compare(Predicate::OEQ, x, constant(1)));
  return select(isOne, constant(1), result);
}

} // namespace

Value lower::expandForGpu(LoopBuilder &b, Operation *op, ValueRange operands) {
  if (!isa_and_nonnull<math::MathDialect>(op->getDialect()) ||
      operands.empty() || !isa<FloatType>(operands[0].getType()))
    return Value();
  Type type = operands[0].getType();
  bool isDouble = type.isF64();
  Double d(b);
  auto wide = [&](unsigned i) -> Value {
    return isDouble ? operands[i]
                    : b.create<arith::ExtFOp>(b.getF64Type(), operands[i]);
  };
  auto narrow = [&](Value value) -> Value {
    if (!value || isDouble)
      return value;
    return b.create<arith::TruncFOp>(type, value);
  };
  // MLIR has polynomials of f32 for these.
  if (isDouble) {
    Value value =
        llvm::TypeSwitch<Operation *, Value>(op)
            .Case([&](math::ExpOp) { return d.exp(operands[0]); })
            .Case([&](math::LogOp) { return d.log(operands[0]); })
            .Case([&](math::Log2Op) {
              return d.mul(d.log(operands[0]), d.constant(std::numbers::log2e));
            })
            .Case([&](math::TanhOp) { return d.tanh(operands[0]); })
            .Default(Value());
    if (value)
      return value;
  }
  return narrow(
      llvm::TypeSwitch<Operation *, Value>(op)
          .Case([&](math::Exp2Op) {
            return d.exp(d.mul(wide(0), d.constant(std::numbers::ln2)));
          })
          .Case([&](math::Log10Op) {
            return d.mul(d.log(wide(0)), d.constant(std::numbers::log10e));
          })
          .Case([&](math::SinOp) { return d.sine(wide(0), 0); })
          .Case([&](math::CosOp) { return d.sine(wide(0), 1); })
          .Case([&](math::PowFOp) { return d.pow(wide(0), wide(1)); })
          .Default(Value()));
}
