//===- CompileForHost.cpp - From IR of NVPTX to IR of this CPU ------------===//

#include "CompileForHost.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/PassManager.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Transforms/Instrumentation/ThreadSanitizer.h"

using namespace llvm;

/// Returns the module's text with one address space and our functions in the
/// place of NVVM's intrinsics. Text, because the type of a pointer cannot be
/// changed in place.
static std::string rewriteText(const Module &module) {
  std::string text, result;
  raw_string_ostream(text) << module;
  result.reserve(text.size());
  StringRef rest = text;
  for (size_t begin; (begin = rest.find_first_of("al")) != StringRef::npos;) {
    // Copies up to a place where one of the three texts may begin.
    result.append(rest.data(), begin);
    rest = rest.drop_front(begin);
    if (rest.consume_front("addrspacecast")) {
      result += "bitcast";
    } else if (rest.consume_front("llvm.nvvm.")) {
      result += heddle::kIntrinsicPrefix;
    } else if (result.ends_with(" ") && rest.consume_front("addrspace(")) {
      result.pop_back();
      rest = rest.drop_front(rest.find(')') + 1);
    } else {
      result += rest.front();
      rest = rest.drop_front();
    }
  }
  return result + rest.str();
}

/// Replaces the rounding of f32 to bf16, which x86 has no instruction for that
/// keeps denormal numbers.
static void expandBF16(Module &module) {
  SmallVector<FPTruncInst *> rounds;
  for (Function &function : module)
    for (Instruction &instruction : instructions(function))
      if (auto *round = dyn_cast<FPTruncInst>(&instruction))
        if (round->getType()->getScalarType()->isBFloatTy())
          rounds.push_back(round);
  for (FPTruncInst *round : rounds) {
    IRBuilder<> b(round);
    Value *value = round->getOperand(0);
    Type *wide = value->getType()->getWithNewType(b.getInt32Ty());
    Type *narrow = value->getType()->getWithNewType(b.getInt16Ty());
    auto constant = [&](uint32_t bits) { return ConstantInt::get(wide, bits); };
    Value *bits = b.CreateBitCast(value, wide);
    Value *odd = b.CreateAnd(b.CreateLShr(bits, constant(16)), constant(1));
    Value *sum = b.CreateAdd(bits, b.CreateAdd(odd, constant(0x7FFF)));
    Value *upper =
        b.CreateSelect(b.CreateFCmpUNO(value, value), constant(0x7FC0),
                       b.CreateLShr(sum, constant(16)));
    round->replaceAllUsesWith(
        b.CreateBitCast(b.CreateTrunc(upper, narrow), round->getType()));
    round->eraseFromParent();
  }
}

/// Adds a function that calls the kernel with parameters of 8 bytes each.
static void addCall(Function &kernel) {
  LLVMContext &context = kernel.getContext();
  IRBuilder<> b(context);
  auto *call = Function::Create(
      FunctionType::get(b.getVoidTy(), {b.getPtrTy()}, false),
      GlobalValue::ExternalLinkage, kernel.getName() + heddle::kCallSuffix,
      *kernel.getParent());
  b.SetInsertPoint(BasicBlock::Create(context, "", call));
  SmallVector<Value *> arguments;
  for (Argument &argument : kernel.args())
    arguments.push_back(
        b.CreateLoad(argument.getType(),
                     b.CreateConstGEP1_64(b.getInt64Ty(), call->getArg(0),
                                          argument.getArgNo())));
  b.CreateCall(&kernel, arguments);
  b.CreateRetVoid();
}

/// Keeps the address to which a call of one of our functions returns within the
/// kernel: it tells the calls apart.
static void keepReturnAddresses(Module &module) {
  for (Function &function : module)
    for (Instruction &instruction : instructions(function))
      if (auto *call = dyn_cast<CallInst>(&instruction))
        call->setTailCallKind(CallInst::TCK_NoTail);
}

/// Makes every access to memory call a function of ThreadSanitizer's interface,
/// which the emulator has.
static void reportAccesses(Module &module, TargetMachine &machine) {
  PassBuilder passes(&machine);
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager components;
  ModuleAnalysisManager modules;
  passes.registerModuleAnalyses(modules);
  passes.registerCGSCCAnalyses(components);
  passes.registerFunctionAnalyses(functions);
  passes.registerLoopAnalyses(loops);
  passes.crossRegisterProxies(loops, functions, components, modules);
  ModulePassManager manager;
  manager.addPass(createModuleToFunctionPassAdaptor(ThreadSanitizerPass()));
  manager.run(module, modules);
}

Expected<std::unique_ptr<Module>>
heddle::compileForHost(const Module &module, LLVMContext &context,
                       TargetMachine &machine) {
  SMDiagnostic problem;
  std::unique_ptr<Module> host =
      parseAssemblyString(rewriteText(module), problem, context);
  if (!host)
    return createStringError(inconvertibleErrorCode(),
                             "IR of a GPU, rewritten: " + problem.getMessage() +
                                 ": " + problem.getLineContents());
  host->setTargetTriple(machine.getTargetTriple().str());
  host->setDataLayout(machine.createDataLayout());
  for (GlobalVariable &global : host->globals())
    global.setLinkage(GlobalValue::ExternalLinkage);
  expandBF16(*host);
  keepReturnAddresses(*host);
  SmallVector<Function *> kernels;
  for (Function &function : *host) {
    function.removeFnAttr("target-cpu");
    function.removeFnAttr("target-features");
    if (function.isDeclaration())
      continue;
    function.addFnAttr(Attribute::SanitizeThread);
    kernels.push_back(&function);
  }
  reportAccesses(*host, machine);
  for (Function *kernel : kernels)
    addCall(*kernel);
  return host;
}
