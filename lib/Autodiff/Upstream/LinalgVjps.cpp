//===- LinalgVjps.cpp - Gradients of linalg ops ---------------------------===//

#include "UpstreamVjps.h"
#include "heddle/Autodiff/Autodiff.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace heddle;

static LogicalResult transposeVjp(linalg::TransposeOp op, VjpContext &c) {
  auto type = cast<RankedTensorType>(op.getInput().getType());
  Value init = c.make<tensor::EmptyOp>(type.getShape(), type.getElementType());
  auto back = c.builder.create<linalg::TransposeOp>(
      c.loc, c.grads[0], init, invertPermutationVector(op.getPermutation()));
  c.operandGrads[0] = back->getResult(0);
  return success();
}

// The fill overwrites the destination, so the destination's gradient is zero.
static LogicalResult fillVjp(linalg::FillOp op, VjpContext &c) {
  if (c.wanted[0])
    c.operandGrads[0] =
        c.make<tensor::ExtractOp>(c.sumOfAll(c.grads[0]), ValueRange());
  return success();
}

//===----------------------------------------------------------------------===//
// linalg.generic, and named ops, which are generic ops with a known body
//===----------------------------------------------------------------------===//

/// Returns the value in the body whose gradient is that of result `result`: the
/// yielded value, or the addend if the body adds to the destination. Null if
/// the body uses the destination in any other way.
static Value summandOf(linalg::LinalgOp op, unsigned result) {
  Block &body = *op.getBlock();
  BlockArgument sum = body.getArgument(op.getNumDpsInputs() + result);
  Value yielded = body.getTerminator()->getOperand(result);
  if (sum.use_empty())
    return yielded;
  auto add = yielded.getDefiningOp<arith::AddFOp>();
  if (!add || !sum.hasOneUse() || *sum.user_begin() != add)
    return nullptr;
  return add.getLhs() == sum ? add.getRhs() : add.getLhs();
}

/// Builds the gradient of one input as one generic op over the same iteration
/// space. Its body repeats the op's body and differentiates it. The gradient is
/// summed over the loops that do not index the input.
static FailureOr<Value> buildInputGradient(linalg::LinalgOp op, VjpContext &c,
                                           unsigned input,
                                           ArrayRef<Value> summands) {
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  unsigned numInputs = op.getNumDpsInputs();
  AffineMap own = maps[input];
  if (!own.isProjectedPermutation())
    return op->emitOpError()
           << "expected input " << input
           << " to be indexed by loops alone: no other gradient is defined";
  SmallVector<Value> inputs = op.getDpsInputs();
  SmallVector<AffineMap> newMaps(maps.begin(), maps.begin() + numInputs);
  for (auto [i, gradient] : llvm::enumerate(c.grads)) {
    if (!gradient)
      continue;
    inputs.push_back(gradient);
    newMaps.push_back(maps[numInputs + i]);
  }
  newMaps.push_back(own);
  SmallVector<utils::IteratorType> iterators(op.getNumLoops(),
                                             utils::IteratorType::reduction);
  for (AffineExpr loop : own.getResults())
    iterators[cast<AffineDimExpr>(loop).getPosition()] =
        utils::IteratorType::parallel;

  Value target = op.getDpsInputs()[input];
  LogicalResult status = success();
  auto generic = c.builder.create<linalg::GenericOp>(
      c.loc, target.getType(), inputs, c.zero(target.getType()), newMaps,
      iterators, [&](OpBuilder &builder, Location loc, ValueRange arguments) {
        Block &body = *op.getBlock();
        IRMapping mapping;
        for (unsigned i = 0; i < numInputs; ++i)
          mapping.map(body.getArgument(i), arguments[i]);
        // Leaves out the additions to a destination, because no summand depends
        // on them.
        for (Operation &inner : body.without_terminator())
          if (llvm::none_of(inner.getOperands(), [&](Value operand) {
                auto argument = dyn_cast<BlockArgument>(operand);
                return argument && argument.getOwner() == &body &&
                       argument.getArgNumber() >= numInputs;
              }))
            builder.clone(inner, mapping);
        SmallVector<Seed> seeds;
        unsigned next = numInputs;
        for (auto [i, gradient] : llvm::enumerate(c.grads))
          if (gradient)
            seeds.push_back(
                {mapping.lookupOrDefault(summands[i]), arguments[next++]});
        auto gradients =
            buildGradients(builder, *builder.getInsertionBlock(), seeds,
                           ArrayRef<Value>(arguments[input]));
        status = LogicalResult(gradients);
        Value sum = arguments.back();
        if (succeeded(status) && gradients->front())
          sum = builder.create<arith::AddFOp>(loc, sum, gradients->front());
        builder.create<linalg::YieldOp>(loc, sum);
      });
  if (failed(status))
    return failure();
  return generic.getResult(0);
}

// Each result must overwrite its destination or add to it. Each input gets its
// gradient from a generic op of its own.
static LogicalResult structuredVjp(linalg::LinalgOp op, VjpContext &c) {
  SmallVector<Value> summands(c.grads.size());
  for (auto [i, gradient] : llvm::enumerate(c.grads)) {
    if (!gradient)
      continue;
    summands[i] = summandOf(op, i);
    if (!summands[i])
      return op->emitOpError() << "expected result " << i
                               << " not to depend on its destination, or to "
                                  "add to it: no other gradient is defined";
    unsigned destination = op.getNumDpsInputs() + i;
    BlockArgument sum = op.getBlock()->getArgument(destination);
    if (c.wanted[destination] && !sum.use_empty())
      c.operandGrads[destination] = gradient;
  }
  for (unsigned i = 0; i < op.getNumDpsInputs(); ++i) {
    if (!c.wanted[i])
      continue;
    FailureOr<Value> gradient = buildInputGradient(op, c, i, summands);
    if (failed(gradient))
      return failure();
    c.operandGrads[i] = *gradient;
  }
  return success();
}

template <typename OpTy> static LogicalResult vjpOf(OpTy op, VjpContext &c) {
  return structuredVjp(cast<linalg::LinalgOp>(op.getOperation()), c);
}

template <typename... OpTys>
static void attachStructured(MLIRContext *context) {
  (attachVjp<OpTys, vjpOf<OpTys>>(context), ...);
}

void heddle::registerLinalgVjps(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, linalg::LinalgDialect *) {
    attachVjp<linalg::TransposeOp, transposeVjp>(context);
    attachVjp<linalg::FillOp, fillVjp>(context);
    attachStructured<
        linalg::GenericOp, linalg::ReduceOp, linalg::BroadcastOp, linalg::AddOp,
        linalg::SubOp, linalg::MulOp, linalg::DivOp, linalg::NegFOp,
        linalg::ExpOp, linalg::LogOp, linalg::DotOp, linalg::MatmulOp,
        linalg::MatmulTransposeAOp, linalg::MatmulTransposeBOp,
        linalg::BatchMatmulOp, linalg::BatchMatmulTransposeAOp,
        linalg::BatchMatmulTransposeBOp, linalg::BatchReduceMatmulOp,
        linalg::MatvecOp, linalg::VecmatOp, linalg::BatchMatvecOp,
        linalg::BatchVecmatOp, linalg::Mmt4DOp>(context);
  });
}
