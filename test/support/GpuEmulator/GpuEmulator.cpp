//===- GpuEmulator.cpp - Runs kernels of GPUs on this CPU -----------------===//

#include "GpuEmulator.h"
#include "CompileForHost.h"
#include "Fibers.h"
#include "dialects/Heddle/Heddle.h"
#include "lib/Lower/Batches/Batches.h"
#include "lib/Lower/ConvertRtToLLVM/RuntimeCalls.h"
#include "lib/Lower/WriteArtifact/GpuTarget.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"
#include <bit>
#include <chrono>
#include <cmath>
#include <thread>

using namespace mlir;
using namespace heddle;

//===----------------------------------------------------------------------===//
// What kernels call
//===----------------------------------------------------------------------===//

namespace {

int32_t readThread() { return Fibers::current->thread(); }
int32_t readBlock() { return Fibers::current->block(); }
int32_t readBlocks() { return Fibers::current->blocks(); }
int32_t readBlockSize() { return Fibers::current->blockSize(); }

/// The place of the kernel that called the function which uses this.
#define SITE __builtin_return_address(0)

void waitForBlock() { Fibers::current->waitForBlock(SITE); }
void waitForWarp(uint32_t lanes) { Fibers::current->waitForWarp(SITE, lanes); }
/// The last number has a bit for each bit of a lane's number, unless a warp is
/// cut into segments.
uint32_t exchange(uint32_t lanes, uint32_t value, uint32_t distance,
                  uint32_t bits) {
  return Fibers::current->exchange(SITE, bits == kWarp - 1 ? lanes : 0, value,
                                   distance);
}
float exchangeFloat(uint32_t lanes, float value, uint32_t distance,
                    uint32_t bits) {
  return std::bit_cast<float>(
      Fibers::current->exchange(SITE, bits == kWarp - 1 ? lanes : 0,
                                std::bit_cast<uint32_t>(value), distance));
}
/// The upper bits of a condition have no meaning.
uint32_t vote(uint32_t lanes, uint32_t condition) {
  return Fibers::current->vote(SITE, lanes, condition & 1);
}
#undef SITE

/// The emulated GPU's clock is that of the host.
int64_t readTimer() {
  return std::chrono::nanoseconds(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
void sleepFor(uint32_t nanoseconds) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(nanoseconds));
}

template <size_t bytes, bool isWrite> void access(void *address) {
  Fibers::current->access(reinterpret_cast<uintptr_t>(address), bytes, isWrite);
}
/// Returns what was there. Writes only if that is `expected`.
uint64_t compareAndExchange(uint64_t *address, uint64_t expected,
                            uint64_t value, int, int) {
  access<sizeof(uint64_t), true>(address);
  __atomic_compare_exchange_n(address, &expected, value, /*weak=*/false,
                              __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
uint64_t load(const uint64_t *address, int) {
  access<sizeof(uint64_t), false>(const_cast<uint64_t *>(address));
  return __atomic_load_n(address, __ATOMIC_RELAXED);
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
  add("read.ptx.sreg.nctaid.x", readBlocks);
  add("read.ptx.sreg.globaltimer", readTimer);
  add("nanosleep", sleepFor);
  add("ex2.approx.f", static_cast<float (*)(float)>(&exp2f));
  add("lg2.approx.f", static_cast<float (*)(float)>(&log2f));
  add("barrier0", waitForBlock);
  add("bar.warp.sync", waitForWarp);
  add("shfl.sync.bfly.i32", exchange);
  add("shfl.sync.bfly.f32", exchangeFloat);
  add("vote.ballot.sync", vote);
  addAccesses<1>(symbols);
  addAccesses<2>(symbols);
  addAccesses<4>(symbols);
  addAccesses<8>(symbols);
  addAccesses<16>(symbols);
  symbols["__tsan_atomic64_load"] = reinterpret_cast<void *>(&load);
  symbols["__tsan_atomic64_compare_exchange_val"] =
      reinterpret_cast<void *>(&compareAndExchange);
  symbols["__tsan_func_entry"] = reinterpret_cast<void *>(&ignore);
  symbols["__tsan_func_exit"] = reinterpret_cast<void *>(&ignoreNothing);
  symbols["__tsan_init"] = reinterpret_cast<void *>(&ignoreNothing);
  return symbols;
}

} // namespace

//===----------------------------------------------------------------------===//
// Compilation
//===----------------------------------------------------------------------===//

static llvm::orc::JITTargetMachineBuilder getHostMachine() {
  llvm::orc::JITTargetMachineBuilder builder{
      llvm::Triple(llvm::sys::getProcessTriple())};
  // fma must round once.
  builder.getFeatures().AddFeature("fma", true);
  builder.getFeatures().AddFeature("sse4.2", true);
  builder.setCodeGenOptLevel(llvm::CodeGenOptLevel::None);
  return builder;
}

static GpuKernel describe(LLVM::LLVMFuncOp function) {
  GpuKernel kernel;
  kernel.blocks =
      function->getAttrOfType<IntegerAttr>(kBlocksAttrName).getInt();
  kernel.threads = function
                       ->getAttrOfType<DenseI32ArrayAttr>(
                           NVVM::NVVMDialect::getReqntidAttrName())
                       .asArrayRef()
                       .front();
  kernel.isTable = function->hasAttr(kTableAttrName);
  for (int64_t bytes : getParameterBytes(function)) {
    kernel.isNumber.push_back(bytes < 0);
    kernel.bytes.push_back(std::max<int64_t>(bytes, 0));
  }
  return kernel;
}

GpuEmulator::~GpuEmulator() = default;

llvm::Expected<std::unique_ptr<GpuEmulator>>
GpuEmulator::compile(ModuleOp module) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto context = std::make_unique<llvm::LLVMContext>();
  llvm::orc::JITTargetMachineBuilder builder = getHostMachine();
  auto machine = builder.createTargetMachine();
  if (!machine)
    return machine.takeError();
  std::optional<llvm::Expected<std::unique_ptr<llvm::Module>>> made;
  LogicalResult emitted = emitPtx(module, "sm_80", [&](llvm::Module &code) {
    made.emplace(compileForHost(code, *context, **machine));
    // Nobody reads the PTX, so none is generated for the bodies.
    for (llvm::Function &function : code)
      function.deleteBody();
  });
  if (made && !*made)
    return made->takeError();
  if (!made || failed(emitted))
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "no code for the kernels");
  std::unique_ptr<llvm::Module> host = std::move(**made);
  // Optimization may drop a kernel's shared memory, or split and rename it.
  llvm::StringMap<SmallVector<std::pair<std::string, size_t>>> shared;
  for (llvm::GlobalVariable &global : host->globals())
    shared[global.getName().split('.').first].emplace_back(
        global.getName(),
        host->getDataLayout().getTypeAllocSize(global.getValueType()));
  std::unique_ptr<GpuEmulator> emulator(new GpuEmulator());
  if (llvm::Error error = emulator->start(std::move(host), std::move(builder),
                                          std::move(context)))
    return std::move(error);
  for (LLVM::LLVMFuncOp function : getGpuKernels(module)) {
    std::string name = function.getName().str();
    GpuKernel kernel = describe(function);
    auto call = emulator->findFunction(name);
    if (!call)
      return call.takeError();
    kernel.function = *call;
    for (auto &[symbol, bytes] : shared.lookup(name + "_shared")) {
      auto address = emulator->jit->lookup(symbol);
      if (!address)
        return address.takeError();
      kernel.shared.push_back({address->toPtr<void *>(), bytes, 1});
    }
    emulator->kernels[name] = kernel;
    emulator->order.push_back(name);
  }
  return emulator;
}

llvm::Expected<std::unique_ptr<GpuEmulator>>
GpuEmulator::compileFile(StringRef file) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  llvm::LLVMContext gpuContext;
  llvm::SMDiagnostic problem;
  std::unique_ptr<llvm::Module> code =
      llvm::parseIRFile(file, problem, gpuContext);
  if (!code)
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   file + ": " + problem.getMessage());
  auto context = std::make_unique<llvm::LLVMContext>();
  llvm::orc::JITTargetMachineBuilder builder = getHostMachine();
  auto machine = builder.createTargetMachine();
  if (!machine)
    return machine.takeError();
  auto host = compileForHost(*code, *context, **machine);
  if (!host)
    return host.takeError();
  llvm::DataLayout layout = (*host)->getDataLayout();
  llvm::StringMap<GpuKernel> kernels;
  for (llvm::Function &function : *code)
    if (!function.isDeclaration() && !function.hasLocalLinkage()) {
      GpuKernel &kernel = kernels[function.getName()];
      for (llvm::Argument &argument : function.args())
        kernel.isNumber.push_back(!argument.getType()->isPointerTy());
    }
  // Memory of a kernel's threads is a global with the kernel's name first.
  llvm::StringMap<size_t> shared;
  for (llvm::GlobalVariable &global : (*host)->globals())
    if (kernels.contains(global.getName().split('.').first))
      shared[global.getName()] = layout.getTypeAllocSize(global.getValueType());
  std::unique_ptr<GpuEmulator> emulator(new GpuEmulator());
  if (llvm::Error error = emulator->start(std::move(*host), std::move(builder),
                                          std::move(context)))
    return std::move(error);
  for (auto &[name, bytes] : shared) {
    auto address = emulator->jit->lookup(name);
    if (!address)
      return address.takeError();
    kernels[name.split('.').first].shared.push_back(
        {address->toPtr<void *>(), bytes, 1});
  }
  for (auto &entry : kernels) {
    auto call = emulator->findFunction(entry.getKey());
    if (!call)
      return call.takeError();
    entry.getValue().function = *call;
  }
  emulator->kernels = std::move(kernels);
  return emulator;
}

llvm::Error GpuEmulator::start(std::unique_ptr<llvm::Module> code,
                               llvm::orc::JITTargetMachineBuilder builder,
                               std::unique_ptr<llvm::LLVMContext> context) {
  auto made = llvm::orc::LLJITBuilder()
                  .setJITTargetMachineBuilder(std::move(builder))
                  .create();
  if (!made)
    return made.takeError();
  jit = std::move(*made);
  llvm::orc::SymbolMap symbols;
  for (auto &symbol : getSymbols())
    symbols[jit->mangleAndIntern(symbol.getKey())] = {
        llvm::orc::ExecutorAddr::fromPtr(symbol.getValue()),
        llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
  if (llvm::Error error = jit->getMainJITDylib().define(
          llvm::orc::absoluteSymbols(std::move(symbols))))
    return error;
  return jit->addIRModule(
      llvm::orc::ThreadSafeModule(std::move(code), std::move(context)));
}

llvm::Expected<GpuKernel::Function>
GpuEmulator::findFunction(StringRef kernel) {
  auto call = jit->lookup((kernel + kCallSuffix).str());
  if (!call)
    return call.takeError();
  return call->toPtr<GpuKernel::Function>();
}

llvm::Error GpuEmulator::launch(size_t index, ArrayRef<uint64_t> parameters) {
  const std::string &name = order.at(index);
  const GpuKernel &kernel = getKernel(name);
  SmallVector<GpuBuffer> buffers;
  {
    std::lock_guard lock(mutex);
    if (!isChecked.try_emplace(name, true).second)
      return run(name, kernel, parameters, /*accesses=*/nullptr,
                 /*backwards=*/false);
  }
  for (auto [i, bytes] : llvm::enumerate(kernel.bytes))
    if (bytes > 0)
      buffers.push_back({reinterpret_cast<void *>(parameters[i]), bytes, 1});
  return launch(name, parameters, buffers);
}

llvm::Error GpuEmulator::launch(StringRef name, ArrayRef<uint64_t> parameters,
                                ArrayRef<GpuBuffer> buffers, bool backwards) {
  const GpuKernel &kernel = getKernel(name);
  SmallVector<GpuBuffer> all(buffers);
  llvm::append_range(all, kernel.shared);
  Accesses accesses(all);
  std::lock_guard lock(mutex);
  return run(name, kernel, parameters, &accesses, backwards);
}

llvm::Error GpuEmulator::launch(StringRef name, int64_t blocks, int64_t threads,
                                ArrayRef<uint64_t> parameters,
                                ArrayRef<GpuBuffer> buffers) {
  GpuKernel kernel = getKernel(name);
  kernel.blocks = blocks;
  kernel.threads = threads;
  std::optional<Accesses> accesses;
  if (!buffers.empty()) {
    SmallVector<GpuBuffer> all(buffers);
    llvm::append_range(all, kernel.shared);
    accesses.emplace(all);
  }
  std::lock_guard lock(mutex);
  return run(name, kernel, parameters, accesses ? &*accesses : nullptr,
             /*backwards=*/false);
}

llvm::Error GpuEmulator::run(StringRef name, const GpuKernel &kernel,
                             ArrayRef<uint64_t> parameters, Accesses *accesses,
                             bool backwards) {
  std::unique_ptr<Fibers> &kept = fibersOf[kernel.threads];
  if (!kept)
    kept = std::make_unique<Fibers>(int32_t(kernel.threads));
  Fibers &fibers = *kept;
  fibers.setBlocks(int32_t(kernel.blocks));
  for (int64_t i = 0; i < kernel.blocks; ++i) {
    int64_t block = backwards ? kernel.blocks - 1 - i : i;
    for (const GpuBuffer &shared : kernel.shared) {
      // Values of another block, or of nobody.
      std::memset(shared.data, 0xFF, shared.bytes);
      if (accesses)
        accesses->forget(shared.data);
    }
    std::string problem = fibers.run(int32_t(block), backwards, accesses, [&] {
      kernel.function(parameters.data());
    });
    if (!problem.empty())
      return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                     name + ": " + problem);
  }
  return llvm::Error::success();
}
