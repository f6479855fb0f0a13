//===- LoopBuilder.cpp - Vector loops and element types -------------------===//

#include "LoopBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

ElementType::ElementType(Type type)
    : element(type), memory(type), compute(type) {
  MLIRContext *context = type.getContext();
  if (type.isBF16()) {
    memory = IntegerType::get(context, 16);
    compute = Float32Type::get(context);
  } else if (type.isF16()) {
    compute = Float32Type::get(context);
  } else if (type.isInteger(1)) {
    memory = IntegerType::get(context, 8);
  } else if (type.isIndex()) {
    memory = IntegerType::get(context, 64);
  }
}

Value LoopBuilder::i64(int64_t value) {
  return create<arith::ConstantOp>(getI64IntegerAttr(value));
}

Value LoopBuilder::addI(Value a, Value b) {
  if (!a)
    return b;
  if (!b)
    return a;
  // Offsets into a tensor never overflow. With nsw, LLVM can strength-reduce
  // addresses.
  return create<arith::AddIOp>(a, b, arith::IntegerOverflowFlags::nsw);
}

Value LoopBuilder::mulI(Value a, int64_t b) {
  if (b == 1)
    return a;
  return create<arith::MulIOp>(a, i64(b), arith::IntegerOverflowFlags::nsw);
}

Value LoopBuilder::address(Value pointer, Value index,
                           const ElementType &type) {
  if (!index)
    return pointer;
  return create<LLVM::GEPOp>(pointer.getType(), type.memory, pointer,
                             ArrayRef<LLVM::GEPArg>{index}, /*inbounds=*/true);
}

Value LoopBuilder::load(Value address, const ElementType &type,
                        ArrayAttr groups) {
  auto load = create<LLVM::LoadOp>(type.memory, address);
  if (groups)
    load.setAccessGroupsAttr(groups);
  return toCompute(load, type);
}

Value LoopBuilder::toCompute(Value value, const ElementType &type) {
  if (type.element.isBF16()) {
    // bf16 is the upper half of an f32.
    Value wide = create<arith::ExtUIOp>(getI32Type(), value);
    Value shifted = create<arith::ShLIOp>(
        wide, create<arith::ConstantOp>(getI32IntegerAttr(16)));
    return create<arith::BitcastOp>(getF32Type(), shifted);
  }
  if (type.element.isF16())
    return create<arith::ExtFOp>(getF32Type(), value);
  if (type.element.isInteger(1))
    return create<arith::CmpIOp>(
        arith::CmpIPredicate::ne, value,
        create<arith::ConstantOp>(getI8IntegerAttr(0)));
  if (type.element.isIndex())
    return create<arith::IndexCastOp>(getIndexType(), value);
  return value;
}

/// Rounds f32 to the nearest bf16, ties to even. NaN becomes the quiet NaN
/// 0x7FC0.
static Value roundToBF16(LoopBuilder &b, Value value) {
  auto constant = [&](int32_t bits) -> Value {
    return b.create<arith::ConstantOp>(b.getI32IntegerAttr(bits));
  };
  Value bits = b.create<arith::BitcastOp>(b.getI32Type(), value);
  Value odd = b.create<arith::AndIOp>(
      b.create<arith::ShRUIOp>(bits, constant(16)), constant(1));
  Value rounded = b.create<arith::AddIOp>(
      bits, b.create<arith::AddIOp>(odd, constant(0x7FFF)));
  Value upper = b.create<arith::ShRUIOp>(rounded, constant(16));
  Value isNaN =
      b.create<arith::CmpFOp>(arith::CmpFPredicate::UNO, value, value);
  Value chosen = b.create<arith::SelectOp>(isNaN, constant(0x7FC0), upper);
  return b.create<arith::TruncIOp>(b.getI16Type(), chosen);
}

Value LoopBuilder::toMemory(Value value, const ElementType &type) {
  if (type.element.isBF16()) {
    if (!roundsToBF16)
      return roundToBF16(*this, value);
    Value rounded = create<arith::TruncFOp>(type.element, value);
    return create<arith::BitcastOp>(type.memory, rounded);
  }
  if (type.element.isF16())
    return create<arith::TruncFOp>(type.element, value);
  if (type.element.isInteger(1))
    return create<arith::ExtUIOp>(getI8Type(), value);
  if (type.element.isIndex())
    return create<arith::IndexCastOp>(getI64Type(), value);
  return value;
}

void LoopBuilder::store(Value value, Value address, const ElementType &type,
                        ArrayAttr groups) {
  auto store = create<LLVM::StoreOp>(toMemory(value, type), address);
  if (groups)
    store.setAccessGroupsAttr(groups);
}

SmallVector<Value> LoopBuilder::loop(Value begin, Value end, bool mayBeEmpty,
                                     ValueRange init,
                                     LLVM::LoopAnnotationAttr annotation,
                                     LoopBody body) {
  Block *before = getInsertionBlock();
  Region *region = before->getParent();
  Block *head = createBlock(region, region->end());
  Value index = head->addArgument(getI64Type(), getLoc());
  for (Value value : init)
    head->addArgument(value.getType(), getLoc());
  Block *exit = createBlock(region, region->end());
  for (Value value : init)
    exit->addArgument(value.getType(), getLoc());

  setInsertionPointToEnd(before);
  SmallVector<Value> entering{begin};
  llvm::append_range(entering, init);
  if (mayBeEmpty) {
    Value any = create<arith::CmpIOp>(arith::CmpIPredicate::slt, begin, end);
    create<LLVM::CondBrOp>(any, head, entering, exit, init);
  } else {
    create<LLVM::BrOp>(entering, head);
  }

  setInsertionPointToEnd(head);
  SmallVector<Value> carried = body(index, head->getArguments().drop_front());
  Value next =
      create<arith::AddIOp>(index, i64(1), arith::IntegerOverflowFlags::nsw);
  Value more = create<arith::CmpIOp>(arith::CmpIPredicate::slt, next, end);
  SmallVector<Value> again{next};
  llvm::append_range(again, carried);
  auto branch = create<LLVM::CondBrOp>(more, head, again, exit, carried);
  if (annotation)
    branch.setLoopAnnotationAttr(annotation);
  // Places the exit block after the blocks of the loop.
  exit->moveBefore(region, region->end());
  setInsertionPointToEnd(exit);
  return SmallVector<Value>(exit->args_begin(), exit->args_end());
}
