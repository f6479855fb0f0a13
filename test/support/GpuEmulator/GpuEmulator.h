//===- GpuEmulator.h - Runs kernels of GPUs on this CPU ---------*- C++ -*-===//
//
// Compiles the optimized LLVM IR of kernels, from which PTX would be written,
// for this CPU, and runs all threads of a launch. Threads are fibers of one
// thread of the system. Reports accesses out of bounds, races between threads,
// and barriers that not all threads reach.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_SUPPORT_GPUEMULATOR_GPUEMULATOR_H
#define HEDDLE_TEST_SUPPORT_GPUEMULATOR_GPUEMULATOR_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace llvm {
class Module;
namespace orc {
class JITTargetMachineBuilder;
class LLJIT;
} // namespace orc
} // namespace llvm

namespace heddle {

/// Memory that a kernel may touch.
struct GpuBuffer {
  void *data;
  size_t bytes;
  size_t elementBytes; ///< threads that touch neighbours do not meet
};

struct GpuKernel {
  using Function = void (*)(const uint64_t *parameters);
  Function function = nullptr;
  int64_t blocks = 0, threads = 0; ///< threads of a block
  /// The only parameter is a table of those that are described here.
  bool isTable = false;
  std::vector<bool> isNumber; ///< by parameter of a copy; others are addresses
  std::vector<size_t> bytes;  ///< likewise: of the buffer; 0: a number
  std::vector<GpuBuffer> shared;
};

class GpuEmulator {
public:
  /// Compiles all kernels of a module after heddle-lower-kernels-to-gpu.
  static llvm::Expected<std::unique_ptr<GpuEmulator>>
  compile(mlir::ModuleOp module);
  ~GpuEmulator();

  /// Compiles all functions of a file of LLVM IR for NVPTX, as clang writes it.
  /// Their launches say how many threads there are.
  static llvm::Expected<std::unique_ptr<GpuEmulator>>
  compileFile(llvm::StringRef file);

  const GpuKernel &getKernel(llvm::StringRef name) const {
    return kernels.find(name)->second;
  }
  bool hasKernel(llvm::StringRef name) const { return kernels.contains(name); }

  /// Runs all threads of a launch. `backwards` runs blocks and threads from the
  /// last to the first, where nothing else orders them. An error tells the
  /// first fault of the kernel.
  llvm::Error launch(llvm::StringRef kernel,
                     llvm::ArrayRef<uint64_t> parameters,
                     llvm::ArrayRef<GpuBuffer> buffers, bool backwards = false);
  /// The same for a number of blocks and threads that the caller chooses.
  /// Checks accesses if there are buffers.
  llvm::Error launch(llvm::StringRef kernel, int64_t blocks, int64_t threads,
                     llvm::ArrayRef<uint64_t> parameters,
                     llvm::ArrayRef<GpuBuffer> buffers);
  /// The same for the kernel with an index. Checks accesses in the first launch
  /// of each kernel. Several threads may call this.
  llvm::Error launch(size_t kernel, llvm::ArrayRef<uint64_t> parameters);

private:
  GpuEmulator() = default;
  llvm::Error start(std::unique_ptr<llvm::Module> code,
                    llvm::orc::JITTargetMachineBuilder builder,
                    std::unique_ptr<llvm::LLVMContext> context);
  llvm::Expected<GpuKernel::Function> findFunction(llvm::StringRef kernel);
  llvm::Error run(llvm::StringRef kernel, const GpuKernel &shape,
                  llvm::ArrayRef<uint64_t> parameters, class Accesses *accesses,
                  bool backwards);

  std::unique_ptr<llvm::orc::LLJIT> jit;
  llvm::StringMap<GpuKernel> kernels;
  std::vector<std::string> order;  ///< names of kernels
  llvm::StringMap<bool> isChecked; ///< by kernel
  /// By the threads of a block: their stacks are used again.
  std::map<int64_t, std::unique_ptr<class Fibers>> fibersOf;
  std::mutex mutex; ///< of launches: kernels have one shared memory
};

} // namespace heddle

#endif // HEDDLE_TEST_SUPPORT_GPUEMULATOR_GPUEMULATOR_H
