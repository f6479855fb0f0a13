//===- Vocabulary.cpp - embedding, cross-entropy, logsumexp, pick ---------===//

#include "Decomposer.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

static Value toI64(Body &b, Value value) {
  return b.toInteger(value, b.getI64Type());
}

/// Returns id - offset as i64, and whether it lies in [0, size).
static std::pair<Value, Value> locate(Body &b, Value id, Value offset,
                                      int64_t size) {
  Value position = toI64(b, id);
  if (offset)
    position = b.create<arith::SubIOp>(position, toI64(b, offset));
  Value inside = b.create<arith::CmpIOp>(arith::CmpIPredicate::ult, position,
                                         b.integer(b.getI64Type(), size));
  return {position, inside};
}

static void decompose(EmbeddingOp op, Decomposer &d) {
  auto type = cast<RankedTensorType>(op.getType());
  int64_t rank = type.getRank();
  int64_t size = op.getTable().getType().getDimSize(0);
  Value result =
      d.map(type, {{op.getIds(), d.leading(rank, rank - 1)}},
            [&](Body &b, ValueRange v) {
              auto [position, inside] = locate(b, v[0], op.getOffset(), size);
              Value zero = b.integer(b.getI64Type(), 0);
              Value row =
                  b.toInteger(b.create<arith::SelectOp>(inside, position, zero),
                              b.getIndexType());
              Value element = b.create<tensor::ExtractOp>(
                  op.getTable(), ValueRange{row, b.index(rank - 1)});
              element = b.widen(element);
              Value picked = b.create<arith::SelectOp>(
                  inside, element, b.constant(element.getType(), 0.0));
              return b.convert(picked, type.getElementType());
            });
  op.replaceAllUsesWith(result);
}

namespace {
struct RowSums {
  Value maximum;      ///< of each row; 0 where it is infinite
  Value exponentials; ///< exp(x - maximum)
  Value sum;          ///< of the exponentials
  Value lse;
};
} // namespace

/// Computes log(sum(exp)) of each row, stably by subtracting the row's maximum.
/// A row of -inf gives -inf, not NaN.
static RowSums logSumExp(Decomposer &d, Value logits) {
  auto type = cast<RankedTensorType>(logits.getType());
  int64_t rank = type.getRank(), size = type.getShape().back();
  Type f32 = d.builder.getF32Type();
  auto stats = rowsOf(type, f32);
  AffineMap id = d.identity(rank), row = d.leading(rank, rank - 1);
  AffineMap perRow = d.identity(rank - 1);

  Value largest =
      d.reduce(stats, {size}, {{logits, id}}, ReductionKind::Max,
               [&](Body &b, ValueRange v, Value acc) -> Value {
                 return b.create<arith::MaximumFOp>(acc, b.convert(v[0], f32));
               });
  Value maximum = d.map(stats, {{largest, perRow}}, [&](Body &b, ValueRange v) {
    Value infinity = b.constant(f32, std::numeric_limits<double>::infinity());
    Value infinite = b.create<arith::CmpFOp>(
        arith::CmpFPredicate::OEQ, b.create<math::AbsFOp>(v[0]), infinity);
    return b.create<arith::SelectOp>(infinite, b.constant(f32, 0.0), v[0])
        .getResult();
  });
  Value exponentials =
      d.map(withElement(type, f32), {{logits, id}, {maximum, row}},
            [&](Body &b, ValueRange v) {
              return b.exp(b.sub(b.convert(v[0], f32), v[1]));
            });
  Value sum = d.reduce(
      stats, {size}, {{exponentials, id}}, ReductionKind::Sum,
      [&](Body &b, ValueRange v, Value acc) { return b.add(acc, v[0]); });
  Value lse = d.map(stats, {{sum, perRow}, {maximum, perRow}},
                    [&](Body &b, ValueRange v) {
                      return b.add(b.create<math::LogOp>(v[0]), v[1]);
                    });
  return {maximum, exponentials, sum, lse};
}

/// Returns logits[i, ids[i] - offset] of every row i as f32, or 0 if this
/// position lies outside of the row.
static Value pick(Decomposer &d, Value logits, Value ids, Value offset) {
  auto type = cast<RankedTensorType>(logits.getType());
  int64_t rank = type.getRank(), size = type.getShape().back();
  Type f32 = d.builder.getF32Type();
  return d.map(
      rowsOf(type, f32), {{ids, d.identity(rank - 1)}},
      [&](Body &b, ValueRange v) {
        auto [position, inside] = locate(b, v[0], offset, size);
        SmallVector<Value> indices;
        for (int64_t dim = 0; dim < rank - 1; ++dim)
          indices.push_back(b.index(dim));
        Value zero = b.integer(b.getI64Type(), 0);
        indices.push_back(
            b.toInteger(b.create<arith::SelectOp>(inside, position, zero),
                        b.getIndexType()));
        Value element =
            b.convert(b.create<tensor::ExtractOp>(logits, indices), f32);
        return b.create<arith::SelectOp>(inside, element, b.constant(f32, 0.0))
            .getResult();
      });
}

static void decompose(LogSumExpOp op, Decomposer &d) {
  op.replaceAllUsesWith(logSumExp(d, op.getLogits()).lse);
}

static void decompose(PickOp op, Decomposer &d) {
  op.replaceAllUsesWith(pick(d, op.getLogits(), op.getIds(), op.getOffset()));
}

/// Returns whether `value` is computed from `from`.
static bool dependsOn(Value value, Value from) {
  SmallVector<Value> work{value};
  llvm::DenseSet<Value> seen;
  while (!work.empty()) {
    Value next = work.pop_back_val();
    if (next == from)
      return true;
    if (!seen.insert(next).second)
      continue;
    if (Operation *op = next.getDefiningOp())
      llvm::append_range(work, op->getOperands());
  }
  return false;
}

/// Returns the gradient of the logits. If `sum` is set, `source` holds the
/// exponentials and `sum` their sum. If `sum` is null, `source` holds the
/// logits, and the op has the logarithm of the sum as an operand.
static Value gradient(Decomposer &d, CrossEntropyGradOp op, Value source,
                      Value sum) {
  auto type = cast<RankedTensorType>(op.getType());
  int64_t rank = type.getRank();
  AffineMap id = d.identity(rank), row = d.leading(rank, rank - 1);
  return d.map(
      type,
      {{source, id},
       {op.getTargets(), row},
       {sum ? sum : op.getLse(), row},
       {op.getLossGrad(), row}},
      [&](Body &b, ValueRange v) {
        Type f32 = b.getF32Type(), i32 = b.getI32Type();
        Value zero = b.constant(f32, 0.0);
        Value ignored =
            b.create<arith::CmpIOp>(arith::CmpIPredicate::eq, v[1],
                                    b.integer(i32, op.getIgnoreIndex()));
        // 32 bits, because a vector holds twice as many numbers of 32 bits as
        // of 64.
        Value column = b.toInteger(b.index(rank - 1), i32);
        Value target = v[1];
        if (op.getOffset())
          target =
              b.create<arith::SubIOp>(target, b.toInteger(op.getOffset(), i32));
        Value hit =
            b.create<arith::CmpIOp>(arith::CmpIPredicate::eq, column, target);
        Value probability = sum ? b.mul(v[0], b.div(b.constant(f32, 1.0), v[2]))
                                : b.exp(b.sub(b.convert(v[0], f32), v[2]));
        Value above = b.create<arith::SelectOp>(hit, b.add(probability, -1.0),
                                                probability);
        Value value =
            b.create<arith::SelectOp>(ignored, zero, b.mul(above, v[3]));
        return b.convert(value, type.getElementType());
      });
}

static void decompose(CrossEntropyOp op, Decomposer &d) {
  auto rows = op.getLoss().getType();
  AffineMap id = d.identity(rows.getRank());
  RowSums sums = logSumExp(d, op.getLogits());
  Value picked = pick(d, op.getLogits(), op.getTargets(), Value());
  Value loss =
      d.map(rows, {{sums.lse, id}, {picked, id}, {op.getTargets(), id}},
            [&](Body &b, ValueRange v) -> Value {
              Value ignored = b.create<arith::CmpIOp>(
                  arith::CmpIPredicate::eq, v[2],
                  b.integer(b.getI32Type(), op.getIgnoreIndex()));
              return b.create<arith::SelectOp>(
                  ignored, b.constant(b.getF32Type(), 0.0), b.sub(v[0], v[1]));
            });
  // The gradients of the loss share its exponentials, so that each is computed
  // once. But a gradient whose other operand depends on the loss may end in a
  // later kernel, and then the exponentials would be stored. Such a gradient
  // shares nothing.
  SmallVector<CrossEntropyGradOp> gradients;
  for (Operation *user : op.getLse().getUsers())
    if (auto grad = dyn_cast<CrossEntropyGradOp>(user))
      if (grad.getLogits() == op.getLogits() && grad.getLse() == op.getLse() &&
          !dependsOn(grad.getLossGrad(), op.getLoss()))
        gradients.push_back(grad);
  OpBuilder::InsertionGuard guard(d.builder);
  for (CrossEntropyGradOp grad : gradients) {
    d.builder.setInsertionPoint(grad);
    grad.getResult().replaceAllUsesWith(
        gradient(d, grad, sums.exponentials, sums.sum));
  }
  op.replaceAllUsesWith(ValueRange{loss, sums.lse});
}

static void decompose(CrossEntropyGradOp op, Decomposer &d) {
  if (!op->use_empty())
    op.getResult().replaceAllUsesWith(gradient(d, op, op.getLogits(), Value()));
}

bool lower::decomposeVocabulary(Operation *op, OpBuilder &builder) {
  Decomposer d(builder, op->getLoc());
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case<EmbeddingOp, CrossEntropyOp, CrossEntropyGradOp, LogSumExpOp,
            PickOp>([&](auto typed) {
        decompose(typed, d);
        return true;
      })
      .Default(false);
}
