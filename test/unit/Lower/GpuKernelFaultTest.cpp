//===- GpuKernelFaultTest.cpp - Faults in kernels are found ---------------===//
//
// Plants faults in kernels for GPUs, and looks for the report of the emulator.
//
//===----------------------------------------------------------------------===//

#include "Kernels.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "test/support/GpuEmulator/GpuEmulator.h"
#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace heddle;

namespace {

/// Runs a kernel in which 64 threads reverse 64 numbers through shared memory.
/// `between` stands between the writes and the reads.
std::string reverse(const std::string &between) {
  std::filesystem::path file =
      std::filesystem::temp_directory_path() /
      ("heddle-reverse-" + std::to_string(::getpid()) + ".ll");
  std::ofstream(file) << R"(
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
@reverse.tile = internal addrspace(3) global [64 x float] undef, align 4
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare void @llvm.nvvm.barrier0()
declare void @llvm.nvvm.bar.warp.sync(i32)
declare i32 @llvm.nvvm.shfl.sync.bfly.i32(i32, i32, i32, i32)
declare i32 @llvm.nvvm.vote.ballot.sync(i32, i1)
define void @reverse(ptr %data) {
  %thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %from = getelementptr float, ptr %data, i32 %thread
  %value = load float, ptr %from, align 4
  %place = getelementptr float, ptr addrspace(3) @reverse.tile, i32 %thread
  store float %value, ptr addrspace(3) %place, align 4
)" << between << R"(
  %other = sub i32 63, %thread
  %there = getelementptr float, ptr addrspace(3) @reverse.tile, i32 %other
  %result = load float, ptr addrspace(3) %there, align 4
  store float %result, ptr %from, align 4
  ret void
}
)";
  auto emulator = GpuEmulator::compileFile(file.string());
  std::filesystem::remove(file);
  if (!emulator)
    return llvm::toString(emulator.takeError());
  std::vector<float> data(64);
  for (size_t i = 0; i < data.size(); ++i)
    data[i] = float(i);
  uint64_t parameter = reinterpret_cast<uint64_t>(data.data());
  llvm::Error error = (*emulator)->launch(
      "reverse", 1, 64, parameter,
      GpuBuffer{data.data(), data.size() * sizeof(float), 4});
  if (error)
    return llvm::toString(std::move(error));
  for (size_t i = 0; i < data.size(); ++i)
    if (data[i] != float(63 - i))
      return "wrong numbers";
  return "";
}

/// Two arms of a branch that both run `arm`. Threads below `border` take the
/// first one.
std::string branch(int border, const std::string &arm) {
  return "%isLow = icmp ult i32 %thread, " + std::to_string(border) +
         "\nbr i1 %isLow, label %low, label %high\n"
         "low:\n" +
         arm + "\nbr label %after\nhigh:\n" + arm +
         "\nbr label %after\nafter:\n";
}

const std::string kBarrier = "call void @llvm.nvvm.barrier0()\n";

TEST(GpuKernelFaultTest, Barriers) {
  EXPECT_EQ(reverse(kBarrier), "");
  std::string removed = reverse("");
  EXPECT_NE(removed.find("with no barrier between them"), std::string::npos)
      << removed;
  std::string divergent = reverse("%isLow = icmp ult i32 %thread, 40\n"
                                  "br i1 %isLow, label %low, label %high\n"
                                  "high:\nret void\nlow:\n" +
                                  kBarrier);
  EXPECT_NE(divergent.find("waits at a barrier that not all threads reach"),
            std::string::npos)
      << divergent;
}

/// The lanes of a warp wait for each other at one place of the kernel.
TEST(GpuKernelFaultTest, BothArms) {
  // Different warps may wait for the block at different places.
  EXPECT_EQ(reverse(branch(32, kBarrier)), "");
  const char *fault = "thread 40 of block 0 waits for thread 32 of its warp, "
                      "which waits at another place of the kernel";
  std::string report = reverse(branch(40, kBarrier));
  EXPECT_NE(report.find(fault), std::string::npos) << report;
  for (std::string call :
       {"call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 7, i32 1, i32 31)",
        "call i32 @llvm.nvvm.vote.ballot.sync(i32 -1, i1 true)",
        "call void @llvm.nvvm.bar.warp.sync(i32 -1)"}) {
    EXPECT_EQ(reverse(call + "\n" + kBarrier), "");
    EXPECT_EQ(reverse(branch(32, call) + kBarrier), "");
    report = reverse(branch(40, call) + kBarrier);
    EXPECT_NE(report.find(fault), std::string::npos) << report;
  }
}

/// Operations of a warp name all of its lanes.
TEST(GpuKernelFaultTest, SomeLanes) {
  for (const char *call :
       {"call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 255, i32 7, i32 1, i32 31)",
        "call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 7, i32 1, i32 7)",
        "call i32 @llvm.nvvm.vote.ballot.sync(i32 -2, i1 true)",
        "call void @llvm.nvvm.bar.warp.sync(i32 65535)"}) {
    std::string report = reverse(call + ("\n" + kBarrier));
    EXPECT_NE(report.find("thread 0 of block 0 waits for some lanes of its "
                          "warp, not for all"),
              std::string::npos)
        << report;
  }
}

//===----------------------------------------------------------------------===//
// In kernels that the compiler emits
//===----------------------------------------------------------------------===//

struct Program {
  std::string text;
  std::vector<size_t> arguments, results; ///< elements
};

/// A normalization with its gradient: sums of rows, and of blocks of rows.
const Program kNormalization = {R"(
func.func @f(%x: tensor<24x300xf32>, %w: tensor<300xf32>, %b: tensor<300xf32>, %dy: tensor<24x300xf32>)
    -> (tensor<24x300xf32>, tensor<24xf32>, tensor<24xf32>, tensor<24x300xf32>, tensor<300xf32>, tensor<300xf32>) {
  %y, %mean, %rstd = heddle.layer_norm "n" %x, %w, %b epsilon(1.0e-5)
    : (tensor<24x300xf32>, tensor<300xf32>, tensor<300xf32>) -> (tensor<24x300xf32>, tensor<24xf32>, tensor<24xf32>)
  %dx, %dw, %db = heddle.layer_norm_grad "n" %x, %w, %mean, %rstd, %dy
    : (tensor<24x300xf32>, tensor<300xf32>, tensor<24xf32>, tensor<24xf32>, tensor<24x300xf32>)
    -> (tensor<24x300xf32>, tensor<300xf32>, tensor<300xf32>)
  return %y, %mean, %rstd, %dx, %dw, %db : tensor<24x300xf32>, tensor<24xf32>, tensor<24xf32>, tensor<24x300xf32>, tensor<300xf32>, tensor<300xf32>
})",
                                {7200, 300, 300, 7200},
                                {7200, 24, 24, 7200, 300, 300}};

/// Compiles the program without the barrier number `erased`, and runs it.
/// Counts the barriers that it has in `count`. Returns the report.
std::string runWithout(const Program &program, const char *rows, int64_t erased,
                       int64_t &count) {
  KernelRunner::Options options;
  options.gpuRows = rows;
  options.change = [&](mlir::ModuleOp module) {
    std::vector<mlir::Operation *> barriers;
    module.walk([&](mlir::Operation *op) {
      if (mlir::isa<mlir::NVVM::Barrier0Op, mlir::NVVM::SyncWarpOp>(op))
        barriers.push_back(op);
    });
    count = int64_t(barriers.size());
    if (erased >= 0)
      barriers.at(size_t(erased))->erase();
  };
  auto runner = KernelRunner::compile(program.text, options);
  if (!runner)
    return "compile: " + llvm::toString(runner.takeError());
  std::vector<test::Floats> memory;
  std::vector<void *> arguments, results;
  for (size_t size : program.arguments)
    memory.push_back(test::draw(size, unsigned(memory.size())));
  for (size_t size : program.results)
    memory.emplace_back(size);
  for (test::Floats &each : memory)
    (arguments.size() < program.arguments.size() ? arguments : results)
        .push_back(each.data());
  llvm::Error error = (*runner)->run("f", arguments, results);
  return error ? llvm::toString(std::move(error)) : "";
}

/// No barrier of these kernels may be missing.
TEST(GpuKernelFaultTest, EachBarrierIsNeeded) {
  for (const char *rows : {"block", "warp"}) {
    int64_t count = 0;
    EXPECT_EQ(runWithout(kNormalization, rows, -1, count), "");
    EXPECT_GE(count, 1);
    for (int64_t i = 0, end = count; i < end; ++i) {
      std::string report = runWithout(kNormalization, rows, i, count);
      EXPECT_NE(report.find("with no barrier between them"), std::string::npos)
          << rows << ", barrier " << i << " of " << end << ": " << report;
    }
  }
}

} // namespace
