//===- BodyEmitter.cpp - Scalar bodies of a kernel ------------------------===//
//
// bf16 and f16 values are f32 between load and store. A chain of fused ops
// rounds once, at its end, so it is never less exact than separate ops.
//
//===----------------------------------------------------------------------===//

#include "BodyEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

Value BodyEmitter::mapScalar(Value value, IRMapping &mapping) {
  if (Value mapped = mapping.lookupOrNull(value))
    return mapped;
  Value outside = scalars.lookup(value);
  if (outside)
    mapping.map(value, outside);
  return outside;
}

Value BodyEmitter::combineBlocks(ReduceBlocksOp op, Value x,
                                 Value accumulator) {
  if (isa<FloatType>(accumulator.getType())) {
    if (x.getType() != accumulator.getType())
      x = x.getType().getIntOrFloatBitWidth() <
                  accumulator.getType().getIntOrFloatBitWidth()
              ? b.create<arith::ExtFOp>(accumulator.getType(), x).getResult()
              : b.create<arith::TruncFOp>(accumulator.getType(), x).getResult();
    if (op.getKind() == ReductionKind::Sum)
      return b.create<arith::AddFOp>(accumulator, x);
    return b.create<arith::MaximumFOp>(accumulator, x);
  }
  if (op.getKind() == ReductionKind::Sum)
    return b.create<arith::AddIOp>(accumulator, x);
  return b.create<arith::MaxSIOp>(accumulator, x);
}

Value BodyEmitter::extract(tensor::ExtractOp op, IRMapping &mapping,
                           ArrayAttr groups) {
  Value tensor = op.getTensor();
  auto type = cast<RankedTensorType>(tensor.getType());
  if (!isInMemory(tensor)) {
    (void)fail(op, "expected a tensor in memory");
    return Value();
  }
  int64_t first = plan.scratch.contains(tensor) ? plan.rowDims : 0;
  Value offset;
  int64_t stride = 1;
  for (int64_t dim = type.getRank() - 1; dim >= first; --dim) {
    Value index = mapScalar(op.getIndices()[dim], mapping);
    index = b.create<arith::IndexCastOp>(b.getI64Type(), index);
    offset = b.addI(offset, b.mulI(index, stride));
    stride *= type.getDimSize(dim);
  }
  ElementType element = memoryType(tensor);
  return b.load(b.address(base.lookup(tensor), offset, element), element,
                groups);
}

Value BodyEmitter::emitConstant(arith::ConstantOp op) {
  Type type = ElementType(op.getType()).compute;
  if (type == op.getType())
    return b.clone(*op)->getResult(0);
  bool lost;
  APFloat value = cast<FloatAttr>(op.getValue()).getValue();
  value.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &lost);
  return b.create<arith::ConstantOp>(FloatAttr::get(type, value));
}

/// Emits an op of a body, with operands and result of compute types.
Value BodyEmitter::cloneOp(Operation *op, IRMapping &mapping) {
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    Value mapped = mapScalar(operand, mapping);
    if (!mapped) {
      (void)fail(op, "expected operands from the body, constants or index "
                     "operands of the kernel");
      return Value();
    }
    operands.push_back(mapped);
  }
  if (op->getNumResults() != 1 || op->getNumRegions() != 0) {
    (void)fail(op, "expected scalar ops of one result in a kernel");
    return Value();
  }
  Type from = op->getResult(0).getType(), type = ElementType(from).compute;
  if (isa<FloatType>(type) && !type.isF32() && !type.isF64()) {
    (void)fail(op, "expected numbers of f64, f32, bf16 or f16 in a kernel");
    return Value();
  }

  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    return emitConstant(constant);
  if (isa<arith::ExtFOp, arith::TruncFOp>(op)) {
    unsigned have = operands[0].getType().getIntOrFloatBitWidth();
    unsigned want = type.getIntOrFloatBitWidth();
    if (have == want)
      return operands[0];
    if (have < want)
      return b.create<arith::ExtFOp>(type, operands[0]);
    return b.create<arith::TruncFOp>(type, operands[0]);
  }
  if (isa<arith::BitcastOp>(op)) {
    // The cast reads the bits as they lie in memory, for bf16 and f16, too.
    ElementType source(op->getOperand(0).getType()), target(from);
    Value bits = b.toMemory(operands[0], source);
    if (bits.getType() != target.memory)
      bits = b.create<arith::BitcastOp>(target.memory, bits);
    return b.toCompute(bits, target);
  }
  if (Value value = emitMath(op, operands))
    return value;
  if (failedOnce)
    return Value();
  if (isa<math::RsqrtOp>(op)) {
    Value one = b.create<arith::ConstantOp>(FloatAttr::get(type, 1.0));
    return b.create<arith::DivFOp>(one, b.create<math::SqrtOp>(operands[0]));
  }
  if (!op->getDialect() ||
      !isa_and_nonnull<arith::ArithDialect, math::MathDialect>(
          op->getDialect())) {
    (void)fail(op, "expected arith and math in a kernel");
    return Value();
  }
  SmallVector<NamedAttribute> attributes;
  for (NamedAttribute attribute : op->getAttrDictionary())
    if (op->getInherentAttr(attribute.getName()))
      attributes.push_back(attribute);
  return b
      .OpBuilder::create(b.getLoc(), op->getName().getIdentifier(), operands,
                         type, attributes)
      ->getResult(0);
}

static void addFlags(Operation *op, arith::FastMathFlags flags) {
  if (auto fast = dyn_cast_or_null<arith::ArithFastMathInterface>(op))
    op->setAttr(
        fast.getFastMathAttrName(),
        arith::FastMathFlagsAttr::get(
            op->getContext(), fast.getFastMathFlagsAttr().getValue() | flags));
}

/// Lets LLVM reorder an op that adds to an accumulator, so that sums are
/// computed in vectors. A product that is added may be contracted with the
/// addition to an fma. nnan and ninf are not set, because masks are -inf and
/// NaN must be seen.
static void allowReordering(Operation *op) {
  addFlags(op, arith::FastMathFlags::reassoc | arith::FastMathFlags::contract |
                   arith::FastMathFlags::nsz);
  if (isa<arith::AddFOp, arith::SubFOp>(op))
    for (Value operand : op->getOperands())
      if (auto product = operand.getDefiningOp<arith::MulFOp>())
        addFlags(product, arith::FastMathFlags::contract);
}

/// Returns the product of the same body that an op adds or subtracts and that
/// nothing else reads; null if there is none.
static arith::MulFOp findAddedProduct(Operation *op, unsigned operand) {
  auto product = op->getOperand(operand).getDefiningOp<arith::MulFOp>();
  return product && product->getBlock() == op->getBlock() &&
                 product->hasOneUse()
             ? product
             : arith::MulFOp();
}

/// Emits the sum or difference of a product and another value as one fma, which
/// rounds once. Returns null for other ops. LLVM's own choice of fma would
/// depend on the rest of the kernel. The flag `contract` allows a CPU without
/// fma to round twice.
Value BodyEmitter::emitMultiplyAdd(Operation *op, IRMapping &mapping) {
  if (!isa<arith::AddFOp, arith::SubFOp>(op))
    return Value();
  bool isSub = isa<arith::SubFOp>(op);
  for (unsigned i : {0, 1}) {
    arith::MulFOp product = findAddedProduct(op, i);
    if (!product)
      continue;
    Value left = mapScalar(product.getLhs(), mapping);
    Value right = mapScalar(product.getRhs(), mapping);
    Value added = mapScalar(op->getOperand(1 - i), mapping);
    if (!left || !right || !added)
      return Value();
    // In a difference, the second operand is negated.
    Value &negated = i == 1 ? left : added;
    if (isSub)
      negated = b.create<arith::NegFOp>(negated);
    return b.create<math::FmaOp>(left, right, added,
                                 arith::FastMathFlags::contract);
  }
  return Value();
}

SmallVector<Value>
BodyEmitter::cloneBody(const Statement &statement, ValueRange arguments,
                       llvm::function_ref<Value(int64_t)> loopIndex,
                       ArrayAttr groups) {
  auto generic = cast<linalg::GenericOp>(statement.op);
  Block *body = generic.getBody();
  IRMapping mapping;
  for (auto [argument, value] : llvm::zip(body->getArguments(), arguments))
    mapping.map(argument, value);
  // The accumulators, and the values that depend on them.
  llvm::SmallDenseSet<Value> accumulated;
  for (BlockArgument argument :
       body->getArguments().drop_front(generic.getNumDpsInputs()))
    if (Value accumulator = mapping.lookupOrNull(argument))
      accumulated.insert(accumulator);
  for (Operation &op : body->without_terminator()) {
    Value value;
    bool accumulates = llvm::any_of(op.getOperands(), [&](Value operand) {
      Value mapped = mapping.lookupOrNull(operand);
      return mapped && accumulated.contains(mapped);
    });
    if (auto index = dyn_cast<linalg::IndexOp>(op)) {
      int64_t dim = index.getDim();
      if (plan.chunk) // one row dimension: the element of the chunk
        value = dim == 0 ? b.addI(b.mulI(unit, plan.chunk),
                                  loopIndex(statement.loopOfDim.size() - 1))
                         : loopIndex(dim - 1);
      else
        value =
            dim < plan.rowDims ? unitIndex(dim) : loopIndex(dim - plan.rowDims);
      value = b.create<arith::IndexCastOp>(b.getIndexType(), value);
    } else if (auto element = dyn_cast<tensor::ExtractOp>(op)) {
      value = extract(element, mapping, groups);
    } else {
      // Unless an op adds to an accumulator, its rounding depends on this body
      // alone. So a value has the same bits in every kernel that computes it.
      value = accumulates ? Value() : emitMultiplyAdd(&op, mapping);
      if (!value)
        value = cloneOp(&op, mapping);
    }
    if (failedOnce)
      return {};
    if (accumulates) {
      if (Operation *clone = value.getDefiningOp())
        allowReordering(clone);
      accumulated.insert(value);
    }
    mapping.map(op.getResult(0), value);
  }
  SmallVector<Value> results;
  for (Value yielded : body->getTerminator()->getOperands()) {
    Value value = mapScalar(yielded, mapping);
    if (!value) {
      (void)fail(statement.op,
                 "expected the body to yield a scalar of its own");
      return {};
    }
    results.push_back(value);
  }
  return results;
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

ElementType BodyEmitter::memoryType(Value value) const {
  Type element = cast<RankedTensorType>(value.getType()).getElementType();
  if (plan.scratch.contains(value))
    return ElementType(ElementType(element).compute);
  return ElementType(element);
}

bool BodyEmitter::isInMemory(Value value) const { return base.contains(value); }

void BodyEmitter::emitConstants() {
  Block &body = plan.kernel.getBody().front();
  for (auto constant : body.getOps<arith::ConstantOp>())
    if (!isa<TensorType>(constant.getType()))
      scalars[constant] = emitConstant(constant);
}

FailureOr<int64_t> BodyEmitter::getScratchElements(Value value) {
  int64_t size = 1, most = plan.target.mostScratchElements;
  auto type = cast<RankedTensorType>(value.getType());
  for (int64_t extent : type.getShape().drop_front(plan.rowDims))
    size *= extent;
  if (plan.chunk)
    size *= plan.chunk;
  if (size > most)
    return fail(value.getDefiningOp(),
                "expected a row of at most " + Twine(most) +
                    " elements between the loops of a kernel, got " +
                    Twine(size));
  return size;
}

void BodyEmitter::beginRow(Value index) {
  unit = index;
  unitIndices.clear();
  rowValues.clear();
  if (plan.units.size() > 1)
    unitIndex(0); // before any loop, so that it dominates all of the row
  if (plan.chunk)
    chunkEnd = b.create<arith::MinSIOp>(
        b.i64(plan.chunk),
        b.create<arith::SubIOp>(b.i64(plan.rows), b.mulI(unit, plan.chunk)));
}

Value BodyEmitter::unitIndex(size_t dim) {
  if (plan.units.size() == 1)
    return unit;
  if (unitIndices.empty()) {
    unitIndices.resize(plan.units.size());
    Value rest = unit;
    for (size_t i = plan.units.size(); i-- > 1;) {
      Value extent = b.i64(plan.units[i]);
      unitIndices[i] = b.create<arith::RemUIOp>(rest, extent);
      rest = b.create<arith::DivUIOp>(rest, extent);
    }
    unitIndices[0] = rest;
  }
  return unitIndices[dim];
}

Value BodyEmitter::rowOffset(const Access &access) {
  ArrayRef<int64_t> steps = access.rows;
  if (llvm::all_of(steps, [](int64_t step) { return step == 0; }))
    return Value();
  bool collapses = true;
  for (size_t i = 0; i + 1 < steps.size(); ++i)
    collapses &= steps[i] == plan.units[i + 1] * steps[i + 1];
  if (collapses)
    return b.mulI(unit, steps.back());
  Value offset;
  for (auto [dim, step] : llvm::enumerate(steps))
    if (step != 0)
      offset = b.addI(offset, b.mulI(unitIndex(dim), step));
  return offset;
}

BodyEmitter::Location BodyEmitter::locate(const Access &access) {
  Location location{base.lookup(access.value), access.loops};
  if (plan.scratch.contains(access.value)) {
    if (access.constant != 0)
      location.pointer = b.address(location.pointer, b.i64(access.constant),
                                   memoryType(access.value));
    return location;
  }
  Value offset = rowOffset(access);
  bool isPartial = false;
  if (auto found = plan.producer.find(access.value);
      found != plan.producer.end()) {
    const Statement &from = plan.statements[found->second];
    isPartial = from.kind == StatementKind::ReduceBlocks;
  }
  if (isPartial) {
    auto type = cast<RankedTensorType>(access.value.getType());
    offset = b.mulI(block, type.getNumElements() / type.getDimSize(0));
  }
  if (access.constant != 0)
    offset = b.addI(offset, b.i64(access.constant));
  location.pointer =
      b.address(location.pointer, offset, memoryType(access.value));
  return location;
}

TypedAttr BodyEmitter::initialValue(const Statement &statement,
                                    unsigned result) const {
  TypedAttr value;
  if (auto generic = dyn_cast<linalg::GenericOp>(statement.op)) {
    auto fill = generic.getDpsInitOperand(result)
                    ->get()
                    .getDefiningOp<linalg::FillOp>();
    matchPattern(fill.getInputs()[0], m_Constant(&value));
  } else {
    auto op = cast<ReduceBlocksOp>(statement.op);
    Type type = op.getType().getElementType();
    bool isSum = op.getKind() == ReductionKind::Sum;
    if (auto floatType = dyn_cast<FloatType>(type))
      value = FloatAttr::get(
          type, isSum ? APFloat::getZero(floatType.getFloatSemantics())
                      : APFloat::getInf(floatType.getFloatSemantics(), true));
    else
      value = IntegerAttr::get(
          type, isSum ? APInt(type.getIntOrFloatBitWidth(), 0)
                      : APInt::getSignedMinValue(type.getIntOrFloatBitWidth()));
  }
  Type compute = ElementType(value.getType()).compute;
  if (compute != value.getType())
    return FloatAttr::get(compute,
                          cast<FloatAttr>(value).getValue().convertToFloat());
  return value;
}

LogicalResult BodyEmitter::fail(Operation *op, Twine message) {
  failedOnce = true;
  return op->emitOpError(message);
}
