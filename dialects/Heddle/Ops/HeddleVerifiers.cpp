//===- HeddleVerifiers.cpp - Constraints of the ops -----------------------===//
//
// Each verifier mirrors the list of constraints in its op's description.
//
//===----------------------------------------------------------------------===//

#include "dialects/Heddle/Contraction.h"
#include "dialects/Heddle/Heddle.h"
#include "dialects/Heddle/Ops/AttentionMask.h"
#include "dialects/Heddle/Shape.h"

using namespace mlir;
using namespace heddle;

/// Prints a shape as 4x256x768, the shape of a scalar as "scalar".
static std::string str(ArrayRef<int64_t> shape) {
  if (shape.empty())
    return "scalar";
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::interleave(shape, stream, "x");
  return text;
}

static LogicalResult expectShape(Operation *op, StringRef what, Value value,
                                 ArrayRef<int64_t> expected) {
  if (shapeOf(value) == expected)
    return success();
  return op->emitOpError() << "expected the shape of " << what << " to be "
                           << str(expected) << ", got " << str(shapeOf(value));
}

namespace {
/// An operand or result and the shape that it must have.
struct ExpectedShape {
  StringRef what;
  Value value;
  ArrayRef<int64_t> shape;
};
} // namespace

static LogicalResult
expectShapes(Operation *op, std::initializer_list<ExpectedShape> expected) {
  for (const ExpectedShape &each : expected)
    if (failed(expectShape(op, each.what, each.value, each.shape)))
      return failure();
  return success();
}

/// A sum must have the type of its terms, or f32.
static LogicalResult expectSameOrF32(Operation *op, Type from, Type to) {
  if (to == from || (isa<FloatType>(from) && to.isF32()))
    return success();
  return op->emitOpError() << "expected a result of " << from << " or f32, got "
                           << to;
}

static SmallVector<int64_t> with(ArrayRef<int64_t> shape, int64_t last) {
  SmallVector<int64_t> result(shape);
  result.push_back(last);
  return result;
}

static LogicalResult expectRankAtLeast(Operation *op, StringRef what,
                                       Value value, int64_t rank) {
  if ((int64_t)shapeOf(value).size() >= rank)
    return success();
  return op->emitOpError() << "expected " << what << " to have at least "
                           << rank << " dimensions, got "
                           << str(shapeOf(value));
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

static LogicalResult expectIncreasing(Operation *op, StringRef what,
                                      ArrayRef<int64_t> dims, int64_t rank) {
  for (auto [i, dim] : llvm::enumerate(dims))
    if (dim < 0 || dim >= rank || (i > 0 && dim <= dims[i - 1]))
      return op->emitOpError() << "expected " << what
                               << " to be strictly increasing dimensions below "
                               << rank << ", got [" << dims << "]";
  return success();
}

LogicalResult
heddle::verifyContraction(Operation *op, ContractionAttr contraction,
                          const ContractionTensors &tensors,
                          std::optional<ArrayRef<int64_t>> biasAlong) {
  auto [lhs, rhs, result, bias, accumulate] = tensors;
  auto type = cast<RankedTensorType>(result.getType());
  llvm::SmallDenseMap<char, int64_t> sizes;
  std::pair<StringAttr, Value> named[] = {{contraction.getLhs(), lhs},
                                          {contraction.getRhs(), rhs},
                                          {contraction.getResult(), result}};
  for (auto [letters, tensor] : named) {
    ArrayRef<int64_t> shape = shapeOf(tensor);
    if (letters.size() != shape.size())
      return op->emitOpError()
             << "expected as many factors as dimensions, got '"
             << letters.getValue() << "' for " << str(shape);
    for (auto [letter, size] : llvm::zip(letters.getValue(), shape)) {
      auto [known, isNew] = sizes.try_emplace(letter, size);
      if (!isNew && known->second != size)
        return op->emitOpError() << "expected factor '" << Twine(letter)
                                 << "' to have one size, got " << known->second
                                 << " and " << size;
    }
  }
  Type left = getElementTypeOrSelf(lhs), right = getElementTypeOrSelf(rhs);
  if (left != right)
    return op->emitOpError() << "expected operands of one element type, got "
                             << left << " and " << right;
  if (failed(expectSameOrF32(op, left, type.getElementType())))
    return failure();
  if (accumulate && accumulate.getType() != type)
    return op->emitOpError() << "expected accumulate to have the result's type "
                             << type << ", got " << accumulate.getType();
  if (bool(bias) != bool(biasAlong))
    return op->emitOpError()
           << "expected a bias and the dimensions that it runs "
              "along, or neither";
  if (!bias)
    return success();
  ArrayRef<int64_t> biasShape = shapeOf(bias), along = *biasAlong;
  if (biasShape.size() != along.size())
    return op->emitOpError()
           << "expected 'along' to have " << biasShape.size()
           << " entries, one for each dimension of the bias, got "
           << along.size();
  if (failed(expectIncreasing(op, "'along'", along, type.getRank())))
    return failure();
  for (auto [size, dim] : llvm::zip(biasShape, along))
    if (size != type.getDimSize(dim))
      return op->emitOpError()
             << "expected the bias to have size " << type.getDimSize(dim)
             << " along dimension " << dim << " of the result, got " << size;
  return success();
}

LogicalResult ContractOp::verify() {
  return verifyContraction(
      *this, getContraction(),
      {getLhs(), getRhs(), getResult(), getBias(), getAccumulate()},
      getBiasAlong());
}

LogicalResult heddle::verifyAttentionMask(Operation *op, ArrayRef<int64_t> mask,
                                          ArrayRef<int64_t> lse, int64_t keys) {
  SmallVector<int64_t> whole = with(lse, keys);
  bool agrees = mask.size() == whole.size();
  for (size_t i = 0; agrees && i < whole.size(); ++i)
    agrees = mask[i] == 1 || mask[i] == whole[i];
  if (agrees)
    return success();
  return op->emitOpError() << "expected a mask of shape " << str(whole)
                           << ", in which any size may be 1, got " << str(mask);
}

template <typename OpTy> static LogicalResult verifyAttention(OpTy op) {
  ArrayRef<int64_t> q = shapeOf(op.getQuery()), k = shapeOf(op.getKey());
  if (q.size() != 4 && q.size() != 5)
    return op.emitOpError()
           << "expected queries of 4 or 5 dimensions, got " << str(q);
  if (k.size() != 4)
    return op.emitOpError() << "expected keys of 4 dimensions, got " << str(k);
  if (k[0] != q[0] || k[2] != q[2] || k[3] != q.back())
    return op.emitOpError()
           << "expected queries and keys to agree in batch, group and head "
              "size, got "
           << str(q) << " and " << str(k);
  if (failed(expectShapes(op, {{"values", op.getValue(), k},
                               {"the output", op.getOutput(), q},
                               {"lse", op.getLse(), q.drop_back()}})))
    return failure();
  Type type = getElementTypeOrSelf(op.getQuery().getType());
  for (Value other :
       {Value(op.getKey()), Value(op.getValue()), Value(op.getOutput())})
    if (getElementTypeOrSelf(other.getType()) != type)
      return op.emitOpError()
             << "expected queries, keys, values and output of one element "
                "type, got "
             << type << " and " << getElementTypeOrSelf(other.getType());
  double dropout = op.getDropout().convertToDouble();
  if (!(dropout >= 0 && dropout < 1))
    return op.emitOpError() << "expected 0 <= dropout < 1, got " << dropout;
  if (dropout > 0 && !op.getStep())
    return op.emitOpError() << "expected a step with dropout";
  if (op.getOffsets().size() != 0 && op.getOffsets().size() != 5)
    return op.emitOpError()
           << "expected none or 5 offsets, got " << op.getOffsets().size();
  if (op.getGlobalShape() && op.getGlobalShape()->size() != 4)
    return op.emitOpError() << "expected a global shape of 4 sizes, got "
                            << op.getGlobalShape()->size();
  if (IntegerAttr window = op.getWindowAttr(); window && window.getInt() < 1)
    return op.emitOpError()
           << "expected a window of at least 1, got " << window.getInt();
  if (!op.getMask())
    return success();
  return verifyAttentionMask(op, shapeOf(op.getMask()), shapeOf(op.getLse()),
                             op.getGlobalShape() ? (*op.getGlobalShape())[1]
                                                 : k[1]);
}

LogicalResult AttentionOp::verify() { return verifyAttention(*this); }

LogicalResult AttentionGradOp::verify() {
  if (failed(verifyAttention(*this)))
    return failure();
  ArrayRef<int64_t> q = shapeOf(getQuery()), k = shapeOf(getKey());
  return expectShapes(*this, {{"output_grad", getOutputGrad(), q},
                              {"query_grad", getQueryGrad(), q},
                              {"key_grad", getKeyGrad(), k},
                              {"value_grad", getValueGrad(), k}});
}

//===----------------------------------------------------------------------===//
// Normalization
//===----------------------------------------------------------------------===//

LogicalResult LayerNormOp::verify() {
  if (failed(expectRankAtLeast(*this, "x", getX(), 1)))
    return failure();
  ArrayRef<int64_t> x = shapeOf(getX());
  return expectShapes(*this, {{"weight", getWeight(), x.take_back()},
                              {"bias", getBias(), x.take_back()},
                              {"y", getY(), x},
                              {"mean", getMean(), x.drop_back()},
                              {"rstd", getRstd(), x.drop_back()}});
}

LogicalResult LayerNormGradOp::verify() {
  if (failed(expectRankAtLeast(*this, "x", getX(), 1)))
    return failure();
  ArrayRef<int64_t> x = shapeOf(getX());
  return expectShapes(*this, {{"weight", getWeight(), x.take_back()},
                              {"mean", getMean(), x.drop_back()},
                              {"rstd", getRstd(), x.drop_back()},
                              {"y_grad", getYGrad(), x},
                              {"x_grad", getXGrad(), x},
                              {"weight_grad", getWeightGrad(), x.take_back()},
                              {"bias_grad", getBiasGrad(), x.take_back()}});
}

LogicalResult RmsNormOp::verify() {
  if (failed(expectRankAtLeast(*this, "x", getX(), 1)))
    return failure();
  ArrayRef<int64_t> x = shapeOf(getX());
  return expectShapes(*this, {{"weight", getWeight(), x.take_back()},
                              {"y", getY(), x},
                              {"rstd", getRstd(), x.drop_back()}});
}

LogicalResult RmsNormGradOp::verify() {
  if (failed(expectRankAtLeast(*this, "x", getX(), 1)))
    return failure();
  ArrayRef<int64_t> x = shapeOf(getX());
  return expectShapes(*this, {{"weight", getWeight(), x.take_back()},
                              {"rstd", getRstd(), x.drop_back()},
                              {"y_grad", getYGrad(), x},
                              {"x_grad", getXGrad(), x},
                              {"weight_grad", getWeightGrad(), x.take_back()}});
}

//===----------------------------------------------------------------------===//
// Vocabulary
//===----------------------------------------------------------------------===//

LogicalResult EmbeddingOp::verify() {
  ArrayRef<int64_t> table = shapeOf(getTable());
  if (table.size() != 2)
    return emitOpError() << "expected a table of 2 dimensions, got "
                         << str(table);
  return expectShape(*this, "the result", getResult(),
                     with(shapeOf(getIds()), table[1]));
}

LogicalResult EmbeddingGradOp::verify() {
  ArrayRef<int64_t> table = shapeOf(getResult());
  if (table.size() != 2)
    return emitOpError() << "expected a result of 2 dimensions, got "
                         << str(table);
  if (Value accumulate = getAccumulate())
    if (accumulate.getType() != getType())
      return emitOpError() << "expected accumulate to have the result's type "
                           << getType() << ", got " << accumulate.getType();
  return expectShape(*this, "y_grad", getYGrad(),
                     with(shapeOf(getIds()), table[1]));
}

LogicalResult CrossEntropyOp::verify() {
  if (failed(expectRankAtLeast(*this, "logits", getLogits(), 1)))
    return failure();
  ArrayRef<int64_t> rows = shapeOf(getLogits()).drop_back();
  return expectShapes(*this, {{"targets", getTargets(), rows},
                              {"loss", getLoss(), rows},
                              {"lse", getLse(), rows}});
}

LogicalResult CrossEntropyGradOp::verify() {
  if (failed(expectRankAtLeast(*this, "logits", getLogits(), 1)))
    return failure();
  ArrayRef<int64_t> rows = shapeOf(getLogits()).drop_back();
  return expectShapes(*this,
                      {{"targets", getTargets(), rows},
                       {"lse", getLse(), rows},
                       {"loss_grad", getLossGrad(), rows},
                       {"logits_grad", getLogitsGrad(), shapeOf(getLogits())}});
}

LogicalResult LogSumExpOp::verify() {
  if (failed(expectRankAtLeast(*this, "logits", getLogits(), 1)))
    return failure();
  return expectShape(*this, "the result", getResult(),
                     shapeOf(getLogits()).drop_back());
}

LogicalResult PickOp::verify() {
  if (failed(expectRankAtLeast(*this, "logits", getLogits(), 1)))
    return failure();
  ArrayRef<int64_t> rows = shapeOf(getLogits()).drop_back();
  return expectShapes(
      *this, {{"ids", getIds(), rows}, {"the result", getResult(), rows}});
}

//===----------------------------------------------------------------------===//
// Shapes and reductions
//===----------------------------------------------------------------------===//

LogicalResult ReduceOp::verify() {
  ArrayRef<int64_t> shape = shapeOf(getX());
  if (failed(expectIncreasing(*this, "'over'", getOver(), shape.size())))
    return failure();
  SmallVector<int64_t> expected;
  for (auto [i, size] : llvm::enumerate(shape))
    if (!llvm::is_contained(getOver(), (int64_t)i))
      expected.push_back(size);
  if (failed(expectSameOrF32(*this, getX().getType().getElementType(),
                             getType().getElementType())))
    return failure();
  return expectShape(*this, "the result", getResult(), expected);
}

LogicalResult ReduceBlocksOp::verify() {
  ArrayRef<int64_t> shape = shapeOf(getX());
  int64_t rowDims = getRowDims(), block = getBlock();
  if (rowDims < 1 || rowDims > (int64_t)shape.size())
    return emitOpError() << "expected 1 <= row_dims <= " << shape.size()
                         << ", got " << rowDims;
  if (block < 1)
    return emitOpError() << "expected a positive block, got " << block;
  SmallVector<int64_t> expected(shape.drop_front(rowDims));
  int64_t rows = 1;
  for (int64_t size : shape.take_front(rowDims))
    rows *= size;
  expected.insert(expected.begin(), (rows + block - 1) / block);
  if (failed(expectSameOrF32(*this, getX().getType().getElementType(),
                             getType().getElementType())))
    return failure();
  return expectShape(*this, "the result", getResult(), expected);
}

LogicalResult BroadcastOp::verify() {
  ArrayRef<int64_t> from = shapeOf(getX()), to = shapeOf(getResult());
  if (getAlong().size() != from.size())
    return emitOpError() << "expected 'along' to have " << from.size()
                         << " entries, one for each dimension of " << str(from)
                         << ", got " << getAlong().size();
  if (failed(expectIncreasing(*this, "'along'", getAlong(), to.size())))
    return failure();
  for (auto [i, dim] : llvm::enumerate(getAlong()))
    if (from[i] != to[dim])
      return emitOpError() << "expected dimension " << dim
                           << " of the result to have size " << from[i]
                           << ", got " << to[dim];
  if (getX().getType().getElementType() != getType().getElementType())
    return emitOpError() << "expected a result of "
                         << getX().getType().getElementType() << ", got "
                         << getType().getElementType();
  return success();
}

static LogicalResult verifyStack(Operation *op, Value whole, TypeRange slices) {
  auto type = cast<RankedTensorType>(whole.getType());
  if (type.getRank() < 1 || type.getDimSize(0) != (int64_t)slices.size())
    return op->emitOpError()
           << "expected the first dimension of " << type
           << " to be the number of slices, " << slices.size();
  auto slice = RankedTensorType::get(type.getShape().drop_front(),
                                     type.getElementType());
  for (Type got : slices)
    if (got != slice)
      return op->emitOpError()
             << "expected slices of type " << slice << ", got " << got;
  return success();
}

LogicalResult UnstackOp::verify() {
  return verifyStack(*this, getX(), getSlices().getTypes());
}

LogicalResult StackOp::verify() {
  return verifyStack(*this, getResult(), getSlices().getTypes());
}

//===----------------------------------------------------------------------===//
// Positional
//===----------------------------------------------------------------------===//

LogicalResult DropoutOp::verify() {
  double rate = getRate().convertToDouble();
  if (!(rate >= 0 && rate < 1))
    return emitOpError() << "expected 0 <= rate < 1, got " << rate;
  size_t rank = shapeOf(getX()).size();
  if (!getOffsets().empty() && getOffsets().size() != rank)
    return emitOpError() << "expected none or " << rank << " offsets, got "
                         << getOffsets().size();
  if (getGlobalShape() && getGlobalShape()->size() != rank)
    return emitOpError() << "expected a global shape of " << rank
                         << " sizes, got " << getGlobalShape()->size();
  if (!getOpName())
    return emitOpError() << "expected a name: it selects the random stream";
  if (getX().getType() != getType())
    return emitOpError() << "expected the result to have x's type "
                         << getX().getType() << ", got " << getType();
  return success();
}

LogicalResult RotaryTableOp::verify() {
  int64_t half = getFrequencies().size();
  for (Value table : {getCos(), getSin()})
    if (shapeOf(table).size() != 2 || shapeOf(table)[1] != half)
      return emitOpError() << "expected tables of positions x " << half
                           << ", got " << str(shapeOf(table));
  return expectShape(*this, "sin", getSin(), shapeOf(getCos()));
}

LogicalResult RotaryOp::verify() {
  if (failed(expectRankAtLeast(*this, "x", getX(), 3)))
    return failure();
  ArrayRef<int64_t> x = shapeOf(getX());
  if (x.back() % 2 != 0)
    return emitOpError() << "expected an even head size, got " << x.back();
  int64_t table[] = {x[1], x.back() / 2};
  if (getX().getType() != getType())
    return emitOpError() << "expected the result to have x's type "
                         << getX().getType() << ", got " << getType();
  return expectShapes(*this,
                      {{"cos", getCos(), table}, {"sin", getSin(), table}});
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

LogicalResult ReshardOp::verify() {
  int64_t rank = shapeOf(getX()).size();
  for (ShardingAttr sharding : {getFrom(), getTo()})
    if (sharding.getRank() != rank)
      return emitOpError() << "expected shardings of " << rank
                           << " dimensions, got " << sharding;
  if (getFrom().getMesh() != getTo().getMesh())
    return emitOpError() << "expected both shardings on one mesh, got "
                         << getFrom().getMesh() << " and " << getTo().getMesh();
  return success();
}

LogicalResult MaskPaddingOp::verify() {
  if (getDims().size() != getSizes().size() ||
      getDims().size() != getOffsets().size())
    return emitOpError() << "expected as many dims as sizes and offsets, got "
                         << getDims().size() << ", " << getSizes().size()
                         << " and " << getOffsets().size();
  if (getX().getType() != getType())
    return emitOpError() << "expected the result to have x's type "
                         << getX().getType() << ", got " << getType();
  return expectIncreasing(*this, "'dims'", getDims(), shapeOf(getX()).size());
}

//===----------------------------------------------------------------------===//
// Order of computations
//===----------------------------------------------------------------------===//

LogicalResult BarrierOp::inferReturnTypes(MLIRContext *,
                                          std::optional<Location>,
                                          Adaptor adaptor,
                                          SmallVectorImpl<Type> &results) {
  llvm::append_range(results, adaptor.getValues().getTypes());
  return success();
}

LogicalResult BarrierOp::verify() {
  if (getValues().empty())
    return emitOpError() << "expected at least one value";
  return success();
}
