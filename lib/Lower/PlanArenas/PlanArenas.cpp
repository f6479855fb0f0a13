//===- PlanArenas.cpp - heddle-plan-arenas --------------------------------===//

#include "GatherLaunches.h"
#include "ProgramBuffers.h"
#include "heddle/Lower/Artifact.h"
#include "heddle/Lower/Passes.h"
#include "llvm/Support/Format.h"

namespace heddle {
#define GEN_PASS_DEF_PLANARENASPASS
#include "heddle/Lower/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {
/// Makes one rt.constant for each distinct constant tensor, and returns its
/// name.
class Constants {
public:
  Constants(ModuleOp module, SymbolTable &symbols)
      : module(module), symbols(symbols) {
    for (auto constant : module.getOps<rt::ConstantOp>())
      names[constant.getValue()] = FlatSymbolRefAttr::get(constant);
  }

  FlatSymbolRefAttr get(Location loc, ElementsAttr value) {
    FlatSymbolRefAttr &name = names[value];
    if (!name) {
      OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
      auto constant = builder.create<rt::ConstantOp>(loc, "constant_0", value);
      symbols.insert(constant);
      name = FlatSymbolRefAttr::get(constant);
    }
    return name;
  }

private:
  ModuleOp module;
  SymbolTable &symbols;
  DenseMap<Attribute, FlatSymbolRefAttr> names;
};

/// Plans functions one by one. The functions that a loop calls are planned
/// before the function that contains the loop.
class ArenaPlanner {
public:
  ArenaPlanner(ModuleOp module, bool inPlace)
      : inPlace(inPlace), symbols(module), constants(module, symbols) {}

  LogicalResult plan(func::FuncOp program);

private:
  LogicalResult planLoop(WhileOp loop);
  static void annotate(func::FuncOp program, const ProgramBuffers &buffers);

  bool inPlace;
  SymbolTable symbols;
  Constants constants;
  /// True for functions that are planned, false for those still in progress.
  DenseMap<Operation *, bool> planned;
};
} // namespace

/// Plans the functions that the loop calls. Their arenas lie in the loop's
/// workspace, which has the size of the larger arena.
LogicalResult ArenaPlanner::planLoop(WhileOp loop) {
  int64_t bytes = 1;
  for (FlatSymbolRefAttr name : {loop.getBeforeAttr(), loop.getAfterAttr()}) {
    auto callee = symbols.lookup<func::FuncOp>(name.getAttr());
    if (!callee)
      return loop.emitOpError()
             << "expected " << name << " to be a func.func of this module";
    if (failed(plan(callee)))
      return failure();
    bytes = std::max(
        bytes, callee->getAttrOfType<IntegerAttr>(kArenaAttrName).getInt());
  }
  loop.getWorkspace().setType(
      RankedTensorType::get({bytes}, IntegerType::get(loop.getContext(), 8)));
  return success();
}

LogicalResult ArenaPlanner::plan(func::FuncOp program) {
  auto [known, isNew] = planned.try_emplace(program, false);
  if (!isNew)
    return known->second
               ? success()
               : program.emitOpError() << "expected no loop to call itself";
  for (auto loop : program.getOps<WhileOp>())
    if (failed(planLoop(loop)))
      return failure();
  FailureOr<ProgramBuffers> buffers = placeBuffers(
      program, {inPlace, symbols, [&](Location loc, ElementsAttr value) {
                  return constants.get(loc, value);
                }});
  if (failed(buffers))
    return failure();
  annotate(program, *buffers);
  planned[program] = true;
  return success();
}

void ArenaPlanner::annotate(func::FuncOp program,
                            const ProgramBuffers &buffers) {
  Builder builder(program.getContext());
  program->setAttr(kArenaAttrName,
                   builder.getI64IntegerAttr(buffers.arenaBytes));
  program->setAttr(kArenaBoundAttrName,
                   builder.getI64IntegerAttr(buffers.arenaBound));
  for (Operation &op : program.getBody().front()) {
    SmallVector<Attribute> places;
    bool any = false;
    for (Value result : op.getResults()) {
      auto place = buffers.places.find(result);
      any |= place != buffers.places.end();
      places.push_back(place != buffers.places.end() ? Attribute(place->second)
                                                     : builder.getUnitAttr());
    }
    if (any)
      op.setAttr(kPlacesAttrName, builder.getArrayAttr(places));
  }
}

/// Removes barriers, because the order of the program, which barriers
/// constrain, is final.
static void eraseBarriers(func::FuncOp program) {
  for (auto barrier : llvm::make_early_inc_range(program.getOps<BarrierOp>())) {
    barrier.replaceAllUsesWith(barrier.getValues());
    barrier.erase();
  }
}

namespace {
struct PlanArenas : heddle::impl::PlanArenasPassBase<PlanArenas> {
  using PlanArenasPassBase::PlanArenasPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    ArenaPlanner planner(module, inPlace);
    SmallVector<func::FuncOp> programs;
    for (auto function : module.getOps<func::FuncOp>())
      if (!function.isExternal() && !function->hasAttr(kKernelAttrName))
        programs.push_back(function);
    llvm::for_each(programs, eraseBarriers);
    // Gathers launches before it plans memory, because calls that run together
    // need their memory at the same time.
    if (isForGpu(module))
      llvm::for_each(programs, gatherLaunches);
    for (func::FuncOp program : programs)
      if (failed(planner.plan(program)))
        return signalPassFailure();
  }
};
} // namespace
