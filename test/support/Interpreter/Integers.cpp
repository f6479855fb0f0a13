//===- Integers.cpp - Integer arithmetic of a given width -----------------===//
//
// Integers are whole doubles, signed except for booleans. Each op works on
// their bits and wraps around at the width of its type. An operation that traps
// on a machine is an error.
//
//===----------------------------------------------------------------------===//

#include "Evaluation.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>

using namespace mlir;
using namespace heddle;

static unsigned widthOf(Type type) {
  Type element = getElementTypeOrSelf(type);
  return element.isIntOrFloat() ? element.getIntOrFloatBitWidth() : 64;
}

static APInt toBits(double value, unsigned width) {
  if (value >= 0x1p63) // the largest i64 is rounded up to 2^63 as a double
    return APInt::getSignedMaxValue(64).trunc(width);
  return APInt(64, uint64_t(int64_t(value))).trunc(width);
}

static double fromBits(const APInt &bits) {
  return bits.getBitWidth() == 1 ? double(bits.getZExtValue())
                                 : double(bits.getSExtValue());
}

void heddle::wrapAround(Type type, Tensor &tensor) {
  if (!isa<IntegerType>(getElementTypeOrSelf(type)))
    return;
  for (double &value : tensor.values)
    value = fromBits(toBits(value, widthOf(type)));
}

template <typename Function> static bool mapBits(Evaluation &e, Function f) {
  unsigned width = widthOf(e.op->getOperand(0).getType());
  for (int64_t i = 0; i < e.operand(0).size(); ++i)
    e.result().values[i] = f(toBits(e.operand(0).values[i], width));
  return true;
}

template <typename Function> static bool zipBits(Evaluation &e, Function f) {
  unsigned width = widthOf(e.op->getOperand(0).getType());
  for (int64_t i = 0; i < e.operand(0).size(); ++i)
    e.result().values[i] = fromBits(f(toBits(e.operand(0).values[i], width),
                                      toBits(e.operand(1).values[i], width)));
  return true;
}

static bool compare(arith::CmpIPredicate predicate, const APInt &x,
                    const APInt &y) {
  using P = arith::CmpIPredicate;
  switch (predicate) {
  case P::eq:
    return x == y;
  case P::ne:
    return x != y;
  case P::slt:
    return x.slt(y);
  case P::ult:
    return x.ult(y);
  case P::sle:
    return x.sle(y);
  case P::ule:
    return x.ule(y);
  case P::sgt:
    return x.sgt(y);
  case P::ugt:
    return x.ugt(y);
  case P::sge:
    return x.sge(y);
  case P::uge:
    return x.uge(y);
  }
  return false;
}

/// Division and remainder; a division by zero is an error.
static bool evaluateDivision(Evaluation &e) {
  if (llvm::is_contained(e.operand(1).values, 0))
    return e.fail("divides by zero");
  using Rounding = APInt::Rounding;
  return llvm::TypeSwitch<Operation *, bool>(e.op)
      .Case([&](arith::DivSIOp) {
        return zipBits(
            e, [](const APInt &x, const APInt &y) { return x.sdiv(y); });
      })
      .Case([&](arith::DivUIOp) {
        return zipBits(
            e, [](const APInt &x, const APInt &y) { return x.udiv(y); });
      })
      .Case([&](arith::RemSIOp) {
        return zipBits(
            e, [](const APInt &x, const APInt &y) { return x.srem(y); });
      })
      .Case([&](arith::RemUIOp) {
        return zipBits(
            e, [](const APInt &x, const APInt &y) { return x.urem(y); });
      })
      .Case([&](arith::CeilDivSIOp) {
        return zipBits(e, [](const APInt &x, const APInt &y) {
          return llvm::APIntOps::RoundingSDiv(x, y, Rounding::UP);
        });
      })
      .Case([&](arith::FloorDivSIOp) {
        return zipBits(e, [](const APInt &x, const APInt &y) {
          return llvm::APIntOps::RoundingSDiv(x, y, Rounding::DOWN);
        });
      })
      .Case([&](arith::CeilDivUIOp) {
        return zipBits(e, [](const APInt &x, const APInt &y) {
          return llvm::APIntOps::RoundingUDiv(x, y, Rounding::UP);
        });
      })
      .Default(false);
}

/// A shift by the width or more is poison; the result here is zero.
template <typename Function> static bool shiftBits(Evaluation &e, Function f) {
  return zipBits(e, [&](const APInt &x, const APInt &y) {
    return y.ult(x.getBitWidth()) ? f(x, y) : APInt(x.getBitWidth(), 0);
  });
}

/// Converts between integers of two widths, and to and from floating point.
static bool evaluateConversion(Evaluation &e) {
  unsigned to = widthOf(e.op->getResult(0).getType());
  return llvm::TypeSwitch<Operation *, bool>(e.op)
      .Case<arith::ExtSIOp, arith::SIToFPOp, arith::IndexCastOp>([&](auto op) {
        return mapBits(e, [&](const APInt &x) {
          // A boolean is one bit, which is its sign too.
          double value = double(x.getSExtValue());
          return isa<FloatType>(
                     getElementTypeOrSelf(op->getResult(0).getType()))
                     ? value
                     : fromBits(toBits(value, to));
        });
      })
      .Case<arith::ExtUIOp, arith::UIToFPOp, arith::IndexCastUIOp>(
          [&](Operation *) {
            return mapBits(
                e, [](const APInt &x) { return double(x.getZExtValue()); });
          })
      .Case([&](arith::TruncIOp) {
        return mapBits(e,
                       [&](const APInt &x) { return fromBits(x.trunc(to)); });
      })
      .Case<arith::FPToSIOp, arith::FPToUIOp>([&](Operation *) {
        for (int64_t i = 0; i < e.operand(0).size(); ++i) {
          double value = std::trunc(e.operand(0).values[i]);
          // A value that does not fit is poison; the result here is zero.
          e.result().values[i] =
              std::abs(value) < 0x1p53 ? fromBits(toBits(value, to)) : 0;
        }
        return true;
      })
      .Default(false);
}

bool heddle::evaluateInteger(Evaluation &e) {
  return llvm::TypeSwitch<Operation *, bool>(e.op)
      .Case([&](arith::AddIOp) { return zipBits(e, std::plus<>()); })
      .Case([&](arith::SubIOp) { return zipBits(e, std::minus<>()); })
      .Case([&](arith::MulIOp) { return zipBits(e, std::multiplies<>()); })
      .Case([&](arith::AndIOp) { return zipBits(e, std::bit_and<>()); })
      .Case([&](arith::OrIOp) { return zipBits(e, std::bit_or<>()); })
      .Case([&](arith::XOrIOp) { return zipBits(e, std::bit_xor<>()); })
      .Case([&](arith::MaxSIOp) {
        return zipBits(
            e, [](const APInt &x, const APInt &y) { return x.sgt(y) ? x : y; });
      })
      .Case([&](arith::MinSIOp) {
        return zipBits(
            e, [](const APInt &x, const APInt &y) { return x.slt(y) ? x : y; });
      })
      .Case([&](arith::MaxUIOp) {
        return zipBits(
            e, [](const APInt &x, const APInt &y) { return x.ugt(y) ? x : y; });
      })
      .Case([&](arith::MinUIOp) {
        return zipBits(
            e, [](const APInt &x, const APInt &y) { return x.ult(y) ? x : y; });
      })
      .Case([&](arith::ShLIOp) {
        return shiftBits(
            e, [](const APInt &x, const APInt &y) { return x.shl(y); });
      })
      .Case([&](arith::ShRSIOp) {
        return shiftBits(
            e, [](const APInt &x, const APInt &y) { return x.ashr(y); });
      })
      .Case([&](arith::ShRUIOp) {
        return shiftBits(
            e, [](const APInt &x, const APInt &y) { return x.lshr(y); });
      })
      .Case([&](arith::CmpIOp op) {
        unsigned width = widthOf(op.getLhs().getType());
        for (int64_t i = 0; i < e.result().size(); ++i)
          e.result().values[i] =
              compare(op.getPredicate(), toBits(e.operand(0).values[i], width),
                      toBits(e.operand(1).values[i], width));
        return true;
      })
      .Case([&](math::AbsIOp) {
        return mapBits(e, [](const APInt &x) { return fromBits(x.abs()); });
      })
      .Default([&](Operation *op) {
        if (isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp,
                arith::CeilDivSIOp, arith::FloorDivSIOp, arith::CeilDivUIOp>(
                op))
          return evaluateDivision(e);
        return evaluateConversion(e);
      });
}
