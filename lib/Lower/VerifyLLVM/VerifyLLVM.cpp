//===- VerifyLLVM.cpp - Checks what becomes an artifact -------------------===//

#include "../ConvertRtToLLVM/RuntimeCalls.h"
#include "heddle/Lower/Passes.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace heddle {
#define GEN_PASS_DEF_VERIFYLLVMPASS
#include "heddle/Lower/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

static LogicalResult verifyLowered(Operation &op) {
  auto function = dyn_cast<func::FuncOp>(op);
  if (isa<rt::ProgramOp>(op) || (function && !function.isExternal()))
    return op.emitOpError()
           << "expected to have become a function of the LLVM dialect";
  return success();
}

static LogicalResult verifyBody(LLVM::LLVMFuncOp function) {
  Dialect *llvm = function->getDialect();
  WalkResult walked = function.walk([&](Operation *op) {
    if (op->getDialect() == llvm)
      return WalkResult::advance();
    op->emitOpError() << "expected only ops of the LLVM dialect in @"
                      << function.getName();
    return WalkResult::interrupt();
  });
  return failure(walked.wasInterrupted());
}

/// Checks the type and presence of a function that an artifact exports.
static LogicalResult verifyType(LLVM::LLVMFuncOp function,
                                LLVM::LLVMFunctionType expected) {
  if (function.getFunctionType() != expected)
    return function.emitOpError() << "expected the type " << expected
                                  << ", got " << function.getFunctionType();
  if (function.isExternal())
    return function.emitOpError() << "expected a function with a body";
  return success();
}

static LogicalResult verifyKernel(LLVM::LLVMFuncOp kernel) {
  MLIRContext *context = kernel.getContext();
  auto i64 = IntegerType::get(context, 64);
  return verifyType(kernel,
                    LLVM::LLVMFunctionType::get(
                        LLVM::LLVMVoidType::get(context),
                        {LLVM::LLVMPointerType::get(context), i64, i64}));
}

static LogicalResult verifyExport(rt::ExportOp program,
                                  const SymbolTable &symbols) {
  auto function =
      symbols.lookup<LLVM::LLVMFuncOp>(program.getFunctionAttr().getAttr());
  if (!function || function->hasAttr(kBlocksAttrName))
    return program.emitOpError() << "expected " << program.getFunctionAttr()
                                 << " to be a program's llvm.func";
  // The object hides all functions with other names.
  if (function.getName() != ("heddle_program_" + program.getSymName()).str())
    return program.emitOpError()
           << "expected a function @heddle_program_" << program.getSymName()
           << ", got " << program.getFunctionAttr();
  MLIRContext *context = program.getContext();
  auto pointer = LLVM::LLVMPointerType::get(context);
  return verifyType(function,
                    LLVM::LLVMFunctionType::get(IntegerType::get(context, 32),
                                                {pointer, pointer}));
}

/// Checks the groups that the manifest will list.
static LogicalResult verifyGroups(ModuleOp module) {
  auto groups = module->getAttrOfType<ArrayAttr>(kGroupsAttrName);
  if (!groups)
    return module.emitError() << "expected " << kGroupsAttrName
                              << ", a list of mesh axes for each group";
  auto meshes = module.getOps<MeshOp>();
  for (Attribute group : groups) {
    auto list = dyn_cast<AxisListAttr>(group);
    if (!list)
      return module.emitError() << "expected " << kGroupsAttrName
                                << " to hold mesh axes, got " << group;
    for (StringAttr axis : list.getAxes())
      if (llvm::none_of(meshes, [&](MeshOp mesh) {
            return mesh.getMesh().getAxisSize(axis) > 0;
          }))
        return module.emitError() << "expected " << kGroupsAttrName
                                  << " to hold axes of a heddle.mesh of this "
                                     "module, got "
                                  << axis;
  }
  return success();
}

namespace {
struct VerifyLLVMPass : heddle::impl::VerifyLLVMPassBase<VerifyLLVMPass> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    for (Operation &op : *getOperation().getBody())
      if (failed(verify(op, symbols)))
        return signalPassFailure();
    if (failed(verifyGroups(getOperation())))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }

  static LogicalResult verify(Operation &op, const SymbolTable &symbols) {
    if (failed(verifyLowered(op)))
      return failure();
    if (auto program = dyn_cast<rt::ExportOp>(op))
      return verifyExport(program, symbols);
    auto function = dyn_cast<LLVM::LLVMFuncOp>(op);
    if (!function)
      return success();
    // heddle-verify-gpu-kernels checks kernels for GPUs.
    if (function->hasAttr(NVVM::NVVMDialect::getKernelFuncAttrName()))
      return success();
    if (function->hasAttr(kBlocksAttrName) && failed(verifyKernel(function)))
      return failure();
    return verifyBody(function);
  }
};
} // namespace
