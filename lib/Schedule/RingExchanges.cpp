//===- RingExchanges.cpp - heddle-ring-exchanges --------------------------===//
//
// Members are numbered 0 to n - 1. In each step of a ring, member i receives
// from member i + 1 (modulo n). With one block of rows a member:
//
//   gather -> product   in step k, member i multiplies block i + k while block
//                       i + k + 1 is on its way
//   product -> scatter  in step k, member i computes its own terms of block
//                       i + 1 + k, and adds them to what it received: the sum
//                       of the terms of members i + 1 to i + k. After the last
//                       step, member i has the sum for block i
//
//===----------------------------------------------------------------------===//

#include "RowChunks.h"
#include "dialects/Comm/Comm.h"
#include "heddle/Schedule/Passes.h"
#include "heddle/Sharding/FactorShardings.h"
#include "heddle/Support/Rows.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace heddle {
#define GEN_PASS_DEF_RINGEXCHANGESPASS
#include "heddle/Schedule/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

/// Returns whether rows along `dim` are runs of memory.
static bool areRowsContiguous(RankedTensorType type, int64_t dim) {
  return llvm::all_of(type.getShape().take_front(dim),
                      [](int64_t size) { return size == 1; });
}

namespace {
/// A product by rows: the operand that has them, and the dimensions of the rows
/// in the operand and in the result.
struct RowProduct {
  ContractOp op;
  unsigned operand;
  int64_t from, to;
};
} // namespace

/// Returns how the product computes row by row along the letter. nullopt if the
/// product has a bias or an accumulator, which would have to be cut as well.
static std::optional<RowProduct> getRowProduct(ContractOp product,
                                               char letter) {
  if (product.getAccumulate() || product.getBias())
    return std::nullopt;
  ContractionAttr letters = product.getContraction();
  size_t lhs = letters.getLhs().getValue().find(letter);
  size_t rhs = letters.getRhs().getValue().find(letter);
  size_t to = letters.getResult().getValue().find(letter);
  bool inLhs = lhs != StringRef::npos, inRhs = rhs != StringRef::npos;
  if (to == StringRef::npos || inLhs == inRhs)
    return std::nullopt;
  RowProduct rows{product, inLhs ? 0u : 1u, int64_t(inLhs ? lhs : rhs),
                  int64_t(to)};
  auto type =
      cast<RankedTensorType>(product->getOperand(rows.operand).getType());
  if (!areRowsContiguous(type, rows.from) ||
      !areRowsContiguous(cast<RankedTensorType>(product.getType()), rows.to))
    return std::nullopt;
  return rows;
}

static RankedTensorType withRows(Type type, int64_t dim, int64_t rows) {
  auto tensor = cast<RankedTensorType>(type);
  SmallVector<int64_t> shape(tensor.getShape());
  shape[dim] = rows;
  return tensor.clone(shape);
}

/// Clones the product for some of its rows.
static Value multiply(OpBuilder &builder, RowProduct product, Value rows) {
  Operation *part = builder.clone(*product.op);
  part->setOperand(product.operand, rows);
  int64_t count =
      cast<RankedTensorType>(rows.getType()).getDimSize(product.from);
  part->getResult(0).setType(withRows(product.op.getType(), product.to, count));
  return part->getResult(0);
}

namespace {
/// Builds the ops of a ring exchange among some members.
class Ring {
public:
  Ring(OpBuilder &builder, Operation *exchange, StringRef mesh,
       AxisListAttr axes, int64_t members)
      : builder(builder), loc(exchange->getLoc()), mesh(mesh), axes(axes),
        members(members) {
    index = builder.create<comm::AxisIndexOp>(
        loc, builder.getIndexType(),
        FlatSymbolRefAttr::get(builder.getContext(), mesh), axes);
  }

  /// Receives the next member's value.
  Value shift(Value value) {
    SmallVector<int64_t> sources;
    for (int64_t i = 0; i < members; ++i)
      sources.push_back((i + 1) % members);
    return builder.create<comm::PermuteOp>(loc, value.getType(), value, mesh,
                                           axes, sources);
  }
  /// Returns the first row of block (i + step) modulo the members, for member
  /// i; of block (step - i) if `isBackward`.
  Value getRow(int64_t step, int64_t rows, bool isBackward = false) {
    Value number = getConstant(step + (isBackward ? members : 0));
    Value block =
        isBackward
            ? builder.create<arith::SubIOp>(loc, number, index)
            : builder.create<arith::AddIOp>(loc, index, number).getResult();
    block = builder.create<arith::RemUIOp>(loc, block, getConstant(members));
    return builder.create<arith::MulIOp>(loc, block, getConstant(rows));
  }
  /// Returns the tensor whose block (i + k) modulo the members is parts[k].
  Value join(ValueRange parts, int64_t dim);

private:
  Value getConstant(int64_t value) {
    return builder.create<arith::ConstantIndexOp>(loc, value);
  }
  /// Joins tensors along a dimension whose rows are contiguous.
  Value concatenate(ValueRange parts, int64_t dim);

  OpBuilder &builder;
  Location loc;
  StringRef mesh;
  AxisListAttr axes;
  int64_t members;
  Value index;
};
} // namespace

Value Ring::concatenate(ValueRange parts, int64_t dim) {
  auto part = cast<RankedTensorType>(parts.front().getType());
  SmallVector<ReassociationIndices> all = {{}};
  for (int64_t i = 0; i <= dim; ++i)
    all.front().push_back(i);
  for (int64_t i = dim + 1; i < part.getRank(); ++i)
    all.push_back({i});
  // All dimensions before the rows have size 1.
  SmallVector<int64_t> shape(part.getShape().drop_front(dim));
  SmallVector<Value> flat;
  for (Value value : parts)
    flat.push_back(dim == 0 ? value
                            : builder.create<tensor::CollapseShapeOp>(
                                  loc, part.clone(shape), value, all));
  Value joined = joinRows(builder, loc, flat);
  if (dim == 0)
    return joined;
  return builder.create<tensor::ExpandShapeOp>(
      loc, withRows(part, dim, part.getDimSize(dim) * int64_t(parts.size())),
      joined, all);
}

// The parts in the order of steps are the blocks in a cyclic order. They are
// written twice, and the slice of them that begins with block 0 is taken.
Value Ring::join(ValueRange parts, int64_t dim) {
  int64_t rows =
      cast<RankedTensorType>(parts.front().getType()).getDimSize(dim);
  SmallVector<Value> twice(parts);
  twice.append(parts.begin(), parts.end());
  return extractRows(builder, loc, concatenate(twice, dim), dim,
                     getRow(0, rows, /*isBackward=*/true), rows * members);
}

/// Returns the product whose result only goes to `sum`, an all-reduce or a
/// reduce-scatter, if a ring of the members can scatter its rows along `dim`.
template <typename OpT>
static std::optional<RowProduct> getScatteredProduct(OpT sum, int64_t dim,
                                                     int64_t members) {
  auto product = sum.getInput().template getDefiningOp<ContractOp>();
  if (!product || !product.getResult().hasOneUse() ||
      product->getBlock() != sum->getBlock() ||
      sum.getKind() != ReductionKind::Sum || members < 2 ||
      cast<RankedTensorType>(product.getType()).getDimSize(dim) % members != 0)
    return std::nullopt;
  return getRowProduct(product,
                       product.getContraction().getResult().getValue()[dim]);
}

/// Cuts a product along its rows if its result goes only to a reduce-scatter.
static void cutScatter(comm::ReduceScatterOp scatter, MeshAttr mesh) {
  auto part = cast<RankedTensorType>(scatter.getType());
  int64_t dim = scatter.getDim(), rows = part.getDimSize(dim);
  int64_t members = mesh.getSize(scatter.getAxes().getAxes());
  std::optional<RowProduct> by = getScatteredProduct(scatter, dim, members);
  if (!by)
    return;
  ContractOp product = by->op;
  OpBuilder builder(scatter);
  Ring ring(builder, scatter, scatter.getMesh(), scatter.getAxes(), members);
  Value sum;
  for (int64_t step = 0; step < members; ++step) {
    Value block =
        extractRows(builder, scatter.getLoc(), product->getOperand(by->operand),
                    by->from, ring.getRow(step + 1, rows), rows);
    Value own = multiply(builder, *by, block);
    sum = step == 0 ? own
                    : builder.create<arith::AddFOp>(scatter.getLoc(),
                                                    ring.shift(sum), own);
  }
  scatter.getResult().replaceAllUsesWith(sum);
  scatter->erase();
  product->erase();
}

/// Cuts an all-gather, and the products that read its result row by row.
static void cutGather(comm::AllGatherOp gather, MeshAttr mesh) {
  auto part = cast<RankedTensorType>(gather.getInput().getType());
  auto whole = cast<RankedTensorType>(gather.getType());
  int64_t dim = gather.getDim(), rows = part.getDimSize(dim);
  SmallVector<RowProduct> products;
  bool readsWhole = false;
  for (OpOperand &use : gather.getResult().getUses()) {
    auto product = dyn_cast<ContractOp>(use.getOwner());
    std::optional<RowProduct> by;
    if (product && product->getBlock() == gather->getBlock() &&
        use.getOperandNumber() < 2) {
      ContractionAttr letters = product.getContraction();
      by = getRowProduct(
          product,
          (use.getOperandNumber() == 0 ? letters.getLhs() : letters.getRhs())
              .getValue()[dim]);
    }
    if (by && by->operand == use.getOperandNumber())
      products.push_back(*by);
    else
      readsWhole = true;
  }
  int64_t members = mesh.getSize(gather.getAxes().getAxes());
  if (products.empty() || members < 2 ||
      whole.getDimSize(dim) != members * rows)
    return;
  OpBuilder builder(gather);
  Ring ring(builder, gather, gather.getMesh(), gather.getAxes(), members);
  SmallVector<Value> blocks = {gather.getInput()};
  for (int64_t step = 1; step < members; ++step)
    blocks.push_back(ring.shift(blocks.back()));
  for (RowProduct &product : products) {
    builder.setInsertionPoint(product.op);
    SmallVector<Value> parts;
    for (Value block : blocks)
      parts.push_back(multiply(builder, product, block));
    product.op.getResult().replaceAllUsesWith(ring.join(parts, product.to));
    product.op->erase();
  }
  if (readsWhole) {
    builder.setInsertionPointAfterValue(blocks.back());
    gather.getResult().replaceAllUsesWith(ring.join(blocks, dim));
  }
  gather->erase();
}

/// Replaces an all-reduce by a reduce-scatter and an all-gather, if it is the
/// only reader of a product and the product can be cut.
static void splitAllReduce(comm::AllReduceOp sum, MeshAttr mesh) {
  auto type = cast<RankedTensorType>(sum.getType());
  int64_t members = mesh.getSize(sum.getAxes().getAxes());
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    if (type.getDimSize(dim) == 1)
      continue;
    if (!getScatteredProduct(sum, dim, members))
      return;
    OpBuilder builder(sum);
    RankedTensorType part = withRows(type, dim, type.getDimSize(dim) / members);
    Value scattered = builder.create<comm::ReduceScatterOp>(
        sum.getLoc(), part, sum.getInput(), sum.getMesh(), sum.getAxes(),
        sum.getKind(), dim);
    sum.getResult().replaceAllUsesWith(builder.create<comm::AllGatherOp>(
        sum.getLoc(), type, scattered, sum.getMesh(), sum.getAxes(), dim));
    sum->erase();
    return;
  }
}

namespace {
struct RingExchanges : heddle::impl::RingExchangesPassBase<RingExchanges> {
  void runOnOperation() override {
    MeshRef mesh = getMesh(getOperation());
    if (!mesh)
      return;
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (Block &block : function.getBody())
        cut(block, mesh.mesh);
  }

private:
  static void cut(Block &block, MeshAttr mesh) {
    for (auto sum :
         llvm::make_early_inc_range(block.getOps<comm::AllReduceOp>()))
      splitAllReduce(sum, mesh);
    SmallVector<comm::ReduceScatterOp> scatters(
        block.getOps<comm::ReduceScatterOp>());
    for (comm::ReduceScatterOp scatter : scatters)
      cutScatter(scatter, mesh);
    SmallVector<comm::AllGatherOp> gathers(block.getOps<comm::AllGatherOp>());
    for (comm::AllGatherOp gather : gathers)
      cutGather(gather, mesh);
  }
};
} // namespace
