//===- EmitPtx.cpp - From the LLVM dialect to PTX -------------------------===//

#include "../ConvertRtToLLVM/RuntimeCalls.h"
#include "GpuTarget.h"
#include "heddle/Lower/Artifact.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace heddle;

extern "C" {
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

static constexpr StringLiteral kTriple = "nvptx64-nvidia-cuda";

/// PTX for an older chip runs on newer ones, too. LLVM 19 knows chips up to
/// sm_90a. PTX for sm_90a runs only on Hopper.
static constexpr StringLiteral kChips[] = {"sm_80", "sm_86", "sm_87",
                                           "sm_89", "sm_90", "sm_90a"};

bool heddle::isForGpu(ModuleOp module) {
  return module->hasAttr(kTargetGpuAttrName);
}

StringRef heddle::getTargetGpu(ModuleOp module) {
  auto chip = module->getAttrOfType<StringAttr>(kTargetGpuAttrName);
  return chip ? chip.getValue() : StringRef();
}

LogicalResult heddle::checkTargetGpu(Location loc, StringRef chip) {
  if (llvm::is_contained(kChips, chip))
    return success();
  return emitError(loc) << "target-gpu: expected one of "
                        << llvm::join(ArrayRef<StringLiteral>(kChips), ", ")
                        << " (code for sm_80 runs on all newer GPUs), got '"
                        << chip << "'";
}

/// Returns the code generator for a chip that checkTargetGpu() accepts.
static FailureOr<std::unique_ptr<llvm::TargetMachine>>
createGpuMachine(Location loc, StringRef chip) {
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  std::string error;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(kTriple.str(), error);
  if (!target)
    return emitError(loc) << "no code generator for " << kTriple << ": "
                          << error;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      kTriple, chip, /*Features=*/"", llvm::TargetOptions(), std::nullopt,
      std::nullopt, llvm::CodeGenOptLevel::Aggressive));
  if (!machine)
    return emitError(loc) << "cannot make a code generator for " << kTriple;
  return machine;
}

/// Returns the LLVM IR of the module's kernels after its last optimization. The
/// caller must write its PTX, see emitPtx.
static FailureOr<std::unique_ptr<llvm::Module>>
optimizeForGpu(ModuleOp module, llvm::TargetMachine &machine,
               llvm::LLVMContext &context) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
  module.getContext()->appendDialectRegistry(registry);
  OwningOpRef<ModuleOp> part(ModuleOp::create(module.getLoc()));
  // Sets the data layout, from which the alignment of accesses follows. Without
  // it, a number of 64 bits would be aligned to four bytes and need two
  // accesses.
  llvm::DataLayout layout = machine.createDataLayout();
  (*part)->setAttr(
      LLVM::LLVMDialect::getDataLayoutAttrName(),
      StringAttr::get(module.getContext(), layout.getStringRepresentation()));
  OpBuilder builder = OpBuilder::atBlockEnd(part->getBody());
  for (LLVM::LLVMFuncOp kernel : getGpuKernels(module)) {
    std::string shared = (kernel.getName() + "_shared").str();
    if (auto memory = module.lookupSymbol<LLVM::GlobalOp>(shared))
      builder.clone(*memory);
    builder.clone(*kernel);
  }
  std::unique_ptr<llvm::Module> code =
      translateModuleToLLVMIR(*part, context, "heddle");
  if (!code)
    return module.emitError() << "cannot be translated to LLVM IR";
  code->setTargetTriple(kTriple);
  code->setDataLayout(layout);

  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  llvm::PassBuilder passes(&machine, tuning);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  passes.registerModuleAnalyses(modules);
  passes.registerCGSCCAnalyses(components);
  passes.registerFunctionAnalyses(functions);
  passes.registerLoopAnalyses(loops);
  passes.crossRegisterProxies(loops, functions, components, modules);
  passes.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2)
      .run(*code, modules);
  return code;
}

FailureOr<std::string>
heddle::emitPtx(ModuleOp module, StringRef chip,
                llvm::function_ref<void(llvm::Module &)> visit) {
  FailureOr<std::unique_ptr<llvm::TargetMachine>> machine =
      createGpuMachine(module.getLoc(), chip);
  if (failed(machine))
    return failure();
  llvm::LLVMContext context;
  FailureOr<std::unique_ptr<llvm::Module>> code =
      optimizeForGpu(module, **machine, context);
  if (failed(code))
    return failure();
  visit(**code);
  // LLVM keeps the annotations of kernels, such as their number of threads, by
  // the address of the module, and forgets them after it has written PTX. If no
  // PTX were written, a later module at this address would be optimized with
  // the wrong number of threads.
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager codegen;
  if ((*machine)->addPassesToEmitFile(codegen, stream, nullptr,
                                      llvm::CodeGenFileType::AssemblyFile))
    return module.emitError() << "no PTX for " << chip;
  codegen.run(**code);
  return text.str().str();
}

FailureOr<std::string> heddle::emitPtx(ModuleOp module) {
  StringRef chip = getTargetGpu(module);
  if (failed(checkTargetGpu(module.getLoc(), chip)))
    return failure();
  return emitPtx(module, chip, [](llvm::Module &) {});
}
