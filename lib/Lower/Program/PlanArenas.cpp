//===- PlanArenas.cpp - heddle-plan-arenas --------------------------------===//

#include "ProgramBuffers.h"
#include "heddle/Lower/Passes.h"
#include "llvm/Support/Format.h"

namespace heddle {
#define GEN_PASS_DEF_PLANARENASPASS
#include "heddle/Lower/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {
/// Names an rt.constant for each distinct constant tensor.
class Constants {
public:
  Constants(ModuleOp module, SymbolTable &symbols)
      : module(module), symbols(symbols) {
    for (auto constant : module.getOps<rt::ConstantOp>())
      names[constant.getValue()] = FlatSymbolRefAttr::get(constant);
  }

  FlatSymbolRefAttr get(ElementsAttr value) {
    FlatSymbolRefAttr &name = names[value];
    if (!name) {
      OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
      auto constant =
          builder.create<rt::ConstantOp>(module.getLoc(), "constant_0", value);
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

struct PlanArenas : heddle::impl::PlanArenasPassBase<PlanArenas> {
  using PlanArenasPassBase::PlanArenasPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    Constants constants(module, symbols);
    Builder builder(&getContext());
    for (auto program : module.getOps<func::FuncOp>()) {
      if (program.isExternal() || program->hasAttr(kKernelAttrName))
        continue;
      FailureOr<ProgramBuffers> buffers =
          placeBuffers(program, {inPlace, symbols, [&](ElementsAttr value) {
                                   return constants.get(value);
                                 }});
      if (failed(buffers))
        return signalPassFailure();
      annotate(program, *buffers, builder);
    }
  }

  static void annotate(func::FuncOp program, const ProgramBuffers &buffers,
                       Builder &builder) {
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
        places.push_back(place != buffers.places.end()
                             ? Attribute(place->second)
                             : builder.getUnitAttr());
      }
      if (any)
        op.setAttr(kPlacesAttrName, builder.getArrayAttr(places));
    }
  }
};
} // namespace
