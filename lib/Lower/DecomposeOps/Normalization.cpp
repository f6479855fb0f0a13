//===- Normalization.cpp - layer_norm, rms_norm and gradients -------------===//
//
// The variance is computed from x - mean, in a second pass over a row that lies
// in cache. The difference mean(x^2) - mean(x)^2 would lose digits where the
// mean is large.
//
//===----------------------------------------------------------------------===//

#include "Decomposer.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

namespace {

/// The maps and types of a normalization over the last dimension of x.
struct Rows {
  Rows(Decomposer &d, Value x)
      : d(d), type(cast<RankedTensorType>(x.getType())), rank(type.getRank()),
        size(type.getShape().back()), id(d.identity(rank)),
        row(d.leading(rank, rank - 1)), column(d.last(rank)),
        f32(Float32Type::get(x.getContext())), stats(rowsOf(type, f32)),
        wide(withElement(type, f32)) {}

  Value sum(ArrayRef<Operand> operands, Decomposer::MapBody body) {
    return d.reduce(stats, {size}, operands, ReductionKind::Sum,
                    [&](Body &b, ValueRange v, Value acc) {
                      return b.add(acc, body(b, v));
                    });
  }
  Value perRow(ArrayRef<Value> operands, Decomposer::MapBody body) {
    SmallVector<Operand> all;
    for (Value value : operands)
      all.push_back({value, d.identity(rank - 1)});
    return d.map(stats, all, body);
  }

  Decomposer &d;
  RankedTensorType type;
  int64_t rank, size;
  AffineMap id, row, column;
  Type f32;
  RankedTensorType stats, wide;
};

} // namespace

static Value reciprocalRoot(Body &b, Value sum, int64_t size, double epsilon) {
  Value variance = b.add(b.mul(sum, 1.0 / size), epsilon);
  return b.div(b.constant(sum.getType(), 1.0),
               b.create<math::SqrtOp>(variance));
}

static void decompose(LayerNormOp op, Decomposer &d) {
  Rows rows(d, op.getX());
  auto f32 = [&](Body &b, Value v) { return b.convert(v, rows.f32); };
  double epsilon = op.getEpsilon().convertToDouble();

  Value total = rows.sum({{op.getX(), rows.id}},
                         [&](Body &b, ValueRange v) { return f32(b, v[0]); });
  Value mean = rows.perRow({total}, [&](Body &b, ValueRange v) {
    return b.mul(v[0], 1.0 / rows.size);
  });
  Value squares = rows.sum({{op.getX(), rows.id}, {mean, rows.row}},
                           [&](Body &b, ValueRange v) {
                             Value centred = b.sub(f32(b, v[0]), v[1]);
                             return b.mul(centred, centred);
                           });
  Value rstd = rows.perRow({squares}, [&](Body &b, ValueRange v) {
    return reciprocalRoot(b, v[0], rows.size, epsilon);
  });
  Value y = d.map(rows.type,
                  {{op.getX(), rows.id},
                   {mean, rows.row},
                   {rstd, rows.row},
                   {op.getWeight(), rows.column},
                   {op.getBias(), rows.column}},
                  [&](Body &b, ValueRange v) {
                    Value hat = b.mul(b.sub(f32(b, v[0]), v[1]), v[2]);
                    Value scaled = b.mul(hat, f32(b, v[3]));
                    return b.convert(b.add(scaled, f32(b, v[4])),
                                     rows.type.getElementType());
                  });
  op.replaceAllUsesWith(ValueRange{y, mean, rstd});
}

static void decompose(RmsNormOp op, Decomposer &d) {
  Rows rows(d, op.getX());
  auto f32 = [&](Body &b, Value v) { return b.convert(v, rows.f32); };
  double epsilon = op.getEpsilon().convertToDouble();

  Value squares = rows.sum({{op.getX(), rows.id}}, [&](Body &b, ValueRange v) {
    Value x = f32(b, v[0]);
    return b.mul(x, x);
  });
  Value rstd = rows.perRow({squares}, [&](Body &b, ValueRange v) {
    return reciprocalRoot(b, v[0], rows.size, epsilon);
  });
  Value y = d.map(
      rows.type,
      {{op.getX(), rows.id}, {rstd, rows.row}, {op.getWeight(), rows.column}},
      [&](Body &b, ValueRange v) {
        Value hat = b.mul(f32(b, v[0]), v[1]);
        return b.convert(b.mul(hat, f32(b, v[2])), rows.type.getElementType());
      });
  op.replaceAllUsesWith(ValueRange{y, rstd});
}

/// Returns x_grad, weight_grad and, if `biasGrad` is set, bias_grad.
/// With hat = (x - mean) * rstd and g = y_grad * weight:
///   x_grad = rstd * (g - mean(g) - hat * mean(g * hat))
/// weight_grad sums y_grad * hat over the rows, bias_grad sums y_grad. RMS
/// normalization has no `mean`: it leaves out both mean and mean(g).
static SmallVector<Value> gradients(Decomposer &d, Value x, Value weight,
                                    Value mean, Value rstd, Value yGrad,
                                    RankedTensorType weightGrad,
                                    RankedTensorType biasGrad) {
  Rows rows(d, x);
  auto f32 = [&](Body &b, Value v) { return b.convert(v, rows.f32); };
  double inverse = 1.0 / rows.size;

  SmallVector<Operand> hatOf = {{x, rows.id}, {rstd, rows.row}};
  if (mean)
    hatOf.push_back({mean, rows.row});
  Value hat = d.map(rows.wide, hatOf, [&](Body &b, ValueRange v) {
    Value centred = f32(b, v[0]);
    if (mean)
      centred = b.sub(centred, v[2]);
    return b.mul(centred, v[1]);
  });
  Operand dy{yGrad, rows.id}, w{weight, rows.column}, h{hat, rows.id};

  Value dot = rows.sum({dy, w, h}, [&](Body &b, ValueRange v) {
    return b.mul(b.mul(f32(b, v[0]), f32(b, v[1])), v[2]);
  });
  SmallVector<Operand> operands = {dy, w, h, {rstd, rows.row}, {dot, rows.row}};
  if (mean) {
    Value total = rows.sum({dy, w}, [&](Body &b, ValueRange v) {
      return b.mul(f32(b, v[0]), f32(b, v[1]));
    });
    operands.push_back({total, rows.row});
  }
  Value xGrad = d.map(rows.type, operands, [&](Body &b, ValueRange v) {
    Value g = b.mul(f32(b, v[0]), f32(b, v[1]));
    Value grad = b.sub(g, b.mul(v[2], b.mul(v[4], inverse)));
    if (mean)
      grad = b.sub(grad, b.mul(v[5], inverse));
    return b.convert(b.mul(grad, v[3]), rows.type.getElementType());
  });

  Value products = d.map(rows.wide, {dy, h}, [&](Body &b, ValueRange v) {
    return b.mul(f32(b, v[0]), v[1]);
  });
  auto overRows = llvm::to_vector(llvm::seq<int64_t>(0, rows.rank - 1));
  SmallVector<Value> results = {
      xGrad, d.reduceDims(products, overRows, ReductionKind::Sum, weightGrad)};
  if (biasGrad)
    results.push_back(
        d.reduceDims(yGrad, overRows, ReductionKind::Sum, biasGrad));
  return results;
}

static void decompose(LayerNormGradOp op, Decomposer &d) {
  op.replaceAllUsesWith(gradients(
      d, op.getX(), op.getWeight(), op.getMean(), op.getRstd(), op.getYGrad(),
      op.getWeightGrad().getType(), op.getBiasGrad().getType()));
}

static void decompose(RmsNormGradOp op, Decomposer &d) {
  op.replaceAllUsesWith(gradients(d, op.getX(), op.getWeight(), Value(),
                                  op.getRstd(), op.getYGrad(),
                                  op.getWeightGrad().getType(), {}));
}

bool lower::decomposeNormalization(Operation *op, OpBuilder &builder) {
  Decomposer d(builder, op->getLoc());
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case<LayerNormOp, LayerNormGradOp, RmsNormOp, RmsNormGradOp>(
          [&](auto typed) {
            decompose(typed, d);
            return true;
          })
      .Default(false);
}
