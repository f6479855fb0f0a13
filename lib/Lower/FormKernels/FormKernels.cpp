//===- FormKernels.cpp - Clusters structured ops into kernels -------------===//

#include "../KernelPlan/KernelPlan.h"
#include "Outline.h"
#include "dialects/Comm/Comm.h"
#include "heddle/Lower/Passes.h"
#include "heddle/Support/Bytes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"

namespace heddle {
#define GEN_PASS_DEF_FORMKERNELSPASS
#include "heddle/Lower/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

//===----------------------------------------------------------------------===//
// Folding copies and constants into their readers
//===----------------------------------------------------------------------===//

/// Returns whether the op only repeats or rearranges its operand.
static bool isCopy(linalg::GenericOp op) {
  if (op.getNumLoops() != op.getNumParallelLoops() ||
      op.getInputs().size() != 1 || op->getNumResults() != 1)
    return false;
  Block *body = op.getBody();
  return &body->front() == body->getTerminator() &&
         body->getTerminator()->getOperand(0) == body->getArgument(0);
}

/// Returns the constant that every element of the tensor has, or null if the op
/// that makes the tensor does not show such a constant.
static TypedAttr getFillScalar(Value value) {
  TypedAttr scalar;
  if (auto constant = value.getDefiningOp<arith::ConstantOp>()) {
    if (auto splat = dyn_cast<SplatElementsAttr>(constant.getValue()))
      return splat.getSplatValue<TypedAttr>();
  } else if (auto fill = value.getDefiningOp<linalg::FillOp>()) {
    if (matchPattern(fill.getInputs()[0], m_Constant(&scalar)))
      return scalar;
  } else if (auto generic = value.getDefiningOp<linalg::GenericOp>()) {
    if (generic.getInputs().empty() && generic->getNumResults() == 1 &&
        matchPattern(generic.getBody()->getTerminator()->getOperand(0),
                     m_Constant(&scalar)))
      return scalar;
  }
  return nullptr;
}

/// Returns whether every loop is the index of a dimension in one of the maps.
/// Then the shape of an operand gives the extent of every loop.
static bool coversLoops(ArrayRef<AffineMap> maps, unsigned numLoops) {
  llvm::SmallBitVector seen(numLoops);
  for (AffineMap map : maps)
    for (AffineExpr expr : map.getResults())
      if (auto dim = dyn_cast<AffineDimExpr>(expr))
        seen.set(dim.getPosition());
  return seen.all();
}

/// Replaces operands that are copies by their source, and splat operands by
/// constants in the body. Returns the op that replaces `op`, or `op` itself.
static linalg::GenericOp foldOperands(linalg::GenericOp op,
                                      IRRewriter &rewriter) {
  SmallVector<Value> inputs;
  SmallVector<AffineMap> maps;
  SmallVector<TypedAttr> constants; ///< per input of `op`, or null
  SmallVector<AffineMap> all = op.getIndexingMapsArray();
  bool changed = false;
  for (auto [i, input] : llvm::enumerate(op.getInputs())) {
    Value value = input;
    AffineMap map = all[i];
    auto coversWith = [&](AffineMap other) {
      SmallVector<AffineMap> rest(all);
      rest[i] = other;
      return coversLoops(rest, op.getNumLoops());
    };
    while (auto from = value.getDefiningOp<linalg::GenericOp>()) {
      if (!isCopy(from))
        break;
      AffineMap composed = from.getIndexingMapsArray()[0].compose(map);
      if (!coversWith(composed))
        break;
      value = from.getInputs()[0];
      map = composed;
      all[i] = map;
      changed = true;
    }
    TypedAttr scalar = getFillScalar(value);
    auto none = AffineMap::get(op.getNumLoops(), 0, rewriter.getContext());
    if (scalar && coversWith(none)) {
      all[i] = none;
      constants.push_back(scalar);
      changed = true;
      continue;
    }
    constants.push_back(nullptr);
    inputs.push_back(value);
    maps.push_back(map);
  }
  if (!changed)
    return op;
  for (unsigned i = op.getInputs().size(); i < all.size(); ++i)
    maps.push_back(all[i]);
  rewriter.setInsertionPoint(op);
  auto folded = rewriter.create<linalg::GenericOp>(
      op.getLoc(), op.getResultTypes(), inputs, op.getOutputs(), maps,
      op.getIteratorTypesArray(),
      [&](OpBuilder &b, mlir::Location loc, ValueRange arguments) {
        IRMapping mapping;
        unsigned next = 0;
        for (auto [i, argument] : llvm::enumerate(op.getBody()->getArguments()))
          if (i < constants.size() && constants[i])
            mapping.map(argument,
                        b.create<arith::ConstantOp>(loc, constants[i]));
          else
            mapping.map(argument, arguments[next++]);
        for (Operation &inner : *op.getBody())
          b.clone(inner, mapping);
      });
  rewriter.replaceOp(op, folded);
  return folded;
}

//===----------------------------------------------------------------------===//
// Repeating cheap producers
//===----------------------------------------------------------------------===//

/// Returns whether repeating the op in each reader is cheap: reading its
/// operands takes no more bytes than reading its result, and its arithmetic is
/// a few simple ops. Casts, masks and scalings are cheap.
static bool isCheap(linalg::GenericOp op, const KernelTarget &target) {
  if (op.getNumLoops() != op.getNumParallelLoops() || op->getNumResults() != 1)
    return false;
  int64_t count = 0;
  for (Operation &inner : op.getBody()->without_terminator()) {
    if (isa<arith::ConstantOp, linalg::IndexOp>(inner))
      continue;
    if (!isa_and_nonnull<arith::ArithDialect>(inner.getDialect()) ||
        isa<arith::DivFOp, arith::DivSIOp, arith::RemSIOp>(inner))
      return false;
    ++count;
  }
  int64_t read = 0;
  for (Value input : op.getInputs())
    read += getBytes(input.getType());
  return count <= target.fewOps && read <= getBytes(op->getResult(0).getType());
}

/// Gives every reader that can be part of a kernel its own copy of a cheap
/// producer.
static void repeatCheapProducers(Block &body, OpBuilder &builder,
                                 const KernelTarget &target) {
  SmallVector<linalg::GenericOp> ops(body.getOps<linalg::GenericOp>());
  // In reverse order, so that a chain of cheap ops is repeated as a whole.
  for (linalg::GenericOp op : llvm::reverse(ops)) {
    if (op->use_empty() || op->hasOneUse() || !isCheap(op, target))
      continue;
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : op->getResult(0).getUses())
      if (isClusterable(use.getOwner()))
        uses.push_back(&use);
    bool isElsewhere =
        uses.size() < (size_t)std::distance(op->use_begin(), op->use_end());
    llvm::DenseMap<Operation *, Value> copies;
    for (auto [i, use] : llvm::enumerate(uses)) {
      // A copy gets the names of the operators that its own reader serves. A
      // producer shared by several readers has the names of all of them.
      auto serveReader = [&](Operation *copy) {
        copy->setLoc(withServes(copy->getLoc(), getServes(use->getOwner())));
      };
      if (i == 0 && !isElsewhere) {
        serveReader(op);
        continue;
      }
      Value &copy = copies[use->getOwner()];
      if (!copy) {
        builder.setInsertionPoint(use->getOwner());
        Operation *repeated = builder.clone(*op);
        serveReader(repeated);
        copy = repeated->getResult(0);
      }
      use->set(copy);
    }
  }
}

namespace {

struct FormKernels : heddle::impl::FormKernelsPassBase<FormKernels> {
  using FormKernelsPassBase::FormKernelsPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    Outliner outliner(module);
    SmallVector<func::FuncOp> programs;
    for (auto func : module.getOps<func::FuncOp>())
      if (!func.isExternal() && !func->hasAttr(kKernelAttrName))
        programs.push_back(func);
    for (func::FuncOp program : programs) {
      if (!program.getBody().hasOneBlock()) {
        program.emitOpError() << "expected one block";
        return signalPassFailure();
      }
      if (failed(form(program, outliner)))
        return signalPassFailure();
    }
  }

  LogicalResult form(func::FuncOp program, Outliner &outliner) {
    Block &body = program.getBody().front();
    IRRewriter rewriter(program.getContext());
    KernelTarget target = KernelTarget::of(program);
    SmallVector<linalg::GenericOp> ops(body.getOps<linalg::GenericOp>());
    for (linalg::GenericOp op : ops)
      foldOperands(op, rewriter);
    eraseUnused(body);
    DominanceInfo dominance(program);
    eliminateCommonSubExpressions(rewriter, dominance, program);
    if (fuse) {
      repeatCheapProducers(body, rewriter, target);
      eraseUnused(body);
    }

    Clusters clusters(body, target);
    if (fuse) {
      clusters.fuseProducers();
      clusters.fuseSiblings();
    }
    rewriter.setInsertionPoint(body.getTerminator());
    for (const Cluster *cluster : clusters.getOrder()) {
      if (!cluster->isKernel) {
        clusters.getOp(cluster->ops.front())->moveBefore(body.getTerminator());
        continue;
      }
      if (failed(outliner.outline(clusters, *cluster, rewriter)))
        return failure();
    }
    eraseUnused(body);
    writeNames(body);
    return success();
  }

  /// Copies the names in locations to attributes, because the printed module
  /// has no locations. A load or store needs none: its variable tells which
  /// operators it serves.
  static void writeNames(Block &body) {
    body.walk([](Operation *op) {
      if (!isa<LoadOp, StoreOp>(op) &&
          isa_and_nonnull<HeddleDialect, comm::CommDialect>(op->getDialect()))
        if (ServesAttr serves = getServes(op))
          op->setAttr(kServesAttrName, serves);
    });
  }

  static void eraseUnused(Block &body) {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
      if (isOpTriviallyDead(&op))
        op.erase();
  }
};

} // namespace
