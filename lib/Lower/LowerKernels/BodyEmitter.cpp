//===- BodyEmitter.cpp - Scalar bodies of a kernel ------------------------===//
//
// bf16 and f16 values are f32 between load and store. A chain of fused ops
// rounds once, at its end, so it is never less exact than separate ops.
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

Value KernelEmitter::mapScalar(Value value, IRMapping &mapping) {
  if (Value mapped = mapping.lookupOrNull(value))
    return mapped;
  Value outside = scalars.lookup(value);
  if (outside)
    mapping.map(value, outside);
  return outside;
}

Value KernelEmitter::combineBlocks(ReduceBlocksOp op, Value x,
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

Value KernelEmitter::extract(tensor::ExtractOp op, IRMapping &mapping,
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

Value KernelEmitter::emitConstant(arith::ConstantOp op) {
  Type type = ElementType(op.getType()).compute;
  if (type == op.getType())
    return b.clone(*op)->getResult(0);
  bool lost;
  APFloat value = cast<FloatAttr>(op.getValue()).getValue();
  value.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &lost);
  return b.create<arith::ConstantOp>(FloatAttr::get(type, value));
}

/// Returns the C library's function for an op without intrinsic and polynomial,
/// or an empty string. Polynomials exist for f32 only.
static StringRef libraryFunction(Operation *op, Type type) {
  StringRef always = llvm::TypeSwitch<Operation *, StringRef>(op)
                         .Case([](math::TanOp) { return "tan"; })
                         .Case([](math::SinhOp) { return "sinh"; })
                         .Case([](math::CoshOp) { return "cosh"; })
                         .Case([](math::AsinOp) { return "asin"; })
                         .Case([](math::AcosOp) { return "acos"; })
                         .Case([](math::AsinhOp) { return "asinh"; })
                         .Case([](math::AcoshOp) { return "acosh"; })
                         .Case([](math::AtanhOp) { return "atanh"; })
                         .Default(StringRef());
  if (!always.empty() || type.isF32())
    return always;
  return llvm::TypeSwitch<Operation *, StringRef>(op)
      .Case([](math::TanhOp) { return "tanh"; })
      .Case([](math::ErfOp) { return "erf"; })
      .Case([](math::AtanOp) { return "atan"; })
      .Case([](math::Atan2Op) { return "atan2"; })
      .Case([](math::CbrtOp) { return "cbrt"; })
      .Case([](math::ExpM1Op) { return "expm1"; })
      .Case([](math::Log1pOp) { return "log1p"; })
      .Default(StringRef());
}

Value KernelEmitter::callLibrary(StringRef name, Type type,
                                 ValueRange operands) {
  std::string symbol = name.str() + (type.isF32() ? "f" : "");
  auto module = plan.kernel->getParentOfType<ModuleOp>();
  if (!module.lookupSymbol(symbol)) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    b.create<LLVM::LLVMFuncOp>(
        symbol, LLVM::LLVMFunctionType::get(
                    type, SmallVector<Type>(operands.size(), type)));
  }
  return b.create<LLVM::CallOp>(TypeRange{type}, symbol, operands).getResult();
}

/// Emits an op of a body, with operands and result of compute types.
Value KernelEmitter::cloneOp(Operation *op, IRMapping &mapping) {
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
  if (isa<arith::BitcastOp>(op) &&
      (type != from || ElementType(op->getOperand(0).getType()).compute !=
                           op->getOperand(0).getType())) {
    (void)fail(op, "expected no bit casts of bf16 or f16 in a kernel");
    return Value();
  }
  // Calls libm where the polynomial is inexact or missing.
  if (isa<math::SinOp>(op))
    return b.create<LLVM::SinOp>(type, operands);
  if (isa<math::CosOp>(op))
    return b.create<LLVM::CosOp>(type, operands);
  if (isa<math::PowFOp>(op))
    return b.create<LLVM::PowOp>(type, operands);
  if (isa<math::RsqrtOp>(op)) {
    Value one = b.create<arith::ConstantOp>(FloatAttr::get(type, 1.0));
    return b.create<arith::DivFOp>(one, b.create<math::SqrtOp>(operands[0]));
  }
  if (StringRef name = libraryFunction(op, type); !name.empty())
    return callLibrary(name, type, operands);
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

SmallVector<Value>
KernelEmitter::cloneBody(const Statement &statement, ValueRange arguments,
                         llvm::function_ref<Value(int64_t)> loopIndex,
                         ArrayAttr groups) {
  auto generic = cast<linalg::GenericOp>(statement.op);
  Block *body = generic.getBody();
  IRMapping mapping;
  for (auto [argument, value] : llvm::zip(body->getArguments(), arguments))
    mapping.map(argument, value);
  for (Operation &op : body->without_terminator()) {
    Value value;
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
      value = cloneOp(&op, mapping);
    }
    if (failedOnce)
      return {};
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
