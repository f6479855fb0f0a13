//===- EmitObjects.cpp - From the LLVM dialect to object code -------------===//

#include "NativeTarget.h"
#include "dialects/Rt/Rt.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/ThreadPool.h"
#include "llvm/Support/Threading.h"
#include "llvm/TargetParser/Triple.h"
#include "llvm/Transforms/Instrumentation/AddressSanitizer.h"
#include "llvm/Transforms/Instrumentation/ThreadSanitizer.h"
#include <mutex>

using namespace mlir;
using namespace heddle;

namespace {
/// Cuts the module into modules that can be compiled separately: one with
/// everything but kernels, and several with kernels and the symbols that these
/// use.
class ModuleSplitter {
public:
  explicit ModuleSplitter(ModuleOp module) : module(module), symbols(module) {}

  SmallVector<OwningOpRef<ModuleOp>> split(unsigned threads) {
    SmallVector<std::pair<int64_t, LLVM::LLVMFuncOp>> kernels;
    int64_t allOps = 0;
    SmallVector<Operation *> others;
    for (Operation &op : *module.getBody()) {
      if (auto global = dyn_cast<LLVM::GlobalOp>(op);
          global && global.getLinkage() == LLVM::Linkage::External &&
          (global.getValueOrNull() || global.getInitializerBlock()))
        others.push_back(global);
      auto function = dyn_cast<LLVM::LLVMFuncOp>(op);
      if (!function || function.isExternal() ||
          function->hasAttr(NVVM::NVVMDialect::getKernelFuncAttrName()))
        continue;
      if (!function->hasAttr(kBlocksAttrName)) {
        others.push_back(function);
        continue;
      }
      int64_t ops = 0;
      function.walk([&](Operation *) { ++ops; });
      kernels.push_back({ops, function});
      allOps += ops;
    }
    // Largest kernel first, each to the part with the fewest ops so far.
    llvm::sort(kernels, [](auto &a, auto &b) {
      return std::pair(b.first, a.second.getName()) <
             std::pair(a.first, b.second.getName());
    });
    // Three parts per thread keep all threads busy to the end. Each part costs
    // some time, because it has a context of its own, so a small module has
    // fewer parts.
    int64_t perThread = std::clamp<int64_t>(allOps / (threads * 500), 1, 3);
    size_t parts = std::min<size_t>(threads * perThread, kernels.size());
    SmallVector<SmallVector<Operation *>> members(parts);
    SmallVector<int64_t> sizes(parts, 0);
    for (auto &[ops, kernel] : kernels) {
      auto least = std::min_element(sizes.begin(), sizes.end());
      *least += ops;
      members[least - sizes.begin()].push_back(kernel);
    }
    SmallVector<OwningOpRef<ModuleOp>> modules;
    modules.push_back(extract(others));
    for (ArrayRef<Operation *> list : members)
      modules.push_back(extract(list));
    return modules;
  }

private:
  /// Returns a module of `roots` and, transitively, of the symbols that they
  /// use: data and helper functions with their definitions, kernels as
  /// declarations.
  OwningOpRef<ModuleOp> extract(ArrayRef<Operation *> roots) {
    OwningOpRef<ModuleOp> part(ModuleOp::create(module.getLoc()));
    OpBuilder builder = OpBuilder::atBlockEnd(part->getBody());
    SetVector<Operation *> list(roots.begin(), roots.end());
    llvm::SmallPtrSet<Operation *, 8> isRoot(roots.begin(), roots.end());
    for (size_t i = 0; i < list.size(); ++i) {
      Operation *op = list[i];
      bool declare = !isRoot.contains(op) && op->hasAttr(kBlocksAttrName);
      if (declare) {
        auto function = cast<LLVM::LLVMFuncOp>(op);
        builder.create<LLVM::LLVMFuncOp>(op->getLoc(), function.getName(),
                                         function.getFunctionType());
        continue;
      }
      builder.clone(*op);
      std::optional<SymbolTable::UseRange> uses =
          SymbolTable::getSymbolUses(op);
      if (!uses)
        continue;
      for (SymbolTable::SymbolUse use : *uses)
        if (Operation *target =
                symbols.lookup(use.getSymbolRef().getRootReference()))
          if (isa_and_nonnull<LLVM::LLVMDialect>(target->getDialect()))
            list.insert(target);
    }
    return part;
  }

  ModuleOp module;
  SymbolTable symbols;
};

/// Sets the attributes that all functions of a part have.
void setAttributes(llvm::Module &module, const NativeTarget &target) {
  bool wide = llvm::is_contained(target.requiredFeatures, "avx512f");
  for (llvm::Function &function : module) {
    if (function.getName().starts_with("heddle_program_"))
      function.setVisibility(llvm::GlobalValue::DefaultVisibility);
    else if (!function.hasLocalLinkage() && !function.isDeclaration())
      function.setVisibility(llvm::GlobalValue::HiddenVisibility);
    if (function.isDeclaration())
      continue;
    function.setDoesNotThrow();
    function.addFnAttr("target-cpu", target.cpu);
    if (!target.features.empty())
      function.addFnAttr("target-features", target.features);
    // Vectors of 512 bits, also on CPUs for which LLVM prefers 256 bits to keep
    // the clock high. Kernels with exponentials run 20 to 35% faster.
    if (wide)
      function.addFnAttr("prefer-vector-width", "512");
  }
}

/// Splits each fma that may round twice (`contract`) into a product and a sum,
/// for a CPU without fma instructions. A call of fmaf for each element would
/// take many times longer.
void splitMultiplyAdds(llvm::Module &module, const NativeTarget &target) {
  if (!llvm::Triple(target.triple).isX86() ||
      llvm::is_contained(target.requiredFeatures, "fma"))
    return;
  for (llvm::Function &function : module)
    for (llvm::BasicBlock &block : function)
      for (llvm::Instruction &instruction : llvm::make_early_inc_range(block)) {
        auto *call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
        if (!call || call->getIntrinsicID() != llvm::Intrinsic::fma ||
            !call->hasAllowContract())
          continue;
        llvm::IRBuilder<> builder(call);
        llvm::Value *product =
            builder.CreateFMul(call->getArgOperand(0), call->getArgOperand(1));
        call->replaceAllUsesWith(
            builder.CreateFAdd(product, call->getArgOperand(2)));
        call->eraseFromParent();
      }
}

/// Makes kernels report their accesses to a sanitizer's runtime library. The
/// instrumentation runs before vectorization, because ThreadSanitizer does not
/// see accesses of more than 16 bytes.
void instrument(llvm::Module &module, llvm::PassBuilder &builder,
                Sanitizer sanitizer) {
  if (sanitizer == Sanitizer::None)
    return;
  for (llvm::Function &function : module)
    if (!function.isDeclaration())
      function.addFnAttr(sanitizer == Sanitizer::Thread
                             ? llvm::Attribute::SanitizeThread
                             : llvm::Attribute::SanitizeAddress);
  builder.registerOptimizerEarlyEPCallback(
      [sanitizer](llvm::ModulePassManager &passes, llvm::OptimizationLevel) {
        if (sanitizer == Sanitizer::Thread) {
          passes.addPass(llvm::ModuleThreadSanitizerPass());
          passes.addPass(llvm::createModuleToFunctionPassAdaptor(
              llvm::ThreadSanitizerPass()));
        } else {
          passes.addPass(
              llvm::AddressSanitizerPass(llvm::AddressSanitizerOptions()));
        }
      });
}

void optimize(llvm::Module &module, llvm::TargetMachine &machine,
              llvm::OptimizationLevel level, Sanitizer sanitizer) {
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = true;
  tuning.SLPVectorization = true;
  tuning.LoopInterleaving = true;
  llvm::PassBuilder builder(&machine, tuning);
  instrument(module, builder, sanitizer);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(level).run(module, modules);
}

FailureOr<std::string> emitPart(ModuleOp part, const NativeTarget &target,
                                bool isProgram,
                                const ArtifactOptions &options) {
  // A program function is thousands of calls in a row, with nothing to
  // optimize.
  bool optimizes = options.optimizesKernels && !isProgram;
  FailureOr<std::unique_ptr<llvm::TargetMachine>> machine = createTargetMachine(
      part.getLoc(), target,
      optimizes ? llvm::CodeGenOptLevel::Default : llvm::CodeGenOptLevel::None);
  if (failed(machine))
    return failure();
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module =
      translateModuleToLLVMIR(part, context, "heddle");
  if (!module)
    return part.emitError() << "cannot be translated to LLVM IR";
  module->setTargetTriple(target.triple);
  module->setDataLayout((*machine)->createDataLayout());
  module->setPICLevel(llvm::PICLevel::BigPIC);
  setAttributes(*module, target);
  splitMultiplyAdds(*module, target);
  if (!isProgram)
    optimize(*module, **machine,
             optimizes ? llvm::OptimizationLevel::O2
                       : llvm::OptimizationLevel::O0,
             options.sanitizer);

  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager codegen;
  if ((*machine)->addPassesToEmitFile(codegen, stream, nullptr,
                                      llvm::CodeGenFileType::ObjectFile))
    return part.emitError() << "no object files for " << target.triple;
  codegen.run(*module);
  return std::string(object.begin(), object.end());
}
} // namespace

FailureOr<std::vector<std::string>>
heddle::emitObjects(ModuleOp module, const NativeTarget &target,
                    const ArtifactOptions &options) {
  MLIRContext *context = module.getContext();
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  context->appendDialectRegistry(registry);
  unsigned threads = options.threads;
  if (threads == 0)
    threads = llvm::heavyweight_hardware_concurrency().compute_thread_count();

  SmallVector<OwningOpRef<ModuleOp>> parts =
      ModuleSplitter(module).split(threads);
  std::vector<std::string> objects(parts.size());
  std::vector<char> good(parts.size(), 0);
  auto emit = [&](size_t i) {
    FailureOr<std::string> object =
        emitPart(*parts[i], target, /*isProgram=*/i == 0, options);
    if (succeeded(object)) {
      objects[i] = std::move(*object);
      good[i] = 1;
    }
  };
  if (threads == 1 || !context->isMultithreadingEnabled()) {
    for (size_t i = 0; i < parts.size(); ++i)
      emit(i);
  } else {
    ParallelDiagnosticHandler diagnostics(context);
    llvm::DefaultThreadPool pool(llvm::hardware_concurrency(threads));
    for (size_t i = 0; i < parts.size(); ++i)
      pool.async([&, i] {
        diagnostics.setOrderIDForThread(i);
        emit(i);
        diagnostics.eraseOrderIDForThread();
      });
    pool.wait();
  }
  if (llvm::is_contained(good, 0))
    return failure();
  return objects;
}
