//===- CutStages.cpp - Cuts programs into the stages of a pipeline --------===//

#include "FunctionCutter.h"
#include "heddle/Stages/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace heddle {
#define GEN_PASS_DEF_CUTSTAGESPASS
#include "heddle/Stages/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {

struct CutStagesPass : heddle::impl::CutStagesPassBase<CutStagesPass> {
  using Base::Base;

  void runOnOperation() override {
    auto attribute =
        getOperation()->getAttrOfType<PipelineAttr>(kPipelineAttrName);
    if (attribute && failed(cut(attribute)))
      signalPassFailure();
  }

  LogicalResult cut(PipelineAttr attribute) {
    ModuleOp module = getOperation();
    FailureOr<Pipeline> pipeline = Pipeline::read(module, attribute, cluster);
    if (failed(pipeline) || failed(checkStep()))
      return failure();
    VariableOwners owners(*pipeline);
    bool isFirst = true;
    for (func::FuncOp function : findPrograms()) {
      ProgramRoleAttr role =
          function->getAttrOfType<ProgramRoleAttr>(kRoleAttrName);
      bool isStep = role && role.getValue() == ProgramRole::Accumulate;
      std::string entry = isStep ? "step" : function.getName().str();
      FunctionStages stages(function, *pipeline, owners, isFirst || !role,
                            isStep && pipeline->splitsBackward);
      if (failed(stages.run()))
        return failure();
      isFirst = false;
      FunctionCutter(function, entry, *pipeline, stages).run();
    }
    if (isFirst)
      return module.emitError()
             << "expected a program of training, or ops with " << kStageAttrName
             << ", because the module has " << kPipelineAttrName
             << ", got none";
    setRanks(*pipeline, owners);
    for (auto function :
         llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
      if (auto role = function->getAttrOfType<ProgramRoleAttr>(kRoleAttrName);
          role && role.getValue() == ProgramRole::Update &&
          failed(cutUpdate(function, "step", *pipeline, owners)))
        return failure();
    return success();
  }

  /// Checks that the step has micro-batches.
  LogicalResult checkStep() {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (auto role = function->getAttrOfType<ProgramRoleAttr>(kRoleAttrName);
          role && role.getValue() == ProgramRole::Step)
        return function.emitError()
               << "a pipeline needs several micro-batches in a step "
                  "(--micro-batches), got one";
    return success();
  }

  /// Returns the functions to cut. In a module of training, these are all
  /// programs except the update, with the program of micro-batches first. In
  /// any other module, these are the functions with ops that have a stage. If
  /// no op has a stage, these are all public functions that no other function
  /// calls.
  SmallVector<func::FuncOp> findPrograms() {
    SmallVector<func::FuncOp> accumulate, gradients, others, staged, plain;
    llvm::DenseSet<StringAttr> called;
    getOperation().walk([&](func::CallOp call) {
      called.insert(call.getCalleeAttr().getAttr());
    });
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      auto role = function->getAttrOfType<ProgramRoleAttr>(kRoleAttrName);
      if (!role) {
        if (llvm::any_of(function.getBody().front(), [](Operation &op) {
              return op.hasAttr(kStageAttrName);
            }))
          staged.push_back(function);
        if (function.isPublic() && !called.contains(function.getSymNameAttr()))
          plain.push_back(function);
      } else if (role.getValue() == ProgramRole::Accumulate) {
        accumulate.push_back(function);
      } else if (role.getValue() == ProgramRole::Gradients) {
        gradients.push_back(function);
      } else if (role.getValue() != ProgramRole::Update) {
        others.push_back(function);
      }
    }
    accumulate.append(gradients);
    accumulate.append(others);
    if (!accumulate.empty())
      return accumulate;
    return staged.empty() ? plain : staged;
  }

  /// Stores each variable on the devices that need it.
  void setRanks(const Pipeline &pipeline, const VariableOwners &owners) {
    for (auto variable : getOperation().getOps<VariableOp>()) {
      llvm::BitVector devices = owners.getDevices(getParameterOf(variable));
      if (devices.none())
        continue;
      if (RanksAttr ranks = pipeline.getRanks(devices))
        variable->setAttr(kRanksAttrName, ranks);
    }
  }
};

} // namespace
