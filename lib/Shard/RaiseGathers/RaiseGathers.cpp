//===- RaiseGathers.cpp - Rows of tables, found in bodies -----------------===//

#include "heddle/Shard/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/SetVector.h"

namespace heddle {
#define GEN_PASS_DEF_RAISEGATHERSPASS
#include "heddle/Shard/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {

/// A structured op whose result consists of rows of a table:
///   result[i..., j...] = table[j..., row(inputs[i...]), j...]
struct Lookup {
  tensor::ExtractOp element;
  unsigned dim = 0;           ///< dimension of the table that `row` indexes
  Value row;                  ///< row number, a value of the body
  unsigned numIndexed = 0;    ///< number of loops i
  SetVector<Operation *> ops; ///< ops of the body that compute `row`
  SetVector<unsigned> inputs; ///< inputs that those ops read
};

} // namespace

/// Collects the ops of the body that compute `value`. Returns false if one of
/// them is anything but arithmetic on inputs and constants.
static bool collect(Value value, linalg::GenericOp op, Lookup &lookup) {
  Block *body = op.getBody();
  if (auto argument = dyn_cast<BlockArgument>(value);
      argument && argument.getOwner() == body) {
    if (argument.getArgNumber() >= op.getNumDpsInputs())
      return false;
    lookup.inputs.insert(argument.getArgNumber());
    return true;
  }
  if (matchPattern(value, m_Constant()))
    return true;
  Operation *source = value.getDefiningOp();
  if (!source || source->getBlock() != body || source->getNumRegions() != 0 ||
      !isa_and_nonnull<arith::ArithDialect>(source->getDialect()))
    return false;
  for (Value operand : source->getOperands())
    if (!collect(operand, op, lookup))
      return false;
  lookup.ops.insert(source);
  return true;
}

static std::optional<Lookup> findLookup(linalg::GenericOp op) {
  if (op.getNumDpsInits() != 1 || op->getNumResults() != 1 ||
      op.getNumReductionLoops() != 0 || op.getNumDpsInputs() == 0 ||
      !op->getDiscardableAttrs().empty() ||
      !op.getMatchingIndexingMap(op.getDpsInitOperand(0)).isIdentity())
    return std::nullopt;
  Lookup lookup;
  lookup.element = op.getBody()
                       ->getTerminator()
                       ->getOperand(0)
                       .getDefiningOp<tensor::ExtractOp>();
  if (!lookup.element || lookup.element->getBlock() != op.getBody())
    return std::nullopt;
  auto table = dyn_cast<RankedTensorType>(lookup.element.getTensor().getType());
  auto result = dyn_cast<RankedTensorType>(op.getResult(0).getType());
  if (!table || !table.hasStaticShape() || !result ||
      !result.hasStaticShape() ||
      lookup.element.getTensor().getParentRegion() == &op.getRegion() ||
      result.getRank() < table.getRank())
    return std::nullopt;
  lookup.numIndexed = result.getRank() - (table.getRank() - 1);
  unsigned next = lookup.numIndexed;
  for (auto [dim, index] : llvm::enumerate(lookup.element.getIndices())) {
    if (auto place = index.getDefiningOp<linalg::IndexOp>()) {
      if (next == result.getRank() || place.getDim() != next ||
          result.getDimSize(next) != table.getDimSize(dim))
        return std::nullopt;
      ++next;
    } else if (lookup.row) {
      return std::nullopt;
    } else {
      lookup.dim = dim;
      lookup.row = index;
    }
  }
  if (!lookup.row || !collect(lookup.row, op, lookup) || lookup.inputs.empty())
    return std::nullopt;
  AffineMap rows =
      AffineMap::getMultiDimIdentityMap(op.getNumLoops(), op.getContext())
          .getMajorSubMap(lookup.numIndexed);
  for (unsigned input : lookup.inputs)
    if (op.getMatchingIndexingMap(op.getDpsInputOperand(input)) != rows)
      return std::nullopt;
  return lookup;
}

/// Returns the tensor of row numbers: an input, or the result of the body's
/// arithmetic on its inputs.
static Value makeRows(RewriterBase &rewriter, linalg::GenericOp op,
                      const Lookup &lookup) {
  if (auto cast = lookup.row.getDefiningOp<arith::IndexCastOp>();
      cast && lookup.ops.size() == 1 &&
      cast.getIn().getType().getIntOrFloatBitWidth() >= 32)
    return op.getInputs()[*lookup.inputs.begin()];
  auto shape = cast<RankedTensorType>(op.getResult(0).getType())
                   .getShape()
                   .take_front(lookup.numIndexed);
  SmallVector<Value> inputs;
  for (unsigned input : lookup.inputs)
    inputs.push_back(op.getInputs()[input]);
  Location loc = op.getLoc();
  Type number = rewriter.getI64Type();
  Value empty = rewriter.create<tensor::EmptyOp>(loc, shape, number);
  SmallVector<AffineMap> maps(
      inputs.size() + 1, rewriter.getMultiDimIdentityMap(lookup.numIndexed));
  SmallVector<utils::IteratorType> parallel(lookup.numIndexed,
                                            utils::IteratorType::parallel);
  return rewriter
      .create<linalg::GenericOp>(
          loc, empty.getType(), inputs, empty, maps, parallel,
          [&](OpBuilder &b, Location at, ValueRange arguments) {
            IRMapping mapping;
            for (auto [i, input] : llvm::enumerate(lookup.inputs))
              mapping.map(op.getBody()->getArgument(input), arguments[i]);
            for (Operation *source : lookup.ops) {
              for (Value operand : source->getOperands())
                if (Operation *constant = operand.getDefiningOp();
                    constant && matchPattern(operand, m_Constant()) &&
                    constant->getBlock() == op.getBody() &&
                    !mapping.contains(operand))
                  b.clone(*constant, mapping);
              b.clone(*source, mapping);
            }
            Value row = mapping.lookupOrDefault(lookup.row);
            b.create<linalg::YieldOp>(
                at, b.create<arith::IndexCastOp>(at, number, row).getResult());
          })
      .getResult(0);
}

static void raise(RewriterBase &rewriter, linalg::GenericOp op,
                  Lookup &lookup) {
  rewriter.setInsertionPoint(op);
  Location loc = op.getLoc();
  Value rows = makeRows(rewriter, op, lookup);
  auto type = cast<RankedTensorType>(rows.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape.push_back(1);
  SmallVector<ReassociationIndices> groups;
  for (int64_t i = 0; i < type.getRank(); ++i)
    groups.push_back({i});
  groups.back().push_back(type.getRank());
  Value coordinates = rewriter.create<tensor::ExpandShapeOp>(
      loc, type.clone(shape), rows, groups);
  rewriter.replaceOpWithNewOp<tensor::GatherOp>(
      op, op.getResult(0).getType(), lookup.element.getTensor(), coordinates,
      ArrayRef<int64_t>{lookup.dim}, /*unique=*/false);
}

namespace {

struct RaiseGathers : heddle::impl::RaiseGathersPassBase<RaiseGathers> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    SmallVector<linalg::GenericOp> ops;
    getOperation()->walk([&](linalg::GenericOp op) { ops.push_back(op); });
    for (linalg::GenericOp op : ops)
      if (std::optional<Lookup> lookup = findLookup(op))
        raise(rewriter, op, *lookup);
  }
};

} // namespace
