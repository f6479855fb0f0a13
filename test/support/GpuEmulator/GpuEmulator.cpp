//===- GpuEmulator.cpp - Runs kernels of GPUs on this CPU -----------------===//

#include "GpuEmulator.h"
#include "CompileForHost.h"
#include "Fibers.h"
#include "dialects/Heddle/Heddle.h"
#include "lib/Lower/ConvertRtToLLVM/RuntimeCalls.h"
#include "lib/Lower/WriteArtifact/GpuTarget.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;
using namespace heddle;

//===----------------------------------------------------------------------===//
// What kernels call
//===----------------------------------------------------------------------===//

namespace {

int32_t readThread() { return Fibers::current->thread(); }
int32_t readBlock() { return Fibers::current->block(); }
int32_t readBlockSize() { return Fibers::current->blockSize(); }
void waitForBlock() { Fibers::current->waitForBlock(); }
void waitForWarp(uint32_t) { Fibers::current->waitForWarp(); }
uint32_t exchange(uint32_t, uint32_t value, uint32_t distance, uint32_t) {
  return Fibers::current->exchange(value, distance);
}
float exchangeFloat(uint32_t, float value, uint32_t distance, uint32_t) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  bits = Fibers::current->exchange(bits, distance);
  std::memcpy(&value, &bits, sizeof(bits));
  return value;
}
template <size_t bytes, bool isWrite> void access(void *address) {
  Fibers::current->access(reinterpret_cast<uintptr_t>(address), bytes, isWrite);
}
void ignore(void *) {}
void ignoreNothing() {}

using Symbols = llvm::StringMap<void *>;

template <size_t bytes> void addAccesses(Symbols &symbols) {
  for (const char *prefix : {"__tsan_", "__tsan_unaligned_"}) {
    std::string name = prefix, size = std::to_string(bytes);
    symbols[name + "read" + size] =
        reinterpret_cast<void *>(&access<bytes, false>);
    symbols[name + "write" + size] =
        reinterpret_cast<void *>(&access<bytes, true>);
    symbols[name + "read_write" + size] =
        reinterpret_cast<void *>(&access<bytes, true>);
  }
}

Symbols getSymbols() {
  Symbols symbols;
  auto add = [&](const char *name, auto *function) {
    symbols[(kIntrinsicPrefix + name).str()] =
        reinterpret_cast<void *>(function);
  };
  add("read.ptx.sreg.tid.x", readThread);
  add("read.ptx.sreg.ctaid.x", readBlock);
  add("read.ptx.sreg.ntid.x", readBlockSize);
  add("barrier0", waitForBlock);
  add("bar.warp.sync", waitForWarp);
  add("shfl.sync.bfly.i32", exchange);
  add("shfl.sync.bfly.f32", exchangeFloat);
  addAccesses<1>(symbols);
  addAccesses<2>(symbols);
  addAccesses<4>(symbols);
  addAccesses<8>(symbols);
  addAccesses<16>(symbols);
  symbols["__tsan_func_entry"] = reinterpret_cast<void *>(&ignore);
  symbols["__tsan_func_exit"] = reinterpret_cast<void *>(&ignoreNothing);
  symbols["__tsan_init"] = reinterpret_cast<void *>(&ignoreNothing);
  return symbols;
}

} // namespace

//===----------------------------------------------------------------------===//
// Compilation
//===----------------------------------------------------------------------===//

static GpuKernel describe(ModuleOp module, LLVM::LLVMFuncOp function) {
  GpuKernel kernel;
  kernel.blocks =
      function->getAttrOfType<IntegerAttr>(kBlocksAttrName).getInt();
  kernel.threads = function
                       ->getAttrOfType<DenseI32ArrayAttr>(
                           NVVM::NVVMDialect::getReqntidAttrName())
                       .asArrayRef()
                       .front();
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
    kernel.isNumber.push_back(!isa<LLVM::LLVMPointerType>(type));
    auto bytes = function.getArgAttrOfType<IntegerAttr>(
        i, LLVM::LLVMDialect::getDereferenceableAttrName());
    kernel.bytes.push_back(bytes ? bytes.getInt() : 0);
  }
  if (auto shared = module.lookupSymbol<LLVM::GlobalOp>(
          (function.getName() + "_shared").str()))
    kernel.shared.bytes =
        cast<LLVM::LLVMArrayType>(shared.getType()).getNumElements();
  return kernel;
}

GpuEmulator::~GpuEmulator() = default;

llvm::Expected<std::unique_ptr<GpuEmulator>>
GpuEmulator::compile(ModuleOp module) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto fail = [](const char *what) {
    return llvm::createStringError(llvm::inconvertibleErrorCode(), what);
  };
  auto gpu = createGpuMachine(module.getLoc(), "sm_80");
  if (failed(gpu))
    return fail("no code generator for GPUs");
  llvm::LLVMContext gpuContext;
  auto code = optimizeForGpu(module, **gpu, gpuContext);
  if (failed(code))
    return fail("no IR for the kernels");

  llvm::orc::JITTargetMachineBuilder builder{
      llvm::Triple(llvm::sys::getProcessTriple())};
  // fma must round once.
  builder.getFeatures().AddFeature("fma", true);
  builder.getFeatures().AddFeature("sse4.2", true);
  builder.setCodeGenOptLevel(llvm::CodeGenOptLevel::Less);
  auto machine = builder.createTargetMachine();
  if (!machine)
    return machine.takeError();
  auto context = std::make_unique<llvm::LLVMContext>();
  auto host = compileForHost(**code, *context, **machine);
  if (!host)
    return host.takeError();

  std::unique_ptr<GpuEmulator> emulator(new GpuEmulator());
  auto jit = llvm::orc::LLJITBuilder()
                 .setJITTargetMachineBuilder(std::move(builder))
                 .create();
  if (!jit)
    return jit.takeError();
  emulator->jit = std::move(*jit);
  llvm::orc::SymbolMap symbols;
  for (auto &symbol : getSymbols())
    symbols[emulator->jit->mangleAndIntern(symbol.getKey())] = {
        llvm::orc::ExecutorAddr::fromPtr(symbol.getValue()),
        llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
  if (llvm::Error error = emulator->jit->getMainJITDylib().define(
          llvm::orc::absoluteSymbols(std::move(symbols))))
    return std::move(error);
  if (llvm::Error error = emulator->jit->addIRModule(
          llvm::orc::ThreadSafeModule(std::move(*host), std::move(context))))
    return std::move(error);
  for (LLVM::LLVMFuncOp function : getGpuKernels(module)) {
    std::string name = function.getName().str();
    GpuKernel kernel = describe(module, function);
    auto call = emulator->jit->lookup(name + kCallSuffix.str());
    if (!call)
      return call.takeError();
    kernel.function = call->toPtr<GpuKernel::Function>();
    if (kernel.shared.bytes > 0) {
      auto shared = emulator->jit->lookup(name + "_shared");
      if (!shared)
        return shared.takeError();
      kernel.shared.data = shared->toPtr<void *>();
    }
    emulator->kernels[name] = kernel;
    emulator->order.push_back(name);
  }
  return emulator;
}

llvm::Error GpuEmulator::launch(size_t index, ArrayRef<uint64_t> parameters) {
  const std::string &name = order.at(index);
  const GpuKernel &kernel = getKernel(name);
  SmallVector<GpuBuffer> buffers;
  {
    std::lock_guard lock(mutex);
    if (!isChecked.try_emplace(name, true).second)
      return run(name, parameters, /*accesses=*/nullptr, /*backwards=*/false);
  }
  for (auto [i, bytes] : llvm::enumerate(kernel.bytes))
    if (bytes > 0)
      buffers.push_back({reinterpret_cast<void *>(parameters[i]), bytes, 1});
  return launch(name, parameters, buffers);
}

llvm::Error GpuEmulator::launch(StringRef name, ArrayRef<uint64_t> parameters,
                                ArrayRef<GpuBuffer> buffers, bool backwards) {
  SmallVector<GpuBuffer> all(buffers);
  all.push_back(getKernel(name).shared);
  Accesses accesses(all);
  std::lock_guard lock(mutex);
  return run(name, parameters, &accesses, backwards);
}

llvm::Error GpuEmulator::run(StringRef name, ArrayRef<uint64_t> parameters,
                             Accesses *accesses, bool backwards) {
  const GpuKernel &kernel = getKernel(name);
  Fibers fibers(int32_t(kernel.threads));
  for (int64_t i = 0; i < kernel.blocks; ++i) {
    int64_t block = backwards ? kernel.blocks - 1 - i : i;
    // Values of another block, or of nobody.
    if (kernel.shared.bytes > 0)
      std::memset(kernel.shared.data, 0xFF, kernel.shared.bytes);
    if (accesses)
      accesses->forget(kernel.shared.data);
    std::string problem = fibers.run(int32_t(block), backwards, accesses, [&] {
      kernel.function(parameters.data());
    });
    if (!problem.empty())
      return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                     name + ": " + problem);
  }
  return llvm::Error::success();
}
