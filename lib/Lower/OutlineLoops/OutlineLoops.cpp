//===- OutlineLoops.cpp - heddle-outline-loops ----------------------------===//

#include "../InlineCalls/WriteOut.h"
#include "../SpreadScalars/ScalarTensors.h"
#include "dialects/Comm/Comm.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/Lower/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/RegionUtils.h"

namespace heddle {
#define GEN_PASS_DEF_OUTLINELOOPSPASS
#include "heddle/Lower/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

/// Rewrites the loop as an scf.while that carries the index first. With a step
/// of 0 or less it makes no iteration.
static scf::WhileOp toWhile(scf::ForOp loop) {
  OpBuilder builder(loop);
  SmallVector<Value> inits{loop.getLowerBound()};
  llvm::append_range(inits, loop.getInitArgs());
  SmallVector<Type> types(ValueRange(inits).getTypes());
  auto result = builder.create<scf::WhileOp>(
      loop.getLoc(), types, inits,
      [&](OpBuilder &b, Location loc, ValueRange carried) {
        Value zero = b.create<arith::ConstantOp>(
            loc, b.getIntegerAttr(loop.getStep().getType(), 0));
        Value forward = b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::sgt,
                                                loop.getStep(), zero);
        Value more =
            b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::slt,
                                    carried.front(), loop.getUpperBound());
        b.create<scf::ConditionOp>(
            loc, b.create<arith::AndIOp>(loc, forward, more), carried);
      },
      [&](OpBuilder &b, Location loc, ValueRange carried) {
        IRMapping mapping;
        mapping.map(loop.getInductionVar(), carried.front());
        mapping.map(loop.getRegionIterArgs(), carried.drop_front());
        for (Operation &op : loop.getBody()->without_terminator())
          b.clone(op, mapping);
        // Clamps the next index to the upper bound, because the sum may
        // overflow.
        Value left =
            b.create<arith::SubIOp>(loc, loop.getUpperBound(), carried.front());
        Value isLast = b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::uge,
                                               loop.getStep(), left);
        Value following =
            b.create<arith::AddIOp>(loc, carried.front(), loop.getStep());
        SmallVector<Value> next{b.create<arith::SelectOp>(
            loc, isLast, loop.getUpperBound(), following)};
        for (Value value : loop.getYieldedValues())
          next.push_back(mapping.lookupOrDefault(value));
        b.create<scf::YieldOp>(loc, next);
      });
  loop->replaceAllUsesWith(result.getResults().drop_front());
  loop.erase();
  return result;
}

/// Returns whether the value can be computed again inside the loop without an
/// operand from outside: constants, the device's place in the mesh, arithmetic
/// on these, and initial tensors (tensor.empty, fills).
static bool isRepeatable(Value value) {
  SmallVector<Value> open = {value};
  llvm::DenseSet<Value> seen;
  while (!open.empty()) {
    Value next = open.pop_back_val();
    if (matchPattern(next, m_Constant()))
      continue;
    Operation *op = next.getDefiningOp();
    if (!op || !isMemoryEffectFree(op))
      return false;
    if (!isa<tensor::EmptyOp, tensor::SplatOp, linalg::FillOp>(op) &&
        (op->getNumRegions() != 0 || isa<TensorType>(next.getType())))
      return false;
    for (Value operand : op->getOperands())
      if (seen.insert(operand).second)
        open.push_back(operand);
  }
  return true;
}

/// Returns an op on which `scalar` depends that reads the device's place in the
/// mesh, or null.
static Operation *findPlaceInMesh(Value scalar) {
  SmallVector<Value> open = {scalar};
  llvm::DenseSet<Value> seen;
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (!op)
      continue;
    if (isa<comm::AxisIndexOp>(op))
      return op;
    for (Value operand : op->getOperands())
      if (!isa<TensorType>(operand.getType()) && seen.insert(operand).second)
        open.push_back(operand);
  }
  return nullptr;
}

namespace {
/// Replaces one loop by a heddle.while. Its regions become private functions of
/// tensors, appended to `callees`. A value from outside the loop becomes an
/// operand; a repeatable one is computed again in the function.
class LoopOutliner {
public:
  LoopOutliner(scf::WhileOp loop, SymbolTable &symbols)
      : loop(loop), symbols(symbols), loc(loop.getLoc()), builder(loop) {}

  LogicalResult run(SmallVectorImpl<func::FuncOp> &callees);

private:
  LogicalResult moveLoads();
  void capture();
  /// Emits an error at a type that no tensor of a program can represent.
  LogicalResult expectProgramTypes(TypeRange types, StringRef what);
  /// Converts the values to the program's tensors that represent them.
  SmallVector<Value> toTensors(ValueRange values);
  func::FuncOp makeFunction(Region &region, StringRef name);
  /// Clones the ops that compute a repeatable value.
  void repeat(Value value, OpBuilder &b, IRMapping &mapping);

  scf::WhileOp loop;
  SymbolTable &symbols;
  Location loc;
  OpBuilder builder;
  /// Values from outside the loop: those that become operands, and those that
  /// are computed again.
  SmallVector<Value> captured, repeated;
};
} // namespace

LogicalResult LoopOutliner::moveLoads() {
  WalkResult stores = loop.walk([&](StoreOp store) {
    auto diag = store.emitOpError()
                << "cannot be compiled in a loop whose length is not known, or "
                   "that is too long to be written out: carry the value "
                   "through the loop, and store what it returns";
    diag.attachNote(loc) << "the loop is here";
    return WalkResult::interrupt();
  });
  if (stores.wasInterrupted())
    return failure();
  loop.walk([&](LoadOp load) { load->moveBefore(loop); });
  return success();
}

void LoopOutliner::capture() {
  llvm::SetVector<Value> above;
  getUsedValuesDefinedAbove(loop->getRegions(), above);
  for (Value value : above)
    (isRepeatable(value) ? repeated : captured).push_back(value);
}

LogicalResult LoopOutliner::expectProgramTypes(TypeRange types,
                                               StringRef what) {
  for (auto [i, type] : llvm::enumerate(types)) {
    RankedTensorType tensor = getProgramType(type);
    if (tensor && tensor.hasStaticShape())
      continue;
    auto diag = loop.emitOpError()
                << "cannot be compiled: expected what a loop " << what
                << " to be numbers and tensors of static shape, got " << type
                << " (number " << i << ")";
    if (isa<VectorType>(type))
      diag << "; make it a tensor";
    else if (isa<TensorType>(type))
      diag << "; compile the program for the sizes that it runs with";
    else
      diag << "; bring it into the loop as such";
    return diag;
  }
  return success();
}

SmallVector<Value> LoopOutliner::toTensors(ValueRange values) {
  return llvm::map_to_vector(values, [&](Value value) {
    return toProgramTensor(builder, loc, value);
  });
}

void LoopOutliner::repeat(Value value, OpBuilder &b, IRMapping &mapping) {
  if (mapping.contains(value))
    return;
  Operation *op = value.getDefiningOp();
  for (Value operand : op->getOperands())
    repeat(operand, b, mapping);
  b.clone(*op, mapping);
}

func::FuncOp LoopOutliner::makeFunction(Region &region, StringRef name) {
  Block &block = region.front();
  SmallVector<Value> passed(block.getArguments());
  llvm::append_range(passed, captured);
  SmallVector<Type> types;
  for (Value value : passed)
    types.push_back(getProgramType(value.getType()));
  std::string full =
      (loop->getParentOfType<func::FuncOp>().getName() + "." + name).str();
  auto function =
      func::FuncOp::create(loc, full, builder.getFunctionType(types, {}));
  function.setPrivate();
  symbols.insert(function);
  OpBuilder b = OpBuilder::atBlockBegin(function.addEntryBlock());
  IRMapping mapping;
  for (auto [value, argument] : llvm::zip(passed, function.getArguments()))
    mapping.map(value, fromProgramTensor(b, loc, argument, value.getType()));
  for (Value value : repeated)
    repeat(value, b, mapping);
  for (Operation &op : block.without_terminator())
    b.clone(op, mapping);
  SmallVector<Value> returned;
  for (Value value : block.getTerminator()->getOperands())
    returned.push_back(toProgramTensor(b, loc, mapping.lookupOrDefault(value)));
  b.create<func::ReturnOp>(loc, returned);
  function.setFunctionType(
      builder.getFunctionType(types, ValueRange(returned).getTypes()));
  return function;
}

LogicalResult LoopOutliner::run(SmallVectorImpl<func::FuncOp> &callees) {
  scf::ConditionOp end = loop.getConditionOp();
  if (Operation *place = findPlaceInMesh(end.getCondition())) {
    auto diag = end.emitOpError()
                << "expected a condition that all devices agree on, got one "
                   "that depends on the device's place in the mesh";
    diag.attachNote(place->getLoc()) << "the place is asked for here";
    return diag;
  }
  if (failed(moveLoads()))
    return failure();
  capture();
  if (failed(expectProgramTypes(loop.getInits().getTypes(), "carries")) ||
      failed(expectProgramTypes(loop.getResultTypes(), "returns")) ||
      failed(expectProgramTypes(TypeRange(ValueRange(captured)),
                                "reads from around it")))
    return failure();
  SmallVector<Value> inits = toTensors(loop.getInits());
  SmallVector<Value> operands = toTensors(captured);
  SmallVector<Type> results;
  for (Type type : loop.getResultTypes())
    results.push_back(getProgramType(type));
  func::FuncOp before = makeFunction(loop.getBefore(), "before");
  func::FuncOp after = makeFunction(loop.getAfter(), "after");
  callees.append({before, after});
  auto local = builder.create<WhileOp>(
      loc, results, ValueRange(inits).getTypes(),
      RankedTensorType::get({}, builder.getI1Type()),
      RankedTensorType::get({1}, builder.getI8Type()), before.getSymName(),
      after.getSymName(), inits, operands);
  SmallVector<Value> values;
  for (auto [result, old] : llvm::zip(local.getResults(), loop.getResults()))
    values.push_back(fromProgramTensor(builder, loc, result, old.getType()));
  loop->replaceAllUsesWith(values);
  loop.erase();
  return success();
}

namespace {
struct OutlineLoopsPass : heddle::impl::OutlineLoopsPassBase<OutlineLoopsPass> {
  void runOnOperation() override {
    FailureOr<SmallVector<func::FuncOp>> programs = getPrograms(getOperation());
    if (failed(programs))
      return signalPassFailure();
    SymbolTable symbols(getOperation());
    // Inner loops lie in the functions that outer loops became, and are visited
    // there.
    while (!programs->empty()) {
      func::FuncOp program = programs->pop_back_val();
      for (Operation &op :
           llvm::make_early_inc_range(program.getBody().front())) {
        if (auto loop = dyn_cast<scf::ForOp>(op)) {
          if (failed(LoopOutliner(toWhile(loop), symbols).run(*programs)))
            return signalPassFailure();
        } else if (auto loop = dyn_cast<scf::WhileOp>(op)) {
          if (failed(LoopOutliner(loop, symbols).run(*programs)))
            return signalPassFailure();
        }
      }
    }
  }
};
} // namespace
