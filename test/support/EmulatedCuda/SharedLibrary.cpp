//===- SharedLibrary.cpp - A libcuda.so.1 of the emulated GPU -------------===//
//
// The functions of the emulated driver, cuBLASLt and cuDNN as one shared
// object, which programs find through HEDDLE_RT_CUDA_PATH. PTX cannot be run
// here. So HEDDLE_EMULATED_GPU_MODULE names the module in phase `llvm` from
// which the PTX was made, and its kernels are compiled for this CPU.
// HEDDLE_EMULATED_GPU_SEED chooses among the orders of streams.
//
//===----------------------------------------------------------------------===//

#include "State.h"
#include "heddle/InitAll.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include <cstdlib>

using namespace heddle;

static std::unique_ptr<GpuEmulator> compile(const char *file) {
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(file, &context);
  if (!module)
    return nullptr; // its diagnostics are printed
  auto kernels = GpuEmulator::compile(*module);
  if (!kernels) {
    llvm::errs() << "emulated GPU: " << llvm::toString(kernels.takeError())
                 << "\n";
    return nullptr;
  }
  return std::move(*kernels);
}

[[gnu::constructor]] static void initialize() {
  if (const char *seed = std::getenv("HEDDLE_EMULATED_GPU_SEED"))
    emulated::setOrder(std::strtoull(seed, nullptr, 10));
  if (const char *file = std::getenv("HEDDLE_EMULATED_GPU_MODULE"))
    // Not now: the threads of the compiler need the lock of the loader, which
    // is held while this runs.
    emulated::Gpu::get().loadKernels = [file] { return compile(file); };
}
