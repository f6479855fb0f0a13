//===- Combine.cpp - Sums across threads ----------------------------------===//

#include "GpuEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

/// Returns the value that changes nothing when it is combined.
static TypedAttr getIdentity(Operation *op, Type type) {
  if (auto floatType = dyn_cast<FloatType>(type)) {
    const llvm::fltSemantics &semantics = floatType.getFloatSemantics();
    if (isa<arith::AddFOp>(op))
      return FloatAttr::get(type, APFloat::getZero(semantics));
    if (isa<arith::MulFOp>(op))
      return FloatAttr::get(type, APFloat(semantics, 1));
    if (isa<arith::MaximumFOp, arith::MaxNumFOp>(op))
      return FloatAttr::get(type, APFloat::getInf(semantics, true));
    if (isa<arith::MinimumFOp, arith::MinNumFOp>(op))
      return FloatAttr::get(type, APFloat::getInf(semantics));
    return nullptr;
  }
  unsigned bits = type.getIntOrFloatBitWidth();
  if (isa<arith::AddIOp, arith::OrIOp, arith::XOrIOp, arith::MaxUIOp>(op))
    return IntegerAttr::get(type, APInt::getZero(bits));
  if (isa<arith::MulIOp>(op))
    return IntegerAttr::get(type, APInt(bits, 1));
  if (isa<arith::AndIOp, arith::MinUIOp>(op))
    return IntegerAttr::get(type, APInt::getAllOnes(bits));
  if (isa<arith::MaxSIOp>(op))
    return IntegerAttr::get(type, APInt::getSignedMinValue(bits));
  if (isa<arith::MinSIOp>(op))
    return IntegerAttr::get(type, APInt::getSignedMaxValue(bits));
  return nullptr;
}

static bool changesPrecision(Operation *op) {
  return isa_and_nonnull<arith::ExtFOp, arith::TruncFOp>(op);
}

Combiner lower::getCombiner(const Statement &statement, unsigned result) {
  auto generic = dyn_cast<linalg::GenericOp>(statement.op);
  if (!generic)
    return {};
  Block *body = generic.getBody();
  Value accumulator = body->getArgument(generic.getInputs().size() + result);
  Value yielded = body->getTerminator()->getOperand(result);
  // Bodies compute bf16 and f16 as f32, so conversions between them vanish.
  while (changesPrecision(yielded.getDefiningOp()) && yielded.hasOneUse())
    yielded = yielded.getDefiningOp()->getOperand(0);
  while (accumulator.hasOneUse() &&
         changesPrecision(*accumulator.getUsers().begin()))
    accumulator = (*accumulator.getUsers().begin())->getResult(0);
  Operation *op = yielded.getDefiningOp();
  if (!op || !accumulator.hasOneUse() || op->getNumOperands() != 2 ||
      op->getBlock() != body || *accumulator.getUsers().begin() != op ||
      !yielded.hasOneUse())
    return {};
  Type type = ElementType(yielded.getType()).compute;
  if (!type.isIntOrFloat())
    return {};
  TypedAttr identity = getIdentity(op, type);
  return identity ? Combiner{op, identity} : Combiner{};
}

Value GpuEmitter::combine(const Combiner &combiner, Value left, Value right) {
  return b
      .OpBuilder::create(b.getLoc(), combiner.op->getName().getIdentifier(),
                         ValueRange{left, right}, left.getType(), {})
      ->getResult(0);
}

Value GpuEmitter::shuffle(Value value, int64_t distance) {
  Type type = value.getType();
  auto exchange = [&](Value word) -> Value {
    return b.create<NVVM::ShflOp>(word.getType(), i32(-1), word, i32(distance),
                                  i32(kWarp - 1), NVVM::ShflKind::bfly,
                                  UnitAttr());
  };
  unsigned bits = type.getIntOrFloatBitWidth();
  if (type.isF32() || type.isInteger(32))
    return exchange(value);
  if (bits < 32) // an integer
    return b.create<arith::TruncIOp>(
        type, exchange(b.create<arith::ExtUIOp>(b.getI32Type(), value)));
  Value whole = value;
  if (isa<FloatType>(type))
    whole = b.create<arith::BitcastOp>(b.getI64Type(), value);
  Value half = b.i64(32);
  Value low = exchange(b.create<arith::TruncIOp>(b.getI32Type(), whole));
  Value high = exchange(b.create<arith::TruncIOp>(
      b.getI32Type(), b.create<arith::ShRUIOp>(whole, half)));
  whole = b.create<arith::OrIOp>(
      b.create<arith::ExtUIOp>(b.getI64Type(), low),
      b.create<arith::ShLIOp>(b.create<arith::ExtUIOp>(b.getI64Type(), high),
                              half));
  if (isa<FloatType>(type))
    return b.create<arith::BitcastOp>(type, whole);
  return whole;
}

Value GpuEmitter::combineWarp(const Combiner &combiner, Value value) {
  for (int64_t distance = kWarp / 2; distance > 0; distance /= 2)
    value = combine(combiner, value, shuffle(value, distance));
  return value;
}

GpuEmitter::Carried GpuEmitter::combineTeam(ArrayRef<Combiner> combiners,
                                            ValueRange values) {
  if (layout.team == 1)
    return Carried(values);
  Carried result;
  for (auto [combiner, value] : llvm::zip(combiners, values))
    result.push_back(combineWarp(combiner, value));
  int64_t warps = layout.team / kWarp;
  if (warps == 1)
    return result;
  SmallVector<Value> slots;
  SmallVector<ElementType> types;
  for (Value value : result) {
    types.push_back(ElementType(value.getType()));
    int64_t bytes =
        std::max<int64_t>(1, value.getType().getIntOrFloatBitWidth() / 8);
    slots.push_back(shareBytes(bytes * warps));
  }
  auto isFirstLane =
      b.create<arith::CmpIOp>(arith::CmpIPredicate::eq, laneOfWarp, b.i64(0));
  when(isFirstLane, {}, [&] {
    for (size_t i = 0; i < slots.size(); ++i)
      b.store(result[i], b.address(slots[i], warp, types[i]), types[i], {});
    return Carried();
  });
  barrier();
  // Every warp adds the sums of all warps, so that no second barrier is needed.
  for (size_t i = 0; i < slots.size(); ++i) {
    Value identity = b.create<arith::ConstantOp>(combiners[i].identity);
    Value isWarp = b.create<arith::CmpIOp>(arith::CmpIPredicate::slt,
                                           laneOfWarp, b.i64(warps));
    Value sum = when(isWarp, identity, [&] {
      return Carried{
          b.load(b.address(slots[i], laneOfWarp, types[i]), types[i], {})};
    })[0];
    result[i] = combineWarp(combiners[i], sum);
  }
  return result;
}
