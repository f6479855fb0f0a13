//===- KernelRunner.h - Runs tensor functions in this process ---*- C++ -*-===//
//
// Compiles functions of local tensors with the kernel passes of the lowering
// (decompose, form, lower, LLVM -O2 for this CPU) and calls their kernels one
// after the other, for tests and benchmarks of kernels. A function may hold
// only views and ops that become kernels.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_SUPPORT_KERNELRUNNER_KERNELRUNNER_H
#define HEDDLE_TEST_SUPPORT_KERNELRUNNER_KERNELRUNNER_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace heddle {

/// The type heddle_rt_kernel_fn of heddle_rt/abi.h.
using KernelFunction = void (*)(void *const *buffers, int64_t begin,
                                int64_t end);

class KernelRunner {
public:
  struct Options {
    bool fuse = true;
    /// Print the optimized LLVM IR to standard error.
    bool dump = false;
    /// Compile for a GPU and run on the emulator of GPUs, with these threads
    /// sharing a row: auto, thread, warp or block. Empty: for this CPU.
    std::string gpuRows = "";
    /// Changes the module of a GPU's kernels before they are optimized, to
    /// plant faults.
    std::function<void(mlir::ModuleOp)> change = nullptr;
  };
  /// Calls a kernel on ranges that cover [0, blocks), each of at least `grain`
  /// blocks.
  using Launcher =
      std::function<void(KernelFunction kernel, void *const *buffers,
                         int64_t blocks, int64_t grain)>;

  /// Compiles a module's text. An error names the op that cannot be compiled.
  static llvm::Expected<std::unique_ptr<KernelRunner>>
  compile(llvm::StringRef text, const Options &options);
  static llvm::Expected<std::unique_ptr<KernelRunner>>
  compile(llvm::StringRef text) {
    return compile(text, Options());
  }
  ~KernelRunner();

  /// Calls a function. Tensors are dense and row-major; an i1 takes a byte,
  /// bf16 and f16 take 16 bits. An index argument is a pointer to an int64_t. A
  /// result may share the buffer of an argument if `canReuse` returns true.
  llvm::Error run(llvm::StringRef function, llvm::ArrayRef<void *> arguments,
                  llvm::ArrayRef<void *> results,
                  const Launcher &launch = nullptr);
  /// Returns whether kernels run on the emulator of GPUs. It takes no launcher;
  /// with one, blocks and threads run backwards. An error of `run` then also
  /// tells an access out of bounds or a race.
  bool isGpu() const;

  /// Whether the kernel that computes a result may overwrite an argument with
  /// it.
  bool canReuse(llvm::StringRef function, unsigned result, unsigned argument);
  /// How many kernels a function calls.
  unsigned countKernels(llvm::StringRef function) const;

private:
  llvm::Error runOnGpu(llvm::StringRef function,
                       llvm::ArrayRef<void *> arguments,
                       llvm::ArrayRef<void *> results, bool backwards);

  struct State;
  explicit KernelRunner(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

} // namespace heddle

#endif // HEDDLE_TEST_SUPPORT_KERNELRUNNER_KERNELRUNNER_H
