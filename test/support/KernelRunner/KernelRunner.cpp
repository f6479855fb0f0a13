//===- KernelRunner.cpp - Runs tensor functions in this process -----------===//

#include "KernelRunner.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/InitAll.h"
#include "heddle/Lower/Artifact.h"
#include "heddle/Lower/Passes.h"
#include "heddle/Support/Bytes.h"
#include "lib/Lower/KernelPlan/KernelPlan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "test/support/GpuEmulator/GpuEmulator.h"
#include "llvm/ExecutionEngine/Orc/CompileUtils.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace mlir;
using namespace heddle;

namespace {

/// The buffer of a function's value: argument, result, temporary or constant
/// number `index`.
struct Place {
  enum Kind { Argument, Result, Temporary, Constant } kind;
  unsigned index;
  int64_t offset = 0; ///< of a view in its buffer, in bytes
};

struct Step {
  std::string kernel;
  KernelFunction function = nullptr;
  SmallVector<Place> buffers;
  SmallVector<std::pair<size_t, size_t>> sizes; ///< of buffers and elements
  int64_t blocks, grain;
};

struct Copy {
  Place from;
  unsigned result;
  size_t bytes;
};

struct Function {
  std::vector<Step> steps;
  std::vector<Copy> copies;
  std::vector<size_t> temporaries; ///< sizes in bytes
  std::vector<int64_t> constants;  ///< indices that kernels take
  llvm::DenseSet<std::pair<unsigned, unsigned>> reusable;
};

struct FreeDeleter {
  void operator()(void *pointer) const { std::free(pointer); }
};

} // namespace

struct KernelRunner::State {
  llvm::StringMap<Function> functions;
  std::unique_ptr<llvm::orc::LLJIT> jit;
  std::unique_ptr<GpuEmulator> emulator;
};

KernelRunner::KernelRunner(std::unique_ptr<State> state)
    : state(std::move(state)) {}
KernelRunner::~KernelRunner() = default;

static llvm::Error makeError(const Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

/// Returns the value that a chain of views starts from, and the views' offset
/// in it, in bytes.
static std::pair<Value, int64_t> throughViews(Value value) {
  int64_t offset = 0;
  while (Operation *op = value.getDefiningOp()) {
    if (isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op)) {
      value = op->getOperand(0);
      continue;
    }
    auto slice = dyn_cast<tensor::ExtractSliceOp>(op);
    if (!slice)
      break;
    RankedTensorType type = slice.getSourceType();
    int64_t stride = getElementBytes(type.getElementType());
    for (int64_t dim = type.getRank() - 1; dim >= 0; --dim) {
      offset += slice.getStaticOffsets()[dim] * stride;
      stride *= type.getDimSize(dim);
    }
    value = slice.getSource();
  }
  return {value, offset};
}

static llvm::Error record(func::FuncOp func, Function &out) {
  Block &body = func.getBody().front();
  llvm::DenseMap<Value, Place> places;
  for (BlockArgument argument : func.getArguments())
    places[argument] = {Place::Argument, argument.getArgNumber()};
  for (auto [i, value] : llvm::enumerate(body.getTerminator()->getOperands())) {
    auto [root, offset] = throughViews(value);
    if (root.getDefiningOp<func::CallOp>() && offset == 0 &&
        root.getType() == value.getType())
      places.try_emplace(root, Place{Place::Result, (unsigned)i});
  }
  auto placeOf = [&](Value value) {
    auto [root, offset] = throughViews(value);
    auto [found, isNew] = places.try_emplace(
        root, Place{Place::Temporary, (unsigned)out.temporaries.size()});
    if (isNew)
      out.temporaries.push_back(getBytes(root.getType()));
    Place place = found->second;
    place.offset += offset;
    return place;
  };
  auto module = func->getParentOfType<ModuleOp>();
  for (Operation &op : body.without_terminator()) {
    if (isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp,
            tensor::ExtractSliceOp>(op))
      continue;
    if (auto constant = dyn_cast<arith::ConstantIndexOp>(op)) {
      places[constant] = {Place::Constant, (unsigned)out.constants.size()};
      out.constants.push_back(constant.value());
      continue;
    }
    auto call = dyn_cast<func::CallOp>(op);
    if (!call)
      return makeError("expected calls of kernels, got " +
                       op.getName().getStringRef());
    auto kernel = module.lookupSymbol<func::FuncOp>(call.getCallee());
    Step step;
    step.kernel = call.getCallee();
    step.blocks = kernel->getAttrOfType<IntegerAttr>(kBlocksAttrName).getInt();
    step.grain = kernel->getAttrOfType<IntegerAttr>(kGrainAttrName).getInt();
    auto addType = [&](Type type) {
      bool isTensor = isa<RankedTensorType>(type);
      step.sizes.push_back(
          {isTensor ? getBytes(type) : sizeof(int64_t),
           isTensor ? getElementBytes(getElementTypeOrSelf(type)) : 1});
    };
    llvm::for_each(call.getOperandTypes(), addType);
    llvm::for_each(call.getResultTypes(), addType);
    for (Value operand : call.getOperands())
      step.buffers.push_back(placeOf(operand));
    auto inplace = kernel->getAttrOfType<ArrayAttr>(kInplaceAttrName);
    for (auto [i, result] : llvm::enumerate(call.getResults())) {
      Place place = placeOf(result);
      step.buffers.push_back(place);
      for (int64_t operand : cast<DenseI64ArrayAttr>(inplace[i]).asArrayRef())
        if (place.kind == Place::Result &&
            step.buffers[operand].kind == Place::Argument)
          out.reusable.insert({place.index, step.buffers[operand].index});
    }
    out.steps.push_back(step);
  }
  for (auto [i, value] : llvm::enumerate(body.getTerminator()->getOperands())) {
    Place place = placeOf(value);
    if (place.kind != Place::Result || place.index != i)
      out.copies.push_back(
          {place, (unsigned)i, (size_t)getBytes(value.getType())});
  }
  return llvm::Error::success();
}

/// A target machine with the features of this CPU. The CPU's name is not used,
/// because it may be wrong in a virtual machine.
static llvm::Expected<llvm::orc::JITTargetMachineBuilder> describeHost() {
  llvm::orc::JITTargetMachineBuilder builder{
      llvm::Triple(llvm::sys::getProcessTriple())};
  for (const auto &feature : llvm::sys::getHostCPUFeatures())
    builder.getFeatures().AddFeature(feature.first(), feature.second);
  builder.setCodeGenOptLevel(llvm::CodeGenOptLevel::Default);
  builder.getOptions().AllowFPOpFusion = llvm::FPOpFusion::Standard;
  return builder;
}

static void optimize(llvm::Module &module, llvm::TargetMachine *machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = true;
  tuning.LoopInterleaving = true;
  llvm::PassBuilder builder(machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2)
      .run(module, modules);
}

/// Writes the PTX of the kernels into the folder that HEDDLE_TEST_PTX names,
/// for bench/gpu/ptx_table.py.
static llvm::Error writePtx(ModuleOp module) {
  static int64_t files = 0;
  const char *folder = std::getenv("HEDDLE_TEST_PTX");
  if (!folder)
    return llvm::Error::success();
  FailureOr<std::string> ptx = emitPtx(module);
  if (failed(ptx))
    return makeError("no PTX");
  std::ofstream file(std::filesystem::path(folder) /
                     (std::to_string(files++) + ".ptx"));
  file << *ptx;
  return file.good() ? llvm::Error::success() : makeError("cannot write PTX");
}

llvm::Expected<std::unique_ptr<KernelRunner>>
KernelRunner::compile(StringRef text, const Options &options) {
  static const bool initialized = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    return true;
  }();
  (void)initialized;
  DialectRegistry registry;
  registerAllDialects(registry);
  registerAllToLLVMIRTranslations(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  std::string messages;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    messages += diagnostic.str() + "\n";
    return success();
  });
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return makeError(messages);

  if (!options.gpuRows.empty())
    (*module)->setAttr(kTargetGpuAttrName, StringAttr::get(&context, "sm_80"));
  PassManager form(&context);
  form.addPass(createDecomposeOpsPass());
  FormKernelsPassOptions formOptions;
  formOptions.fuse = options.fuse;
  form.addPass(createFormKernelsPass(formOptions));
  if (failed(form.run(*module)))
    return makeError(messages);

  auto state = std::make_unique<State>();
  SmallVector<func::FuncOp> programs;
  for (auto func : module->getOps<func::FuncOp>())
    if (!func->hasAttr(kKernelAttrName))
      programs.push_back(func);
  for (func::FuncOp func : programs) {
    if (llvm::Error error = record(func, state->functions[func.getName()]))
      return std::move(error);
    func.erase();
  }
  PassManager lower(&context);
  if (options.gpuRows.empty()) {
    lower.addPass(createLowerKernelsPass());
  } else {
    LowerKernelsToGpuPassOptions gpu;
    gpu.rows = options.gpuRows;
    lower.addPass(createLowerKernelsToGpuPass(gpu));
    lower.addPass(createVerifyGpuKernelsPass());
  }
  if (failed(lower.run(*module)))
    return makeError(messages);
  if (!options.gpuRows.empty()) {
    if (options.change)
      options.change(*module);
    if (llvm::Error error = writePtx(*module))
      return std::move(error);
    auto emulator = GpuEmulator::compile(*module);
    if (!emulator)
      return emulator.takeError();
    state->emulator = std::move(*emulator);
    return std::unique_ptr<KernelRunner>(new KernelRunner(std::move(state)));
  }

  auto llvmContext = std::make_unique<llvm::LLVMContext>();
  std::unique_ptr<llvm::Module> llvmModule =
      translateModuleToLLVMIR(*module, *llvmContext);
  if (!llvmModule)
    return makeError(messages);
  auto builder = describeHost();
  if (!builder)
    return builder.takeError();
  auto machine = builder->createTargetMachine();
  if (!machine)
    return machine.takeError();
  llvmModule->setTargetTriple((*machine)->getTargetTriple().str());
  llvmModule->setDataLayout((*machine)->createDataLayout());
  optimize(*llvmModule, machine->get());
  if (options.dump)
    llvmModule->print(llvm::errs(), nullptr);

  auto jit = llvm::orc::LLJITBuilder()
                 .setJITTargetMachineBuilder(std::move(*builder))
                 .create();
  if (!jit)
    return jit.takeError();
  state->jit = std::move(*jit);
  if (llvm::Error error = state->jit->addIRModule(llvm::orc::ThreadSafeModule(
          std::move(llvmModule), std::move(llvmContext))))
    return std::move(error);
  for (auto &entry : state->functions)
    for (Step &step : entry.second.steps) {
      auto symbol = state->jit->lookup(step.kernel);
      if (!symbol)
        return symbol.takeError();
      step.function = symbol->toPtr<KernelFunction>();
    }
  return std::unique_ptr<KernelRunner>(new KernelRunner(std::move(state)));
}

bool KernelRunner::isGpu() const { return state->emulator != nullptr; }

namespace {
/// The memory of one call of a function.
class Memory {
public:
  Memory(const Function &function, ArrayRef<void *> arguments,
         ArrayRef<void *> results)
      : arguments(arguments), results(results), constants(function.constants) {
    for (size_t bytes : function.temporaries)
      temporaries.emplace_back(
          std::aligned_alloc(64, llvm::alignTo(bytes, 64)));
  }

  void *at(const Place &place) const {
    void *buffer = place.kind == Place::Argument ? arguments[place.index]
                   : place.kind == Place::Result ? results[place.index]
                   : place.kind == Place::Constant
                       ? static_cast<void *>(&constants[place.index])
                       : temporaries[place.index].get();
    return static_cast<char *>(buffer) + place.offset;
  }

  void makeCopies(const Function &function) const {
    for (const Copy &copy : function.copies)
      std::memmove(results[copy.result], at(copy.from), copy.bytes);
  }

private:
  ArrayRef<void *> arguments, results;
  mutable std::vector<int64_t> constants;
  std::vector<std::unique_ptr<void, FreeDeleter>> temporaries;
};
} // namespace

llvm::Error KernelRunner::run(StringRef name, ArrayRef<void *> arguments,
                              ArrayRef<void *> results,
                              const Launcher &launch) {
  if (isGpu())
    return runOnGpu(name, arguments, results, /*backwards=*/bool(launch));
  auto found = state->functions.find(name);
  if (found == state->functions.end())
    return makeError("expected a function of the module, got " + name);
  const Function &function = found->second;
  Memory memory(function, arguments, results);
  int64_t coordinates[8] = {};
  for (const Step &step : function.steps) {
    std::vector<void *> buffers{coordinates};
    for (const Place &place : step.buffers)
      buffers.push_back(memory.at(place));
    if (launch)
      launch(step.function, buffers.data(), step.blocks, step.grain);
    else
      step.function(buffers.data(), 0, step.blocks);
  }
  memory.makeCopies(function);
  return llvm::Error::success();
}

llvm::Error KernelRunner::runOnGpu(StringRef name, ArrayRef<void *> arguments,
                                   ArrayRef<void *> results, bool backwards) {
  auto found = state->functions.find(name);
  if (found == state->functions.end())
    return makeError("expected a function of the module, got " + name);
  const Function &function = found->second;
  Memory memory(function, arguments, results);
  for (const Step &step : function.steps) {
    const GpuKernel &kernel = state->emulator->getKernel(step.kernel);
    std::vector<uint64_t> parameters;
    std::vector<GpuBuffer> buffers;
    for (auto [i, place] : llvm::enumerate(step.buffers)) {
      void *data = memory.at(place);
      if (kernel.isNumber[i]) {
        parameters.push_back(*static_cast<const uint64_t *>(data));
        continue;
      }
      parameters.push_back(reinterpret_cast<uintptr_t>(data));
      buffers.push_back({data, step.sizes[i].first, step.sizes[i].second});
    }
    if (llvm::Error error = state->emulator->launch(step.kernel, parameters,
                                                    buffers, backwards))
      return error;
  }
  memory.makeCopies(function);
  return llvm::Error::success();
}

bool KernelRunner::canReuse(StringRef function, unsigned result,
                            unsigned argument) {
  auto found = state->functions.find(function);
  return found != state->functions.end() &&
         found->second.reusable.contains({result, argument});
}

unsigned KernelRunner::countKernels(StringRef function) const {
  auto found = state->functions.find(function);
  return found == state->functions.end() ? 0 : found->second.steps.size();
}
