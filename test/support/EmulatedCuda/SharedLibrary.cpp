//===- SharedLibrary.cpp - A libcuda.so.1 of the emulated GPU -------------===//
//
// The functions of the emulated driver, cuBLASLt and cuDNN as one shared
// object, which programs find through HEDDLE_RT_CUDA_PATH. PTX cannot be run
// here. So HEDDLE_EMULATED_GPU_MODULE names the module in phase `llvm` from
// which the PTX was made, and its kernels are compiled for this CPU.
// HEDDLE_EMULATED_GPU_SEED chooses among the orders of streams.
// HEDDLE_EMULATED_GPU_MACHINE changes what the machine has, such as
// "gpus=0,driver=11040,chip=86,memory=1048576,cublaslt=110000,cudnn=91000,
// cudnncuda=12040".
//
//===----------------------------------------------------------------------===//

#include "State.h"
#include "heddle/InitAll.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include <cstdlib>
#include <tuple>

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

/// Returns the machine of a list of names and numbers.
static emulated::Machine parseMachine(llvm::StringRef text) {
  emulated::Machine machine;
  for (llvm::StringRef each : llvm::split(text, ',')) {
    auto [name, number] = each.split('=');
    size_t value = 0;
    if (number.getAsInteger(10, value))
      llvm::report_fatal_error("HEDDLE_EMULATED_GPU_MACHINE: " + each);
    if (name == "gpus")
      machine.gpus = int(value);
    else if (name == "driver")
      machine.driverVersion = int(value);
    else if (name == "chip")
      std::tie(machine.major, machine.minor) =
          std::pair(int(value / 10), int(value % 10));
    else if (name == "memory")
      machine.memoryBytes = value;
    else if (name == "cublaslt")
      machine.cublasLtVersion = value;
    else if (name == "cudnn")
      machine.cudnnVersion = value;
    else if (name == "cudnncuda")
      machine.cudnnCudaVersion = value;
    else
      llvm::report_fatal_error("HEDDLE_EMULATED_GPU_MACHINE: " + each);
  }
  return machine;
}

[[gnu::constructor]] static void initialize() {
  if (const char *text = std::getenv("HEDDLE_EMULATED_GPU_MACHINE"))
    emulated::setMachine(parseMachine(text));
  if (const char *seed = std::getenv("HEDDLE_EMULATED_GPU_SEED"))
    emulated::setOrder(std::strtoull(seed, nullptr, 10));
  if (const char *file = std::getenv("HEDDLE_EMULATED_GPU_MODULE"))
    // Not now: the threads of the compiler need the lock of the loader, which
    // is held while this runs.
    emulated::Gpu::get().loadKernels = [file] { return compile(file); };
}
