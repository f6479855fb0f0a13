//===- LowerToRt.cpp - heddle-lower-to-rt ---------------------------------===//

#include "../PlanArenas/ProgramBuffers.h"
#include "ProgramLowering.h"
#include "heddle/Lower/Passes.h"

namespace heddle {
#define GEN_PASS_DEF_LOWERTORTPASS
#include "heddle/Lower/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {
struct LowerToRt : heddle::impl::LowerToRtPassBase<LowerToRt> {
  void runOnOperation() override {
    SmallVector<func::FuncOp> programs;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && !function->hasAttr(kKernelAttrName))
        programs.push_back(function);
    // Functions that a heddle.while calls. They become regions of the rt.while
    // in the calling program.
    llvm::DenseSet<StringAttr> called;
    for (func::FuncOp function : programs)
      for (auto loop : function.getOps<WhileOp>()) {
        called.insert(loop.getBeforeAttr().getAttr());
        called.insert(loop.getAfterAttr().getAttr());
      }
    for (func::FuncOp function : programs)
      if (!called.contains(function.getSymNameAttr()) &&
          failed(lower(function)))
        return signalPassFailure();
    for (func::FuncOp function : programs)
      function.erase();
  }

  /// Returns the manifest's entry for an argument or result. It belongs to all
  /// ranks of the function, unless its attributes name fewer ranks.
  static rt::PortAttr getPort(func::FuncOp function, StringRef kind,
                              unsigned index, Type type,
                              DictionaryAttr attributes) {
    auto global = cast<RankedTensorType>(type);
    StringAttr name;
    ShardingAttr sharding;
    PortRoleAttr role;
    auto ranks = function->getAttrOfType<RanksAttr>(kRanksAttrName);
    if (attributes) {
      name = attributes.getAs<StringAttr>(kNameAttrName);
      sharding = attributes.getAs<ShardingAttr>(kShardingAttrName);
      role = attributes.getAs<PortRoleAttr>(kRoleAttrName);
      if (auto given = attributes.getAs<RanksAttr>(kRanksAttrName))
        ranks = given;
      if (auto attribute = attributes.getAs<TypeAttr>(kGlobalTypeAttrName))
        if (auto given = dyn_cast<RankedTensorType>(attribute.getValue()))
          global = given;
    }
    // The caller does not see values that pass between the stages of a
    // pipeline. A partial sum is passed as it is: each rank receives the part
    // of the rank whose other coordinates are equal.
    if (sharding && function->hasAttr(kStageProgramAttrName) && !role)
      sharding = sharding.withoutPartial();
    if (!name)
      name = StringAttr::get(type.getContext(), kind + Twine(index));
    return rt::PortAttr::get(type.getContext(), name, global, sharding, role,
                             ranks);
  }

  static LogicalResult getPorts(func::FuncOp function, StringRef kind,
                                TypeRange types, ArrayAttr attributes,
                                SmallVectorImpl<Attribute> &ports) {
    DenseMap<StringAttr, unsigned> numbers;
    for (auto [i, type] : llvm::enumerate(types)) {
      if (!isa<RankedTensorType>(type))
        return function.emitOpError() << "expected " << kind << ' ' << i
                                      << " to be a tensor, got " << type;
      rt::PortAttr port = getPort(
          function, kind, i, type,
          attributes ? cast<DictionaryAttr>(attributes[i]) : DictionaryAttr());
      if (ShardingAttr sharding = port.getSharding();
          sharding && sharding.isPartial())
        return function.emitOpError()
               << "expected " << kind << ' ' << i
               << " to be whole, for callers give and take whole tensors; got "
               << sharding;
      auto [known, isNew] = numbers.try_emplace(port.getName(), i);
      if (!isNew)
        return function.emitOpError()
               << "expected " << kNameAttrName << " to tell each " << kind
               << " from the others, got " << port.getName() << " for "
               << known->second << " and " << i;
      if (RankedTensorType local = rt::getLocalType(function, port);
          local != type)
        return function.emitOpError()
               << "expected " << kind << ' ' << i << " to be " << local
               << ", one device's part of " << port << ", got " << type;
      ports.push_back(port);
    }
    return success();
  }

  static LogicalResult lower(func::FuncOp function) {
    auto arena = function->getAttrOfType<IntegerAttr>(kArenaAttrName);
    if (!arena)
      return function.emitOpError() << "expected " << kArenaAttrName
                                    << "; run heddle-plan-arenas first";
    SmallVector<Attribute> inputs, outputs;
    if (failed(getPorts(function, "argument", function.getArgumentTypes(),
                        function.getArgAttrsAttr(), inputs)) ||
        failed(getPorts(function, "result", function.getResultTypes(),
                        function.getResAttrsAttr(), outputs)))
      return failure();
    OpBuilder builder(function);
    auto program = builder.create<rt::ProgramOp>(
        function.getLoc(), function.getName(), arena.getInt(), 1,
        builder.getArrayAttr(inputs), builder.getArrayAttr(outputs));
    for (StringRef name :
         {kRanksAttrName, kRoleAttrName, kStageProgramAttrName})
      if (Attribute attribute = function->getAttr(name))
        program->setAttr(name, attribute);
    program.getBody().emplaceBlock();
    return ProgramLowering(function, program).run();
  }
};
} // namespace
