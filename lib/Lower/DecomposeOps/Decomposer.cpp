//===- Decomposer.cpp - Builds structured ops from model ops --------------===//

#include "Decomposer.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

//===----------------------------------------------------------------------===//
// Body
//===----------------------------------------------------------------------===//

Value Body::constant(Type type, double value) {
  return create<arith::ConstantOp>(FloatAttr::get(type, value));
}

Value Body::integer(Type type, int64_t value) {
  return create<arith::ConstantOp>(IntegerAttr::get(type, value));
}

Value Body::convert(Value value, Type type) {
  unsigned from = value.getType().getIntOrFloatBitWidth();
  unsigned to = type.getIntOrFloatBitWidth();
  if (value.getType() == type)
    return value;
  if (from < to)
    return create<arith::ExtFOp>(type, value);
  if (from > to)
    return create<arith::TruncFOp>(type, value);
  // There is no direct conversion between bf16 and f16.
  return create<arith::TruncFOp>(type,
                                 create<arith::ExtFOp>(getF32Type(), value));
}

Value Body::widen(Value value) {
  return convert(value, getComputeType(value.getType()));
}

Value Body::add(Value a, Value b) { return create<arith::AddFOp>(a, b); }
Value Body::sub(Value a, Value b) { return create<arith::SubFOp>(a, b); }
Value Body::mul(Value a, Value b) { return create<arith::MulFOp>(a, b); }
Value Body::div(Value a, Value b) { return create<arith::DivFOp>(a, b); }
Value Body::neg(Value a) { return create<arith::NegFOp>(a); }
Value Body::exp(Value a) { return create<math::ExpOp>(a); }
Value Body::mul(Value a, double b) { return mul(a, constant(a.getType(), b)); }
Value Body::add(Value a, double b) { return add(a, constant(a.getType(), b)); }

Value Body::sigmoid(Value a) {
  return div(constant(a.getType(), 1.0), add(exp(neg(a)), 1.0));
}

Value Body::index(int64_t dim) { return create<linalg::IndexOp>(dim); }

Value Body::toInteger(Value value, Type type) {
  Type from = value.getType();
  if (from == type)
    return value;
  if (from.isIndex() || type.isIndex())
    return create<arith::IndexCastOp>(type, value);
  if (from.getIntOrFloatBitWidth() < type.getIntOrFloatBitWidth())
    return create<arith::ExtSIOp>(type, value);
  return create<arith::TruncIOp>(type, value);
}

//===----------------------------------------------------------------------===//
// Types and maps
//===----------------------------------------------------------------------===//

Type lower::getComputeType(Type elementType) {
  if (isa<FloatType>(elementType) && elementType.getIntOrFloatBitWidth() < 32)
    return Float32Type::get(elementType.getContext());
  return elementType;
}

RankedTensorType lower::withElement(RankedTensorType type, Type element) {
  return RankedTensorType::get(type.getShape(), element);
}

RankedTensorType lower::rowsOf(RankedTensorType type, Type element) {
  return RankedTensorType::get(type.getShape().drop_back(), element);
}

AffineMap Decomposer::identity(int64_t rank) {
  return builder.getMultiDimIdentityMap(rank);
}

AffineMap Decomposer::dims(int64_t rank, ArrayRef<int64_t> positions) {
  SmallVector<AffineExpr> results;
  for (int64_t position : positions)
    results.push_back(builder.getAffineDimExpr(position));
  return AffineMap::get(rank, 0, results, builder.getContext());
}

AffineMap Decomposer::leading(int64_t rank, int64_t count) {
  return dims(rank, llvm::to_vector(llvm::seq<int64_t>(0, count)));
}

AffineMap Decomposer::last(int64_t rank) { return dims(rank, {rank - 1}); }

//===----------------------------------------------------------------------===//
// Structured ops
//===----------------------------------------------------------------------===//

Value Decomposer::map(RankedTensorType result, ArrayRef<Operand> operands,
                      MapBody body) {
  SmallVector<Value> values;
  SmallVector<AffineMap> maps;
  for (const Operand &operand : operands) {
    values.push_back(operand.value);
    maps.push_back(operand.map);
  }
  maps.push_back(identity(result.getRank()));
  SmallVector<utils::IteratorType> iterators(result.getRank(),
                                             utils::IteratorType::parallel);
  Value empty = builder.create<tensor::EmptyOp>(loc, result.getShape(),
                                                result.getElementType());
  auto generic = builder.create<linalg::GenericOp>(
      loc, TypeRange{result}, values, ValueRange{empty}, maps, iterators,
      [&](OpBuilder &b, Location at, ValueRange args) {
        Body inner(at, b);
        Value value = body(inner, args.drop_back());
        inner.create<linalg::YieldOp>(value);
      });
  return generic.getResult(0);
}

/// Returns the identity of the reduction: 0 for a sum; -inf or the lowest
/// integer for a maximum.
static TypedAttr getIdentityOf(ReductionKind kind, Type type) {
  if (auto floatType = dyn_cast<FloatType>(type)) {
    if (kind == ReductionKind::Sum)
      return FloatAttr::get(type, 0.0);
    return FloatAttr::get(type, APFloat::getInf(floatType.getFloatSemantics(),
                                                /*Negative=*/true));
  }
  unsigned width = type.getIntOrFloatBitWidth();
  return IntegerAttr::get(type, kind == ReductionKind::Sum
                                    ? APInt(width, 0)
                                    : APInt::getSignedMinValue(width));
}

static Value combine(Body &b, ReductionKind kind, Value x, Value accumulator) {
  if (isa<FloatType>(accumulator.getType())) {
    x = b.convert(x, accumulator.getType());
    if (kind == ReductionKind::Sum)
      return b.create<arith::AddFOp>(accumulator, x);
    return b.create<arith::MaximumFOp>(accumulator, x);
  }
  if (kind == ReductionKind::Sum)
    return b.create<arith::AddIOp>(accumulator, x);
  return b.create<arith::MaxSIOp>(accumulator, x);
}

Value Decomposer::reduce(RankedTensorType result, ArrayRef<int64_t> reduced,
                         ArrayRef<Operand> operands, ReductionKind kind,
                         ReduceBody body) {
  int64_t rank = result.getRank() + reduced.size();
  SmallVector<Value> values;
  SmallVector<AffineMap> maps;
  for (const Operand &operand : operands) {
    values.push_back(operand.value);
    maps.push_back(operand.map);
  }
  maps.push_back(leading(rank, result.getRank()));
  SmallVector<utils::IteratorType> iterators(result.getRank(),
                                             utils::IteratorType::parallel);
  iterators.append(reduced.size(), utils::IteratorType::reduction);
  Value init = builder.create<arith::ConstantOp>(
      loc, getIdentityOf(kind, result.getElementType()));
  Value empty = builder.create<tensor::EmptyOp>(loc, result.getShape(),
                                                result.getElementType());
  Value filled = builder.create<linalg::FillOp>(loc, init, empty).getResult(0);
  auto generic = builder.create<linalg::GenericOp>(
      loc, TypeRange{result}, values, ValueRange{filled}, maps, iterators,
      [&](OpBuilder &b, Location at, ValueRange args) {
        Body inner(at, b);
        Value value = body(inner, args.drop_back(), args.back());
        inner.create<linalg::YieldOp>(value);
      });
  return generic.getResult(0);
}

//===----------------------------------------------------------------------===//
// Reductions over any dimensions
//===----------------------------------------------------------------------===//

/// Returns the number of rows of a block in the first stage of a reduction over
/// rows. It follows from the shape alone, so sums do not depend on the number
/// of threads.
static int64_t chooseBlock(int64_t rows, const KernelTarget &target) {
  return std::max<int64_t>(target.leastBlockRows,
                           llvm::divideCeil(rows, target.mostReductionBlocks));
}

static int64_t product(ArrayRef<int64_t> sizes) {
  int64_t result = 1;
  for (int64_t size : sizes)
    result *= size;
  return result;
}

Value Decomposer::reduceDims(Value x, ArrayRef<int64_t> over,
                             ReductionKind kind, RankedTensorType result) {
  auto type = cast<RankedTensorType>(x.getType());
  int64_t rank = type.getRank(), count = over.size();
  Type accumulator = getComputeType(type.getElementType());
  if (isa<FloatType>(result.getElementType()) &&
      result.getElementType().getIntOrFloatBitWidth() >
          accumulator.getIntOrFloatBitWidth())
    accumulator = result.getElementType();

  // Rounds to the result's element type once, at the end.
  auto finish = [&](Value sums) {
    if (sums.getType() == result)
      return sums;
    return map(result, {{sums, identity(result.getRank())}},
               [&](Body &b, ValueRange v) {
                 return b.convert(v[0], result.getElementType());
               });
  };
  auto without = [&](ArrayRef<int64_t> dropped) {
    SmallVector<int64_t> shape;
    for (auto [i, size] : llvm::enumerate(type.getShape()))
      if (!llvm::is_contained(dropped, (int64_t)i))
        shape.push_back(size);
    return RankedTensorType::get(shape, accumulator);
  };

  int64_t prefix = 0;
  while (prefix < count && over[prefix] == prefix)
    ++prefix;

  // A full reduction takes trailing dimensions first, so that the remaining
  // rows are shared by many threads.
  if (prefix == count && prefix == rank && rank > 1 &&
      product(type.getShape()) > target.largeSum) {
    int64_t keep = 1;
    while (keep < rank - 1 &&
           product(type.getShape().take_front(keep)) < target.fewRows)
      ++keep;
    auto trailing = llvm::to_vector(llvm::seq<int64_t>(keep, rank));
    Value rows = reduceDims(x, trailing, kind, without(trailing));
    auto leadingDims = llvm::to_vector(llvm::seq<int64_t>(0, keep));
    return finish(reduceDims(rows, leadingDims, kind,
                             RankedTensorType::get({}, accumulator)));
  }

  if (prefix > 0 && prefix < count) {
    SmallVector<int64_t> rest(over.drop_front(prefix));
    Value rows = reduceDims(x, rest, kind, without(rest));
    return finish(
        reduceDims(rows, over.take_front(prefix), kind, without(over)));
  }

  if (prefix > 0 && prefix < rank) {
    int64_t rows = product(type.getShape().take_front(prefix));
    int64_t columns = product(type.getShape().drop_front(prefix));
    int64_t block = chooseBlock(rows, target);
    // With few rows of many columns, the columns alone give enough parallel
    // work.
    if (rows > block &&
        !(rows <= target.fewRows && columns >= target.manyColumns)) {
      SmallVector<int64_t> shape(type.getShape().drop_front(prefix));
      shape.insert(shape.begin(), llvm::divideCeil(rows, block));
      auto partialType = RankedTensorType::get(shape, accumulator);
      Value source = x;
      if (type.getElementType() != accumulator)
        source = map(withElement(type, accumulator), {{x, identity(rank)}},
                     [&](Body &b, ValueRange v) {
                       return b.convert(v[0], accumulator);
                     });
      Value partials = builder.create<ReduceBlocksOp>(
          loc, partialType, kind, source, prefix, block, StringAttr());
      int64_t zero = 0;
      return finish(reduceDims(partials, zero, kind, without(over)));
    }
  }

  // Iteration space: the kept dimensions, then the reduced ones.
  SmallVector<int64_t> position(rank);
  int64_t nextKept = 0, nextReduced = rank - count;
  SmallVector<int64_t> sizes;
  for (int64_t dim = 0; dim < rank; ++dim) {
    bool isReduced = llvm::is_contained(over, dim);
    position[dim] = isReduced ? nextReduced++ : nextKept++;
    if (isReduced)
      sizes.push_back(type.getDimSize(dim));
  }
  if (count == 0)
    return finish(
        map(without(over), {{x, identity(rank)}}, [&](Body &b, ValueRange v) {
          return isa<FloatType>(accumulator) ? b.convert(v[0], accumulator)
                                             : v[0];
        }));
  return finish(reduce(without(over), sizes, {{x, dims(rank, position)}}, kind,
                       [&](Body &b, ValueRange v, Value acc) {
                         return combine(b, kind, v[0], acc);
                       }));
}
