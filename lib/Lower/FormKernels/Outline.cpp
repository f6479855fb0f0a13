//===- Outline.cpp - Kernels as functions ---------------------------------===//

#include "Outline.h"
#include "../KernelPlan/KernelPlan.h"
#include "../KernelPlan/RandomStream.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

Outliner::Outliner(ModuleOp module) : module(module), symbols(module) {
  for (auto func : module.getOps<func::FuncOp>())
    if (func->hasAttr(kKernelAttrName))
      ++next;
}

func::FuncOp Outliner::build(ArrayRef<Operation *> ops, ArrayRef<Value> inputs,
                             ArrayRef<Value> results, Location loc) {
  OpBuilder builder(module.getContext());
  auto type = builder.getFunctionType(ValueRange(inputs).getTypes(),
                                      ValueRange(results).getTypes());
  auto kernel = func::FuncOp::create(loc, "kernel", type);
  kernel.setPrivate();
  kernel->setAttr(kKernelAttrName, builder.getUnitAttr());
  Block *body = kernel.addEntryBlock();
  builder.setInsertionPointToStart(body);
  IRMapping mapping;
  mapping.map(inputs, body->getArguments());

  std::function<void(Operation *)> cloneFree = [&](Operation *op) {
    for (Value operand : op->getOperands()) {
      Operation *from = operand.getDefiningOp();
      if (from && isFree(from) && !mapping.contains(operand))
        cloneFree(from);
    }
    builder.clone(*op, mapping);
  };
  for (Operation *op : ops) {
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands()) {
        Operation *from = operand.getDefiningOp();
        if (from && isFree(from) && !op->isAncestor(from) &&
            !mapping.contains(operand))
          cloneFree(from);
      }
    });
    // The call says which operators the kernel serves. Without names, kernels
    // of equal layers are equal.
    builder.clone(*op, mapping)->removeAttr(kNameAttrName);
  }
  SmallVector<Value> returned;
  for (Value result : results)
    returned.push_back(mapping.lookup(result));
  builder.create<func::ReturnOp>(loc, returned);
  return kernel;
}

/// Returns the constants in an op's body that have this value and are combined
/// with random bits.
static SmallVector<arith::ConstantOp> findStream(Operation *op,
                                                 IntegerAttr stream) {
  llvm::SetVector<Operation *> found;
  op->walk([&](arith::XOrIOp combine) {
    for (Value operand : combine->getOperands())
      if (auto constant = operand.getDefiningOp<arith::ConstantOp>())
        if (constant.getValue() == stream)
          found.insert(constant);
  });
  return llvm::map_to_vector(
      found, [](Operation *op) { return cast<arith::ConstantOp>(op); });
}

SmallVector<int64_t> Outliner::takeStreams(func::FuncOp kernel) {
  SmallVector<int64_t> streams;
  Block &body = kernel.getBody().front();
  for (Operation &op : body) {
    auto stream = op.getAttrOfType<IntegerAttr>(kRandomStreamAttrName);
    if (!stream)
      continue;
    op.removeAttr(kRandomStreamAttrName);
    SmallVector<arith::ConstantOp> constants = findStream(&op, stream);
    if (constants.empty())
      continue;
    auto builder = OpBuilder::atBlockBegin(&op.getRegion(0).front());
    Value number = body.addArgument(builder.getIndexType(), op.getLoc());
    Value wide = builder.create<arith::IndexCastOp>(
        op.getLoc(), builder.getI64Type(), number);
    for (arith::ConstantOp constant : constants) {
      constant->replaceUsesWithIf(ValueRange(wide), [&](OpOperand &use) {
        return op.isAncestor(use.getOwner()) &&
               isa<arith::XOrIOp>(use.getOwner());
      });
      if (constant.use_empty())
        constant.erase();
    }
    streams.push_back(stream.getInt());
  }
  kernel.setType(FunctionType::get(kernel.getContext(), body.getArgumentTypes(),
                                   kernel.getResultTypes()));
  return streams;
}

/// Returns the union of the operators that the ops serve, with the kind of the
/// values that leave the kernel: if kinds differ, the first in the order of
/// DataKind.
static ServesAttr getServesOfKernel(ArrayRef<Operation *> ops,
                                    ArrayRef<Value> results) {
  SmallVector<ServesAttr> parts;
  for (Operation *op : ops)
    parts.push_back(getServes(op));
  std::optional<DataKind> kind;
  for (Value result : results)
    if (ServesAttr serves = getServes(result.getDefiningOp()))
      kind = std::min(kind.value_or(serves.getKind()), serves.getKind());
  return ServesAttr::getUnion(kind.value_or(DataKind::Activation), parts);
}

/// Returns whether a reduction takes large steps in memory while neighbouring
/// rows are adjacent. Then the last row dimension should be a loop inside the
/// row.
static bool sumsAcrossMemory(const KernelPlan &plan) {
  if (plan.chunk)
    return false;
  for (const Statement &statement : plan.statements)
    if (statement.kind == StatementKind::Reduce && statement.firstReduced == 0)
      for (const Access &read : statement.reads)
        if (!read.rows.empty() && read.rows.back() == 1 &&
            read.loops.back() > 1)
          return true;
  return false;
}

/// Chooses how many of the cluster's possible row dimensions become rows: as
/// many as leave a row long enough for vectors. Chooses all of them if vectors
/// can run across rows (column mode).
LogicalResult Outliner::chooseRows(func::FuncOp kernel,
                                   const Cluster &cluster) {
  KernelTarget target = KernelTarget::of(kernel);
  Builder builder(kernel.getContext());
  auto set = [&](int64_t count) {
    kernel->setAttr(kRowDimsAttrName, builder.getI64IntegerAttr(count));
  };
  if (cluster.rowDims) {
    set(*cluster.rowDims);
    return success();
  }
  int64_t count = cluster.rows.size();
  set(count);
  FailureOr<KernelPlan> plan = KernelPlan::create(kernel);
  if (failed(plan))
    return failure();
  while (count > 0 && sumsAcrossMemory(*plan)) {
    set(--count);
    plan = KernelPlan::create(kernel);
    if (failed(plan))
      return failure();
  }
  if (plan->chunk)
    return success();
  int64_t inner = 1, rows = plan->rows;
  for (const Statement &statement : plan->statements) {
    int64_t iterations = 1;
    for (int64_t extent : statement.loops)
      iterations *= extent;
    inner = std::max(inner, iterations);
  }
  while (count > 0) {
    rows /= cluster.rows[count - 1];
    if (inner >= target.longRow ||
        (rows < target.manyRows && inner >= target.shortRow))
      break;
    inner *= cluster.rows[--count];
  }
  set(count);
  return success();
}

static void describePlan(func::FuncOp kernel, const KernelPlan &plan) {
  Builder builder(kernel.getContext());
  kernel->setAttr(kBlocksAttrName, builder.getI64IntegerAttr(plan.blocks));
  kernel->setAttr(kGrainAttrName, builder.getI64IntegerAttr(plan.grain));
  SmallVector<Attribute> inplace;
  for (ArrayRef<int64_t> operands : plan.findInplace())
    inplace.push_back(builder.getDenseI64ArrayAttr(operands));
  kernel->setAttr(kInplaceAttrName, builder.getArrayAttr(inplace));
}

Outliner::Structure Outliner::getStructure(func::FuncOp kernel) {
  Structure structure;
  llvm::DenseMap<Value, uintptr_t> numbers;
  auto add = [&](const void *uniqued) {
    structure.push_back(reinterpret_cast<uintptr_t>(uniqued));
  };
  auto define = [&](ValueRange values) {
    structure.push_back(values.size());
    for (Value value : values) {
      add(value.getType().getAsOpaquePointer());
      numbers.try_emplace(value, numbers.size());
    }
  };
  kernel->walk<WalkOrder::PreOrder>([&](Operation *op) {
    add(op->getName().getAsOpaquePointer());
    add(op->getAttrDictionary().getAsOpaquePointer());
    structure.push_back(op->getNumOperands());
    for (Value operand : op->getOperands())
      structure.push_back(numbers.lookup(operand));
    define(op->getResults());
    for (Region &region : op->getRegions()) {
      structure.push_back(region.getBlocks().size());
      for (Block &block : region) {
        define(block.getArguments());
        structure.push_back(block.getOperations().size());
      }
    }
  });
  return structure;
}

LogicalResult Outliner::outline(const Clusters &clusters,
                                const Cluster &cluster, OpBuilder &builder) {
  SmallVector<Operation *> ops;
  llvm::SmallPtrSet<Operation *, 8> inside;
  for (unsigned position : cluster.ops) {
    ops.push_back(clusters.getOp(position));
    inside.insert(ops.back());
  }
  llvm::SetVector<Value> inputs;
  SmallVector<Value> results;
  for (Operation *op : ops) {
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands()) {
        Operation *from = operand.getDefiningOp();
        Block *owner = operand.getParentBlock();
        if (owner != ops.front()->getBlock() ||
            (from && (inside.contains(from) || isFree(from))))
          continue;
        inputs.insert(operand);
      }
    });
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(), [&](Operation *user) {
            Operation *top =
                ops.front()->getBlock()->findAncestorOpInBlock(*user);
            return !inside.contains(top);
          }))
        results.push_back(result);
  }
  func::FuncOp kernel =
      build(ops, inputs.getArrayRef(), results, ops.front()->getLoc());
  SmallVector<int64_t> streams = takeStreams(kernel);
  Structure structure = getStructure(kernel);
  structure.push_back(uintptr_t(cluster.rowDims.value_or(-1)));
  auto [known, isNew] = kernels.try_emplace(std::move(structure), kernel);
  if (!isNew) {
    kernel.erase();
    kernel = known->second;
  } else {
    do
      kernel.setName(("kernel_" + Twine(next++)).str());
    while (symbols.lookup(kernel.getName()));
    symbols.insert(kernel);
    if (failed(chooseRows(kernel, cluster)))
      return failure();
    FailureOr<KernelPlan> plan = KernelPlan::create(kernel);
    if (failed(plan))
      return failure();
    describePlan(kernel, *plan);
  }
  SmallVector<Value> operands(inputs.getArrayRef());
  for (int64_t number : streams)
    operands.push_back(
        builder.create<arith::ConstantIndexOp>(ops.back()->getLoc(), number));
  auto call =
      builder.create<func::CallOp>(ops.back()->getLoc(), kernel, operands);
  if (ServesAttr serves = getServesOfKernel(ops, results))
    call->setAttr(kServesAttrName, serves);
  for (auto [result, replacement] : llvm::zip(results, call.getResults()))
    result.replaceUsesWithIf(replacement, [&](OpOperand &use) {
      Operation *top =
          ops.front()->getBlock()->findAncestorOpInBlock(*use.getOwner());
      return !inside.contains(top);
    });
  return success();
}
